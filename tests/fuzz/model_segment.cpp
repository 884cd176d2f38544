// SPDX-License-Identifier: GPL-2.0
#include <algorithm>

#include "model.hpp"

namespace model {

enum : uint8_t { t = 1, solicits = 2, invalidates = 4, receives = 8, immediate = 16, atomic = 32 };

// The table of RFC 5040 section 4.1 and RFC 7306 section 4.1. "Fixed" is the length of what follows the DDP header in
// the messages that are always one segment.
struct Row {
	uint8_t flags;
	uint32_t queue;
	size_t fixed;
};
static constexpr size_t varies = SIZE_MAX;
static constexpr std::array<Row, 12> opcodes = {{
	{t, 0, varies},					// Write
	{0, 1, 28},					// Read Request
	{t, 0, varies},					// Read Response
	{receives, 0, varies},				// Send
	{receives | invalidates, 0, varies},		// Send with Invalidate
	{receives | solicits, 0, varies},		// Send with Solicited Event
	{receives | solicits | invalidates, 0, varies}, // Send with Solicited Event and Invalidate
	{0, 2, varies},					// Terminate
	{receives | immediate, 0, 8},			// Immediate Data
	{receives | solicits | immediate, 0, 8},	// Immediate Data with Solicited Event
	{atomic, 1, 52},				// Atomic Request
	{atomic, 3, 12},				// Atomic Response
}};

static uint32_t u32(Octets o, size_t at)
{
	return uint32_t(get(&o[at], 4));
}

static uint64_t u64(Octets o, size_t at)
{
	return get(&o[at], 8);
}

// The 28 octets of a Read Request's own header
static ReadRequest read_request(Octets o)
{
	return {u32(o, 0), u64(o, 4), u32(o, 12), u32(o, 16), u64(o, 20)};
}

static Parsed wrong(uint8_t layer, uint8_t type, uint8_t code)
{
	return {Error{layer, type, code}, {}};
}

static void body(Segment &s, Octets o)
{
	switch (s.opcode) {
	case 0x1:
		s.read = read_request(o);
		break;
	case 0x8:
	case 0x9:
		std::copy_n(o.begin(), 8, s.immediate.begin());
		break;
	case 0xa:
		s.atomic = {uint8_t(o[3] & 0xf), u32(o, 4), u32(o, 8), u64(o, 12), u64(o, 20), u64(o, 28), u64(o, 36),
			u64(o, 44)};
		break;
	case 0xb:
		s.response_id = u32(o, 0);
		s.response_value = u64(o, 4);
		break;
	default:
		break;
	}
}

Parsed segment(Octets ulpdu, const Caps &caps)
{
	Parsed p;
	Segment &s = p.segment;

	// Room for a DDP header
	if (ulpdu.size() < 14)
		return wrong(1, 0, 0x00);
	s.tagged = ulpdu[0] & 0x80;
	s.last = ulpdu[0] & 0x40;
	if (!s.tagged && ulpdu.size() < 18)
		return wrong(1, 0, 0x00);
	// Versions of DDP and of RDMAP
	if ((ulpdu[0] & 3) != 1)
		return s.tagged ? wrong(1, 1, 0x04) : wrong(1, 2, 0x06);
	if (ulpdu[1] >> 6 != 1)
		return wrong(0, 2, 0x05);
	// An opcode that this side speaks, on the right kind of buffer
	s.opcode = ulpdu[1] & 0xf;
	if (s.opcode >= opcodes.size())
		return wrong(0, 2, 0x06);
	const Row &row = opcodes[s.opcode];
	if (((row.flags & immediate) && !caps.immediate) || ((row.flags & atomic) && !caps.atomics) ||
		s.tagged != bool(row.flags & t))
		return wrong(0, 2, 0x06);

	s.solicited = row.flags & solicits;
	s.invalidates = row.flags & invalidates;
	s.receives = row.flags & receives;
	s.single = row.fixed != varies;
	if (s.tagged) {
		s.stag = u32(ulpdu, 2);
		s.offset = u64(ulpdu, 6);
		s.header = 14;
		s.payload = ulpdu.size() - 14;
		return p;
	}

	s.send_immediate = ulpdu[1] & 0x20 && caps.immediate && (s.opcode == 0x3 || s.opcode == 0x5);
	s.invalidate = u32(ulpdu, 2);
	s.queue = u32(ulpdu, 6);
	s.number = u32(ulpdu, 10);
	s.message_offset = u32(ulpdu, 14);
	s.header = 18;
	if (s.queue != row.queue)
		return wrong(1, 2, 0x01);
	if (s.single) {
		s.header += row.fixed;
		if (ulpdu.size() > s.header)
			return wrong(1, 2, 0x05);
		if (ulpdu.size() < s.header || !s.last)
			return wrong(0, 2, 0x07);
		body(s, ulpdu.subspan(18));
	} else if (s.opcode == 0x7) {
		s.header = std::min(ulpdu.size(), size_t(70)); // the longest there can be
	}
	s.payload = ulpdu.size() - s.header;
	return p;
}

std::optional<uint64_t> apply(const Atomic &a, uint64_t before)
{
	uint64_t after = 0;

	if (a.operation == 0) { // FetchAdd: bit by bit, the carry stops where the mask has a bit
		int carry = 0;
		for (int bit = 0; bit < 64; bit++) {
			const int sum = int(before >> bit & 1) + int(a.data >> bit & 1) + carry;
			after |= uint64_t(sum & 1) << bit;
			carry = a.mask >> bit & 1 ? 0 : sum >> 1;
		}
		return after;
	}
	if (a.operation != 2)
		return std::nullopt;
	// CmpSwap
	for (int bit = 0; bit < 64; bit++)
		if ((a.compare_mask >> bit & 1) && (before >> bit & 1) != (a.compare >> bit & 1))
			return before;
	for (int bit = 0; bit < 64; bit++) {
		const uint64_t from = a.mask >> bit & 1 ? a.data : before;
		after |= (from >> bit & 1) << bit;
	}
	return after;
}

// --- Terminate ---

static bool is_read_request(Octets segment)
{
	return !(segment[0] & 0x80) && (segment[1] & 0xf) == 1;
}

std::optional<Terminate> terminate(Octets ulpdu)
{
	Terminate r;

	if (ulpdu.size() < 22 || u32(ulpdu, 6) != 2 || u32(ulpdu, 10) != 1 || u32(ulpdu, 14) != 0)
		return std::nullopt;
	r.raw = {uint8_t(ulpdu[18] >> 4), uint8_t(ulpdu[18] & 0xf), ulpdu[19]};
	const bool m = ulpdu[20] & 0x80, d = ulpdu[20] & 0x40, has_rdma = ulpdu[20] & 0x20;
	Octets rest = ulpdu.subspan(22);

	// A peer may announce what isn't there.
	if (!m || !d || rest.size() < 2)
		return r;
	const auto length = uint16_t(get(rest.data(), 2));
	rest = rest.subspan(2);
	if (rest.empty() || rest.size() < (rest[0] & 0x80 ? 14 : 18))
		return r;
	r.has_segment = true;
	r.length = length;
	r.tagged = rest[0] & 0x80;
	r.opcode = rest[1] & 0xf;
	if (r.tagged) {
		r.stag = u32(rest, 2);
		r.offset = u64(rest, 6);
		return r;
	}
	r.queue = u32(rest, 6);
	r.number = u32(rest, 10);
	r.message_offset = u32(rest, 14);
	if (has_rdma && is_read_request(rest) && rest.size() >= 18 + 28) {
		r.has_read = true;
		r.read = read_request(rest.subspan(18));
	}
	return r;
}

Bytes terminate_about(const Error &e, Octets offender, size_t length)
{
	// Which headers go back: the table of RFC 5040 section 4.8
	const bool about_read = e.layer == 0 && e.type == 1;
	const bool about_segment = about_read || (e.layer == 0 && e.type == 2) || (e.layer == 1 && e.type == 1) ||
				   (e.layer == 1 && e.type == 2);
	Bytes about;
	uint8_t headers = 0;

	if (about_segment && !offender.empty()) {
		size_t n = offender[0] & 0x80 ? 14 : 18;
		if (offender.size() >= n) {
			headers = 0xc0;
			if (about_read && offender.size() >= 46 && is_read_request(offender)) {
				headers |= 0x20;
				n = 46;
			}
			put(about, length, 2);
			about.insert(about.end(), offender.begin(), offender.begin() + ptrdiff_t(n));
		}
	}
	Bytes b = {uint8_t(e.layer << 4 | e.type), e.code, headers, 0};
	return untagged_segment(0x7, 2, 1, 0, b + about);
}

} // namespace model
