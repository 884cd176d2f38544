/* SPDX-License-Identifier: GPL-2.0 */
/* Work queues: taking requests out of the mapped rings, completing and flushing them. */
#ifndef KIWARP_WQ_H
#define KIWARP_WQ_H

#include "cq.h"
#include "qp.h"

struct kiw_tx;
struct kiw_rx;

/* Outcome of looking for a request. */
enum kiw_take {
	KIW_TAKE_NONE,		/* the ring is empty */
	KIW_TAKE_ONE,
	KIW_TAKE_BAD,		/* the request is wrong: it completes with an error */
	KIW_TAKE_RING,		/* the ring's index is nonsense */
};

/**
 * kiw_sq_take() - take the next send request out of its ring
 * @qp: QP, held
 * @tx: gets the private, checked copy
 *
 * Return: see enum kiw_take; with KIW_TAKE_BAD its kiw_swr carries the status.
 */
enum kiw_take kiw_sq_take(struct kiw_qp *qp, struct kiw_tx *tx);

/** kiw_sq_posted() - are there requests in the ring that were not taken; QP held */
bool kiw_sq_posted(const struct kiw_qp *qp);

static inline struct kiw_swr *kiw_swr(const struct kiw_qp *qp, u32 index)
{
	return &qp->sq.swr[index & (qp->sq.entries - 1)];
}

/**
 * kiw_sq_complete() - publish completions for all requests that are done, in order
 * @qp: QP, held
 *
 * Return: false when the completion queue overflowed.
 */
bool kiw_sq_complete(struct kiw_qp *qp);

/**
 * kiw_sq_rest() - have the process ring the doorbell for whatever it posts from now on
 * @qp: QP, held
 *
 * Return: whether something was posted that it didn't ring for.
 */
bool kiw_sq_rest(struct kiw_qp *qp);

/**
 * kiw_sq_flag() - tell the process whether it has to ring the doorbell
 * @qp: QP, held
 * @flags: KIW_RING_*
 */
void kiw_sq_flag(struct kiw_qp *qp, u32 flags);

/** kiw_wq_open() - nothing is being drained or flushed: what the process finds in an idle QP */
void kiw_wq_open(struct kiw_qp *qp);

/**
 * kiw_rq_take() - take the next receive request out of its ring
 * @qp: QP, held
 * @rx: gets the private, checked copy in its recv_* members
 *
 * Return: see enum kiw_take; with KIW_TAKE_BAD it has been completed with an error.
 */
enum kiw_take kiw_rq_take(struct kiw_qp *qp, struct kiw_rx *rx);

/**
 * kiw_rq_complete() - publish the completion of the taken receive request
 * @qp: QP, held
 * @rx: the request in its recv_* members
 * @status: outcome
 * @len: octets received
 * @flags: KIW_CQE_*
 * @inv_stag: with KIW_CQE_WITH_INV
 *
 * Return: false when the completion queue overflowed.
 */
bool kiw_rq_complete(struct kiw_qp *qp, struct kiw_rx *rx, enum ib_wc_status status, u32 len,
		     u8 flags, u32 inv_stag);

/** kiw_wq_forget() - drop what is posted, without completions; QP held, idle */
void kiw_wq_forget(struct kiw_qp *qp);

/** kiw_sq_flush() - complete all that is posted with a flush error; QP held, in error */
void kiw_sq_flush(struct kiw_qp *qp);

/**
 * kiw_rq_flush() - complete all that is posted with a flush error
 * @qp: QP, held
 * @rx: receive side of its stream, whose request goes first, or NULL
 */
void kiw_rq_flush(struct kiw_qp *qp, struct kiw_rx *rx);

#endif /* KIWARP_WQ_H */
