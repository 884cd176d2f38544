// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "qpstate.h"

/* Actions of the error state */
#define FLUSH (KIW_ACT_FLUSH_SQ | KIW_ACT_FLUSH_RQ | KIW_ACT_LAST_WQE)
#define STOP (KIW_ACT_STOP_RX | KIW_ACT_STOP_TX)
/* The stream ends at once, by our decision or because it is gone. */
#define BREAK (STOP | KIW_ACT_ABORT | FLUSH | KIW_ACT_CLOSED)

#define TO(state, actions) { KIW_QP_##state, true, (actions) }

/* Events without an entry are not valid in that state. */
static const struct kiw_qp_step qp_steps[KIW_QP_STATES][KIW_EVENTS] = {
	[KIW_QP_IDLE] = {
		[KIW_EV_CONNECTED] = TO(RTS, KIW_ACT_START),
		[KIW_EV_MODIFY_ERR] = TO(ERROR, FLUSH),
		[KIW_EV_MODIFY_RESET] = TO(IDLE, 0),
	},
	[KIW_QP_RTS] = {
		[KIW_EV_CLOSE] = TO(CLOSING, KIW_ACT_STOP_TX | KIW_ACT_SEND_FIN |
				    KIW_ACT_FLUSH_RQ),
		[KIW_EV_CLOSE_BUSY] = TO(ERROR, BREAK),
		[KIW_EV_MODIFY_TERM] = TO(TERMINATE, STOP | KIW_ACT_SEND_TERM |
					  KIW_ACT_SEND_FIN | KIW_ACT_DISCONNECT |
					  KIW_ACT_ASYNC),
		[KIW_EV_MODIFY_ERR] = TO(ERROR, BREAK),
		[KIW_EV_PEER_FIN] = TO(CLOSING, KIW_ACT_STOP_TX | KIW_ACT_SEND_FIN |
				       KIW_ACT_FLUSH_RQ | KIW_ACT_DISCONNECT),
		[KIW_EV_PEER_FIN_BUSY] = TO(ERROR, BREAK),
		[KIW_EV_LLP_LOST] = TO(ERROR, BREAK),
		[KIW_EV_LOCAL_ERROR] = TO(TERMINATE, STOP | KIW_ACT_SEND_TERM |
					  KIW_ACT_SEND_FIN | KIW_ACT_DISCONNECT |
					  KIW_ACT_ASYNC),
		[KIW_EV_TERM_RECEIVED] = TO(TERMINATE, STOP | KIW_ACT_SEND_FIN |
					    KIW_ACT_DISCONNECT | KIW_ACT_ASYNC),
		[KIW_EV_ACTIVITY] = TO(RTS, 0),
	},
	[KIW_QP_CLOSING] = {
		[KIW_EV_CLOSE] = TO(CLOSING, 0),
		[KIW_EV_CLOSE_BUSY] = TO(ERROR, BREAK),
		[KIW_EV_MODIFY_ERR] = TO(ERROR, BREAK),
		[KIW_EV_PEER_FIN] = TO(CLOSING, 0),
		[KIW_EV_PEER_FIN_BUSY] = TO(ERROR, BREAK),
		[KIW_EV_LLP_LOST] = TO(ERROR, BREAK),
		[KIW_EV_LOCAL_ERROR] = TO(ERROR, BREAK),
		[KIW_EV_TERM_RECEIVED] = TO(ERROR, BREAK),
		[KIW_EV_ACTIVITY] = TO(ERROR, BREAK),
		[KIW_EV_CLOSE_DONE] = TO(IDLE, STOP | KIW_ACT_CLOSED),
	},
	/* The first error counts. */
	[KIW_QP_TERMINATE] = {
		[KIW_EV_CLOSE] = TO(TERMINATE, 0),
		[KIW_EV_CLOSE_BUSY] = TO(TERMINATE, 0),
		[KIW_EV_MODIFY_TERM] = TO(TERMINATE, 0),
		[KIW_EV_MODIFY_ERR] = TO(ERROR, BREAK),
		[KIW_EV_PEER_FIN] = TO(TERMINATE, 0),
		[KIW_EV_PEER_FIN_BUSY] = TO(TERMINATE, 0),
		[KIW_EV_LLP_LOST] = TO(ERROR, BREAK),
		[KIW_EV_LOCAL_ERROR] = TO(TERMINATE, 0),
		[KIW_EV_TERM_RECEIVED] = TO(TERMINATE, 0),
		[KIW_EV_ACTIVITY] = TO(TERMINATE, 0),
		[KIW_EV_CLOSE_DONE] = TO(ERROR, FLUSH | KIW_ACT_CLOSED),
	},
	/* Posted work is flushed as it comes; other events are late. */
	[KIW_QP_ERROR] = {
		[KIW_EV_CLOSE] = TO(ERROR, 0),
		[KIW_EV_CLOSE_BUSY] = TO(ERROR, 0),
		[KIW_EV_MODIFY_ERR] = TO(ERROR, 0),
		[KIW_EV_MODIFY_RESET] = TO(IDLE, 0),
		[KIW_EV_PEER_FIN] = TO(ERROR, 0),
		[KIW_EV_PEER_FIN_BUSY] = TO(ERROR, 0),
		[KIW_EV_LLP_LOST] = TO(ERROR, 0),
		[KIW_EV_LOCAL_ERROR] = TO(ERROR, 0),
		[KIW_EV_TERM_RECEIVED] = TO(ERROR, 0),
		[KIW_EV_ACTIVITY] = TO(ERROR, 0),
		[KIW_EV_CLOSE_DONE] = TO(ERROR, 0),
	},
};

struct kiw_qp_step kiw_qp_next(enum kiw_qp_state state, enum kiw_qp_event event)
{
	struct kiw_qp_step step = { .next = state };

	if ((u32)state < KIW_QP_STATES && (u32)event < KIW_EVENTS && qp_steps[state][event].valid)
		return qp_steps[state][event];
	return step;
}
