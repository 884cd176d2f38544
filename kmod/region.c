// SPDX-License-Identifier: GPL-2.0
#include "region.h"

#include <linux/random.h>

#include "qp.h"
#include "proto/range.h"

/* How often a random index may hit one in use; at most one in sixteen is */
#define REGION_TRIES 64

DEFINE_STATIC_SRCU(region_srcu);

int kiw_region_add(struct xarray *regions, struct kiw_region *region)
{
	unsigned int tries;
	int err = -EBUSY;

	rwlock_init(&region->lock);
	for (tries = 0; err == -EBUSY && tries < REGION_TRIES; tries++) {
		region->stag = get_random_u32();
		if (region->stag >> 8)
			err = xa_insert(regions, region->stag >> 8, region, GFP_KERNEL);
	}
	return err == -EBUSY ? -ENOSPC : err;
}

void kiw_region_remove(struct xarray *regions, struct kiw_region *region)
{
	xa_erase(regions, region->stag >> 8);
	synchronize_srcu_expedited(&region_srcu);
}

/* The key counts, too: with another one, it is another region that was here once. */
static struct kiw_region *region_find(const struct kiw_qp *qp, u32 stag)
{
	struct kiw_region *region = xa_load(&qp->dev->regions, stag >> 8);

	lockdep_assert(srcu_read_lock_held(&region_srcu));
	return region && region->stag == stag ? region : NULL;
}

static enum kiw_region_fault region_check(const struct kiw_region *region, const struct kiw_qp *qp,
					  int access, u64 addr, u32 len)
{
	if (!region->valid)
		return KIW_REGION_STAG;
	if (region->pd != qp->ibqp.pd)
		return KIW_REGION_PD;
	if ((region->access & access) != access)
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

/*
 * A use of a region that can be withdrawn holds its lock. BH off: else a softirq on the same CPU
 * could want to withdraw the region, and would wait for the thread that it interrupted. Which kinds
 * take the lock is more than sparse can follow: it doesn't see this.
 */
static void region_hold(struct kiw_region *region)
{
#ifndef __CHECKER__
	if (region->kind != KIW_REGION_USER)
		read_lock_bh(&region->lock);
#endif
}

static void region_let_go(struct kiw_region *region)
{
#ifndef __CHECKER__
	if (region->kind != KIW_REGION_USER)
		read_unlock_bh(&region->lock);
#endif
}

enum kiw_region_fault kiw_region_begin(const struct kiw_qp *qp, u32 stag, int access, u64 addr,
				       u32 len, struct kiw_region_use *use)
{
	enum kiw_region_fault fault = KIW_REGION_STAG;

	use->idx = srcu_read_lock(&region_srcu);
	use->region = region_find(qp, stag);
	if (use->region) {
		region_hold(use->region);
		fault = region_check(use->region, qp, access, addr, len);
		if (!fault) {
			__release(&region_srcu);	/* sparse can't follow this, either */
			return KIW_REGION_OK;
		}
		region_let_go(use->region);
	}
	srcu_read_unlock(&region_srcu, use->idx);
	return fault;
}

void kiw_region_end(struct kiw_region_use *use)
{
	region_let_go(use->region);
	__acquire(&region_srcu);
	srcu_read_unlock(&region_srcu, use->idx);
}

enum kiw_region_fault kiw_region_invalidate(const struct kiw_qp *qp, u32 stag)
{
	enum kiw_region_fault fault = KIW_REGION_STAG;
	struct kiw_region *region;
	unsigned long flags;
	int idx;

	idx = srcu_read_lock(&region_srcu);
	region = region_find(qp, stag);
	if (region) {
		write_lock_irqsave(&region->lock, flags);
		fault = region_check(region, qp, 0, 0, 0);
		if (!fault && region->kind == KIW_REGION_USER)
			fault = KIW_REGION_ACCESS;
		if (!fault)
			region->valid = false;
		write_unlock_irqrestore(&region->lock, flags);
	}
	srcu_read_unlock(&region_srcu, idx);
	return fault;
}

enum kiw_err kiw_region_rdmap_error(enum kiw_region_fault fault)
{
	switch (fault) {
	case KIW_REGION_OK:
		return KIW_OK;
	case KIW_REGION_STAG:
		return KIW_ERR_RDMAP_STAG;
	case KIW_REGION_PD:
		return KIW_ERR_RDMAP_PD;
	case KIW_REGION_ACCESS:
		return KIW_ERR_RDMAP_ACCESS;
	case KIW_REGION_BOUNDS:
		return KIW_ERR_RDMAP_BOUNDS;
	case KIW_REGION_WRAP:
		return KIW_ERR_RDMAP_WRAP;
	}
	return KIW_ERR_RDMAP_UNSPECIFIED;
}

/* A missing right has no code in DDP; RDMAP's is what most peers send. */
enum kiw_err kiw_region_ddp_error(enum kiw_region_fault fault)
{
	switch (fault) {
	case KIW_REGION_OK:
		return KIW_OK;
	case KIW_REGION_STAG:
		return KIW_ERR_DDP_STAG;
	case KIW_REGION_PD:
		return KIW_ERR_DDP_PD;
	case KIW_REGION_ACCESS:
		return KIW_ERR_RDMAP_ACCESS;
	case KIW_REGION_BOUNDS:
		return KIW_ERR_DDP_BOUNDS;
	case KIW_REGION_WRAP:
		return KIW_ERR_DDP_WRAP;
	}
	return KIW_ERR_DDP_CATASTROPHE;
}
