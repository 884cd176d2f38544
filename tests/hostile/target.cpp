// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// hostile_target ADDRESS PORT: accepts everybody, tells about a region that the peer may write and read, and sends back
// what it gets, except for "forget": it takes the region back; "spoil": it posts a bad request; "stop": it has its QP
// send a Terminate. Ends with 0 on SIGTERM, if nobody ever wrote around a region.
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <map>
#include <string_view>

#include "../tools/program.hpp"

static constexpr size_t guard = 4096, region = 65536, message = 1024, messages = 8;

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

struct Connection {
	uint8_t *area;
	ibv_mr *region_mr, *read_only, *write_only;
	uint8_t *buffers;
	ibv_mr *buffers_mr;
};

static ibv_cq *cq;
static ibv_comp_channel *completions;
static std::map<uint32_t, rdma_cm_id *> by_qp;
static bool broken;

static void post_receive(rdma_cm_id *id, uint64_t index)
{
	auto c = static_cast<Connection *>(id->context);
	ibv_sge sge = {uintptr_t(c->buffers + index * message), message, c->buffers_mr->lkey};
	ibv_recv_wr wr = {}, *bad;

	wr.wr_id = index;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	ibv_post_recv(id->qp, &wr, &bad);
}

static void send_back(rdma_cm_id *id, uint64_t index, uint32_t length, bool spoilt = false)
{
	auto c = static_cast<Connection *>(id->context);
	ibv_sge sge = {uintptr_t(c->buffers + index * message), length, c->buffers_mr->lkey ^ spoilt};
	ibv_send_wr wr = {}, *bad;

	wr.wr_id = index;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	ibv_post_send(id->qp, &wr, &bad);
}

static void on_message(rdma_cm_id *id, uint64_t index, uint32_t length)
{
	auto c = static_cast<Connection *>(id->context);
	const std::string_view text(reinterpret_cast<char *>(c->buffers + index * message), length);

	if (text == "forget") {
		ibv_dereg_mr(c->region_mr);
		c->region_mr = nullptr;
	} else if (text == "stop") {
		ibv_qp_attr attr = {};
		attr.qp_state = IBV_QPS_SQE;
		ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
	} else {
		send_back(id, index, length, text == "spoil");
	}
}

static ibv_mr *make_region(ibv_pd *pd, Connection *c, int access)
{
	ibv_mr *mr = ibv_reg_mr(pd, c->area + guard, region, IBV_ACCESS_LOCAL_WRITE | access);

	check(mr, "ibv_reg_mr");
	return mr;
}

static void release(rdma_cm_id *id)
{
	auto c = static_cast<Connection *>(id->context);

	by_qp.erase(id->qp->qp_num);
	rdma_destroy_qp(id);
	for (ibv_mr *mr : {c->region_mr, c->read_only, c->write_only, c->buffers_mr})
		if (mr)
			ibv_dereg_mr(mr);
	for (size_t i = 0; i < guard; i++)
		if (c->area[i] != 0xee || c->area[guard + region + i] != 0xee)
			broken = true;
	munmap(c->area, 2 * guard + region);
	delete[] c->buffers;
	delete c;
}

static void on_request(rdma_cm_id *id)
{
	static ibv_pd *pd = ibv_alloc_pd(id->verbs);
	auto c = new Connection;
	size_t size = 2 * guard + region;

	check(pd, "ibv_alloc_pd");
	if (!cq) {
		completions = ibv_create_comp_channel(id->verbs);
		check(completions, "ibv_create_comp_channel");
		cq = ibv_create_cq(id->verbs, 1024, nullptr, completions, 0);
		check(cq && !ibv_req_notify_cq(cq, 0), "ibv_create_cq");
		fcntl(completions->fd, F_SETFL, O_NONBLOCK);
	}
	c->area =
		static_cast<uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	memset(c->area, 0xee, size);
	c->buffers = new uint8_t[messages * message];
	c->region_mr = make_region(pd, c, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	c->read_only = make_region(pd, c, IBV_ACCESS_REMOTE_READ);
	c->write_only = make_region(pd, c, IBV_ACCESS_REMOTE_WRITE);
	c->buffers_mr = ibv_reg_mr(pd, c->buffers, messages * message, IBV_ACCESS_LOCAL_WRITE);
	check(c->buffers_mr, "ibv_reg_mr");
	id->context = c;

	ibv_qp_init_attr attr = {};
	attr.send_cq = attr.recv_cq = cq;
	attr.cap = {messages, messages, 1, 1, 0};
	attr.qp_type = IBV_QPT_RC;
	check(!rdma_create_qp(id, pd, &attr), "rdma_create_qp");
	by_qp[id->qp->qp_num] = id;
	for (size_t i = 0; i < messages; i++)
		post_receive(id, i);

	struct {
		uint64_t address;
		uint32_t stag, length, read_only, write_only;
	} about = {htobe64(uintptr_t(c->area + guard)), htobe32(c->region_mr->rkey), htobe32(region),
		htobe32(c->read_only->rkey), htobe32(c->write_only->rkey)};
	rdma_conn_param param = {};
	param.private_data = &about;
	param.private_data_len = sizeof(about);
	param.responder_resources = param.initiator_depth = 4;
	if (rdma_accept(id, &param)) { // the peer may have gone
		perror("rdma_accept");
		release(id);
		rdma_destroy_id(id);
	}
}

static void on_completion()
{
	ibv_cq *which;
	void *context;
	ibv_wc wc;

	if (ibv_get_cq_event(completions, &which, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(cq, 0);
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		auto it = by_qp.find(wc.qp_num);
		if (wc.status != IBV_WC_SUCCESS || it == by_qp.end())
			continue;
		if (wc.opcode == IBV_WC_RECV)
			on_message(it->second, wc.wr_id, wc.byte_len);
		else
			post_receive(it->second, wc.wr_id);
	}
}

int main(int argc, char **argv)
{
	sockaddr *from = begin_program(argc, argv);
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *listener;
	check(channel && !rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), "rdma_create_id");
	check(!rdma_bind_addr(listener, from), "rdma_bind_addr");
	check(!rdma_listen(listener, 64), "rdma_listen");
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);

	while (!over) {
		pollfd p[2] = {{channel->fd, POLLIN, 0}, {completions ? completions->fd : -1, POLLIN, 0}};
		rdma_cm_event *event;

		if (poll(p, 2, 1000) <= 0)
			continue;
		if (p[1].revents)
			on_completion();
		if (rdma_get_cm_event(channel, &event))
			continue;
		rdma_cm_id *id = event->id;
		auto type = event->event;
		rdma_ack_cm_event(event);
		switch (type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			on_request(id);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
		case RDMA_CM_EVENT_CONNECT_ERROR:
			if (!id->qp)
				break;
			release(id);
			rdma_destroy_id(id);
			break;
		default:
			break;
		}
	}
	printf("%s\n", broken ? "somebody wrote around a region" : "good");
	return broken;
}
