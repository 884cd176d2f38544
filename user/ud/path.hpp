// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Destinations of datagrams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/socket.h>

#include "address.hpp"
#include "clock.hpp"
#include "kiwarp-abi.h"

namespace kiwu {

/// UDP port of datagrams to groups, the same on all hosts: neither ephemeral nor assigned to a service
inline constexpr std::uint16_t group_port = 64791;
/// Number of a group's queue pairs in verbs
inline constexpr std::uint32_t group_number = 0xffffff;

/// Has UDP tell of each datagram where it was sent to, its hop limit and its traffic class. The socket gets none of
/// groups that others have joined. six: it is one of IPv6.
void tell_addresses(int fd, bool six);

/// Addresses of a datagram, as arguments of a socket
struct UdPath {
	Address to;
	/// Source, hop limit, traffic class, and cut()
	alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(sizeof(in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
					      CMSG_SPACE(sizeof(std::uint16_t))] = {};
	std::size_t control_length = 0;

	/// Has UDP cut its data into datagrams of so many bytes; once only.
	void cut(std::uint16_t size);
	void add(int level, int type, const void *data, std::size_t length);
};

/// six: the socket is one of IPv6. age: how old what is known of the host's addresses may be. Returns false: the
/// request names no destination, or no fitting source.
bool find_ud_path(const kiw_ud_dest &dest, bool six, Time age, UdPath &path);
/// Whether it is a group or a broadcast; that of a subnet isn't detected.
bool is_to_group(const kiw_ud_dest &dest);

} // namespace kiwu
