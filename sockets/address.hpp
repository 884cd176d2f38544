// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Addresses of both families
#pragma once

#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

namespace kiws {

struct Address {
	sockaddr_storage storage;
	socklen_t length;

	sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage); }
	int family() const { return storage.ss_family; }

	std::uint16_t port() const
	{
		if (family() == AF_INET6)
			return ntohs(reinterpret_cast<const sockaddr_in6 *>(&storage)->sin6_port);
		return family() == AF_INET ? ntohs(reinterpret_cast<const sockaddr_in *>(&storage)->sin_port) : 0;
	}
	void set_port(std::uint16_t port)
	{
		if (family() == AF_INET6)
			reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_port = htons(port);
		else
			reinterpret_cast<sockaddr_in *>(&storage)->sin_port = htons(port);
	}

	/// An IPv4 address, where a socket for both families has it as one of IPv6
	Address plain() const
	{
		const auto *in6 = reinterpret_cast<const sockaddr_in6 *>(&storage);
		sockaddr_in in{};
		Address address{};

		if (family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
			return *this;
		in.sin_family = AF_INET;
		in.sin_port = in6->sin6_port;
		std::memcpy(&in.sin_addr, in6->sin6_addr.s6_addr + 12, sizeof(in.sin_addr));
		std::memcpy(&address.storage, &in, sizeof(in));
		address.length = sizeof(in);
		return address;
	}

	bool same_host(const Address &other) const
	{
		const Address one = plain(), two = other.plain();

		if (one.family() != two.family())
			return false;
		if (one.family() == AF_INET6)
			return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6 *>(&one.storage)->sin6_addr,
				&reinterpret_cast<const sockaddr_in6 *>(&two.storage)->sin6_addr);
		return reinterpret_cast<const sockaddr_in *>(&one.storage)->sin_addr.s_addr ==
		       reinterpret_cast<const sockaddr_in *>(&two.storage)->sin_addr.s_addr;
	}
};

} // namespace kiws
