/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: from UDP's queue to memory. */
#ifndef KIWARP_UD_RX_H
#define KIWARP_UD_RX_H

#include <linux/types.h>

struct kiw_region_use;
struct kiw_ud;
struct sk_buff;

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
 * kiw_ud_receive() - judge datagrams, place them and complete receive requests
 * @ud: QP's part, under RCU; BH off
 * @skb: a datagram, or a train of them, from UDP's queue; the caller keeps it
 * @own: it came to the QP's own socket, which is a member of no group
 *
 * Return: false if the QP is broken: nonsense in its ring, or no room for completions.
 */
bool kiw_ud_receive(struct kiw_ud *ud, struct sk_buff *skb, bool own);

#endif /* KIWARP_UD_RX_H */
