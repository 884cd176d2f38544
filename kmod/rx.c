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

/* Octets after which the pump lets others run. */
#define RX_BUDGET (1U << 20)

void kiw_rx_init(struct kiw_rx *rx)
{
	unsigned int qn;

	rx->first = true;
	rx->need = KIW_FPDU_LEN_SIZE;
	for (qn = 0; qn < KIW_QN_COUNT; qn++)
		kiw_seq_init(&rx->seq[qn]);
}

/* One FPDU is through; the next one starts. */
static void rx_next(struct kiw_rx *rx)
{
	rx->stage = KIW_RX_LENGTH;
	rx->have = 0;
	rx->need = KIW_FPDU_LEN_SIZE;
}

/* Ask TCP to call back only when @n octets are there, beyond those that are consumed. */
static void rx_wait_for(struct kiw_stream *s, u32 n)
{
	WRITE_ONCE(s->sk->sk_rcvlowat, min_t(u32, n, INT_MAX));
}

static enum kiw_err rx_verify(const struct kiw_rx *rx, const struct kiw_cursor *cur, u32 covered)
{
	u32 crc = kiw_crc_update(kiw_crc_init(), rx->hdr, KIW_FPDU_LEN_SIZE);
	struct kiw_cursor ahead;
	__le32 sent = 0;

	kiw_cursor_fork(&ahead, cur);
	crc = kiw_cursor_crc(&ahead, crc, covered);
	kiw_cursor_copy(&ahead, &sent, sizeof(sent));
	kiw_cursor_close(&ahead);
	return sent == kiw_crc_wire(crc) ? KIW_OK : KIW_ERR_LLP_CRC;
}

/* Fill rx->hdr up to rx->need. */
static bool rx_gather(struct kiw_rx *rx, struct kiw_cursor *cur)
{
	rx->have += kiw_cursor_copy(cur, rx->hdr + rx->have, rx->need - rx->have);
	return rx->have == rx->need;
}

static enum kiw_err rx_length(struct kiw_stream *s, struct kiw_cursor *cur, u32 end, bool *starved)
{
	struct kiw_rx *rx = &s->rx;
	u32 rest;

	if (rx->have < KIW_FPDU_LEN_SIZE && !rx_gather(rx, cur)) {
		*starved = true;
		return KIW_OK;
	}
	if (s->neg.crc) {
		rest = kiw_fpdu_len(kiw_rx_ulpdu_len(rx)) - KIW_FPDU_LEN_SIZE;
		if (end - cur->seq < rest) {
			rx_wait_for(s, rest);
			*starved = true;
			return KIW_OK;
		}
		if (rx_verify(rx, cur, rest - KIW_FPDU_CRC_SIZE))
			return KIW_ERR_LLP_CRC;
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
			if (!rx_gather(rx, cur)) {
				*starved = true;
				return KIW_OK;
			}
		}
	}
}

static enum kiw_err rx_payload(struct kiw_stream *s, struct kiw_cursor *cur, u32 end)
{
	struct kiw_rx *rx = &s->rx;
	u32 n = min(rx->left, end - cur->seq);
	enum kiw_err err = KIW_OK;

	if (n)
		err = kiw_rdmap_place(s, cur, rx->seg.payload_len - rx->left, n);
	rx->left -= n;
	if (!err && !rx->left) {
		rx->stage = KIW_RX_TRAILER;
		rx->left = kiw_fpdu_pad(kiw_rx_ulpdu_len(rx)) + KIW_FPDU_CRC_SIZE;
	}
	return err;
}

/* The responder may send once it has seen a good FPDU (RFC 5044 section 7.1.2). */
static void rx_first(struct kiw_stream *s)
{
	s->rx.first = false;
	if (s->tx.gate)
		return;
	s->tx.gate = true;
	kiw_stream_kick(s);
	if (s->ep)
		kiw_ep_notify(s->ep, KIW_EP_ESTABLISHED);
}

static enum kiw_err rx_trailer(struct kiw_stream *s, struct kiw_cursor *cur)
{
	struct kiw_rx *rx = &s->rx;
	enum kiw_err err;

	while (rx->left && kiw_cursor_fill(cur)) {
		u32 n = min(rx->left, cur->n);

		kiw_cursor_skip(cur, n);
		rx->left -= n;
	}
	if (rx->left)
		return KIW_OK;
	err = kiw_rdmap_end(s);
	if (err)
		return err;
	rx_next(rx);
	if (rx->first && !rx->stopped)
		rx_first(s);
	return KIW_OK;
}

/* Do as much of one FPDU as is there. */
static enum kiw_err rx_step(struct kiw_stream *s, struct kiw_cursor *cur, u32 end, bool *starved)
{
	enum kiw_err err = KIW_OK;

	switch (s->rx.stage) {
	case KIW_RX_LENGTH:
		err = rx_length(s, cur, end, starved);
		if (err || *starved)
			return err;
		fallthrough;
	case KIW_RX_HEADER:
		err = rx_header(s, cur, starved);
		if (err || *starved)
			return err;
		fallthrough;
	case KIW_RX_PAYLOAD:
		err = rx_payload(s, cur, end);
		if (err || s->rx.stage != KIW_RX_TRAILER)
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
	u32 start = tcp_sk(sk)->copied_seq;
	u32 end = start + tcp_inq(sk);
	bool starved = false;
	struct kiw_cursor cur;
	enum kiw_err err;
	u32 used;

	kiw_cursor_open(&cur, sk, start);
	rx_wait_for(s, 1);
	while (!rx->stopped && !starved && cur.seq != end) {
		if (cur.seq - start > RX_BUDGET) {
			s->rx_more = true;
			kiw_stream_kick(s);
			break;
		}
		err = rx_step(s, &cur, end, &starved);
		if (err)
			kiw_stream_fail(s, err, rx->hdr + KIW_FPDU_LEN_SIZE,
					rx->have - min_t(u32, rx->have, KIW_FPDU_LEN_SIZE),
					rx->have < KIW_FPDU_LEN_SIZE ? 0 : kiw_rx_ulpdu_len(rx));
	}
	used = (rx->stopped ? end : cur.seq) - start;
	kiw_cursor_close(&cur);
	if (used)
		tcp_read_done(sk, used);
}
