// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// rpma_copy server|client ADDRESS PORT: librpma, which makes queue pairs by rdma_create_qp_ex(), with builders. The
// client writes into the server's memory, flushes, reads it back, writes eight bytes at once, and sends the server a
// message.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <librpma.h>
#include <string>
#include <sys/mman.h>

namespace {

constexpr std::size_t size = 65536;
constexpr std::size_t half = size / 2;
constexpr std::size_t message = 64;

void need(int error, const char *what)
{
	if (!error)
		return;
	std::fprintf(stderr, "%s: %s\n", what, rpma_err_2str(error));
	std::exit(1);
}

void need_true(bool good, const char *what)
{
	if (good)
		return;
	std::fprintf(stderr, "%s\n", what);
	std::exit(1);
}

/// What the server tells the client in the private data
struct Descriptor {
	std::uint64_t length;
	char bytes[48];
};

class Peer {
public:
	Peer(const char *address, rpma_util_ibv_context_type type, int usage)
	{
		ibv_context *context = nullptr;

		need(rpma_utils_get_ibv_context(address, type, &context), "rpma_utils_get_ibv_context");
		need(rpma_peer_new(context, &peer), "rpma_peer_new");
		memory = static_cast<char *>(
			mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
		need_true(memory != MAP_FAILED, "mmap");
		need(rpma_mr_reg(peer, memory, size, usage, &region), "rpma_mr_reg");
	}

	/// Waits for a completion, which must be good.
	void complete(const char *what) const
	{
		rpma_cq *cq = nullptr;
		ibv_wc wc{};

		need(rpma_conn_get_cq(connection, &cq), "rpma_conn_get_cq");
		need(rpma_cq_wait(cq), what);
		need(rpma_cq_get_wc(cq, 1, &wc, nullptr), what);
		if (wc.status != IBV_WC_SUCCESS)
			std::fprintf(stderr, "%s: ", what);
		need_true(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	}

	void expect(rpma_conn_event wanted) const
	{
		rpma_conn_event event{};

		need(rpma_conn_next_event(connection, &event), "rpma_conn_next_event");
		if (event != wanted)
			std::fprintf(stderr, "%s, not ", rpma_utils_conn_event_2str(event));
		need_true(event == wanted, rpma_utils_conn_event_2str(wanted));
	}

	void end()
	{
		need(rpma_conn_disconnect(connection), "rpma_conn_disconnect");
		need(rpma_conn_delete(&connection), "rpma_conn_delete");
		need(rpma_mr_dereg(&region), "rpma_mr_dereg");
		need(rpma_peer_delete(&peer), "rpma_peer_delete");
	}

	rpma_peer *peer = nullptr;
	rpma_mr_local *region = nullptr;
	rpma_conn *connection = nullptr;
	char *memory = nullptr;
};

char content(std::size_t place)
{
	return static_cast<char>(place * 7 + place / 253);
}

void serve(const char *address, const char *port)
{
	Peer here(address, RPMA_UTIL_IBV_CONTEXT_LOCAL,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
			RPMA_MR_USAGE_RECV);
	rpma_ep *endpoint = nullptr;
	rpma_conn_req *request = nullptr;
	Descriptor descriptor{};
	std::size_t length = 0;

	need(rpma_mr_get_descriptor_size(here.region, &length), "rpma_mr_get_descriptor_size");
	need_true(length <= sizeof(descriptor.bytes), "the descriptor is longer than expected");
	descriptor.length = length;
	need(rpma_mr_get_descriptor(here.region, descriptor.bytes), "rpma_mr_get_descriptor");
	rpma_conn_private_data data{&descriptor, sizeof(descriptor)};
	need(rpma_ep_listen(here.peer, address, port, &endpoint), "rpma_ep_listen");
	need(rpma_ep_next_conn_req(endpoint, nullptr, &request), "rpma_ep_next_conn_req");
	need(rpma_conn_req_recv(request, here.region, half, message, nullptr), "rpma_conn_req_recv");
	need(rpma_conn_req_connect(&request, &data, &here.connection), "rpma_conn_req_connect");
	here.expect(RPMA_CONN_ESTABLISHED);
	here.complete("receive");
	for (std::size_t i = 8; i < half; i++)
		need_true(here.memory[i] == content(i), "the server's memory isn't what was written");
	need_true(!std::memcmp(here.memory, "at once!", 8), "the eight bytes aren't there");
	need_true(!std::strcmp(here.memory + half, "all is written"), "another message came");
	here.expect(RPMA_CONN_CLOSED);
	need(rpma_ep_shutdown(&endpoint), "rpma_ep_shutdown");
	here.end();
}

void call(const char *address, const char *port)
{
	Peer here(address, RPMA_UTIL_IBV_CONTEXT_REMOTE,
		RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND);
	rpma_conn_req *request = nullptr;
	rpma_mr_remote *there = nullptr;
	rpma_conn_private_data data{};
	Descriptor descriptor{};

	need(rpma_conn_req_new(here.peer, address, port, nullptr, &request), "rpma_conn_req_new");
	need(rpma_conn_req_connect(&request, nullptr, &here.connection), "rpma_conn_req_connect");
	here.expect(RPMA_CONN_ESTABLISHED);
	need(rpma_conn_get_private_data(here.connection, &data), "rpma_conn_get_private_data");
	need_true(data.ptr && data.len >= sizeof(descriptor), "no descriptor came");
	std::memcpy(&descriptor, data.ptr, sizeof(descriptor));
	need(rpma_mr_remote_from_descriptor(descriptor.bytes, descriptor.length, &there),
		"rpma_mr_remote_from_descriptor");

	for (std::size_t i = 0; i < half; i++)
		here.memory[i] = content(i);
	need(rpma_write(here.connection, there, 0, here.region, 0, half, RPMA_F_COMPLETION_ALWAYS, nullptr),
		"rpma_write");
	here.complete("write");
	need(rpma_flush(here.connection, there, 0, half, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, nullptr),
		"rpma_flush");
	here.complete("flush");
	need(rpma_read(here.connection, here.region, half, there, 0, half, RPMA_F_COMPLETION_ALWAYS, nullptr),
		"rpma_read");
	here.complete("read");
	need_true(!std::memcmp(here.memory, here.memory + half, half), "what was read isn't what was written");
	std::memcpy(here.memory, "at once!", 8);
	need(rpma_atomic_write(here.connection, there, 0, here.memory, RPMA_F_COMPLETION_ALWAYS, nullptr),
		"rpma_atomic_write");
	here.complete("atomic write");
	std::strcpy(here.memory + message, "all is written"); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
	need(rpma_send(here.connection, here.region, message, message, RPMA_F_COMPLETION_ALWAYS, nullptr), "rpma_send");
	here.complete("send");
	need(rpma_mr_remote_delete(&there), "rpma_mr_remote_delete");
	here.end();
}

} // namespace

int main(int argc, char **argv)
{
	const std::string role = argc == 4 ? argv[1] : "";

	if (role == "server")
		serve(argv[2], argv[3]);
	else if (role == "client")
		call(argv[2], argv[3]);
	else
		return std::fprintf(stderr, "usage: rpma_copy server|client ADDRESS PORT\n"), 2;
	std::puts("all is well");
	return 0;
}
