// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A TCP connection on which nothing waits for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "octets.hpp"

struct Failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

class Link {
public:
	explicit Link(int fd);
	~Link();
	Link(const Link &) = delete;
	Link &operator=(const Link &) = delete;

	void send(const Bytes &b);
	// One octet a segment
	void send_slowly(const Bytes &b);
	void send_urgent(uint8_t octet);
	// The peer has to wait soon where nothing is taken.
	void receive_little();
	// Else a window below a segment's size is all that TCP offers, and a segment comes in 200 ms.
	void receive_as_usual();
	// Exactly n octets, or failure
	Bytes receive(size_t n);
	// What the other side's FPDUs have to have, from the stream's start on: a good CRC, markers
	void expect(bool crc, bool markers);
	// The next ULPDU, or nothing at the end of the stream
	std::optional<Bytes> ulpdu();
	// A Reply or Request with this key, and its data
	Bytes frame(std::string_view key);
	// All that comes until the other side closes in good order, or in whatever way
	Bytes rest(bool reset_too = false);
	// Whether the other side sends nothing and doesn't close for that long
	bool silent(int milliseconds);
	// Segments with data that TCP has sent
	uint32_t segments() const;

	void finish(); // FIN
	void reset();  // RST
	// Fails unless the other side ends the connection
	void must_end();
	// Fails unless the other side sends this Terminate, and then FIN. The second finds out by what came before, and
	// by what it is, what it has to be.
	void must_terminate(uint8_t layer, uint8_t type, uint8_t code, const Bytes &offender = {});
	void must_terminate(
		const std::function<Bytes(const std::vector<Bytes> &before, const Bytes &terminate)> &expected);
	// Fails unless the other side resets the connection, though nothing is read
	void must_reset();

	// What ulpdu() has seen
	struct Arrived {
		uint64_t octets = 0; // with markers
		size_t markers = 0;
		size_t between = 0; // of them exactly between two FPDUs
		uint32_t crc = 0;   // of the last FPDU, right or wrong
	} arrived;

private:
	void receive_at_most(int size);
	bool some(uint8_t *p, size_t n, size_t &got);
	bool over();
	Bytes take(size_t n);
	void take_marker();
	Bytes octets(size_t n);

	int fd;
	bool crcs = false;
	bool marked = false;
	std::optional<uint64_t> start; // of the FPDU that is arriving
	Bytes covered;		       // by its CRC, so far
};

// For messages
std::string hex(const Bytes &b);
// Waits for what poll() calls events; fails when nothing happens for a long time
void wait_for(int fd, short events, const char *what);
