/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Transmit: choice of the next message, its FPDUs, and their way into TCP. */
#ifndef KIW_SESSION_TX_H
#define KIW_SESSION_TX_H

#include "port.h"
#include "reads.h"
#include "sq.h"
#include "../proto/acks.h"
#include "../proto/term.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_session;

enum kiw_message {
	KIW_MESSAGE_NONE,
	KIW_MESSAGE_REQUEST,
	KIW_MESSAGE_RESPONSE,
};

/*
 * Transmit side of a session.
 * @gate: FPDUs may be sent; a responder waits for its peer's first
 * @stopped: start no message but a Terminate
 * @taken: @req left the ring and did not start
 * @response_turn: a Read Response goes next, if there is one
 * @starved: the last run ended for lack of memory
 * @stuck: the last run left work for an acknowledgment or room
 * @lost: TCP reported the end of the connection
 * @written: FPDUs hold the current Write, but not its Immediate Data
 * @acked: requests wait for acknowledgment by the peer's TCP, here and at the peer
 * @gathers: KIW_RING_DRAINING or KIW_RING_SMALL while the carrier gathers, or 0
 * @message: enum kiw_message
 * @rtr: KIW_RTR_* to send first, or 0
 * @off: bytes of the current message that are in FPDUs
 * @reads_out: Reads and atomics asked of the peer
 * @reads_in: Reads and atomics to answer
 * @term_len: bytes of a Terminate, see kiw_session_terminate(); 0: none, or sent
 * @batch_index: requests before it are wholly in batches
 * @sent_index: ... with TCP
 * @free_index: ... have free buffers
 * @acked_index: ... need no acknowledgment
 * @done_index: ... are marked done, except Reads
 * @acks: pending acknowledgments; its marks only with @acked
 * @sent_bytes, @lent_bytes, @sent_fpdus: taken by TCP, as in &struct kiw_traffic
 */
struct kiw_tx {
	bool			gate;
	bool			stopped;
	bool			taken;
	bool			response_turn;
	bool			starved;
	bool			stuck;
	bool			lost;
	bool			written;
	bool			acked;
	u8			gathers;
	u8			message;
	u8			rtr;
	u32			msn_send;
	u32			msn_read;
	u32			msn_atomic;

	struct kiw_send_req	req;
	u32			off;
	struct kiw_reads_out	reads_out;
	struct kiw_reads_in	reads_in;

	u32			term_len;

	struct kiw_batch	batch;
	u32			batch_index;
	u32			sent_index;
	u32			free_index;
	u32			acked_index;
	u32			done_index;
	struct kiw_acks		acks;
	u64			sent_bytes;
	u64			lent_bytes;
	u64			sent_fpdus;
};

/**
 * kiw_tx_run() - send
 * @s: session with a queue pair; held
 * @budget: most batches; also limits local requests
 *
 * Sets @s->tx.lost if TCP reports the end of the connection, @s->tx.stuck if TCP has no room: call
 * again when it has.
 *
 * Return: true to be called again: memory was short, or the budget is used up.
 */
bool kiw_tx_run(struct kiw_session *s, int budget);

/** kiw_tx_awaits() - do requests with TCP wait for loans or acknowledgments; held */
bool kiw_tx_awaits(const struct kiw_session *s);

/** kiw_tx_acked() - has the peer acknowledged incomplete requests; held */
bool kiw_tx_acked(const struct kiw_session *s);

/** kiw_tx_take_back() - complete requests without loans or pending ACK; held, any context */
void kiw_tx_take_back(struct kiw_session *s);

/** kiw_tx_count() - count bytes, lent bytes and FPDUs that TCP took; held */
void kiw_tx_count(struct kiw_session *s, u32 bytes, u32 lent, u32 fpdus);

/** kiw_tx_drop() - drop the bytes that TCP has not taken; held */
void kiw_tx_drop(struct kiw_session *s);

/** kiw_tx_pending() - would a FIN cut anything off; held */
bool kiw_tx_pending(const struct kiw_session *s);

/** kiw_tx_begun() - is begun work not yet with TCP, or not answered; held */
bool kiw_tx_begun(const struct kiw_session *s);

/** kiw_tx_unfinished() - kiw_tx_begun(), or is a request posted; held */
bool kiw_tx_unfinished(const struct kiw_session *s);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_TX_H */
