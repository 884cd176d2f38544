/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Receive queues: requests taken out of the mapped ring, their completion and their flush. A ring
 * is a QP's own, or that of a shared receive queue (srq.h), to which all but completing and
 * flushing applies, too.
 */
#ifndef KIW_SESSION_RQ_H
#define KIW_SESSION_RQ_H

#include "kiwarp-abi.h"
#include "ring.h"
#include "sq.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct kiw_rq - receive queue; the QP is held, or the SRQ is locked
 * @map: the ring
 * @entries: slots, power of two, or 0: also of a QP that has an SRQ
 * @next: index of the next request to take; one that was taken completes at once or is the stream's
 * @posted: index behind the last request, as seen when there was none to take
 * @max_sge: buffers that a slot holds; of a QP that has an SRQ, those that a slot there holds
 * @cq: gets the completions of a QP's requests, also of those that it takes from its SRQ; else NULL
 * @owner: the QP, or NULL
 */
struct kiw_rq {
	struct kiw_ring_map	map;
	u32			entries;
	u32			next;
	u32			posted;
	u8			max_sge;
	struct kiw_cq		*cq;
	const struct kiw_owner	*owner;
};

/**
 * struct kiw_recv_req - a receive request that was taken
 * @taken: there is one; it has not completed
 * @num_sge: entries of @sge
 * @id: wr_id
 * @index: in the receive queue
 * @room: bytes that it has room for
 * @sge: private copy of its buffers; room for as many as the queue allows
 */
struct kiw_recv_req {
	bool		taken;
	u8		num_sge;
	u32		index;
	u64		id;
	u32		room;
	struct kiw_sge	*sge;
};

/**
 * struct kiw_received - what the completion of a receive request tells
 * @len: bytes received; of Immediate Data, bytes of the Write before it
 * @op: %KIW_WR_RECV or %KIW_WR_RECV_IMM
 * @flags: KIW_CQE_*
 * @from: the STag with %KIW_CQE_WITH_INV, the sender with %KIW_CQE_GRH
 * @imm: with %KIW_CQE_WITH_IMM
 */
struct kiw_received {
	u32	len;
	u8	op;
	u8	flags;
	u32	from;
	__be32	imm;
};

/** kiw_rq_stride() - bytes of a slot with room for so many buffers */
static inline u32 kiw_rq_stride(u32 sges)
{
	return sizeof(struct kiw_rqe) + sges * sizeof(struct kiw_sge);
}

/**
 * kiw_rq_take() - take the next receive request out of its ring
 * @rq: receive queue
 * @req: gets the private, checked copy
 *
 * Return: see enum kiw_take.
 */
enum kiw_take kiw_rq_take(struct kiw_rq *rq, struct kiw_recv_req *req);

/**
 * kiw_rq_complete() - publish the completion of a receive request
 * @rq: queue of a QP, which is held
 * @req: the request, which a message has filled
 * @received: what it has brought
 *
 * Return: false when the completion queue overflowed.
 */
bool kiw_rq_complete(struct kiw_rq *rq, struct kiw_recv_req *req,
		     const struct kiw_received *received);

/**
 * kiw_rq_fail() - publish that a receive request has failed
 * @rq: queue of a QP, which is held
 * @req: the request
 * @status: why
 *
 * Return: false when the completion queue overflowed.
 */
bool kiw_rq_fail(struct kiw_rq *rq, struct kiw_recv_req *req, enum ib_wc_status status);

/**
 * kiw_rq_call() - have the process ring when it posts
 * @rq: queue that was found empty; held
 *
 * What is posted before the process could see that is found by another look, kiw_rq_open() ends it.
 */
void kiw_rq_call(struct kiw_rq *rq);

/** kiw_rq_open() - the process needn't ring the doorbell for what it posts */
void kiw_rq_open(struct kiw_rq *rq);

/** kiw_rq_forget() - drop what is posted, without completions; the QP is idle */
void kiw_rq_forget(struct kiw_rq *rq);

/**
 * kiw_rq_flush() - complete all that is posted to the QP's own queue with a flush error
 * @rq: queue of a QP that is held, in error or over
 * @req: the stream's request, which goes first, or NULL
 */
void kiw_rq_flush(struct kiw_rq *rq, struct kiw_recv_req *req);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_RQ_H */
