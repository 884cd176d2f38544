/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Transmit: which message is next, its FPDUs, and what TCP takes of them. */
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

/**
 * enum kiw_message - the message under way
 * @KIW_MESSAGE_NONE: the next one may be started
 * @KIW_MESSAGE_REQUEST: that of the request that was taken
 * @KIW_MESSAGE_RESPONSE: the response to the oldest inbound Read or atomic
 */
enum kiw_message {
	KIW_MESSAGE_NONE,
	KIW_MESSAGE_REQUEST,
	KIW_MESSAGE_RESPONSE,
};

/**
 * struct kiw_tx - where the transmit side stands
 * @gate: FPDUs may be sent; a responder waits for the first one of its peer
 * @stopped: no message but a Terminate may be started
 * @taken: @req has been taken out of the ring, but is held back
 * @response_turn: the next message is a Read Response, if there is one
 * @starved: the last run ended for want of memory
 * @stuck: the last run left something that the next acknowledgment lets go on
 * @lost: TCP says that the connection is gone
 * @written: the Write of the request under way is in FPDUs, its Immediate Data aren't
 * @acked: a request completes when the peer's TCP has acknowledged it; the peer's do, too
 * @message: under way
 * @rtr: KIW_RTR_* to be sent before anything else, or 0
 * @msn_send: next number on QN 0
 * @msn_read: next number on QN 1
 * @msn_atomic: next number on QN 3
 * @req: the request under way
 * @off: bytes of the message under way that are in FPDUs
 * @reads_out: Reads and atomics asked of the peer
 * @reads_in: Reads and atomics to be answered
 * @term: the Terminate to send
 * @term_len: bytes at @term; 0: there is none, or it was sent
 * @batch: FPDUs for TCP
 * @batch_index: send requests before this are wholly in the batch or earlier ones
 * @sent_index: send requests before this are wholly with TCP
 * @free_index: nobody needs the buffers of send requests before this any more
 * @acked_index: send requests before this need no acknowledgment any more
 * @done_index: send requests before this have been marked as done, but for Reads
 * @acks: the acknowledgments that are awaited, with @acked
 * @sent_bytes: all that TCP has taken, as &struct kiw_traffic counts it
 * @lent_bytes: likewise
 * @sent_fpdus: likewise
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
	u8			message;
	u8			rtr;
	u32			msn_send;
	u32			msn_read;
	u32			msn_atomic;

	struct kiw_send_req	req;
	u32			off;
	struct kiw_reads_out	reads_out;
	struct kiw_reads_in	reads_in;

	u8			term[KIW_TERM_MAX_LEN];
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
 * kiw_tx_run() - send what may be sent
 * @s: session with a queue pair; held
 * @budget: batches to hand to TCP at most; it limits the requests that are carried out, too
 *
 * Where TCP finds that the connection is gone, @s->tx.lost is set.
 *
 * Return: true when it stopped before it was through and wants to be called again: memory was
 * short, or it had its share. Where TCP had no room, @s->tx.stuck is set: room is a reason to call
 * again.
 */
bool kiw_tx_run(struct kiw_session *s, int budget);

/**
 * kiw_tx_awaits() - is there a request with TCP that isn't complete?
 * @s: session, held
 *
 * Its buffers are lent, or its acknowledgment is awaited.
 *
 * Return: whether there is.
 */
bool kiw_tx_awaits(const struct kiw_session *s);

/** kiw_tx_acked() - has the peer acknowledged requests that aren't complete; held */
bool kiw_tx_acked(const struct kiw_session *s);

/**
 * kiw_tx_take_back() - complete requests that have lost their loans, or are acknowledged
 * @s: session; held, any context
 */
void kiw_tx_take_back(struct kiw_session *s);

/** kiw_tx_count() - count what TCP has taken; held */
void kiw_tx_count(struct kiw_session *s, u32 bytes, u32 lent, u32 fpdus);

/** kiw_tx_drop() - what TCP has not taken will never be sent; held */
void kiw_tx_drop(struct kiw_session *s);

/** kiw_tx_pending() - is there anything that FIN would cut off; held */
bool kiw_tx_pending(const struct kiw_session *s);

/** kiw_tx_begun() - is anything that was begun yet to be given to TCP, or to be answered; locked */
bool kiw_tx_begun(const struct kiw_session *s);

/** kiw_tx_unfinished() - the same, or is a request posted; held */
bool kiw_tx_unfinished(const struct kiw_session *s);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_TX_H */
