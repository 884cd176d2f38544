/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One TCP connection in full operation: a session, and the socket that carries it (carrier.c).
 *
 * Everything in struct kiw_stream is protected by the socket lock. References: the endpoint that
 * started it, the QP while it is attached, a caller that took one through the QP.
 */
#ifndef KIWARP_STREAM_H
#define KIWARP_STREAM_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "inbox.h"
#include "lend.h"
#include "srq.h"
#include "types.h"
#include "session/session.h"

/**
 * struct kiw_stream - see above
 * @sk: the connection's socket, reference held; the struct socket stays the endpoint's
 * @dev: device
 * @ibqp: attached QP, or NULL once the stream was stopped
 * @inbox: of the endpoint, reference held, or NULL once the stream was stopped
 * @ref: references
 * @waiting: so many are about to take the socket lock; atomic
 * @turn: bytes that had been received when the owner took the lock
 * @starve_end: until when a message waits for a receive request; jiffies
 * @late: the work may be queued for a late time; a caller that needs it earlier moves it; atomic
 * @late_end: that time, in jiffies
 * @rx_more: the pump has to run again: its budget was used up, or TCP wasn't told of it all
 * @busy: the owner of the lock will settle before it lets go: no need for the work
 * @due: a callback asked for that meanwhile
 * @fin_sent: our direction is closed
 * @fin_received: the peer's direction is closed
 * @ended: the endpoint has been told that nothing more will come
 * @ss: the session; no other lock protects it
 * @rx_taken: bytes that the receive machine is through with, but TCP hasn't been told of
 * @rx_bytes: all that was received, as &struct kiw_traffic counts it
 * @rx_fpdus: likewise
 * @lend: registered pages that TCP has
 * @srq_wait: place in the line of the QP's shared receive queue, if it has one
 * @work: does what arose where nobody could: in the callback, or after a full socket. Holds a
 *	reference while queued.
 * @bell: looks after the stream in softirq, see kiw_stream_ring()
 * @retransmits: those that the device's counter has; it, and the next, under &kiw_stats.retransmits
 * @counted: the counter has all that this stream is to tell it
 * @saved_data_ready: the socket's own callbacks
 * @saved_state_change:
 * @saved_write_space:
 * @rcu: kiw_stream_find() looks before it holds a reference
 * @sge: for the session's requests
 *
 * Cache lines of their own have what hardly ever changes, and what each owner of the lock writes.
 */
struct kiw_stream {
	struct sock		*sk;
	struct kiw_device	*dev;
	struct ib_qp		*ibqp;
	struct kiw_inbox	*inbox;

	struct kref		ref ____cacheline_aligned_in_smp;
	atomic_t		waiting;
	u32			turn;
	bool			rx_more;
	bool			late;
	bool			busy;
	bool			due;
	bool			fin_sent;
	bool			fin_received;
	bool			ended;
	unsigned long		late_end;
	unsigned long		starve_end;
	u32			rx_taken;
	u64			rx_bytes;
	u64			rx_fpdus;

	struct kiw_session	ss;

	struct kiw_lend		lend;
	struct kiw_srq_wait	srq_wait;
	struct delayed_work	work;
	struct kiw_bh_work	bell;
	u32			retransmits;
	bool			counted;
	void			(*saved_data_ready)(struct sock *sk);
	void			(*saved_state_change)(struct sock *sk);
	void			(*saved_write_space)(struct sock *sk);
	struct rcu_head		rcu;
	struct kiw_sge		sge[];
};

void kiw_stream_put(struct kiw_stream *s);

/** kiw_stream_find() - take a reference to the stream that @where points to, or NULL */
struct kiw_stream *kiw_stream_find(struct kiw_stream __rcu **where);

/** kiw_stream_of_session() - the stream that a session is part of */
static inline struct kiw_stream *kiw_stream_of_session(struct kiw_session *s)
{
	return container_of(s, struct kiw_stream, ss);
}

/** kiw_stream_of_session_const() - the same */
static inline const struct kiw_stream *kiw_stream_of_session_const(const struct kiw_session *s)
{
	return container_of(s, struct kiw_stream, ss);
}

/** kiw_stream_received() - bytes of the stream that were taken so far; socket lock held */
static inline u32 kiw_stream_received(const struct kiw_stream *s)
{
	return tcp_sk(s->sk)->copied_seq + s->rx_taken - s->ss.rx.origin;
}

/**
 * kiw_stream_queue() - have the work run soon; it takes a reference
 * @s: stream
 * @delay: jiffies until then, 0 or 1
 */
void kiw_stream_queue(struct kiw_stream *s, unsigned long delay);

/**
 * kiw_stream_queue_late() - have the work run at a time, or earlier
 * @s: stream, with @s->ss.starving, @s->ss.gone or @s->lend.ending set; socket lock held
 * @delay: jiffies until then
 */
void kiw_stream_queue_late(struct kiw_stream *s, unsigned long delay);

/** kiw_stream_later() - have a work run that isn't a stream's; any context */
void kiw_stream_later(struct work_struct *work);

/** kiw_stream_wake() - &kiw_srq_wait.wake of a stream */
void kiw_stream_wake(struct kiw_srq_wait *wait);

/**
 * kiw_stream_ring() - have the stream looked after in softirq, soon
 * @s: stream with a QP; any context, also with the socket lock held
 *
 * What was taken is given back to TCP, loans that are over are taken back, and what is posted is
 * sent. Where a thread has the socket, it does so, or else the work.
 */
static inline void kiw_stream_ring(struct kiw_stream *s)
{
	kiw_bh_work_queue(&s->bell);
}

/** kiw_stream_assert_held() - the socket lock is held, by an owner or by TCP */
static inline void kiw_stream_assert_held(const struct kiw_stream *s)
{
	sock_owned_by_me(s->sk);
}

/** kiw_stream_lends() - are there loans that were not taken back; socket lock held */
static inline bool kiw_stream_lends(const struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	return !list_empty(&s->lend.loans);
}

/**
 * kiw_stream_count_retransmits() - add what TCP has sent again since the last call to the counter
 * @s: stream; process context, socket locked or not
 * @last: the stream ends: no later call adds anything, and @s->retransmits doesn't change any more
 */
void kiw_stream_count_retransmits(struct kiw_stream *s, bool last);

/** kiw_stream_kick() - have somebody do what is due soon; socket lock held, any context */
void kiw_stream_kick(struct kiw_stream *s);

int kiw_stream_init(void);
void kiw_stream_exit(void);

#endif /* KIWARP_STREAM_H */
