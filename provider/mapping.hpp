// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Mappings of rings. Several rings may share a mapping, which lives as long as any of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kiwarp-abi.h"
#include "lock.hpp"

namespace kiw {

class Mappings;

/// A mapping, owned by its rings. Not for children: two producers would ruin a ring.
class Mapping {
public:
	std::byte *base() const { return base_; }
	/// Once per acquire; the last one unmaps.
	void release();

private:
	friend class Mappings;

	/// Returns 0 or an errno value.
	int map(int fd, const kiw_ring_geometry &geometry);
	void unmap();

	Mappings *owner_ = nullptr;
	Mapping *next_ = nullptr;
	std::uint64_t number_ = 0;
	std::size_t users_ = 0;
	std::byte *base_ = nullptr;
	std::size_t size_ = 0;
};

/// All mappings of a context. From any thread.
class Mappings {
public:
	/// Finds or makes the mapping of a ring. The kernel must hold the ring during the call. Returns 0, an errno
	/// value, or EPROTO if a known mapping is reported with another size.
	int acquire(int fd, const kiw_ring_geometry &geometry, Mapping *&mapping);

private:
	friend class Mapping;

	Lock lock_;
	Mapping *first_ = nullptr;
};

} // namespace kiw
