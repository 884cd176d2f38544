// SPDX-License-Identifier: GPL-2.0
/*
 * One TCP connection in full operation.
 *
 * The callbacks run with the socket lock held, in softirq or, from the backlog, in whoever owned
 * the socket. They receive and place; what has to be sent, flushed or closed because of it is put
 * into s->todo (or is simply visible in the queues) and done by the owner before it lets go of the
 * lock, or else by the stream's work.
 *
 * How it ends, in two steps. Unreachable: kiw_stream_stop() takes QP mutex and socket lock, gives
 * the callbacks back and clears sk_user_data, so that no callback finds the stream; it clears
 * qp->stream, so that no doorbell does; and it clears s->ep, so that the endpoint isn't notified.
 * Then it waits for the work, which is the only one left that had been told before. Released: what
 * remains are references that a doorbell took a moment ago; each of them finds s->qp cleared under
 * the socket lock and lets go. The last one frees the memory; the socket's memory is held by
 * sock_hold() until then.
 */
#include "stream.h"

#include <linux/tcp.h>
#include <linux/workqueue.h>
#include <net/tcp.h>

#include "cm.h"
#include "compat.h"

/* A stream takes at least this much of the peer's data before it has to be read: one FPDU. */
#define STREAM_WINDOW (2 * 65536)
/* Rounds that an owner makes before it leaves the rest to the work, and batches in each. */
#define SETTLE_ROUNDS 8
#define SETTLE_BATCHES 32
/* What an owner places before it leaves the rest to others, octets. */
#define STREAM_TURN (4U << 20)
/* What is sent from a callback, before the work has to go on with it. */
#define CALLBACK_BATCHES 4
/*
 * Attempts to give TCP what is left of a batch when a stream breaks off: each takes a part of it.
 */
#define BREAK_ROUNDS 16

static struct workqueue_struct *stream_wq;

static struct kiw_stream *stream_from(struct work_struct *work)
{
	return container_of(to_delayed_work(work), struct kiw_stream, work);
}

static void stream_queue(struct kiw_stream *s, unsigned long delay)
{
	kref_get(&s->ref);
	if (!queue_delayed_work(stream_wq, &s->work, delay))
		kiw_stream_put(s);	/* never the last: the caller has one */
}

void kiw_stream_kick(struct kiw_stream *s)
{
	s->due = true;
	if (!s->busy)
		stream_queue(s, 0);
}

/* --- transitions --------------------------------------------------------------------------- */

static bool stream_busy(const struct kiw_stream *s)
{
	return !s->rx.between || kiw_tx_unfinished(s);
}

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
	if (s->ep && (step.actions & KIW_ACT_DISCONNECT))
		kiw_ep_notify(s->ep, KIW_EP_CLOSING);
	if (s->ep && (step.actions & KIW_ACT_CLOSED) && !s->ended) {
		s->ended = true;
		kiw_ep_notify(s->ep, KIW_EP_ENDED);
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

/*
 * While TCP works on the backlog, it takes all of that for memory in use, even what it has handled.
 * The room that it announces then is little, and if what lies in the queue is released too early,
 * nothing makes it announce more: the peer would probe for it, a fifth of a second later.
 */
static bool announces_little(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return 2 * tcp_receive_window(tp) <= READ_ONCE(tp->window_clamp);
}

/*
 * Take what TCP has for us, in the midst of its @backlog or not. Did the connection break, or did
 * the peer close it, behind that?
 */
static void stream_receive(struct kiw_stream *s, bool backlog)
{
	struct sock *sk = s->sk;

	s->rx_more = false;
	kiw_rx_pump(s);
	if (backlog && s->rx.taken && announces_little(sk)) {
		s->rx_more = true;
		kiw_stream_kick(s);
	} else {
		kiw_rx_done(s);
	}
	if (sk->sk_err) {
		if (s->qp->state == KIW_QP_RTS || s->qp->state == KIW_QP_CLOSING)
			kiw_stat_inc(&s->dev->stats, KIW_STAT_LLP_LOST);
		kiw_stream_event(s, KIW_EV_LLP_LOST);
	} else if ((sk->sk_shutdown & RCV_SHUTDOWN) && !s->fin_received && !s->rx_more) {
		bool running = s->qp->state == KIW_QP_RTS;
		bool busy;

		s->fin_received = true;
		if (running)
			kiw_sq_rest(&s->qp->sq);
		busy = stream_busy(s);
		if (running && busy)
			kiw_stat_inc(&s->dev->stats, KIW_STAT_LLP_LOST);
		kiw_stream_event(s, busy ? KIW_EV_PEER_FIN_BUSY : KIW_EV_PEER_FIN);
	} else {
		return;
	}
	kiw_stream_kick(s);
}

/* --- what is due, in process context ------------------------------------------------------- */

static void raise_async(struct kiw_stream *s)
{
	struct ib_qp *ibqp = &s->qp->ibqp;
	struct ib_event event = {
		.device = ibqp->device,
		.element.qp = ibqp,
		.event = s->async,
	};

	if (ibqp->event_handler)
		ibqp->event_handler(&event, ibqp->qp_context);
}

static void send_fin(struct kiw_stream *s)
{
	struct sock *sk = s->sk;

	s->fin_sent = true;
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | SEND_SHUTDOWN);
	sk->sk_prot->shutdown(sk, SEND_SHUTDOWN);
	if (s->ep)
		kiw_ep_notify(s->ep, KIW_EP_CLOSING);
}

/* Hand TCP what is left of the batch, and the Terminate, even if its send buffer is full. */
static void push_all(struct kiw_stream *s)
{
	struct sock *sk = s->sk;
	int rounds = BREAK_ROUNDS;

	/* Short of memory, TCP lowers the limit again; then it takes a segment in each round. */
	do {
		WRITE_ONCE(sk->sk_sndbuf, INT_MAX);
		WRITE_ONCE(tcp_sk(sk)->notsent_lowat, U32_MAX);
		kiw_tx_run(s, 1);
	} while (kiw_tx_pending(s) && --rounds);
}

/*
 * The connection is broken off from this side, which the peer learns by a FIN: TCP then delivers
 * what it has, and that is all that was reported as sent. What is in the batch goes there, too, so
 * that the FIN isn't in the middle of an FPDU; and where anything is left undone, a Terminate
 * behind it, so that this doesn't look like an orderly end. The endpoint resets what gets no FIN: a
 * responder has sent nothing before its peer began, and for the batch there may be no memory.
 */
static void stream_break(struct kiw_stream *s)
{
	bool tell = s->todo & KIW_ACT_SEND_TERM;

	s->todo &= ~(KIW_ACT_ABORT | KIW_ACT_SEND_TERM | KIW_ACT_SEND_FIN);
	if (s->fin_sent || !s->tx.gate ||
	    !((1 << s->sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)))
		return;
	push_all(s);
	if (tell && !kiw_tx_pending(s) && kiw_tx_unfinished(s)) {
		s->tx.term_len = kiw_term_build(s->tx.term, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
		push_all(s);
	}
	if (!kiw_tx_pending(s))
		send_fin(s);
}

static void stream_flush(struct kiw_stream *s)
{
	if (s->todo & KIW_ACT_FLUSH_SQ)
		kiw_sq_flush(s->qp);
	if (s->todo & KIW_ACT_FLUSH_RQ)
		kiw_rq_flush(s->qp, &s->recv);
	s->todo &= ~(KIW_ACT_FLUSH_SQ | KIW_ACT_FLUSH_RQ);
}

/* One round of all that is due. Return: whether there is more. */
static bool settle_round(struct kiw_stream *s, int batches)
{
	bool more = false;

	s->due = false;
	if (s->rx_more)
		stream_receive(s, false);
	if (s->qp->state == KIW_QP_RTS || s->qp->state == KIW_QP_TERMINATE)
		more = kiw_tx_run(s, batches);
	if ((s->todo & KIW_ACT_SEND_FIN) && !kiw_tx_pending(s)) {
		s->todo &= ~KIW_ACT_SEND_FIN;
		send_fin(s);
	}
	if (s->fin_sent && s->fin_received &&
	    (s->qp->state == KIW_QP_CLOSING || s->qp->state == KIW_QP_TERMINATE))
		kiw_stream_event(s, KIW_EV_CLOSE_DONE);
	if (s->todo & KIW_ACT_ABORT)
		stream_break(s);
	stream_flush(s);
	if (s->todo & KIW_ACT_ASYNC) {
		s->todo &= ~KIW_ACT_ASYNC;
		raise_async(s);
	}
	return more || s->rx_more;
}

static void own(struct kiw_stream *s)
{
	atomic_inc(&s->waiting);
	lock_sock(s->sk);
	atomic_dec(&s->waiting);
	/* What somebody left to us, because we were waiting, is seen from here on. */
	smp_mb__after_atomic();
}

void kiw_stream_lock(struct kiw_stream *s)
{
	own(s);
	s->busy = true;
	s->turn = kiw_stream_received(s);
}

void kiw_stream_lock_to_send(struct kiw_stream *s)
{
	kiw_fetch_to_write(s->sk, sizeof(struct tcp_sock));
	kiw_stream_lock(s);
}

/* The socket lock is not fair. A loop that retakes it must yield to waiters, or they starve. */
static bool stream_wanted(const struct kiw_stream *s)
{
	return atomic_read(&s->waiting) > 0;
}

/*
 * The owner places the backlog, which may grow as fast as it is placed: after a turn, or when
 * others want the lock, the rest stays with TCP, and TCP's window then ends it.
 */
static bool turn_over(const struct kiw_stream *s)
{
	return stream_wanted(s) || kiw_stream_received(s) - s->turn >= STREAM_TURN;
}

/*
 * Packets that came in meanwhile wait in the backlog; their callbacks may ask for another round,
 * and don't queue the work because s->busy is set.
 */
bool kiw_stream_settle(struct kiw_stream *s)
{
	int rounds = SETTLE_ROUNDS;
	bool more = false;

	while (s->qp) {
		more = settle_round(s, SETTLE_BATCHES);
		if (turn_over(s))
			rounds = 1;
		if (!--rounds || (!sk_flush_backlog(s->sk) && !more))
			break;
	}
	return s->qp && (more || !rounds);
}

void kiw_stream_unlock(struct kiw_stream *s)
{
	bool more = kiw_stream_settle(s);

	s->busy = false;
	if (s->qp && more)
		stream_queue(s, s->tx.starved);
	release_sock(s->sk);
}

/* Does a thread have the socket, which may itself wait for a CPU? */
static bool stream_owned(const struct kiw_stream *s)
{
	bool owned;

	local_bh_disable();
	bh_lock_sock(s->sk);
	owned = sock_owned_by_user(s->sk);
	bh_unlock_sock(s->sk);
	local_bh_enable();
	return owned;
}

/*
 * Works of all users share a pool of threads: none of them sleeps until one user's thread lets go.
 */
static void stream_work(struct work_struct *work)
{
	struct kiw_stream *s = stream_from(work);

	if (stream_owned(s)) {
		stream_queue(s, 1);
	} else if (!stream_wanted(s)) {
		kiw_stream_lock(s);
		kiw_stream_unlock(s);
	}
	kiw_stream_put(s);
}

/* --- callbacks ----------------------------------------------------------------------------- */

/* The socket lock is held; sk_callback_lock isn't needed, since only its holder changes this. */
static struct kiw_stream *stream_of_sk(struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

/*
 * In softirq the socket has no owner who could be in the middle of sending, so a response, or what
 * waited for one or for room, goes out at once. All else is left to the work; and from the backlog,
 * everything is left to the owner.
 */
static bool callback_begin(struct kiw_stream *s)
{
	if (s->busy || sock_owned_by_user(s->sk))
		return false;
	s->busy = true;
	s->sk->sk_allocation = GFP_ATOMIC | __GFP_NOWARN;
	return true;
}

static void callback_end(struct kiw_stream *s)
{
	bool due = s->due;

	s->due = false;
	if (due && !s->rx_more && s->qp->state == KIW_QP_RTS) {
		due = kiw_tx_run(s, CALLBACK_BATCHES);
		/* The next ACK may come before the work finds a processor. */
		if (due)
			set_bit(SOCK_NOSPACE, &s->sk->sk_socket->flags);
	}
	due |= s->due;
	s->sk->sk_allocation = GFP_KERNEL;
	s->busy = false;
	if (due)
		stream_queue(s, 0);
}

static void stream_data_ready(struct sock *sk)
{
	struct kiw_stream *s;

	rcu_read_lock();
	s = stream_of_sk(sk);
	if (s && callback_begin(s)) {
		stream_receive(s, false);
		callback_end(s);
	} else if (s && turn_over(s)) {
		s->rx_more = true;
		kiw_stream_kick(s);
	} else if (s) {
		stream_receive(s, true);
	}
	rcu_read_unlock();
}

static void stream_write_space(struct sock *sk)
{
	struct kiw_stream *s;
	bool ours;

	rcu_read_lock();
	s = stream_of_sk(sk);
	if (s && sk_stream_is_writeable(sk)) {
		clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		ours = callback_begin(s);
		kiw_stream_kick(s);
		if (ours)
			callback_end(s);
	}
	rcu_read_unlock();
}

static void stream_hook(struct kiw_stream *s)
{
	struct sock *sk = s->sk;

	write_lock_bh(&sk->sk_callback_lock);
	s->saved_data_ready = sk->sk_data_ready;
	s->saved_state_change = sk->sk_state_change;
	s->saved_write_space = sk->sk_write_space;
	rcu_assign_sk_user_data(sk, s);
	sk->sk_data_ready = stream_data_ready;
	sk->sk_state_change = stream_data_ready;
	sk->sk_write_space = stream_write_space;
	write_unlock_bh(&sk->sk_callback_lock);
}

static void stream_unhook(struct kiw_stream *s)
{
	struct sock *sk = s->sk;

	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	sk->sk_data_ready = s->saved_data_ready;
	sk->sk_state_change = s->saved_state_change;
	sk->sk_write_space = s->saved_write_space;
	write_unlock_bh(&sk->sk_callback_lock);
}

/* --- life ---------------------------------------------------------------------------------- */

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

static struct kiw_stream *stream_alloc(struct kiw_qp *qp, struct socket *sock,
				       const struct kiw_mpa_result *neg, bool first)
{
	u32 sges = qp->sq.max_sge + qp->rq.max_sge;
	size_t need = max(offsetof(struct kiw_stream, sge[sges]), sizeof(struct kiw_stream));
	/* What it is rounded up to is of use. */
	size_t size = kmalloc_size_roundup(need);
	struct kiw_stream *s = kzalloc(size, GFP_KERNEL_ACCOUNT);

	if (!s)
		return NULL;
	s->tx.req.sge = s->sge;
	s->recv.sge = s->sge + qp->sq.max_sge;
	if (kiw_reads_init(&s->tx.reads_out, &s->tx.reads_in, neg->ord, neg->ird, qp->sq.max_sge,
			   (void *)s + need, size - need)) {
		kfree(s);
		return NULL;
	}
	kref_init(&s->ref);
	s->sk = sock->sk;
	sock_hold(s->sk);
	s->dev = qp->dev;
	s->neg = *neg;
	s->async = IB_EVENT_QP_FATAL;
	INIT_DELAYED_WORK(&s->work, stream_work);
	s->tx.msn_send = KIW_MSN_FIRST;
	s->tx.msn_read = KIW_MSN_FIRST;
	s->tx.gate = first;
	if (first && neg->p2p)
		s->tx.rtr = neg->rtr;
	return s;
}

/*
 * With a CRC in use an FPDU waits in the socket until it is whole. The longest one has to find room
 * there, also where TCP's own limits are lower.
 */
static void stream_window(struct kiw_stream *s, struct socket *sock)
{
	struct sock *sk = s->sk;
	int space = tcp_space_from_win(sk, STREAM_WINDOW);

	if (sock->ops->set_rcvlowat)
		sock->ops->set_rcvlowat(sk, STREAM_WINDOW);
	if (!s->neg.crc || READ_ONCE(sk->sk_rcvbuf) >= space)
		return;
	sk->sk_userlocks |= SOCK_RCVBUF_LOCK;
	WRITE_ONCE(sk->sk_rcvbuf, space);
	WRITE_ONCE(tcp_sk(sk)->window_clamp, STREAM_WINDOW);
}

struct kiw_stream *kiw_stream_start(struct kiw_qp *qp, struct kiw_ep *ep, struct socket *sock,
				    const struct kiw_mpa_result *neg, bool first)
{
	struct kiw_stream *s = stream_alloc(qp, sock, neg, first);
	struct kiw_qp_step step;
	struct sock *sk;

	if (!s)
		return ERR_PTR(-ENOMEM);
	sk = s->sk;
	mutex_lock(&qp->mutex);
	step = kiw_qp_next(qp->state, KIW_EV_CONNECTED);
	if (!step.valid || qp->dying) {
		mutex_unlock(&qp->mutex);
		kiw_stream_put(s);
		return ERR_PTR(-EISCONN);
	}
	kiw_stream_lock(s);
	if (kiw_sock_taken(sk)) {
		kiw_stream_unlock(s);
		mutex_unlock(&qp->mutex);
		kiw_stream_put(s);
		return ERR_PTR(-EBUSY);
	}
	kiw_rx_init(s);
	/* The turn began before octets were counted. */
	s->turn = kiw_stream_received(s);
	/* Out-of-band octets are octets like all others. */
	sock_set_flag(sk, SOCK_URGINLINE);
	kiw_no_task_frag(sk);
	stream_window(s, sock);

	WRITE_ONCE(qp->state, step.next);
	qp->closed = false;
	qp->ird = neg->ird;
	qp->ord = neg->ord;
	s->tx.sent_index = qp->sq.next;
	s->tx.batch_index = qp->sq.next;
	s->qp = qp;
	s->ep = ep;
	kiw_ep_get(ep);
	kref_get(&s->ref);
	rcu_assign_pointer(qp->stream, s);
	stream_hook(s);
	/* What came in before the callbacks were ours. */
	stream_receive(s, false);
	kiw_stream_unlock(s);
	mutex_unlock(&qp->mutex);
	return s;
}

/* The QP leaves the stream: bring it to the state that it keeps. */
static void stream_detach_qp(struct kiw_stream *s, struct kiw_qp *qp, bool orderly)
{
	if (!orderly || qp->state == KIW_QP_TERMINATE)
		kiw_stream_event(s, KIW_EV_MODIFY_ERR);
	else
		kiw_stream_event(s, KIW_EV_CLOSE_DONE);
	if (s->todo & KIW_ACT_ABORT)
		stream_break(s);
	stream_flush(s);
	if (s->todo & KIW_ACT_ASYNC)
		raise_async(s);
	s->todo = 0;
	if (qp->state == KIW_QP_IDLE) {
		kiw_qp_open_rings(qp);
		qp->closed = true;
	}
	rcu_assign_pointer(qp->stream, NULL);
	s->qp = NULL;
}

void kiw_stream_stop(struct kiw_stream *s, bool orderly)
{
	struct kiw_ep *ep = NULL;
	struct kiw_qp *qp;

	own(s);
	qp = s->qp;
	if (qp)
		kref_get(&qp->ref);
	release_sock(s->sk);
	if (!qp)
		return;

	mutex_lock(&qp->mutex);
	own(s);
	if (s->qp) {
		kiw_rx_done(s);
		stream_unhook(s);
		stream_detach_qp(s, qp, orderly);
		ep = s->ep;
		s->ep = NULL;
	}
	release_sock(s->sk);
	mutex_unlock(&qp->mutex);
	kiw_qp_rem_ref(&qp->ibqp);

	if (cancel_delayed_work_sync(&s->work))
		kiw_stream_put(s);
	if (ep) {
		kiw_ep_put(ep);
		kiw_stream_put(s);	/* the QP's */
	}
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
