// SPDX-License-Identifier: GPL-2.0
/* The state of a stream, and references to it. Nothing here sends, receives or waits. */
#include "stream.h"

static struct workqueue_struct *stream_wq;

void kiw_stream_queue(struct kiw_stream *s, unsigned long delay)
{
	kref_get(&s->ref);
	if (!queue_delayed_work(stream_wq, &s->work, delay))
		kiw_stream_put(s);	/* never the last: the caller has one */
}

void kiw_stream_kick(struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	s->due = true;
	if (!s->busy)
		kiw_stream_queue(s, 0);
}

/* --- transitions --------------------------------------------------------------------------- */

bool kiw_stream_event(struct kiw_stream *s, enum kiw_qp_event event)
{
	struct kiw_qp *qp = s->qp;
	struct kiw_qp_step step = kiw_qp_next(qp->state, event);

	if (!step.valid)
		return false;
	/* After a Terminate, either way, there is none to send. */
	if ((step.actions & KIW_ACT_ABORT) && qp->state != KIW_QP_TERMINATE)
		s->todo |= KIW_ACT_SEND_TERM;
	WRITE_ONCE(qp->state, step.next);
	if (step.actions & KIW_ACT_STOP_RX)
		s->rx.stopped = true;
	if (step.actions & KIW_ACT_STOP_TX)
		s->tx.stopped = true;
	if (s->inbox && (step.actions & KIW_ACT_DISCONNECT))
		kiw_inbox_post(s->inbox, KIW_INBOX_CLOSING);
	if (s->inbox && (step.actions & KIW_ACT_CLOSED) && !s->ended) {
		s->ended = true;
		kiw_inbox_post(s->inbox, KIW_INBOX_ENDED);
	}
	s->todo |= step.actions & (KIW_ACT_SEND_FIN | KIW_ACT_ABORT | KIW_ACT_FLUSH_SQ |
				   KIW_ACT_FLUSH_RQ | KIW_ACT_ASYNC);
	return true;
}

/* Which asynchronous event goes with an error of the peer's making. */
static enum ib_event_type async_of(enum kiw_err err)
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
	bool first = s->qp->state == KIW_QP_RTS;

	kiw_stream_event(s, KIW_EV_LOCAL_ERROR);
	s->rx.stopped = true;
	s->tx.stopped = true;
	kiw_stream_kick(s);
	if (!first)
		return;
	kiw_stat_inc(&s->dev->stats, KIW_STAT_STREAM_ERRORS);
	if (err == KIW_ERR_LLP_CRC)
		kiw_stat_inc(&s->dev->stats, KIW_STAT_CRC_ERRORS);
	s->async = async_of(err);
	if (kiw_term_possible(err))
		s->tx.term_len = kiw_term_build(s->tx.term, err, ulpdu, have, ulpdu_len);
	/* A request that failed is told of now; the rest is flushed when the peer has closed. */
	kiw_sq_complete(s->qp);
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
