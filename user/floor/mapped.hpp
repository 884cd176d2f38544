// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the kernel says of the process's memory, without touching it.
#pragma once

#include <cstddef>

namespace kiwu {

std::size_t page_size();
/// Whether the process has memory there.
bool is_mapped(const void *address, std::size_t length);
/// Whether it can be read now, or written to.
bool is_usable(const void *address, std::size_t length, bool written);

} // namespace kiwu
