/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One TCP connection in full operation: the socket's callbacks, the receive pump, the transmit
 * gate, and the orderly and the disorderly end.
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
#include "qp.h"
#include "srq.h"
#include "tx.h"
#include "proto/mpa.h"
#include "proto/receive.h"

/**
 * struct kiw_stream - see above
 * @sk: the connection's socket, reference held; the struct socket stays the endpoint's
 * @dev: device
 * @qp: attached QP, or NULL once the stream was stopped
 * @inbox: of the endpoint, reference held, or NULL once the stream was stopped
 * @neg: what the MPA start-up agreed on
 * @ref: references
 * @waiting: so many are about to take the socket lock; atomic
 * @todo: KIW_ACT_* that were put off to process context
 * @turn: bytes that had been received when the owner took the lock
 * @starving: a message has found no receive request, and waits for one until @starve_end
 * @starve_end: jiffies
 * @late: the work may be queued for a late time; a caller that needs it earlier moves it; atomic
 * @late_end: that time, in jiffies
 * @rx_more: the pump has to run again: its budget was used up, or TCP wasn't told of it all
 * @busy: the owner of the lock will settle before it lets go: no need for the work
 * @due: a callback asked for that meanwhile
 * @fin_sent: our direction is closed
 * @fin_received: the peer's direction is closed
 * @gone: the connection is over, by number, and what is under way fails at @gone_end
 * @gone_end: jiffies
 * @ended: the endpoint has been told that nothing more will come
 * @terminated: a Terminate was sent or received: there is none to send any more
 * @rx: receive machine
 * @rx_taken: bytes that the receive machine is through with, but TCP hasn't been told of
 * @rx_ended: a Send or Write among them has come to its end
 * @rx_bytes: all that was received, as &struct kiw_traffic counts it
 * @rx_fpdus: likewise
 * @rx_first: no FPDU has been delivered yet
 * @write_goes_on: the last segment of a Write wasn't the last of its message
 * @write_len: bytes of the last Write, of which the peer hasn't told the program yet
 * @tx: transmit side
 * @lend: registered pages that TCP has
 * @recv: the receive request of the Send under way
 * @srq_wait: place in the line of the QP's shared receive queue, if it has one
 * @async: asynchronous event to raise with KIW_ACT_ASYNC
 * @work: does what arose where nobody could: in the callback, or after a full socket. Holds a
 *	reference while queued.
 * @bell: looks after the stream in softirq, see kiw_stream_ring()
 * @retransmits: those that the device's counter has; it, and the next, under &kiw_stats.retransmits
 * @counted: the counter has all that this stream is to tell it
 * @saved_data_ready: the socket's own callbacks
 * @saved_state_change:
 * @saved_write_space:
 * @rcu: kiw_stream_of() looks before it holds a reference
 * @sge: for tx.req and recv
 *
 * Cache lines of their own have what hardly ever changes, what each owner of the lock writes, and
 * each direction: one CPU may send while another one receives.
 */
struct kiw_stream {
	struct sock		*sk;
	struct kiw_device	*dev;
	struct kiw_qp		*qp;
	struct kiw_inbox	*inbox;
	struct kiw_mpa_result	neg;

	struct kref		ref ____cacheline_aligned_in_smp;
	atomic_t		waiting;
	u32			todo;
	u32			turn;
	bool			rx_more;
	bool			starving;
	bool			late;
	unsigned long		late_end;
	unsigned long		starve_end;
	bool			busy;
	bool			due;
	bool			fin_sent;
	bool			fin_received;
	bool			gone;
	bool			ended;
	bool			terminated;
	unsigned long		gone_end;

	struct kiw_receive	rx ____cacheline_aligned_in_smp;
	u32			rx_taken;
	u64			rx_bytes;
	u64			rx_fpdus;
	bool			rx_first;
	bool			rx_ended;
	bool			write_goes_on;
	u32			write_len;
	struct kiw_tx		tx ____cacheline_aligned_in_smp;

	struct kiw_lend		lend;
	struct kiw_recv_req	recv;
	struct kiw_srq_wait	srq_wait;
	enum ib_event_type	async;
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

/** kiw_stream_of() - take a reference to the stream of a QP; NULL when it has none */
struct kiw_stream *kiw_stream_of(struct kiw_qp *qp);

/**
 * kiw_stream_event() - carry out a transition of the attached QP
 * @s: stream with a QP; socket lock held, any context
 * @event: what happened
 *
 * What needs process context is left in @s->todo for the owner that unlocks the stream, or for its
 * work.
 *
 * Return: whether the state allows for the event.
 */
bool kiw_stream_event(struct kiw_stream *s, enum kiw_qp_event event);

/**
 * kiw_stream_broken_off() - the connection is over, and something is under way
 * @s: stream with a QP; socket lock held, any context
 * @event: KIW_EV_LLP_LOST or KIW_EV_PEER_FIN_BUSY
 *
 * What is under way fails at once, but by number 2 s later, as retries take their time in
 * InfiniBand: a program that has all it wanted of its peer mostly ends before that.
 * Until then @s->gone is set, and nothing is sent or received.
 */
void kiw_stream_broken_off(struct kiw_stream *s, enum kiw_qp_event event);

/** kiw_stream_by_number() - the QP was connected by number; socket lock held */
static inline bool kiw_stream_by_number(const struct kiw_stream *s)
{
	return READ_ONCE(s->qp->by_number);
}

/** kiw_stream_received() - bytes of the stream that were taken so far; socket lock held */
static inline u32 kiw_stream_received(const struct kiw_stream *s)
{
	return tcp_sk(s->sk)->copied_seq + s->rx_taken - s->rx.origin;
}

/**
 * kiw_stream_queue() - have the work run soon; it takes a reference
 * @s: stream
 * @delay: jiffies until then, 0 or 1
 */
void kiw_stream_queue(struct kiw_stream *s, unsigned long delay);

/**
 * kiw_stream_queue_late() - have the work run at a time, or earlier
 * @s: stream, with @s->starving, @s->gone or @s->lend.ending set; socket lock held
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

/**
 * kiw_stream_fail() - a protocol or protection error: the peer gets a Terminate
 * @s: stream; socket lock held, any context
 * @err: what to report; the first error stays
 * @ulpdu: start of the offending segment, or NULL
 * @have: bytes at @ulpdu
 * @ulpdu_len: its ULPDU_Length
 */
void kiw_stream_fail(struct kiw_stream *s, enum kiw_err err, const u8 *ulpdu, u32 have,
		     u32 ulpdu_len);

#endif /* KIWARP_STREAM_H */
