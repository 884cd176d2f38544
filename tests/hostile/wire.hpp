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

inline uint32_t crc32c(const Bytes &b)
{
	uint32_t crc = ~0u;

	for (uint8_t octet : b) {
		crc ^= octet;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

// --- MPA ---

constexpr std::string_view request_key = "MPA ID Req Frame";
constexpr std::string_view reply_key = "MPA ID Rep Frame";

enum : uint8_t { with_markers = 0x80, with_crc = 0x40, rejected = 0x20, enhanced = 0x10 };

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

// One direction of a stream, with or without markers. A twist makes something else of a marker; damage goes into the
// CRC.
struct Stream {
	bool markers;
	uint32_t offset = 0;

	Bytes fpdu(const Bytes &ulpdu, const std::function<uint32_t(uint32_t)> &twist = nullptr, uint32_t damage = 0)
	{
		Bytes body, b;
		bool begun = false;
		uint32_t start = 0;
		auto marker = [&] {
			const uint32_t at = offset + b.size();
			if (!markers || at % marker_spacing)
				return;
			const uint32_t right = begun ? at - start : 0;
			put(b, twist ? twist(right) : right, 4);
		};

		put(body, ulpdu.size(), 2);
		body = body + ulpdu;
		while (body.size() % 4)
			body.push_back(0);
		for (uint8_t octet : body) {
			marker();
			if (!begun)
				start = offset + b.size();
			begun = true;
			b.push_back(octet);
		}
		marker();
		const uint32_t crc = crc32c(b) ^ damage;
		for (int i = 0; i < 4; i++)
			b.push_back(uint8_t(crc >> (8 * i)));
		offset += b.size();
		return b;
	}
};

// The same where there are no markers
inline Bytes fpdu(const Bytes &ulpdu, uint32_t damage = 0)
{
	return Stream{false}.fpdu(ulpdu, nullptr, damage);
}

// --- DDP and RDMAP ---

enum Opcode : uint8_t {
	op_write = 0,
	op_read = 1,
	op_response = 2,
	op_send = 3,
	op_send_inv = 4,
	op_terminate = 7,
};

enum : uint8_t { tagged = 0x80, last = 0x40, ddp_1 = 0x01, rdmap_1 = 0x40 };

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

// The sink is ours, nobody looks.
inline Bytes read_segment(uint32_t number, uint32_t stag, uint64_t offset, uint32_t size, uint64_t sink = 0)
{
	Bytes b;

	put(b, 0xabcd01, 4);
	put(b, sink, 8);
	put(b, size, 4);
	put(b, stag, 4);
	put(b, offset, 8);
	return untagged_segment(op_read, 1, number, 0, b);
}

// With the headers that RFC 5040 section 4.8 wants back, of that segment
inline Bytes terminate_segment(uint8_t layer, uint8_t type, uint8_t code, const Bytes &offender = {})
{
	const bool header = layer < 2 && type > 0;
	const bool is_read = header && !(offender[0] & tagged) && (offender[1] & 0xf) == op_read;
	const bool read_header = layer == 0 && type == 1 && is_read;
	Bytes b;

	put(b, layer << 4 | type, 1);
	put(b, code, 1);
	put(b, read_header ? 0xe000 : header ? 0xc000 : 0, 2);
	if (header) {
		put(b, offender.size(), 2);
		b = b + first(offender, read_header ? 46 : offender[0] & tagged ? 14 : 18);
	}
	return untagged_segment(op_terminate, 2, 1, 0, b);
}
