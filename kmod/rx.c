// SPDX-License-Identifier: GPL-2.0
/* The receive pump: runs in TCP's callbacks, with the socket lock held. */
#include "rx.h"

#include <net/tcp.h>

#include "compat.h"
#include "cursor.h"
#include "stream.h"

/* Bytes after which the pump lets others run */
#define RX_BUDGET (1U << 20)

/*
 * With a CRC an FPDU waits until it is whole, so the peer must be able to send the @missing bytes.
 * TCP frees an skb when all of it is consumed, and joins arriving bytes to the last one: the skb
 * with the start of an FPDU may use several times the memory of its rest, in addition to
 * attach_window()'s room.
 */
static void rx_make_room(struct kiw_stream *s, u32 consumed, u32 missing)
{
	struct sock *sk = s->sk;
	const struct sk_buff *skb;
	int room;

	if (!s->ss.neg.crc || missing <= tcp_receive_window(tcp_sk(sk)))
		return;
	skb_queue_walk(&sk->sk_receive_queue, skb) {
		if (!after(TCP_SKB_CB(skb)->end_seq, consumed))
			continue;
		room = skb->truesize + tcp_space_from_win(sk, KIW_RX_WINDOW);
		if (READ_ONCE(sk->sk_rcvbuf) < room)
			WRITE_ONCE(sk->sk_rcvbuf, room);
		return;
	}
}

void kiw_rx_pump(struct kiw_stream *s)
{
	struct kiw_receive *rx = &s->ss.rx;
	struct sock *sk = s->sk;
	u32 first = tcp_sk(sk)->copied_seq;
	u32 start = first + s->rx_taken;
	struct kiw_cursor cur, ahead;
	bool readable;
	u32 fpdus;

	kiw_stream_assert_held(s);
	readable = kiw_cursor_open(&cur, &ahead, sk, start, first + tcp_inq(sk));
	fpdus = kiw_session_feed(&s->ss, &cur.source, RX_BUDGET);
	if (cur.source.seq - start > RX_BUDGET && !rx->stopped) {
		s->rx_more = true;
		kiw_stream_kick(s);
	}
	if (!readable && !rx->stopped)
		kiw_session_broken_off(&s->ss, KIW_EV_LLP_LOST);
	/* TCP calls back when so many bytes are available behind the consumed ones. */
	WRITE_ONCE(sk->sk_rcvlowat,
		   rx->stopped ? 1 :
		   kiw_receive_waits(rx) ? INT_MAX : min_t(u32, rx->want, INT_MAX));
	if (cur.source.seq != start) {
		kiw_traffic_received(&s->dev->stats, cur.source.seq - start, fpdus);
		s->rx_bytes += cur.source.seq - start;
		s->rx_fpdus += fpdus;
	}
	if (!rx->stopped && rx->want > cur.source.end - cur.source.seq)
		rx_make_room(s, cur.source.seq, rx->want - (cur.source.end - cur.source.seq));
	s->rx_taken = (rx->stopped ? cur.source.end : cur.source.seq) - first;
	kiw_source_close(&cur.source);
}

void kiw_rx_done(struct kiw_stream *s)
{
	if (!s->rx_taken)
		return;
	/* The peer's request waits for the ACK. TCP alone would delay it up to 40 ms. */
	if (s->ss.tx.acked && s->ss.rx_ended)
		inet_csk_exit_pingpong_mode(s->sk);
	s->ss.rx_ended = false;
	tcp_read_done(s->sk, s->rx_taken);
	s->rx_taken = 0;
}
