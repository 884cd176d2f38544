// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Allocations that fail wherever the module makes them: in calls, in works, in TCP's callbacks.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace faults {

/// Calls a life with allocations failing below each function of the module that allocates in it: once, several times
/// in a row, and after more and more octets. After each the life goes well without faults, and nothing is left. One
/// failure breaks no connection.
/// The life returns which step failed and how, or nothing; what must not be is thrown.
/// Return: the names of the functions.
std::vector<std::string> fail_everywhere(const std::function<std::string()> &live);

} // namespace faults
