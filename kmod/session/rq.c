// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receive queues. The memory of a process is read once, as in sq.c. */
#include "rq.h"

#include "cqe.h"

static struct kiw_wq_ring *rq_ring(const struct kiw_rq *rq)
{
	return rq->map.mem;
}

void kiw_rq_open(struct kiw_rq *rq)
{
	if (rq->entries)
		WRITE_ONCE(rq_ring(rq)->flags, 0);
}

void kiw_rq_call(struct kiw_rq *rq)
{
	if (!rq->entries)
		return;
	WRITE_ONCE(rq_ring(rq)->flags, KIW_RING_FLUSH);
	/* As in kiw_sq_flush(). */
	smp_mb();
}

void kiw_rq_forget(struct kiw_rq *rq)
{
	if (!rq->entries)
		return;
	rq->next = kiw_ring_prod(&rq->map);
	rq->posted = rq->next;
	smp_store_release(&rq_ring(rq)->cons, rq->next);
}

enum kiw_take kiw_rq_take(struct kiw_rq *rq, struct kiw_recv_req *req)
{
	const void *slot;
	struct kiw_rqe rqe;
	s64 room = -1;

	if (!rq->entries)
		return KIW_TAKE_NONE;
	if (rq->posted == rq->next)
		rq->posted = kiw_ring_prod(&rq->map);
	if (rq->posted == rq->next)
		return KIW_TAKE_NONE;
	if (rq->posted - rq->next > rq->entries)
		return KIW_TAKE_RING;
	slot = kiw_ring_slot(&rq->map, rq->next, rq->entries);
	memcpy(&rqe, slot, sizeof(rqe));
	barrier();	/* as in kiw_sq_take() */

	req->id = rqe.wr_id;
	req->index = rq->next++;
	req->taken = true;
	if (rqe.num_sge <= rq->max_sge &&
	    !memchr_inv(rqe.reserved, 0, sizeof(rqe.reserved))) {
		req->num_sge = rqe.num_sge;
		memcpy(req->sge, slot + sizeof(rqe), rqe.num_sge * sizeof(req->sge[0]));
		barrier();
		room = kiw_sge_total(req->sge, rqe.num_sge);
	}
	/* Pairs with the process's acquire before it reuses a slot. */
	smp_store_release(&rq_ring(rq)->cons, rq->next);
	if (room < 0)
		return KIW_TAKE_BAD;
	req->room = room;
	return KIW_TAKE_ONE;
}

static struct kiw_cqe *rq_add(struct kiw_cqe_batch *b, u64 wr_id, u32 index,
			      enum ib_wc_status status)
{
	struct kiw_cqe *cqe = kiw_cqe_next(b);

	cqe->wr_id = wr_id;
	cqe->wq_index = index;
	cqe->opcode = KIW_WR_RECV;
	cqe->status = status;
	return cqe;
}

bool kiw_rq_complete(struct kiw_rq *rq, struct kiw_recv_req *req,
		     const struct kiw_received *received)
{
	struct kiw_cqe_batch b;
	struct kiw_cqe *cqe;

	req->taken = false;
	kiw_cqe_begin(&b, rq->cq, rq->owner);
	cqe = rq_add(&b, req->id, req->index, IB_WC_SUCCESS);
	cqe->opcode = received->op;
	cqe->byte_len = received->len;
	cqe->flags = received->flags;
	cqe->imm = received->imm;
	if (received->flags & KIW_CQE_GRH)
		cqe->src_qp = received->from;
	else
		cqe->inv_stag = received->from;
	return kiw_cqe_publish(&b);
}

bool kiw_rq_fail(struct kiw_rq *rq, struct kiw_recv_req *req, enum ib_wc_status status)
{
	struct kiw_cqe_batch b;

	req->taken = false;
	kiw_cqe_begin(&b, rq->cq, rq->owner);
	rq_add(&b, req->id, req->index, status);
	return kiw_cqe_publish(&b);
}

static void rq_flush_posted(struct kiw_rq *rq, struct kiw_cqe_batch *b)
{
	u32 budget = rq->entries;

	if (!rq->entries)
		return;
	WRITE_ONCE(rq_ring(rq)->flags, KIW_RING_FLUSH);
	/* As in kiw_sq_flush(). */
	smp_mb();
	if (kiw_ring_prod(&rq->map) - rq->next <= rq->entries) {
		for (; budget && kiw_ring_prod(&rq->map) != rq->next; rq->next++, budget--) {
			const struct kiw_rqe *rqe = kiw_ring_slot(&rq->map, rq->next, rq->entries);

			rq_add(b, READ_ONCE(rqe->wr_id), rq->next, IB_WC_WR_FLUSH_ERR);
		}
	}
	rq->posted = rq->next;
	/* As in kiw_rq_take(). */
	smp_store_release(&rq_ring(rq)->cons, rq->next);
}

void kiw_rq_flush(struct kiw_rq *rq, struct kiw_recv_req *req)
{
	struct kiw_cqe_batch b;

	kiw_cqe_begin(&b, rq->cq, rq->owner);
	if (req && req->taken) {
		req->taken = false;
		rq_add(&b, req->id, req->index, IB_WC_WR_FLUSH_ERR);
	}
	rq_flush_posted(rq, &b);
	kiw_cqe_publish(&b);
}
