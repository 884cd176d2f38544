// SPDX-License-Identifier: GPL-2.0
#include "region.h"

#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/wait_bit.h>

#include "kiwarp-abi.h"
#include "types.h"
#include "proto/range.h"

/* Attempts to find a free random index; at most one in sixteen is used */
#define REGION_TRIES 64

/* Rights of peers */
#define REMOTE_RIGHTS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)

static void region_init(struct kiw_region *region)
{
	rwlock_init(&region->lock);
	refcount_set(&region->uses, 1);
}

static void region_put(struct kiw_region *region)
{
	/* The waiter frees the region: use only the address afterwards. */
	if (refcount_dec_and_test(&region->uses)) {
		smp_mb__after_atomic();	/* needed before wake_up_var() */
		wake_up_var(&region->uses);
	}
}

int kiw_region_add(struct xarray *regions, struct kiw_region *region)
{
	unsigned int tries;
	int err = -EBUSY;

	region_init(region);
	for (tries = 0; err == -EBUSY && tries < REGION_TRIES; tries++) {
		region->stag = get_random_u32();
		if (region->stag >> 8)
			err = xa_insert(regions, region->stag >> 8, region, GFP_KERNEL);
	}
	return err == -EBUSY ? -ENOSPC : err;
}

void kiw_region_replace(struct xarray *regions, const struct kiw_region *before,
			struct kiw_region *region)
{
	region_init(region);
	region->stag = before->stag;
	/* The entry exists: this needs no memory. */
	WARN_ON_ONCE(xa_store(regions, region->stag >> 8, region, GFP_KERNEL) != before);
}

void kiw_region_remove(struct xarray *regions, struct kiw_region *region)
{
	/* A bind may change the key meanwhile. A region that replaced this one stays. */
	xa_cmpxchg(regions, READ_ONCE(region->stag) >> 8, region, NULL, GFP_KERNEL);
	region_put(region);
	/* Orders the uses before the caller's next steps. */
	wait_var_event(&region->uses, !refcount_read(&region->uses));
	smp_acquire__after_ctrl_dep();
}

bool kiw_region_close(struct kiw_region *region)
{
	return atomic_cmpxchg(&region->windows, 0, KIW_REGION_GOES) <= 0;
}

/* Everything, for the local key of consumers in the kernel. Such a use counts nowhere. */
static struct kiw_piece region_everything = { .end = U64_MAX };
static struct kiw_region region_memory = {
	.kind = KIW_REGION_MEMORY,
	.valid = true,
	.pieces = &region_everything,
	.num_pieces = 1,
};

/* Do these mean the kernel's own memory? A peer's access needs a remote right. */
static bool region_is_memory(const struct kiw_owner *owner, u32 stag, int access)
{
	return owner->kernel && !stag && !(access & ~IB_ACCESS_LOCAL_WRITE);
}

void *kiw_region_piece(const struct kiw_region *region, u64 off, u32 *len)
{
	const struct kiw_piece *pieces = region->pieces;
	u32 low = 0, high = region->num_pieces - 1, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (off < pieces[middle].end)
			high = middle;
		else
			low = middle + 1;
	}
	*len = min_t(u64, *len, pieces[low].end - off);
	return pieces[low].start + (off - (low ? pieces[low - 1].end : 0));
}

static struct kiw_window *to_kiw_window(struct kiw_region *region)
{
	return container_of(region, struct kiw_window, region);
}

/* By the index alone: check the key when the region is held. */
static struct kiw_region *region_find(const struct kiw_owner *owner, u32 stag)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "a region is looked up outside of RCU");
	return xa_load(owner->regions, stag >> 8);
}

/* As region_find(), and begin a use, ended by region_put(). */
static struct kiw_region *region_get(const struct kiw_owner *owner, u32 stag)
{
	struct kiw_region *region;

	rcu_read_lock();
	region = region_find(owner, stag);
	if (region && !refcount_inc_not_zero(&region->uses))
		region = NULL;
	rcu_read_unlock();
	return region;
}

/* Is it the region of that STag, for this QP? Another key belonged to an earlier region. */
static enum kiw_region_fault region_check_owner(struct kiw_region *region,
						const struct kiw_owner *owner, u32 stag)
{
	const struct kiw_window *window;

	if (region->stag != stag || !region->valid)
		return KIW_REGION_STAG;
	if (region->pd != owner->pd)
		return KIW_REGION_PD;
	if (region->kind != KIW_REGION_WINDOW)
		return KIW_REGION_OK;
	window = to_kiw_window(region);
	return window->of_qp && window->owner != owner ? KIW_REGION_PD : KIW_REGION_OK;
}

static enum kiw_region_fault region_check(struct kiw_region *region, const struct kiw_owner *owner,
					  u32 stag, int access, u64 addr, u64 len)
{
	enum kiw_region_fault fault = region_check_owner(region, owner, stag);

	if (fault)
		return fault;
	if ((region->access & access) != access)
		return KIW_REGION_ACCESS;
	/* Local reads need no right. A memory window cannot be a local buffer. */
	if (!access && region->kind == KIW_REGION_WINDOW)
		return KIW_REGION_ACCESS;
	switch (kiw_range_check(region->iova, region->length, addr, len)) {
	case KIW_RANGE_OK:
		break;
	case KIW_RANGE_BOUNDS:
		return KIW_REGION_BOUNDS;
	case KIW_RANGE_WRAP:
		return KIW_REGION_WRAP;
	}
	return KIW_REGION_OK;
}

static bool region_can_be_withdrawn(const struct kiw_region *region)
{
	return region->kind == KIW_REGION_FAST || region->kind == KIW_REGION_WINDOW;
}

/*
 * A use of a region that can be withdrawn holds its lock, with BH off: a softirq on the same CPU
 * that withdraws the region would wait for the interrupted thread. sparse cannot follow which kinds
 * take the lock.
 */
static void region_hold(struct kiw_region *region)
{
#ifndef __CHECKER__
	if (region_can_be_withdrawn(region))
		read_lock_bh(&region->lock);
#endif
}

static void region_let_go(struct kiw_region *region)
{
#ifndef __CHECKER__
	if (region_can_be_withdrawn(region))
		read_unlock_bh(&region->lock);
#endif
}

enum kiw_region_fault kiw_region_begin(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use)
{
	enum kiw_region_fault fault;

	if (region_is_memory(owner, stag, access)) {
		use->region = &region_memory;
		return KIW_REGION_OK;
	}
	use->region = region_get(owner, stag);
	if (!use->region)
		return KIW_REGION_STAG;
	region_hold(use->region);
	fault = region_check(use->region, owner, stag, access, addr, len);
	if (fault)
		kiw_region_end(use);
	return fault;
}

enum kiw_region_fault kiw_region_check(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len)
{
	enum kiw_region_fault fault = KIW_REGION_STAG;
	struct kiw_region *region;

	rcu_read_lock();
	region = region_find(owner, stag);
	if (region) {
		region_hold(region);
		fault = region_check(region, owner, stag, access, addr, len);
		region_let_go(region);
	}
	rcu_read_unlock();
	return fault;
}

void kiw_region_end(struct kiw_region_use *use)
{
	if (use->region == &region_memory)
		return;
	region_let_go(use->region);
	region_put(use->region);
}

enum kiw_region_fault kiw_region_go_on(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use)
{
	enum kiw_region_fault fault;

	if (use->region && !region_check(use->region, owner, stag, access, addr, len))
		return KIW_REGION_OK;
	kiw_region_leave(use);
	fault = kiw_region_begin(owner, stag, access, addr, len, use);
	if (fault)
		use->region = NULL;
	return fault;
}

void kiw_region_set_aside(struct kiw_region_use *use)
{
	if (use->region->kind != KIW_REGION_USER)
		kiw_region_leave(use);
}

static struct kiw_window *window_of(const struct rb_node *node)
{
	return rb_entry(node, struct kiw_window, link);
}

static bool window_before(struct rb_node *node, const struct rb_node *other)
{
	return window_of(node)->owner < window_of(other)->owner;
}

static int window_compare(const void *owner, const struct rb_node *node)
{
	const void *other = window_of(node)->owner;

	return owner < other ? -1 : owner > other;
}

/* Clear a window locked for writing. Return: its former parent, or NULL. */
static struct kiw_region *window_clear(struct kiw_window *window)
{
	struct kiw_pd *pd = to_kiw_pd(window->region.pd);
	struct kiw_region *parent = NULL;

	swap(parent, window->parent);
	if (parent && window->of_qp) {
		spin_lock(&pd->lock);
		rb_erase(&window->link, &pd->windows);
		spin_unlock(&pd->lock);
	}
	return parent;
}

/* Withdraw a region locked for writing. Return: its former parent, or NULL. */
static struct kiw_region *region_withdraw(struct kiw_region *region)
{
	lockdep_assert_held_write(&region->lock);
	region->valid = false;
	return region->kind == KIW_REGION_WINDOW ? window_clear(to_kiw_window(region)) : NULL;
}

/* A window leaves its parent. The release orders its finished uses before kiw_region_close(). */
static void region_leave(struct kiw_region *parent)
{
	if (parent)
		atomic_fetch_dec_release(&parent->windows);
}

static bool region_can_be_invalidated(struct kiw_region *region)
{
	switch (region->kind) {
	case KIW_REGION_FAST:
		return true;
	case KIW_REGION_WINDOW:
		return to_kiw_window(region)->of_qp;
	case KIW_REGION_USER:
	case KIW_REGION_MEMORY:
		break;
	}
	return false;
}

/* Memory that a peer cannot reach is not the peer's to withdraw. */
static bool region_is_for_peers(const struct kiw_region *region)
{
	return region->kind != KIW_REGION_FAST || (region->access & REMOTE_RIGHTS);
}

/* @peer: for a peer; else an invalid region with this key is fine */
static enum kiw_region_fault region_invalidate(const struct kiw_owner *owner, u32 stag, bool peer)
{
	enum kiw_region_fault fault = KIW_REGION_STAG;
	struct kiw_region *region, *parent = NULL;
	unsigned long flags;

	region = region_get(owner, stag);
	if (region) {
		write_lock_irqsave(&region->lock, flags);
		fault = region_check_owner(region, owner, stag);
		if (!fault && (!region_can_be_invalidated(region) ||
			       (peer && !region_is_for_peers(region))))
			fault = KIW_REGION_ACCESS;
		if (!fault)
			parent = region_withdraw(region);
		else if (!peer && region_can_be_invalidated(region) && !region->valid &&
			 region->stag == stag && region->pd == owner->pd)
			fault = KIW_REGION_OK;
		write_unlock_irqrestore(&region->lock, flags);
		region_leave(parent);
		region_put(region);
	}
	return fault;
}

enum kiw_region_fault kiw_region_invalidate(const struct kiw_owner *owner, u32 stag)
{
	return region_invalidate(owner, stag, true);
}

enum kiw_region_fault kiw_region_invalidate_own(const struct kiw_owner *owner, u32 stag)
{
	return region_invalidate(owner, stag, false);
}

/* --- registration by requests --------------------------------------------------------------- */

/* Rights of a region of a consumer in the kernel. Optional flags are ignored. */
#define FAST_RIGHTS	(REMOTE_RIGHTS | IB_ACCESS_LOCAL_WRITE)

static struct kiw_fast *to_kiw_fast(struct kiw_region *region)
{
	return container_of(region, struct kiw_fast, region);
}

static bool fast_may_have(const struct kiw_fast *fast, u32 access)
{
	if (access & ~(FAST_RIGHTS | IB_ACCESS_OPTIONAL))
		return false;
	/* A word of atomics may not lie in two pieces. */
	if (fast->gaps && (access & IB_ACCESS_REMOTE_ATOMIC))
		return false;
	return !(access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)) ||
	       (access & IB_ACCESS_LOCAL_WRITE);
}

/* May this QP make the region valid, locked for writing? */
static enum kiw_region_fault fast_check(const struct kiw_fast *fast, const struct kiw_owner *owner,
					const struct kiw_bind_args *args)
{
	u64 length = fast->fresh ? fast->next_length : fast->region.length, end;

	if (fast->region.pd != owner->pd)
		return KIW_REGION_PD;
	if (fast->region.valid || !fast_may_have(fast, args->access))
		return KIW_REGION_ACCESS;
	return check_add_overflow(args->addr, length, &end) ? KIW_REGION_WRAP : KIW_REGION_OK;
}

/* Take what the consumer mapped; it gets the former list for the next time. */
static void fast_take_next(struct kiw_fast *fast)
{
	struct kiw_region *region = &fast->region;
	struct kiw_piece *before = region->pieces;

	lockdep_assert_held_write(&region->lock);
	region->pieces = fast->next;
	region->num_pieces = fast->next_num;
	region->offset = fast->next_offset;
	region->length = fast->next_length;
	fast->next = before;
	fast->fresh = false;
}

static enum kiw_region_fault fast_register(struct kiw_fast *fast, const struct kiw_owner *owner,
					   u32 stag, const struct kiw_bind_args *args)
{
	struct kiw_region *region = &fast->region;
	enum kiw_region_fault fault;
	unsigned long flags;

	write_lock_irqsave(&region->lock, flags);
	fault = fast_check(fast, owner, args);
	if (!fault) {
		/* A consumer may register the same memory again without another mapping. */
		if (fast->fresh)
			fast_take_next(fast);
		region->iova = args->addr;
		region->access = args->access & FAST_RIGHTS;
		WRITE_ONCE(region->stag, stag);
		region->valid = true;
	}
	write_unlock_irqrestore(&region->lock, flags);
	return fault;
}

enum kiw_region_fault kiw_region_register(const struct kiw_owner *owner, u32 stag,
					  const struct kiw_bind_args *args)
{
	enum kiw_region_fault fault = KIW_REGION_STAG;
	struct kiw_region *region;

	region = region_get(owner, args->lkey);
	if (!region)
		return KIW_REGION_STAG;
	if (region->kind == KIW_REGION_FAST && stag >> 8 == args->lkey >> 8)
		fault = fast_register(to_kiw_fast(region), owner, stag, args);
	region_put(region);
	return fault;
}

/* --- windows -------------------------------------------------------------------------------- */

/* Of a window only these count. Local write and optional flags are ignored. */
#define WINDOW_ACCESS	(REMOTE_RIGHTS | IB_ACCESS_LOCAL_WRITE | IB_ZERO_BASED | IB_ACCESS_OPTIONAL)

/* Count a window in its new parent. */
static enum kiw_region_fault region_join(struct kiw_region *region, const struct kiw_owner *owner,
					 const struct kiw_bind_args *args)
{
	enum kiw_region_fault fault;
	int access = IB_ACCESS_MW_BIND;

	if (args->access & ~WINDOW_ACCESS)
		return KIW_REGION_ACCESS;
	if (args->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		access |= IB_ACCESS_LOCAL_WRITE;
	if (!region || region->kind != KIW_REGION_USER)
		return KIW_REGION_STAG;
	fault = region_check(region, owner, args->lkey, access, args->addr, args->length);
	if (fault)
		return fault;
	return atomic_inc_unless_negative(&region->windows) ? KIW_REGION_OK : KIW_REGION_STAG;
}

/* May this QP bind the window, locked for writing? */
static enum kiw_region_fault window_check_bind(const struct kiw_window *window,
					       const struct kiw_owner *owner,
					       const struct kiw_bind_args *args)
{
	if (window->region.pd != owner->pd)
		return KIW_REGION_PD;
	if (window->of_qp && window->region.valid)
		return KIW_REGION_ACCESS;
	if (window->of_qp && !args->length)
		return KIW_REGION_BOUNDS;
	return KIW_REGION_OK;
}

/* Make a window, locked for writing, a part of @parent, or of nothing. */
static void window_set(struct kiw_window *window, const struct kiw_owner *owner, u32 stag,
		       const struct kiw_bind_args *args, struct kiw_region *parent)
{
	struct kiw_region *region = &window->region;
	struct kiw_pd *pd = to_kiw_pd(region->pd);
	u64 off;

	WRITE_ONCE(region->stag, stag);
	if (!parent)
		return;
	off = kiw_region_offset(parent, args->addr);
	region->pages = parent->pages + (off >> PAGE_SHIFT);
	region->offset = off & ~PAGE_MASK;
	region->access = args->access & REMOTE_RIGHTS;
	region->iova = args->access & IB_ZERO_BASED ? 0 : args->addr;
	region->length = args->length;
	window->parent = parent;
	window->owner = owner;
	if (window->of_qp) {
		spin_lock(&pd->lock);
		rb_add(&window->link, &pd->windows, window_before);
		spin_unlock(&pd->lock);
	}
	region->valid = true;
}

static enum kiw_region_fault window_bind(struct kiw_window *window, const struct kiw_owner *owner,
					 u32 stag, const struct kiw_bind_args *args)
{
	struct kiw_region *parent = NULL, *before = NULL;
	enum kiw_region_fault fault = KIW_REGION_OK;
	unsigned long flags;

	if (args->length) {
		rcu_read_lock();
		parent = region_find(owner, args->lkey);
		fault = region_join(parent, owner, args);
		rcu_read_unlock();
	}
	if (fault)
		return fault;
	write_lock_irqsave(&window->region.lock, flags);
	fault = window_check_bind(window, owner, args);
	if (!fault) {
		before = region_withdraw(&window->region);
		window_set(window, owner, stag, args, parent);
	}
	write_unlock_irqrestore(&window->region.lock, flags);
	region_leave(fault ? parent : before);
	return fault;
}

enum kiw_region_fault kiw_region_bind(const struct kiw_owner *owner, u32 stag,
				      const struct kiw_bind_args *args)
{
	enum kiw_region_fault fault = KIW_REGION_STAG;
	struct kiw_region *region;

	region = region_get(owner, stag);
	if (!region)
		return KIW_REGION_STAG;
	if (region->kind == KIW_REGION_WINDOW)
		fault = window_bind(to_kiw_window(region), owner, stag, args);
	region_put(region);
	return fault;
}

void kiw_region_unbind(struct kiw_window *window)
{
	struct kiw_region *parent;
	unsigned long flags;

	write_lock_irqsave(&window->region.lock, flags);
	parent = region_withdraw(&window->region);
	write_unlock_irqrestore(&window->region.lock, flags);
	region_leave(parent);
}

/* Return: whether there was one. The window may be going, but not its memory. */
static bool region_unbind_one(const struct kiw_owner *owner)
{
	struct kiw_pd *pd = to_kiw_pd(owner->pd);
	struct rb_node *node;
	unsigned long flags;

	rcu_read_lock();
	spin_lock_irqsave(&pd->lock, flags);
	node = rb_find_first(owner, &pd->windows, window_compare);
	spin_unlock_irqrestore(&pd->lock, flags);
	if (node)
		kiw_region_unbind(window_of(node));
	rcu_read_unlock();
	return node;
}

void kiw_region_unbind_all(const struct kiw_owner *owner)
{
	while (region_unbind_one(owner))
		cond_resched();
}
