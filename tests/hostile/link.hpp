// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A TCP connection on which nothing waits for ever, and the scenarios that run over one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "wire.hpp"

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
	void receive_little();
	// Exactly n octets, or failure
	Bytes receive(size_t n);
	// From the stream's start on, the other side's FPDUs hold markers; and CRCs, which are zero without that
	void expect_markers(bool crcs);
	// The next ULPDU, or nothing at the end of the stream
	std::optional<Bytes> ulpdu();
	// A Reply or Request with its data, whose key must be this
	Bytes frame(std::string_view key);

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

private:
	bool some(uint8_t *p, size_t n, size_t &got);
	bool over();
	Bytes take(size_t n);
	void take_marker();
	Bytes octets(size_t n);

	int fd;
	bool marked = false;
	bool crcs = false;
	uint32_t taken = 0; // octets of the stream of FPDUs
	uint32_t start = 0; // of them before this FPDU's ULPDU_Length
	Bytes fpdu_so_far;
};

struct Scenario {
	const char *name;
	void (*run)(Link &link);
	// Counters that move, "NAME=BY..."; a last "*" allows for others
	const char *counters;
	const char *about;
};

extern const std::span<const Scenario> towards_server;
extern const std::span<const Scenario> towards_server_markers;
extern const std::span<const Scenario> towards_server_segments;
extern const std::span<const Scenario> towards_client;
