/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared receive queues: QPs of one user take receive requests from one ring, each when a
 * message begins. Completions go to the QP's own CQ.
 *
 * A message without a request waits, as on a QP's own queue, and its stream stands in the line of
 * the SRQ. When the process posts and rings, the first streams in line get a right to one request
 * each. Nobody else takes these requests, so faster streams cannot overtake a waiting one.
 */
#ifndef KIWARP_SRQ_H
#define KIWARP_SRQ_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "session/rq.h"

/*
 * A shared receive queue. QPs use it without a reference: RDMA core keeps an SRQ that a QP names.
 * @resizing: held while the ring is replaced; outside of @lock
 * @kernel: of a consumer in the kernel, which posts under @lock; constant
 * @lock: protects all below and struct kiw_srq_wait; interrupts off, since consumers post in any
 *	context; inside a stream's socket lock or a datagram QP's lock
 * @limit: raise one event when fewer requests are posted; 0: none
 * @granted: streams with an unused right
 * @line: streams that wait for a right, in order
 * @dead: the ring's index was nonsense, and the process was told
 */
struct kiw_srq {
	struct ib_srq		ibsrq;
	struct mutex		resizing;
	bool			kernel;
	spinlock_t		lock;
	struct kiw_rq		rq;
	u32			limit;
	u32			granted;
	struct list_head	line;
	bool			dead;
};

static inline struct kiw_srq *to_kiw_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct kiw_srq, ibsrq);
}

/**
 * struct kiw_srq_wait - a stream's place in line; protected by the SRQ's lock
 * @link: in &kiw_srq.line, or empty
 * @granted: a request is reserved for the stream
 * @wake: makes the stream try again; called with the SRQ's lock held. A stream with a place or a
 *	right exists: it calls kiw_srq_leave() before it drops its QP
 */
struct kiw_srq_wait {
	struct list_head	link;
	bool			granted;
	void			(*wake)(struct kiw_srq_wait *wait);
};

/**
 * kiw_srq_take() - take a receive request for a new message
 * @srq: queue
 * @wait: place in line, or NULL: don't wait
 * @req: gets the private, checked copy
 *
 * Softirq or process context, without a lock of an SRQ. After %KIW_TAKE_NONE, @wait->wake() is
 * called when there may be a request.
 *
 * Return: enum kiw_take.
 */
enum kiw_take kiw_srq_take(struct kiw_srq *srq, struct kiw_srq_wait *wait,
			   struct kiw_recv_req *req);

/** kiw_srq_leave() - leave the line; @wait->wake() is not called afterwards */
void kiw_srq_leave(struct kiw_srq *srq, struct kiw_srq_wait *wait);

/** kiw_srq_grant() - give rights to the streams in line, one per request; @srq->lock is held */
void kiw_srq_grant(struct kiw_srq *srq);

/** kiw_srq_doorbell() - run the doorbell of a process, for which streams wait */
void kiw_srq_doorbell(struct kiw_srq *srq);

/* Verbs of struct ib_device_ops */
int kiw_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr, struct ib_udata *udata);
int kiw_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata);
int kiw_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int kiw_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);

#endif /* KIWARP_SRQ_H */
