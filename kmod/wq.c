// SPDX-License-Identifier: GPL-2.0
/*
 * Work queues. What a process can scribble on is read once: indexes by a single load, requests by
 * a copy into memory that only we see; the checks look at the copy.
 */
#include "wq.h"

#include "rx.h"
#include "tx.h"

/* Completions that are published together. */
#define CQE_BATCH 8

struct cqe_batch {
	struct kiw_cq	*cq;
	unsigned int	n;
	bool		ok;
	struct kiw_cqe	cqe[CQE_BATCH];
};

static void batch_init(struct cqe_batch *b, struct kiw_cq *cq)
{
	b->cq = cq;
	b->n = 0;
	b->ok = true;
}

static bool batch_publish(struct cqe_batch *b)
{
	if (b->n && b->ok)
		b->ok = kiw_cq_add(b->cq, b->cqe, b->n);
	b->n = 0;
	return b->ok;
}

static struct kiw_cqe *batch_next(struct cqe_batch *b, const struct kiw_qp *qp)
{
	struct kiw_cqe *cqe;

	if (b->n == CQE_BATCH)
		batch_publish(b);
	cqe = &b->cqe[b->n++];
	memset(cqe, 0, sizeof(*cqe));
	cqe->cookie = qp->cookie;
	cqe->qp_num = qp->ibqp.qp_num;
	return cqe;
}

static struct kiw_wq_ring *sq_ring(const struct kiw_qp *qp)
{
	return qp->sq.map.mem;
}

static struct kiw_wq_ring *rq_ring(const struct kiw_qp *qp)
{
	return qp->rq.map.mem;
}

static u32 ring_prod(const struct kiw_wq_ring *ring)
{
	/* Pairs with the release store of prod in the process. */
	return smp_load_acquire(&ring->prod);
}

/* Octets that the buffers of a request hold, or -1 for more than a message may have. */
static s64 sge_total(const struct kiw_sge *sge, u32 n)
{
	u64 total = 0;
	u32 i;

	for (i = 0; i < n; i++)
		total += sge[i].length;
	return total <= KIW_MAX_MSG ? (s64)total : -1;
}

bool kiw_sq_posted(const struct kiw_qp *qp)
{
	return ring_prod(sq_ring(qp)) != qp->sq.next;
}

void kiw_sq_flag(struct kiw_qp *qp, u32 flags)
{
	WRITE_ONCE(sq_ring(qp)->flags, flags);
}

bool kiw_sq_rest(struct kiw_qp *qp)
{
	kiw_sq_flag(qp, 0);
	/* Pairs with the fence between prod and flags in the process. */
	smp_mb();
	return kiw_sq_posted(qp);
}

void kiw_wq_open(struct kiw_qp *qp)
{
	kiw_sq_flag(qp, 0);
	if (qp->rq.entries)
		WRITE_ONCE(rq_ring(qp)->flags, 0);
}

void kiw_wq_forget(struct kiw_qp *qp)
{
	/* An index that can't be right is as good as any: the next look finds it wrong again. */
	qp->sq.next = ring_prod(sq_ring(qp));
	qp->sq.done = qp->sq.next;
	WRITE_ONCE(sq_ring(qp)->cons, qp->sq.done);
	if (!qp->rq.entries)
		return;
	qp->rq.next = ring_prod(rq_ring(qp));
	WRITE_ONCE(rq_ring(qp)->cons, qp->rq.next);
}

/* Is the private copy a request that this QP takes? */
static bool wqe_good(const struct kiw_qp *qp, struct kiw_tx *tx)
{
	const struct kiw_wqe *wqe = &tx->wqe;
	s64 len;

	if (wqe->opcode > KIW_WR_READ || (wqe->flags & ~KIW_WQE_FLAGS))
		return false;
	if (wqe->flags & KIW_WQE_INLINE) {
		if (wqe->opcode == KIW_WR_READ || wqe->inline_len > qp->max_inline)
			return false;
		len = wqe->inline_len;
	} else {
		len = sge_total(tx->sge, wqe->num_sge);
	}
	if (len < 0 || (wqe->opcode == KIW_WR_READ && !qp->ord))
		return false;
	tx->len = len;
	return true;
}

enum kiw_take kiw_sq_take(struct kiw_qp *qp, struct kiw_tx *tx)
{
	struct kiw_sq *sq = &qp->sq;
	u32 prod = ring_prod(sq_ring(qp));
	struct kiw_wqe *wqe = &tx->wqe;
	struct kiw_swr *swr;
	const void *slot;
	bool good;

	if (prod == sq->next)
		return KIW_TAKE_NONE;
	/* Those under way count: an index that goes back is as bad as one too far. */
	if (prod - sq->next > sq->entries - (sq->next - sq->done)) {
		kiw_stat_inc(&qp->dev->stats, KIW_STAT_RING_ERRORS);
		return KIW_TAKE_RING;
	}
	slot = kiw_ring_slot(&sq->map, sq->next, sq->entries);
	memcpy(wqe, slot, sizeof(*wqe));
	barrier();	/* from here on only the copy counts, */

	good = wqe->num_sge <= qp->max_send_sge;
	if (good && !(wqe->flags & KIW_WQE_INLINE))
		memcpy(tx->sge, slot + sizeof(*wqe), wqe->num_sge * sizeof(tx->sge[0]));
	barrier();	/* of the buffers, too */
	tx->inline_data = slot + sizeof(*wqe);
	tx->index = sq->next++;
	tx->off = 0;
	good = good && wqe_good(qp, tx);

	swr = kiw_swr(qp, tx->index);
	swr->wr_id = wqe->wr_id;
	swr->byte_len = good ? tx->len : 0;
	swr->op = min_t(u8, wqe->opcode, KIW_WR_READ);
	swr->flags = wqe->flags;
	swr->status = good ? IB_WC_SUCCESS : IB_WC_LOC_QP_OP_ERR;
	swr->done = !good;
	return good ? KIW_TAKE_ONE : KIW_TAKE_BAD;
}

static void sq_add(struct cqe_batch *b, const struct kiw_qp *qp, const struct kiw_swr *swr,
		   u32 index)
{
	struct kiw_cqe *cqe = batch_next(b, qp);

	cqe->wr_id = swr->wr_id;
	cqe->byte_len = swr->byte_len;
	cqe->wq_index = index;
	cqe->opcode = swr->op;
	cqe->status = swr->status;
}

bool kiw_sq_complete(struct kiw_qp *qp)
{
	struct kiw_sq *sq = &qp->sq;
	struct cqe_batch b;

	batch_init(&b, to_kiw_cq(qp->ibqp.send_cq));
	for (; sq->done != sq->next; sq->done++) {
		const struct kiw_swr *swr = kiw_swr(qp, sq->done);

		if (!swr->done)
			break;
		if ((swr->flags & KIW_WQE_SIGNALED) || swr->status != IB_WC_SUCCESS)
			sq_add(&b, qp, swr, sq->done);
	}
	WRITE_ONCE(sq_ring(qp)->cons, sq->done);
	return batch_publish(&b);
}

void kiw_sq_flush(struct kiw_qp *qp)
{
	struct kiw_sq *sq = &qp->sq;
	struct kiw_swr *swr, posted = { .status = IB_WC_WR_FLUSH_ERR };
	struct cqe_batch b;

	kiw_sq_flag(qp, KIW_RING_FLUSH);
	/* Whoever posts from now on sees the flag, or we see the request. */
	smp_mb();

	batch_init(&b, to_kiw_cq(qp->ibqp.send_cq));
	for (; sq->done != sq->next; sq->done++) {
		swr = kiw_swr(qp, sq->done);
		if (!swr->done)
			swr->status = IB_WC_WR_FLUSH_ERR;
		if (!swr->done || swr->status != IB_WC_SUCCESS ||
		    (swr->flags & KIW_WQE_SIGNALED))
			sq_add(&b, qp, swr, sq->done);
	}
	if (ring_prod(sq_ring(qp)) - sq->next <= sq->entries) {
		for (; ring_prod(sq_ring(qp)) != sq->next; sq->next++) {
			const struct kiw_wqe *wqe = kiw_ring_slot(&sq->map, sq->next, sq->entries);

			posted.wr_id = READ_ONCE(wqe->wr_id);
			posted.op = min_t(u8, READ_ONCE(wqe->opcode), KIW_WR_READ);
			sq_add(&b, qp, &posted, sq->next);
			if (sq->next - sq->done >= sq->entries)
				break;
		}
	}
	sq->done = sq->next;
	WRITE_ONCE(sq_ring(qp)->cons, sq->done);
	batch_publish(&b);
}

enum kiw_take kiw_rq_take(struct kiw_qp *qp, struct kiw_rx *rx)
{
	struct kiw_rq *rq = &qp->rq;
	const void *slot;
	struct kiw_rqe rqe;
	s64 room;

	if (!rq->entries)
		return KIW_TAKE_NONE;
	if (rx->recv_posted == rq->next)
		rx->recv_posted = ring_prod(rq_ring(qp));
	if (rx->recv_posted == rq->next)
		return KIW_TAKE_NONE;
	if (rx->recv_posted - rq->next > rq->entries) {
		kiw_stat_inc(&qp->dev->stats, KIW_STAT_RING_ERRORS);
		return KIW_TAKE_RING;
	}
	slot = kiw_ring_slot(&rq->map, rq->next, rq->entries);
	memcpy(&rqe, slot, sizeof(rqe));
	barrier();	/* as in kiw_sq_take() */

	rx->recv_id = rqe.wr_id;
	rx->recv_index = rq->next++;
	rx->placing = true;
	room = -1;
	if (rqe.num_sge <= qp->max_recv_sge) {
		rx->recv_sges = rqe.num_sge;
		memcpy(rx->recv_sge, slot + sizeof(rqe), rqe.num_sge * sizeof(rx->recv_sge[0]));
		barrier();
		room = sge_total(rx->recv_sge, rqe.num_sge);
	}
	if (room < 0) {
		kiw_rq_complete(qp, rx, IB_WC_LOC_QP_OP_ERR, 0, 0, 0);
		return KIW_TAKE_BAD;
	}
	rx->recv_room = room;
	return KIW_TAKE_ONE;
}

static void rq_add(struct cqe_batch *b, const struct kiw_qp *qp, u64 wr_id, u32 index,
		   enum ib_wc_status status)
{
	struct kiw_cqe *cqe = batch_next(b, qp);

	cqe->wr_id = wr_id;
	cqe->wq_index = index;
	cqe->opcode = KIW_WR_RECV;
	cqe->status = status;
}

bool kiw_rq_complete(struct kiw_qp *qp, struct kiw_rx *rx, enum ib_wc_status status, u32 len,
		     u8 flags, u32 inv_stag)
{
	struct kiw_cqe cqe = {
		.wr_id = rx->recv_id,
		.cookie = qp->cookie,
		.qp_num = qp->ibqp.qp_num,
		.byte_len = len,
		.wq_index = rx->recv_index,
		.inv_stag = inv_stag,
		.opcode = KIW_WR_RECV,
		.status = status,
		.flags = flags,
	};
	bool added;

	rx->placing = false;
	added = kiw_cq_add(to_kiw_cq(qp->ibqp.recv_cq), &cqe, 1);
	WRITE_ONCE(rq_ring(qp)->cons, qp->rq.next);
	return added;
}

void kiw_rq_flush(struct kiw_qp *qp, struct kiw_rx *rx)
{
	struct kiw_rq *rq = &qp->rq;
	struct cqe_batch b;
	u32 budget = rq->entries;

	if (!rq->entries)
		return;
	WRITE_ONCE(rq_ring(qp)->flags, KIW_RING_FLUSH);
	/* As in kiw_sq_flush(). */
	smp_mb();

	batch_init(&b, to_kiw_cq(qp->ibqp.recv_cq));
	if (rx && rx->placing) {
		rx->placing = false;
		rq_add(&b, qp, rx->recv_id, rx->recv_index, IB_WC_WR_FLUSH_ERR);
	}
	if (ring_prod(rq_ring(qp)) - rq->next <= rq->entries) {
		for (; budget && ring_prod(rq_ring(qp)) != rq->next; rq->next++, budget--) {
			const struct kiw_rqe *rqe = kiw_ring_slot(&rq->map, rq->next, rq->entries);

			rq_add(&b, qp, READ_ONCE(rqe->wr_id), rq->next, IB_WC_WR_FLUSH_ERR);
		}
	}
	WRITE_ONCE(rq_ring(qp)->cons, rq->next);
	batch_publish(&b);
}
