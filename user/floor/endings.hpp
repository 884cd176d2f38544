// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connections that ended for the program before the peer had acknowledged all bytes. The process waits for them before
// it exits.
#pragma once

#include <atomic>
#include <cstdint>

namespace kiwu {

inline constinit std::atomic<std::uint32_t> endings = 0;

} // namespace kiwu
