// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// In place of provider/inheritance.cpp: what a child of fork() inherits stays its parent's. Sockets and rings are one
// process's, and there is no device that the child could open in its parent's place.
#include "inheritance.hpp"

#include <cerrno>

#include "context.hpp"

namespace kiw {

int adopt(Context &context)
{
	return context.origin.inherited() ? EPERM : 0;
}

int adopt(ibv_comp_channel *)
{
	return EPERM;
}

} // namespace kiw
