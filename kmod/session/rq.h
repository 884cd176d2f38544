/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Receive queues: taking requests from the mapped ring, completions, flush. The ring is a QP's own
 * or that of an SRQ (srq.h), which neither completes nor flushes here.
 */
#ifndef KIW_SESSION_RQ_H
#define KIW_SESSION_RQ_H

#include "kiwarp-abi.h"
#include "ring.h"
#include "sq.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Receive queue; the QP is held, or the SRQ locked.
 * @entries: power of two; 0: none, or the QP uses an SRQ
 * @next: next request to take; a taken one completes at once or is the session's
 * @posted: index behind the last request, when none was left to take
 * @max_sge: buffers of a slot, also of an SRQ's
 * @cq: completion queue of the QP; NULL for an SRQ
 * @owner: QP; NULL for an SRQ
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

/*
 * A taken receive request.
 * @taken: valid, and not complete
 * @room: bytes of its buffers
 * @sge: private copy, with room for the queue's maximum
 */
struct kiw_recv_req {
	bool		taken;
	u8		num_sge;
	u32		index;
	u64		id;
	u32		room;
	struct kiw_sge	*sge;
};

/*
 * Contents of a receive completion.
 * @len: bytes received; for Immediate Data, bytes of the Write before it
 * @op: %KIW_WR_RECV or %KIW_WR_RECV_IMM
 * @from: STag with %KIW_CQE_WITH_INV, sender with %KIW_CQE_GRH
 */
struct kiw_received {
	u32	len;
	u8	op;
	u8	flags;
	u32	from;
	__be32	imm;
};

static inline u32 kiw_rq_stride(u32 sges)
{
	return sizeof(struct kiw_rqe) + sges * sizeof(struct kiw_sge);
}

/** kiw_rq_take() - take the next request; @req gets a private, checked copy */
enum kiw_take kiw_rq_take(struct kiw_rq *rq, struct kiw_recv_req *req);

/** kiw_rq_complete() - complete a filled request; QP held. Return: false: the CQ overflowed */
bool kiw_rq_complete(struct kiw_rq *rq, struct kiw_recv_req *req,
		     const struct kiw_received *received);

/** kiw_rq_fail() - complete a request with @status; QP held. Return: false: the CQ overflowed */
bool kiw_rq_fail(struct kiw_rq *rq, struct kiw_recv_req *req, enum ib_wc_status status);

/**
 * kiw_rq_call() - have the process ring when it posts, until kiw_rq_open()
 * @rq: empty queue; held
 *
 * Look again afterwards: the process may have posted before it saw this.
 */
void kiw_rq_call(struct kiw_rq *rq);

/** kiw_rq_open() - posting needs no doorbell */
void kiw_rq_open(struct kiw_rq *rq);

/** kiw_rq_forget() - drop posted requests without completions; the QP is idle */
void kiw_rq_forget(struct kiw_rq *rq);

/** kiw_rq_flush() - flush @req, or NULL, and the QP's own queue; QP held, in error or ending */
void kiw_rq_flush(struct kiw_rq *rq, struct kiw_recv_req *req);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_RQ_H */
