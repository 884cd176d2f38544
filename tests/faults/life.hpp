// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A connection's whole life, by rdma_cm or by number, which goes on as far as it can while memory is short.
#pragma once

#include <string>

namespace faults {

/// Listens, has a request rejected, connects, sends, writes and reads both ways, disconnects and destroys everything.
/// A step that fails leads straight to the end. A wait that has no end throws, and so does wrong data.
/// Return: which step failed and how, or nothing.
std::string live();

/// The same for two queue pairs that name each other by number: both write and send, and read what was written.
std::string live_by_number();

} // namespace faults
