// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The libibverbs that loaded this provider.
#pragma once

#include <cstddef>
#include <infiniband/verbs.h>

namespace kiw {

/// Releases of rdma-core with the same private layouts, from this one on
struct RdmaCore {
	int rdma_core;
	/// Newest public interface: 1.x
	unsigned interface;
	/// Bytes before the ibv_context in a verbs_context
	std::size_t context_front;
	/// ibv_cmd_get_context(), with any arguments
	int (*get_context)(verbs_context *context, void *request, std::size_t request_size, void *response,
		std::size_t response_size);
	/// Installs this provider's operations in a context.
	void (*set_operations)(verbs_context *context);
};

/// Detects the loaded libibverbs; nullptr and a message on stderr for unknown layouts.
const RdmaCore *find_rdma_core();

/// Result of find_rdma_core()
inline const RdmaCore *rdma_core_here = nullptr;

} // namespace kiw
