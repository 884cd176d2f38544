// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// arch_mixed serve|call PORT: two processes, on a host each, that connect and take turns in using every operation on
// the other's memory. KIWARP_TEST_CLIENT and KIWARP_TEST_SERVER are the addresses of both. Whoever's memory it is
// compares each octet; a test of either process is a line "ok NAME" or "not ok NAME: REASON".
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../lib/connection.hpp"

namespace {

constexpr std::size_t room = 8 << 20;
constexpr int access_all = vt::all_access | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr std::uint32_t imm = 0x11223344;
constexpr std::uint64_t before = 0x0102030405060708, added = 0x1000000000000001, swapped = 0xfedcba9876543210;

/// What an end tells its peer of its memory, in network byte order
struct Offer {
	__be64 address;
	__be32 rkey;
	__be32 window;
};

int failures = 0;

void report(const std::string &name, const std::string &reason)
{
	if (reason.empty())
		std::printf("ok %s\n", name.c_str());
	else
		std::printf("not ok %s: %s\n", name.c_str(), reason.c_str());
	failures += !reason.empty();
}

void must(int error, const char *what)
{
	if (error)
		vt::fail(what, error);
}

/// One end: the memory that its peer uses, and memory with what has to be there
class End {
public:
	explicit End(std::unique_ptr<vt::Side> side)
		: side_(std::move(side)),
		  shared_(side_->pd(), room, access_all),
		  own_(side_->pd(), room),
		  window_(ibv_alloc_mw(side_->pd(), IBV_MW_TYPE_2))
	{
		if (!window_)
			vt::fail("ibv_alloc_mw", errno);
	}
	~End()
	{
		side_->destroy_qp();
		ibv_dealloc_mw(window_);
	}
	End(const End &) = delete;
	End &operator=(const End &) = delete;

	vt::Side &side() { return *side_; }
	const vt::Region &shared() const { return shared_; }
	const vt::Region &own() const { return own_; }

	/// Tells the peer where its memory is, and learns that of the peer.
	void meet()
	{
		ibv_send_wr wr{}, *bad = nullptr;
		std::vector<ibv_sge> to{own_.sge(0, sizeof(Offer))};

		wr.opcode = IBV_WR_BIND_MW;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.bind_mw = {window_, ibv_inc_rkey(window_->rkey),
			{shared_.mr(), shared_.address(), room, IBV_ACCESS_REMOTE_WRITE}};
		must(side_->receive(to), "ibv_post_recv");
		must(ibv_post_send(side_->qp(), &wr, &bad), "ibv_post_send of a bind");
		must(side_->sent("the bind").status, "the bind");
		window_->rkey = wr.bind_mw.rkey;

		const Offer offer{htobe64(shared_.address()), htobe32(shared_.rkey()), htobe32(window_->rkey)};
		std::memcpy(own_.data() + sizeof(Offer), &offer, sizeof(offer));
		must(side_->send({own_.sge(sizeof(Offer), sizeof(Offer))}), "ibv_post_send");
		must(side_->sent().status, "the offer");
		must(side_->received("the peer's offer").status, "the peer's offer");
		std::memcpy(&peer_, own_.data(), sizeof(peer_));
	}

	vt::Work at_peer(std::size_t offset = 0) const
	{
		return {.remote = be64toh(peer_.address) + offset, .rkey = be32toh(peer_.rkey)};
	}
	std::uint32_t peers_window() const { return be32toh(peer_.window); }
	std::uint32_t window_key() const { return window_->rkey; }

	/// Empty messages: the one end waits for the other's.
	void tell()
	{
		must(side_->send(), "ibv_post_send");
		must(side_->sent("an empty message").status, "an empty message");
	}
	void hear()
	{
		must(side_->receive(), "ibv_post_recv");
		must(side_->received("an empty message").status, "an empty message");
	}

	/// What has come is what the peer's pattern of that seed is.
	std::string compare(std::uint32_t seed, std::size_t length) const
	{
		own_.fill_pattern(seed);
		return vt::same(shared_.bytes(0, length), own_.bytes(0, length)) ? "" : "other octets";
	}

private:
	std::unique_ptr<vt::Side> side_;
	vt::Region shared_, own_;
	ibv_mw *window_;
	Offer peer_{};
};

struct Message {
	const char *name;
	ibv_wr_opcode opcode;
	std::size_t length;
};

const std::vector<Message> messages{
	{"send_nothing", IBV_WR_SEND, 0},
	{"send_1", IBV_WR_SEND, 1},
	{"send_4097", IBV_WR_SEND, 4097},
	{"send_1m", IBV_WR_SEND, 1 << 20},
	{"send_with_imm", IBV_WR_SEND_WITH_IMM, 5000},
	{"send_with_inv", IBV_WR_SEND_WITH_INV, 5000},
	{"write_7", IBV_WR_RDMA_WRITE, 7},
	{"write_70000", IBV_WR_RDMA_WRITE, 70000},
	{"write_8m", IBV_WR_RDMA_WRITE, room},
	{"write_with_imm", IBV_WR_RDMA_WRITE_WITH_IMM, 300000},
};

bool is_write(const Message &m)
{
	return m.opcode == IBV_WR_RDMA_WRITE || m.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/// What a receive request must say of a message
std::string wrong_completion(const Message &m, const ibv_wc &wc, std::uint32_t window)
{
	if (wc.status != IBV_WC_SUCCESS)
		return ibv_wc_status_str(wc.status);
	if (m.opcode != IBV_WR_RDMA_WRITE && wc.byte_len != m.length)
		return "its length is " + std::to_string(wc.byte_len);
	const bool has_imm = m.opcode == IBV_WR_SEND_WITH_IMM || m.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	if (has_imm != !!(wc.wc_flags & IBV_WC_WITH_IMM) || (has_imm && wc.imm_data != htobe32(imm)))
		return "other immediate data";
	const bool invalidates = m.opcode == IBV_WR_SEND_WITH_INV;
	if (invalidates != !!(wc.wc_flags & IBV_WC_WITH_INV) || (invalidates && wc.invalidated_rkey != window))
		return "another key is invalid";
	return "";
}

/// The end whose turn it is
void use(End &end, const std::string &name)
{
	std::uint32_t seed = 0;

	for (const Message &m : messages) {
		vt::Work work = is_write(m) ? end.at_peer() : vt::Work{};

		end.hear();
		end.own().fill_pattern(++seed);
		work.imm = htobe32(imm);
		work.invalidate = end.peers_window();
		must(end.side().post(m.opcode, {end.own().sge(0, m.length)}, work), m.name);
		const ibv_wc wc = end.side().sent(m.name);
		report(name + "." + m.name, wc.status ? ibv_wc_status_str(wc.status) : "");
		// A Write alone takes no receive request.
		if (m.opcode == IBV_WR_RDMA_WRITE)
			end.tell();
	}
	for (const std::size_t length : {std::size_t{1}, std::size_t{5000}, std::size_t{1 << 20}, room}) {
		end.hear();
		must(end.side().read({end.shared().sge(0, length)}, end.at_peer()), "ibv_post_send of a Read");
		must(end.side().sent("a Read").status, "a Read");
		report(name + ".read_" + std::to_string(length), end.compare(++seed, length));
		end.tell();
	}

	const auto returned = [&](ibv_wr_opcode opcode, std::uint64_t compare_add, std::uint64_t swap) {
		vt::Work work = end.at_peer(8);
		std::uint64_t old = 0;

		work.compare_add = compare_add;
		work.swap = swap;
		must(end.side().post(opcode, {end.own().sge(0, 8)}, work), "ibv_post_send of an atomic");
		must(end.side().sent("an atomic").status, "an atomic");
		std::memcpy(&old, end.own().data(), sizeof(old));
		return old;
	};
	end.hear();
	report(name + ".fetch_and_add",
		returned(IBV_WR_ATOMIC_FETCH_AND_ADD, added, 0) == before ? "" : "another old value");
	report(name + ".compare_and_swap",
		returned(IBV_WR_ATOMIC_CMP_AND_SWP, before + added, swapped) == before + added ? ""
											       : "another old value");
	end.tell();
}

/// The other end, whose memory it is
void serve(End &end, const std::string &name)
{
	const std::uint32_t window = end.window_key();
	std::uint32_t seed = 0;

	for (const Message &m : messages) {
		end.shared().fill(0);
		must(end.side().receive(m.opcode == IBV_WR_RDMA_WRITE ? vt::Sges{} : vt::Sges{end.shared().sge()}),
			"ibv_post_recv");
		end.tell();
		const std::string wrong = wrong_completion(m, end.side().received(m.name), window);
		const std::string other = end.compare(++seed, m.length);
		report(name + "." + m.name, wrong.empty() ? other : wrong);
	}
	for (int reads = 0; reads < 4; reads++) {
		end.shared().fill_pattern(++seed);
		end.tell();
		end.hear();
	}
	std::uint64_t word = before;
	std::memcpy(end.shared().data() + 8, &word, sizeof(word));
	end.tell();
	end.hear();
	std::memcpy(&word, end.shared().data() + 8, sizeof(word));
	report(name + ".word", word == swapped ? "" : "another value");
}

/// The caller reads what it may not: both ends learn of it, the caller why.
void violate(End &end)
{
	must(end.side().read({end.own().sge(0, 8)}, end.at_peer(room)), "ibv_post_send of a Read");
	const ibv_wc wc = end.side().sent("the refused Read");
	report("caller.violation", wc.status == IBV_WC_REM_ACCESS_ERR ? "" : ibv_wc_status_str(wc.status));
	end.side().wait_disconnected();
}

/// The other host may come later.
std::unique_ptr<vt::Side> connect(std::uint16_t port)
{
	for (int tries = 0; tries < 600; tries++) {
		auto side = vt::start_connecting(port, {});
		const vt::Event event = side->events().wait_any(side->id());

		if (event.type == RDMA_CM_EVENT_ESTABLISHED)
			return side;
		if (event.type != RDMA_CM_EVENT_REJECTED)
			vt::fail(rdma_event_str(event.type), -event.status);
		std::this_thread::sleep_for(std::chrono::seconds(1));
	}
	vt::fail("nobody listens");
}

int run(bool serves, std::uint16_t port)
{
	std::unique_ptr<vt::Listener> listener;
	std::unique_ptr<vt::Side> side;

	if (serves) {
		listener = std::make_unique<vt::Listener>(1, port);
		side = vt::accept(*listener, {});
		side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
	} else {
		side = connect(port);
	}
	End end(std::move(side));
	end.meet();
	if (serves) {
		serve(end, "server");
		use(end, "server_uses");
		end.side().wait_disconnected();
		report("server.violation", end.side().state() == IBV_QPS_ERR ? "" : "the queue pair isn't in error");
	} else {
		use(end, "caller_uses");
		serve(end, "caller");
		violate(end);
	}
	return failures || testing::Test::HasFailure() ? 1 : 0;
}

} // namespace

int main(int argc, char **argv)
{
	const std::string role = argc == 3 ? argv[1] : "";

	if (role != "serve" && role != "call")
		return 2;
	try {
		return run(role == "serve", static_cast<std::uint16_t>(std::atoi(argv[2]))); // NOLINT(cert-err34-c)
	} catch (const std::exception &e) {
		std::printf("not ok %s: %s\n", role.c_str(), e.what());
		return 1;
	}
}
