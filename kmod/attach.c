// SPDX-License-Identifier: GPL-2.0
/*
 * The beginning and the end of a stream.
 *
 * It ends in two steps. Unreachable: kiw_stream_stop() takes QP mutex and socket lock, restores the
 * callbacks and clears sk_user_data, so that no callback finds the stream; clears qp->stream, so
 * that no doorbell does; and clears s->inbox, so that the endpoint gets no further events. It
 * abandons loans that are not over (lend.h). Posts in the kernel ring the bell under RCU, without a
 * reference: it waits for a grace period. Then it waits for bell, timer and work, which may be
 * queued from before. Released: doorbells may still hold references; each finds s->ibqp cleared
 * under the socket lock and drops its own. Loans hold references, too. The last one frees the
 * memory; until then sock_hold() keeps that of the socket.
 */
#include "attach.h"

#include <net/tcp.h>

#include "compat.h"
#include "pump.h"
#include "rx.h"

bool kiw_sock_taken(const struct sock *sk)
{
	sock_owned_by_me(sk);
	return rcu_access_pointer(__sk_user_data(sk)) ||
	       READ_ONCE(sk->sk_prot) != sk->sk_prot_creator;
}

struct kiw_stream *kiw_stream_new(struct kiw_qp *qp, struct socket *sock,
				  const struct kiw_mpa_result *neg)
{
	const struct kiw_core *core = qp->core;
	size_t sges = (core->sq.max_sge + core->rq.max_sge) * sizeof(struct kiw_sge);
	bool acked = kiw_core_manner(core)->acked;
	struct kiw_stream *s = kiw_stream_alloc();
	struct kiw_tx *tx;

	if (!s)
		return NULL;
	tx = &s->ss.tx;
	tx->req.sge = kiw_reads_init(&tx->reads_out, &tx->reads_in, neg->ord, neg->ird,
				     core->sq.max_sge, sges + (acked ? KIW_ACKS_LEN : 0));
	if (!tx->req.sge) {
		kiw_stream_free(s);
		return NULL;
	}
	s->ss.recv.sge = tx->req.sge + core->sq.max_sge;
	if (acked)
		tx->acks.mark = (void *)tx->req.sge + sges;
	kref_init(&s->ref);
	s->sk = sock->sk;
	sock_hold(s->sk);
	s->dev = qp->dev;
	s->kernel = kiw_qp_is_kernel(qp);
	s->ss.neg = *neg;
	INIT_DELAYED_WORK(&s->work, kiw_pump_work);
	kiw_bh_work_init(&s->bell, kiw_pump_bell);
	hrtimer_setup(&s->gather.timer, kiw_pump_gathered, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	kiw_lend_init(&s->lend);
	INIT_LIST_HEAD(&s->srq_wait.link);
	s->srq_wait.wake = kiw_stream_wake;
	return s;
}

/*
 * With CRC, an FPDU waits in the socket until it is whole. The longest one must fit, also beyond
 * TCP's own limits.
 */
static void attach_window(struct kiw_stream *s, struct socket *sock)
{
	struct sock *sk = s->sk;
	int space = tcp_space_from_win(sk, KIW_RX_WINDOW);

	if (sock->ops->set_rcvlowat)
		sock->ops->set_rcvlowat(sk, KIW_RX_WINDOW);
	if (!s->ss.neg.crc || READ_ONCE(sk->sk_rcvbuf) >= space)
		return;
	sk->sk_userlocks |= SOCK_RCVBUF_LOCK;
	WRITE_ONCE(sk->sk_rcvbuf, space);
	WRITE_ONCE(tcp_sk(sk)->window_clamp, KIW_RX_WINDOW);
}

int kiw_stream_start(struct kiw_stream *s, struct kiw_qp *qp, struct kiw_inbox *inbox,
		     struct socket *sock, bool first, void (*attached)(struct kiw_qp *qp))
{
	struct sock *sk = s->sk;

	mutex_lock(&qp->mutex);
	if (!kiw_qp_next(qp->core->state, KIW_EV_CONNECTED).valid || qp->dying ||
	    qp->inbox != inbox) {
		mutex_unlock(&qp->mutex);
		return -EISCONN;
	}
	kiw_pump_lock(s);
	if (kiw_sock_taken(sk)) {
		kiw_pump_unlock(s);
		mutex_unlock(&qp->mutex);
		return -EBUSY;
	}
	/* Handle out-of-band bytes like all others. */
	sock_set_flag(sk, SOCK_URGINLINE);
	kiw_no_task_frag(sk);
	sk->sk_allocation = kiw_stream_gfp(s);
	attach_window(s, sock);

	s->ibqp = &qp->ibqp;
	/* A responder's peer is connected once it sends. */
	if (qp->by_number && first)
		qp->peer->patient = false;
	s->ss.core = qp->core;
	qp->closed = false;
	kiw_session_start(&s->ss, tcp_sk(sk)->copied_seq, first);
	/* Restart the turn, since bytes count only from here. */
	s->turn = kiw_stream_received(s);
	s->inbox = inbox;
	kiw_inbox_get(inbox);
	kref_get(&s->ref);
	rcu_assign_pointer(qp->stream, s);
	kiw_pump_hook(s);
	/* Handle data that preceded our callbacks. */
	kiw_pump_start(s);
	kiw_pump_unlock(s);
	attached(qp);
	mutex_unlock(&qp->mutex);
	return 0;
}

/* Detach the QP from the stream, in its final state. */
static void attach_detach_qp(struct kiw_stream *s, struct kiw_qp *qp, bool orderly)
{
	/* The peer did not acknowledge all data in time. */
	bool lost = !orderly && s->ss.tx.acked && kiw_tx_awaits(&s->ss);

	kiw_stream_assert_held(s);
	kiw_stream_count_retransmits(s, true);
	if (!orderly || qp->core->state == KIW_QP_TERMINATE)
		kiw_session_event(&s->ss, lost ? KIW_EV_LLP_LOST : KIW_EV_MODIFY_ERR);
	else
		kiw_session_event(&s->ss, KIW_EV_CLOSE_DONE);
	kiw_pump_act(s);
	kiw_tx_drop(&s->ss);	/* no charge to the socket remains */
	/* The time for packets in queues, if any, is over. */
	kiw_lend_leave(s);
	kiw_pump_act(s);
	s->ss.todo = 0;
	if (qp->by_number) {
		qp->peer->untold = false;
		/* One that was never established does not count. */
		if (s->ss.tx.gate) {
			qp->peer->over = true;
			qp->peer->patient = false;
		}
	}
	if (qp->core->state == KIW_QP_IDLE) {
		WRITE_ONCE(qp->closed, true);
		if (kiw_qp_is_over(qp)) {
			/* The doorbell flushes later requests. */
			kiw_core_flush_sq(qp->core);
			kiw_rq_flush(&qp->core->rq, NULL);
			kiw_qp_raise_last_wqe(&qp->ibqp);
		} else {
			kiw_core_open_rings(qp->core);
			if (kiw_sq_posted(&qp->core->sq))
				kiw_qp_await_peer(qp);
		}
	}
	rcu_assign_pointer(qp->stream, NULL);
	WRITE_ONCE(s->ibqp, NULL);
	s->ss.core = NULL;
}

void kiw_stream_call_back(struct kiw_stream *s)
{
	kiw_pump_lock(s);
	if (s->ibqp && kiw_stream_lends(s))
		kiw_pump_call_back(s);
	kiw_pump_unlock(s);
}

void kiw_stream_stop(struct kiw_stream *s, bool orderly)
{
	struct kiw_inbox *inbox = NULL;
	struct kiw_qp *qp;

	kiw_pump_own(s);
	qp = s->ibqp ? to_kiw_qp(s->ibqp) : NULL;
	if (qp)
		kiw_qp_get(qp);
	kiw_pump_disown(s);
	if (!qp)
		return;

	mutex_lock(&qp->mutex);
	kiw_pump_own(s);
	if (s->ibqp) {
		kiw_rx_done(s);
		kiw_pump_unhook(s);
		attach_detach_qp(s, qp, orderly);
		inbox = s->inbox;
		s->inbox = NULL;
	}
	kiw_pump_disown(s);
	mutex_unlock(&qp->mutex);
	kiw_qp_put(qp);

	if (s->kernel)
		synchronize_rcu();
	hrtimer_cancel(&s->gather.timer);
	kiw_bh_work_cancel(&s->bell);
	if (cancel_delayed_work_sync(&s->work))
		kiw_stream_put(s);
	if (inbox) {
		kiw_inbox_put(inbox);
		kiw_stream_put(s);	/* the QP's */
	}
}
