// SPDX-License-Identifier: GPL-2.0
// What a receiver has to make of octets, written from the RFCs and slow: it has the whole stream at once, walks it
// octet by octet, and shares no code with the module. The fuzzers compare the protocol library with it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../wire/octets.hpp"

namespace model {

using Octets = std::span<const uint8_t>;

// As a Terminate spells it: RFC 5040 section 4.8, RFC 6580 section 3
struct Error {
	uint8_t layer;
	uint8_t type;
	uint8_t code;
	bool operator==(const Error &) const = default;
};

// --- start-up, RFC 5044 section 7.1 and RFC 6581 ---

enum Rtr : uint8_t { by_send = 1, by_write = 2, by_read = 4 };

struct StartFrame {
	bool reply = false;
	uint8_t revision = 1;
	bool reject = false;
	bool crc = false;
	bool markers = false;
	bool large = false, extensions = false; // the project's own
	bool enhanced = false;
	bool peer_to_peer = false;
	uint8_t rtr = 0; // of Rtr, a mask
	uint16_t ird = 0;
	uint16_t ord = 0;
	Bytes data = {};
	bool operator==(const StartFrame &) const = default;
};

// Reasons to refuse a frame. Where there are several, none comes first by the RFCs.
enum Malformed : uint8_t { bad_key = 1, bad_revision = 2, bad_length = 4, bad_word = 8 };

struct Startup {
	uint8_t malformed = 0; // of Malformed, a mask
	std::optional<StartFrame> frame = {};
	size_t consumed = 0;
};

// The frame at the start of a stream. Neither malformed nor a frame: it isn't complete yet.
Startup startup(Octets stream, bool reply);
Bytes encode(const StartFrame &f);

// What one side wants of a connection
struct Wishes {
	uint8_t revision;
	bool crc, markers, peer_to_peer, large, extensions;
	uint8_t rtr;
	uint16_t ird, ord, ird_max;
};

struct Terms {
	bool enhanced = false, crc = false, markers_out = false, markers_in = false, large = false, extensions = false,
	     peer_to_peer = false;
	uint8_t revision = 0, rtr = 0;
	uint16_t ird = 0, ord = 0, peer_ird = 0, peer_ord = 0;
	bool operator==(const Terms &) const = default;
};

struct Settled {
	// What there is to object to; with more than one, any may be reported, but the frame's comes first
	bool frame = false, ird = false, rtr = false;
	StartFrame own = {};
	Terms terms = {};
};

StartFrame request(const Wishes &own);
Settled answer(const Wishes &own, const StartFrame &request);
Settled conclude(const Wishes &own, const StartFrame &request, const StartFrame &reply);

// --- DDP segments, RFC 5041, and what RDMAP puts into them, RFC 5040 and RFC 7306 ---

struct ReadRequest {
	uint32_t sink_stag = 0;
	uint64_t sink_offset = 0;
	uint32_t size = 0;
	uint32_t source_stag = 0;
	uint64_t source_offset = 0;
	bool operator==(const ReadRequest &) const = default;
};

struct Atomic {
	uint8_t operation = 0;
	uint32_t id = 0;
	uint32_t stag = 0;
	uint64_t offset = 0, data = 0, mask = 0, compare = 0, compare_mask = 0;
	bool operator==(const Atomic &) const = default;
};

struct Segment {
	uint8_t opcode = 0;
	bool tagged = false, last = false, solicited = false, invalidates = false, receives = false, single = false;
	bool send_immediate = false; // what would be the STag to invalidate is immediate data (the project's own)
	uint32_t stag = 0;
	uint64_t offset = 0;
	uint32_t invalidate = 0, queue = 0, number = 0, message_offset = 0;
	ReadRequest read = {};
	Atomic atomic = {};
	uint32_t response_id = 0;
	uint64_t response_value = 0;
	std::array<uint8_t, 8> immediate = {};
	size_t header = 0; // octets in front of the payload
	size_t payload = 0;
	bool operator==(const Segment &) const = default;
};

struct Caps {
	bool immediate = false, atomics = false;
};

struct Parsed {
	std::optional<Error> error;
	Segment segment = {};
};

Parsed segment(Octets ulpdu, const Caps &caps);

// Memory after an Atomic Request, if its operation is one
std::optional<uint64_t> apply(const Atomic &a, uint64_t before);

// --- Terminate, RFC 5040 section 4.8 ---

struct Terminate {
	Error raw = {};
	bool has_segment = false, has_read = false;
	bool tagged = false;
	uint8_t opcode = 0;
	uint16_t length = 0;
	uint32_t stag = 0;
	uint64_t offset = 0;
	uint32_t queue = 0, number = 0, message_offset = 0;
	ReadRequest read = {};
	bool operator==(const Terminate &) const = default;
};

// Nothing if it isn't what a Terminate has to be
std::optional<Terminate> terminate(Octets ulpdu);
// The one to send about a segment of which these octets are at hand; it was "length" octets long
Bytes terminate_about(const Error &e, Octets offender, size_t length);

// --- the stream ---

struct Receiver {
	bool crc = false, markers = false;
	Caps caps = {};
	uint32_t base = 0; // offset of the stream's first octet on the markers' grid
	uint32_t room = 0; // octets in each receive buffer
	unsigned receives = 0, ird = 0, atomics = 0;
};

struct Event {
	std::optional<Error> error = {};
	bool terminated = false;
	std::optional<Terminate> terminate = {};
	Segment segment = {};
	Bytes payload = {};
	bool operator==(const Event &) const = default;
};

struct Outcome {
	std::vector<Event> events = {};
	size_t consumed = 0; // by FPDUs that were accepted
	bool operator==(const Outcome &) const = default;
};

Outcome receive(Octets stream, const Receiver &r);

// One FPDU of the stream, taken apart
struct Fpdu {
	std::vector<size_t> markers_at = {};
	size_t start = SIZE_MAX; // of ULPDU_Length, once it has come
	size_t crc_at = 0;
	size_t end = 0;
	Bytes ulpdu = {};
	bool has_length = false, complete = false;
};

Fpdu take_fpdu(Octets stream, size_t at, uint32_t base, bool markers);

// For the message of a fuzzer that found a difference
std::string describe(const Event &e);

} // namespace model
