// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint.hpp"

namespace vt {

Endpoint::Endpoint(ibv_context *context, Queues queues) : pd_(make_pd(context)), queues_(std::move(queues)) {}

Endpoint::Endpoint(Context own, const std::function<Queues(ibv_context *)> &make_queues)
	: own_(std::move(own)),
	  pd_(make_pd(own_.get())),
	  queues_(make_queues(own_.get()))
{
}

int Endpoint::post(ibv_wr_opcode opcode, const Sges &sges, const Work &work) const
{
	ibv_send_wr wr{};
	ibv_send_wr *bad = nullptr;

	wr.wr_id = work.id;
	wr.opcode = opcode;
	wr.send_flags = work.flags;
	wr.sg_list = const_cast<ibv_sge *>(sges.data());
	wr.num_sge = static_cast<int>(sges.size());
	wr.wr.rdma.remote_addr = work.remote;
	wr.wr.rdma.rkey = work.rkey;
	if (opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = work.invalidate;
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr.imm_data = work.imm;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = work.remote;
		wr.wr.atomic.rkey = work.rkey;
		wr.wr.atomic.compare_add = work.compare_add;
		wr.wr.atomic.swap = work.swap;
	}
	const int error = ibv_post_send(qp(), &wr, &bad);
	EXPECT_EQ(bad, error ? &wr : nullptr);
	return error;
}

int Endpoint::receive(const Sges &sges, std::uint64_t id) const
{
	ibv_recv_wr wr{};
	ibv_recv_wr *bad = nullptr;

	wr.wr_id = id;
	wr.sg_list = const_cast<ibv_sge *>(sges.data());
	wr.num_sge = static_cast<int>(sges.size());
	const int error = ibv_post_recv(qp(), &wr, &bad);
	EXPECT_EQ(bad, error ? &wr : nullptr);
	return error;
}

ibv_qp_attr Endpoint::query(int mask) const
{
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	if (const int error = ibv_query_qp(qp(), &attr, mask, &init))
		fail("ibv_query_qp", error);
	return attr;
}

void Endpoint::wait_state(ibv_qp_state wanted) const
{
	ibv_qp_state last = IBV_QPS_UNKNOWN;

	try {
		wait_until([&] { return (last = state()) == wanted; }, "a QP state");
	} catch (const std::exception &) {
		fail("QP state " + std::to_string(last) + " stays, waiting for " + std::to_string(wanted));
	}
}

int Endpoint::modify(ibv_qp_state to) const
{
	ibv_qp_attr attr{};

	attr.qp_state = to;
	return ibv_modify_qp(qp(), &attr, IBV_QP_STATE);
}

} // namespace vt
