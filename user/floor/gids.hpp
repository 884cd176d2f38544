// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The device's GID table: the host's addresses.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#include "clock.hpp"

namespace kiwu {

/// Address of a GID's slot. Programs read the table slot by slot: the host is asked for slot 0, and for another one if
/// it was not for 10 ms. Returns false for a slot beyond the table; an empty slot is zeros.
bool query_gid(std::uint32_t index, ibv_gid &gid);
/// The first slot of an address, or -1
int find_gid(const ibv_gid &gid);
/// Index of the interface with the address in a slot, or 0
std::uint32_t interface_of(std::uint32_t index);
/// Hardware address of an interface, padded with zeros
ibv_gid hardware_gid();
/// The own address for a path to another one, from a slot; slot 0 is the first address of the other's IP version.
/// interface: of a link-local address. age: how old the table may be. Returns 0, EINVAL, or ENODATA: the slot is empty.
int find_path(std::uint32_t index, const in6_addr &to, in6_addr &from, std::uint32_t &interface, Time age = 0);

/// Whether it is the address of a multicast group
inline bool is_group(const in6_addr &address)
{
	return IN6_IS_ADDR_MULTICAST(&address) ||
	       (IN6_IS_ADDR_V4MAPPED(&address) && (address.s6_addr[12] & 0xf0) == 0xe0);
}

/// In a child of fork(): threads of the parent may have had its lock.
void forget_gids();

} // namespace kiwu
