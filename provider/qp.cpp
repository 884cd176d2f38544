// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "qp.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sched.h>

#include "context.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "srq.hpp"

namespace kiw {

namespace {

static_assert(offsetof(Qp, base) == 0);

/// Maps a work ring of the granted size; without granted requests there is no ring.
int open_queue(WorkQueue &queue, ibv_context *context, const kiw_ring_geometry &geometry, std::uint32_t requests,
	std::uint32_t max_sge, std::uint32_t slot_octets)
{
	queue.max_sge = max_sge;
	if (requests == 0 && geometry.entries == 0)
		return 0;
	queue.limit = requests;
	return queue.ring.open(Context::from(context).mappings, context->cmd_fd, geometry, requests, slot_octets);
}

int open_queues(Qp &qp, ibv_context *context, const ibv_qp_cap &cap, const kiw_create_qp_resp &rings)
{
	// Slots are addressed by 32-bit numbers; the kernel grants far less.
	constexpr std::uint32_t sane = 1 << 16;

	if (cap.max_send_sge > sane || cap.max_recv_sge > sane || cap.max_inline_data > sane)
		return EPROTO;
	const std::uint32_t send_sges = cap.max_send_sge * std::uint32_t{sizeof(kiw_sge)};
	const std::uint32_t atomic =
		qp.features & KIW_FEATURE_ATOMIC ? std::uint32_t{sizeof(kiw_sge) + sizeof(kiw_atomic_args)} : 0;
	const std::uint32_t bind = qp.features & KIW_FEATURE_MW ? std::uint32_t{sizeof(kiw_bind_args)} : 0;
	const std::uint32_t recv_sges = cap.max_recv_sge * std::uint32_t{sizeof(kiw_sge)};

	if (const int error = open_queue(qp.sq, context, rings.sq, cap.max_send_wr, cap.max_send_sge,
		    qp.head + std::max({send_sges, cap.max_inline_data, atomic, bind})))
		return error;
	return open_queue(qp.rq, context, rings.rq, cap.max_recv_wr, cap.max_recv_sge, sizeof(kiw_rqe) + recv_sges);
}

} // namespace

namespace {

/// Whether a QP would use a parent's object: in the child's file its handle is another object's.
bool is_from_parent(const ibv_qp_init_attr &attr)
{
	return (attr.send_cq && Cq::from(attr.send_cq).origin.inherited()) ||
	       (attr.recv_cq && Cq::from(attr.recv_cq).origin.inherited()) ||
	       (attr.srq && Srq::from(attr.srq).origin.inherited());
}

} // namespace

Owner<Qp> make_qp(ibv_pd *pd, ibv_qp_init_attr *attr, const kiw_create_qp_req &own)
{
	pabi::RequestWith<64, kiw_create_qp_req> request{};
	pabi::Response<32, kiw_create_qp_resp> response{};

	if (const int error = is_from_parent(*attr) ? EPERM : adopt(pd)) {
		errno = error;
		return {};
	}
	Owner<Qp> qp = make<Qp>();
	if (!qp) {
		errno = ENOMEM;
		return {};
	}
	// An older module refuses it too, perhaps with another error.
	if (number_of(attr->qp_type) == IBV_QPT_UD && !(Context::from(pd->context).features & KIW_FEATURE_UD)) {
		errno = EOPNOTSUPP;
		return {};
	}
	request.own = own;
	request.own.cookie = qp->cookie();
	int error = ibv_cmd_create_qp(pd, &qp->base.qp, attr, &request, sizeof(request), &response, sizeof(response));
	if (error) {
		errno = error;
		return {};
	}
	qp->features = Context::from(pd->context).features;
	if (qp->is_datagram())
		qp->head += sizeof(kiw_ud_dest);
	error = open_queues(*qp, pd->context, attr->cap, response.own);
	if (error) {
		ibv_cmd_destroy_qp(&qp->base.qp);
		errno = error;
		return {};
	}
	qp->origin = Context::from(pd->context).origin;
	qp->signal_all = attr->sq_sig_all;
	qp->max_inline = attr->cap.max_inline_data;
	qp->doorbell.init(pd->context->cmd_fd, qp->base.qp.handle);
	return qp;
}

ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr)
{
	Owner<Qp> qp = make_qp(pd, attr);

	return qp ? &qp.release()->base.qp : nullptr;
}

int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr)
{
	pabi::QueryQp request{};

	if (Qp::from(qp).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_query_qp(qp, attr, mask, init_attr, &request, sizeof(request)))
		return error;
	// The kernel sees only single requests, signalled or not.
	init_attr->sq_sig_all = Qp::from(qp).signal_all;
	return 0;
}

int modify_qp(ibv_qp *ibv, ibv_qp_attr *attr, int mask)
{
	pabi::ModifyQp request{};

	if (Qp::from(ibv).origin.inherited())
		return EPERM;
	// The command carries no capacities: check them here.
	if (mask & IBV_QP_CAP) {
		ibv_qp_attr now{};
		ibv_qp_init_attr init{};

		if (const int error = query_qp(ibv, &now, IBV_QP_CAP, &init))
			return error;
		if (std::memcmp(&now.cap, &attr->cap, sizeof(now.cap)) != 0)
			return EINVAL;
	}
	if (const int error = ibv_cmd_modify_qp(ibv, attr, mask, &request, sizeof(request)))
		return error;
	if ((mask & IBV_QP_STATE) && number_of(attr->qp_state) == IBV_QPS_RESET) {
		Qp &qp = Qp::from(ibv);

		qp.forget_completions();
		qp.sq.release_consumed();
		qp.rq.release_consumed();
		qp.connected.store(false, std::memory_order_relaxed);
	}
	return 0;
}

int destroy_qp(ibv_qp *ibv)
{
	Qp &qp = Qp::from(ibv);

	if (qp.origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_destroy_qp(ibv))
		return error;
	// The kernel dropped the QP and adds no completions of it. Those in the CQs still name it.
	qp.forget_completions();
	destroy(&qp);
	return 0;
}

int attach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid)
{
	return Qp::from(qp).origin.inherited() ? EPERM : ibv_cmd_attach_mcast(qp, gid, lid);
}

int detach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid)
{
	return Qp::from(qp).origin.inherited() ? EPERM : ibv_cmd_detach_mcast(qp, gid, lid);
}

void Qp::forget_completions()
{
	Cq::from(base.qp.send_cq).forget(*this);
	if (base.qp.recv_cq != base.qp.send_cq)
		Cq::from(base.qp.recv_cq).forget(*this);
}

void WorkQueue::lock_to_post()
{
	lock.lock();
	while (refused.load(std::memory_order_relaxed) != settled)
		[[unlikely]]
		{
			lock.unlock();
			sched_yield();
			lock.lock();
		}
}

void WorkQueue::await_doorbells() const
{
	while (begun != accepted.load(std::memory_order_acquire) + refused.load(std::memory_order_acquire))
		sched_yield();
}

void WorkQueue::accept()
{
	begun++;
	accepted.fetch_add(1, std::memory_order_release);
}

void WorkQueue::release_consumed()
{
	if (limit == 0)
		return;
	Guard guard(lock);
	release_consumed_locked();
}

void WorkQueue::release_consumed_locked()
{
	const std::uint32_t oldest = released.load(std::memory_order_relaxed);
	const std::uint32_t consumed = ring.consumed();

	if (consumed - oldest <= next - oldest)
		released.store(consumed, std::memory_order_release);
}

} // namespace kiw
