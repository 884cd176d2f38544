/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints; Documentation/debugging.md shows how to read them. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kiwarp

#if !defined(KIWARP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KIWARP_TRACE_H

#include <linux/tracepoint.h>

#include "cm/cm.h"
#include "proto/qpstate.h"
#include "proto/verdict.h"
#include "proto/wire.h"

#define KIW_SHOWN_QP_STATES \
	EM(KIW_QP_IDLE, "IDLE") \
	EM(KIW_QP_RTS, "RTS") \
	EM(KIW_QP_CLOSING, "CLOSING") \
	EM(KIW_QP_TERMINATE, "TERMINATE") \
	EL(KIW_QP_ERROR, "ERROR")

#define KIW_SHOWN_QP_EVENTS \
	EM(KIW_EV_CONNECTED, "CONNECTED") \
	EM(KIW_EV_CLOSE, "CLOSE") \
	EM(KIW_EV_CLOSE_BUSY, "CLOSE_BUSY") \
	EM(KIW_EV_MODIFY_TERM, "MODIFY_TERM") \
	EM(KIW_EV_MODIFY_ERR, "MODIFY_ERR") \
	EM(KIW_EV_MODIFY_RESET, "MODIFY_RESET") \
	EM(KIW_EV_PEER_FIN, "PEER_FIN") \
	EM(KIW_EV_PEER_FIN_BUSY, "PEER_FIN_BUSY") \
	EM(KIW_EV_LLP_LOST, "LLP_LOST") \
	EM(KIW_EV_LOCAL_ERROR, "LOCAL_ERROR") \
	EM(KIW_EV_TERM_RECEIVED, "TERM_RECEIVED") \
	EM(KIW_EV_ACTIVITY, "ACTIVITY") \
	EL(KIW_EV_CLOSE_DONE, "CLOSE_DONE")

#define KIW_SHOWN_EP_STATES \
	EM(KIW_ST_NEW, "NEW") \
	EM(KIW_ST_LISTEN, "LISTEN") \
	EM(KIW_ST_DIAL_WAIT, "DIAL_WAIT") \
	EM(KIW_ST_CONNECTING, "CONNECTING") \
	EM(KIW_ST_REPLY_WAIT, "REPLY_WAIT") \
	EM(KIW_ST_REQUEST_WAIT, "REQUEST_WAIT") \
	EM(KIW_ST_REQUEST_READY, "REQUEST_READY") \
	EM(KIW_ST_REQUESTED, "REQUESTED") \
	EM(KIW_ST_REPLY_SEND, "REPLY_SEND") \
	EM(KIW_ST_RTR_WAIT, "RTR_WAIT") \
	EM(KIW_ST_OPEN, "OPEN") \
	EM(KIW_ST_CLOSING, "CLOSING") \
	EM(KIW_ST_LINGER, "LINGER") \
	EL(KIW_ST_DEAD, "DEAD")

#define KIW_SHOWN_OPS \
	EM(KIW_OP_WRITE, "WRITE") \
	EM(KIW_OP_READ_REQ, "READ_REQ") \
	EM(KIW_OP_READ_RESP, "READ_RESP") \
	EM(KIW_OP_SEND, "SEND") \
	EM(KIW_OP_SEND_INV, "SEND_INV") \
	EM(KIW_OP_SEND_SE, "SEND_SE") \
	EM(KIW_OP_SEND_SE_INV, "SEND_SE_INV") \
	EM(KIW_OP_TERMINATE, "TERMINATE") \
	EM(KIW_OP_IMM, "IMM") \
	EM(KIW_OP_IMM_SE, "IMM_SE") \
	EM(KIW_OP_ATOMIC_REQ, "ATOMIC_REQ") \
	EL(KIW_OP_ATOMIC_RESP, "ATOMIC_RESP")

/* Values of enumerations, for tools outside of the kernel */
#undef EM
#undef EL
#define EM(value, name) TRACE_DEFINE_ENUM(value);
#define EL(value, name) TRACE_DEFINE_ENUM(value);
KIW_SHOWN_QP_STATES
KIW_SHOWN_QP_EVENTS
KIW_SHOWN_EP_STATES
KIW_SHOWN_OPS

/* Names of these values */
#undef EM
#undef EL
#define EM(value, name) { value, name },
#define EL(value, name) { value, name }
#define kiw_show_qp_state(state) __print_symbolic(state, KIW_SHOWN_QP_STATES)
#define kiw_show_qp_event(event) __print_symbolic(event, KIW_SHOWN_QP_EVENTS)
#define kiw_show_ep_state(state) __print_symbolic(state, KIW_SHOWN_EP_STATES)
#define kiw_show_op(op) __print_symbolic(op, KIW_SHOWN_OPS)

TRACE_EVENT(kiw_qp_state,
	TP_PROTO(u32 qpn, unsigned int event, unsigned int from, unsigned int to),
	TP_ARGS(qpn, event, from, to),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(unsigned int, event)
		__field(unsigned int, from)
		__field(unsigned int, to)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->event = event;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("qpn=%u event=%s state=%s->%s", __entry->qpn, kiw_show_qp_event(__entry->event),
		  kiw_show_qp_state(__entry->from), kiw_show_qp_state(__entry->to))
);

/* Numbers of a Terminate (RFC 5040 section 4.8) */
DECLARE_EVENT_CLASS(kiw_error,
	TP_PROTO(u32 qpn, unsigned int layer, unsigned int etype, unsigned int code),
	TP_ARGS(qpn, layer, etype, code),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(unsigned int, layer)
		__field(unsigned int, etype)
		__field(unsigned int, code)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->layer = layer;
		__entry->etype = etype;
		__entry->code = code;
	),
	TP_printk("qpn=%u layer=%u etype=%u code=0x%02x", __entry->qpn, __entry->layer,
		  __entry->etype, __entry->code)
);

/* This side ends the stream by an error and tells the peer. */
DEFINE_EVENT(kiw_error, kiw_stream_fail,
	TP_PROTO(u32 qpn, unsigned int layer, unsigned int etype, unsigned int code),
	TP_ARGS(qpn, layer, etype, code)
);

/* The peer sent a Terminate. */
DEFINE_EVENT(kiw_error, kiw_term_received,
	TP_PROTO(u32 qpn, unsigned int layer, unsigned int etype, unsigned int code),
	TP_ARGS(qpn, layer, etype, code)
);

DECLARE_EVENT_CLASS(kiw_fpdu,
	TP_PROTO(u32 qpn, unsigned int op, bool last, u32 payload),
	TP_ARGS(qpn, op, last, payload),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(unsigned int, op)
		__field(bool, last)
		__field(u32, payload)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->op = op;
		__entry->last = last;
		__entry->payload = payload;
	),
	TP_printk("qpn=%u op=%s%s payload=%u", __entry->qpn, kiw_show_op(__entry->op),
		  __entry->last ? " last" : "", __entry->payload)
);

/* An FPDU is in the batch for TCP. */
DEFINE_EVENT(kiw_fpdu, kiw_fpdu_out,
	TP_PROTO(u32 qpn, unsigned int op, bool last, u32 payload),
	TP_ARGS(qpn, op, last, payload)
);

/* An FPDU is received, verified and placed. */
DEFINE_EVENT(kiw_fpdu, kiw_fpdu_in,
	TP_PROTO(u32 qpn, unsigned int op, bool last, u32 payload),
	TP_ARGS(qpn, op, last, payload)
);

/* Identifies an endpoint by its address; @qpn is 0 without a QP. */
TRACE_EVENT(kiw_ep_state,
	TP_PROTO(const void *ep, u32 qpn, unsigned int from, unsigned int to),
	TP_ARGS(ep, qpn, from, to),
	TP_STRUCT__entry(
		__field(const void *, ep)
		__field(u32, qpn)
		__field(unsigned int, from)
		__field(unsigned int, to)
	),
	TP_fast_assign(
		__entry->ep = ep;
		__entry->qpn = qpn;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("ep=%p qpn=%u state=%s->%s", __entry->ep, __entry->qpn,
		  kiw_show_ep_state(__entry->from), kiw_show_ep_state(__entry->to))
);

#endif /* KIWARP_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
