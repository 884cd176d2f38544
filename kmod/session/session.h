/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A session: one connection as the protocol sees it. It knows neither socket nor verbs object; what
 * it needs of either is in port.h.
 *
 * The program holds a lock of its own for each call, see kiw_carrier_assert_held(). Nothing here
 * sleeps.
 */
#ifndef KIW_SESSION_H
#define KIW_SESSION_H

#include "port.h"
#include "rq.h"
#include "sq.h"
#include "tx.h"
#include "../proto/mpa.h"
#include "../proto/qpstate.h"
#include "../proto/receive.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct kiw_manner - what the end of a connection means to the programs that use it
 * @grace: how long what is under way may still end well when the connection breaks, in seconds:
 *	InfiniBand's retries take their time, too, and most programs that have all they wanted of
 *	their peer end before that
 * @outlives: the queue pair stays when the peer closes, with what is posted and not begun: where
 *	the peer is named by number, no word of its end is expected
 * @acked: a request completes when the peer's TCP has acknowledged it
 * @lost: how the oldest request that is undone ends when the peer is lost
 */
struct kiw_manner {
	u8			grace;
	bool			outlives;
	bool			acked;
	enum ib_wc_status	lost;
};

/**
 * struct kiw_core - a queue pair as its sessions see it, and what stays of it between them
 * @own: what memory and completions know of it
 * @sq: send queue
 * @rq: receive queue
 * @manner: that of its connections; may change at any time
 * @state: enum kiw_qp_state, of RDMAC's verbs; shown to users at any time
 * @shown: IB_QPS_RESET to IB_QPS_RTS, what a QP is shown as before it is connected, and after that
 *	as long as it is RTR
 * @caps: KIW_CAP_* that the process's provider knows: no other message of a peer is taken
 * @flush: enum ib_wc_status, how the oldest request ends that is flushed; the others end with
 *	IB_WC_WR_FLUSH_ERR
 * @ird: Reads that the peer may have outstanding, as negotiated
 * @ord: Reads that we may have outstanding, as negotiated
 */
struct kiw_core {
	struct kiw_owner		own;
	struct kiw_sq			sq;
	struct kiw_rq			rq;
	const struct kiw_manner		*manner;
	u8				state;
	u8				shown;
	u8				caps;
	u8				flush;
	u16				ird;
	u16				ord;
};

/**
 * struct kiw_session - see above
 * @core: the queue pair, or NULL once the session was stopped
 * @neg: what the MPA start-up agreed on
 * @todo: KIW_ACT_* that are left to the program
 * @starving: a message has found no receive request, and waits for one
 * @gone: the connection is over, and what is under way fails at @gone_end
 * @gone_end: a time of kiw_carrier_now()
 * @terminated: a Terminate was sent or received: there is none to send any more
 * @async: asynchronous event to raise with KIW_ACT_ASYNC
 * @rx: receive machine
 * @rx_first: no FPDU has been delivered yet
 * @rx_ended: a Send or a Write has come to its end, and the program hasn't acknowledged it
 * @write_goes_on: the last segment of a Write wasn't the last of its message
 * @write_len: bytes of the last Write, of which the peer hasn't told the program yet
 * @tx: transmit side
 * @recv: the receive request of the Send under way
 *
 * Cache lines of their own have what the lock's holders write, and each direction: one CPU may send
 * while another one receives.
 */
struct kiw_session {
	struct kiw_core		*core;
	struct kiw_mpa_result	neg;

	u32			todo ____cacheline_aligned_in_smp;
	bool			starving;
	bool			gone;
	bool			terminated;
	enum ib_event_type	async;
	unsigned long		gone_end;

	struct kiw_receive	rx ____cacheline_aligned_in_smp;
	bool			rx_first;
	bool			rx_ended;
	bool			write_goes_on;
	u32			write_len;
	struct kiw_tx		tx ____cacheline_aligned_in_smp;
	struct kiw_recv_req	recv;
};

/**
 * kiw_session_start() - the queue pair begins to work on a session
 * @s: zeroed, but for @core, @neg and the memory of @tx and @recv; held
 * @seq: number of the first byte that the source will have
 * @first: this side may send first
 */
void kiw_session_start(struct kiw_session *s, u32 seq, bool first);

/**
 * kiw_session_event() - carry out a transition of the queue pair
 * @s: session with a queue pair; held
 * @event: what happened
 *
 * %KIW_ACT_LATER is left in @s->todo for the program.
 *
 * Return: whether the state allows for the event.
 */
bool kiw_session_event(struct kiw_session *s, enum kiw_qp_event event);

/**
 * kiw_session_broken_off() - the connection is over, and something is under way
 * @s: session with a queue pair; held
 * @event: KIW_EV_LLP_LOST or KIW_EV_PEER_FIN_BUSY
 *
 * What is under way fails at once, or when the grace of its manner is over. Until then @s->gone is
 * set, and nothing is sent or received.
 */
void kiw_session_broken_off(struct kiw_session *s, enum kiw_qp_event event);

/**
 * kiw_session_fail() - a protocol or protection error: the peer gets a Terminate
 * @s: session; held
 * @err: what to report; the first error stays
 * @ulpdu: start of the offending segment, or NULL
 * @have: bytes at @ulpdu
 * @ulpdu_len: its ULPDU_Length
 */
void kiw_session_fail(struct kiw_session *s, enum kiw_err err, const u8 *ulpdu, u32 have,
		      u32 ulpdu_len);

/**
 * kiw_session_feed() - take what came in
 * @s: session; held
 * @src: the bytes
 * @budget: bytes after which it stops, though there are more
 *
 * It also stops where the session does (@s->rx.stopped), where a message waits for its receive
 * request (@s->rx.held), and where a step needs more than there is (@s->rx.want).
 *
 * Return: FPDUs that were completed.
 */
u32 kiw_session_feed(struct kiw_session *s, struct kiw_source *src, u32 budget);

/** kiw_core_manner() - that of the queue pair at this moment */
static inline const struct kiw_manner *kiw_core_manner(const struct kiw_core *core)
{
	return READ_ONCE(core->manner);
}

/** kiw_core_flush_sq() - complete all that is posted with an error; held, in error */
static inline void kiw_core_flush_sq(struct kiw_core *core)
{
	if (kiw_sq_flush(&core->sq, (enum ib_wc_status)core->flush))
		core->flush = IB_WC_WR_FLUSH_ERR;
}

/** kiw_core_open_rings() - the process finds rings that are neither drained nor flushed; held */
static inline void kiw_core_open_rings(struct kiw_core *core)
{
	kiw_sq_flag(&core->sq, 0);
	kiw_rq_open(&core->rq);
}

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_H */
