// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Included before provider/dv.cpp: what that defines for objects of ours has other names, since the public ones
// (kiwarpdv.cpp) pass objects of the module's devices on.
#pragma once

#define kiwarpdv_query_device kiw_own_query_device
#define kiwarpdv_create_qp kiw_own_create_qp
#define kiwarpdv_is_record kiw_own_is_record
#define kiwarpdv_read_record kiw_own_read_record
#define kiwarpdv_poll_cq kiw_own_poll_cq
#define kiwarpdv_start_poll kiw_own_start_poll
