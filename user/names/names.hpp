// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Public names of libibverbs and librdmacm, which names/table lists.
#pragma once

#include <infiniband/verbs.h>

/// In front of a function that is one of them
#define KIW_NAME extern "C" __attribute__((visibility("default")))

// Macros of verbs.h that have the name of a function
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_open_device
#undef ibv_get_device_list
