/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: the payload of a datagram, and regions that it goes to. */
#ifndef KIWARP_UD_PLACE_H
#define KIWARP_UD_PLACE_H

#include <linux/skbuff.h>

#include "region.h"

struct kiw_dgram;
struct kiw_owner;

/**
 * struct kiw_ud_packet - a datagram that has arrived
 * @skb: what it came in, from behind its UDP header on
 * @from: where it begins there: UDP gives the datagrams of a train in one
 * @len: its bytes, with the CRC at their end
 * @own: it came to the QP by its own number, not by a group
 * @use: of the region that the one before it was placed in
 */
struct kiw_ud_packet {
	struct sk_buff		*skb;
	u32			from;
	u32			len;
	bool			own;
	struct kiw_region_use	*use;
};

/**
 * struct kiw_ud_source - the bytes to place; on the stack
 * @walk: over the payload
 * @use: of the region that is placed in
 * @p: next bytes
 * @n: how many of them lie at @p, the last time perhaps more than the payload has
 * @done: bytes of the payload that were walked over
 */
struct kiw_ud_source {
	struct skb_seq_state	walk;
	struct kiw_region_use	*use;
	const u8		*p;
	u32			n;
	u32			done;
};

/**
 * kiw_ud_source_open() - begin with the payload of a datagram; kiw_ud_source_close() has to follow
 * @src: source
 * @packet: datagram
 * @d: its header
 */
void kiw_ud_source_open(struct kiw_ud_source *src, const struct kiw_ud_packet *packet,
			const struct kiw_dgram *d);

static inline void kiw_ud_source_close(struct kiw_ud_source *src)
{
	skb_abort_seq_read(&src->walk);
}

/**
 * kiw_ud_place() - copy the next bytes into a region
 * @owner: the QP's, which is held
 * @src: source with @n bytes at least
 * @stag: region
 * @access: IB_ACCESS_* that is needed
 * @addr: first byte
 * @n: bytes, not 0
 *
 * Return: %KIW_REGION_OK, or why nothing was copied.
 */
enum kiw_region_fault kiw_ud_place(const struct kiw_owner *owner, struct kiw_ud_source *src,
				   u32 stag, int access, u64 addr, u32 n);

#endif /* KIWARP_UD_PLACE_H */
