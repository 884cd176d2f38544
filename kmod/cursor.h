/* SPDX-License-Identifier: GPL-2.0 */
/* A place in a TCP socket's receive queue, and a linear walk from it. */
#ifndef KIWARP_CURSOR_H
#define KIWARP_CURSOR_H

#include <linux/skbuff.h>
#include <net/tcp.h>

/**
 * struct kiw_cursor - see above; valid while the socket lock is held and nothing is consumed
 * @sk: socket
 * @seq: TCP sequence number of the next octet
 * @end: that of the first octet behind those to be read
 * @skb: buffer that holds it, or NULL before the first look
 * @walk: linear walk over @skb
 * @p: next octets
 * @n: how many of them lie at @p
 */
struct kiw_cursor {
	struct sock		*sk;
	u32			seq;
	u32			end;
	struct sk_buff		*skb;
	struct skb_seq_state	walk;
	const u8		*p;
	u32			n;
};

/**
 * kiw_cursor_open() - read from @seq up to @end, sequence numbers of @sk's queue
 *
 * It ends earlier where octets lie in memory of a device, which nobody can read here: an interface
 * may have queues for TCP of processes that do so (devmem).
 *
 * Return: whether all up to @end can be read.
 */
bool kiw_cursor_open(struct kiw_cursor *c, struct sock *sk, u32 seq, u32 end);

/** kiw_cursor_fork() - open @c where @from stands */
void kiw_cursor_fork(struct kiw_cursor *c, const struct kiw_cursor *from);

/** kiw_cursor_close() - end the walk; to be called for every cursor that was opened */
void kiw_cursor_close(struct kiw_cursor *c);

/**
 * kiw_cursor_fill() - see to it that there are octets at @c->p
 * @c: cursor
 *
 * Return: false when the queue ends here.
 */
bool kiw_cursor_fill(struct kiw_cursor *c);

/** kiw_cursor_left() - octets between here and the end */
static inline u32 kiw_cursor_left(const struct kiw_cursor *c)
{
	return c->end - c->seq;
}

/** kiw_cursor_skip() - step over @n octets of those at @c->p */
static inline void kiw_cursor_skip(struct kiw_cursor *c, u32 n)
{
	c->p += n;
	c->n -= n;
	c->seq += n;
}

/**
 * kiw_cursor_copy() - copy octets and step over them
 * @c: cursor
 * @to: target
 * @n: octets, all of them in the queue
 *
 * Return: octets copied; less than @n only if the queue holds less.
 */
u32 kiw_cursor_copy(struct kiw_cursor *c, void *to, u32 n);

/** kiw_cursor_drop() - step over @n octets, all of them in the queue */
void kiw_cursor_drop(struct kiw_cursor *c, u32 n);

/** kiw_cursor_crc() - add the next @n octets to a running CRC and step over them */
u32 kiw_cursor_crc(struct kiw_cursor *c, u32 crc, u32 n);

#endif /* KIWARP_CURSOR_H */
