// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Opening and closing the device
#pragma once

#include <infiniband/verbs.h>

namespace kiwu {

/// Opens the device; nullptr and errno: it can't be.
ibv_context *open_device();
void close_device(ibv_context *context);

} // namespace kiwu
