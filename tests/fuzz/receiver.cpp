// SPDX-License-Identifier: GPL-2.0
#include "receiver.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "proto/crc.h"
#include "proto/tail.h"

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
	s.send_immediate = seg.flags & KIW_F_SEND_IMM;
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
	: kiw_receive{},
	  config(r),
	  source(r.base),
	  receives(r.receives),
	  reads(r.ird),
	  atomics(r.atomics)
{
	kiw_receive_init(this, r.base, r.crc, r.markers, library::caps(r.caps));
	// As if the grid had begun before the stream
	origin = 0;
	kiw_marker_begin(&mk, r.base, r.markers);
}

void Receiver::feed(Octets piece)
{
	source.add(piece);
	while (!stopped && kiw_source_left(&source)) {
		const bool enough = kiw_source_left(&source) >= want;
		const uint32_t seq_before = source.seq, want_before = want;
		const unsigned calls_before = calls;
		const kiw_step step = kiw_receive_step(this, &source);

		require(between == (source.seq == start), "the machine doesn't know whether it is between FPDUs");
		require(enough || (step == KIW_MORE && source.seq == seq_before && want == want_before &&
					  calls == calls_before),
			"the machine wants more than it takes");
		if (step == KIW_DONE) {
			so_far.consumed = start - config.base;
		} else if (step == KIW_BAD) {
			model::Event e;
			e.error = error(err);
			so_far.events.push_back(e);
			stopped = true;
		} else {
			require(want > 0 && (want == 1 || kiw_source_left(&source) < want),
				"the machine wants what it has");
			return;
		}
	}
}

// The checks that take state, as kmod/session/arrive.c makes them
kiw_err Receiver::sequence()
{
	kiw_seq *queue = &seq[seg.qn];
	const kiw_err wrong = kiw_seq_check_msn(queue, &seg);

	if (wrong)
		return wrong;
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
	return kiw_seq_check_mo(queue, &seg, seg.flags & KIW_F_SINGLE ? 0 : config.room);
}

kiw_err Receiver::sink_begin()
{
	calls++;
	payload.clear();
	require(have == KIW_FPDU_LEN_SIZE + uint32_t(seg.hdr_len), "the header isn't what was gathered");
	if ((seg.flags & KIW_F_TAGGED) || seg.op == KIW_OP_TERMINATE)
		return KIW_OK;
	return sequence();
}

void Receiver::sink_place(MemorySource &from, uint32_t done, uint32_t n)
{
	calls++;
	require(n > 0 && done == payload.size() && n <= seg.payload_len - done, "a payload has gaps or too much");
	const auto taken = from.take(n);
	payload.insert(payload.end(), taken.begin(), taken.end());
	const uint32_t rest = seg.payload_len - done - n;
	require(rest == 0 || rest >= KIW_TAIL_MAX || kiw_marker_due(&mk), "the last bytes come one by one");
}

void Receiver::sink_end()
{
	const uint8_t *headers = kiw_receive_ulpdu(this);
	model::Event e;

	calls++;
	require(payload.size() == seg.payload_len, "a payload isn't whole");
	if (seg.op == KIW_OP_TERMINATE) {
		e.terminated = true;
		e.terminate = terminate({headers, kiw_receive_ulpdu_have(this)});
		stopped = true;
	} else {
		e.segment = segment(seg);
		require(e.segment.header + e.segment.payload == kiw_receive_ulpdu_len(this),
			"header and payload aren't the ULPDU");
		e.payload = payload;
	}
	so_far.events.push_back(e);
	if ((seg.flags & KIW_F_TAGGED) || seg.op == KIW_OP_TERMINATE)
		return;
	kiw_seq_advance(&seq[seg.qn], &seg);
	if (seg.qn == KIW_QN_SEND && (seg.flags & KIW_F_LAST))
		placing = false;
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

static library::Receiver &receiver(kiw_receive *rx)
{
	return *static_cast<library::Receiver *>(rx);
}

kiw_err kiw_sink_begin(kiw_receive *rx)
{
	return receiver(rx).sink_begin();
}

kiw_err kiw_sink_place(kiw_receive *rx, kiw_source *src, uint32_t done, uint32_t n)
{
	receiver(rx).sink_place(*static_cast<MemorySource *>(src), done, n);
	return KIW_OK;
}

kiw_err kiw_sink_end(kiw_receive *rx)
{
	receiver(rx).sink_end();
	return KIW_OK;
}
