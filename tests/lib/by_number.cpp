// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "by_number.hpp"

#include <cerrno>
#include <random>

namespace number {

End::End(const std::string &device, const std::string &address, std::uint32_t depth)
	: context_(vt::open_device(device)),
	  pd_(vt::make_pd(context_.get())),
	  cq_(vt::make_cq(context_.get(), static_cast<int>(4 * depth))),
	  memory_(std::make_unique<vt::Region>(pd_.get(), 1 << 16, vt::all_access | IBV_ACCESS_REMOTE_ATOMIC)),
	  depth_(depth),
	  gid_(vt::find_gid(context_.get(), address)),
	  psn_(std::random_device()() & 0xffffff)
{
	renew();
}

void End::renew()
{
	ibv_qp_init_attr attr{};

	qp_.reset();
	attr.send_cq = attr.recv_cq = cq_.get();
	attr.qp_type = IBV_QPT_RC;
	attr.sq_sig_all = 1;
	attr.cap = {depth_, depth_, 1, 1, 0};
	qp_.reset(ibv_create_qp(pd_.get(), &attr));
	if (!qp_)
		vt::fail("ibv_create_qp", errno);
	if (const int error = init())
		vt::fail("to INIT", error);
}

ibv_qp_attr End::query(int mask) const
{
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	if (const int error = ibv_query_qp(qp(), &attr, mask, &init))
		vt::fail("ibv_query_qp", error);
	return attr;
}

int End::reset() const
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_RESET;
	return ibv_modify_qp(qp(), &attr, IBV_QP_STATE);
}

int End::error() const
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_ERR;
	return ibv_modify_qp(qp(), &attr, IBV_QP_STATE);
}

int End::init(int access) const
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	attr.qp_access_flags = access;
	return ibv_modify_qp(qp(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

ibv_qp_attr End::rtr_attr(const Name &peer) const
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer.qpn;
	attr.rq_psn = peer.psn;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.hop_limit = 1;
	attr.ah_attr.grh.flow_label = 0x12345;
	attr.ah_attr.grh.dgid = peer.gid;
	attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_.slot);
	return attr;
}

int End::rtr(const Name &peer) const
{
	ibv_qp_attr attr = rtr_attr(peer);

	return ibv_modify_qp(qp(), &attr, rtr_mask);
}

int End::rts(std::uint8_t reads, std::uint8_t rnr_retry, std::uint8_t timeout) const
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = timeout;
	attr.retry_cnt = 7;
	attr.rnr_retry = rnr_retry;
	attr.sq_psn = psn_;
	attr.max_rd_atomic = reads;
	return ibv_modify_qp(qp(), &attr,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC);
}

void End::connect(const Name &peer) const
{
	if (const int error = rtr(peer))
		vt::fail("to RTR", error);
	if (const int error = rts())
		vt::fail("to RTS", error);
}

int End::post(ibv_wr_opcode opcode, std::uint64_t id, const vt::Region *remote) const
{
	const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	ibv_sge sge = memory_->sge(0, atomic ? 8 : 4096);
	ibv_send_wr wr{};
	ibv_send_wr *bad = nullptr;

	wr.wr_id = id;
	wr.opcode = opcode;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (atomic)
		wr.wr.atomic = {
			.remote_addr = remote->address(8192), .compare_add = 1, .swap = 0, .rkey = remote->rkey()};
	else if (remote)
		wr.wr.rdma = {remote->address(8192), remote->rkey()};
	return ibv_post_send(qp(), &wr, &bad);
}

void End::receive(std::uint64_t id) const
{
	ibv_sge sge = memory_->sge(4096, 4096);
	ibv_recv_wr wr{};
	ibv_recv_wr *bad = nullptr;

	wr.wr_id = id;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (const int error = ibv_post_recv(qp(), &wr, &bad))
		vt::fail("ibv_post_recv", error);
}

void send(const End &from, const End &to)
{
	static std::uint32_t seed;

	from.memory().fill_pattern(++seed);
	to.receive(2);
	ASSERT_EQ(from.post(IBV_WR_SEND, 1), 0);
	EXPECT_WC(from.completion("the Send"), 1, IBV_WC_SUCCESS);
	EXPECT_WC(to.completion("the message"), 2, IBV_WC_SUCCESS);
	EXPECT_TRUE(vt::same(from.memory().bytes(0, 4096), to.memory().bytes(4096, 4096)));
}

void exchange(const End &a, const End &b)
{
	send(a, b);
	send(b, a);
}

} // namespace number
