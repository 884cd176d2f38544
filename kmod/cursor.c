// SPDX-License-Identifier: GPL-2.0
#include "cursor.h"

#include "proto/crc.h"

bool kiw_cursor_open(struct kiw_cursor *c, struct kiw_cursor *ahead, struct sock *sk, u32 seq,
		     u32 end)
{
#ifdef CONFIG_NET_DEVMEM
	struct sk_buff *skb;
#endif

	c->source.seq = seq;
	c->source.end = end;
	c->sk = sk;
	c->ahead = ahead;
	c->skb = NULL;
	c->p = NULL;
	c->n = 0;
#ifdef CONFIG_NET_DEVMEM
	skb_queue_walk(&sk->sk_receive_queue, skb) {
		if (!skb_frags_readable(skb)) {
			c->source.end = before(seq, TCP_SKB_CB(skb)->seq) ?
					TCP_SKB_CB(skb)->seq : seq;
			return false;
		}
	}
#endif
	return true;
}

struct kiw_source *kiw_source_fork(struct kiw_source *src)
{
	struct kiw_cursor *from = to_kiw_cursor(src);
	struct kiw_cursor *c = from->ahead;

	*c = (struct kiw_cursor){
		.source = *src,
		.sk = from->sk,
		.skb = from->skb,
	};
	if (c->skb)
		skb_prepare_seq_read(c->skb, src->seq - TCP_SKB_CB(c->skb)->seq, c->skb->len,
				     &c->walk);
	return &c->source;
}

void kiw_source_close(struct kiw_source *src)
{
	struct kiw_cursor *c = to_kiw_cursor(src);

	if (c->skb)
		skb_abort_seq_read(&c->walk);
	c->skb = NULL;
	c->n = 0;
}

static struct sk_buff *cursor_next(struct sock *sk, struct sk_buff *skb)
{
	if (skb_queue_is_last(&sk->sk_receive_queue, skb))
		return NULL;
	return skb_queue_next(&sk->sk_receive_queue, skb);
}

/* Find the buffer with the next byte, from the current or first buffer on. */
static bool cursor_enter(struct kiw_cursor *c)
{
	struct sk_buff *skb;
	u32 off;

	skb = c->skb ? cursor_next(c->sk, c->skb) : skb_peek(&c->sk->sk_receive_queue);
	/* Buffers may overlap earlier ones, and a bare FIN is empty. */
	for (; skb; skb = cursor_next(c->sk, skb)) {
		off = c->source.seq - TCP_SKB_CB(skb)->seq;
		if (off < skb->len)
			break;
	}
	if (!skb)
		return false;
	c->skb = skb;
	skb_prepare_seq_read(skb, off, skb->len, &c->walk);
	return true;
}

bool kiw_cursor_fill(struct kiw_cursor *c)
{
	if (c->n)
		return true;
	for (;;) {
		if (c->skb) {
			u32 walked = c->source.seq - TCP_SKB_CB(c->skb)->seq - c->walk.lower_offset;

			c->n = skb_seq_read(walked, &c->p, &c->walk);
			if (c->n)
				return true;
		}
		if (!cursor_enter(c)) {
			/* The walk over the last buffer ended by itself. */
			c->skb = NULL;
			return false;
		}
	}
}

u32 kiw_source_copy(struct kiw_source *src, void *to, u32 n)
{
	struct kiw_cursor *c = to_kiw_cursor(src);
	u32 left = n;

	while (left && kiw_cursor_fill(c)) {
		u32 part = min(left, c->n);

		memcpy(to, c->p, part);
		kiw_cursor_skip(c, part);
		to += part;
		left -= part;
	}
	return n - left;
}

void kiw_source_drop(struct kiw_source *src, u32 n)
{
	struct kiw_cursor *c = to_kiw_cursor(src);

	while (n && kiw_cursor_fill(c)) {
		u32 part = min(n, c->n);

		kiw_cursor_skip(c, part);
		n -= part;
	}
}

u32 kiw_source_crc(struct kiw_source *src, u32 crc, u32 n)
{
	struct kiw_cursor *c = to_kiw_cursor(src);

	while (n && kiw_cursor_fill(c)) {
		u32 part = min(n, c->n);

		crc = kiw_crc_update(crc, c->p, part);
		kiw_cursor_skip(c, part);
		n -= part;
	}
	return crc;
}
