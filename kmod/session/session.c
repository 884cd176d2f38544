// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Transitions of a session. */
#include "session.h"

/* Contents of a Terminate, see kiw_session_fail() */
struct session_fault {
	enum kiw_err	err;
	const u8	*ulpdu;
	u32		have;
	u32		ulpdu_len;
};

/* A machine that stopped needs its header no more: that holds the Terminate until it is sent. */
void kiw_session_terminate(struct kiw_session *s, enum kiw_err err, const u8 *ulpdu, u32 have,
			   u32 ulpdu_len)
{
	u8 term[KIW_TERM_MAX_LEN];

	static_assert(sizeof(s->rx.hdr) >= sizeof(term), "room for a Terminate");
	s->tx.term_len = kiw_term_build(term, err, ulpdu, have, ulpdu_len);
	memcpy(s->rx.hdr, term, s->tx.term_len);
}

static void session_act_start(struct kiw_session *s)
{
	struct kiw_core *core = s->core;

	kiw_core_open_rings(core);
	core->flush = IB_WC_WR_FLUSH_ERR;
	core->ird = s->neg.ird;
	core->ord = s->neg.ord;
	s->tx.msn_send = KIW_MSN_FIRST;
	s->tx.msn_read = KIW_MSN_FIRST;
	s->tx.msn_atomic = KIW_MSN_FIRST;
	s->tx.batch_index = core->sq.next;
	s->tx.sent_index = core->sq.next;
	s->tx.free_index = core->sq.next;
	s->tx.acked_index = core->sq.next;
	s->tx.done_index = core->sq.next;
}

static void session_act_stop_rx(struct kiw_session *s)
{
	s->rx.stopped = true;
	kiw_carrier_leave_shared(s);
}

static void session_act_send_term(struct kiw_session *s, const struct session_fault *fault)
{
	struct kiw_term t = kiw_err_term(fault->err);

	trace_kiw_stream_fail(s->core->own.num, t.layer, t.etype, t.code);
	kiw_carrier_count(s, KIW_STAT_STREAM_ERRORS);
	if (fault->err == KIW_ERR_LLP_CRC)
		kiw_carrier_count(s, KIW_STAT_CRC_ERRORS);
	s->terminated = true;
	if (kiw_term_possible(fault->err))
		kiw_session_terminate(s, fault->err, fault->ulpdu, fault->have, fault->ulpdu_len);
}

/* Carry out %KIW_ACT_NOW; the rest is the program's. */
static void session_act(struct kiw_session *s, u32 actions, const struct session_fault *fault)
{
	if (actions & KIW_ACT_START)
		session_act_start(s);
	if (actions & KIW_ACT_STOP_RX)
		session_act_stop_rx(s);
	if (actions & KIW_ACT_STOP_TX)
		s->tx.stopped = true;
	if (actions & KIW_ACT_SEND_TERM)
		session_act_send_term(s, fault);
	if (actions & KIW_ACT_DISCONNECT)
		kiw_carrier_closing(s);
	s->todo |= actions & KIW_ACT_LATER;
}

static struct kiw_qp_step session_step(struct kiw_session *s, enum kiw_qp_event event,
				       const struct session_fault *fault)
{
	struct kiw_core *core = s->core;
	struct kiw_qp_step step = kiw_qp_next(core->state, event);

	kiw_carrier_assert_held(s);
	/* Without a change of state there are no actions. Each arriving FPDU is such an event. */
	if (step.valid && step.next != core->state) {
		trace_kiw_qp_state(core->own.num, event, core->state, step.next);
		WRITE_ONCE(core->state, step.next);
		s->gone = false;
		if (event == KIW_EV_LLP_LOST || event == KIW_EV_PEER_FIN_BUSY)
			core->flush = kiw_core_manner(core)->lost;
		session_act(s, step.actions, fault);
	}
	return step;
}

bool kiw_session_event(struct kiw_session *s, enum kiw_qp_event event)
{
	static const struct session_fault none = { .err = KIW_ERR_LOCAL_CATASTROPHE };

	if (event == KIW_EV_TERM_RECEIVED)
		s->terminated = true;
	return session_step(s, event, &none).valid;
}

void kiw_session_broken_off(struct kiw_session *s, enum kiw_qp_event event)
{
	bool news = s->core->state == KIW_QP_RTS || s->core->state == KIW_QP_CLOSING;
	unsigned long now = kiw_carrier_now();
	u8 grace = kiw_core_manner(s->core)->grace;

	kiw_carrier_assert_held(s);
	if (news && grace && !s->gone) {
		s->gone = true;
		s->gone_end = now + grace * KIW_CARRIER_SECOND;
		s->tx.stopped = true;
		kiw_carrier_late(s, grace * KIW_CARRIER_SECOND);
	}
	if (s->gone && (long)(now - s->gone_end) < 0)
		return;
	if (news)
		kiw_carrier_count(s, KIW_STAT_LLP_LOST);
	kiw_session_event(s, event);
	kiw_carrier_kick(s);
}

/* The asynchronous event for an error that the peer caused */
static enum ib_event_type session_async_of(enum kiw_err err)
{
	struct kiw_term t = kiw_err_term(err);

	if (t.layer == KIW_LAYER_RDMAP && t.etype == KIW_ETYPE_PROTECTION)
		return IB_EVENT_QP_ACCESS_ERR;
	if (t.layer == KIW_LAYER_DDP && t.etype == KIW_ETYPE_TAGGED && err != KIW_ERR_DDP_TVERSION)
		return IB_EVENT_QP_ACCESS_ERR;
	return IB_EVENT_QP_FATAL;
}

void kiw_session_fail(struct kiw_session *s, enum kiw_err err, const u8 *ulpdu, u32 have,
		      u32 ulpdu_len)
{
	const struct session_fault fault = {
		.err = err,
		.ulpdu = ulpdu,
		.have = have,
		.ulpdu_len = ulpdu_len,
	};
	struct kiw_qp_step step = session_step(s, KIW_EV_LOCAL_ERROR, &fault);

	kiw_carrier_kick(s);
	if (!(step.actions & KIW_ACT_SEND_TERM))
		return;
	s->async = session_async_of(err);
	/* Report a failed request now. The rest is flushed after the close of the peer. */
	kiw_sq_complete(&s->core->sq);
}
