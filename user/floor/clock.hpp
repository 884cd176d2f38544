// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <ctime>

namespace kiwu {

/// Nanoseconds of CLOCK_MONOTONIC
using Time = std::uint64_t;

inline constexpr Time microsecond = 1000, millisecond = 1000 * microsecond, second = 1000 * millisecond;
inline constexpr Time never = UINT64_MAX;

inline Time now()
{
	timespec time{};

	::clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<Time>(time.tv_sec) * second + static_cast<Time>(time.tv_nsec);
}

} // namespace kiwu
