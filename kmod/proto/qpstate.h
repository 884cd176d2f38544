/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * States of a queue pair and their transitions, in one table (RDMA Consortium verbs, RFC 5040
 * section 6). A look-up does not change anything; the caller carries out the actions.
 */
#ifndef KIW_PROTO_QPSTATE_H
#define KIW_PROTO_QPSTATE_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum kiw_qp_state - states, and the verbs state of each
 * @KIW_QP_IDLE: no stream (RESET, INIT)
 * @KIW_QP_RTS: full operation (RTS)
 * @KIW_QP_CLOSING: orderly close under way (SQD)
 * @KIW_QP_TERMINATE: Terminate sent or received, stream being closed (SQE)
 * @KIW_QP_ERROR: stream gone, all work is flushed (ERR)
 * @KIW_QP_STATES: number of states
 */
enum kiw_qp_state {
	KIW_QP_IDLE,
	KIW_QP_RTS,
	KIW_QP_CLOSING,
	KIW_QP_TERMINATE,
	KIW_QP_ERROR,
	KIW_QP_STATES,
};

/**
 * enum kiw_qp_event - events of a queue pair
 * @KIW_EV_CONNECTED: start-up succeeded, the stream is ready
 * @KIW_EV_CLOSE: orderly close by the owner, no work pending
 * @KIW_EV_CLOSE_BUSY: with sends, Reads or inbound Reads pending
 * @KIW_EV_MODIFY_TERM: the owner wants the Terminate state
 * @KIW_EV_MODIFY_ERR: the owner wants the error state, or an abrupt disconnect
 * @KIW_EV_MODIFY_RESET: the owner wants it idle; in the error state, both queues are empty
 * @KIW_EV_PEER_FIN: the peer closed its direction between messages, no work pending
 * @KIW_EV_PEER_FIN_BUSY: with work pending, or inside an FPDU
 * @KIW_EV_LLP_LOST: the stream was reset or timed out, also while being closed
 * @KIW_EV_LOCAL_ERROR: this side found an error to report
 * @KIW_EV_TERM_RECEIVED: Terminate of the peer
 * @KIW_EV_ACTIVITY: an FPDU arrived or a send was posted
 * @KIW_EV_CLOSE_DONE: both directions are closed and nothing is left to send
 * @KIW_EVENTS: number of events
 */
enum kiw_qp_event {
	KIW_EV_CONNECTED,
	KIW_EV_CLOSE,
	KIW_EV_CLOSE_BUSY,
	KIW_EV_MODIFY_TERM,
	KIW_EV_MODIFY_ERR,
	KIW_EV_MODIFY_RESET,
	KIW_EV_PEER_FIN,
	KIW_EV_PEER_FIN_BUSY,
	KIW_EV_LLP_LOST,
	KIW_EV_LOCAL_ERROR,
	KIW_EV_TERM_RECEIVED,
	KIW_EV_ACTIVITY,
	KIW_EV_CLOSE_DONE,
	KIW_EVENTS,
};

/* Actions, carried out in rising bit order */
#define KIW_ACT_START 0x0001 /* reset all sequence numbers, begin to work */
#define KIW_ACT_STOP_RX 0x0002 /* drop arriving bytes */
#define KIW_ACT_STOP_TX 0x0004 /* start no message but a Terminate */
#define KIW_ACT_SEND_TERM 0x0008 /* send a Terminate at the next message boundary */
#define KIW_ACT_SEND_FIN 0x0010 /* close the sending direction behind all data */
#define KIW_ACT_ABORT 0x0020 /* end the stream at once; the peer learns what is undone */
#define KIW_ACT_FLUSH_SQ 0x0040 /* complete pending sends and Reads as flushed */
#define KIW_ACT_FLUSH_RQ 0x0080 /* complete posted receives as flushed */
#define KIW_ACT_DISCONNECT 0x0100 /* tell the CM that the peer or an error ends it */
#define KIW_ACT_CLOSED 0x0200 /* tell the CM that the stream is gone */
#define KIW_ACT_ASYNC 0x0400 /* raise the cause's asynchronous event */
#define KIW_ACT_LAST_WQE 0x0800 /* report that no request of an SRQ is taken any more */

/* Carried out at the event; in process context */
#define KIW_ACT_NOW (KIW_ACT_START | KIW_ACT_STOP_RX | KIW_ACT_STOP_TX | KIW_ACT_SEND_TERM | \
		     KIW_ACT_DISCONNECT)
#define KIW_ACT_LATER (KIW_ACT_SEND_FIN | KIW_ACT_ABORT | KIW_ACT_FLUSH_SQ | KIW_ACT_FLUSH_RQ | \
		       KIW_ACT_CLOSED | KIW_ACT_ASYNC | KIW_ACT_LAST_WQE)

/**
 * struct kiw_qp_step - result of an event in a state
 * @next: next state
 * @valid: false: impossible or to be refused; the state stays
 * @actions: KIW_ACT_*
 */
struct kiw_qp_step {
	u8 next;
	bool valid;
	u16 actions;
};

/** kiw_qp_next() - look up a transition; invalid for arguments out of range */
struct kiw_qp_step kiw_qp_next(enum kiw_qp_state state, enum kiw_qp_event event);

#ifdef __cplusplus
}
#endif

#endif
