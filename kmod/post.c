// SPDX-License-Identifier: GPL-2.0
#include "post.h"

#include "mr.h"
#include "stream.h"

/* The next free slot of a ring, or NULL; the lock of its posts is held. */
static void *post_slot(const struct kiw_ring_map *map, u32 entries)
{
	const struct kiw_wq_ring *ring = map->mem;

	/* Pairs with the session's release after its last look at a slot. */
	if (ring->prod - smp_load_acquire(&ring->cons) >= entries)
		return NULL;
	return kiw_ring_slot(map, ring->prod, entries);
}

static void post_publish(struct kiw_ring_map *map)
{
	struct kiw_wq_ring *ring = map->mem;

	/* Pairs with the acquire in kiw_ring_prod(). */
	smp_store_release(&ring->prod, ring->prod + 1);
}

/* The flags of a ring after posts: must somebody be told? */
static u32 post_flags(const struct kiw_ring_map *map)
{
	const struct kiw_wq_ring *ring = map->mem;

	/*
	 * Pairs with the session's fence between flags and prod: it sees the posts, or we see the
	 * flags.
	 */
	smp_mb();
	return READ_ONCE(ring->flags);
}

/* Have the doorbell run in process context. */
static void post_ring_late(struct kiw_qp *qp, enum kiw_rung which)
{
	set_bit(which, &qp->rung);
	kiw_stream_later(&qp->doorbell);
}

static void post_copy_sges(struct kiw_sge *to, const struct ib_sge *from, int n)
{
	for (; n; n--, to++, from++)
		*to = (struct kiw_sge){ from->addr, from->length, from->lkey };
}

/* --- send requests -------------------------------------------------------------------------- */

/* Index in kiw_send_ops[], or -1 */
static int post_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND:
		return KIW_WR_SEND;
	case IB_WR_SEND_WITH_INV:
		return KIW_WR_SEND_INV;
	case IB_WR_SEND_WITH_IMM:
		return KIW_WR_SEND_IMM;
	case IB_WR_RDMA_WRITE:
		return KIW_WR_WRITE;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return KIW_WR_WRITE_IMM;
	case IB_WR_RDMA_READ:
		return KIW_WR_READ;
	case IB_WR_RDMA_READ_WITH_INV:
		return KIW_WR_READ_INV;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return KIW_WR_CMP_SWAP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return KIW_WR_FETCH_ADD;
	case IB_WR_LOCAL_INV:
		return KIW_WR_LOCAL_INV;
	case IB_WR_REG_MR:
		return KIW_WR_REG_MR;
	default:
		return -1;
	}
}

/* Flags of the ring. Return: -1: one is unknown. */
static int post_wqe_flags(const struct kiw_qp *qp, int send_flags)
{
	if (send_flags & ~(IB_SEND_FENCE | IB_SEND_SIGNALED | IB_SEND_SOLICITED | IB_SEND_INLINE))
		return -1;
	return (send_flags & IB_SEND_SIGNALED || qp->sig_all ? KIW_WQE_SIGNALED : 0) |
	       (send_flags & IB_SEND_SOLICITED ? KIW_WQE_SOLICITED : 0) |
	       (send_flags & IB_SEND_FENCE ? KIW_WQE_FENCE : 0) |
	       (send_flags & IB_SEND_INLINE ? KIW_WQE_INLINE : 0);
}

/* What the opcode needs besides buffers; @args is behind the header. */
static void post_fill_op(struct kiw_wqe *wqe, void *args, const struct ib_send_wr *wr)
{
	struct kiw_atomic_args *atomic = args + sizeof(struct kiw_sge);

	switch (wqe->opcode) {
	case KIW_WR_SEND_INV:
	case KIW_WR_LOCAL_INV:
		wqe->rkey = wr->ex.invalidate_rkey;
		break;
	case KIW_WR_SEND_IMM:
		wqe->imm = wr->ex.imm_data;
		break;
	case KIW_WR_WRITE_IMM:
		wqe->imm = wr->ex.imm_data;
		fallthrough;
	case KIW_WR_WRITE:
	case KIW_WR_READ:
	case KIW_WR_READ_INV:
		wqe->remote_addr = rdma_wr(wr)->remote_addr;
		wqe->rkey = rdma_wr(wr)->rkey;
		break;
	case KIW_WR_CMP_SWAP:
	case KIW_WR_FETCH_ADD:
		wqe->remote_addr = atomic_wr(wr)->remote_addr;
		wqe->rkey = atomic_wr(wr)->rkey;
		atomic->compare_add = atomic_wr(wr)->compare_add;
		atomic->swap = atomic_wr(wr)->swap;
		break;
	case KIW_WR_REG_MR:
		/* Consumers may change the address after the mapping, and keys at any time. */
		wqe->rkey = reg_wr(wr)->key;
		*(struct kiw_bind_args *)args = (struct kiw_bind_args){
			.addr = reg_wr(wr)->mr->iova,
			.lkey = READ_ONCE(to_kiw_mr(reg_wr(wr)->mr)->region.stag),
			.access = reg_wr(wr)->access,
		};
		break;
	}
}

/* Return: false: too much. */
static bool post_copy_inline(const struct kiw_sq *sq, struct kiw_wqe *wqe, void *to,
			     const struct ib_send_wr *wr)
{
	const struct ib_sge *sge = wr->sg_list;
	u32 room = sq->max_inline;
	int i;

	for (i = 0; i < wr->num_sge; i++, sge++) {
		if (sge->length > room)
			return false;
		memcpy(to, (const void *)(uintptr_t)sge->addr, sge->length);
		to += sge->length;
		room -= sge->length;
	}
	wqe->inline_len = sq->max_inline - room;
	return true;
}

/* Write a request into a free slot. Return: 0 or -EINVAL. */
static int post_send_slot(struct kiw_qp *qp, void *slot, const struct ib_send_wr *wr)
{
	int opcode = post_opcode(wr->opcode), flags = post_wqe_flags(qp, wr->send_flags);
	const struct kiw_sq *sq = &qp->core->sq;
	void *args = slot + sq->head;
	struct kiw_wqe *wqe = slot;

	if (opcode < 0 || flags < 0 || (flags & ~kiw_send_ops[opcode].flags) ||
	    wr->num_sge < 0 || wr->num_sge > sq->max_sge)
		return -EINVAL;
	/* The region that the Read fills; rdma_rw names it by a key that it has changed since. */
	if (opcode == KIW_WR_READ_INV && wr->num_sge != 1)
		return -EINVAL;

	*wqe = (struct kiw_wqe){ .opcode = opcode, .flags = flags, .wr_id = wr->wr_id };
	post_fill_op(wqe, args, wr);
	if (flags & KIW_WQE_INLINE)
		return post_copy_inline(sq, wqe, args, wr) ? 0 : -EINVAL;
	/* A local request has arguments there. */
	if (kiw_send_is_local(&kiw_send_ops[opcode]))
		return 0;
	wqe->num_sge = wr->num_sge;
	post_copy_sges(args, wr->sg_list, wr->num_sge);
	return 0;
}

/*
 * Before the first connection a request would wait for one that may never come. After the end the
 * consumer may not know of it yet; an orderly end leaves the QP idle before its stream goes.
 */
static bool post_may_send(const struct kiw_qp *qp)
{
	if (READ_ONCE(qp->core->state) != KIW_QP_IDLE || rcu_access_pointer(qp->stream))
		return true;
	/* Pairs with the fence of kiw_sq_flush() between setting it and clearing the stream. */
	smp_rmb();
	return READ_ONCE(qp->closed);
}

/* Have posted requests sent. The stream does so in softirq; everything else is for a thread. */
static void post_kick(struct kiw_qp *qp)
{
	u32 flags = post_flags(&qp->core->sq.map);
	struct kiw_stream *s = NULL;

	if (flags & KIW_RING_DRAINING)
		return;
	rcu_read_lock();
	if (!(flags & KIW_RING_FLUSH) && READ_ONCE(qp->core->state) == KIW_QP_RTS)
		s = rcu_dereference(qp->stream);
	if (s)
		kiw_stream_ring_now(s);
	else
		post_ring_late(qp, KIW_RUNG_SEND);
	rcu_read_unlock();
}

int kiw_qp_post_send(struct kiw_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct kiw_sq *sq = &qp->core->sq;
	const struct ib_send_wr *first = wr;
	unsigned long flags;
	int err = 0;
	void *slot;

	spin_lock_irqsave(&qp->sq_lock, flags);
	for (; wr; wr = wr->next) {
		slot = post_slot(&sq->map, sq->entries);
		err = !post_may_send(qp) ? -EINVAL :
		      !slot ? -ENOMEM : post_send_slot(qp, slot, wr);
		if (err)
			break;
		post_publish(&sq->map);
	}
	spin_unlock_irqrestore(&qp->sq_lock, flags);
	if (wr != first)
		post_kick(qp);
	if (err)
		*bad = wr;
	return err;
}

/* --- receive requests ----------------------------------------------------------------------- */

static int post_recv_slot(const struct kiw_rq *rq, struct kiw_rqe *rqe, const struct ib_recv_wr *wr)
{
	if (wr->num_sge < 0 || wr->num_sge > rq->max_sge)
		return -EINVAL;
	*rqe = (struct kiw_rqe){ .wr_id = wr->wr_id, .num_sge = wr->num_sge };
	post_copy_sges((struct kiw_sge *)(rqe + 1), wr->sg_list, wr->num_sge);
	return 0;
}

/* Post a list; the lock of the ring's posts is held. */
static int post_recv_list(struct kiw_rq *rq, const struct ib_recv_wr *wr,
			  const struct ib_recv_wr **bad)
{
	void *slot;
	int err;

	for (; wr; wr = wr->next) {
		slot = post_slot(&rq->map, rq->entries);
		err = slot ? post_recv_slot(rq, slot, wr) : -ENOMEM;
		if (err) {
			*bad = wr;
			return err;
		}
		post_publish(&rq->map);
	}
	return 0;
}

static bool post_may_receive(const struct kiw_qp *qp)
{
	return qp->core->rq.entries && (READ_ONCE(qp->core->state) != KIW_QP_IDLE ||
				       READ_ONCE(qp->core->shown) != IB_QPS_RESET);
}

int kiw_qp_post_recv(struct kiw_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct kiw_rq *rq = &qp->core->rq;
	unsigned long flags;
	int err;

	if (!post_may_receive(qp)) {
		*bad = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&qp->rq_lock, flags);
	err = post_recv_list(rq, wr, bad);
	spin_unlock_irqrestore(&qp->rq_lock, flags);
	/* A message waits for a request, or requests are to be flushed. */
	if (post_flags(&rq->map) & KIW_RING_FLUSH)
		post_ring_late(qp, KIW_RUNG_RECV);
	return err;
}

int kiw_srq_post_recv(struct kiw_srq *srq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad)
{
	unsigned long flags;
	int err;

	spin_lock_irqsave(&srq->lock, flags);
	err = post_recv_list(&srq->rq, wr, bad);
	kiw_srq_grant(srq);
	spin_unlock_irqrestore(&srq->lock, flags);
	return err;
}
