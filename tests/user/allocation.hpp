// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory that the library doesn't get: this program's malloc() and its like come before all others.
#pragma once

namespace user {

/// The library's n-th allocation from now on fails, counted from 1, in whatever thread.
void fail_allocation(int n);
/// None fails any more. Returns whether one did.
bool allocation_failed();

} // namespace user
