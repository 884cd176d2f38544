// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "peer.hpp"

#include <algorithm>

std::string Cut::text() const
{
	return at == whole ? "whole" : at == bytewise ? "octet by octet" : "cut at " + std::to_string(at);
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
		link.send(behind(octets, cut.at));
		segments = 2;
	} else {
		link.send(octets);
	}
	if (link.segments() - before < segments)
		throw Failure("TCP joined what was to go in " + std::to_string(segments) + " segments");
}

Bytes Peer::next()
{
	auto b = link.ulpdu();

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
		m.payload.insert(m.payload.end(), b.data() + header, b.data() + b.size());
	}
	return m;
}

void Peer::expect_end()
{
	const Bytes b = link.rest();

	if (!b.empty())
		throw Failure("more comes: " + hex(b));
}
