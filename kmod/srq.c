// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues. rq.c takes requests from the ring; this file chooses the stream that gets
 * the next one.
 */
#include "srq.h"

#include <linux/log2.h>
#include <linux/uaccess.h>
#include <rdma/uverbs_ioctl.h>

#include "types.h"

/* Is a request not reserved? Nonsense counts as one: taking it detects that. */
static bool srq_has_spare(struct kiw_srq *srq)
{
	struct kiw_rq *rq = &srq->rq;

	lockdep_assert_held(&srq->lock);
	if (rq->posted - rq->next <= srq->granted)
		rq->posted = kiw_ring_prod(&rq->map);
	return rq->posted - rq->next > srq->granted;
}

void kiw_srq_grant(struct kiw_srq *srq)
{
	struct kiw_srq_wait *first;

	lockdep_assert_held(&srq->lock);
	while (!list_empty(&srq->line) && srq_has_spare(srq)) {
		first = list_first_entry(&srq->line, struct kiw_srq_wait, link);
		list_del_init(&first->link);
		first->granted = true;
		srq->granted++;
		first->wake(first);
	}
	if (list_empty(&srq->line))
		kiw_rq_open(&srq->rq);
}

/* May a request be taken now? Uses up a right. */
static bool srq_admits(struct kiw_srq *srq, struct kiw_srq_wait *wait)
{
	lockdep_assert_held(&srq->lock);
	if (wait && wait->granted) {
		wait->granted = false;
		srq->granted--;
		return true;
	}
	return list_empty(&srq->line) && srq_has_spare(srq);
}

/* Stand in line. Return: whether there is a request by now. */
static bool srq_wait(struct kiw_srq *srq, struct kiw_srq_wait *wait)
{
	lockdep_assert_held(&srq->lock);
	if (list_empty(&wait->link))
		list_add_tail(&wait->link, &srq->line);
	/* Finds requests posted before the process could see the call. */
	kiw_rq_call(&srq->rq);
	kiw_srq_grant(srq);
	return srq_admits(srq, wait);
}

/* Did taking a request leave fewer than the process's limit? */
static bool srq_reaches_limit(struct kiw_srq *srq)
{
	struct kiw_rq *rq = &srq->rq;

	lockdep_assert_held(&srq->lock);
	if (!srq->limit)
		return false;
	if (kiw_ring_prod(&rq->map) - rq->next >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

static void srq_raise(struct kiw_srq *srq, enum ib_event_type type)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.element.srq = &srq->ibsrq,
		.event = type,
	};

	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

/* Calls handlers without the lock. The request's QP keeps the SRQ. */
enum kiw_take kiw_srq_take(struct kiw_srq *srq, struct kiw_srq_wait *wait,
			   struct kiw_recv_req *req)
{
	enum kiw_take take = KIW_TAKE_NONE;
	bool few = false, died = false;
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	if (srq_admits(srq, wait) || (wait && srq_wait(srq, wait)))
		take = kiw_rq_take(&srq->rq, req);
	if (take == KIW_TAKE_RING) {
		died = !srq->dead;
		srq->dead = true;
	} else if (take != KIW_TAKE_NONE) {
		few = srq_reaches_limit(srq);
	}
	spin_unlock_irqrestore(&srq->lock, flags);

	if (few)
		srq_raise(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	if (died)
		srq_raise(srq, IB_EVENT_SRQ_ERR);
	return take;
}

void kiw_srq_leave(struct kiw_srq *srq, struct kiw_srq_wait *wait)
{
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	list_del_init(&wait->link);
	if (wait->granted) {
		wait->granted = false;
		srq->granted--;
	}
	kiw_srq_grant(srq);
	spin_unlock_irqrestore(&srq->lock, flags);
}

/* --- verbs ---------------------------------------------------------------------------------- */

static int srq_check(const struct ib_srq_init_attr *attr)
{
	if (attr->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (attr->attr.max_wr < 1 || attr->attr.max_wr > KIW_MAX_QP_WR ||
	    attr->attr.max_sge > KIW_MAX_SGE)
		return -EINVAL;
	return 0;
}

static int srq_respond(const struct kiw_rq *rq, struct ib_udata *udata)
{
	struct kiw_create_srq_resp resp = {};

	kiw_ring_tell(&rq->map, rq->entries, &resp.ring);
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

int kiw_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr, struct ib_udata *udata)
{
	struct kiw_device *dev = to_kiw_device(ibsrq->device);
	struct kiw_srq *srq = to_kiw_srq(ibsrq);
	struct kiw_ucontext *uctx = NULL;
	struct kiw_rq *rq = &srq->rq;
	int err;

	err = srq_check(attr);
	if (err)
		return err;
	if (udata) {
		uctx = rdma_udata_to_drv_context(udata, struct kiw_ucontext, ibuctx);
		/* An earlier provider does not know when slots are free. */
		if (!(uctx->features & KIW_FEATURE_SRQ))
			return -EOPNOTSUPP;
		if (udata->outlen < sizeof(struct kiw_create_srq_resp))
			return -EINVAL;
	}
	if (!kiw_count_up(&dev->num_srq, KIW_MAX_SRQ))
		return -ENOMEM;

	mutex_init(&srq->resizing);
	spin_lock_init(&srq->lock);
	INIT_LIST_HEAD(&srq->line);
	srq->kernel = !udata;
	rq->entries = roundup_pow_of_two(attr->attr.max_wr);
	rq->max_sge = max(attr->attr.max_sge, 1U);
	err = kiw_ring_alloc(&rq->map, uctx, rq->entries, kiw_rq_stride(rq->max_sge));
	if (err)
		goto err_count;
	err = udata ? srq_respond(rq, udata) : 0;
	if (err)
		goto err_ring;
	attr->attr.max_wr = rq->entries;
	attr->attr.max_sge = rq->max_sge;
	return 0;

err_ring:
	kiw_ring_free(&rq->map);
err_count:
	atomic_dec(&dev->num_srq);
	return err;
}

/* Move to the ring in @map, which gets the old one; @prod is behind the last request. */
static void srq_switch(struct kiw_srq *srq, struct kiw_ring_map *map, u32 entries, u32 prod)
{
	struct kiw_wq_ring *to = map->mem;
	struct kiw_rq *rq = &srq->rq;

	lockdep_assert_held(&srq->lock);
	to->prod = prod;
	to->cons = rq->next;
	swap(rq->map, *map);
	rq->entries = entries;
	if (!list_empty(&srq->line))
		kiw_rq_call(rq);
}

/*
 * The process does not post meanwhile: its index stays, or this fails. Requests are copied while
 * streams take them; all are copied before the switch under the lock.
 */
static int srq_replace(struct kiw_srq *srq, struct kiw_ring_map *map, u32 entries)
{
	struct kiw_rq *rq = &srq->rq;
	u32 room = min(entries, rq->entries);
	unsigned long flags;
	u32 next, prod;
	int err = 0;

	lockdep_assert_held(&srq->resizing);
	spin_lock_irqsave(&srq->lock, flags);
	next = rq->next;
	prod = kiw_ring_prod(&rq->map);
	spin_unlock_irqrestore(&srq->lock, flags);
	if (prod - next > room)
		return -EINVAL;
	for (; next != prod; next++)
		memcpy(kiw_ring_slot(map, next, entries),
		       kiw_ring_slot(&rq->map, next, rq->entries), map->stride);

	spin_lock_irqsave(&srq->lock, flags);
	if (kiw_ring_prod(&rq->map) != prod)
		err = -EINVAL;
	else
		srq_switch(srq, map, entries, prod);
	spin_unlock_irqrestore(&srq->lock, flags);
	return err;
}

static int srq_resize(struct kiw_srq *srq, u32 max_wr, u32 limit, struct ib_udata *udata)
{
	struct kiw_create_srq_resp resp = {};
	struct kiw_modify_srq_req req;
	struct kiw_ring_map map = {};
	struct kiw_ucontext *uctx;
	u32 entries;
	int err;

	uctx = rdma_udata_to_drv_context(udata, struct kiw_ucontext, ibuctx);
	/* An earlier provider would keep using the old ring. */
	if (!(uctx->features & KIW_FEATURE_SRQ_RESIZE))
		return -EOPNOTSUPP;
	if (max_wr < 1 || max_wr > KIW_MAX_QP_WR || udata->inlen < sizeof(req))
		return -EINVAL;
	entries = roundup_pow_of_two(max_wr);
	/* An armed limit is at most the number of posted requests, which always fit. */
	if (limit > entries)
		return -EINVAL;
	err = ib_copy_from_udata(&req, udata, sizeof(req));
	if (err)
		return err;
	err = kiw_ring_alloc(&map, uctx, entries, srq->rq.map.stride);
	if (err)
		return err;
	/* Before the switch: without the answer a process keeps the old ring. */
	kiw_ring_tell(&map, entries, &resp.ring);
	if (copy_to_user(u64_to_user_ptr(req.response), &resp, sizeof(resp)))
		err = -EFAULT;
	if (!err) {
		mutex_lock(&srq->resizing);
		err = srq_replace(srq, &map, entries);
		mutex_unlock(&srq->resizing);
	}
	kiw_ring_free(&map);
	return err;
}

int kiw_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata)
{
	struct kiw_srq *srq = to_kiw_srq(ibsrq);
	bool limited = mask & IB_SRQ_LIMIT;
	unsigned long flags;
	bool few = false;
	int err = 0;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	/* A consumer in the kernel may post meanwhile. */
	if (srq->kernel && (mask & IB_SRQ_MAX_WR))
		return -EOPNOTSUPP;
	if (mask & IB_SRQ_MAX_WR)
		err = srq_resize(srq, attr->max_wr, limited ? attr->srq_limit : 0, udata);
	if (err || !limited)
		return err;

	spin_lock_irqsave(&srq->lock, flags);
	if (attr->srq_limit > srq->rq.entries) {
		err = -EINVAL;
	} else {
		srq->limit = attr->srq_limit;
		few = srq_reaches_limit(srq);
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	if (few)
		srq_raise(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	return err;
}

int kiw_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct kiw_srq *srq = to_kiw_srq(ibsrq);
	unsigned long flags;

	attr->max_sge = srq->rq.max_sge;
	spin_lock_irqsave(&srq->lock, flags);
	attr->max_wr = srq->rq.entries;
	attr->srq_limit = srq->limit;
	spin_unlock_irqrestore(&srq->lock, flags);
	return 0;
}

/*
 * Unreachable: RDMA core calls this when no QP names the SRQ, and streams left the line before
 * their QPs went. Pages that a process maps are its own. Released: the ring; the core frees the
 * rest.
 */
int kiw_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct kiw_srq *srq = to_kiw_srq(ibsrq);
	struct kiw_ring_map map = {};
	unsigned long flags;

	WARN_ON_ONCE(!list_empty(&srq->line) || srq->granted);
	/* Some RDMA cores still show the SRQ, see res.c. */
	spin_lock_irqsave(&srq->lock, flags);
	swap(srq->rq.map, map);
	spin_unlock_irqrestore(&srq->lock, flags);
	kiw_ring_free(&map);
	mutex_destroy(&srq->resizing);
	atomic_dec(&to_kiw_device(ibsrq->device)->num_srq);
	return 0;
}

void kiw_srq_doorbell(struct kiw_srq *srq)
{
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	kiw_srq_grant(srq);
	spin_unlock_irqrestore(&srq->lock, flags);
}
