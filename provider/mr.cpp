// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mr.hpp"

#include <cerrno>
#include <cstddef>

#include "context.hpp"
#include "domain.hpp"
#include "memory.hpp"
#include "origin.hpp"

namespace kiw {

namespace {

struct Region {
	pabi::MemoryRegion base;
	Origin origin;

	static Region &from(pabi::MemoryRegion *mr) { return *reinterpret_cast<Region *>(mr); }
};

static_assert(offsetof(Region, base) == 0);

/// A region of the caller's own context; empty without memory.
Owner<Region> make_region(ibv_context *context)
{
	Owner<Region> region = make<Region>();

	if (region)
		region->origin = Context::from(context).origin;
	else
		errno = ENOMEM;
	return region;
}

} // namespace

ibv_mr *reg_mr(ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access)
{
	pabi::RegMr request{};
	ib_uverbs_reg_mr_resp response{};

	if (const int error = adopt(pd)) {
		errno = error;
		return nullptr;
	}
	Owner<Region> region = make_region(pd->context);
	if (!region)
		return nullptr;
	if (const int error = ibv_cmd_reg_mr(pd, address, length, iova, access, &region->base, &request,
		    sizeof(request), &response, sizeof(response))) {
		errno = error;
		return nullptr;
	}
	return &region.release()->base.mr;
}

int rereg_mr(pabi::MemoryRegion *mr, int flags, ibv_pd *pd, void *address, std::size_t length, int access)
{
	pabi::ReregMr request{};
	ib_uverbs_rereg_mr_resp response{};

	if (Region::from(mr).origin.inherited())
		return EPERM;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		if (const int error = adopt(pd))
			return error;
	return ibv_cmd_rereg_mr(mr, static_cast<std::uint32_t>(flags), address, length,
		reinterpret_cast<std::uintptr_t>(address), access, pd, &request, sizeof(request), &response,
		sizeof(response));
}

int dereg_mr(pabi::MemoryRegion *mr)
{
	if (Region::from(mr).origin.inherited())
		return EPERM;
	if (const int error = ibv_cmd_dereg_mr(mr))
		return error;
	destroy(&Region::from(mr));
	return 0;
}

ibv_mr *import_mr(ibv_pd *pd, std::uint32_t handle)
{
	// The handle belongs to the parent's file.
	if (Domain::from(pd).origin.inherited()) {
		errno = EPERM;
		return nullptr;
	}
	Owner<Region> region = make_region(pd->context);
	if (!region)
		return nullptr;
	if (const int error = ibv_cmd_query_mr(pd, &region->base, handle)) {
		errno = error;
		return nullptr;
	}
	return &region.release()->base.mr;
}

void unimport_mr(ibv_mr *mr)
{
	destroy(&Region::from(reinterpret_cast<pabi::MemoryRegion *>(mr)));
}

} // namespace kiw
