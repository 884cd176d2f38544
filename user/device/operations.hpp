// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The operations of an open device: those that programs call by the context, past the public names.
#pragma once

#include <infiniband/verbs.h>

namespace kiwu {

/// Gives a context its operations.
void set_operations(ibv_context *context);

/// Fills in what libibverbs does of a completion queue that the provider has made.
void init_cq(ibv_cq &cq, ibv_context *context, ibv_comp_channel *channel, void *cq_context);

} // namespace kiwu
