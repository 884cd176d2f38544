// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Counters of the process, named as the module's.
#pragma once

#include <atomic>
#include <cstdint>

#include "session_port.h"

namespace kiwu {

inline constinit std::atomic<std::uint64_t> counters[KIW_STAT_NUM] = {};

inline void count(kiw_stat which)
{
	counters[which].fetch_add(1, std::memory_order_relaxed);
}

} // namespace kiwu
