// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Which connections may have a lane: the variables of the environment.
//
//   IWARP_MODE   api (default): none by rule; always: a lane wherever a rule says so, and TCP where there is none;
//                require: connect() fails without one
//   IWARP_PEERS  where this process connects to: ADDRESS[/BITS]:PORT[-PORT] or [ADDRESS]/BITS:PORT, * for any port;
//   words IWARP_PORTS  where it listens: PORT or PORT-PORT; words IWARP_ARENA  most megabytes of memory for lanes (64)
//   IWARP_WAIT   milliseconds that octets wait for a lane that is under way (100)
//   IWARP_VERBOSE  1: a line on standard error for each connection of a rule, at its end
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <sys/socket.h>

namespace kiws {

enum class Mode : std::uint8_t { api, always, require };

class Rules {
public:
	Mode mode = Mode::api;
	bool verbose = false;
	std::size_t arena = std::size_t(64) << 20;
	unsigned wait = 100; // milliseconds

	/// Whether a rule names that destination
	bool connects(const sockaddr *address, socklen_t length) const;
	/// Whether a rule names that port of this host
	bool listens(std::uint16_t port) const;

	/// Reads them. A value that can't be is told in error, which has size octets, and then there is no rule.
	bool read(const char *(*variable)(const char *name), char *error, std::size_t size);

private:
	static constexpr std::size_t most = 64;
	struct Ports {
		std::uint16_t first, last;
	};
	struct Peer {
		int family;
		unsigned bits;
		std::uint8_t address[16];
		Ports ports;
	};

	bool read_mode(std::string_view text);
	bool read_arena(std::string_view text);
	bool read_wait(std::string_view text);
	bool read_peer(std::string_view text);
	bool read_port(std::string_view text);
	static bool read_ports(std::string_view text, Ports &ports);

	Peer peers_[most];
	Ports ports_[most];
	std::size_t peer_count_ = 0, port_count_ = 0;
};

/// Those of this process, which don't change
const Rules &rules();

} // namespace kiws
