// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// How a child of fork(2) takes over contexts and protection domains, which hold nothing but the objects made on them,
// and completion channels. librdmacm opens each device once per process and ignores children.
//
// The child opens the device when it first makes something. The new file takes the old descriptors, and a new domain in
// it replaces the old one, in the child's memory only. The child's objects are its own, end with it, and count for its
// rights, limits and control groups. The parent keeps its file and objects, and no handle is valid in both.
#pragma once

#include <infiniband/verbs.h>

namespace kiw {

struct Context;

/// Makes a context the caller's own. Returns 0 or an errno value. From any thread.
int adopt(Context &context);

/// Moves a completion channel to the context's own file, keeping its descriptor and flags. Under Origin::heirs().
/// Returns 0 or an errno value.
int adopt(ibv_comp_channel *channel);

} // namespace kiw
