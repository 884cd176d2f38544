// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory of rings.
#pragma once

#include <cstdlib>
#include <cstring>

#include "session/ring.h"

namespace kiwu {

/// Returns false if there is no memory.
inline bool make_ring(kiw_ring_map &map, std::uint32_t entries, std::uint32_t stride)
{
	const std::size_t size = (KIW_RING_HEADER + std::size_t{entries} * stride + KIW_RING_ALIGN - 1) /
				 KIW_RING_ALIGN * KIW_RING_ALIGN;

	map = {};
	map.mem = std::aligned_alloc(KIW_RING_ALIGN, size);
	if (!map.mem)
		return false;
	std::memset(map.mem, 0, size);
	map.size = static_cast<std::uint32_t>(size);
	map.stride = stride;
	return true;
}

inline void free_ring(kiw_ring_map &map)
{
	std::free(map.mem);
	map = {};
}

} // namespace kiwu
