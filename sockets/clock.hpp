// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

#include <ctime>

#include "user/floor/clock.hpp"

namespace kiws {

using kiwu::millisecond;
using kiwu::now;
using kiwu::second;
using kiwu::Time;

inline constexpr Time forever = kiwu::never;

/// How long it is until then
inline timespec until(Time end)
{
	const Time begin = now(), left = end > begin ? end - begin : 0;

	return {.tv_sec = static_cast<time_t>(left / second), .tv_nsec = static_cast<long>(left % second)};
}

} // namespace kiws
