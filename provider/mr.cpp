// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mr.hpp"

#include <cerrno>

#include "context.hpp"
#include "memory.hpp"

namespace kiw {

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

int rereg_mr(pabi::MemoryRegion *mr, int flags, ibv_pd *pd, void *address, std::size_t length, int access)
{
	pabi::ReregMr request{};
	ib_uverbs_rereg_mr_resp response{};

	if (Context::from(mr->mr.context).origin.inherited())
		return EPERM;
	return ibv_cmd_rereg_mr(mr, static_cast<std::uint32_t>(flags), address, length,
		reinterpret_cast<std::uintptr_t>(address), access, pd, &request, sizeof(request), &response,
		sizeof(response));
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

ibv_mr *import_mr(ibv_pd *pd, std::uint32_t handle)
{
	if (Context::from(pd->context).origin.inherited()) {
		errno = EPERM;
		return nullptr;
	}
	Owner<pabi::MemoryRegion> mr = make<pabi::MemoryRegion>();
	if (!mr) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int error = ibv_cmd_query_mr(pd, mr.get(), handle)) {
		errno = error;
		return nullptr;
	}
	return &mr.release()->mr;
}

void unimport_mr(ibv_mr *mr)
{
	destroy(reinterpret_cast<pabi::MemoryRegion *>(mr));
}

} // namespace kiw
