// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// hostile_closed listen ADDRESS PORT: a server that speaks TCP itself, answers every Request, and then reads nothing.
//
// hostile_closed late ADDRESS PORT: the same for one connection. It reads nothing for some seconds, sends a message,
// and reads what there is. Ends with 0 if that is a whole Write, and a good end.
//
// hostile_closed full ADDRESS PORT: a listener whose place is taken: TCP answers nobody any more.
//
// hostile_closed connect ADDRESS PORT COUNT: makes so many connections and posts a large Write on each. Ends with 0 if
// all memory that the machine then lacks is in some account: also bytes that TCP hasn't taken yet.
//
// hostile_closed leave ADDRESS PORT COUNT: posts a short Write on each, and ends when TCP took all of them.
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <list>
#include <string>
#include <vector>

#include "scenarios.hpp"

namespace {

constexpr size_t large = 512 << 10, little = 8 << 10;
// KB of a connection that may be in no account: the rest of a page in which its bytes lie
constexpr long spare = 32;

void check(bool good, const char *what)
{
	if (!good)
		throw Failure(std::string(what) + ": " + strerror(errno));
}

addrinfo *address_of(char **argv)
{
	addrinfo hints = {}, *ai;

	hints.ai_flags = AI_NUMERICHOST;
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(argv[2], argv[3], &hints, &ai))
		throw Failure("bad address");
	return ai;
}

// --- the server ---

void more_files()
{
	rlimit files = {};

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

int listen_at(const addrinfo *ai)
{
	const int fd = socket(ai->ai_family, SOCK_STREAM, 0);
	const int window = 2304, on = 1;

	check(fd >= 0, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof(window));
	check(bind(fd, ai->ai_addr, ai->ai_addrlen) == 0, "bind");
	check(listen(fd, 128) == 0, "listen");
	return fd;
}

// Accepts a connection, and answers its Request.
int answer(int listener, std::list<Link> &links)
{
	const int fd = accept(listener, nullptr, nullptr);

	check(fd >= 0, "accept");
	Link &link = links.emplace_back(fd);
	link.frame(request_key);
	link.send(frame({.key = reply_key,
		.flags = with_crc | enhanced,
		.revision = 2,
		.data = word(peer_to_peer | 1, rtr_write | 1)}));
	return fd;
}

int serve(const addrinfo *ai)
{
	const int listener = listen_at(ai);
	std::list<Link> links;

	more_files();
	for (;;)
		answer(listener, links);
}

// What the other side had sent when it closed arrives, though more comes from here than it reads.
int read_late(const addrinfo *ai)
{
	std::list<Link> links;

	answer(listen_at(ai), links);
	sleep(5);
	links.front().send(fpdu(send_segment(1, Bytes(4096, 0x55))));
	const size_t n = links.front().rest().size();
	printf("%zu octets\n", n);
	return n < little;
}

[[noreturn]] void accept_nobody(const addrinfo *ai)
{
	const int fd = socket(ai->ai_family, SOCK_STREAM, 0);
	const int caller = socket(ai->ai_family, SOCK_STREAM, 0);

	check(fd >= 0 && caller >= 0, "socket");
	check(bind(fd, ai->ai_addr, ai->ai_addrlen) == 0, "bind");
	check(listen(fd, 0) == 0, "listen");
	check(connect(caller, ai->ai_addr, ai->ai_addrlen) == 0, "connect");
	for (;;)
		pause();
}

// --- the client ---

// The number behind a word in a file
long number(const char *file, const std::string &word)
{
	std::ifstream in(file);
	std::string next;
	long n;

	while (in >> next)
		if (next == word && in >> n)
			return n;
	throw Failure(std::string(file) + " has no " + word);
}

// KB that are free, or of which the kernel says what they are for. TCP's are in pages.
long known()
{
	long sum = number("/proc/net/sockstat", "mem") * (sysconf(_SC_PAGESIZE) >> 10);

	for (const char *word :
		{"MemFree:", "Slab:", "AnonPages:", "Cached:", "Buffers:", "PageTables:", "KernelStack:", "Percpu:"})
		sum += number("/proc/meminfo", word);
	return sum;
}

struct Client {
	rdma_event_channel *channel = rdma_create_event_channel();
	std::vector<uint8_t> buffer = std::vector<uint8_t>(large, 1);
	ibv_pd *pd = nullptr;
	ibv_cq *cq = nullptr;
	ibv_mr *mr = nullptr;

	void wait(rdma_cm_event_type type) const
	{
		rdma_cm_event *event;

		check(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
		if (event->event != type)
			throw Failure(rdma_event_str(event->event));
		rdma_ack_cm_event(event);
	}

	void prepare(ibv_context *context, int count)
	{
		pd = ibv_alloc_pd(context);
		check(pd, "ibv_alloc_pd");
		cq = ibv_create_cq(context, count, nullptr, nullptr, 0);
		check(cq, "ibv_create_cq");
		mr = ibv_reg_mr(pd, buffer.data(), buffer.size(), 0);
		check(mr, "ibv_reg_mr");
	}

	rdma_cm_id *connect(sockaddr *to, int count)
	{
		rdma_conn_param param = {};
		ibv_qp_init_attr attr = {};
		rdma_cm_id *id;

		check(!rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
		check(!rdma_resolve_addr(id, nullptr, to, 2000), "rdma_resolve_addr");
		wait(RDMA_CM_EVENT_ADDR_RESOLVED);
		check(!rdma_resolve_route(id, 2000), "rdma_resolve_route");
		wait(RDMA_CM_EVENT_ROUTE_RESOLVED);
		if (!pd)
			prepare(id->verbs, count);
		attr.send_cq = attr.recv_cq = cq;
		attr.cap = {1, 1, 1, 1, 0};
		attr.qp_type = IBV_QPT_RC;
		check(!rdma_create_qp(id, pd, &attr), "rdma_create_qp");
		param.responder_resources = param.initiator_depth = 1;
		check(!rdma_connect(id, &param), "rdma_connect");
		wait(RDMA_CM_EVENT_ESTABLISHED);
		return id;
	}

	void write(rdma_cm_id *id, size_t octets) const
	{
		ibv_sge sge = {uintptr_t(buffer.data()), uint32_t(octets), mr->lkey};
		ibv_send_wr wr = {}, *bad;

		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.rkey = 1;
		check(!ibv_post_send(id->qp, &wr, &bad), "ibv_post_send");
	}
};

int leave(sockaddr *to, int count)
{
	Client client;

	for (int i = 0; i < count; i++) {
		ibv_wc wc;

		client.write(client.connect(to, count), little);
		while (!ibv_poll_cq(client.cq, 1, &wc))
			;
		if (wc.status != IBV_WC_SUCCESS)
			throw Failure(ibv_wc_status_str(wc.status));
	}
	_exit(0);
}

int connect(sockaddr *to, int count)
{
	std::vector<rdma_cm_id *> ids;
	Client client;
	long before, lost = 0;

	for (int i = 0; i < count; i++)
		ids.push_back(client.connect(to, count));
	before = known();
	for (rdma_cm_id *id : ids)
		client.write(id, large);
	/* What is under way may be in no account for a moment. */
	for (int seconds = 0; seconds < 10; seconds++) {
		sleep(1);
		lost = before - known();
		if (lost <= spare * count)
			break;
	}
	printf("%ld KB of %d connections are in no account\n", std::max(lost, 0L), count);
	return lost > spare * count;
}

} // namespace

int main(int argc, char **argv)
{
	try {
		if (argc == 4 && !strcmp(argv[1], "listen"))
			return serve(address_of(argv));
		if (argc == 4 && !strcmp(argv[1], "full"))
			accept_nobody(address_of(argv));
		if (argc == 4 && !strcmp(argv[1], "late"))
			return read_late(address_of(argv));
		if (argc == 5 && !strcmp(argv[1], "leave"))
			return leave(address_of(argv)->ai_addr, atoi(argv[4]));
		if (argc == 5 && !strcmp(argv[1], "connect"))
			return connect(address_of(argv)->ai_addr, atoi(argv[4]));
	} catch (const Failure &f) {
		fprintf(stderr, "%s\n", f.what());
		return 1;
	}
	fprintf(stderr, "usage: hostile_closed listen|late|full ADDRESS PORT | connect|leave ADDRESS PORT COUNT\n");
	return 2;
}
