// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Address handles.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

#include "kiwarp-abi.h"
#include "origin.hpp"

namespace kiw {

/// Checked and counted by the kernel. Each request carries the address itself.
struct Ah {
	ibv_ah ibv;
	/// Without the peer's number and key
	kiw_ud_dest dest;
	Origin origin;

	static Ah &from(ibv_ah *ah) { return *reinterpret_cast<Ah *>(ah); }
	static const Ah &from(const ibv_ah *ah) { return *reinterpret_cast<const Ah *>(ah); }
};

// Operations; see ibv_create_ah(3).
ibv_ah *create_ah(ibv_pd *pd, ibv_ah_attr *attr);
int destroy_ah(ibv_ah *ah);

} // namespace kiw
