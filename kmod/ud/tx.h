/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: from the send ring to UDP. */
#ifndef KIWARP_UD_TX_H
#define KIWARP_UD_TX_H

struct kiw_ud;

/* Outcome of sending */
enum kiw_ud_sent {
	KIW_UD_SENT_ALL,	/* ring empty: a doorbell announces the next request */
	KIW_UD_SENT_SOME,	/* budget used up, or there is room again already */
	KIW_UD_SENT_STARVED,	/* no memory; nobody reports when there is */
	KIW_UD_SENT_STALLED,	/* no room in UDP; kiw_ud.stalled is set */
	KIW_UD_SENT_BROKEN,	/* invalid ring contents, or no room for completions */
};

/**
 * kiw_ud_send() - send posted requests
 * @ud: of a QP in state RTS; its mutex is held
 * @budget: datagrams; sends at most a train more
 *
 * Return: see enum kiw_ud_sent.
 */
enum kiw_ud_sent kiw_ud_send(struct kiw_ud *ud, int budget);

/** kiw_ud_unsend() - drop requests that UDP did not get yet; mutex held */
void kiw_ud_unsend(struct kiw_ud *ud);

#endif /* KIWARP_UD_TX_H */
