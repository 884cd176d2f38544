/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue pairs.
 *
 * Locks, outermost first:
 *   kiw_qp.mutex        attach and detach of the stream, and everything while there is none
 *   socket lock         of the stream: all of kiw_qp.sq, .rq, .state while it is attached, and
 *                       all of struct kiw_stream; taken as owner in process context, as
 *                       bh_lock_sock by TCP when it calls back
 *   kiw_srq.lock        one shared receive queue
 *   kiw_cq.lock         one completion queue
 * "The QP is held" below means: socket lock if a stream is attached, else the mutex. Datagram QPs
 * never have a stream; ud.h says what it means for theirs.
 *
 * References (kiw_qp.ref): the verbs object, iw_cm between iw_get_qp and iw_rem_ref, the endpoint
 * that has the QP. The number is taken out of the table before the first is dropped.
 * kiw_destroy_qp() waits for the last.
 */
#ifndef KIWARP_QP_H
#define KIWARP_QP_H

#include <linux/mutex.h>
#include <linux/refcount.h>
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
 * @ibqp: the part that RDMA core knows
 * @dev: device
 * @core: what its sessions work on; @core.own.access and @core.manner are changed under @mutex, all
 *	else while the QP is held
 * @ref: see above
 * @dying: being destroyed, takes no connection any more; protected by @mutex
 * @asked: rights as the program has set them last; protected by @mutex
 * @mutex: see above
 * @stream: connection in full operation; set and cleared with @mutex and socket lock held,
 *	read under RCU to take a reference
 * @ud: what a datagram QP has in place of @inbox; set as long as anybody can find the QP
 * @inbox: of the endpoint that connects or serves this QP, reference held; protected by @mutex
 * @owner: thread group that created it, the only one that may connect it
 * @peer: the QP to connect to, if it is connected by number; see struct kiw_peer
 * @by_number: @peer is valid; changed under @mutex
 * @closed: idle after an orderly close, which may be asked for again; the QP is held
 */
struct kiw_qp {
	struct ib_qp			ibqp;
	struct kiw_device		*dev;
	struct kiw_core			core;
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
};

static inline struct kiw_qp *to_kiw_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct kiw_qp, ibqp);
}

/* kiw_qp_is_ud() - a datagram QP, which has neither a stream nor an endpoint */
static inline bool kiw_qp_is_ud(const struct kiw_qp *qp)
{
	return qp->ibqp.qp_type == IB_QPT_UD;
}

static inline void kiw_qp_get(struct kiw_qp *qp)
{
	refcount_inc(&qp->ref);
}

static inline void kiw_qp_put(struct kiw_qp *qp)
{
	/* Whatever waits for it frees the QP: only the address counts from here on. */
	if (refcount_dec_and_test(&qp->ref)) {
		smp_mb__after_atomic();	/* as wake_up_var() wants it */
		wake_up_var(&qp->ref);
	}
}

/**
 * kiw_qp_is_over() - is what is posted flushed at once?
 * @qp: QP, held
 *
 * In error, and after an orderly close: the process may not know of it yet, and may wait for what
 * it posts. By number there may be another connection for that.
 *
 * Return: whether it is.
 */
static inline bool kiw_qp_is_over(const struct kiw_qp *qp)
{
	return qp->core.state == KIW_QP_ERROR ||
	       (qp->core.state == KIW_QP_IDLE && qp->closed && !qp->by_number);
}

/* kiw_qp_await_peer() - a request waits for the peer, from the first one on; mutex held */
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
struct ib_qp *kiw_get_qp(struct ib_device *ibdev, int qpn);

/**
 * kiw_qp_modify() - change a connected QP, as ib_device_ops.modify_qp
 * @qp: QP
 * @attr: what to change
 * @mask: IB_QP_*, which of @attr; not the address nor number of a peer
 * @peer: the QP to connect to, for a change to RTR, or NULL; those of its fields that come with
 *	@attr needn't be set
 *
 * Return: 0, -EINVAL or -EOPNOTSUPP for what can't be changed so, or -ENOMEM.
 */
int kiw_qp_modify(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask,
		  const struct kiw_peer *peer);

/**
 * kiw_qp_check() - would kiw_qp_modify() refuse this whatever becomes of the connection
 * @qp: QP
 * @attr: what to change
 * @mask: IB_QP_*, which of @attr
 *
 * Return: 0, or what that would return.
 */
int kiw_qp_check(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask);

/**
 * kiw_qp_doorbell() - the process has posted to a connected QP
 * @qp: QP
 * @send: to the send ring, else to the receive ring
 *
 * Return: 0, or -EINVAL when nothing may be posted in this state.
 */
int kiw_qp_doorbell(struct kiw_qp *qp, bool send);

/**
 * kiw_qp_give_up() - no connection to the peer that was named comes about
 * @qp: QP
 *
 * If it is by number and without a stream, it goes to the error state with IB_EVENT_QP_FATAL; the
 * oldest request fails as if acknowledgments were missing, and its endpoint ends.
 */
void kiw_qp_give_up(struct kiw_qp *qp);

/**
 * kiw_qp_find() - look a connected QP up by its number
 * @dev: device
 * @qpn: number
 *
 * Return: the QP with a reference for the caller, or NULL.
 */
struct kiw_qp *kiw_qp_find(struct kiw_device *dev, u32 qpn);

/**
 * kiw_qp_next_of() - walk the QPs of a device
 * @dev: device
 * @qpn: in: where to start; out: behind the QP
 *
 * Return: the next QP with a reference for the caller, or NULL.
 */
struct kiw_qp *kiw_qp_next_of(struct kiw_device *dev, unsigned long *qpn);

/**
 * kiw_qp_bind() - reserve an idle QP for a connection attempt
 * @qp: QP
 * @inbox: of the endpoint; on success the QP holds a reference to it
 * @by_number: the attempt is one by number
 *
 * As long as it is reserved so, no other peer can be named to it.
 *
 * Return: 0, or -EISCONN when it has an endpoint already, is not idle, or is to be connected in the
 * other way.
 */
int kiw_qp_bind(struct kiw_qp *qp, struct kiw_inbox *inbox, bool by_number);

/**
 * kiw_qp_unbind() - the attempt or connection is over
 * @qp: QP
 * @inbox: of the endpoint; if it still has the QP, the QP's reference is dropped
 */
void kiw_qp_unbind(struct kiw_qp *qp, struct kiw_inbox *inbox);

#endif /* KIWARP_QP_H */
