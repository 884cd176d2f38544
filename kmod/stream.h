/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One TCP connection in full operation: a session and its socket (carrier.c). The socket lock
 * protects struct kiw_stream. References: the endpoint that started it, the QP while attached, and
 * callers that took one through the QP.
 */
#ifndef KIWARP_STREAM_H
#define KIWARP_STREAM_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "gather.h"
#include "inbox.h"
#include "lend.h"
#include "srq.h"
#include "types.h"
#include "session/session.h"

/*
 * One connection.
 * @sk: reference held; its struct socket is the endpoint's
 * @ibqp, @inbox: attached QP, and inbox of the endpoint, reference held; NULL after the stream
 *	stopped
 * @waiting: threads that wait for the socket lock; atomic
 * @noio: of a kernel QP: the owner's scope for allocations, to restore
 * @turn: bytes received when the owner took the lock
 * @starve_end: when a message stops waiting for a receive request; jiffies
 * @late: the work may be queued for later; a caller that needs it earlier moves it; atomic
 * @late_end: that time, jiffies
 * @rx_more: run the pump again: its budget was used up, or TCP was not told of all bytes
 * @busy: the owner will settle before it unlocks: don't queue the work
 * @kernel: of a queue pair of the kernel; constant
 * @rung: the bell found an owner, which rings it again after unlocking
 * @due: a callback asked for a round
 * @fin_sent, @fin_received: our and the peer's direction are closed
 * @ended: the endpoint was told of the end
 * @ss: session; no other lock
 * @rx_taken: processed bytes not yet released to TCP
 * @rx_bytes, @rx_fpdus: received, as in &struct kiw_traffic
 * @gather: posts without doorbells
 * @srq_wait: place in the line of the QP's SRQ
 * @work: work item for actions that need process context; holds a reference while queued
 * @bell: work in softirq, see kiw_stream_ring()
 * @retransmits: counted by the device; like @counted under &kiw_stats.retransmits
 * @counted: nothing more to count
 * @saved_data_ready: the socket's own callbacks
 * @rcu: for kiw_stream_find()
 */
struct kiw_stream {
	struct sock		*sk;
	struct kiw_device	*dev;
	struct ib_qp		*ibqp;
	struct kiw_inbox	*inbox;
	void			(*saved_data_ready)(struct sock *sk);
	void			(*saved_state_change)(struct sock *sk);
	void			(*saved_write_space)(struct sock *sk);
	bool			kernel;

	struct kref		ref ____cacheline_aligned_in_smp;
	atomic_t		waiting;
	unsigned int		noio;
	u32			turn;
	bool			rx_more;
	bool			late;
	bool			rung;
	bool			busy;
	bool			due;
	bool			fin_sent;
	bool			fin_received;
	bool			ended;
	bool			counted;
	u32			retransmits;
	unsigned long		late_end;
	unsigned long		starve_end;
	u32			rx_taken;
	u64			rx_bytes;
	u64			rx_fpdus;

	struct kiw_lend		lend;
	struct kiw_gather	gather;
	struct kiw_srq_wait	srq_wait;
	struct delayed_work	work;
	struct kiw_bh_work	bell;
	struct rcu_head		rcu;

	struct kiw_session	ss;
};

/** kiw_stream_alloc() - memory of a stream, zeroed, or NULL */
struct kiw_stream *kiw_stream_alloc(void);

/** kiw_stream_free() - free it, if nobody could ever find the stream */
void kiw_stream_free(struct kiw_stream *s);

void kiw_stream_put(struct kiw_stream *s);

/** kiw_stream_find() - take a reference to the stream at @where, or NULL */
struct kiw_stream *kiw_stream_find(struct kiw_stream __rcu **where);

static inline struct kiw_stream *kiw_stream_of_session(struct kiw_session *s)
{
	return container_of(s, struct kiw_stream, ss);
}

static inline const struct kiw_stream *kiw_stream_of_session_const(const struct kiw_session *s)
{
	return container_of(s, struct kiw_stream, ss);
}

/** kiw_stream_gfp() - flags for allocations of an owner */
static inline gfp_t kiw_stream_gfp(const struct kiw_stream *s)
{
	/* Writeback may wait for the very stream of a consumer in the kernel. */
	return s->kernel ? GFP_NOIO : GFP_KERNEL;
}

/** kiw_stream_received() - bytes processed so far; socket lock held */
static inline u32 kiw_stream_received(const struct kiw_stream *s)
{
	return tcp_sk(s->sk)->copied_seq + s->rx_taken - s->ss.rx.origin;
}

/** kiw_stream_queue() - queue the work, with a reference; @delay 0 or 1 jiffies */
void kiw_stream_queue(struct kiw_stream *s, unsigned long delay);

/**
 * kiw_stream_queue_late() - run the work after @delay, or earlier
 * @s: stream, with @s->ss.starving, @s->ss.gone or @s->lend.ending set; socket lock held
 * @delay: jiffies
 */
void kiw_stream_queue_late(struct kiw_stream *s, unsigned long delay);

/** kiw_stream_later() - queue another work of the module; any context */
void kiw_stream_later(struct work_struct *work);

void kiw_stream_wake(struct kiw_srq_wait *wait);

/**
 * kiw_stream_ring() - ring the bell: look after the stream in softirq, soon
 * @s: stream with a QP; any context, even with the socket lock held
 *
 * Releases received bytes to TCP, ends loans, sends posted requests. If a thread owns the socket,
 * that thread or the work does so.
 */
static inline void kiw_stream_ring(struct kiw_stream *s)
{
	kiw_bh_work_queue(&s->bell);
}

/**
 * kiw_stream_ring_now() - ring the bell, and let it run at once if this context allows softirqs
 * @s: stream with a QP of the kernel; any context, without the socket lock, under RCU
 *
 * Otherwise a thread would have to wake up for it. kiw_stream_stop() waits for the caller.
 */
void kiw_stream_ring_now(struct kiw_stream *s);

/** kiw_stream_assert_held() - assert the socket lock, held by an owner or by TCP */
static inline void kiw_stream_assert_held(const struct kiw_stream *s)
{
	sock_owned_by_me(s->sk);
}

/** kiw_stream_lends() - are loans outstanding; socket lock held */
static inline bool kiw_stream_lends(const struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	return !list_empty(&s->lend.loans);
}

/** kiw_stream_count_retransmits() - count new ones; @last: the last call; process context */
void kiw_stream_count_retransmits(struct kiw_stream *s, bool last);

/** kiw_stream_kick() - schedule pending work: the current owner, or the work; socket lock held */
void kiw_stream_kick(struct kiw_stream *s);

int kiw_stream_init(void);
void kiw_stream_exit(void);

#endif /* KIWARP_STREAM_H */
