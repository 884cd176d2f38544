// SPDX-License-Identifier: GPL-2.0
/* The state of a stream, and references to it. Nothing here sends, receives or waits. */
#include "stream.h"

#include "trace.h"

/* Time from the end of a connection by number until what is under way fails, in jiffies */
#define STREAM_GRACE (2 * HZ)

static struct workqueue_struct *stream_wq;

/* The caller has a reference, and gets that of the queue if the work is in it. */
static void stream_unqueue(struct kiw_stream *s)
{
	if (cancel_delayed_work(&s->work))
		kiw_stream_put(s);
}

void kiw_stream_queue(struct kiw_stream *s, unsigned long delay)
{
	bool queued;

	kref_get(&s->ref);
	queued = queue_delayed_work(stream_wq, &s->work, delay);
	if (!queued && READ_ONCE(s->late)) {
		WRITE_ONCE(s->late, false);
		stream_unqueue(s);
		queued = queue_delayed_work(stream_wq, &s->work, delay);
	}
	if (!queued)
		kiw_stream_put(s);	/* never the last: the caller has one */
}

void kiw_stream_queue_late(struct kiw_stream *s, unsigned long delay)
{
	unsigned long end = jiffies + delay;

	kiw_stream_assert_held(s);
	kref_get(&s->ref);
	if (READ_ONCE(s->late) && time_before(end, s->late_end))
		stream_unqueue(s);
	/* Before it is queued: a caller that finds it queued sees this. */
	WRITE_ONCE(s->late, true);
	if (queue_delayed_work(stream_wq, &s->work, delay))
		s->late_end = end;
	else
		kiw_stream_put(s);
}

void kiw_stream_later(struct work_struct *work)
{
	queue_work(stream_wq, work);
}

/* The QP's reference is there: it goes when the stream has left the line. */
void kiw_stream_wake(struct kiw_srq_wait *wait)
{
	kiw_stream_queue(container_of(wait, struct kiw_stream, srq_wait), 0);
}

void kiw_stream_kick(struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	s->due = true;
	if (!s->busy)
		kiw_stream_queue(s, 0);
}

/* --- transitions --------------------------------------------------------------------------- */

/* What a Terminate reports, see kiw_stream_fail() */
struct stream_fault {
	enum kiw_err	err;
	const u8	*ulpdu;
	u32		have;
	u32		ulpdu_len;
};

/* The queue pair begins to work on the stream. */
static void stream_act_start(struct kiw_stream *s)
{
	struct kiw_qp *qp = s->qp;

	kiw_qp_open_rings(qp);
	qp->closed = false;
	qp->ird = s->neg.ird;
	qp->ord = s->neg.ord;
	s->tx.msn_send = KIW_MSN_FIRST;
	s->tx.msn_read = KIW_MSN_FIRST;
	s->tx.msn_atomic = KIW_MSN_FIRST;
	s->tx.sent_index = qp->sq.next;
	s->tx.free_index = qp->sq.next;
	s->tx.acked_index = qp->sq.next;
	s->tx.done_index = qp->sq.next;
	s->tx.batch_index = qp->sq.next;
}

/* No message is taken any more, and no receive request. */
static void stream_act_stop_rx(struct kiw_stream *s)
{
	struct ib_srq *srq = s->qp->ibqp.srq;

	s->rx.stopped = true;
	if (srq)
		kiw_srq_leave(to_kiw_srq(srq), &s->srq_wait);
}

static void stream_act_send_term(struct kiw_stream *s, const struct stream_fault *fault)
{
	struct kiw_term t = kiw_err_term(fault->err);

	trace_kiw_stream_fail(s->qp->ibqp.qp_num, t.layer, t.etype, t.code);
	kiw_stat_inc(&s->dev->stats, KIW_STAT_STREAM_ERRORS);
	if (fault->err == KIW_ERR_LLP_CRC)
		kiw_stat_inc(&s->dev->stats, KIW_STAT_CRC_ERRORS);
	s->terminated = true;
	if (kiw_term_possible(fault->err))
		s->tx.term_len = kiw_term_build(s->tx.term, fault->err, fault->ulpdu, fault->have,
						fault->ulpdu_len);
}

/* Carry out %KIW_ACT_NOW; kiw_pump_act() does the others. */
static void stream_act(struct kiw_stream *s, u32 actions, const struct stream_fault *fault)
{
	if (actions & KIW_ACT_START)
		stream_act_start(s);
	if (actions & KIW_ACT_STOP_RX)
		stream_act_stop_rx(s);
	if (actions & KIW_ACT_STOP_TX)
		s->tx.stopped = true;
	if (actions & KIW_ACT_SEND_TERM)
		stream_act_send_term(s, fault);
	if (s->inbox && (actions & KIW_ACT_DISCONNECT))
		kiw_inbox_post(s->inbox, KIW_INBOX_CLOSING);
	s->todo |= actions & KIW_ACT_LATER;
}

static struct kiw_qp_step stream_step(struct kiw_stream *s, enum kiw_qp_event event,
				      const struct stream_fault *fault)
{
	struct kiw_qp_step step = kiw_qp_next(s->qp->state, event);

	kiw_stream_assert_held(s);
	/* A state that stays has no actions: each FPDU that arrives is such an event. */
	if (step.valid && step.next != s->qp->state) {
		trace_kiw_qp_state(s->qp->ibqp.qp_num, event, s->qp->state, step.next);
		WRITE_ONCE(s->qp->state, step.next);
		s->gone = false;
		if (event == KIW_EV_LLP_LOST || event == KIW_EV_PEER_FIN_BUSY)
			kiw_qp_lost_peer(s->qp);
		stream_act(s, step.actions, fault);
	}
	return step;
}

bool kiw_stream_event(struct kiw_stream *s, enum kiw_qp_event event)
{
	static const struct stream_fault none = { .err = KIW_ERR_LOCAL_CATASTROPHE };

	if (event == KIW_EV_TERM_RECEIVED)
		s->terminated = true;
	return stream_step(s, event, &none).valid;
}

void kiw_stream_broken_off(struct kiw_stream *s, enum kiw_qp_event event)
{
	bool news = s->qp->state == KIW_QP_RTS || s->qp->state == KIW_QP_CLOSING;

	kiw_stream_assert_held(s);
	if (news && kiw_stream_by_number(s) && !s->gone) {
		s->gone = true;
		s->gone_end = jiffies + STREAM_GRACE;
		s->tx.stopped = true;
		kiw_stream_queue_late(s, STREAM_GRACE);
	}
	if (s->gone && time_before(jiffies, s->gone_end))
		return;
	if (news)
		kiw_stat_inc(&s->dev->stats, KIW_STAT_LLP_LOST);
	kiw_stream_event(s, event);
	kiw_stream_kick(s);
}

/* Which asynchronous event goes with an error of the peer's making. */
static enum ib_event_type stream_async_of(enum kiw_err err)
{
	struct kiw_term t = kiw_err_term(err);

	if (t.layer == KIW_LAYER_RDMAP && t.etype == KIW_ETYPE_PROTECTION)
		return IB_EVENT_QP_ACCESS_ERR;
	if (t.layer == KIW_LAYER_DDP && t.etype == KIW_ETYPE_TAGGED && err != KIW_ERR_DDP_TVERSION)
		return IB_EVENT_QP_ACCESS_ERR;
	return IB_EVENT_QP_FATAL;
}

void kiw_stream_fail(struct kiw_stream *s, enum kiw_err err, const u8 *ulpdu, u32 have,
		     u32 ulpdu_len)
{
	const struct stream_fault fault = {
		.err = err,
		.ulpdu = ulpdu,
		.have = have,
		.ulpdu_len = ulpdu_len,
	};
	struct kiw_qp_step step = stream_step(s, KIW_EV_LOCAL_ERROR, &fault);

	kiw_stream_kick(s);
	if (!(step.actions & KIW_ACT_SEND_TERM))
		return;
	s->async = stream_async_of(err);
	/* A request that failed is told of now; the rest is flushed when the peer has closed. */
	kiw_sq_complete(&s->qp->sq);
}

void kiw_stream_count_retransmits(struct kiw_stream *s, bool last)
{
	struct kiw_stats *stats = &s->dev->stats;

	spin_lock(&stats->retransmits);
	if (!s->counted) {
		s->retransmits += kiw_stat_retransmits(stats, s->sk, s->retransmits);
		s->counted = last;
	}
	spin_unlock(&stats->retransmits);
}

/* --- references ---------------------------------------------------------------------------- */

static void stream_free(struct kref *ref)
{
	struct kiw_stream *s = container_of(ref, struct kiw_stream, ref);

	kiw_batch_free(&s->tx.batch);
	kiw_reads_free(&s->tx.reads_out, &s->tx.reads_in);
	sock_put(s->sk);
	kfree_rcu(s, rcu);
}

void kiw_stream_put(struct kiw_stream *s)
{
	kref_put(&s->ref, stream_free);
}

struct kiw_stream *kiw_stream_of(struct kiw_qp *qp)
{
	struct kiw_stream *s;

	rcu_read_lock();
	s = rcu_dereference(qp->stream);
	if (s && !kref_get_unless_zero(&s->ref))
		s = NULL;
	rcu_read_unlock();
	return s;
}

int kiw_stream_init(void)
{
	stream_wq = alloc_workqueue("kiwarp_stream", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return stream_wq ? 0 : -ENOMEM;
}

void kiw_stream_exit(void)
{
	destroy_workqueue(stream_wq);
	kiw_batch_exit();
}
