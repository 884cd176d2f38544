// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory regions: the kernel does it all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>

#include "private_abi.hpp"

namespace kiw {

// Operations; see ibv_reg_mr(3) and so on.
ibv_mr *reg_mr(ibv_pd *pd, void *address, std::size_t length, std::uint64_t iova, int access);
int rereg_mr(pabi::MemoryRegion *mr, int flags, ibv_pd *pd, void *address, std::size_t length, int access);
int dereg_mr(pabi::MemoryRegion *mr);
ibv_mr *import_mr(ibv_pd *pd, std::uint32_t handle);
void unimport_mr(ibv_mr *mr);

} // namespace kiw
