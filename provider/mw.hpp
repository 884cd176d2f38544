// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory windows. The kernel keeps them and changes them by send requests.
#pragma once

#include <infiniband/verbs.h>

namespace kiw {

// Operations; see ibv_alloc_mw(3) and ibv_bind_mw(3).
ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type);
int dealloc_mw(ibv_mw *mw);
int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *bind);

} // namespace kiw
