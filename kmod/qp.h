/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue pairs.
 *
 * Locks, outermost first:
 *   kiw_qp.mutex        attach and detach of the stream, and everything while there is none
 *   socket lock         of the stream: all of kiw_qp.sq, .rq, .state while it is attached, and
 *                       all of struct kiw_stream; taken as owner in process context, as
 *                       bh_lock_sock by TCP when it calls back
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

#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <rdma/ib_verbs.h>

#include "types.h"
#include "rq.h"
#include "sq.h"
#include "proto/qpstate.h"

struct kiw_inbox;
struct kiw_stream;
struct kiw_ud;

/**
 * struct kiw_qp - a queue pair
 * @ibqp: the part that RDMA core knows
 * @dev: device
 * @ref: see above
 * @state: RDMAC state; changed while the QP is held, shown to users also while it is not
 * @freed: completed with the last reference; set by kiw_destroy_qp()
 * @mutex: see above
 * @stream: connection in full operation; set and cleared with @mutex and socket lock held,
 *	read under RCU to take a reference
 * @ud: what a datagram QP has in place of @inbox; set as long as anybody can find the QP
 * @inbox: of the endpoint that connects or serves this QP, reference held; protected by @mutex
 * @sq: send queue
 * @rq: receive queue
 * @cookie: of the process, for completions
 * @owner: thread group that created it, the only one that may connect it
 * @access: IB_ACCESS_REMOTE_* that the QP allows at all; changed without any lock
 * @ird: reads that the peer may have outstanding, as negotiated
 * @ord: reads that we may have outstanding, as negotiated
 * @init: shown as INIT, not RESET, while idle; changed under @mutex
 * @closed: idle after an orderly close, which may be asked for again; the QP is held
 * @dying: being destroyed, takes no connection any more; protected by @mutex
 *
 * RDMA core allocates it by kmalloc(): with 512 bytes, which it has in 7.2 without debugging, it
 * takes half of what it would with a few more.
 */
struct kiw_qp {
	struct ib_qp			ibqp;
	struct kiw_device		*dev;
	refcount_t			ref;
	enum kiw_qp_state		state;
	struct completion		*freed;
	struct mutex			mutex;
	struct kiw_stream __rcu		*stream;
	union {
		struct kiw_inbox	*inbox;
		struct kiw_ud		*ud;
	};

	struct kiw_sq			sq;
	struct kiw_rq			rq;

	u64				cookie;
	struct pid			*owner;
	int				access;
	u16				ird;
	u16				ord;
	bool				init;
	bool				closed;
	bool				dying;
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
	if (refcount_dec_and_test(&qp->ref))
		complete(qp->freed);
}

/** kiw_qp_open_rings() - the process finds rings that are neither drained nor flushed; QP held */
static inline void kiw_qp_open_rings(struct kiw_qp *qp)
{
	kiw_sq_flag(&qp->sq, 0);
	kiw_rq_open(&qp->rq);
}

/* Verbs and iw_cm operations; see struct ib_device_ops. */
int kiw_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int kiw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int kiw_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int kiw_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int kiw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int kiw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
void kiw_qp_add_ref(struct ib_qp *ibqp);
void kiw_qp_rem_ref(struct ib_qp *ibqp);
struct ib_qp *kiw_get_qp(struct ib_device *ibdev, int qpn);

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
 *
 * Return: 0, or -EISCONN when it has an endpoint already, or is not idle.
 */
int kiw_qp_bind(struct kiw_qp *qp, struct kiw_inbox *inbox);

/**
 * kiw_qp_unbind() - the attempt or connection is over
 * @qp: QP
 * @inbox: of the endpoint; if it still has the QP, the QP's reference is dropped
 */
void kiw_qp_unbind(struct kiw_qp *qp, struct kiw_inbox *inbox);

#endif /* KIWARP_QP_H */
