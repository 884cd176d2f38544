// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "pair.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <numeric>

namespace user {

std::string port_of(rdma_cm_id *listener)
{
	return std::to_string(ntohs(rdma_get_src_port(listener)));
}

[[gnu::no_sanitize("thread")]] bool has_become(
	const std::vector<std::uint8_t> &bytes, std::size_t offset, const std::vector<std::uint8_t> &wanted)
{
	const volatile std::uint8_t *at = &bytes[offset];

	// From the end: that comes last.
	for (std::size_t i = wanted.size(); i-- > 0;)
		if (at[i] != wanted[i])
			return false;
	return true;
}

rdma_addrinfo *resolve(const char *port, int flags)
{
	rdma_addrinfo hints{}, *found = nullptr;

	hints.ai_port_space = RDMA_PS_TCP;
	hints.ai_flags = flags;
	if (rdma_getaddrinfo("127.0.0.1", port, &hints, &found))
		throw std::runtime_error("rdma_getaddrinfo");
	return found;
}

ibv_qp_init_attr attributes(std::uint32_t depth)
{
	ibv_qp_init_attr attr{};

	attr.cap.max_send_wr = attr.cap.max_recv_wr = depth;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 4;
	attr.cap.max_inline_data = 64;
	attr.qp_type = IBV_QPT_RC;
	attr.sq_sig_all = 1;
	return attr;
}

End::~End()
{
	if (id)
		rdma_destroy_ep(id);
}

int End::post(ibv_wr_opcode opcode, std::vector<ibv_sge> sges, std::uint64_t remote, std::uint32_t rkey,
	std::uint64_t wr_id, __be32 imm)
{
	ibv_send_wr wr{}, *bad = nullptr;

	wr.wr_id = wr_id;
	wr.opcode = opcode;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	wr.imm_data = imm;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 7;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(id->qp, &wr, &bad);
}

int End::receive(std::vector<ibv_sge> sges, std::uint64_t wr_id)
{
	ibv_recv_wr wr{}, *bad = nullptr;

	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	return ibv_post_recv(id->qp, &wr, &bad);
}

ibv_wc End::completion(ibv_cq *cq)
{
	ibv_wc wc{};
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);

	for (;;) {
		const int found = ibv_poll_cq(cq, 1, &wc);

		if (found > 0)
			return wc;
		if (found < 0 || std::chrono::steady_clock::now() > end)
			throw std::runtime_error("no completion");
	}
}

Pair::Pair(std::uint32_t depth, ibv_cq *send_cq)
{
	ibv_qp_init_attr attr = attributes(depth), client_attr = attributes(depth);
	rdma_addrinfo *passive = resolve(nullptr, RAI_PASSIVE);

	client_attr.send_cq = send_cq;
	if (rdma_create_ep(&listener, passive, nullptr, &attr) || rdma_listen(listener, 16))
		throw std::runtime_error("listener");
	rdma_freeaddrinfo(passive);
	rdma_addrinfo *active = resolve(port_of(listener).c_str(), 0);
	std::thread accepting([this] {
		if (rdma_get_request(listener, &server.id) || rdma_accept(server.id, nullptr))
			throw std::runtime_error("accept");
	});
	if (rdma_create_ep(&client.id, active, nullptr, &client_attr) || rdma_connect(client.id, nullptr))
		throw std::runtime_error("connect");
	accepting.join();
	rdma_freeaddrinfo(active);
}

Pair::~Pair()
{
	rdma_destroy_ep(listener);
}

bool sends_and_receives(Pair &pair)
{
	Memory from(pair.client.id->pd, 64), to(pair.server.id->pd, 64);

	std::iota(from.bytes.begin(), from.bytes.end(), std::uint8_t{1});
	return pair.server.receive({to.sge(0, 64)}) == 0 && pair.client.post(IBV_WR_SEND, {from.sge(0, 64)}) == 0 &&
	       pair.server.received().status == IBV_WC_SUCCESS && from.bytes == to.bytes &&
	       pair.client.sent().status == IBV_WC_SUCCESS;
}

} // namespace user
