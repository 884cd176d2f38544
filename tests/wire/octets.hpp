// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Octets as they go over the wire, made without any code of the module's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

using Bytes = std::vector<uint8_t>;

inline void put(Bytes &b, uint64_t value, int octets)
{
	for (int i = octets - 1; i >= 0; i--)
		b.push_back(uint8_t(value >> (8 * i)));
}

inline uint64_t get(const uint8_t *p, int octets)
{
	uint64_t value = 0;

	for (int i = 0; i < octets; i++)
		value = value << 8 | p[i];
	return value;
}

inline Bytes operator+(Bytes a, const Bytes &b)
{
	a.insert(a.end(), b.begin(), b.end());
	return a;
}

inline Bytes first(const Bytes &b, size_t n)
{
	return {b.data(), b.data() + n};
}

inline Bytes behind(const Bytes &b, size_t n)
{
	return {b.data() + n, b.data() + b.size()};
}

constexpr std::array<uint32_t, 256> crc_table = [] {
	std::array<uint32_t, 256> table{};

	for (uint32_t n = 0; n < 256; n++) {
		uint32_t crc = n;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
		table[n] = crc;
	}
	return table;
}();

inline uint32_t crc32c(const Bytes &b)
{
	uint32_t crc = ~0u;

	for (uint8_t octet : b)
		crc = crc >> 8 ^ crc_table[(crc ^ octet) & 0xff];
	return ~crc;
}

// --- MPA ---

constexpr std::string_view request_key = "MPA ID Req Frame";
constexpr std::string_view reply_key = "MPA ID Rep Frame";

enum : uint8_t { with_markers = 0x80, with_crc = 0x40, rejected = 0x20, enhanced = 0x10 };
// Of the project: a Request says, and a Reply, that messages of RFC 7306 are fine
constexpr uint8_t asks_for_extensions = 0x08, has_extensions = 0x01;

struct Frame {
	std::string_view key = request_key;
	uint8_t flags = with_crc;
	uint8_t revision = 1;
	Bytes data = {};
	int announced = -1; // octets of data that the frame speaks of, if not those it has
};

inline Bytes frame(const Frame &f)
{
	Bytes b(f.key.begin(), f.key.end());

	put(b, f.flags, 1);
	put(b, f.revision, 1);
	put(b, f.announced < 0 ? f.data.size() : f.announced, 2);
	return b + f.data;
}

// The word of revision 2
enum : uint16_t { peer_to_peer = 0x8000, rtr_send = 0x4000, rtr_write = 0x8000, rtr_read = 0x4000 };

inline Bytes word(uint16_t ird, uint16_t ord)
{
	Bytes b;

	put(b, ird, 2);
	put(b, ord, 2);
	return b;
}

constexpr uint32_t marker_spacing = 512;

// What is wrong with an FPDU
struct Spoil {
	uint32_t crc = 0;					  // flipped in it
	uint8_t pad = 0;					  // instead of 0, with a CRC that fits
	std::function<uint32_t(uint32_t right)> marker = nullptr; // what becomes of each, with a CRC that fits
	size_t flip = SIZE_MAX;					  // an octet one bit of which is flipped afterwards
};

// One direction of a stream
struct Stream {
	bool markers = false;
	bool crc = true;
	uint64_t offset = 0;

	Bytes fpdu(const Bytes &ulpdu, const Spoil &spoil = {})
	{
		Bytes plain;
		Bytes b;
		uint64_t at = offset;
		uint64_t begin = offset;
		const auto mark = [&] {
			if (!markers || at % marker_spacing)
				return;
			// One in front of the FPDU belongs to it, and moves its beginning.
			const uint32_t right = at == begin ? 0 : at - begin;
			if (at == begin)
				begin += 4;
			put(b, spoil.marker ? spoil.marker(right) : right, 4);
			at += 4;
		};

		put(plain, ulpdu.size(), 2);
		plain = plain + ulpdu;
		while (plain.size() % 4)
			plain.push_back(spoil.pad);
		for (uint8_t octet : plain) {
			mark();
			b.push_back(octet);
			at++;
		}
		mark();
		const uint32_t value = (crc ? crc32c(b) : 0) ^ spoil.crc;
		for (int i = 0; i < 4; i++)
			b.push_back(uint8_t(value >> (8 * i)));
		offset = at + 4;
		if (spoil.flip < b.size())
			b[spoil.flip] ^= 1;
		return b;
	}
};

// The first one of a stream without markers; "damage" goes into its CRC
inline Bytes fpdu(const Bytes &ulpdu, uint32_t damage = 0)
{
	return Stream{}.fpdu(ulpdu, {.crc = damage});
}

// --- DDP and RDMAP ---

enum Opcode : uint8_t {
	op_write = 0,
	op_read = 1,
	op_response = 2,
	op_send = 3,
	op_send_inv = 4,
	op_send_se = 5,
	op_send_se_inv = 6,
	op_terminate = 7,
	op_immediate = 8,
	op_immediate_se = 9,
	op_atomic = 10,
	op_atomic_response = 11,
};

enum : uint8_t { tagged = 0x80, last = 0x40, ddp_1 = 0x01, rdmap_1 = 0x40 };
// Of the project: a Send has immediate data in the place of the STag
constexpr uint8_t send_immediate = 0x20;

inline Bytes tagged_segment(
	uint8_t op, uint32_t stag, uint64_t offset, const Bytes &payload, uint8_t ddp = tagged | last | ddp_1)
{
	Bytes b = {ddp, uint8_t(rdmap_1 | op)};

	put(b, stag, 4);
	put(b, offset, 8);
	return b + payload;
}

inline Bytes untagged_segment(uint8_t op, uint32_t queue, uint32_t number, uint32_t offset, const Bytes &payload,
	uint8_t ddp = last | ddp_1, uint8_t rdmap = rdmap_1, uint32_t invalidate = 0)
{
	Bytes b = {ddp, uint8_t(rdmap | op)};

	put(b, invalidate, 4);
	put(b, queue, 4);
	put(b, number, 4);
	put(b, offset, 4);
	return b + payload;
}

inline Bytes send_segment(uint32_t number, const Bytes &payload)
{
	return untagged_segment(op_send, 0, number, 0, payload);
}

inline Bytes write_segment(uint32_t stag, uint64_t offset, const Bytes &payload)
{
	return tagged_segment(op_write, stag, offset, payload);
}

struct Read {
	uint32_t number = 1;
	uint32_t sink_stag = 0xabcd01;
	uint64_t sink_offset = 0;
	uint32_t size = 0;
	uint32_t stag = 0;
	uint64_t offset = 0;
};

inline Bytes read_segment(const Read &r)
{
	Bytes b;

	put(b, r.sink_stag, 4);
	put(b, r.sink_offset, 8);
	put(b, r.size, 4);
	put(b, r.stag, 4);
	put(b, r.offset, 8);
	return untagged_segment(op_read, 1, r.number, 0, b);
}

// The sink is ours, nobody looks.
inline Bytes read_segment(uint32_t number, uint32_t stag, uint64_t offset, uint32_t size, uint64_t sink = 0)
{
	return read_segment({.number = number, .sink_offset = sink, .size = size, .stag = stag, .offset = offset});
}

inline Bytes immediate_segment(uint32_t number, uint32_t value, uint8_t op = op_immediate)
{
	Bytes b;

	put(b, value, 4);
	put(b, 0, 4);
	return untagged_segment(op, 0, number, 0, b);
}

enum : uint32_t { fetch_add = 0, cmp_swap = 2 };

struct AtomicRequest {
	uint32_t number = 1;
	uint32_t operation = fetch_add;
	uint32_t identifier = 0;
	uint32_t stag = 0;
	uint64_t offset = 0;
	uint64_t data = 0;
	uint64_t mask = 0;
	uint64_t compare = 0;
	uint64_t compare_mask = 0;
};

inline Bytes atomic_segment(const AtomicRequest &a)
{
	Bytes b;

	put(b, a.operation, 4);
	put(b, a.identifier, 4);
	put(b, a.stag, 4);
	put(b, a.offset, 8);
	put(b, a.data, 8);
	put(b, a.mask, 8);
	put(b, a.compare, 8);
	put(b, a.compare_mask, 8);
	return untagged_segment(op_atomic, 1, a.number, 0, b);
}

inline Bytes atomic_answer(uint32_t number, uint32_t identifier, uint64_t value)
{
	Bytes b;

	put(b, identifier, 4);
	put(b, value, 8);
	return untagged_segment(op_atomic_response, 3, number, 0, b);
}

struct Code {
	uint8_t layer, type, code;
};

// What of the segment that caused it goes back in a Terminate
enum class Headers { none, ddp, rdmap };

inline Bytes terminate_segment(Code c, Headers headers = Headers::none, const Bytes &cause = {})
{
	Bytes b;

	put(b, c.layer << 4 | c.type, 1);
	put(b, c.code, 1);
	put(b, headers == Headers::none ? 0 : headers == Headers::ddp ? 0xc000 : 0xe000, 2);
	if (headers != Headers::none) {
		put(b, cause.size(), 2);
		b = b + first(cause, headers == Headers::rdmap ? 46 : cause[0] & tagged ? 14 : 18);
	}
	return untagged_segment(op_terminate, 2, 1, 0, b);
}

// With the headers that RFC 5040 section 4.8 wants back, of that segment
inline Bytes terminate_segment(uint8_t layer, uint8_t type, uint8_t code, const Bytes &offender = {})
{
	if (layer > 1 || type == 0)
		return terminate_segment(Code{layer, type, code});
	const bool read = !(offender[0] & tagged) && (offender[1] & 0xf) == op_read;
	return terminate_segment(
		{layer, type, code}, layer == 0 && type == 1 && read ? Headers::rdmap : Headers::ddp, offender);
}
