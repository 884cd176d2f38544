// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Newer names for what this device lacks: they are there so that a newer library isn't called with objects of ours.
#include "newer.hpp"

#include <cerrno>
#include <cstdint>
#include <rdma/rdma_cma.h>

using namespace kiwu;

namespace {

template <typename Result>
Result refuse()
{
	errno = EOPNOTSUPP;
	if constexpr (std::is_pointer_v<Result>)
		return nullptr;
	else
		return EOPNOTSUPP;
}

} // namespace

KIW_NEWER(int, _ibv_query_comp_cntr_caps, ibv_context *context, void *caps, std::size_t size)
{
	return ours(context) ? refuse<int>() : NEXT_NEWER(_ibv_query_comp_cntr_caps, context, caps, size);
}

KIW_NEWER(void *, ibv_create_comp_cntr, ibv_context *context, void *attr)
{
	return ours(context) ? refuse<void *>() : NEXT_NEWER(ibv_create_comp_cntr, context, attr);
}

KIW_NEWER(int, ibv_qp_attach_comp_cntr, ibv_qp *qp, void *counter, void *attr)
{
	return ours(qp) ? refuse<int>() : NEXT_NEWER(ibv_qp_attach_comp_cntr, qp, counter, attr);
}

KIW_NEWER(void *, ibv_alloc_dmah, ibv_context *context, void *attr)
{
	return ours(context) ? refuse<void *>() : NEXT_NEWER(ibv_alloc_dmah, context, attr);
}

KIW_NEWER(int, ibv_query_port_speed, ibv_context *context, std::uint32_t port, std::uint64_t *speed)
{
	return ours(context) ? refuse<int>() : NEXT_NEWER(ibv_query_port_speed, context, port, speed);
}

KIW_NEWER(int, rdma_resolve_addrinfo, rdma_cm_id *, const char *, const char *, const rdma_addrinfo *)
{
	return fail(EOPNOTSUPP);
}

KIW_NEWER(int, rdma_query_addrinfo, rdma_cm_id *, rdma_addrinfo **)
{
	return fail(EOPNOTSUPP);
}

KIW_NEWER(int, rdma_write_cm_event, rdma_cm_id *, rdma_cm_event_type, int, std::uint64_t)
{
	return fail(EOPNOTSUPP);
}
