/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: from UDP's callback to memory. */
#ifndef KIWARP_UD_RX_H
#define KIWARP_UD_RX_H

#include <linux/types.h>

struct kiw_ud;
struct sk_buff;

/**
 * kiw_ud_receive() - judge a datagram, place it and complete a receive request
 * @ud: QP's part, under RCU; BH off
 * @skb: datagram, from its UDP header on; the caller keeps it
 *
 * Return: false if the QP is broken: nonsense in its ring, or no room for completions.
 */
bool kiw_ud_receive(struct kiw_ud *ud, struct sk_buff *skb);

#endif /* KIWARP_UD_RX_H */
