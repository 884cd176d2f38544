// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "rules.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <unistd.h>

namespace kiws {

namespace {

template <typename Number>
bool read_number(std::string_view text, Number least, Number most, Number &number)
{
	const char *end = text.data() + text.size();
	const auto [at, error] = std::from_chars(text.data(), end, number);

	return error == std::errc{} && at == end && number >= least && number <= most;
}

/// Whether the first bits of two addresses are the same
bool matches(const std::uint8_t *one, const std::uint8_t *other, unsigned bits)
{
	const unsigned octets = bits / 8, rest = bits % 8;

	if (std::memcmp(one, other, octets) != 0)
		return false;
	return !rest || (one[octets] ^ other[octets]) >> (8 - rest) == 0;
}

// string_view::substr() may throw, for which the C++ run-time library would be needed.
std::string_view before(std::string_view text, std::size_t end)
{
	return {text.data(), std::min(end, text.size())};
}

std::string_view after(std::string_view text, std::size_t begin)
{
	return {text.data() + begin + 1, text.size() - begin - 1};
}

/// The next word, which is taken off; empty: there is none
std::string_view next_word(std::string_view &text)
{
	const std::size_t begin = std::min(text.find_first_not_of(" \t\n,"), text.size());
	const std::size_t end = std::min(text.find_first_of(" \t\n,", begin), text.size());
	const std::string_view word(text.data() + begin, end - begin);

	text.remove_prefix(end);
	return word;
}

} // namespace

bool Rules::read_ports(std::string_view text, Ports &ports)
{
	constexpr std::uint16_t least = 1, most = 65535;
	const std::size_t dash = text.find('-');

	if (text == "*") {
		ports = {least, most};
		return true;
	}
	if (!read_number(before(text, dash), least, most, ports.first))
		return false;
	ports.last = ports.first;
	return dash == std::string_view::npos || read_number(after(text, dash), ports.first, most, ports.last);
}

bool Rules::read_mode(std::string_view text)
{
	constexpr std::string_view names[] = {"api", "always", "require"};
	const auto *found = std::find(std::begin(names), std::end(names), text);

	mode = static_cast<Mode>(found - std::begin(names));
	return found != std::end(names);
}

bool Rules::read_arena(std::string_view text)
{
	std::size_t megabytes = 0;

	if (!read_number<std::size_t>(text, 0, 65536, megabytes))
		return false;
	arena = megabytes << 20;
	return true;
}

bool Rules::read_wait(std::string_view text)
{
	return read_number(text, 0U, 60000U, wait);
}

bool Rules::read_peer(std::string_view text)
{
	Peer peer{};
	char address[INET6_ADDRSTRLEN] = {};
	const std::size_t colon = text.rfind(':');

	if (colon == std::string_view::npos || peer_count_ == most || !read_ports(after(text, colon), peer.ports))
		return false;
	const std::string_view host = before(text, colon);
	const std::size_t slash = host.find('/');
	std::string_view name = before(host, slash);
	const bool bracketed = name.size() > 2 && name.front() == '[' && name.back() == ']';

	if (bracketed)
		name = {name.data() + 1, name.size() - 2};
	if (name.size() >= sizeof(address))
		return false;
	std::copy(name.begin(), name.end(), address);
	peer.family = bracketed ? AF_INET6 : AF_INET;
	peer.bits = bracketed ? 128 : 32;
	if (::inet_pton(peer.family, address, peer.address) != 1)
		return false;
	if (slash != std::string_view::npos && !read_number(after(host, slash), 0U, peer.bits, peer.bits))
		return false;
	peers_[peer_count_++] = peer;
	return true;
}

bool Rules::read_port(std::string_view text)
{
	Ports ports{};

	if (port_count_ == most || !read_ports(text, ports))
		return false;
	ports_[port_count_++] = ports;
	return true;
}

bool Rules::connects(const sockaddr *address, socklen_t length) const
{
	const std::uint8_t *octets = nullptr;
	std::uint16_t port = 0;
	int family = address->sa_family;

	if (family == AF_INET && length >= sizeof(sockaddr_in)) {
		const auto *in = reinterpret_cast<const sockaddr_in *>(address);

		octets = reinterpret_cast<const std::uint8_t *>(&in->sin_addr);
		port = ntohs(in->sin_port);
	} else if (family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
		const auto *in6 = reinterpret_cast<const sockaddr_in6 *>(address);

		octets = in6->sin6_addr.s6_addr;
		port = ntohs(in6->sin6_port);
		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
			octets += 12;
			family = AF_INET;
		}
	}
	return octets && std::any_of(peers_, peers_ + peer_count_, [&](const Peer &peer) {
		return peer.family == family && matches(peer.address, octets, peer.bits) && port >= peer.ports.first &&
		       port <= peer.ports.last;
	});
}

bool Rules::listens(std::uint16_t port) const
{
	return std::any_of(ports_, ports_ + port_count_,
		[&](const Ports &ports) { return port >= ports.first && port <= ports.last; });
}

bool Rules::read(const char *(*variable)(const char *name), char *error, std::size_t size)
{
	struct {
		const char *name;
		bool (Rules::*read)(std::string_view);
		bool words;
	} const rows[] = {
		{"IWARP_MODE", &Rules::read_mode, false},
		{"IWARP_ARENA", &Rules::read_arena, false},
		{"IWARP_WAIT", &Rules::read_wait, false},
		{"IWARP_PEERS", &Rules::read_peer, true},
		{"IWARP_PORTS", &Rules::read_port, true},
	};
	const char *loud = variable("IWARP_VERBOSE");

	*this = {};
	for (const auto &row : rows) {
		const char *value = variable(row.name);

		if (!value || !*value)
			continue;
		std::string_view rest = value;

		do {
			const std::string_view word = row.words ? next_word(rest) : rest;

			if ((word.empty() && row.words) || (this->*row.read)(word))
				continue;
			(void)std::snprintf(error, size, "%s: '%.*s' at octet %td is no such value", row.name,
				static_cast<int>(word.size()), word.data(), word.data() - value);
			*this = {};
			return false;
		} while (row.words && !rest.empty());
	}
	verbose = loud && *loud && std::strcmp(loud, "0") != 0;
	return true;
}

const Rules &rules()
{
	static Rules own;
	static const bool read = [] {
		char error[256];

		if (own.read([](const char *name) -> const char * { return ::getenv(name); }, error, sizeof(error)))
			return true;
		(void)std::fprintf(stderr, "kiwarp-sockets: %s; no connection has a lane\n", error);
		return false;
	}();

	(void)read;
	return own;
}

} // namespace kiws
