// SPDX-License-Identifier: GPL-2.0
// One ULPDU: parsed when any number of its octets is there, and built; what an Atomic Request does; sequence numbers
// and ranges.
#include "fuzz.hpp"
#include "proto/range.h"
#include "receiver.hpp"

using library::require;

static kiw_step parse(model::Octets have, size_t length, const model::Caps &caps, kiw_seg &seg)
{
	const Bytes exact(have.begin(), have.end());

	return kiw_seg_parse(exact.data(), uint32_t(exact.size()), uint32_t(length), library::caps(caps), &seg);
}

// However many octets are there, the verdict is the one about the whole, or to wait.
static void arrives(const Bytes &ulpdu, const model::Caps &caps)
{
	const model::Parsed expected = model::segment(ulpdu, caps);
	kiw_seg seg;
	size_t have = 0;
	bool waits = true;

	for (size_t n = 0; n <= std::min(ulpdu.size(), size_t(KIW_HDR_MAX)); n++) {
		const kiw_step step = parse(model::Octets(ulpdu).first(n), ulpdu.size(), caps, seg);
		require(waits || step != KIW_MORE, "the parser waits where less was enough");
		switch (step) {
		case KIW_MORE:
			require(seg.need > n && seg.need <= std::min(ulpdu.size(), size_t(KIW_HDR_MAX)),
				"the parser wants what it has or can't have");
			require(!expected.error || n < 18, "the parser waits where the header is wrong");
			require(n < expected.segment.header || expected.error,
				"the parser waits where the header is there");
			have = seg.need;
			continue;
		case KIW_BAD:
			require(expected.error == library::error(seg.err), "the parser finds another mistake");
			break;
		case KIW_DONE:
			require(!expected.error, "the parser takes a wrong segment");
			require(n >= expected.segment.header, "the parser takes a header that isn't there");
			require(library::segment(seg) == expected.segment, "the segment has another meaning");
			break;
		}
		require(n >= have, "the parser asked for more than it needed");
		waits = false;
	}
	require(!waits, "the parser never comes to an end");
}

static model::Atomic atomic(Input &in)
{
	return {in.u8(), in.u32(), in.u32(), in.u64(), in.u64(), in.u64(), in.u64(), in.u64()};
}

static kiw_atomic translated(const model::Atomic &a)
{
	kiw_atomic k = {};

	k.op = a.operation;
	k.req_id = a.id;
	k.stag = a.stag;
	k.to = a.offset;
	k.data = a.data;
	k.mask = a.mask;
	k.cmp = a.compare;
	k.cmp_mask = a.compare_mask;
	return k;
}

static void applies(const model::Atomic &a, uint64_t before)
{
	const kiw_atomic k = translated(a);
	const auto expected = model::apply(a, before);
	uint64_t after = 0;
	__u64 result = 0;
	const bool defined = kiw_atomic_apply(&k, before, &result);

	after = result;
	require(defined == expected.has_value() && (!defined || after == *expected), "an atomic has another effect");
}

// Every builder, and the model reads what was meant.
static void build(Input &in)
{
	Bytes b(KIW_HDR_MAX);
	model::Segment meant;
	const auto op = uint8_t(in.u8() % KIW_OP_COUNT);
	const bool last = in.u8() & 1;

	meant.opcode = op;
	meant.last = true;
	meant.number = in.u32();
	switch (op) {
	case KIW_OP_WRITE:
	case KIW_OP_READ_RESP:
		meant.number = 0;
		meant.last = last;
		meant.tagged = true;
		meant.stag = in.u32();
		meant.offset = in.u64();
		b.resize(kiw_build_tagged(b.data(), op, last, meant.stag, meant.offset));
		break;
	case KIW_OP_READ_REQ: {
		meant.queue = 1;
		meant.read = {in.u32(), in.u64(), in.u32(), in.u32(), in.u64()};
		kiw_rreq rr = {meant.read.sink_stag, meant.read.sink_offset, meant.read.size, meant.read.source_stag,
			meant.read.source_offset};
		const uint32_t done = rr.size ? in.u32() % rr.size : 0;
		rr.size = meant.read.size;
		kiw_rreq_advance(&rr, done);
		require(rr.size == meant.read.size - done && rr.sink_to == meant.read.sink_offset + done &&
				rr.src_to == meant.read.source_offset + done && rr.sink_stag == meant.read.sink_stag &&
				rr.src_stag == meant.read.source_stag,
			"a Read Request partly answered has another rest");
		meant.read.size -= done;
		meant.read.sink_offset += done;
		meant.read.source_offset += done;
		b.resize(kiw_build_rreq(b.data(), meant.number, &rr));
		break;
	}
	case KIW_OP_IMM:
	case KIW_OP_IMM_SE:
		for (auto &octet : meant.immediate)
			octet = in.u8();
		meant.receives = true;
		meant.solicited = op == KIW_OP_IMM_SE;
		b.resize(kiw_build_imm(b.data(), meant.solicited, meant.number, meant.immediate.data()));
		break;
	case KIW_OP_ATOMIC_REQ: {
		meant.queue = 1;
		meant.atomic = atomic(in);
		meant.atomic.operation &= KIW_ATOMIC_OP_MASK;
		const kiw_atomic k = translated(meant.atomic);
		b.resize(kiw_build_atomic(b.data(), meant.number, &k));
		break;
	}
	case KIW_OP_ATOMIC_RESP: {
		meant.queue = 3;
		meant.response_id = in.u32();
		meant.response_value = in.u64();
		const kiw_atomic_resp r = {meant.response_id, meant.response_value};
		b.resize(kiw_build_atomic_resp(b.data(), meant.number, &r));
		break;
	}
	default:
		meant.last = last;
		meant.queue = op == KIW_OP_TERMINATE ? 2 : 0;
		meant.receives = op != KIW_OP_TERMINATE;
		meant.solicited = op == KIW_OP_SEND_SE || op == KIW_OP_SEND_SE_INV;
		meant.invalidates = op == KIW_OP_SEND_INV || op == KIW_OP_SEND_SE_INV;
		meant.invalidate = in.u32();
		meant.message_offset = in.u32();
		b.resize(kiw_build_untagged(
			b.data(), op, last, meant.invalidate, meant.queue, meant.number, meant.message_offset));
		break;
	}
	meant.single = op == KIW_OP_READ_REQ || op >= KIW_OP_IMM;
	meant.header = b.size();
	const model::Parsed read = model::segment(b, {true, true});
	require(!read.error && read.segment == meant, "what is built has another meaning");
	require(!(b[0] & 0x3c) && !(b[1] & 0x30), "reserved bits aren't sent as zero");
	arrives(b, {true, true});
}

// Sums in 128 bits can't wrap.
static void range(Input &in)
{
	using wide = unsigned __int128;
	// Near the ends of the region, which aren't hit by chance
	const uint8_t near = in.u8();
	const uint64_t base = in.u64(), length = near & 1 ? in.u16() : in.u64();
	const uint64_t from = near & 2 ? base : near & 4 ? base + length : 0;
	const uint64_t to = from ? from + in.u16() - 0x8000 : in.u64();
	const uint32_t n = near & 8 ? uint32_t(base + length - to) + near / 16 - 8 : in.u32();
	const wide past = wide(to) + n;
	const kiw_range expected = n == 0				     ? KIW_RANGE_OK
				   : past >> 64				     ? KIW_RANGE_WRAP
				   : to < base || past > wide(base) + length ? KIW_RANGE_BOUNDS
									     : KIW_RANGE_OK;

	require(kiw_range_check(base, length, to, n) == expected, "an access is judged in another way");
}

// A sequence of segments of one queue, each as it comes
static void sequence(Input &in)
{
	uint32_t number = 1;
	uint64_t offset = 0;
	kiw_seq seq;

	kiw_seq_init(&seq);
	if (in.u8() & 1) // near the wrap, which no stream of a fuzzer reaches from 1
		seq.msn = number = 0xffffffff - in.u8() % 4;
	for (int i = 0; i < 16 && !in.empty(); i++) {
		const uint8_t how = in.u8();
		const uint32_t room = how & 2 ? in.u32() : in.u16();
		kiw_seg seg = {};

		seg.flags = how & 1 ? KIW_F_LAST : 0;
		seg.payload_len = in.u16();
		seg.msn = how & 4 ? in.u32() : number;
		seg.mo = how & 8 ? in.u32() : uint32_t(offset);
		require((kiw_seq_check_msn(&seq, &seg) == KIW_OK) == (seg.msn == number), "another number is due");
		const kiw_err expected = seg.mo != uint32_t(offset)		     ? KIW_ERR_DDP_MO
					 : uint64_t(seg.mo) + seg.payload_len > room ? KIW_ERR_DDP_TOOLONG
										     : KIW_OK;
		require(kiw_seq_check_mo(&seq, &seg, room) == expected, "an offset is judged in another way");
		if (seg.msn != number || expected)
			return;
		kiw_seq_advance(&seq, &seg);
		offset = seg.flags & KIW_F_LAST ? 0 : offset + seg.payload_len;
		number += seg.flags & KIW_F_LAST ? 1 : 0;
	}
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input in(data, size);
	const uint8_t how = in.u8();
	const model::Caps caps = {bool(how & 0x40), bool(how & 0x80)};

	switch (how % 6) {
	case 0:
	case 1: {
		const uint16_t stuffing = how & 8 ? in.u16() : 0;
		Bytes ulpdu = in.rest();
		ulpdu.resize(std::min<size_t>(ulpdu.size() + stuffing, 0xffff));
		arrives(ulpdu, caps);
		break;
	}
	case 2:
		build(in);
		break;
	case 3: {
		model::Atomic a = atomic(in);
		applies(a, in.u64());
		break;
	}
	case 4:
		range(in);
		break;
	default:
		sequence(in);
		break;
	}
	return 0;
}
