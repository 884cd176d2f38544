// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A device that is opened without the provider.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <vector>

#include "kiwarp-abi.h"

namespace vt {

/// A descriptor of its own for a device
int open_uverbs(const ibv_device *device);

/// Has the kernel make a context for a descriptor, as a provider does whose part of the request is own. Returns 0 or
/// errno.
int get_context(int fd, const std::vector<std::uint32_t> &own, kiw_get_context_resp &told);

/// The same for a completion queue, in that context
int make_cq(int fd, const std::vector<std::uint32_t> &own);

} // namespace vt
