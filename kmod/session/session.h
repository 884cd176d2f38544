/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A session: one connection as the protocol sees it, without socket or verbs object (port.h).
 *
 * The caller of each function holds the program's lock, see kiw_carrier_assert_held(). Nothing here
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
 * struct kiw_manner - meaning of a connection's end for its programs
 * @grace: seconds that pending work may still end well after the connection broke, like
 *	InfiniBand's retries: most programs end first
 * @outlives: the queue pair survives a close of the peer, with its posted requests that have not
 *	begun
 * @acked: a request completes on acknowledgment by the peer's TCP
 * @lost: status of the oldest unfinished request if the peer is lost
 */
struct kiw_manner {
	u8			grace;
	bool			outlives;
	bool			acked;
	enum ib_wc_status	lost;
};

/**
 * struct kiw_core - the part of a queue pair that outlives its sessions
 * @own: identity for memory and completions
 * @sq: send queue
 * @rq: receive queue
 * @manner: of its connections; may change at any time
 * @state: enum kiw_qp_state, of RDMAC's verbs; users read it at any time
 * @shown: IB_QPS_RESET to IB_QPS_RTS, shown state before a connection, and later while it is RTR
 * @caps: KIW_CAP_* of the process's provider; peers' other messages are refused
 * @flush: enum ib_wc_status of the oldest flushed request; the others end with IB_WC_WR_FLUSH_ERR
 * @ird: negotiated inbound depth
 * @ord: negotiated outbound depth
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

/*
 * One connection.
 * @core: queue pair; NULL after the session was stopped
 * @neg: terms of the MPA start-up
 * @todo: KIW_ACT_* left to the program
 * @starving: a message waits for a receive request
 * @gone: the connection is over; pending work fails at @gone_end, a time of kiw_carrier_now()
 * @terminated: a Terminate was sent or received; none is sent any more
 * @async: event for KIW_ACT_ASYNC
 * @rx_first: no FPDU was delivered yet
 * @rx_ended: a Send or a Write ended, and the program has not acknowledged that
 * @write_goes_on: the last Write segment was not the last of its message
 * @write_len: bytes of the last Write, for Immediate Data
 * @recv: receive request of the current Send
 *
 * Separate cache lines: receive, transmit. One CPU may send while another receives.
 */
struct kiw_session {
	struct kiw_core		*core;
	struct kiw_mpa_result	neg;
	bool			starving;
	bool			gone;
	bool			terminated;
	u32			todo;
	enum ib_event_type	async;
	unsigned long		gone_end;

	struct kiw_receive	rx ____cacheline_aligned_in_smp;
	bool			rx_first;
	bool			rx_ended;
	bool			write_goes_on;
	u32			write_len;
	struct kiw_recv_req	recv;

	struct kiw_tx		tx ____cacheline_aligned_in_smp;
};

/**
 * kiw_session_start() - a queue pair starts a session
 * @s: zeroed except @core, @neg, and memory of @tx and @recv; held
 * @seq: number of the source's first byte
 * @first: this side may send first
 */
void kiw_session_start(struct kiw_session *s, u32 seq, bool first);

/**
 * kiw_session_event() - carry out a transition; leaves %KIW_ACT_LATER in @s->todo
 * @s: session with a queue pair; held
 * @event: event
 *
 * Return: whether the event is valid in the state.
 */
bool kiw_session_event(struct kiw_session *s, enum kiw_qp_event event);

/**
 * kiw_session_broken_off() - the connection ended with work pending
 * @s: session with a queue pair; held
 * @event: KIW_EV_LLP_LOST or KIW_EV_PEER_FIN_BUSY
 *
 * Pending work fails at once or after the manner's grace. Until then @s->gone is set, and nothing
 * is sent or received.
 */
void kiw_session_broken_off(struct kiw_session *s, enum kiw_qp_event event);

/**
 * kiw_session_fail() - send a Terminate for a protocol or protection error
 * @s: session; held
 * @err: error; the first one counts
 * @ulpdu: start of the offending segment, or NULL
 * @have: bytes at @ulpdu
 * @ulpdu_len: its ULPDU_Length
 */
void kiw_session_fail(struct kiw_session *s, enum kiw_err err, const u8 *ulpdu, u32 have,
		      u32 ulpdu_len);

/**
 * kiw_session_terminate() - have a Terminate sent
 * @s: session that receives nothing more; held
 * @err: error
 * @ulpdu: start of the offending segment, or NULL
 * @have: bytes at @ulpdu
 * @ulpdu_len: its ULPDU_Length
 */
void kiw_session_terminate(struct kiw_session *s, enum kiw_err err, const u8 *ulpdu, u32 have,
			   u32 ulpdu_len);

/**
 * kiw_session_feed() - process received bytes
 * @s: session; held
 * @src: source
 * @budget: bytes to stop after
 *
 * Stops early if the session stops (@s->rx.stopped), a message waits for a receive request
 * (@s->rx.held), or a step needs more bytes (@s->rx.want).
 *
 * Return: completed FPDUs.
 */
u32 kiw_session_feed(struct kiw_session *s, struct kiw_source *src, u32 budget);

static inline const struct kiw_manner *kiw_core_manner(const struct kiw_core *core)
{
	return READ_ONCE(core->manner);
}

/** kiw_core_flush_sq() - fail all send requests; held, in error */
static inline void kiw_core_flush_sq(struct kiw_core *core)
{
	if (kiw_sq_flush(&core->sq, (enum ib_wc_status)core->flush))
		core->flush = IB_WC_WR_FLUSH_ERR;
}

/** kiw_core_open_rings() - clear the flags of both rings; held */
static inline void kiw_core_open_rings(struct kiw_core *core)
{
	kiw_sq_flag(&core->sq, 0);
	kiw_rq_open(&core->rq);
}

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_H */
