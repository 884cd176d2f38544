// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The client's interface, made slow for a scope.
#pragma once

#include <arpa/inet.h>
#include <cstdlib>
#include <ifaddrs.h>
#include <string>

#include "support.hpp"

namespace vt {

/// The name of the interface that has the address of an end. The caller is in the namespace of that end.
inline std::string interface_of(const Where &end)
{
	const auto address = [](const sockaddr *sa) -> std::string {
		char text[INET6_ADDRSTRLEN] = "";
		const void *raw = sa->sa_family == AF_INET
			? static_cast<const void *>(&reinterpret_cast<const sockaddr_in *>(sa)->sin_addr)
			: static_cast<const void *>(&reinterpret_cast<const sockaddr_in6 *>(sa)->sin6_addr);

		inet_ntop(sa->sa_family, raw, text, sizeof(text));
		return text;
	};
	const std::string wanted = address(reinterpret_cast<const sockaddr *>(&end.address));
	ifaddrs *list = nullptr;
	std::string name;

	if (getifaddrs(&list))
		fail("getifaddrs", errno);
	for (const ifaddrs *entry = list; entry && name.empty(); entry = entry->ifa_next) {
		if (entry->ifa_addr && entry->ifa_addr->sa_family == end.address.ss_family &&
			address(entry->ifa_addr) == wanted)
			name = entry->ifa_name;
	}
	freeifaddrs(list);
	if (name.empty())
		fail("no interface has " + wanted);
	return name;
}

/// A queueing discipline on the client's interface, as tc has it: "tbf rate 10mbit burst 64k limit 16m".
class Shaped {
public:
	explicit Shaped(const std::string &discipline)
	{
		tc("replace", discipline);
	}
	~Shaped() { tc("del", ""); }
	Shaped(const Shaped &) = delete;
	Shaped &operator=(const Shaped &) = delete;

private:
	static void tc(const std::string &verb, const std::string &discipline)
	{
		const InNamespace inside(client_end().netns);
		const std::string command =
			"tc qdisc " + verb + " dev " + interface_of(client_end()) + " root " + discipline;

		// The only thread that is in that namespace
		if (std::system(command.c_str())) // NOLINT(concurrency-mt-unsafe)
			ADD_FAILURE() << command;
	}
};

} // namespace vt
