/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: copy the payload of a datagram into regions. */
#ifndef KIWARP_UD_PLACE_H
#define KIWARP_UD_PLACE_H

#include <linux/skbuff.h>

#include "region.h"

struct kiw_dgram;
struct kiw_owner;

/**
 * struct kiw_ud_packet - a received datagram
 * @skb: buffer, from behind its UDP header on
 * @from: offset in @skb: UDP puts the datagrams of a train into one buffer
 * @len: bytes, including the CRC at the end
 * @own: addressed to the QP's own number, not to a group
 * @use: of the region that holds the previous datagram
 */
struct kiw_ud_packet {
	struct sk_buff		*skb;
	u32			from;
	u32			len;
	bool			own;
	struct kiw_region_use	*use;
};

/**
 * struct kiw_ud_source - bytes to place; on the stack
 * @walk: over the payload
 * @use: of the target region
 * @p: next bytes
 * @n: bytes at @p, finally perhaps more than the payload
 * @done: bytes of the payload that @walk returned
 */
struct kiw_ud_source {
	struct skb_seq_state	walk;
	struct kiw_region_use	*use;
	const u8		*p;
	u32			n;
	u32			done;
};

/**
 * kiw_ud_source_open() - begin with a payload; kiw_ud_source_close() must follow
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
 * @owner: of the QP, which is held
 * @src: source with at least @n bytes
 * @stag: region
 * @access: needed IB_ACCESS_*
 * @addr: first byte
 * @n: bytes, not 0
 *
 * Return: %KIW_REGION_OK, or why nothing was copied.
 */
enum kiw_region_fault kiw_ud_place(const struct kiw_owner *owner, struct kiw_ud_source *src,
				   u32 stag, int access, u64 addr, u32 n);

#endif /* KIWARP_UD_PLACE_H */
