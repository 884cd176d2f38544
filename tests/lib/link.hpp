// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The link between both ends, and TCP beneath the verbs, as an administrator sees and changes them.
#pragma once

#include <cstdint>
#include <string>

#include "support.hpp"

namespace vt {

/// Whether a command of the shell succeeds.
bool run(const std::string &command);

/// What a command begins with that is to run in the namespace of an end.
std::string in(const Where &where);

/// A counter of a device
std::uint64_t counter(ibv_context *context, const std::string &name);

/// The name of the interface that has the address of an end.
std::string interface_of(const Where &where);

/// An option of a link, by the name of its device, with another value for a scope
class LinkOption {
public:
	LinkOption(const std::string &device, const std::string &name, const std::string &value);
	~LinkOption();
	LinkOption(const LinkOption &) = delete;
	LinkOption &operator=(const LinkOption &) = delete;

	/// 0, or what the kernel says to it
	int set(const std::string &value) const;

private:
	std::string file_;
};

/// What leaves an end by its interface is held back as tc is told, for a scope.
class HeldBack {
public:
	HeldBack(const Where &where, const std::string &how);
	~HeldBack();
	HeldBack(const HeldBack &) = delete;
	HeldBack &operator=(const HeldBack &) = delete;

	void set(const std::string &how) const;
	/// The same for each packet of the wire: what the sender's stack keeps together until then is cut up before.
	void set_for_each(const std::string &how) const;

private:
	void tc(const std::string &verb, const std::string &where, const std::string &how) const;

	std::string in_;
	std::string interface_;
};

/// One more link between the hosts, for a scope: devices kiwz0 in left and kiwz1 in right, on interfaces of these names
/// without an address.
class SpareLink {
public:
	SpareLink();
	~SpareLink();
	SpareLink(const SpareLink &) = delete;
	SpareLink &operator=(const SpareLink &) = delete;

	/// ip address ARGUMENTS; waits until slot 0 of the device is what the text says, if it says something.
	static void address(const std::string &arguments, const std::string &device, const std::string &first = "");
};

constexpr int tcp_syn_recv = 3;
constexpr int tcp_fin_wait1 = 4;
constexpr int tcp_listen = 10;

/// The state of a connection of an end towards a port, as in /proc/net/tcp; 0 where there is none.
int tcp_state(const Where &where, std::uint16_t remote_port);
/// How many sockets of an end listen on a port.
int tcp_listeners(const Where &where, std::uint16_t port);

} // namespace vt
