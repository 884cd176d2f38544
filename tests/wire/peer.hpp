// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The raw end of a connection in full operation: FPDUs as RFC 5044 wants them, or spoilt on purpose. What arrives has
// to be right in every respect.
#pragma once

#include <string>

#include "link.hpp"

// How the octets under test are cut into TCP segments
struct Cut {
	static constexpr size_t whole = 0;
	static constexpr size_t bytewise = SIZE_MAX;

	size_t at = whole; // or in two behind that many octets
	size_t length = 0; // of what was cut

	std::string text() const;
	// The next way: whole, octet by octet, then cut behind the first, second...
	static size_t behind(size_t way) { return way == whole ? bytewise : way == bytewise ? 1 : way + 1; }
};

class Peer {
public:
	explicit Peer(int fd) : link(fd) { use(true); }

	Link link;
	Stream out;

	// Which of CRC and markers in either direction are in use
	void use(bool crc, bool markers_out = false, bool markers_in = false)
	{
		out.crc = crc;
		out.markers = markers_out;
		link.expect(crc, markers_in);
	}
	// The FPDU around a ULPDU, at the stream's present place
	Bytes framed(const Bytes &ulpdu, const Spoil &spoil = {}) { return out.fpdu(ulpdu, spoil); }
	void send(const Bytes &ulpdu, const Spoil &spoil = {}) { link.send(framed(ulpdu, spoil)); }
	// Sends what is looked at, as one of the ways to cut it wants
	void deliver(const Bytes &octets, Cut &cut);

	// The next ULPDU, which must be there
	Bytes next();
	// Fails unless exactly this arrives
	void expect(const Bytes &ulpdu);
	// A message of several segments; fails unless they fit together
	struct Message {
		Bytes header; // of the first segment
		Bytes payload;
		size_t segments;
		size_t longest; // ULPDU
	};
	Message message();
	// Nothing but the end may come
	void expect_end();
};
