// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mr.hpp"

#include <cerrno>

#include "context.hpp"
#include "memory.hpp"

namespace kiw {

ibv_pd *alloc_pd(ibv_context *context)
{
	pabi::AllocPd request{};
	ib_uverbs_alloc_pd_resp response{};

	if (Context::from(context).origin.inherited()) {
		errno = EPERM;
		return nullptr;
	}
	Owner<ibv_pd> pd = make<ibv_pd>();
	if (!pd) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int error =
			ibv_cmd_alloc_pd(context, pd.get(), &request, sizeof(request), &response, sizeof(response))) {
		errno = error;
		return nullptr;
	}
	return pd.release();
}

int dealloc_pd(ibv_pd *pd)
{
	if (Context::from(pd->context).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_dealloc_pd(pd))
		return error;
	destroy(pd);
	return 0;
}

ibv_mr *reg_mr(ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access)
{
	pabi::RegMr request{};
	ib_uverbs_reg_mr_resp response{};

	if (Context::from(pd->context).origin.inherited()) {
		errno = EPERM;
		return nullptr;
	}
	Owner<pabi::MemoryRegion> mr = make<pabi::MemoryRegion>();
	if (!mr) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int error = ibv_cmd_reg_mr(pd, address, length, iova, access, mr.get(), &request, sizeof(request),
		    &response, sizeof(response))) {
		errno = error;
		return nullptr;
	}
	return &mr.release()->mr;
}

int dereg_mr(pabi::MemoryRegion *mr)
{
	if (Context::from(mr->mr.context).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_dereg_mr(mr))
		return error;
	destroy(mr);
	return 0;
}

} // namespace kiw
