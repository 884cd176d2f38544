// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// GID tables, and the addresses of the two hosts that are in them.
#pragma once

#include <infiniband/verbs.h>
#include <string>

namespace vt {

/// A place in a GID table.
struct Gid {
	int slot;
	ibv_gid gid;
};

/// The slot of an address; an empty text stands for the link-local one. Waits until it is there.
Gid find_gid(ibv_context *context, const std::string &address);

/// Addresses of left and right, of one kind.
struct Addresses {
	const char *name;
	const char *left;
	const char *right;
};

inline constexpr Addresses ipv4{"IPv4", "::ffff:10.77.0.1", "::ffff:10.77.0.2"};
inline constexpr Addresses ipv6{"IPv6", "fd77::1", "fd77::2"};
inline constexpr Addresses link_local{"LinkLocal", "", ""};

} // namespace vt
