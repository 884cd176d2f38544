// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Send queues. Memory that the process can write is read once: indexes by one load, requests by a
 * copy. Checks look at the copy.
 */
#include "sq.h"

#include "cqe.h"
#include "../proto/ddp.h"

const struct kiw_send_op kiw_send_ops[KIW_SEND_OPS] = {
	[KIW_WR_SEND] = { KIW_SEND_UNTAGGED, KIW_OP_SEND, KIW_OP_SEND_SE, KIW_WQE_FLAGS },
	[KIW_WR_SEND_INV] = { KIW_SEND_UNTAGGED, KIW_OP_SEND_INV, KIW_OP_SEND_SE_INV,
			      KIW_WQE_FLAGS },
	[KIW_WR_WRITE] = { KIW_SEND_TAGGED, KIW_OP_WRITE, KIW_OP_WRITE, KIW_WQE_FLAGS },
	[KIW_WR_READ] = { KIW_SEND_READ, KIW_OP_READ_REQ, KIW_OP_READ_REQ,
			  KIW_WQE_FLAGS & ~KIW_WQE_INLINE },
	[KIW_WR_SEND_IMM] = { KIW_SEND_UNTAGGED, KIW_OP_SEND | KIW_RDMAP_SEND_IMM,
			      KIW_OP_SEND_SE | KIW_RDMAP_SEND_IMM, KIW_WQE_FLAGS, KIW_CAP_IMM },
	[KIW_WR_WRITE_IMM] = { KIW_SEND_TAGGED_IMM, KIW_OP_WRITE, KIW_OP_WRITE, KIW_WQE_FLAGS,
			       KIW_CAP_IMM },
	[KIW_WR_CMP_SWAP] = { KIW_SEND_ATOMIC, KIW_OP_ATOMIC_REQ, KIW_OP_ATOMIC_REQ,
			      KIW_WQE_FLAGS & ~KIW_WQE_INLINE, KIW_CAP_ATOMIC },
	[KIW_WR_FETCH_ADD] = { KIW_SEND_ATOMIC, KIW_OP_ATOMIC_REQ, KIW_OP_ATOMIC_REQ,
			       KIW_WQE_FLAGS & ~KIW_WQE_INLINE, KIW_CAP_ATOMIC },
	[KIW_WR_BIND_MW] = { KIW_SEND_BIND, 0, 0, KIW_WQE_SIGNALED | KIW_WQE_FENCE },
	[KIW_WR_LOCAL_INV] = { KIW_SEND_INVALIDATE, 0, 0, KIW_WQE_SIGNALED | KIW_WQE_FENCE },
	[KIW_WR_REG_MR] = { KIW_SEND_REGISTER, 0, 0, KIW_WQE_SIGNALED | KIW_WQE_FENCE },
	[KIW_WR_READ_INV] = { KIW_SEND_READ, KIW_OP_READ_REQ, KIW_OP_READ_REQ,
			      KIW_WQE_FLAGS & ~KIW_WQE_INLINE },
};

static struct kiw_wq_ring *sq_ring(const struct kiw_sq *sq)
{
	return sq->map.mem;
}

s64 kiw_sge_total(const struct kiw_sge *sge, u32 n)
{
	u64 total = 0;
	u32 i;

	for (i = 0; i < n; i++)
		total += sge[i].length;
	return total <= KIW_MAX_MSG ? (s64)total : -1;
}

bool kiw_sq_posted(const struct kiw_sq *sq)
{
	return kiw_ring_prod(&sq->map) != sq->next;
}

void kiw_sq_flag(struct kiw_sq *sq, u32 flags)
{
	WRITE_ONCE(sq_ring(sq)->flags, flags);
}

bool kiw_sq_rest(struct kiw_sq *sq, u32 flags)
{
	kiw_sq_flag(sq, flags);
	/* Pairs with the process's fence between prod and flags. */
	smp_mb();
	return kiw_sq_posted(sq);
}

void kiw_sq_forget(struct kiw_sq *sq)
{
	/* A bad index may stand: the next look finds it bad again. */
	sq->next = kiw_ring_prod(&sq->map);
	sq->done = sq->next;
	smp_store_release(&sq_ring(sq)->cons, sq->done);
}

/* Opcodes of this queue; to a process, a higher one is nonsense. */
static u8 sq_ops(const struct kiw_sq *sq)
{
	return sq->kernel ? KIW_SEND_OPS : KIW_SEND_OPS_PROCESS;
}

/* Does this queue accept the request? */
static bool sq_req_good(const struct kiw_sq *sq, struct kiw_send_req *req)
{
	const struct kiw_wqe *wqe = &req->wqe;
	const struct kiw_send_op *op;
	s64 len;

	if (wqe->reserved || wqe->opcode >= sq_ops(sq))
		return false;
	op = &kiw_send_ops[wqe->opcode];
	if (!op->flags || (wqe->flags & ~op->flags) || (wqe->imm && !(op->cap & KIW_CAP_IMM)))
		return false;
	if (wqe->flags & KIW_WQE_INLINE) {
		if (wqe->inline_len > sq->max_inline)
			return false;
		len = wqe->inline_len;
	} else {
		len = kiw_sge_total(req->sge, wqe->num_sge);
	}
	if (len < 0)
		return false;
	if (op->kind == KIW_SEND_ATOMIC && (wqe->num_sge != 1 || len != sizeof(u64)))
		return false;
	if (kiw_send_is_local(op) && wqe->num_sge)
		return false;
	if (wqe->opcode == KIW_WR_READ_INV && wqe->num_sge != 1)
		return false;
	req->len = len;
	return true;
}

/* Copy the arguments behind the header of a connected QP's slot; they fit every slot. */
static void sq_take_args(struct kiw_send_req *req, const void *args)
{
	switch (req->wqe.opcode) {
	case KIW_WR_CMP_SWAP:
	case KIW_WR_FETCH_ADD:
		memcpy(&req->atomic, args + sizeof(struct kiw_sge), sizeof(req->atomic));
		break;
	case KIW_WR_BIND_MW:
	case KIW_WR_REG_MR:
		memcpy(&req->bind, args, sizeof(req->bind));
		break;
	}
}

enum kiw_take kiw_sq_take(struct kiw_sq *sq, struct kiw_send_req *req)
{
	u32 prod = kiw_ring_prod(&sq->map);
	struct kiw_wqe *wqe = &req->wqe;
	struct kiw_swr *swr;
	const void *slot;
	bool good;

	if (prod == sq->next)
		return KIW_TAKE_NONE;
	/* Requests under way count too, so an index that goes back is refused. */
	if (prod - sq->next > sq->entries - (sq->next - sq->done))
		return KIW_TAKE_RING;
	slot = kiw_ring_slot(&sq->map, sq->next, sq->entries);
	memcpy(wqe, slot, sizeof(*wqe));
	if (sq->head == KIW_SQ_HEAD_UD)
		memcpy(&req->dest, slot + sizeof(*wqe), sizeof(req->dest));
	else
		sq_take_args(req, slot + sq->head);
	barrier();	/* only the copy counts from here, */

	good = wqe->num_sge <= sq->max_sge;
	if (good && !(wqe->flags & KIW_WQE_INLINE))
		memcpy(req->sge, slot + sq->head, wqe->num_sge * sizeof(req->sge[0]));
	barrier();	/* that of the buffers too */
	req->inline_data = slot + sq->head;
	req->index = sq->next++;
	good = good && sq_req_good(sq, req);

	swr = kiw_swr(sq, req->index);
	swr->wr_id = wqe->wr_id;
	swr->byte_len = good ? req->len : 0;
	swr->op = min_t(u8, wqe->opcode, sq_ops(sq) - 1);
	swr->flags = wqe->flags;
	swr->status = IB_WC_SUCCESS;
	swr->done = false;
	return good ? KIW_TAKE_ONE : KIW_TAKE_BAD;
}

static void sq_add(struct kiw_cqe_batch *b, const struct kiw_swr *swr, u32 index)
{
	struct kiw_cqe *cqe = kiw_cqe_next(b);

	cqe->wr_id = swr->wr_id;
	cqe->byte_len = swr->byte_len;
	cqe->wq_index = index;
	cqe->opcode = swr->op;
	cqe->status = swr->status;
}

bool kiw_sq_complete(struct kiw_sq *sq)
{
	struct kiw_cqe_batch b;

	kiw_cqe_begin(&b, sq->cq, sq->owner);
	for (; sq->done != sq->next; sq->done++) {
		const struct kiw_swr *swr = kiw_swr(sq, sq->done);

		if (!swr->done)
			break;
		if ((swr->flags & KIW_WQE_SIGNALED) || swr->status != IB_WC_SUCCESS)
			sq_add(&b, swr, sq->done);
	}
	/* Pairs with the acquire of a consumer in the kernel before it reuses a slot. */
	smp_store_release(&sq_ring(sq)->cons, sq->done);
	return kiw_cqe_publish(&b);
}

bool kiw_sq_flush(struct kiw_sq *sq, enum ib_wc_status oldest)
{
	struct kiw_swr *swr, posted = {};
	struct kiw_cqe_batch b;
	/* Requests that the process posts during the poll are left to its doorbells. */
	u32 budget = sq->entries;
	enum ib_wc_status status = oldest;

	kiw_sq_flag(sq, KIW_RING_FLUSH);
	/* A process that posts later sees the flag, or we see its request. */
	smp_mb();

	kiw_cqe_begin(&b, sq->cq, sq->owner);
	for (; sq->done != sq->next; sq->done++) {
		swr = kiw_swr(sq, sq->done);
		if (!swr->done) {
			swr->status = status;
			status = IB_WC_WR_FLUSH_ERR;
		}
		if (!swr->done || swr->status != IB_WC_SUCCESS ||
		    (swr->flags & KIW_WQE_SIGNALED))
			sq_add(&b, swr, sq->done);
	}
	if (kiw_ring_prod(&sq->map) - sq->next <= sq->entries) {
		for (; budget && kiw_ring_prod(&sq->map) != sq->next; sq->next++, budget--) {
			const struct kiw_wqe *wqe = kiw_ring_slot(&sq->map, sq->next, sq->entries);

			posted.status = status;
			status = IB_WC_WR_FLUSH_ERR;
			posted.wr_id = READ_ONCE(wqe->wr_id);
			posted.op = min_t(u8, READ_ONCE(wqe->opcode), sq_ops(sq) - 1);
			sq_add(&b, &posted, sq->next);
		}
	}
	sq->done = sq->next;
	/* As in kiw_sq_complete(). */
	smp_store_release(&sq_ring(sq)->cons, sq->done);
	kiw_cqe_publish(&b);
	return status != oldest;
}
