// SPDX-License-Identifier: GPL-2.0
// fuzz_caller ADDRESS PORT: connects again and again, to somebody who may do anything. Each time it tells about a
// region, posts a Read, a Send and some receives, and waits until the other side has ended the connection. Ends on
// SIGTERM, with 0 if every request was completed once and nothing was written around a region.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <set>

#include "../tools/program.hpp"

static constexpr size_t guard = 4096, region = 65536, message = 1024, receives = 4, all = 2 * guard + region;
static constexpr int patience_ms = 60000;

static unsigned failures, connections, established;

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(2);
}

static void failed(const char *what)
{
	printf("connection %u: %s\n", connections, what);
	failures++;
}

namespace {

// The region begins with the receive buffers; the Read's sink follows.
class Call {
public:
	explicit Call(rdma_event_channel *channel) : channel(channel)
	{
		check(!rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
		area = static_cast<uint8_t *>(
			mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		check(area != MAP_FAILED, "mmap");
		memset(area, 0xee, all);
	}
	~Call()
	{
		for (size_t i = 0; i < guard; i++)
			if (area[i] != 0xee || area[guard + region + i] != 0xee) {
				failed("somebody wrote around the region");
				break;
			}
		if (id->qp)
			rdma_destroy_qp(id);
		if (cq)
			ibv_destroy_cq(cq);
		if (mr)
			ibv_dereg_mr(mr);
		if (pd)
			ibv_dealloc_pd(pd);
		rdma_destroy_id(id);
		munmap(area, all);
	}
	Call(const Call &) = delete;
	Call &operator=(const Call &) = delete;

	void run(sockaddr *to)
	{
		check(!rdma_resolve_addr(id, nullptr, to, 5000), "rdma_resolve_addr");
		if (event() != RDMA_CM_EVENT_ADDR_RESOLVED)
			return;
		check(!rdma_resolve_route(id, 5000), "rdma_resolve_route");
		if (event() != RDMA_CM_EVENT_ROUTE_RESOLVED)
			return;
		prepare();

		struct {
			uint64_t address;
			uint32_t stag, length;
		} about = {htobe64(uintptr_t(area + guard)), htobe32(mr->rkey), htobe32(region)};
		rdma_conn_param param = {};
		param.private_data = &about;
		param.private_data_len = sizeof(about);
		param.responder_resources = param.initiator_depth = 4;
		if (rdma_connect(id, &param)) {
			// rdma_cm chose a port that a connection of before, which is ending, still has.
			check(errno == EADDRNOTAVAIL, "rdma_connect");
			return;
		}
		connections++;
		if (event() != RDMA_CM_EVENT_ESTABLISHED)
			return;
		established++;
		send(IBV_WR_RDMA_READ, receives * message, 64);
		send(IBV_WR_SEND, 0, 16);
		if (event() != RDMA_CM_EVENT_DISCONNECTED && !over)
			failed("no event of the end");
		rdma_disconnect(id);
		complete();
	}

private:
	void prepare()
	{
		pd = ibv_alloc_pd(id->verbs);
		check(pd, "ibv_alloc_pd");
		mr = ibv_reg_mr(pd, area + guard, region,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
		cq = ibv_create_cq(id->verbs, 32, nullptr, nullptr, 0);
		check(mr && cq, "ibv_reg_mr, ibv_create_cq");
		ibv_qp_init_attr attr = {};
		attr.send_cq = attr.recv_cq = cq;
		attr.cap = {4, receives, 1, 1, 0};
		attr.qp_type = IBV_QPT_RC;
		check(!rdma_create_qp(id, pd, &attr), "rdma_create_qp");
		for (size_t i = 0; i < receives; i++) {
			ibv_sge sge = {uintptr_t(area + guard + i * message), message, mr->lkey};
			ibv_recv_wr wr = {}, *bad;
			wr.wr_id = ++posted;
			wr.sg_list = &sge;
			wr.num_sge = 1;
			check(!ibv_post_recv(id->qp, &wr, &bad), "ibv_post_recv");
		}
	}

	void send(ibv_wr_opcode opcode, size_t at, uint32_t length)
	{
		ibv_sge sge = {uintptr_t(area + guard + at), length, mr->lkey};
		ibv_send_wr wr = {}, *bad;

		wr.wr_id = ++posted;
		wr.opcode = opcode;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = 0x1000;
		wr.wr.rdma.rkey = 0xcd02;
		if (ibv_post_send(id->qp, &wr, &bad)) {
			failed("a request isn't taken");
			posted--;
		}
	}

	// Type of the next event; with none in time the connection hangs.
	int event()
	{
		pollfd p = {channel->fd, POLLIN, 0};
		rdma_cm_event *e;
		int n;

		while ((n = poll(&p, 1, patience_ms)) < 0 && !over)
			;
		if (n <= 0) {
			if (!over)
				failed("no event at all");
			return -1;
		}
		check(!rdma_get_cm_event(channel, &e), "rdma_get_cm_event");
		const int type = e->event;
		rdma_ack_cm_event(e);
		return type;
	}

	void complete()
	{
		std::set<uint64_t> done;
		ibv_wc wc;

		for (int i = 0; i < patience_ms && done.size() < posted; i++) {
			while (ibv_poll_cq(cq, 1, &wc) > 0) {
				if (wc.wr_id != 0 && wc.wr_id <= posted && done.insert(wc.wr_id).second)
					continue;
				printf("request %llu, %s: ", static_cast<unsigned long long>(wc.wr_id),
					ibv_wc_status_str(wc.status));
				failed("a completion of nothing, or the second of one request");
			}
			if (done.size() < posted)
				poll(nullptr, 0, 1);
		}
		if (done.size() < posted)
			failed("a request without a completion");
	}

	rdma_event_channel *channel;
	rdma_cm_id *id = nullptr;
	ibv_pd *pd = nullptr;
	ibv_mr *mr = nullptr;
	ibv_cq *cq = nullptr;
	uint8_t *area = nullptr;
	uint64_t posted = 0;
};

} // namespace

int main(int argc, char **argv)
{
	sockaddr *to = begin_program(argc, argv);
	rdma_event_channel *channel = rdma_create_event_channel();
	check(channel, "rdma_create_event_channel");
	while (!over && !failures) {
		Call call(channel);
		call.run(to);
	}
	printf("%u calls, %u connections\n", connections, established);
	return failures != 0;
}
