// SPDX-License-Identifier: GPL-2.0
#include "receiver.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "proto/crc.h"

namespace library {

void finding(const std::string &what)
{
	fprintf(stderr, "FINDING: %s\n", what.c_str());
	abort();
}

void require(bool holds, const char *what)
{
	if (!holds)
		finding(what);
}

model::Error error(kiw_err err)
{
	const kiw_term t = kiw_err_term(err);

	return {t.layer, t.etype, t.code};
}

static model::ReadRequest read_request(const kiw_rreq &rr)
{
	return {rr.sink_stag, rr.sink_to, rr.size, rr.src_stag, rr.src_to};
}

model::Segment segment(const kiw_seg &seg)
{
	model::Segment s;

	s.opcode = seg.op;
	s.tagged = seg.flags & KIW_F_TAGGED;
	s.last = seg.flags & KIW_F_LAST;
	s.solicited = seg.flags & KIW_F_SOLICITED;
	s.invalidates = seg.flags & KIW_F_INVALIDATE;
	s.receives = seg.flags & KIW_F_RECV;
	s.single = seg.flags & KIW_F_SINGLE;
	s.stag = seg.stag;
	s.offset = seg.to;
	s.invalidate = seg.inv_stag;
	s.queue = seg.qn;
	s.number = seg.msn;
	s.message_offset = seg.mo;
	s.header = seg.hdr_len;
	s.payload = seg.payload_len;
	switch (seg.op) {
	case KIW_OP_READ_REQ:
		s.read = read_request(seg.rreq);
		break;
	case KIW_OP_IMM:
	case KIW_OP_IMM_SE:
		std::copy_n(seg.imm, KIW_IMM_SIZE, s.immediate.begin());
		break;
	case KIW_OP_ATOMIC_REQ:
		s.atomic = {seg.atomic.op, seg.atomic.req_id, seg.atomic.stag, seg.atomic.to, seg.atomic.data,
			seg.atomic.mask, seg.atomic.cmp, seg.atomic.cmp_mask};
		break;
	case KIW_OP_ATOMIC_RESP:
		s.response_id = seg.atomic_resp.req_id;
		s.response_value = seg.atomic_resp.value;
		break;
	default:
		break;
	}
	return s;
}

uint32_t caps(const model::Caps &caps)
{
	return (caps.immediate ? KIW_CAP_IMM : 0) | (caps.atomics ? KIW_CAP_ATOMIC : 0);
}

std::optional<model::Terminate> terminate(Octets ulpdu)
{
	Bytes exact;
	kiw_term_info info;
	model::Terminate t;

	exact.reserve(1); // there is a buffer, even with nothing in it
	exact.assign(ulpdu.begin(), ulpdu.begin() + ptrdiff_t(std::min<size_t>(ulpdu.size(), KIW_TERM_MAX_LEN)));
	if (!kiw_term_parse(exact.data(), uint32_t(exact.size()), &info))
		return std::nullopt;
	t.raw = {info.raw.layer, info.raw.etype, info.raw.code};
	// Type 3 of layer 2 is how much hardware sends type 0.
	const uint8_t type = t.raw.layer == 2 && t.raw.type == 3 ? 0 : t.raw.type;
	require(info.err == (t.raw.layer << 12 | type << 8 | t.raw.code),
		"the packed error isn't that of the Terminate");
	t.has_segment = info.has_seg;
	t.has_read = info.has_rreq;
	// Without the segment its fields mean nothing.
	if (!t.has_segment)
		return t;
	t.tagged = info.tagged;
	t.opcode = info.op;
	t.length = info.seg_len;
	t.stag = info.stag;
	t.offset = info.to;
	t.queue = info.qn;
	t.number = info.msn;
	t.message_offset = info.mo;
	if (t.has_read)
		t.read = read_request(info.rreq);
	return t;
}

Receiver::Receiver(const model::Receiver &r)
	: config(r),
	  offset(r.base),
	  receives(r.receives),
	  reads(r.ird),
	  atomics(r.atomics)
{
	for (auto &s : seq)
		kiw_seq_init(&s);
}

void Receiver::feed(Octets piece)
{
	Step step = Step::on;

	if (over)
		return;
	waiting.insert(waiting.end(), piece.begin(), piece.end());
	while (step == Step::on) {
		if (config.crc || config.markers) {
			step = verified_fpdu();
			continue;
		}
		switch (stage) {
		case at_length:
			step = length();
			break;
		case at_headers:
			step = headers();
			break;
		case at_payload:
			step = payload();
			break;
		case at_trailer:
			step = end();
			break;
		}
	}
	over = step == Step::over;
}

Receiver::Step Receiver::fail(kiw_err err)
{
	model::Event e;

	e.error = error(err);
	so_far.events.push_back(e);
	return Step::over;
}

// The way of a stream whose FPDUs have to be seen whole before anything in them may be believed
Receiver::Step Receiver::verified_fpdu()
{
	kiw_marker mk;
	bool good = true;
	size_t at = 0;

	kiw_marker_begin(&mk, offset, config.markers);
	const size_t front = kiw_marker_due(&mk) ? KIW_MARKER_SIZE : 0;
	if (waiting.size() < front + KIW_FPDU_LEN_SIZE)
		return Step::more;
	ulpdu_len = get_unaligned_be16(waiting.data() + front);
	const uint32_t whole = kiw_fpdu_wire_len(offset, ulpdu_len, config.markers);
	if (waiting.size() < whole)
		return Step::more;

	const Bytes wire(waiting.begin(), waiting.begin() + whole);
	const uint32_t crc = kiw_crc_update(kiw_crc_init(), wire.data(), whole - KIW_FPDU_CRC_SIZE);
	const __le32 expected = kiw_crc_wire(crc);
	if (config.crc && memcmp(&expected, &wire[whole - KIW_FPDU_CRC_SIZE], sizeof(expected)) != 0)
		return fail(KIW_ERR_LLP_CRC);

	auto markers = [&] {
		if (!kiw_marker_due(&mk))
			return;
		const Bytes marker(wire.begin() + ptrdiff_t(at), wire.begin() + ptrdiff_t(at) + KIW_MARKER_SIZE);
		good &= kiw_marker_take(&mk, marker.data());
		at += KIW_MARKER_SIZE;
	};
	const uint32_t covered = kiw_fpdu_len(ulpdu_len) - KIW_FPDU_CRC_SIZE;
	require(whole == kiw_fpdu_len(ulpdu_len) + kiw_marker_count(&mk, covered) * KIW_MARKER_SIZE,
		"the markers to come aren't those that the length counts");
	Bytes plain;
	while (plain.size() < covered) {
		markers();
		const uint32_t n = kiw_marker_run(&mk, uint32_t(covered - plain.size()));
		require(n > 0 && at + n <= wire.size(), "the walk over the markers goes on for ever, or astray");
		plain.insert(plain.end(), wire.begin() + ptrdiff_t(at), wire.begin() + ptrdiff_t(at + n));
		at += n;
	}
	markers();
	require(at == whole - KIW_FPDU_CRC_SIZE, "the walk over the markers doesn't end at the CRC");
	if (!good)
		return fail(KIW_ERR_LLP_MARKER);

	ulpdu.assign(plain.begin() + KIW_FPDU_LEN_SIZE, plain.begin() + KIW_FPDU_LEN_SIZE + ulpdu_len);
	const kiw_step step = kiw_seg_parse(ulpdu.data(), ulpdu_len, ulpdu_len, caps(config.caps), &seg);
	require(step != KIW_MORE, "the parser wants more than there is");
	if (step == KIW_BAD)
		return fail(seg.err);
	if (begin() == Step::over)
		return Step::over;
	return end();
}

Receiver::Step Receiver::length()
{
	if (waiting.size() < KIW_FPDU_LEN_SIZE)
		return Step::more;
	ulpdu_len = get_unaligned_be16(waiting.data());
	stage = at_headers;
	ulpdu.clear();
	return Step::on;
}

Receiver::Step Receiver::headers()
{
	// Beginning with nothing it asks for what it wants, and gets no octet more.
	for (;;) {
		switch (kiw_seg_parse(ulpdu.data(), uint32_t(ulpdu.size()), ulpdu_len, caps(config.caps), &seg)) {
		case KIW_DONE:
			stage = at_payload;
			return begin();
		case KIW_BAD:
			return fail(seg.err);
		case KIW_MORE:
			require(seg.need > ulpdu.size() && seg.need <= std::min<uint32_t>(ulpdu_len, KIW_HDR_MAX),
				"the parser asks for what it has or can't have");
			if (waiting.size() < KIW_FPDU_LEN_SIZE + size_t(seg.need))
				return Step::more;
			ulpdu = Bytes(
				waiting.begin() + KIW_FPDU_LEN_SIZE, waiting.begin() + KIW_FPDU_LEN_SIZE + seg.need);
			break;
		}
	}
}

// The checks that take state, as kmod/rdmap.c makes them
kiw_err Receiver::sequence()
{
	kiw_seq *queue = &seq[seg.qn];
	kiw_err err = kiw_seq_check_msn(queue, &seg);

	if (err)
		return err;
	const bool receiving = seg.qn == KIW_QN_SEND;
	unsigned &buffers = receiving ? receives : seg.qn == KIW_QN_READ ? reads : atomics;
	if (!(receiving && placing)) {
		if (!buffers)
			return KIW_ERR_DDP_NOBUF;
		buffers--;
		placing |= receiving;
	}
	if ((seg.flags & KIW_F_SINGLE) && seg.mo)
		return KIW_ERR_DDP_MO;
	err = kiw_seq_check_mo(queue, &seg, seg.flags & KIW_F_SINGLE ? 0 : config.room);
	if (err)
		return err;
	kiw_seq_advance(queue, &seg);
	if (receiving && (seg.flags & KIW_F_LAST))
		placing = false;
	return KIW_OK;
}

Receiver::Step Receiver::begin()
{
	if (!(seg.flags & KIW_F_TAGGED) && seg.op != KIW_OP_TERMINATE) {
		const kiw_err err = sequence();
		if (err)
			return fail(err);
	}
	return Step::on;
}

Receiver::Step Receiver::payload()
{
	if (waiting.size() < KIW_FPDU_LEN_SIZE + size_t(ulpdu_len))
		return Step::more;
	ulpdu.assign(waiting.begin() + KIW_FPDU_LEN_SIZE, waiting.begin() + KIW_FPDU_LEN_SIZE + ulpdu_len);
	stage = at_trailer;
	return Step::on;
}

Receiver::Step Receiver::end()
{
	const uint32_t whole = kiw_fpdu_wire_len(offset, ulpdu_len, config.markers);
	model::Event e;

	if (waiting.size() < whole)
		return Step::more;
	waiting.erase(waiting.begin(), waiting.begin() + whole);
	so_far.consumed += whole;
	offset += whole;
	stage = at_length;
	if (seg.op == KIW_OP_TERMINATE) {
		e.terminated = true;
		e.terminate = terminate(ulpdu);
		so_far.events.push_back(e);
		return Step::over;
	}
	e.segment = segment(seg);
	require(e.segment.header + e.segment.payload == ulpdu_len, "header and payload aren't the ULPDU");
	e.payload.assign(ulpdu.begin() + seg.hdr_len, ulpdu.end());
	so_far.events.push_back(e);
	return Step::on;
}

Bytes send(const std::vector<Bytes> &ulpdus, uint32_t base, bool markers, bool crc)
{
	Bytes out;

	for (const Bytes &ulpdu : ulpdus) {
		const auto n = uint32_t(ulpdu.size());
		const uint32_t offset = base + uint32_t(out.size());
		const size_t start = out.size();
		Bytes plain;
		kiw_marker mk;

		put(plain, n, 2);
		plain = plain + ulpdu;
		plain.resize(plain.size() + kiw_fpdu_pad(n));
		auto marker = [&] {
			if (!kiw_marker_due(&mk))
				return;
			Bytes m(KIW_MARKER_SIZE);
			kiw_marker_put(&mk, m.data());
			out = out + m;
		};
		kiw_marker_begin(&mk, offset, markers);
		for (size_t at = 0; at < plain.size();) {
			marker();
			const uint32_t run = kiw_marker_run(&mk, uint32_t(plain.size() - at));
			require(run > 0, "the walk over the markers goes on for ever");
			out.insert(out.end(), plain.begin() + ptrdiff_t(at), plain.begin() + ptrdiff_t(at + run));
			at += run;
		}
		marker();
		// Copied and summed in one go, as the module does it with payload
		Bytes copy(out.size() - start);
		const uint32_t sum = kiw_crc_copy(kiw_crc_init(), copy.data(), out.data() + start, copy.size());
		const __le32 field = crc ? kiw_crc_wire(sum) : 0;
		Bytes trailer(KIW_FPDU_CRC_SIZE);
		memcpy(trailer.data(), &field, sizeof(field));
		out = out + trailer;
		require(out.size() - start == kiw_fpdu_wire_len(offset, n, markers),
			"an FPDU isn't as long as it should be");
	}
	return out;
}

} // namespace library
