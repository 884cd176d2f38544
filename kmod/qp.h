/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue pairs.
 *
 * Locks, outermost first:
 *	kiw_qp.mutex	attach and detach of the stream, and everything while there is none
 *	socket lock	of the stream: all of kiw_qp.sq, .rq, .state while it is attached, and all
 *			of struct kiw_stream; as owner in process context, as bh_lock_sock in TCP's
 *			callbacks
 *	kiw_srq.lock	one shared receive queue
 *	kiw_cq.lock	one completion queue
 * Besides, kiw_qp.sq_lock and .rq_lock, with interrupts off, order the posts of a consumer in the
 * kernel; nothing else is locked meanwhile.
 *
 * "The QP is held" below means: socket lock if a stream is attached, else the mutex. Datagram QPs
 * never have a stream; see ud.h for theirs.
 *
 * References (kiw_qp.ref): the verbs object, iw_cm between iw_get_qp and iw_rem_ref, the bound
 * endpoint. The number leaves the table before the first is dropped. kiw_destroy_qp() waits for the
 * last.
 */
#ifndef KIWARP_QP_H
#define KIWARP_QP_H

#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "types.h"
#include "inbox.h"
#include "peer.h"
#include "session/session.h"

struct kiw_stream;
struct kiw_ud;

/**
 * struct kiw_qp - a queue pair
 * @ibqp: RDMA core's part
 * @dev: device
 * @core: part for its sessions; its own.access and manner change under @mutex, all else
 *	while the QP is held
 * @ref: see above
 * @dying: being destroyed, accepts no connection, and @core may be freed; protected by @mutex
 * @asked: rights that the program set last; protected by @mutex
 * @mutex: see above
 * @stream: connection in full operation; changed with @mutex and socket lock held, read under RCU
 *	to take a reference
 * @ud: part of a datagram QP, in place of @inbox; set while the QP can be found
 * @inbox: of the endpoint that connects or serves this QP, reference held; protected by @mutex
 * @owner: thread group that created the QP, and alone may connect it; NULL: a consumer in the
 *	kernel, which connects it by the rdma_cm id that made it
 * @peer: QP to connect to by number; see struct kiw_peer
 * @by_number: @peer is valid; changed under @mutex
 * @closed: idle after an orderly close, so that another close succeeds; the QP is held
 * @sig_all: each request completes with an entry; constant; this and the rest without @owner
 * @sq_lock: protects the consumer's side of the send ring; any context, as the next
 * @rq_lock: protects the consumer's side of the receive ring
 * @rung: doorbells to run, bits of enum kiw_rung; atomic
 * @doorbell: runs them; its posts come from contexts that cannot
 */
struct kiw_qp {
	struct ib_qp			ibqp;
	struct kiw_device		*dev;
	struct kiw_core			*core;
	refcount_t			ref;
	bool				dying;
	u8				asked;
	struct mutex			mutex;
	struct kiw_stream __rcu		*stream;
	union {
		struct kiw_inbox	*inbox;
		struct kiw_ud		*ud;
	};

	struct kiw_peer			*peer;
	struct pid			*owner;
	bool				by_number;
	bool				closed;

	bool				sig_all;
	spinlock_t			sq_lock;
	spinlock_t			rq_lock;
	unsigned long			rung;
	struct work_struct		doorbell;
};

enum kiw_rung {
	KIW_RUNG_SEND,
	KIW_RUNG_RECV,
};

static inline struct kiw_qp *to_kiw_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct kiw_qp, ibqp);
}

static inline bool kiw_qp_is_ud(const struct kiw_qp *qp)
{
	return qp->ibqp.qp_type == IB_QPT_UD;
}

/** kiw_qp_is_kernel() - does a consumer in the kernel own it */
static inline bool kiw_qp_is_kernel(const struct kiw_qp *qp)
{
	return qp->core->own.kernel;
}

static inline void kiw_qp_get(struct kiw_qp *qp)
{
	refcount_inc(&qp->ref);
}

static inline void kiw_qp_put(struct kiw_qp *qp)
{
	/* A waiter may free the QP now: use only the address. */
	if (refcount_dec_and_test(&qp->ref)) {
		smp_mb__after_atomic();	/* required by wake_up_var() */
		wake_up_var(&qp->ref);
	}
}

/**
 * kiw_qp_is_over() - are posted requests flushed at once
 * @qp: QP, held
 *
 * After an orderly close the process may not know of it yet, and may wait for its requests. By
 * number they wait for another connection.
 *
 * Return: true: in error, or closed in order and not by number.
 */
static inline bool kiw_qp_is_over(const struct kiw_qp *qp)
{
	return qp->core->state == KIW_QP_ERROR ||
	       (qp->core->state == KIW_QP_IDLE && qp->closed && !qp->by_number);
}

/* kiw_qp_await_peer() - start the time to wait for the peer at the first request; mutex held */
static inline void kiw_qp_await_peer(struct kiw_qp *qp)
{
	unsigned long patience = kiw_peer_patience(qp->peer);
	struct kiw_peer *peer = qp->peer;

	lockdep_assert_held(&qp->mutex);
	if (peer->patient || !patience)
		return;
	peer->patient = true;
	peer->deadline = jiffies + patience;
	kiw_inbox_queue_late(&peer->late, patience);
}

/* Verbs and iw_cm operations; see struct ib_device_ops. */
int kiw_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int kiw_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int kiw_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
void kiw_qp_add_ref(struct ib_qp *ibqp);
void kiw_qp_rem_ref(struct ib_qp *ibqp);
/** kiw_get_qp() - as ib_device_ops.iw_get_qp; of the kernel's, kiw_ep_bind_qp() checks the user */
struct ib_qp *kiw_get_qp(struct ib_device *ibdev, int qpn);

/**
 * kiw_qp_modify() - modify a connected QP, as ib_device_ops.modify_qp
 * @qp: QP
 * @attr: new attributes
 * @mask: IB_QP_* of @attr, without address and number of a peer
 * @peer: for a change to RTR, the QP to connect to, or NULL; members that come with @attr may be
 *	unset
 *
 * Return: 0, -EINVAL or -EOPNOTSUPP for an invalid change, or -ENOMEM.
 */
int kiw_qp_modify(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask,
		  const struct kiw_peer *peer);

/**
 * kiw_qp_check() - check a kiw_qp_modify() as far as the connection's state does not matter
 * @qp: QP
 * @attr: new attributes
 * @mask: IB_QP_* of @attr
 *
 * Return: 0 or its error.
 */
int kiw_qp_check(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask);

/**
 * kiw_qp_doorbell() - the process posted to a connected QP
 * @qp: QP
 * @send: to the send ring, else the receive ring
 *
 * Return: 0, or -EINVAL: this state forbids posting.
 */
int kiw_qp_doorbell(struct kiw_qp *qp, bool send);

/**
 * kiw_qp_give_up() - give up the connection to the named peer
 * @qp: QP
 *
 * By number and without a stream, the QP enters the error state with IB_EVENT_QP_FATAL; its oldest
 * request fails as for missing acknowledgments, and its endpoint ends.
 */
void kiw_qp_give_up(struct kiw_qp *qp);

/**
 * kiw_qp_find() - look up a process's connected QP by number
 * @dev: device
 * @qpn: number
 *
 * Return: the QP, referenced for the caller, or NULL; those of the kernel are not found.
 */
struct kiw_qp *kiw_qp_find(struct kiw_device *dev, u32 qpn);

/**
 * kiw_qp_next_of() - walk the QPs of a device
 * @dev: device
 * @qpn: in: first number; out: number after the QP
 *
 * Return: the next QP, referenced for the caller, or NULL.
 */
struct kiw_qp *kiw_qp_next_of(struct kiw_device *dev, unsigned long *qpn);

/**
 * kiw_qp_bind() - reserve an idle QP for a connection attempt
 * @qp: QP
 * @inbox: of the endpoint; on success the QP holds a reference to it
 * @by_number: the attempt is by number
 *
 * While reserved, the QP accepts no other peer.
 *
 * Return: 0, or -EISCONN: it has an endpoint, is not idle, or connects the other way.
 */
int kiw_qp_bind(struct kiw_qp *qp, struct kiw_inbox *inbox, bool by_number);

/**
 * kiw_qp_unbind() - end an attempt or connection
 * @qp: QP
 * @inbox: of the endpoint; if the QP still refers to it, drops that reference
 */
void kiw_qp_unbind(struct kiw_qp *qp, struct kiw_inbox *inbox);

#endif /* KIWARP_QP_H */
