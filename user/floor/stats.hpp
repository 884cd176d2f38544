// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The counters of the process by their names.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace kiwu {

/// What streams have sent that have ended
inline constinit std::atomic<std::uint64_t> sent_fpdus = 0, sent_bytes = 0, lent_bytes = 0;

/// Returns false if there is no counter of that name.
bool read_counter(std::string_view name, std::uint64_t &value);

/// In a child of fork(): they begin at 0.
void forget_counters();

// For the option stats
/// Whether a file can be written to; it is made, if it isn't there.
bool takes_stats(const char *path);
/// Adds a line for each counter: program, process and name, then the number.
void write_stats(const char *path);

} // namespace kiwu
