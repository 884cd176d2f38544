// SPDX-License-Identifier: GPL-2.0
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "compat.h"
#include "device.h"
#include "mr.h"
#include "proto/range.h"

/* How often a random index may hit one in use; at most one in sixteen is */
#define STAG_TRIES 64

/* REMOTE_ATOMIC may be asked for, it is just never used. Huge pages are pages like others. */
#define ACCESS_KNOWN (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | \
		      IB_ACCESS_REMOTE_ATOMIC | IB_ZERO_BASED | IB_ACCESS_HUGETLB | \
		      IB_ACCESS_OPTIONAL)

DEFINE_SRCU(kiw_mr_srcu);

enum kiw_mr_fault kiw_mr_find(struct kiw_device *dev, const struct ib_pd *pd, u32 stag, int access,
			      u64 addr, u32 len, struct kiw_mr **mr)
{
	struct kiw_mr *found = xa_load(&dev->mrs, stag >> 8);

	RCU_LOCKDEP_WARN(!srcu_read_lock_held(&kiw_mr_srcu),
			 "region looked up outside of a read-side section");

	/* The key counts too: with another one, it is another region that was here once. */
	if (!found || found->stag != stag)
		return KIW_MR_STAG;
	if (found->pd != pd)
		return KIW_MR_PD;
	if ((found->access & access) != access)
		return KIW_MR_ACCESS;
	switch (kiw_range_check(found->iova, found->length, addr, len)) {
	case KIW_RANGE_OK:
		break;
	case KIW_RANGE_BOUNDS:
		return KIW_MR_BOUNDS;
	case KIW_RANGE_WRAP:
		return KIW_MR_WRAP;
	}
	*mr = found;
	return KIW_MR_OK;
}

static int mr_fill_pages(struct kiw_mr *mr)
{
	size_t n = ib_umem_num_pages(mr->umem), i = 0;
	struct sg_page_iter it;

	mr->pages = kvmalloc_array(n, sizeof(*mr->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mr->pages)
		return -ENOMEM;
	/* The pages themselves, not the DMA addresses: we are no DMA device. */
	for_each_sgtable_page(&mr->umem->sgt_append.sgt, &it, 0) {
		if (WARN_ON_ONCE(i == n))
			return -EINVAL;
		mr->pages[i++] = sg_page_iter_page(&it);
	}
	return WARN_ON_ONCE(i != n) ? -EINVAL : 0;
}

/*
 * Gives a region its STag and makes it reachable. Indexes are spread at random over the whole space
 * and keys are random too, so that neither a guess nor a stale STag finds a region (RFC 5042,
 * section 8.1.1). Index 0 isn't used: STag 0 is never good.
 */
static int mr_publish(struct kiw_device *dev, struct kiw_mr *mr)
{
	unsigned int tries;
	int err = -EBUSY;

	for (tries = 0; err == -EBUSY && tries < STAG_TRIES; tries++) {
		mr->stag = get_random_u32();
		if (!(mr->stag >> 8))
			continue;
		mr->ibmr.lkey = mr->stag;
		mr->ibmr.rkey = mr->stag;
		err = xa_insert(&dev->mrs, mr->stag >> 8, mr, GFP_KERNEL);
	}
	return err == -EBUSY ? -ENOSPC : err;
}

struct ib_mr *kiw_reg_user_mr_common(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access)
{
	struct kiw_device *dev = to_kiw_device(pd->device);
	struct kiw_mr *mr;
	u64 end;
	int err;

	if (access & ~ACCESS_KNOWN)
		return ERR_PTR(-EOPNOTSUPP);
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return ERR_PTR(-EINVAL);
	if (access & IB_ZERO_BASED)
		iova = 0;
	if (!length || length > KIW_MAX_MR_SIZE || check_add_overflow(iova, length, &end))
		return ERR_PTR(-EINVAL);
	if (!kiw_count_up(&dev->num_mr, KIW_MAX_MR))
		return ERR_PTR(-ENOMEM);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		err = -ENOMEM;
		goto err_count;
	}
	mr->pd = pd;
	mr->iova = iova;
	mr->length = length;
	mr->offset = start & ~PAGE_MASK;
	mr->access = access;

	mr->umem = ib_umem_get_va(pd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}
	err = mr_fill_pages(mr);
	if (err)
		goto err_umem;
	err = mr_publish(dev, mr);
	if (err)
		goto err_umem;
	return &mr->ibmr;

err_umem:
	kvfree(mr->pages);
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
err_count:
	atomic_dec(&dev->num_mr);
	return ERR_PTR(err);
}

/*
 * Unreachable: the table no longer has it, and whoever found it there is in a read-side section
 * that the grace period outlasts; no pointer leaves such a section. Released: the pages and the
 * object. It waits for nobody else: what TCP still has to send is a copy.
 */
int kiw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct kiw_device *dev = to_kiw_device(ibmr->device);
	struct kiw_mr *mr = to_kiw_mr(ibmr);

	xa_erase(&dev->mrs, mr->stag >> 8);
	synchronize_srcu_expedited(&kiw_mr_srcu);

	kvfree(mr->pages);
	ib_umem_release(mr->umem);
	kfree(mr);
	atomic_dec(&dev->num_mr);
	return 0;
}
