// SPDX-License-Identifier: GPL-2.0
#include "cq.h"

#include <linux/log2.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "types.h"
#include "session/sq.h"

/* Most completions copied with interrupts off during a resize */
#define CQ_COPY_LOCKED 256

/* Must the process learn of this completion at once? */
static bool cq_is_urgent(const struct kiw_cqe *cqe)
{
	return cqe->flags & KIW_CQE_SOLICITED || cqe->status != IB_WC_SUCCESS;
}

/* Does the demand @arm ask for these completions? */
static bool cq_arm_matches(u32 arm, const struct kiw_cqe *cqe, unsigned int n)
{
	if (arm == KIW_ARM_NEXT)
		return true;
	if (arm != KIW_ARM_SOLICITED)
		return false;
	for (; n--; cqe++) {
		if (cq_is_urgent(cqe))
			return true;
	}
	return false;
}

/*
 * End the wait of the event. Return: whether the process still wants it; only the kernel withdraws
 * the demand.
 */
static bool cq_disarm(struct kiw_cq *cq)
{
	struct kiw_cq_ring *ring = cq->map.mem;

	lockdep_assert_held(&cq->lock);
	if (cq->delayed) {
		cq->delayed = 0;
		/* A running timer finds that nothing waits. */
		hrtimer_try_to_cancel(&cq->timer);
	}
	return xchg(&ring->arm, KIW_ARM_NONE) != KIW_ARM_NONE;
}

/* Does the event wait for further completions? */
static bool cq_delay(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n)
{
	bool first = !cq->delayed;

	lockdep_assert_held(&cq->lock);
	if (!cq->period || cq->dead)
		return false;
	for (; n--; cqe++) {
		if (cqe->flags & KIW_CQE_VOID)	/* second half of a completion */
			continue;
		if (cq_is_urgent(cqe))
			return false;
		cq->delayed++;
	}
	if (cq->delayed >= min_t(u32, cq->count, cq->entries / 2))
		return false;
	if (first)
		hrtimer_start(&cq->timer, ns_to_ktime(cq->period * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
	return true;
}

/*
 * A handler in the kernel mostly raises a softirq. With BH off the softirq runs when BH go on, else
 * a thread would have to wake up for it.
 */
static void cq_notify(struct kiw_cq *cq)
{
	bool bh = cq->kernel && !in_hardirq() && !irqs_disabled();

	if (bh)
		local_bh_disable();
	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	if (bh)
		local_bh_enable();
}

/* The period of the event is over. */
static enum hrtimer_restart cq_timeout(struct hrtimer *timer)
{
	struct kiw_cq *cq = container_of(timer, struct kiw_cq, timer);
	unsigned long flags;
	bool notify;

	spin_lock_irqsave(&cq->lock, flags);
	/* A timer that is queued again belongs to a later wait. */
	notify = cq->delayed && !hrtimer_is_queued(timer) && cq_disarm(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify)
		cq_notify(cq);
	return HRTIMER_NORESTART;
}

static void cq_overflow(struct kiw_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	kiw_stat_inc(&to_kiw_device(cq->ibcq.device)->stats, KIW_STAT_CQ_OVERFLOWS);
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/* Read the process's index. */
static void cq_look(struct kiw_cq *cq)
{
	const struct kiw_cq_ring *ring = cq->map.mem;

	lockdep_assert_held(&cq->lock);
	/* Pairs with the process's release after reading slots. */
	cq->cons = smp_load_acquire(&ring->cons);
}

/* Used slots, as far as known; nonsense counts as full. */
static u32 cq_used(const struct kiw_cq *cq)
{
	lockdep_assert_held(&cq->lock);
	return min(min(cq->prod - cq->cons, cq->entries) + cq->held, cq->entries);
}

bool kiw_cq_hold(struct kiw_cq *cq, u32 n)
{
	unsigned long flags;
	bool room;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq_used(cq) + n > cq->entries / 2)
		cq_look(cq);
	room = !cq->dead && cq_used(cq) + n <= cq->entries / 2;
	if (room)
		cq->held += n;
	spin_unlock_irqrestore(&cq->lock, flags);
	return room;
}

void kiw_cq_unhold(struct kiw_cq *cq, u32 n)
{
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	cq->held -= n;
	spin_unlock_irqrestore(&cq->lock, flags);
}

/*
 * Calls handlers without the lock. The CQ stays: the QP with the completions keeps it, and
 * kiw_destroy_qp() waits for all work of that QP.
 */
static bool cq_add(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n, u32 held)
{
	bool died = false, notify = false;
	struct kiw_cq_ring *ring;
	struct kiw_cqe *slot;
	unsigned long flags;
	unsigned int i;
	u32 used;

	spin_lock_irqsave(&cq->lock, flags);
	ring = cq->map.mem;
	cq->held -= held;
	if (cq->dead) {
		spin_unlock_irqrestore(&cq->lock, flags);
		return false;
	}

	used = cq_used(cq);
	if (n > cq->entries - used) {
		cq_look(cq);
		used = cq_used(cq);
	}
	if (n > cq->entries - used) {
		n = cq->entries - used;
		cq->dead = true;
		died = true;
	}

	for (i = 0; i < n; i++) {
		slot = kiw_ring_slot(&cq->map, cq->prod + i, cq->entries);
		memcpy(slot, &cqe[i], sizeof(*cqe));
		/* The second slot of a record holds other members there. */
		if (cq->timed && !(cqe[i].flags & KIW_CQE_VOID))
			slot->time = ktime_get_real_ns();
	}
	cq->prod += n;
	/* Pairs with the process's acquire before reading slots. */
	smp_store_release(&ring->prod, cq->prod);

	/*
	 * Pairs with the process's fence between storing arm and looking at prod: it sees these
	 * completions, or we see that it is armed.
	 */
	smp_mb();
	if (n && cq_arm_matches(READ_ONCE(ring->arm), cqe, n) && !cq_delay(cq, cqe, n))
		notify = cq_disarm(cq);
	spin_unlock_irqrestore(&cq->lock, flags);

	if (died)
		cq_overflow(cq);
	if (notify)
		cq_notify(cq);
	return !died;
}

bool kiw_cq_add(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n)
{
	return cq_add(cq, cqe, n, 0);
}

bool kiw_cq_add_held(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n)
{
	return cq_add(cq, cqe, n, n);
}

static int cq_read_request(struct ib_udata *udata, struct kiw_create_cq_req *req)
{
	int err;

	/* Useless to a process with another provider. */
	if (udata->outlen < sizeof(struct kiw_create_cq_resp))
		return -EINVAL;
	err = ib_copy_from_udata(req, udata, min(udata->inlen, sizeof(*req)));
	if (err)
		return err;
	return (req->flags & ~KIW_CQ_TIME) || req->reserved ? -EINVAL : 0;
}

static int cq_respond(const struct kiw_cq *cq, struct ib_udata *udata)
{
	struct kiw_create_cq_resp resp = {};

	kiw_ring_tell(&cq->map, cq->entries, &resp.ring);
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

int kiw_create_cq_common(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			 struct ib_udata *udata)
{
	struct kiw_device *dev = to_kiw_device(ibcq->device);
	struct kiw_cq *cq = to_kiw_cq(ibcq);
	struct kiw_create_cq_req req = {};
	struct kiw_ucontext *uctx = NULL;
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > KIW_MAX_CQE)
		return -EINVAL;
	if (udata) {
		err = cq_read_request(udata, &req);
		if (err)
			return err;
		uctx = rdma_udata_to_drv_context(udata, struct kiw_ucontext, ibuctx);
	}
	if (!kiw_count_up(&dev->num_cq, KIW_MAX_CQ))
		return -ENOMEM;

	mutex_init(&cq->resizing);
	spin_lock_init(&cq->lock);
	hrtimer_setup(&cq->timer, cq_timeout, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	cq->entries = roundup_pow_of_two(attr->cqe);
	cq->timed = req.flags & KIW_CQ_TIME;
	cq->kernel = !udata;
	err = kiw_ring_alloc(&cq->map, uctx, cq->entries, sizeof(struct kiw_cqe));
	if (err)
		goto err_count;
	err = udata ? cq_respond(cq, udata) : 0;
	if (err)
		goto err_ring;

	ibcq->cqe = cq->entries;
	return 0;

err_ring:
	kiw_ring_free(&cq->map);
err_count:
	atomic_dec(&dev->num_cq);
	return err;
}

/* --- polling and arming in the kernel ------------------------------------------------------- */

/* By enum kiw_wr_op and the opcodes of the kernel */
static const enum ib_wc_opcode cq_opcodes[] = {
	[KIW_WR_SEND] = IB_WC_SEND,
	[KIW_WR_SEND_INV] = IB_WC_SEND,
	[KIW_WR_WRITE] = IB_WC_RDMA_WRITE,
	[KIW_WR_READ] = IB_WC_RDMA_READ,
	[KIW_WR_RECV] = IB_WC_RECV,
	[KIW_WR_SEND_IMM] = IB_WC_SEND,
	[KIW_WR_WRITE_IMM] = IB_WC_RDMA_WRITE,
	[KIW_WR_RECV_IMM] = IB_WC_RECV_RDMA_WITH_IMM,
	[KIW_WR_CMP_SWAP] = IB_WC_COMP_SWAP,
	[KIW_WR_FETCH_ADD] = IB_WC_FETCH_ADD,
	[KIW_WR_LOCAL_INV] = IB_WC_LOCAL_INV,
	[KIW_WR_REG_MR] = IB_WC_REG_MR,
	[KIW_WR_READ_INV] = IB_WC_RDMA_READ,
};

static void cq_tell(const struct kiw_cqe *cqe, struct ib_wc *wc)
{
	*wc = (struct ib_wc){
		.wr_id = cqe->wr_id,
		.status = cqe->status,
		.opcode = cq_opcodes[cqe->opcode],
		.byte_len = cqe->byte_len,
		.qp = (struct ib_qp *)(uintptr_t)cqe->cookie,
		.port_num = 1,
	};
	if (cqe->flags & KIW_CQE_WITH_INV) {
		wc->wc_flags = IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = cqe->inv_stag;
	} else if (cqe->flags & KIW_CQE_WITH_IMM) {
		wc->wc_flags = IB_WC_WITH_IMM;
		wc->ex.imm_data = cqe->imm;
	}
}

int kiw_poll_cq(struct ib_cq *ibcq, int n, struct ib_wc *wc)
{
	struct kiw_cq *cq = to_kiw_cq(ibcq);
	const struct kiw_cqe *cqe;
	struct kiw_cq_ring *ring;
	unsigned long flags;
	int got = 0;

	if (!cq->kernel)
		return -EOPNOTSUPP;
	spin_lock_irqsave(&cq->lock, flags);
	ring = cq->map.mem;
	for (cq_look(cq); got < n && cq->cons != cq->prod; cq->cons++) {
		cqe = kiw_ring_slot(&cq->map, cq->cons, cq->entries);
		if (!(cqe->flags & KIW_CQE_VOID))
			cq_tell(cqe, &wc[got++]);
	}
	WRITE_ONCE(ring->cons, cq->cons);
	spin_unlock_irqrestore(&cq->lock, flags);
	return got;
}

int kiw_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	bool solicited = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	u32 arm = solicited ? KIW_ARM_SOLICITED : KIW_ARM_NEXT;
	struct kiw_cq *cq = to_kiw_cq(ibcq);
	struct kiw_cq_ring *ring;
	unsigned long irq;
	bool missed;

	if (!cq->kernel)
		return -EOPNOTSUPP;
	spin_lock_irqsave(&cq->lock, irq);
	ring = cq->map.mem;
	WRITE_ONCE(ring->arm, max(ring->arm, arm));
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && ring->cons != cq->prod;
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed;
}

void kiw_cq_purge(struct kiw_cq *cq, const struct ib_qp *ibqp)
{
	struct kiw_cqe *cqe;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&cq->lock, flags);
	cq_look(cq);
	for (i = cq->cons; i != cq->prod; i++) {
		cqe = kiw_ring_slot(&cq->map, i, cq->entries);
		if (cqe->cookie == (uintptr_t)ibqp)
			cqe->flags |= KIW_CQE_VOID;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

/* --- resizing and moderation ---------------------------------------------------------------- */

/* Copy completions @from to @to into another ring, unread. */
static void cq_copy(const struct kiw_cq *cq, const struct kiw_ring_map *map, u32 entries, u32 from,
		    u32 to)
{
	for (; from != to; from++)
		memcpy(kiw_ring_slot(map, from, entries),
		       kiw_ring_slot(&cq->map, from, cq->entries), sizeof(struct kiw_cqe));
}

/* Move to the ring in @map, which gets the old one. */
static void cq_switch(struct kiw_cq *cq, struct kiw_ring_map *map, u32 entries, u32 cons)
{
	struct kiw_cq_ring *from = cq->map.mem, *to = map->mem;

	lockdep_assert_held(&cq->lock);
	to->prod = cq->prod;
	to->cons = cons;
	to->arm = xchg(&from->arm, KIW_ARM_NONE);
	swap(cq->map, *map);
	cq->entries = entries;
	cq->cons = cons;
	cq->ibcq.cqe = entries;
}

/*
 * The process does not poll meanwhile, so there is never more to copy than the queue holds. All but
 * the last few completions are copied with interrupts on.
 */
static int cq_replace(struct kiw_cq *cq, struct kiw_ring_map *map, u32 entries)
{
	u32 room = min(entries, cq->entries);
	struct kiw_cq_ring *ring = cq->map.mem;
	/* Pairs with the process's release after reading slots. */
	u32 cons = smp_load_acquire(&ring->cons);
	u32 done = cons, prod;
	unsigned long flags;

	lockdep_assert_held(&cq->resizing);
	for (;;) {
		spin_lock_irqsave(&cq->lock, flags);
		prod = cq->prod;
		/* The process chooses @cons: the sum could wrap. */
		if (prod - cons > room || cq->held > room - (prod - cons)) {
			spin_unlock_irqrestore(&cq->lock, flags);
			return -EINVAL;
		}
		if (prod - done <= CQ_COPY_LOCKED)
			break;
		spin_unlock_irqrestore(&cq->lock, flags);
		cq_copy(cq, map, entries, done, prod);
		done = prod;
	}
	cq_copy(cq, map, entries, done, prod);
	cq_switch(cq, map, entries, cons);
	spin_unlock_irqrestore(&cq->lock, flags);
	return 0;
}

int kiw_resize_cq(struct ib_cq *ibcq, u32 cqe, struct ib_udata *udata)
{
	struct kiw_cq *cq = to_kiw_cq(ibcq);
	struct kiw_resize_cq_resp resp = {};
	struct kiw_ring_map map = {};
	struct kiw_ucontext *uctx;
	u32 entries;
	int err;

	/* RDMA cores before 7.2 let consumers in the kernel ask. */
	if (!udata)
		return -EOPNOTSUPP;
	if (cqe < 1 || cqe > KIW_MAX_CQE || udata->outlen < sizeof(resp))
		return -EINVAL;
	entries = roundup_pow_of_two(cqe);
	uctx = rdma_udata_to_drv_context(udata, struct kiw_ucontext, ibuctx);
	err = kiw_ring_alloc(&map, uctx, entries, sizeof(struct kiw_cqe));
	if (err)
		return err;
	/* Before the switch: without the answer a process keeps the old ring. */
	kiw_ring_tell(&map, entries, &resp.ring);
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (!err) {
		mutex_lock(&cq->resizing);
		err = cq_replace(cq, &map, entries);
		mutex_unlock(&cq->resizing);
	}
	kiw_ring_free(&map);
	return err;
}

int kiw_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct kiw_cq *cq = to_kiw_cq(ibcq);
	unsigned long flags;
	bool notify;

	if (!count)
		period = 0;
	spin_lock_irqsave(&cq->lock, flags);
	cq->count = count;
	cq->period = period;
	notify = cq->delayed && cq_disarm(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify)
		cq_notify(cq);
	return 0;
}

/*
 * Unreachable: RDMA core calls this when no QP names the CQ. The last kiw_cq_add() ended before
 * kiw_destroy_qp(), and nothing starts the timer. Pages that a process maps are its own. Released:
 * the ring; the core frees the rest.
 */
int kiw_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct kiw_cq *cq = to_kiw_cq(ibcq);
	struct kiw_ring_map map = {};
	unsigned long flags;

	hrtimer_cancel(&cq->timer);
	/* Some RDMA cores still show the CQ, see res.c. */
	spin_lock_irqsave(&cq->lock, flags);
	swap(cq->map, map);
	spin_unlock_irqrestore(&cq->lock, flags);
	kiw_ring_free(&map);
	mutex_destroy(&cq->resizing);
	atomic_dec(&to_kiw_device(ibcq->device)->num_cq);
	return 0;
}
