// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Regions: memory of the process that an STag leads to, and windows, which are parts of them.
//
// A use of a region is a look-up with all checks, copies, and the end of the use. It counts in the region, and
// remove() waits until none is left. The object behind a region is used again for another one, but its memory never
// for anything else: so a look-up, which takes no lock, finds a region, a region that has gone, or another one, and
// the check behind it tells which.
//
// Windows can be withdrawn while they are used: a use of one holds its lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "lock.hpp"
#include "session_port.h"

struct kiw_domain {
	std::uint32_t number;
	std::atomic<std::uint32_t> users = 0;
	kiw::Lock lock;		       // protects windows; innermost
	kiw_region *windows = nullptr; // of type 2, that are bound
};

struct kiw_region {
	enum class Kind : std::uint8_t { memory, window_1, window_2 };

	/// Value of windows: it goes, no window is bound to it any more.
	static constexpr std::int32_t goes = -1;

	// Of a window, protects what follows; uses hold it. Of other regions it never changes while they are there.
	kiw::Lock lock;
	bool valid = false;
	Kind kind = Kind::memory;
	std::atomic<std::uint32_t> stag = 0;
	int access = 0;
	kiw_domain *pd = nullptr;
	std::uint8_t *bytes = nullptr;
	std::uint64_t iova = 0;
	std::uint64_t length = 0;
	// Of a window that is bound
	kiw_region *parent = nullptr;
	const kiw_owner *owner = nullptr;
	kiw_region *next_window = nullptr;
	// Under way, and one as long as it can be found
	std::atomic<std::uint32_t> uses = 0;
	// That are bound to it, or goes
	std::atomic<std::int32_t> windows = 0;
	kiw_region *next_free = nullptr;

	bool is_window() const { return kind != Kind::memory; }
};

namespace kiwu {

/// An object for a region, not found by anybody; nullptr if there is no memory.
kiw_region *make_region();
/// It was made, or removed.
void free_region(kiw_region &region);

/// Gives a region its STag, by which it is found. Returns 0, ENOMEM or ENOSPC.
int add_region(kiw_region &region);
/// Gives it the STag of another one, which is found no more.
void replace_region(const kiw_region &before, kiw_region &region);
/// It is found no more, if it still was, and all uses have ended.
void remove_region(kiw_region &region);
/// Looks a region up by its STag, for the thread that has made it; nullptr: there is none.
kiw_region *find_region(std::uint32_t stag);

/// In a child of fork(): they are its parent's.
void forget_regions();

/// No window is bound to it any more; false if one is.
bool close_region(kiw_region &region);
/// One that was closed is to stay after all.
void reopen_region(kiw_region &region);

/// Takes its memory from a window that is found no more.
void unbind(kiw_region &window);
/// The windows of a queue pair that goes, or begins anew, are invalid.
void unbind_all(const kiw_owner &owner);

/// Ends a use that may have been set aside.
inline void leave_use(kiw_region_use &use)
{
	if (use.region)
		kiw_region_end(&use);
	use.region = nullptr;
}

} // namespace kiwu
