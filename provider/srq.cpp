// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "srq.hpp"

#include <cerrno>
#include <cstddef>

#include "context.hpp"
#include "domain.hpp"
#include "memory.hpp"

namespace kiw {

namespace {

static_assert(offsetof(Srq, ibv) == 0);

std::uint32_t stride_for(std::uint32_t max_sge)
{
	return static_cast<std::uint32_t>(sizeof(kiw_rqe) + max_sge * sizeof(kiw_sge));
}

/// Maps the granted ring.
int open_queue(WorkQueue &queue, Context &context, const ibv_srq_attr &granted, const kiw_ring_geometry &geometry)
{
	// Slots are addressed by 32-bit numbers; the kernel grants far less.
	constexpr std::uint32_t sane = 1 << 16;

	if (granted.max_sge > sane)
		return EPROTO;
	queue.limit = granted.max_wr;
	queue.max_sge = granted.max_sge;
	return queue.ring.open(
		context.mappings, context.ibv.cmd_fd, geometry, granted.max_wr, stride_for(granted.max_sge));
}

/// modify_srq() with a new size.
int resize(Srq &srq, ibv_srq_attr *attr, int mask)
{
	pabi::RequestWith<sizeof(pabi::ModifySrq), kiw_modify_srq_req> request{};
	kiw_create_srq_resp response{};
	Context &context = Context::from(srq.ibv.context);

	// An older module refuses it too.
	if (!(context.features & KIW_FEATURE_SRQ_RESIZE))
		return EOPNOTSUPP;
	request.own.response = reinterpret_cast<std::uintptr_t>(&response);
	// Excludes posting.
	Guard guard(srq.queue.lock);
	if (const int error = ibv_cmd_modify_srq(&srq.ibv, attr, mask, &request, sizeof(request)))
		return error;
	WorkRing ring;
	const int error = ring.open(
		context.mappings, context.ibv.cmd_fd, response.ring, attr->max_wr, stride_for(srq.queue.max_sge));
	// The kernel dropped the old ring.
	if (error)
		ring.become_useless();
	srq.queue.ring.swap(ring);
	srq.queue.limit = error ? 0 : srq.queue.ring.entries();
	return error;
}

} // namespace

ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr)
{
	pabi::CreateSrq request{};
	pabi::Response<16, kiw_create_srq_resp> response{};
	Context &context = Context::from(pd->context);

	if (const int error = adopt(pd)) {
		errno = error;
		return nullptr;
	}
	// An older module refuses it too, perhaps with another error.
	if (!(context.features & KIW_FEATURE_SRQ)) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	Owner<Srq> srq = make<Srq>();
	if (!srq) {
		errno = ENOMEM;
		return nullptr;
	}
	int error = ibv_cmd_create_srq(pd, &srq->ibv, attr, &request, sizeof(request), &response, sizeof(response));
	if (error) {
		errno = error;
		return nullptr;
	}

	error = open_queue(srq->queue, context, attr->attr, response.own.ring);
	if (error) {
		ibv_cmd_destroy_srq(&srq->ibv);
		errno = error;
		return nullptr;
	}
	srq->origin = context.origin;
	srq->doorbell.init_srq(pd->context->cmd_fd, srq->ibv.handle);
	return &srq.release()->ibv;
}

int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask)
{
	pabi::ModifySrq request{};

	if (Srq::from(srq).origin.inherited())
		return EPERM;
	if (mask & IBV_SRQ_MAX_WR)
		return resize(Srq::from(srq), attr, mask);
	return ibv_cmd_modify_srq(srq, attr, mask, &request, sizeof(request));
}

int query_srq(ibv_srq *srq, ibv_srq_attr *attr)
{
	pabi::QuerySrq request{};

	if (Srq::from(srq).origin.inherited())
		return EPERM;
	return ibv_cmd_query_srq(srq, attr, &request, sizeof(request));
}

int destroy_srq(ibv_srq *srq)
{
	if (Srq::from(srq).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_destroy_srq(srq))
		return error;
	destroy(&Srq::from(srq));
	return 0;
}

} // namespace kiw
