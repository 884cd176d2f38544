// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "peer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <poll.h>
#include <sys/socket.h>

static constexpr size_t marker_distance = 512, marker_size = 4, crc_size = 4;

std::string hex(const Bytes &b)
{
	std::string text;
	std::array<char, 8> octet{};

	for (size_t i = 0; i < b.size() && i < 128; i++) {
		snprintf(octet.data(), octet.size(), "%02x%s", b[i], i % 4 == 3 ? " " : "");
		text += octet.data();
	}
	return text + (b.size() > 128 ? "..." : "") + " (" + std::to_string(b.size()) + " octets)";
}

std::string Cut::text() const
{
	return at == whole ? "whole" : at == bytewise ? "octet by octet" : "cut at " + std::to_string(at);
}

Bytes Peer::framed(const Bytes &ulpdu, const Spoil &spoil)
{
	Bytes plain;
	Bytes b;
	uint64_t at = sent;
	uint64_t begin = sent;
	const auto mark = [&] {
		if (!markers_out || at % marker_distance)
			return;
		// One in front of the FPDU belongs to it and moves its beginning.
		if (at == begin)
			begin += marker_size;
		put(b, spoil.reserved, 2);
		put(b, (at < begin ? 0 : at - begin) ^ spoil.pointer, 2);
		at += marker_size;
	};

	put(plain, ulpdu.size() + spoil.length, 2);
	plain = plain + ulpdu;
	while (plain.size() % 4)
		plain.push_back(spoil.pad);
	for (uint8_t octet : plain) {
		mark();
		b.push_back(octet);
		at++;
	}
	mark();
	const uint32_t value = crc ? crc32c(b) ^ spoil.crc : spoil.crc;
	for (size_t i = 0; i < crc_size; i++)
		b.push_back(uint8_t(value >> (8 * i)));
	sent = at + crc_size;
	if (spoil.flip < b.size())
		b[spoil.flip] ^= 1;
	return b;
}

void Peer::deliver(const Bytes &octets, Cut &cut)
{
	const uint32_t before = link.segments();
	size_t segments = 1;

	cut.length = octets.size();
	if (cut.at == Cut::bytewise) {
		link.send_slowly(octets);
		segments = octets.size();
	} else if (cut.at > 0 && cut.at < octets.size()) {
		link.send(first(octets, cut.at));
		link.send(Bytes(octets.begin() + cut.at, octets.end()));
		segments = 2;
	} else {
		link.send(octets);
	}
	if (link.segments() - before < segments)
		throw Failure("TCP joined what was to go in " + std::to_string(segments) + " segments");
}

void Peer::take_marker(Bytes &covered)
{
	if (!markers_in || received % marker_distance)
		return;
	const Bytes marker = link.receive(marker_size);
	const uint64_t distance = start ? received - *start : 0;
	if (get(marker.data(), marker_size) != distance)
		throw Failure("marker " + hex(marker) + " at " + std::to_string(received) + ", which is " +
			      std::to_string(distance) + " behind its FPDU's beginning");
	covered = covered + marker;
	markers++;
	if (!start && received)
		markers_between++;
	received += marker_size;
}

// n octets without the markers between them; "covered" gets all
Bytes Peer::take(size_t n, Bytes &covered)
{
	Bytes b;

	while (n) {
		take_marker(covered);
		const size_t run = markers_in ? std::min(n, marker_distance - received % marker_distance) : n;
		if (!start)
			start = received;
		const Bytes part = link.receive(run);
		b.insert(b.end(), part.begin(), part.end());
		covered.insert(covered.end(), part.begin(), part.end());
		received += run;
		n -= run;
	}
	return b;
}

std::optional<Bytes> Peer::ulpdu()
{
	Bytes covered;
	uint8_t octet = 0;

	wait_for(link.descriptor(), POLLIN, "receive");
	const ssize_t n = recv(link.descriptor(), &octet, 1, MSG_PEEK);
	if (n < 0)
		throw Failure("the connection was reset");
	if (n == 0)
		return std::nullopt;

	start.reset();
	const Bytes length = take(2, covered);
	fpdu_at = *start;
	const size_t size = get(length.data(), 2);
	Bytes b = take(size, covered);
	for (uint8_t pad : take((4 - (2 + size) % 4) % 4, covered))
		if (pad)
			throw Failure("PAD isn't zero");
	take_marker(covered);
	const Bytes trailer = link.receive(crc_size);
	received += crc_size;
	last_crc = trailer[0] | trailer[1] << 8 | trailer[2] << 16 | uint32_t(trailer[3]) << 24;
	if (crc && last_crc != crc32c(covered))
		throw Failure("bad CRC behind " + hex(b));
	return b;
}

Bytes Peer::next()
{
	auto b = ulpdu();

	if (!b)
		throw Failure("the connection ended where an FPDU is due");
	return *b;
}

void Peer::expect(const Bytes &wanted)
{
	const Bytes b = next();

	if (b != wanted)
		throw Failure("got " + hex(b) + " instead of " + hex(wanted));
}

Peer::Message Peer::message()
{
	Message m = {};

	for (bool last_one = false; !last_one;) {
		const Bytes b = next();
		const size_t header = b[0] & tagged ? 14 : 18;
		const size_t counter = b[0] & tagged ? 6 : 14; // where TO or MO is
		const int width = b[0] & tagged ? 8 : 4;

		if (b.size() < header)
			throw Failure("no room for a header in " + hex(b));
		if (m.segments++ == 0)
			m.header = first(b, header);
		last_one = b[0] & last;
		// All but the L bit and the offset is the same in every segment.
		Bytes should = m.header;
		should[0] = uint8_t((should[0] & ~last) | (b[0] & last));
		const uint64_t offset = get(&m.header[counter], width) + m.payload.size();
		for (int i = 0; i < width; i++)
			should[counter + i] = uint8_t(offset >> (8 * (width - 1 - i)));
		if (first(b, header) != should)
			throw Failure("segment " + hex(first(b, header)) + " instead of " + hex(should));
		m.longest = std::max(m.longest, b.size());
		m.payload.insert(m.payload.end(), b.begin() + header, b.end());
	}
	return m;
}

void Peer::expect_end()
{
	const Bytes b = link.rest();

	if (!b.empty())
		throw Failure("more comes: " + hex(b));
}
