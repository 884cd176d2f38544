// SPDX-License-Identifier: GPL-2.0
/*
 * The receive pump. It runs in TCP's callbacks, with the socket lock held, and can stop at any
 * octet. With a CRC in use it waits until a whole FPDU is in the queue and walks it twice: once for
 * the CRC, once to place it, so that nothing unverified reaches memory or chooses an address.
 */
#include <net/tcp.h>

#include "cm.h"
#include "cursor.h"
#include "rdmap.h"
#include "stream.h"
#include "proto/crc.h"
#include "proto/tail.h"

/* Octets after which the pump lets others run. */
#define RX_BUDGET (1U << 20)

/* An FPDU starts at sequence number @seq. */
static void rx_next(struct kiw_stream *s, u32 seq)
{
	struct kiw_rx *rx = &s->rx;

	rx->stage = KIW_RX_LENGTH;
	rx->have = 0;
	rx->need = KIW_FPDU_LEN_SIZE;
	rx->start = seq;
	rx->crc = kiw_crc_init();
	kiw_marker_begin(&rx->mk, seq - rx->origin, s->neg.markers_rx);
}

void kiw_rx_init(struct kiw_stream *s)
{
	struct kiw_rx *rx = &s->rx;
	unsigned int qn;

	rx->first = true;
	rx->between = true;
	rx->origin = tcp_sk(s->sk)->copied_seq;
	rx_next(s, rx->origin);
	for (qn = 0; qn < KIW_QN_COUNT; qn++)
		kiw_seq_init(&rx->seq[qn]);
}

/* Ask TCP to call back only when @n octets are there, beyond those that are consumed. */
static void rx_wait_for(struct kiw_stream *s, u32 n)
{
	WRITE_ONCE(s->sk->sk_rcvlowat, min_t(u32, n, INT_MAX));
}

/* Judge the whole FPDU, of which @body octets and the markers among them lie before the CRC. */
static enum kiw_err rx_verify(const struct kiw_rx *rx, const struct kiw_cursor *cur, u32 body)
{
	u32 crc = kiw_crc_update(rx->crc, rx->hdr, KIW_FPDU_LEN_SIZE);
	struct kiw_marker mk = rx->mk;
	bool astray = rx->astray;
	u8 mark[KIW_MARKER_SIZE];
	struct kiw_cursor ahead;
	__le32 sent = 0;
	u32 run;

	kiw_cursor_fork(&ahead, cur);
	for (;;) {
		run = kiw_marker_run(&mk, body);
		crc = kiw_cursor_crc(&ahead, crc, run);
		body -= run;
		if (likely(!kiw_marker_due(&mk)))
			break;
		kiw_cursor_copy(&ahead, mark, sizeof(mark));
		crc = kiw_crc_update(crc, mark, sizeof(mark));
		astray |= !kiw_marker_take(&mk, mark);
	}
	kiw_cursor_copy(&ahead, &sent, sizeof(sent));
	kiw_cursor_close(&ahead);
	if (sent != kiw_crc_wire(crc))
		return KIW_ERR_LLP_CRC;
	return astray ? KIW_ERR_LLP_MARKER : KIW_OK;
}

/*
 * How many of the FPDU's next octets, @want at most, are there in one run: 0 when more has to come.
 * They have to be taken then. A marker before them is stepped over; a wrong one ends the stream
 * unless there is a CRC, which is judged first.
 */
static enum kiw_err rx_run(struct kiw_stream *s, struct kiw_cursor *cur, u32 want, u32 *run)
{
	struct kiw_rx *rx = &s->rx;

	*run = 0;
	if (unlikely(kiw_marker_due(&rx->mk))) {
		rx->mark_have += kiw_cursor_copy(cur, rx->mark + rx->mark_have,
						 sizeof(rx->mark) - rx->mark_have);
		if (rx->mark_have < sizeof(rx->mark))
			return KIW_OK;
		rx->mark_have = 0;
		rx->crc = kiw_crc_update(rx->crc, rx->mark, sizeof(rx->mark));
		rx->astray |= !kiw_marker_take(&rx->mk, rx->mark);
		if (rx->astray && !s->neg.crc)
			return KIW_ERR_LLP_MARKER;
	}
	*run = kiw_marker_run(&rx->mk, min(want, kiw_cursor_left(cur)));
	return KIW_OK;
}

/* Fill rx->hdr up to rx->need. */
static enum kiw_err rx_gather(struct kiw_stream *s, struct kiw_cursor *cur, bool *starved)
{
	struct kiw_rx *rx = &s->rx;
	enum kiw_err err;
	u32 run;

	while (rx->have < rx->need) {
		err = rx_run(s, cur, rx->need - rx->have, &run);
		*starved = !run;
		if (!run)
			return err;
		kiw_cursor_copy(cur, rx->hdr + rx->have, run);
		rx->have += run;
	}
	return KIW_OK;
}

static enum kiw_err rx_length(struct kiw_stream *s, struct kiw_cursor *cur, bool *starved)
{
	struct kiw_rx *rx = &s->rx;
	enum kiw_err err;
	u32 body, rest;

	err = rx_gather(s, cur, starved);
	if (err || *starved)
		return err;
	if (s->neg.crc) {
		body = kiw_fpdu_len(kiw_rx_ulpdu_len(rx)) - KIW_FPDU_OVERHEAD;
		rest = body + kiw_marker_count(&rx->mk, body) * KIW_MARKER_SIZE +
		       KIW_FPDU_CRC_SIZE;
		if (kiw_cursor_left(cur) < rest) {
			rx_wait_for(s, rest);
			*starved = true;
			return KIW_OK;
		}
		err = rx_verify(rx, cur, body);
		if (err)
			return err;
	}
	rx->stage = KIW_RX_HEADER;
	return KIW_OK;
}

static enum kiw_err rx_header(struct kiw_stream *s, struct kiw_cursor *cur, bool *starved)
{
	struct kiw_rx *rx = &s->rx;
	enum kiw_err err;

	for (;;) {
		switch (kiw_seg_parse(rx->hdr + KIW_FPDU_LEN_SIZE, rx->have - KIW_FPDU_LEN_SIZE,
				      kiw_rx_ulpdu_len(rx), 0, &rx->seg)) {
		case KIW_DONE:
			err = kiw_rdmap_begin(s);
			rx->left = rx->seg.payload_len;
			rx->stage = KIW_RX_PAYLOAD;
			*starved = rx->stopped;
			return err;
		case KIW_BAD:
			return rx->seg.err;
		case KIW_MORE:
			rx->need = KIW_FPDU_LEN_SIZE + rx->seg.need;
			err = rx_gather(s, cur, starved);
			if (err || *starved)
				return err;
		}
	}
}

/*
 * How many octets of the payload to take of those that are there. The last ones are placed
 * together, and so wait for each other; only a marker may come between them.
 */
static u32 rx_want(const struct kiw_rx *rx, const struct kiw_cursor *cur)
{
	u32 before = rx->left - min_t(u32, rx->left, KIW_TAIL_MAX);
	u32 have = kiw_cursor_left(cur);

	return have > before && have < rx->left ? before : rx->left;
}

static enum kiw_err rx_payload(struct kiw_stream *s, struct kiw_cursor *cur, bool *starved)
{
	struct kiw_rx *rx = &s->rx;
	enum kiw_err err;
	u32 run;

	while (rx->left) {
		err = rx_run(s, cur, rx_want(rx, cur), &run);
		*starved = !run;
		if (!run)
			return err;
		err = kiw_rdmap_place(s, cur, rx->seg.payload_len - rx->left, run);
		if (err)
			return err;
		rx->left -= run;
	}
	rx->stage = KIW_RX_TRAILER;
	rx->left = kiw_fpdu_pad(kiw_rx_ulpdu_len(rx)) + KIW_FPDU_CRC_SIZE;
	return KIW_OK;
}

/* The responder may send once it has seen a good FPDU (RFC 5044 section 7.1.2). */
static void rx_first(struct kiw_stream *s)
{
	s->rx.first = false;
	if (s->tx.gate)
		return;
	s->tx.gate = true;
	kiw_stream_kick(s);
	if (s->inbox)
		kiw_inbox_post(s->inbox, KIW_INBOX_ESTABLISHED);
}

static enum kiw_err rx_trailer(struct kiw_stream *s, struct kiw_cursor *cur)
{
	struct kiw_rx *rx = &s->rx;
	enum kiw_err err;
	u32 run;

	while (rx->left) {
		err = rx_run(s, cur, rx->left, &run);
		if (!run)
			return err;
		kiw_cursor_drop(cur, run);
		rx->left -= run;
	}
	err = kiw_rdmap_end(s);
	if (err)
		return err;
	rx_next(s, cur->seq);
	rx->fpdus++;
	if (rx->first && !rx->stopped)
		rx_first(s);
	return KIW_OK;
}

/* Do as much of one FPDU as is there. */
static enum kiw_err rx_step(struct kiw_stream *s, struct kiw_cursor *cur, bool *starved)
{
	enum kiw_err err = KIW_OK;

	switch (s->rx.stage) {
	case KIW_RX_LENGTH:
		err = rx_length(s, cur, starved);
		if (err || *starved)
			return err;
		fallthrough;
	case KIW_RX_HEADER:
		err = rx_header(s, cur, starved);
		if (err || *starved)
			return err;
		fallthrough;
	case KIW_RX_PAYLOAD:
		err = rx_payload(s, cur, starved);
		if (err || *starved)
			return err;
		fallthrough;
	case KIW_RX_TRAILER:
		return rx_trailer(s, cur);
	}
	return err;
}

void kiw_rx_pump(struct kiw_stream *s)
{
	struct kiw_rx *rx = &s->rx;
	struct sock *sk = s->sk;
	u32 first = tcp_sk(sk)->copied_seq;
	u32 start = first + rx->taken;
	bool starved = false, readable;
	struct kiw_cursor cur;
	enum kiw_err err;

	readable = kiw_cursor_open(&cur, sk, start, first + tcp_inq(sk));
	rx_wait_for(s, 1);
	while (!rx->stopped && !starved && kiw_cursor_left(&cur)) {
		if (cur.seq - start > RX_BUDGET) {
			s->rx_more = true;
			kiw_stream_kick(s);
			break;
		}
		err = rx_step(s, &cur, &starved);
		if (err)
			kiw_stream_fail(s, err, rx->hdr + KIW_FPDU_LEN_SIZE,
					rx->have - min_t(u32, rx->have, KIW_FPDU_LEN_SIZE),
					rx->have < KIW_FPDU_LEN_SIZE ? 0 : kiw_rx_ulpdu_len(rx));
	}
	if (!readable && !rx->stopped) {
		kiw_stat_inc(&s->dev->stats, KIW_STAT_LLP_LOST);
		kiw_stream_event(s, KIW_EV_LLP_LOST);
		kiw_stream_kick(s);
	}
	if (cur.seq != start) {
		rx->between = cur.seq == rx->start;
		kiw_traffic_received(&s->dev->stats, cur.seq - start, rx->fpdus);
		rx->fpdus = 0;
	}
	rx->taken = (rx->stopped ? cur.end : cur.seq) - first;
	kiw_cursor_close(&cur);
}

void kiw_rx_done(struct kiw_stream *s)
{
	if (!s->rx.taken)
		return;
	tcp_read_done(s->sk, s->rx.taken);
	s->rx.taken = 0;
}
