// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connections that have ended for the program, and whose peer hasn't acknowledged all that it was sent. The process
// waits for them before it exits.
#pragma once

#include <atomic>
#include <cstdint>

namespace kiwu {

inline constinit std::atomic<std::uint32_t> endings = 0;

} // namespace kiwu
