// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// many server ADDRESS PORT CONNECTIONS [ROUNDS]
// many client ADDRESS PORT CONNECTIONS [ROUNDS]
//
// The client makes all connections, and only when all are up sends ROUNDS messages on each; the server sends every one
// back, and the client compares each byte. Then it closes all. One thread a side; everything is non-blocking.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace {

constexpr uint32_t message = 2000;
// Attempts under way at once: what a listener's backlog surely has room for
constexpr int window = 64;
constexpr int patience_ms = 60000;

[[noreturn]] void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

void check(bool good, const char *what)
{
	if (!good)
		fail(what);
}

struct Connection {
	rdma_cm_id *id;
	int index;
	int sent;
	int received;
};

class Many {
public:
	Many(bool client, const char *address, const char *port, int total_connections, int total_rounds);
	void run();

private:
	void open(ibv_context *verbs);
	void attach(Connection &c, rdma_cm_id *id);
	void connect_more();
	void post_receive(Connection &c);
	void post_send(Connection &c);
	void fill(Connection &c);
	void on_event(rdma_cm_event *event);
	void on_completion(const ibv_wc &wc);
	uint8_t *out(const Connection &c) { return memory.data() + size_t(c.index) * 2 * message; }
	uint8_t *in(const Connection &c) { return out(c) + message; }

	bool is_client;
	int total, rounds;
	addrinfo *where;
	rdma_event_channel *channel;
	rdma_cm_id *listener = nullptr;
	ibv_pd *pd = nullptr;
	ibv_comp_channel *completions = nullptr;
	ibv_cq *cq = nullptr;
	ibv_mr *mr = nullptr;
	std::vector<uint8_t> memory;
	std::vector<Connection> all;
	std::unordered_map<uint32_t, Connection *> by_qp;
	int begun = 0, up = 0, finished = 0, closed = 0;
};

Many::Many(bool client, const char *address, const char *port, int total_connections, int total_rounds)
	: is_client(client),
	  total(total_connections),
	  rounds(total_rounds),
	  memory(size_t(total) * 2 * message),
	  all(total)
{
	addrinfo hints = {};

	hints.ai_flags = AI_NUMERICHOST;
	check(!getaddrinfo(address, port, &hints, &where), "address");
	channel = rdma_create_event_channel();
	check(channel, "rdma_create_event_channel");
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < total; i++)
		all[i].index = i;
	if (is_client)
		return;
	check(!rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), "rdma_create_id");
	check(!rdma_bind_addr(listener, where->ai_addr), "rdma_bind_addr");
	check(!rdma_listen(listener, 2 * window), "rdma_listen");
}

void Many::open(ibv_context *verbs)
{
	if (pd)
		return;
	pd = ibv_alloc_pd(verbs);
	check(pd, "ibv_alloc_pd");
	completions = ibv_create_comp_channel(verbs);
	check(completions, "ibv_create_comp_channel");
	fcntl(completions->fd, F_SETFL, O_NONBLOCK);
	cq = ibv_create_cq(verbs, 4 * total, nullptr, completions, 0);
	check(cq, "ibv_create_cq");
	check(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
	mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
	check(mr, "ibv_reg_mr");
}

void Many::attach(Connection &c, rdma_cm_id *id)
{
	ibv_qp_init_attr attr = {};

	open(id->verbs);
	c.id = id;
	id->context = &c;
	attr.send_cq = attr.recv_cq = cq;
	attr.cap = {2, 2, 1, 1, 0};
	attr.qp_type = IBV_QPT_RC;
	check(!rdma_create_qp(id, pd, &attr), "rdma_create_qp");
	by_qp[id->qp->qp_num] = &c;
	post_receive(c);
}

void Many::connect_more()
{
	while (begun < total && begun - up < window) {
		rdma_cm_id *id;

		check(!rdma_create_id(channel, &id, &all[begun], RDMA_PS_TCP), "rdma_create_id");
		check(!rdma_resolve_addr(id, nullptr, where->ai_addr, 10000), "rdma_resolve_addr");
		begun++;
	}
}

void Many::post_receive(Connection &c)
{
	ibv_sge sge = {uintptr_t(in(c)), message, mr->lkey};
	ibv_recv_wr wr = {}, *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	check(!ibv_post_recv(c.id->qp, &wr, &bad), "ibv_post_recv");
}

void Many::post_send(Connection &c)
{
	ibv_sge sge = {uintptr_t(out(c)), message, mr->lkey};
	ibv_send_wr wr = {}, *bad;

	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	check(!ibv_post_send(c.id->qp, &wr, &bad), "ibv_post_send");
	c.sent++;
}

// A message that names its connection and its number, and is unlike all others
void Many::fill(Connection &c)
{
	uint32_t x = c.index * 1000003u + c.sent * 7919u + 1;
	uint8_t *p = out(c);

	for (uint32_t i = 0; i < message; i++, x = x * 1664525u + 1013904223u)
		p[i] = x >> 24;
}

void Many::on_event(rdma_cm_event *event)
{
	rdma_cm_id *id = event->id;
	auto c = static_cast<Connection *>(id->context);
	rdma_conn_param param = {};

	param.responder_resources = param.initiator_depth = 1;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		check(!rdma_resolve_route(id, 10000), "rdma_resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		attach(*c, id);
		check(!rdma_connect(id, &param), "rdma_connect");
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		check(begun < total, "more connections than told");
		attach(all[begun++], id);
		check(!rdma_accept(id, &param), "rdma_accept");
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		up++;
		if (!is_client)
			break;
		connect_more();
		if (up < total)
			break;
		printf("%d connections are up\n", up);
		for (auto &one : all) {
			fill(one);
			post_send(one);
		}
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!is_client)
			rdma_disconnect(id);
		closed++;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "%s, status %d, after %d connections\n", rdma_event_str(event->event), event->status,
			up);
		exit(1);
	}
}

void Many::on_completion(const ibv_wc &wc)
{
	Connection &c = *by_qp.at(wc.qp_num);

	if (wc.status == IBV_WC_WR_FLUSH_ERR)
		return; // of the last receive
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "connection %d: %s\n", c.index, ibv_wc_status_str(wc.status));
		exit(1);
	}
	if (wc.opcode != IBV_WC_RECV)
		return;
	check(wc.byte_len == message, "length");
	c.received++;
	if (!is_client) {
		memcpy(out(c), in(c), message);
		post_receive(c);
		post_send(c);
		return;
	}
	if (memcmp(out(c), in(c), message) != 0) {
		fprintf(stderr, "connection %d, message %d: other data came back\n", c.index, c.received);
		exit(1);
	}
	if (c.received < rounds) {
		post_receive(c);
		fill(c);
		post_send(c);
	} else if (++finished == total) {
		printf("%d messages each came back\n", rounds);
		for (auto &one : all)
			check(!rdma_disconnect(one.id), "rdma_disconnect");
	}
}

void Many::run()
{
	if (is_client)
		connect_more();
	while (closed < total) {
		pollfd p[2] = {{channel->fd, POLLIN, 0}, {completions ? completions->fd : -1, POLLIN, 0}};
		rdma_cm_event *event;
		ibv_wc wc[64];

		if (poll(p, 2, patience_ms) == 0) {
			fprintf(stderr, "nothing happens any more: %d up, %d finished, %d closed of %d\n", up, finished,
				closed, total);
			exit(1);
		}
		while (!rdma_get_cm_event(channel, &event)) {
			// The handler may not destroy the id: acknowledging comes after it.
			on_event(event);
			rdma_ack_cm_event(event);
		}
		if (!completions)
			continue;
		ibv_cq *which;
		void *context;
		if (!ibv_get_cq_event(completions, &which, &context)) {
			ibv_ack_cq_events(cq, 1);
			check(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		}
		for (int n; (n = ibv_poll_cq(cq, 64, wc)) > 0;)
			std::for_each(wc, wc + n, [this](const ibv_wc &one) { on_completion(one); });
	}
	for (auto &c : all) {
		if (!is_client && c.received != rounds) {
			fprintf(stderr, "connection %d: %d messages instead of %d\n", c.index, c.received, rounds);
			exit(1);
		}
		rdma_destroy_qp(c.id);
		check(!rdma_destroy_id(c.id), "rdma_destroy_id");
	}
	printf("%d connections closed\n", closed);
}

} // namespace

int main(int argc, char **argv)
{
	rlimit files = {65536, 65536};

	if (argc < 5) {
		fprintf(stderr, "usage: many server|client ADDRESS PORT CONNECTIONS [ROUNDS]\n");
		return 2;
	}
	const auto connections = static_cast<int>(strtol(argv[4], nullptr, 10));
	const auto rounds = argc > 5 ? static_cast<int>(strtol(argv[5], nullptr, 10)) : 10;

	setrlimit(RLIMIT_NOFILE, &files);
	setvbuf(stdout, nullptr, _IOLBF, 0);
	Many(!strcmp(argv[1], "client"), argv[2], argv[3], connections, rounds).run();
	return 0;
}
