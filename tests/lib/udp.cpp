// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "udp.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

#include "support.hpp"

namespace ud {

namespace {

sockaddr_in address_of(const std::string &text, std::uint32_t port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_port = htons(static_cast<std::uint16_t>(port));
	if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1)
		vt::fail("no address: " + text);
	return address;
}

void put32(Bytes &bytes, std::uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

/// CRC-32C, bit by bit
std::uint32_t crc(const Bytes &bytes)
{
	std::uint32_t sum = ~0U;

	for (const std::uint8_t byte : bytes) {
		sum ^= byte;
		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78 : 0);
	}
	return ~sum;
}

} // namespace

Bytes closed(Bytes bytes)
{
	const std::uint32_t sum = crc(bytes);

	for (int shift = 0; shift < 32; shift += 8)
		bytes.push_back(static_cast<std::uint8_t>(sum >> shift));
	return bytes;
}

Bytes datagram(std::uint32_t key, const Bytes &payload, const std::function<void(Bytes &)> &change)
{
	// Mark, version, DDP with the last segment of an untagged message, RDMAP with a Send
	Bytes bytes{0x0d, 0x10, 0x41, 0x43};

	put32(bytes, key);
	put32(bytes, 0); // queue
	put32(bytes, 0); // number of the message
	put32(bytes, 0); // offset
	bytes.insert(bytes.end(), payload.begin(), payload.end());
	if (change)
		change(bytes);
	return closed(bytes);
}

Bytes datagram_imm(
	std::uint32_t key, std::uint32_t imm, const Bytes &payload, const std::function<void(Bytes &)> &change)
{
	Bytes behind;

	put32(behind, imm);
	put32(behind, 0);
	behind.insert(behind.end(), payload.begin(), payload.end());
	return datagram(key, behind, [&](Bytes &bytes) {
		bytes[3] = 0x48;
		if (change)
			change(bytes);
	});
}

Socket::Socket(const std::string &host, const std::string &address, std::uint16_t port)
{
	const vt::InNamespace inside(host);
	sockaddr_in name = address_of(address, port);
	socklen_t length = sizeof(name);
	const int on = 1;

	fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) ||
		bind(fd_, reinterpret_cast<sockaddr *>(&name), sizeof(name)) ||
		getsockname(fd_, reinterpret_cast<sockaddr *>(&name), &length))
		vt::fail("a socket", errno);
	port_ = ntohs(name.sin_port);
}

Socket::~Socket()
{
	close(fd_);
}

void Socket::send(const std::string &address, std::uint32_t port, const Bytes &bytes) const
{
	const sockaddr_in to = address_of(address, port);

	if (sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr *>(&to), sizeof(to)) < 0)
		vt::fail("sendto", errno);
}

void Socket::send_together(const std::string &address, std::uint32_t port, const std::vector<Bytes> &all) const
{
	int size = static_cast<int>(all.front().size());
	Bytes together;

	for (const Bytes &one : all)
		together.insert(together.end(), one.begin(), one.end());
	if (setsockopt(fd_, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)))
		vt::fail("UDP_SEGMENT", errno);
	send(address, port, together);
	size = 0;
	if (setsockopt(fd_, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)))
		vt::fail("UDP_SEGMENT", errno);
}

std::vector<Bytes> Socket::received() const
{
	std::vector<Bytes> all;
	Bytes one(65536);

	for (;;) {
		const ssize_t n = recv(fd_, one.data(), one.size(), MSG_DONTWAIT);

		if (n < 0)
			return all;
		all.emplace_back(one.begin(), one.begin() + n);
	}
}

Bytes Socket::receive() const
{
	Bytes one(65536);

	vt::wait_readable(fd_, "a datagram");
	const ssize_t n = recv(fd_, one.data(), one.size(), MSG_DONTWAIT);
	if (n < 0)
		vt::fail("recv", errno);
	one.resize(static_cast<std::size_t>(n));
	return one;
}

std::uint64_t udp_counter(const std::string &host, const std::string &counter)
{
	const vt::InNamespace inside(host);
	std::ifstream four("/proc/thread-self/net/snmp"), six("/proc/thread-self/net/snmp6");
	std::string line, name, names;
	std::uint64_t sum = 0, value = 0;

	while (std::getline(four, line)) {
		if (line.compare(0, 5, "Udp: ") != 0)
			continue;
		if (names.empty()) {
			names = line;
			continue;
		}
		std::istringstream heads(names), values(line);
		heads >> name;
		values >> name;
		while (heads >> name && values >> value)
			if (name == counter)
				sum += value;
	}
	while (six >> name >> value)
		if (name == "Udp6" + counter)
			sum += value;
	return sum;
}

std::uint64_t calls_to_udp(const std::string &host)
{
	return udp_counter(host, "OutDatagrams");
}

std::uint64_t calls_of_udp(const std::string &host)
{
	return udp_counter(host, "InDatagrams");
}

Spoofer::Spoofer(const std::string &host)
{
	const vt::InNamespace inside(host);

	fd_ = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	if (fd_ < 0)
		vt::fail("a raw socket", errno);
}

Spoofer::~Spoofer()
{
	close(fd_);
}

void Spoofer::send(const std::string &from, std::uint16_t from_port, const std::string &to, std::uint32_t port,
	const Bytes &bytes, std::uint16_t checksum) const
{
	const sockaddr_in source = address_of(from, from_port);
	const sockaddr_in target = address_of(to, port);
	iphdr ip{};
	udphdr udp{};
	Bytes packet(sizeof(ip) + sizeof(udp) + bytes.size());

	ip.version = 4;
	ip.ihl = 5;
	ip.ttl = 64;
	ip.protocol = IPPROTO_UDP;
	ip.saddr = source.sin_addr.s_addr;
	ip.daddr = target.sin_addr.s_addr;
	ip.tot_len = htons(static_cast<std::uint16_t>(packet.size()));
	udp.source = source.sin_port;
	udp.dest = target.sin_port;
	udp.len = htons(static_cast<std::uint16_t>(sizeof(udp) + bytes.size()));
	udp.check = htons(checksum);
	std::memcpy(packet.data(), &ip, sizeof(ip));
	std::memcpy(packet.data() + sizeof(ip), &udp, sizeof(udp));
	std::copy(bytes.begin(), bytes.end(), packet.begin() + sizeof(ip) + sizeof(udp));
	if (sendto(fd_, packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr *>(&target), sizeof(target)) <
		0)
		vt::fail("sendto", errno);
}

void send_spoofed(const std::string &host, const std::string &from, std::uint16_t from_port, const std::string &to,
	std::uint32_t port, const Bytes &bytes)
{
	Spoofer(host).send(from, from_port, to, port, bytes);
}

} // namespace ud
