// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The libibverbs that has loaded this provider.
#pragma once

#include <cstddef>
#include <infiniband/verbs.h>

namespace kiw {

/// Releases of rdma-core with the same private layouts, from this one on
struct RdmaCore {
	int rdma_core;
	/// Newest public interface of its libibverbs: 1.x
	unsigned interface;
	/// Bytes in front of the ibv_context in its verbs_context
	std::size_t context_front;
	/// ibv_cmd_get_context(), whichever arguments it takes
	int (*get_context)(verbs_context *context, void *request, std::size_t request_size, void *response,
		std::size_t response_size);
	/// Gives a context the operations of this provider.
	void (*set_operations)(verbs_context *context);
};

/// Finds out which libibverbs has loaded this provider; nullptr and a message on stderr if its layouts aren't known.
const RdmaCore *find_rdma_core();

/// What find_rdma_core() has found
inline const RdmaCore *rdma_core_here = nullptr;

} // namespace kiw
