/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: from UDP's queue to memory. */
#ifndef KIWARP_UD_RX_H
#define KIWARP_UD_RX_H

#include <linux/types.h>

struct kiw_ud;
struct sk_buff;

/**
 * kiw_ud_receive() - check and place datagrams, complete receive requests
 * @ud: QP's part, under RCU; BH off
 * @skb: a datagram, or a train of them, from UDP's queue; the caller keeps it
 * @own: from the QP's own socket, which is a member of no group
 *
 * Return: false: the QP is broken, by invalid ring contents or no room for completions.
 */
bool kiw_ud_receive(struct kiw_ud *ud, struct sk_buff *skb, bool own);

#endif /* KIWARP_UD_RX_H */
