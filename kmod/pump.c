// SPDX-License-Identifier: GPL-2.0
/*
 * The pump: threads and callbacks that run a stream.
 *
 * Callbacks hold the socket lock, in softirq or, from the backlog, in the owner's thread. They
 * receive and place. Resulting sends, flushes and closes stay in s->ss.todo or in the queues. The
 * owner carries them out before it unlocks, else the stream's work does.
 */
#include "pump.h"

#include <linux/sched/mm.h>
#include <net/tcp.h>

#include "compat.h"
#include "rx.h"
#include "stream.h"
#include "types.h"

/* Rounds of an owner before the work takes over, and batches in each */
#define PUMP_ROUNDS 8
#define PUMP_BATCHES 32
/* Bytes that an owner places before others take over */
#define PUMP_TURN (4U << 20)
/* Batches sent from a callback before the work takes over */
#define PUMP_CALLBACK_BATCHES 4
/* How long a flush waits for packets in queues of this host, jiffies */
#define PUMP_PATIENCE (10 * HZ)
/* Attempts to give TCP the rest of a batch at a break; each hands over a part */
#define PUMP_BREAK_ROUNDS 16

/* As kiw_tx_run(); a lost connection is broken off */
static bool pump_send(struct kiw_stream *s, int batches)
{
	bool more = kiw_tx_run(&s->ss, batches);

	if (s->ss.tx.lost) {
		s->ss.tx.lost = false;
		kiw_session_broken_off(&s->ss, KIW_EV_LLP_LOST);
	}
	return more;
}

/* --- receiving ----------------------------------------------------------------------------- */

/*
 * Complete requests without loans or pending acknowledgment. The last one may free an end or an
 * atomic.
 */
static void pump_take_back(struct kiw_stream *s)
{
	if (!kiw_tx_awaits(&s->ss))
		return;
	kiw_tx_take_back(&s->ss);
	if (kiw_tx_awaits(&s->ss))
		set_bit(SOCK_NOSPACE, &s->sk->sk_socket->flags);
	else if (s->ss.todo || s->fin_received || kiw_reads_in_len(&s->ss.tx.reads_in))
		s->due = true;
}

/* The peer lacks bytes that TCP took or, after the connection ended, may lack some. */
static bool pump_loses_sent(const struct kiw_stream *s)
{
	return s->lend.lost || (s->sk->sk_state == TCP_CLOSE && kiw_tx_awaits(&s->ss));
}

/*
 * Does the end of the connection interrupt anything? Programs that connect by number expect no word
 * of their peer's end, as with InfiniBand: posted requests that have not begun stay, until requests
 * have waited long enough (qp.c).
 */
static bool pump_unfinished(const struct kiw_stream *s)
{
	if (!s->ss.rx.between)
		return true;
	if (!kiw_core_manner(s->ss.core)->outlives)
		return kiw_tx_unfinished(&s->ss);
	return s->ss.recv.taken || kiw_tx_begun(&s->ss) || pump_loses_sent(s);
}

static void pump_lost(struct kiw_stream *s)
{
	pump_take_back(s);
	/* A reset answers bytes sent to a peer that was already gone: no news. */
	if (s->ss.core->state == KIW_QP_CLOSING && kiw_core_manner(s->ss.core)->outlives &&
	    !pump_loses_sent(s))
		kiw_session_event(&s->ss, KIW_EV_CLOSE_DONE);
	else
		kiw_session_broken_off(&s->ss, KIW_EV_LLP_LOST);
}

/* The peer closed its direction or, by number, reset the connection. */
static void pump_peer_gone(struct kiw_stream *s)
{
	s->fin_received = true;
	if (s->ss.core->state == KIW_QP_RTS)
		kiw_sq_rest(&s->ss.core->sq, 0);
	if (pump_unfinished(s))
		kiw_session_broken_off(&s->ss, KIW_EV_PEER_FIN_BUSY);
	else
		kiw_session_event(&s->ss, KIW_EV_PEER_FIN);
}

/* What the process posted before is sent before the end is judged, by pump_round(). */
static void pump_end_of_data(struct kiw_stream *s)
{
	if (s->ss.tx.gathers && s->ss.core->state == KIW_QP_RTS &&
	    kiw_sq_rest(&s->ss.core->sq, 0))
		s->rx_more = true;
	else
		pump_peer_gone(s);
}

/*
 * The grace of a connection by number is over, or nothing is pending any more: TCP may have sent
 * the rest while it handled the peer's FIN.
 */
static void pump_look_again(struct kiw_stream *s)
{
	unsigned long now = jiffies;

	s->rx_more = false;
	if (!s->sk->sk_err && !pump_unfinished(s))
		kiw_session_event(&s->ss, KIW_EV_PEER_FIN);
	else if (time_before(now, s->ss.gone_end))
		kiw_stream_queue_late(s, s->ss.gone_end - now);
	else
		kiw_session_broken_off(&s->ss, KIW_EV_LLP_LOST);
}

/*
 * TCP counts the whole backlog as used memory while it works on it, so it announces a small window.
 * If the queue is released too early, TCP announces no larger one, and the peer waits 200 ms for a
 * probe.
 */
static bool pump_window_is_small(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return 2 * tcp_receive_window(tp) <= READ_ONCE(tp->window_clamp);
}

/* Would TCP acknowledge at once if it got the received bytes back? */
static bool pump_ack_is_due(const struct sock *sk)
{
	return tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->rcv_wup > inet_csk(sk)->icsk_ack.rcv_mss;
}

/*
 * Release received bytes to TCP, which acknowledges once per poll of the interface: in softirq
 * after the poll, from the backlog when the owner has processed all of it.
 */
static void pump_give_back(struct kiw_stream *s, bool backlog)
{
	struct sock *sk = s->sk;

	if (!s->rx_taken || (backlog && s->busy))
		return;
	if (backlog && pump_window_is_small(sk)) {
		s->rx_more = true;
		kiw_stream_kick(s);
	} else if (!backlog && in_serving_softirq() && pump_ack_is_due(sk) &&
		   !pump_window_is_small(sk)) {
		kiw_stream_ring(s);
	} else {
		kiw_rx_done(s);
	}
}

/* Receive, from TCP's @backlog or not, and detect a break or close behind the bytes. */
static void pump_receive(struct kiw_stream *s, bool backlog)
{
	struct sock *sk = s->sk;

	if (s->ss.gone)
		return;
	s->rx_more = false;
	pump_take_back(s);
	kiw_rx_pump(s);
	pump_give_back(s, backlog);
	if (sk->sk_err &&
	    !(kiw_core_manner(s->ss.core)->outlives && s->ss.core->state == KIW_QP_RTS))
		pump_lost(s);
	else if ((sk->sk_shutdown & RCV_SHUTDOWN) && !s->fin_received && !s->rx_more &&
		 !kiw_receive_waits(&s->ss.rx))
		pump_end_of_data(s);
	else
		return;
	kiw_stream_kick(s);
}

/* --- what is due, in process context ------------------------------------------------------- */

/* Both directions may be closed by now. */
static void pump_check_closed(struct kiw_stream *s)
{
	if (s->fin_sent && s->fin_received && !s->ss.gone && !s->lend.lost &&
	    !kiw_tx_awaits(&s->ss) &&
	    (s->ss.core->state == KIW_QP_CLOSING || s->ss.core->state == KIW_QP_TERMINATE))
		kiw_session_event(&s->ss, KIW_EV_CLOSE_DONE);
}

static void pump_send_fin(struct kiw_stream *s)
{
	struct sock *sk = s->sk;

	s->fin_sent = true;
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | SEND_SHUTDOWN);
	sk->sk_prot->shutdown(sk, SEND_SHUTDOWN);
	if (s->inbox)
		kiw_inbox_post(s->inbox, KIW_INBOX_CLOSING);
}

/* Hand the rest of the batch and the Terminate to TCP, even if its send buffer is full. */
static void pump_push_all(struct kiw_stream *s)
{
	struct sock *sk = s->sk;
	int rounds = PUMP_BREAK_ROUNDS;

	/* Short of memory, TCP lowers the limit again and takes a segment per round. */
	do {
		WRITE_ONCE(sk->sk_sndbuf, INT_MAX);
		WRITE_ONCE(tcp_sk(sk)->notsent_lowat, U32_MAX);
		pump_send(s, 1);
	} while (kiw_tx_pending(&s->ss) && --rounds);
}

/*
 * Break off the connection with a FIN: TCP delivers the bytes that were reported as sent. The batch
 * goes too, so that the FIN is between FPDUs, and if work is left undone, a Terminate behind it, so
 * that this is no orderly end. The endpoint resets connections without a FIN: a responder sent
 * nothing before its peer began, or memory for the batch is missing.
 */
static void pump_break(struct kiw_stream *s)
{
	s->ss.todo &= ~(KIW_ACT_ABORT | KIW_ACT_SEND_FIN);
	if (s->fin_sent || !s->ss.tx.gate ||
	    !((1 << s->sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)))
		return;
	pump_push_all(s);
	if (!s->ss.terminated && !kiw_tx_pending(&s->ss) && kiw_tx_unfinished(&s->ss)) {
		kiw_session_terminate(&s->ss, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
		pump_push_all(s);
	}
	if (!kiw_tx_pending(&s->ss))
		pump_send_fin(s);
}

/*
 * TCP drops its send queues, which ends loans except packets in an interface's queue. The endpoint
 * resets the connection.
 */
static void pump_reset(struct kiw_stream *s)
{
	if (s->ss.core->state != KIW_QP_ERROR)
		kiw_stat_inc(&s->dev->stats, KIW_STAT_LLP_LOST);
	kiw_session_event(&s->ss, KIW_EV_LLP_LOST);
	s->fin_sent = false;
	kiw_rx_done(s);
	kiw_stream_count_retransmits(s, true);	/* TCP forgets them too */
	s->sk->sk_prot->disconnect(s->sk, 0);
	kiw_tx_drop(&s->ss);
}

/* Bytes of the batch that TCP took count as sent. The share of lent ones is unknown: mostly all. */
static bool pump_own_batch(struct kiw_stream *s)
{
	struct kiw_batch *b = &s->ss.tx.batch;
	u32 sent = b->sent, lent = min(b->lent, sent);
	struct kiw_loan *loan = b->loan;

	if (!loan)
		return true;
	if (!kiw_batch_own(b, s->sk->sk_allocation))
		return false;
	b->loan = NULL;
	kiw_batch_uncharge(b, s->sk);
	kiw_batch_charge(b, s->sk);	/* its bytes are copies now */
	kiw_tx_count(&s->ss, sent, lent, 0);
	kiw_loan_put(loan, sent);
	return true;
}

void kiw_pump_call_back(struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	/* Pages of a batch have only the region's references. */
	if (!(kiw_lend_copy(s) && pump_own_batch(s)) &&
	    (!(current->flags & PF_EXITING) || s->ss.tx.batch.loan))
		pump_reset(s);
	pump_take_back(s);
}

/*
 * A flush returns buffers to the process, so nobody may hold pages of them. TCP gives them up at
 * once; packets in queues of this host get some time. The end of the connection is reported
 * afterwards.
 */
static bool pump_may_end(struct kiw_stream *s)
{
	unsigned long now = jiffies;

	if (kiw_stream_lends(s) && !s->lend.ending) {
		s->lend.ending = true;
		s->lend.give_up = now + PUMP_PATIENCE;
		kiw_pump_call_back(s);
	}
	if (!kiw_stream_lends(s))
		return true;
	if (time_before(now, s->lend.give_up)) {
		kiw_stream_queue_late(s, s->lend.give_up - now);
		return false;
	}
	kiw_lend_leave(s);
	return true;
}

/* Report the end and return the buffers. */
static void pump_act_end(struct kiw_stream *s)
{
	if (s->ss.todo & KIW_ACT_FLUSH_SQ)
		kiw_core_flush_sq(s->ss.core);
	if ((s->ss.todo & KIW_ACT_CLOSED) && s->inbox && !s->ended) {
		kiw_inbox_post(s->inbox, KIW_INBOX_ENDED);
		s->ended = true;
	}
	s->ss.todo &= ~(KIW_ACT_FLUSH_SQ | KIW_ACT_CLOSED);
}

static bool pump_keeps_receives(const struct kiw_stream *s)
{
	return kiw_core_manner(s->ss.core)->outlives &&
	       (s->ss.core->state == KIW_QP_CLOSING || s->ss.core->state == KIW_QP_IDLE);
}

void kiw_pump_act(struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	if ((s->ss.todo & KIW_ACT_SEND_FIN) && !kiw_tx_pending(&s->ss)) {
		s->ss.todo &= ~KIW_ACT_SEND_FIN;
		pump_send_fin(s);
		pump_check_closed(s);
	}
	if (s->ss.todo & KIW_ACT_ABORT) {
		pump_break(s);
		kiw_tx_drop(&s->ss);
	}
	if ((s->ss.todo & KIW_ACT_FLUSH_RQ) && !pump_keeps_receives(s))
		kiw_rq_flush(&s->ss.core->rq, &s->ss.recv);
	if (s->ss.todo & KIW_ACT_ASYNC)
		kiw_qp_raise(s->ibqp, s->ss.async);
	if (s->ss.todo & KIW_ACT_LAST_WQE)
		kiw_qp_raise_last_wqe(s->ibqp);
	s->ss.todo &= ~(KIW_ACT_FLUSH_RQ | KIW_ACT_ASYNC | KIW_ACT_LAST_WQE);
	if ((s->ss.todo & (KIW_ACT_FLUSH_SQ | KIW_ACT_CLOSED)) && pump_may_end(s))
		pump_act_end(s);
}

void kiw_pump_send_gathered(struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	if (s->ss.tx.gathers && s->ss.core->state == KIW_QP_RTS)
		pump_send(s, PUMP_BATCHES);
	s->ss.tx.gathers = 0;
}

/* One round of pending work. Return: whether there is more. */
static bool pump_round(struct kiw_stream *s, int batches)
{
	bool more = false;

	s->due = false;
	pump_take_back(s);
	if (s->sk->sk_shutdown & RCV_SHUTDOWN)
		kiw_pump_send_gathered(s);
	/* A held message may have a receive request by now, or has waited long enough. */
	if (s->ss.gone)
		pump_look_again(s);
	else if (s->rx_more || kiw_receive_waits(&s->ss.rx))
		pump_receive(s, false);
	if (s->ss.core->state == KIW_QP_RTS || s->ss.core->state == KIW_QP_TERMINATE)
		more = pump_send(s, batches);
	kiw_rx_done(s);
	pump_check_closed(s);
	kiw_pump_act(s);
	return more || s->rx_more;
}

void kiw_pump_own(struct kiw_stream *s)
{
	atomic_inc(&s->waiting);
	lock_sock(s->sk);
	atomic_dec(&s->waiting);
	/* See the work that others left to us, since we were waiting. */
	smp_mb__after_atomic();
	/* TCP allocates, too. */
	if (s->kernel)
		s->noio = memalloc_noio_save();
}

void kiw_pump_disown(struct kiw_stream *s)
{
	unsigned int noio = s->noio;	/* the next owner has another */

	release_sock(s->sk);
	if (s->kernel)
		memalloc_noio_restore(noio);
}

void kiw_pump_lock(struct kiw_stream *s)
{
	kiw_pump_own(s);
	s->busy = true;
	s->turn = kiw_stream_received(s);
}

/* The socket lock is unfair: a loop that retakes it must yield to waiters. */
static bool pump_wanted(const struct kiw_stream *s)
{
	return atomic_read(&s->waiting) > 0;
}

/*
 * The backlog may grow as fast as the owner places it. After a turn, or with waiters, the rest
 * stays with TCP, and the closing window stops the peer.
 */
static bool pump_turn_over(const struct kiw_stream *s)
{
	return pump_wanted(s) || kiw_stream_received(s) - s->turn >= PUMP_TURN;
}

/*
 * Packets that arrive meanwhile wait in the backlog. Their callbacks may ask for another round;
 * s->busy keeps them from queueing the work.
 */
bool kiw_pump_settle(struct kiw_stream *s)
{
	int rounds = PUMP_ROUNDS;
	bool more = false;

	kiw_stream_assert_held(s);
	while (s->ibqp) {
		more = pump_round(s, PUMP_BATCHES);
		if (pump_turn_over(s))
			rounds = 1;
		if (!--rounds || (!sk_flush_backlog(s->sk) && !more && !s->due))
			break;
	}
	return s->ibqp && (more || s->due || !rounds);
}

/*
 * Consumers in the kernel post without a call of ours, often while a thread owns the socket. The
 * bell then came after the owner's last look: ring again rather than let the work wait for a tick.
 */
static void pump_ring_again(struct kiw_stream *s)
{
	if (!READ_ONCE(s->rung))
		return;
	WRITE_ONCE(s->rung, false);
	rcu_read_lock();
	if (READ_ONCE(s->ibqp))
		kiw_stream_ring_now(s);
	rcu_read_unlock();
}

void kiw_pump_unlock(struct kiw_stream *s)
{
	bool more = kiw_pump_settle(s);

	s->busy = false;
	if (s->ibqp && more)
		kiw_stream_queue(s, s->ss.tx.starved);
	kiw_pump_disown(s);
	pump_ring_again(s);
}

/*
 * Receiving changes the socket on another CPU. Prefetch its cache lines together; TCP would fetch
 * them one by one.
 */
static void pump_lock_to_send(struct kiw_stream *s)
{
	kiw_fetch_to_write(s->sk, sizeof(struct tcp_sock));
	kiw_pump_lock(s);
}

/* A send ring holds something new. In an idle QP the end of the stream finds it. */
static void pump_sq_doorbell(struct kiw_stream *s)
{
	if (s->ss.core->state == KIW_QP_CLOSING && !kiw_core_manner(s->ss.core)->outlives)
		kiw_session_event(&s->ss, KIW_EV_ACTIVITY);
	else if (s->ss.core->state == KIW_QP_ERROR)
		s->ss.todo |= KIW_ACT_FLUSH_SQ;
}

bool kiw_pump_doorbell(struct kiw_stream *s, bool send)
{
	bool attached;

	pump_lock_to_send(s);
	attached = s->ss.core;
	if (attached && send)
		pump_sq_doorbell(s);
	else if (attached && (s->ss.core->state == KIW_QP_ERROR ||
			      s->ss.core->state == KIW_QP_CLOSING))
		s->ss.todo |= KIW_ACT_FLUSH_RQ;
	kiw_pump_unlock(s);
	return attached;
}

/* Does a thread own the socket? It may itself wait for a CPU. */
static bool pump_owned(const struct kiw_stream *s)
{
	bool owned;

	local_bh_disable();
	bh_lock_sock(s->sk);
	owned = sock_owned_by_user(s->sk);
	bh_unlock_sock(s->sk);
	local_bh_enable();
	return owned;
}

/* Works of all users share a pool of threads: do not sleep for one user's thread. */
void kiw_pump_work(struct work_struct *work)
{
	struct kiw_stream *s = container_of(to_delayed_work(work), struct kiw_stream, work);

	if (pump_owned(s)) {
		kiw_stream_queue(s, 1);
	} else if (!pump_wanted(s)) {
		kiw_pump_lock(s);
		kiw_pump_unlock(s);
	}
	kiw_stream_put(s);
}

/* --- callbacks ----------------------------------------------------------------------------- */

/* The socket lock is held. Only its holder changes this, so sk_callback_lock is not needed. */
static struct kiw_stream *pump_stream_of(struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

/*
 * In softirq nobody else owns the socket, so responses and waiting requests are sent at once. The
 * work does all else. From the backlog, the owner does everything.
 */
static bool pump_callback_begin(struct kiw_stream *s)
{
	if (s->busy || sock_owned_by_user(s->sk))
		return false;
	s->busy = true;
	s->sk->sk_allocation = GFP_ATOMIC | __GFP_NOWARN;
	return true;
}

static void pump_callback_end(struct kiw_stream *s)
{
	bool due = s->due;

	s->due = false;
	if (due && !s->rx_more && s->ss.core->state == KIW_QP_RTS) {
		due = pump_send(s, PUMP_CALLBACK_BATCHES);
		/* The next ACK may come before the work gets a CPU. */
		if (due) {
			s->ss.tx.stuck = true;
			set_bit(SOCK_NOSPACE, &s->sk->sk_socket->flags);
		}
	}
	due |= s->due;
	s->sk->sk_allocation = kiw_stream_gfp(s);
	s->busy = false;
	if (due)
		kiw_stream_queue(s, 0);
}

void kiw_pump_bell(struct kiw_bh_work *work)
{
	struct kiw_stream *s = container_of(work, struct kiw_stream, bell);

	bh_lock_sock(s->sk);
	if (sock_owned_by_user(s->sk)) {
		WRITE_ONCE(s->rung, s->kernel);
		kiw_stream_queue(s, 1);	/* the owner may have settled already */
	} else if (s->ibqp && pump_callback_begin(s)) {
		kiw_rx_done(s);
		pump_take_back(s);
		s->due |= s->ss.core->state == KIW_QP_RTS && kiw_sq_posted(&s->ss.core->sq);
		pump_callback_end(s);
	}
	bh_unlock_sock(s->sk);
}

enum hrtimer_restart kiw_pump_gathered(struct hrtimer *timer)
{
	struct kiw_stream *s = container_of(timer, struct kiw_stream, gather.timer);

	bh_lock_sock(s->sk);
	if (s->ibqp && sock_owned_by_user(s->sk)) {
		kiw_gather_again(&s->gather);	/* the owner may have sent already */
	} else if (s->ibqp && pump_callback_begin(s)) {
		s->gather.over = true;
		s->due = true;
		pump_callback_end(s);
	}
	bh_unlock_sock(s->sk);
	return HRTIMER_NORESTART;
}

static void pump_data_ready(struct sock *sk)
{
	struct kiw_stream *s;

	rcu_read_lock();
	s = pump_stream_of(sk);
	if (s && pump_callback_begin(s)) {
		pump_receive(s, false);
		pump_callback_end(s);
	} else if (s && pump_turn_over(s)) {
		s->rx_more = true;
		kiw_stream_kick(s);
	} else if (s) {
		pump_receive(s, true);
	}
	rcu_read_unlock();
}

/* Is there something to send, or nothing to wait for? */
static bool pump_gathered(const struct kiw_stream *s)
{
	const struct tcp_sock *tp = tcp_sk(s->sk);

	return s->ss.tx.gathers &&
	       (kiw_sq_posted(&s->ss.core->sq) || tp->snd_una == tp->write_seq);
}

/*
 * TCP calls this for each ACK while SOCK_NOSPACE is set: while requests wait for one, or for loans,
 * which ACKs mostly end, and while the stream gathers.
 */
static void pump_write_space(struct sock *sk)
{
	struct kiw_stream *s;
	bool ours, acked, room;

	rcu_read_lock();
	s = pump_stream_of(sk);
	room = s && sk_stream_is_writeable(sk);
	if (room || (s && kiw_tx_awaits(&s->ss))) {
		if (room && !s->ss.tx.gathers)
			clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		acked = kiw_tx_acked(&s->ss);
		ours = pump_callback_begin(s);
		if (ours || acked)
			pump_take_back(s);
		if ((room && s->ss.tx.stuck) || (acked && s->due) || pump_gathered(s))
			kiw_stream_kick(s);
		if (ours)
			pump_callback_end(s);
	}
	rcu_read_unlock();
}

void kiw_pump_start(struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	pump_receive(s, false);
}

void kiw_pump_hook(struct kiw_stream *s)
{
	struct sock *sk = s->sk;

	kiw_stream_assert_held(s);
	write_lock_bh(&sk->sk_callback_lock);
	s->saved_data_ready = sk->sk_data_ready;
	s->saved_state_change = sk->sk_state_change;
	s->saved_write_space = sk->sk_write_space;
	rcu_assign_sk_user_data(sk, s);
	sk->sk_data_ready = pump_data_ready;
	sk->sk_state_change = pump_data_ready;
	sk->sk_write_space = pump_write_space;
	write_unlock_bh(&sk->sk_callback_lock);
}

void kiw_pump_unhook(struct kiw_stream *s)
{
	struct sock *sk = s->sk;

	kiw_stream_assert_held(s);
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	sk->sk_data_ready = s->saved_data_ready;
	sk->sk_state_change = s->saved_state_change;
	sk->sk_write_space = s->saved_write_space;
	write_unlock_bh(&sk->sk_callback_lock);
}
