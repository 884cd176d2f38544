// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The counters of the process, for the option stats.
#pragma once

#include <atomic>
#include <cstdint>

namespace kiwu {

/// What streams have sent that have ended
inline constinit std::atomic<std::uint64_t> sent_fpdus = 0, sent_bytes = 0, lent_bytes = 0;

/// Whether a file can be written to; it is made, if it isn't there.
bool takes_stats(const char *path);
/// Adds a line for each counter: program, process and name, then the number.
void write_stats(const char *path);

} // namespace kiwu
