// SPDX-License-Identifier: GPL-2.0
// One UDP datagram: any octets, of which the parser sees the header and the length; what is built; and a message that
// arrives in segments.
#include <endian.h>
#include <set>

#include "fuzz.hpp"
#include "proto/dgram.h"
#include "proto/record.h"
#include "receiver.hpp"

using library::require;

static kiw_dgram_verdict parse(const Bytes &datagram, kiw_dgram &d)
{
	const Bytes hdr(datagram.begin(), datagram.begin() + std::min<ptrdiff_t>(ptrdiff_t(datagram.size()), 36));

	return kiw_dgram_parse(hdr.data(), uint32_t(datagram.size()), &d);
}

static uint64_t at(const Bytes &b, size_t offset, size_t n)
{
	return get(b.data() + offset, int(n));
}

// What a segment of a Write-Record has behind the tagged header agrees with itself.
static bool write_agrees(const Bytes &b, bool last)
{
	const uint64_t length = at(b, 24, 4), offset = at(b, 28, 4), size = at(b, 32, 4), payload = b.size() - 40;

	if (size < 1 || size > 65467 || length > size * 1024 || offset % size != 0 || at(b, 8, 8) < offset)
		return false;
	if (offset != 0 ? offset >= length : false)
		return false;
	return payload == std::min(size, length - offset) && last == (offset + payload == length);
}

static void arrives_tagged(const Bytes &b, kiw_dgram_verdict verdict, const kiw_dgram &d)
{
	if (b.size() < 40) {
		require(verdict == KIW_DGRAM_MALFORMED, "half a header is taken");
		return;
	}
	Bytes ulpdu(b.begin() + 2, b.begin() + 16);
	ulpdu.insert(ulpdu.end(), b.begin() + 36, b.end() - 4);
	const model::Parsed expected = model::segment(ulpdu, {});
	const model::Segment &s = expected.segment;
	const bool good = !expected.error && s.opcode == 0 && write_agrees(b, s.last);

	require((verdict == KIW_DGRAM_OK) == good, "a segment is judged in another way");
	if (good)
		require(d.is_write && !d.has_imm && d.hdr_len == 36 && d.write.stag == at(b, 4, 4) &&
				d.write.to == at(b, 8, 8) - at(b, 28, 4) && d.qkey == at(b, 16, 4) &&
				d.write.id == at(b, 20, 4) && d.write.length == at(b, 24, 4) &&
				d.offset == at(b, 28, 4) && d.write.seg_size == at(b, 32, 4) &&
				d.payload_len == b.size() - 40,
			"a segment has another meaning");
}

// Immediate Data as RFC 7306 has them, and behind them the message
static void arrives_with_immediate(const Bytes &b, kiw_dgram_verdict verdict, const kiw_dgram &d)
{
	if (b.size() < 32) {
		require(verdict == KIW_DGRAM_MALFORMED, "half of the immediate data is taken");
		return;
	}
	const Bytes ulpdu(b.begin() + 2, b.begin() + 28);
	const model::Parsed expected = model::segment(ulpdu, {.immediate = true});
	const model::Segment &s = expected.segment;
	const bool good = !expected.error && s.last && !s.message_offset;

	require((verdict == KIW_DGRAM_OK) == good, "immediate data are judged in another way");
	if (good)
		require(!d.is_write && d.has_imm && d.hdr_len == 28 && d.solicited == (s.opcode == 9) &&
				d.qkey == at(b, 4, 4) && d.msn == s.number && be32toh(d.imm) == at(b, 20, 4) &&
				d.payload_len == b.size() - 32,
			"immediate data have another meaning");
}

// By the model of segments: what follows the two octets of ours is a ULPDU, but for the CRC.
static void arrives(const Bytes &datagram)
{
	kiw_dgram d = {};
	const kiw_dgram_verdict verdict = parse(datagram, d);

	if (datagram.size() < 24 || datagram.size() > 65507 || datagram[0] != 13) {
		require(verdict == KIW_DGRAM_MALFORMED, "other traffic is taken for ours");
		return;
	}
	if (datagram[1] != 16) {
		require(verdict == KIW_DGRAM_OTHER_VERSION, "another version isn't seen");
		return;
	}
	if (datagram[2] & 0x80) {
		arrives_tagged(datagram, verdict, d);
		return;
	}
	if ((datagram[3] & 0x0f) == 8 || (datagram[3] & 0x0f) == 9) {
		arrives_with_immediate(datagram, verdict, d);
		return;
	}
	const Bytes ulpdu(datagram.begin() + 2, datagram.end() - 4);
	const model::Parsed expected = model::segment(ulpdu, {});
	const model::Segment &s = expected.segment;
	const bool send = !expected.error && (s.opcode == 3 || s.opcode == 5) && s.last && !s.message_offset;

	require((verdict == KIW_DGRAM_OK) == send, "a datagram is judged in another way");
	if (send)
		require(!d.is_write && !d.has_imm && d.hdr_len == 20 && d.solicited == (s.opcode == 5) &&
				d.qkey == get(datagram.data() + 4, 4) && d.msn == s.number &&
				d.payload_len == ulpdu.size() - 18,
			"a datagram has another meaning");
}

static void built(Input in)
{
	const bool solicited = in.u8() & 1;
	const uint32_t key = in.u32();
	const uint32_t number = in.u32();
	Bytes b(20);
	kiw_dgram d = {};

	require(kiw_dgram_build(b.data(), solicited, key, number) == b.size(), "a header has another length");
	b.resize(24 + in.u16() % 1000);
	arrives(b);
	require(parse(b, d) == KIW_DGRAM_OK && d.solicited == solicited && d.qkey == key && d.msn == number &&
			d.payload_len == b.size() - 24,
		"what is built has another meaning");

	const uint32_t immediate = in.u32();
	b.assign(28, 0xee);
	require(kiw_dgram_build_imm(b.data(), solicited, key, number, htobe32(immediate)) == b.size(),
		"a header with immediate data has another length");
	b.resize(32 + in.u16() % 1000);
	arrives(b);
	require(parse(b, d) == KIW_DGRAM_OK && d.has_imm && be32toh(d.imm) == immediate && d.solicited == solicited &&
			d.qkey == key && d.msn == number && d.payload_len == b.size() - 32,
		"immediate data that are built have another meaning");
}

// A message of any shape, of which segments arrive in any order, again, or never
static void recorded(Input in)
{
	kiw_dgram_write w = {.stag = in.u32(), .to = in.u64() >> 1, .id = in.u32(), .length = 0, .seg_size = 0};
	w.seg_size = in.u16() % 65467 + 1;
	w.length = in.u32() % (w.seg_size * 1024 + 1);
	const uint32_t segs = w.length ? (w.length + w.seg_size - 1) / w.seg_size : 1;
	std::set<uint32_t> seen;
	uint64_t valid = 0;
	kiw_record r;

	kiw_record_begin(&r, &w);
	require(kiw_record_same(&r, &w), "a message isn't itself");
	while (!in.empty()) {
		const uint32_t n = in.u16() % segs;
		const uint32_t payload = std::min(w.seg_size, w.length - n * w.seg_size);
		Bytes b(36);
		kiw_dgram d = {};

		kiw_dgram_build_write(b.data(), &w, n * w.seg_size, 5);
		b.resize(40 + payload);
		require(parse(b, d) == KIW_DGRAM_OK && kiw_record_same(&r, &d.write) && d.offset == n * w.seg_size,
			"a segment that is built has another meaning");
		require(kiw_record_has(&r, d.offset) == (seen.contains(n)), "a segment is forgotten or made up");
		if (seen.insert(n).second) {
			kiw_record_add(&r, d.offset);
			valid += payload;
		}
	}
	require(r.missing == segs - seen.size() && r.valid == valid, "segments are miscounted");

	u64 map[2];
	const uint32_t unit = (segs + 127) / 128;
	kiw_record_map(&r, map);
	for (uint32_t bit = 0; bit < 128; bit++) {
		bool all = bit * unit < segs;
		for (uint32_t n = bit * unit; n < std::min(segs, (bit + 1) * unit); n++)
			all = all && seen.contains(n);
		require((map[bit / 64] >> bit % 64 & 1) == all, "the map tells something else");
	}
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const Bytes b(data, data + size);

	arrives(b);
	built(Input(data, size));
	recorded(Input(data, size));
	// Around the longest
	if (size >= 24 && data[23] & 1) {
		Bytes longest = b;

		longest.resize(65500 + data[22] % 16);
		arrives(longest);
	}
	return 0;
}
