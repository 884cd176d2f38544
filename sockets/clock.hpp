// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <ctime>

namespace kiws {

/// Nanoseconds of CLOCK_MONOTONIC
using Time = std::uint64_t;

inline constexpr Time millisecond = 1000000, second = 1000 * millisecond;
inline constexpr Time forever = UINT64_MAX;

inline Time now()
{
	timespec time{};

	(void)::clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<Time>(time.tv_sec) * second + static_cast<Time>(time.tv_nsec);
}

/// How long it is until then
inline timespec until(Time end)
{
	const Time begin = now(), left = end > begin ? end - begin : 0;

	return {.tv_sec = static_cast<time_t>(left / second), .tv_nsec = static_cast<long>(left % second)};
}

} // namespace kiws
