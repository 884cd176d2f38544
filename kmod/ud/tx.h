/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: from the send ring to UDP. */
#ifndef KIWARP_UD_TX_H
#define KIWARP_UD_TX_H

struct kiw_ud;

/* Outcome of sending */
enum kiw_ud_sent {
	KIW_UD_SENT_ALL,	/* the ring is empty: the next request comes with a doorbell */
	KIW_UD_SENT_SOME,	/* the budget is used up, or there is room again already */
	KIW_UD_SENT_STARVED,	/* there is no memory; nobody tells when there is */
	KIW_UD_SENT_STALLED,	/* UDP has no room; kiw_ud.stalled is set */
	KIW_UD_SENT_BROKEN,	/* nonsense in the ring, or no room for completions */
};

/**
 * kiw_ud_send() - send what is posted
 * @ud: of a QP in state RTS; its mutex is held
 * @budget: so many datagrams, and at most a train more
 *
 * Return: see enum kiw_ud_sent.
 */
enum kiw_ud_sent kiw_ud_send(struct kiw_ud *ud, int budget);

/** kiw_ud_unsend() - drop the requests that UDP doesn't have yet; the mutex is held */
void kiw_ud_unsend(struct kiw_ud *ud);

#endif /* KIWARP_UD_TX_H */
