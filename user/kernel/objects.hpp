// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The objects that the provider's handles stand for.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

#include "qp.hpp"
#include "srq.hpp"

namespace kiwu {

/// nullptr: there is no such object.
kiw_cq *find_cq(std::uint32_t handle);
Srq *find_srq(std::uint32_t handle);

/// In a child of fork(): they are its parent's.
void forget_objects();

/// Of an object that there is
inline kiw_cq &of(const ibv_cq *cq)
{
	return *find_cq(cq->handle);
}
inline Qp &of(const ibv_qp *qp)
{
	return *find_qp(qp->handle);
}
inline Srq &of(const ibv_srq *srq)
{
	return *find_srq(srq->handle);
}

} // namespace kiwu
