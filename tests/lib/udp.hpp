// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagrams that a program makes by itself, with a plain socket.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ud {

using Bytes = std::vector<std::uint8_t>;

/// The CRC over what is there, behind it.
Bytes closed(Bytes bytes);
/// A good datagram, octet by octet as Documentation/datagram.md says, after an optional change that its CRC covers.
Bytes datagram(std::uint32_t key, const Bytes &payload, const std::function<void(Bytes &)> &change = {});
/// The same with immediate data
Bytes datagram_imm(
	std::uint32_t key, std::uint32_t imm, const Bytes &payload, const std::function<void(Bytes &)> &change = {});

/// A UDP socket of a host.
class Socket {
public:
	/// Bound to an address of IPv4; port 0 is any.
	Socket(const std::string &host, const std::string &address, std::uint16_t port = 0);
	~Socket();
	Socket(const Socket &) = delete;
	Socket &operator=(const Socket &) = delete;

	std::uint16_t port() const { return port_; }
	void send(const std::string &address, std::uint32_t port, const Bytes &bytes) const;
	/// The same in one packet as long as no network needs more: datagrams as long as the first, the last perhaps
	/// shorter.
	void send_together(const std::string &address, std::uint32_t port, const std::vector<Bytes> &all) const;
	/// What has come by now.
	std::vector<Bytes> received() const;
	/// The next datagram.
	Bytes receive() const;

private:
	int fd_;
	std::uint16_t port_;
};

/// What UDP has counted on a host, over both IPs: a counter of /proc/net/snmp.
std::uint64_t udp_counter(const std::string &host, const std::string &counter);
/// How often UDP has been given something to send on a host.
std::uint64_t calls_to_udp(const std::string &host);
/// How often a reader has got something from UDP on a host.
std::uint64_t calls_of_udp(const std::string &host);

/// Sends datagrams from any address and port, as root can.
class Spoofer {
public:
	explicit Spoofer(const std::string &host);
	~Spoofer();
	Spoofer(const Spoofer &) = delete;
	Spoofer &operator=(const Spoofer &) = delete;

	/// The checksum is UDP's; with 0 there is none.
	void send(const std::string &from, std::uint16_t from_port, const std::string &to, std::uint32_t port,
		const Bytes &bytes, std::uint16_t checksum = 0) const;

private:
	int fd_;
};

/// One of them
void send_spoofed(const std::string &host, const std::string &from, std::uint16_t from_port, const std::string &to,
	std::uint32_t port, const Bytes &bytes);

} // namespace ud
