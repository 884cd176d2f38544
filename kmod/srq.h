/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared receive queues: connected QPs and datagram QPs of one process take their receive requests
 * out of one ring, each when a message begins. The completion goes to the QP's own CQ.
 *
 * A message that finds no request waits, as on a QP's own queue: its stream has a place in the line
 * of the queue. When the process posts and rings, as many streams as there are requests get the
 * right to one each, the one that has waited longest first. Nobody else takes these requests, so
 * that a stream that waits is not overtaken by others, however fast messages come to them.
 */
#ifndef KIWARP_SRQ_H
#define KIWARP_SRQ_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "session/rq.h"

/**
 * struct kiw_srq - a shared receive queue
 * @ibsrq: the part that RDMA core knows
 * @resizing: held while the ring is replaced; outside of @lock
 * @lock: protects all that follows, and struct kiw_srq_wait; taken with BH off, inside the socket
 *	lock of a stream or the lock of a datagram QP
 * @rq: ring
 * @limit: an event goes out, once, when fewer requests than this are posted; 0: none is wanted
 * @granted: streams that have the right to a request and have not taken it yet
 * @line: streams that wait for a right, in order
 * @dead: the ring's index was nonsense, and the process has been told
 *
 * QPs use it without a reference: RDMA core refuses to destroy an SRQ that a QP names.
 */
struct kiw_srq {
	struct ib_srq		ibsrq;
	struct mutex		resizing;
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
 * struct kiw_srq_wait - a stream's place in the line; the SRQ's lock protects it
 * @link: in &kiw_srq.line, or empty
 * @granted: a request is set aside for the stream
 * @wake: has the stream try again; called with the SRQ's lock held. The stream exists as long as
 *	it has a place or a right: it calls kiw_srq_leave() before it lets go of its QP
 */
struct kiw_srq_wait {
	struct list_head	link;
	bool			granted;
	void			(*wake)(struct kiw_srq_wait *wait);
};

/**
 * kiw_srq_take() - take a receive request for a message that begins
 * @srq: queue
 * @wait: where the stream stands in line if there is none; NULL: it doesn't wait
 * @req: gets the private, checked copy
 *
 * Softirq or process context, with no lock of an SRQ held. When it returns %KIW_TAKE_NONE,
 * @wait->wake() is called once there may be a request.
 *
 * Return: see enum kiw_take.
 */
enum kiw_take kiw_srq_take(struct kiw_srq *srq, struct kiw_srq_wait *wait,
			   struct kiw_recv_req *req);

/** kiw_srq_leave() - a stream takes no request any more; @wait->wake() isn't called from here on */
void kiw_srq_leave(struct kiw_srq *srq, struct kiw_srq_wait *wait);

/* Verbs; see struct ib_device_ops. */
int kiw_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr, struct ib_udata *udata);
int kiw_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata);
int kiw_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int kiw_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int kiw_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad);

#endif /* KIWARP_SRQ_H */
