// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The buffers of a request, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "region.hpp"

namespace kiwu {

/// Calls copy(at, length) for each piece of n bytes of a request's buffers, from an offset on. access: IB_ACCESS_* that
/// it takes. Returns false if a piece isn't accessible.
template <typename Copy>
bool copy_pieces(const kiw_owner &owner, const kiw_sge *sge, std::uint32_t num_sge, int access, std::uint32_t offset,
	std::uint32_t n, const Copy &copy)
{
	for (; n && num_sge; sge++, num_sge--) {
		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		kiw_region_use use{};
		std::uint32_t part = std::min(n, sge->length - offset);
		if (kiw_region_begin(&owner, sge->lkey, access, sge->addr + offset, part, &use))
			return false;
		void *at = kiw_region_chunk(use.region, sge->addr + offset, &part);
		copy(at, part);
		kiw_region_end(&use);
		n -= part;
		offset = 0;
	}
	return true;
}

} // namespace kiwu
