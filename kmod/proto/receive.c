// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "receive.h"

#include "crc.h"
#include "tail.h"

static enum kiw_step receive_bad(struct kiw_receive *rx, enum kiw_err err)
{
	rx->err = err;
	return KIW_BAD;
}

/* An FPDU starts at position @seq. */
static void receive_next(struct kiw_receive *rx, u32 seq)
{
	rx->stage = KIW_RECEIVE_LENGTH;
	rx->have = 0;
	rx->need = KIW_FPDU_LEN_SIZE;
	rx->start = seq;
	rx->crc = kiw_crc_init();
	kiw_marker_begin(&rx->mk, seq - rx->origin, rx->use_markers);
}

void kiw_receive_init(struct kiw_receive *rx, u32 seq, bool crc, bool markers, u32 caps)
{
	unsigned int qn;

	rx->use_crc = crc;
	rx->use_markers = markers;
	rx->caps = caps;
	rx->between = true;
	rx->want = 1;
	rx->origin = seq;
	receive_next(rx, seq);
	for (qn = 0; qn < KIW_QN_COUNT; qn++)
		kiw_seq_init(&rx->seq[qn]);
}

/* Judge the whole FPDU; @body bytes and their markers precede the CRC. */
static enum kiw_err receive_verify(const struct kiw_receive *rx, struct kiw_source *src, u32 body)
{
	u32 crc = kiw_crc_update(rx->crc, rx->hdr, KIW_FPDU_LEN_SIZE);
	struct kiw_source *ahead = kiw_source_fork(src);
	struct kiw_marker mk = rx->mk;
	bool astray = rx->astray;
	u8 mark[KIW_MARKER_SIZE];
	__le32 sent = 0;
	u32 run;

	for (;;) {
		run = kiw_marker_run(&mk, body);
		crc = kiw_source_crc(ahead, crc, run);
		body -= run;
		if (likely(!kiw_marker_due(&mk)))
			break;
		kiw_source_copy(ahead, mark, sizeof(mark));
		crc = kiw_crc_update(crc, mark, sizeof(mark));
		astray |= !kiw_marker_take(&mk, mark);
	}
	kiw_source_copy(ahead, &sent, sizeof(sent));
	kiw_source_close(ahead);
	if (sent != kiw_crc_wire(crc))
		return KIW_ERR_LLP_CRC;
	return astray ? KIW_ERR_LLP_MARKER : KIW_OK;
}

/*
 * Find how many of the next @wanted bytes are available in one run; with %KIW_DONE at least 1, and
 * the caller must take them. The last @together bytes wait for each other; only a marker may
 * separate them. Steps over a marker before the run. A wrong one ends the stream, unless a CRC is
 * judged first.
 */
static enum kiw_step receive_run(struct kiw_receive *rx, struct kiw_source *src, u32 wanted,
				 u32 together, u32 *run)
{
	u32 before = wanted - min_t(u32, wanted, together);
	u32 have;

	if (unlikely(kiw_marker_due(&rx->mk))) {
		rx->mark_have += kiw_source_copy(src, rx->mark + rx->mark_have,
						 sizeof(rx->mark) - rx->mark_have);
		if (rx->mark_have < sizeof(rx->mark))
			return KIW_MORE;
		rx->mark_have = 0;
		rx->crc = kiw_crc_update(rx->crc, rx->mark, sizeof(rx->mark));
		rx->astray |= !kiw_marker_take(&rx->mk, rx->mark);
		if (rx->astray && !rx->use_crc)
			return receive_bad(rx, KIW_ERR_LLP_MARKER);
	}
	have = kiw_source_left(src);
	if (have < wanted)
		wanted = min_t(u32, have, before);
	*run = kiw_marker_run(&rx->mk, wanted);
	return *run ? KIW_DONE : KIW_MORE;
}

/* Fill rx->hdr up to rx->need. */
static enum kiw_step receive_gather(struct kiw_receive *rx, struct kiw_source *src)
{
	enum kiw_step step;
	u32 run;

	while (rx->have < rx->need) {
		step = receive_run(rx, src, rx->need - rx->have, 0, &run);
		if (step != KIW_DONE)
			return step;
		kiw_source_copy(src, rx->hdr + rx->have, run);
		rx->have += run;
	}
	return KIW_DONE;
}

static enum kiw_step receive_length(struct kiw_receive *rx, struct kiw_source *src)
{
	enum kiw_step step = receive_gather(rx, src);
	enum kiw_err err;
	u32 body, rest;

	if (step != KIW_DONE)
		return step;
	if (rx->use_crc) {
		body = kiw_fpdu_len(kiw_receive_ulpdu_len(rx)) - KIW_FPDU_OVERHEAD;
		rest = body + kiw_marker_count(&rx->mk, body) * KIW_MARKER_SIZE +
		       KIW_FPDU_CRC_SIZE;
		if (kiw_source_left(src) < rest) {
			rx->want = rest;
			return KIW_MORE;
		}
		err = receive_verify(rx, src, body);
		if (err)
			return receive_bad(rx, err);
	}
	rx->stage = KIW_RECEIVE_HEADER;
	return KIW_DONE;
}

static enum kiw_step receive_header(struct kiw_receive *rx, struct kiw_source *src)
{
	enum kiw_step step;
	enum kiw_err err;

	for (;;) {
		step = kiw_seg_parse(kiw_receive_ulpdu(rx), kiw_receive_ulpdu_have(rx),
				     kiw_receive_ulpdu_len(rx), rx->caps, &rx->seg);
		if (step != KIW_MORE)
			break;
		rx->need = KIW_FPDU_LEN_SIZE + rx->seg.need;
		step = receive_gather(rx, src);
		if (step != KIW_DONE)
			return step;
	}
	if (step == KIW_BAD)
		return receive_bad(rx, rx->seg.err);
	rx->held = false;
	err = kiw_sink_begin(rx);
	if (rx->held)
		return KIW_MORE;
	rx->left = rx->seg.payload_len;
	rx->stage = KIW_RECEIVE_PAYLOAD;
	if (err)
		return receive_bad(rx, err);
	return rx->stopped ? KIW_MORE : KIW_DONE;
}

static enum kiw_step receive_payload(struct kiw_receive *rx, struct kiw_source *src)
{
	enum kiw_step step;
	enum kiw_err err;
	u32 run;

	while (rx->left) {
		step = receive_run(rx, src, rx->left, KIW_TAIL_MAX, &run);
		if (step != KIW_DONE) {
			/* Available bytes wait for the rest. */
			if (kiw_source_left(src))
				rx->want = rx->left;
			return step;
		}
		err = kiw_sink_place(rx, src, rx->seg.payload_len - rx->left, run);
		if (err)
			return receive_bad(rx, err);
		rx->left -= run;
	}
	rx->stage = KIW_RECEIVE_TRAILER;
	rx->left = kiw_fpdu_pad(kiw_receive_ulpdu_len(rx)) + KIW_FPDU_CRC_SIZE;
	return KIW_DONE;
}

static enum kiw_step receive_trailer(struct kiw_receive *rx, struct kiw_source *src)
{
	enum kiw_step step;
	enum kiw_err err;
	u32 run;

	while (rx->left) {
		step = receive_run(rx, src, rx->left, 0, &run);
		if (step != KIW_DONE)
			return step;
		kiw_source_drop(src, run);
		rx->left -= run;
	}
	err = kiw_sink_end(rx);
	if (err)
		return receive_bad(rx, err);
	receive_next(rx, src->seq);
	return KIW_DONE;
}

static enum kiw_step receive_fpdu(struct kiw_receive *rx, struct kiw_source *src)
{
	enum kiw_step step;

	switch (rx->stage) {
	case KIW_RECEIVE_LENGTH:
		step = receive_length(rx, src);
		if (step != KIW_DONE)
			return step;
		fallthrough;
	case KIW_RECEIVE_HEADER:
		step = receive_header(rx, src);
		if (step != KIW_DONE)
			return step;
		fallthrough;
	case KIW_RECEIVE_PAYLOAD:
		step = receive_payload(rx, src);
		if (step != KIW_DONE)
			return step;
		fallthrough;
	default:
		return receive_trailer(rx, src);
	}
}

enum kiw_step kiw_receive_step(struct kiw_receive *rx, struct kiw_source *src)
{
	enum kiw_step step;

	rx->want = 1;
	step = receive_fpdu(rx, src);
	rx->between = src->seq == rx->start;
	return step;
}
