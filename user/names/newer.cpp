// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Names that headers of older rdma-cores lack. What they are for isn't of this device: the names are there so that a
// newer library isn't called with objects of ours. They have other names in here, since newer headers have them as
// well.
#include <cerrno>
#include <cstdint>
#include <rdma/rdma_cma.h>

#include "names.hpp"
#include "next.hpp"

using namespace kiwu;

#define KIW_NEWER(result, name, ...) \
	KIW_NAME result kiw_##name(__VA_ARGS__) asm(#name); \
	KIW_NAME result kiw_##name(__VA_ARGS__)
#define NEXT_NEWER(name, ...) forward(#name, kiw_##name, __VA_ARGS__)

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

int refuse_cm()
{
	errno = EOPNOTSUPP;
	return -1;
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

KIW_NEWER(void *, ibv_alloc_buf, ibv_pd *pd, std::size_t size, void **buf)
{
	return ours(pd) ? refuse<void *>() : NEXT_NEWER(ibv_alloc_buf, pd, size, buf);
}

KIW_NEWER(ibv_mr *, ibv_reg_buf_mr, ibv_pd *pd, void *buf, void *address, std::size_t length, int access)
{
	return ours(pd) ? refuse<ibv_mr *>() : NEXT_NEWER(ibv_reg_buf_mr, pd, buf, address, length, access);
}

KIW_NEWER(ibv_mr *, ibv_reg_mr_ex, ibv_pd *pd, void *attr)
{
	return ours(pd) ? refuse<ibv_mr *>() : NEXT_NEWER(ibv_reg_mr_ex, pd, attr);
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
	return refuse_cm();
}

KIW_NEWER(int, rdma_query_addrinfo, rdma_cm_id *, rdma_addrinfo **)
{
	return refuse_cm();
}

KIW_NEWER(int, rdma_write_cm_event, rdma_cm_id *, rdma_cm_event_type, int, std::uint64_t)
{
	return refuse_cm();
}
