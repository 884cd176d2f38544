/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A place in a TCP socket's receive queue, and a linear walk from it: the source of the receive
 * machine, see proto/receive.h.
 */
#ifndef KIWARP_CURSOR_H
#define KIWARP_CURSOR_H

#include <linux/skbuff.h>
#include <net/tcp.h>

#include "proto/receive.h"

/**
 * struct kiw_cursor - see above; valid while the socket lock is held and nothing is consumed
 * @source: where it stands and where it ends, as TCP sequence numbers
 * @sk: socket
 * @ahead: what kiw_source_fork() may use, or NULL
 * @skb: buffer that holds the next byte, or NULL before the first look
 * @walk: linear walk over @skb
 * @p: next bytes
 * @n: how many of them lie at @p
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
 * kiw_cursor_open() - read from @seq up to @end, sequence numbers of @sk's queue
 * @c: cursor; kiw_source_close() ends the walk
 * @ahead: another one, for kiw_source_fork()
 * @sk: socket
 * @seq: where to begin
 * @end: behind the last byte
 *
 * It ends earlier where bytes lie in memory of a device, which nobody can read here: an interface
 * may have queues for TCP of processes that do so (devmem).
 *
 * Return: whether all up to @end can be read.
 */
bool kiw_cursor_open(struct kiw_cursor *c, struct kiw_cursor *ahead, struct sock *sk, u32 seq,
		     u32 end);

/**
 * kiw_cursor_fill() - see to it that there are bytes at @c->p
 * @c: cursor
 *
 * Return: false when the queue ends here.
 */
bool kiw_cursor_fill(struct kiw_cursor *c);

/** kiw_cursor_skip() - step over @n bytes of those at @c->p */
static inline void kiw_cursor_skip(struct kiw_cursor *c, u32 n)
{
	c->p += n;
	c->n -= n;
	c->source.seq += n;
}

#endif /* KIWARP_CURSOR_H */
