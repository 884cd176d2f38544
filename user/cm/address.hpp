// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Socket addresses.
#pragma once

#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

namespace kiwu {

union Address {
	sockaddr any;
	sockaddr_in v4;
	sockaddr_in6 v6;
	sockaddr_storage storage{};

	/// 0: of a family that there isn't here
	static socklen_t length_of(const sockaddr *address)
	{
		return address->sa_family == AF_INET	? sizeof(sockaddr_in)
		       : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
							: 0;
	}
	socklen_t length() const { return length_of(&any); }

	/// The bytes behind an address of another family stay zero. Returns whether the family is known.
	bool set(const sockaddr *address)
	{
		storage = {};
		std::memcpy(&storage, address, length_of(address));
		return length();
	}

	in_port_t port() const { return any.sa_family == AF_INET6 ? v6.sin6_port : v4.sin_port; }
	void set_port(in_port_t port) { (any.sa_family == AF_INET6 ? v6.sin6_port : v4.sin_port) = port; }

	bool is_wildcard() const
	{
		return any.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)
						 : v4.sin_addr.s_addr == htonl(INADDR_ANY);
	}

	/// Makes an address of IPv4 one that isn't mapped into IPv6.
	void unmap()
	{
		sockaddr_in plain{};

		if (any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
			return;
		plain.sin_family = AF_INET;
		plain.sin_port = v6.sin6_port;
		std::memcpy(&plain.sin_addr, v6.sin6_addr.s6_addr + 12, sizeof(plain.sin_addr));
		storage = {};
		v4 = plain;
	}

	/// Whether it is the same host, whatever port.
	bool same_host(const Address &other) const
	{
		if (any.sa_family != other.any.sa_family)
			return false;
		return any.sa_family == AF_INET6
			       ? std::memcmp(&v6.sin6_addr, &other.v6.sin6_addr, sizeof(v6.sin6_addr)) == 0
			       : v4.sin_addr.s_addr == other.v4.sin_addr.s_addr;
	}
};

} // namespace kiwu
