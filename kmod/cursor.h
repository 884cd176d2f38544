/* SPDX-License-Identifier: GPL-2.0 */
/* A walk over a TCP socket's receive queue: the source of the receive machine (proto/receive.h). */
#ifndef KIWARP_CURSOR_H
#define KIWARP_CURSOR_H

#include <linux/skbuff.h>
#include <net/tcp.h>

#include "proto/receive.h"

/*
 * Valid while the socket lock is held and nothing is consumed.
 * @source: position and end, as TCP sequence numbers
 * @ahead: for kiw_source_fork(), or NULL
 * @skb: buffer with the next byte, or NULL before the first look
 * @walk: linear walk over @skb
 * @n: bytes at @p
 */
struct kiw_cursor {
	struct kiw_source	source;
	struct sock		*sk;
	struct kiw_cursor	*ahead;
	struct sk_buff		*skb;
	struct skb_seq_state	walk;
	const u8		*p;
	u32			n;
};

static inline struct kiw_cursor *to_kiw_cursor(struct kiw_source *src)
{
	return container_of(src, struct kiw_cursor, source);
}

/**
 * kiw_cursor_open() - read sequence numbers @seq to @end of a socket's queue
 * @c: cursor; end the walk by kiw_source_close()
 * @ahead: another one, for kiw_source_fork()
 * @sk: socket
 * @seq: first byte
 * @end: behind the last byte
 *
 * Ends early at bytes in device memory, which the CPU cannot read (devmem).
 *
 * Return: whether all up to @end can be read.
 */
bool kiw_cursor_open(struct kiw_cursor *c, struct kiw_cursor *ahead, struct sock *sk, u32 seq,
		     u32 end);

/** kiw_cursor_fill() - find bytes for @c->p. Return: false at the end of the queue */
bool kiw_cursor_fill(struct kiw_cursor *c);

/** kiw_cursor_skip() - step over @n bytes at @c->p */
static inline void kiw_cursor_skip(struct kiw_cursor *c, u32 n)
{
	c->p += n;
	c->n -= n;
	c->source.seq += n;
}

#endif /* KIWARP_CURSOR_H */
