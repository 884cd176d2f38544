// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Sockets on all of the host's addresses.
#pragma once

#include <cstdint>

namespace kiwu {

/// Makes a socket of IPv4 and IPv6, or of IPv4 where the host has no IPv6, and binds it.
/// type: SOCK_STREAM or SOCK_DGRAM; port: the one to take, 0 for any, and the one that it got; six: it is one of IPv6.
/// Returns 0 or an errno value.
int bind_any(int type, std::uint16_t &port, int &fd, bool &six);

} // namespace kiwu
