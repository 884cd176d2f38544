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

/**
 * struct kiw_cq - a completion queue
 * @ibcq: the part that RDMA core knows
 * @resizing: held while the ring is replaced; outside of @lock
 * @lock: protects all that follows and the slots; innermost, taken with interrupts off, because
 *	consumers may be called back, and poll, in any context
 * @map: the ring's memory and its mapping
 * @prod: index of the next completion; the ring's copy is only written
 * @cons: of the process, as seen when there was no room; not looked at as long as there is, for the
 *	process writes beside it
 * @entries: slots, a power of two
 * @held: slots for completions that are certain to come, see kiw_cq_hold()
 * @dead: overflowed; nothing is added any more
 * @timed: completions have their time; never changes
 * @count: completions that one event is for, and
 * @period: microseconds that it waits for them; both 0 where events don't wait
 * @delayed: completions that an event waits with, 0 if none waits
 * @timer: runs while an event waits
 *
 * QPs use it without a reference: RDMA core refuses to destroy a CQ that a QP names.
 */
struct kiw_cq {
	struct ib_cq		ibcq;
	struct mutex		resizing;
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
 * @n: how many
 *
 * One store publishes all of them, then a consumer that armed the queue is notified, or later, see
 * kiw_modify_cq(). Where they don't all fit, the first that do are added, the queue is dead and
 * IB_EVENT_CQ_ERR goes out once. Any context.
 *
 * Return: whether all were added; false means that the QP has to go to the error state.
 */
bool kiw_cq_add(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n);

/**
 * kiw_cq_hold() - keep room for completions that are certain to come
 * @cq: completion queue
 * @n: how many
 *
 * What peers cause without a request of the process gets half of the queue, so that it can't leave
 * too little for the requests: refused when the completions that are there, and those that room is
 * kept for, would be more.
 *
 * Return: whether there is room. kiw_cq_add_held() or kiw_cq_unhold() has to follow.
 */
bool kiw_cq_hold(struct kiw_cq *cq, u32 n);

/** kiw_cq_unhold() - the completions won't come */
void kiw_cq_unhold(struct kiw_cq *cq, u32 n);

/** kiw_cq_add_held() - as kiw_cq_add(), for completions that room was kept for */
bool kiw_cq_add_held(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n);

int kiw_create_cq_common(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			 struct ib_udata *udata);

/**
 * kiw_resize_cq() - give a completion queue another ring
 * @ibcq: completion queue
 * @cqe: entries that the process wants
 * @udata: of the call, for a &struct kiw_resize_cq_resp
 *
 * Completions may come meanwhile. May sleep.
 *
 * Return: 0, -EINVAL for a number outside the limits or less than the queue holds, -ENOMEM,
 * -EFAULT.
 */
int kiw_resize_cq(struct ib_cq *ibcq, u32 cqe, struct ib_udata *udata);

/**
 * kiw_modify_cq() - have events wait for further completions
 * @ibcq: completion queue
 * @count: completions that one event is for
 * @period: microseconds that an event waits for them, from the first one on; with either 0, none
 *	waits
 *
 * Only the event for what is neither solicited nor an error waits, and no longer than until as many
 * completions have come as half of the queue holds. A change ends a wait that is under way.
 *
 * Return: 0.
 */
int kiw_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int kiw_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

#endif /* KIWARP_CQ_H */
