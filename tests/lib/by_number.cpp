// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "by_number.hpp"

#include <cerrno>
#include <random>

namespace number {

End::End(const std::string &device, const std::string &address, std::uint32_t depth)
	: Endpoint(vt::open_device(device),
		  [depth](ibv_context *context) {
			  return vt::Queues{.send = vt::make_cq(context, static_cast<int>(4 * depth))};
		  }),
	  memory_(std::make_unique<vt::Region>(pd(), 1 << 16, vt::all_access | IBV_ACCESS_REMOTE_ATOMIC)),
	  depth_(depth),
	  gid_(vt::find_gid(context(), address)),
	  psn_(std::random_device()() & 0xffffff)
{
	renew();
}

void End::renew()
{
	ibv_qp_init_attr attr{};

	qp_.reset();
	attr.send_cq = attr.recv_cq = cq();
	attr.qp_type = IBV_QPT_RC;
	attr.sq_sig_all = 1;
	attr.cap = {depth_, depth_, 1, 1, 0};
	qp_.reset(ibv_create_qp(pd(), &attr));
	if (!qp_)
		vt::fail("ibv_create_qp", errno);
	if (const int error = init())
		vt::fail("to INIT", error);
}

int End::init(int access) const
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	attr.qp_access_flags = access;
	return modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
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
	return modify(rtr_attr(peer), rtr_mask);
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
	return modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
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
	vt::Work work{.id = id, .flags = 0, .compare_add = atomic ? 1U : 0U};

	if (remote) {
		work.remote = remote->address(8192);
		work.rkey = remote->rkey();
	}
	return Endpoint::post(opcode, {memory_->sge(0, atomic ? 8 : 4096)}, work);
}

void End::receive(std::uint64_t id) const
{
	if (const int error = Endpoint::receive({memory_->sge(4096, 4096)}, id))
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
