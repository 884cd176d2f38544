// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The raw end of a connection in full operation: FPDUs as RFC 5044 wants them, or spoilt on purpose. What arrives has
// to be right in every respect.
#pragma once

#include <optional>
#include <string>

#include "link.hpp"

// How the octets under test are cut into TCP segments
struct Cut {
	static constexpr size_t whole = 0;
	static constexpr size_t bytewise = SIZE_MAX;

	size_t at = whole; // or in two behind that many octets
	size_t length = 0; // of what was cut

	std::string text() const;
};

// What is wrong with an FPDU
struct Spoil {
	uint32_t crc = 0;	// flipped in it
	uint8_t pad = 0;	// instead of 0, with a CRC that fits
	uint16_t reserved = 0;	// in each marker, with a CRC that fits
	uint16_t pointer = 0;	// flipped in each marker, with a CRC that fits
	int length = 0;		// added to ULPDU_Length, with a CRC that fits what is sent
	size_t flip = SIZE_MAX; // an octet one bit of which is flipped afterwards
};

class Peer {
public:
	explicit Peer(int fd) : link(fd) {}

	Link link;
	bool crc = true;
	bool markers_out = false;
	bool markers_in = false;

	// The FPDU around a ULPDU, at the stream's present place
	Bytes framed(const Bytes &ulpdu, const Spoil &spoil = {});
	void send(const Bytes &ulpdu, const Spoil &spoil = {}) { link.send(framed(ulpdu, spoil)); }
	// Sends what is looked at, as one of the ways to cut it wants
	void deliver(const Bytes &octets, Cut &cut);

	// The next ULPDU, or nothing at the end of the stream
	std::optional<Bytes> ulpdu();
	// The next one, which must be there
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

	// Octets of full operation that arrived, with markers; and where the last FPDU began among them
	uint64_t received = 0;
	uint64_t fpdu_at = 0;
	// Markers that arrived, and of them those that were due exactly between two FPDUs
	size_t markers = 0;
	size_t markers_between = 0;
	uint32_t last_crc = 0;

private:
	Bytes take(size_t n, Bytes &covered);
	void take_marker(Bytes &covered);

	uint64_t sent = 0;
	std::optional<uint64_t> start; // of the FPDU that is arriving
};

std::string hex(const Bytes &b);
