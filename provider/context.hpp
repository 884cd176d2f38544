// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// An open device.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

#include "mapping.hpp"
#include "origin.hpp"

namespace kiw {

struct Context {
	verbs_context base; // first
	Mappings mappings;
	Origin origin;
	std::uint32_t features = 0; ///< KIW_FEATURES that the module has, too

	static Context &from(ibv_context *context) { return *reinterpret_cast<Context *>(verbs_get_ctx(context)); }
};

/// Opens a device; owns cmd_fd from here on, also when it fails.
verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *private_data);

} // namespace kiw
