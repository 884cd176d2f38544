// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// An open device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>

#include "mapping.hpp"
#include "origin.hpp"
#include "private_abi.hpp"

namespace kiw {

struct Context {
	/// libibverbs' part of a verbs_context, in front of its ibv_context
	alignas(8) std::byte front[pabi::context_front];
	ibv_context ibv;
	Mappings mappings;
	Origin origin;
	std::uint32_t features = 0; ///< common KIW_FEATURES
	bool adopted = false;	    ///< its files replaced a parent's: inheritance.hpp

	static Context &from(ibv_context *context)
	{
		return *reinterpret_cast<Context *>(reinterpret_cast<std::byte *>(context) - pabi::context_front);
	}
};

static_assert(offsetof(Context, ibv) == pabi::context_front);

/// Opens a device; owns cmd_fd, even if it fails.
verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *private_data);
/// The same for a descriptor of a device that some process opened.
verbs_context *import_context(ibv_device *device, int cmd_fd);
void free_context(ibv_context *context);

} // namespace kiw
