/* SPDX-License-Identifier: GPL-2.0 */
/* Completion queues. */
#ifndef KIWARP_CQ_H
#define KIWARP_CQ_H

#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "session/ring.h"

struct kiw_device;

/*
 * A completion queue. QPs use it without a reference: RDMA core keeps a CQ that a QP names.
 * @resizing: held while the ring is replaced; outside of @lock
 * @kernel: of a consumer in the kernel, which polls and arms under @lock; constant
 * @lock: protects all below and the slots; innermost, interrupts off: consumers may be called back,
 *	and poll, in any context
 * @prod: index of the next completion; the ring's copy is write-only
 * @cons: the process's index, read only if there seems to be no room, since the process writes
 *	beside it
 * @entries: power of two
 * @held: slots reserved by kiw_cq_hold()
 * @dead: overflowed; nothing is added any more
 * @timed: completions carry their time; constant
 * @count: completions per event
 * @period: microseconds that an event waits for them; @count and @period 0: no wait
 * @delayed: completions of a waiting event, or 0
 * @timer: runs while an event waits
 */
struct kiw_cq {
	struct ib_cq		ibcq;
	struct mutex		resizing;
	bool			kernel;
	spinlock_t		lock;
	struct kiw_ring_map	map;
	u32			prod;
	u32			cons;
	u32			entries;
	u32			held;
	bool			dead;
	bool			timed;
	u16			count;
	u16			period;
	u32			delayed;
	struct hrtimer		timer;
};

static inline struct kiw_cq *to_kiw_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct kiw_cq, ibcq);
}

/**
 * kiw_cq_add() - publish completions
 * @cq: completion queue
 * @cqe: completions, in order
 * @n: number of completions
 *
 * Publishes all by one store and notifies an armed consumer, perhaps later (kiw_modify_cq()). If
 * they do not all fit, adds those that do, kills the queue and raises IB_EVENT_CQ_ERR once. Any
 * context.
 *
 * Return: false: not all fit, and the QP must enter the error state.
 */
bool kiw_cq_add(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n);

/**
 * kiw_cq_hold() - reserve room for certain completions
 * @cq: completion queue
 * @n: number of completions
 *
 * For completions that peers cause without a request of the process. They get at most half of the
 * queue, counting present and reserved completions, to leave room for requests.
 *
 * Return: success; follow with kiw_cq_add_held() or kiw_cq_unhold().
 */
bool kiw_cq_hold(struct kiw_cq *cq, u32 n);

/** kiw_cq_unhold() - drop a reservation */
void kiw_cq_unhold(struct kiw_cq *cq, u32 n);

/** kiw_cq_add_held() - kiw_cq_add() of reserved completions */
bool kiw_cq_add_held(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n);

/** kiw_create_cq_common() - as ib_device_ops.create_cq; without @udata for the kernel */
int kiw_create_cq_common(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			 struct ib_udata *udata);

/**
 * kiw_poll_cq() - take completions
 * @ibcq: completion queue of a consumer in the kernel
 * @n: room at @wc
 * @wc: output
 *
 * Any context.
 *
 * Return: completions, at most @n; -EOPNOTSUPP: a process polls in its ring.
 */
int kiw_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc);

/**
 * kiw_req_notify_cq() - demand an event for the next completion
 * @ibcq: completion queue of a consumer in the kernel
 * @flags: IB_CQ_*; an earlier demand for any completion stays
 *
 * Any context.
 *
 * Return: 0; 1 with %IB_CQ_REPORT_MISSED_EVENTS if there are completions to poll; -EOPNOTSUPP: a
 * process arms its ring.
 */
int kiw_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/**
 * kiw_cq_purge() - drop completions of a queue pair that goes
 * @cq: completion queue of a consumer in the kernel
 * @ibqp: queue pair without further completions
 */
void kiw_cq_purge(struct kiw_cq *cq, const struct ib_qp *ibqp);

/**
 * kiw_resize_cq() - replace the ring of a completion queue
 * @ibcq: completion queue
 * @cqe: wanted entries
 * @udata: for &struct kiw_resize_cq_resp
 *
 * Completions may be added meanwhile. May sleep.
 *
 * Return: 0, -EINVAL for a number outside the limits or less than the queue holds, -ENOMEM,
 * -EFAULT; -EOPNOTSUPP for a consumer in the kernel.
 */
int kiw_resize_cq(struct ib_cq *ibcq, u32 cqe, struct ib_udata *udata);

/**
 * kiw_modify_cq() - set event moderation
 * @ibcq: completion queue
 * @count: completions per event
 * @period: microseconds that an event waits, from its first completion on; 0 in either: no wait
 *
 * Solicited completions and errors never wait, and no event waits for more than half of the queue.
 * A change ends the current wait.
 *
 * Return: 0.
 */
int kiw_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int kiw_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

#endif /* KIWARP_CQ_H */
