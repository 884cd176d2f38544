// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// How a child of fork(2) makes its inheritance its own, as far as it can: contexts and protection domains, which
// hold nothing but what is made on them, and completion channels. librdmacm opens each device once for a process, and
// knows of no child.
//
// The child opens the device for itself when it first makes something. The new file takes the descriptors of the old
// one, and a new domain in that file the place of the old domain, in the child's memory alone: what the child makes is
// its own, ends with it, and is subject to its rights, limits and control groups. The parent keeps its file and all
// that is in it, and no handle of one is ever a handle in the other.
#pragma once

#include <infiniband/verbs.h>

namespace kiw {

struct Context;

/// Makes a context the caller's own. Returns 0 or an errno value. From any thread.
int adopt(Context &context);

/// Makes a completion channel one of the context's own file, and keeps its descriptor and the flags thereof. Under
/// Origin::heirs(). Returns 0 or an errno value.
int adopt(ibv_comp_channel *channel);

} // namespace kiw
