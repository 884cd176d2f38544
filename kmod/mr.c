// SPDX-License-Identifier: GPL-2.0
#include "mr.h"

#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "attach.h"
#include "compat.h"
#include "fast.h"
#include "lend.h"
#include "types.h"

/* How long a region waits for packets in queues of this host, jiffies */
#define MR_PATIENCE (10 * HZ)

/* Huge pages need no special care. */
#define ACCESS_KNOWN (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | \
		      IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ZERO_BASED | \
		      IB_ACCESS_HUGETLB | IB_ACCESS_OPTIONAL)

static int mr_fill_pages(struct kiw_mr *mr)
{
	size_t n = ib_umem_num_pages(mr->umem), i = 0;
	struct sg_page_iter it;

	mr->region.pages = kvmalloc_array(n, sizeof(*mr->region.pages),
					  GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mr->region.pages)
		return -ENOMEM;
	/* Pages, not DMA addresses: we do no DMA. */
	for_each_sgtable_page(&mr->umem->sgt_append.sgt, &it, 0) {
		if (WARN_ON_ONCE(i == n))
			return -EINVAL;
		mr->region.pages[i++] = sg_page_iter_page(&it);
	}
	return WARN_ON_ONCE(i != n) ? -EINVAL : 0;
}

struct ib_mr *kiw_reg_user_mr_common(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				     struct kiw_mr *instead)
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
	mr->region = (struct kiw_region){
		.kind = KIW_REGION_USER,
		.valid = true,
		.access = access,
		.pd = pd,
		.iova = iova,
		.length = length,
		.offset = start & ~PAGE_MASK,
	};

	mr->umem = ib_umem_get_va(pd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}
	err = mr_fill_pages(mr);
	if (err)
		goto err_umem;
	if (instead)
		kiw_region_replace(&dev->regions, &instead->region, &mr->region);
	else
		err = kiw_region_add(&dev->regions, &mr->region);
	if (err)
		goto err_umem;
	mr->ibmr.lkey = mr->region.stag;
	mr->ibmr.rkey = mr->region.stag;
	return &mr->ibmr;

err_umem:
	kvfree(mr->region.pages);
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
err_count:
	atomic_dec(&dev->num_mr);
	return ERR_PTR(err);
}

struct ib_mr *kiw_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata)
{
	struct kiw_mr *mr = to_kiw_mr(ibmr);
	struct ib_mr *again;

	if (!(flags & IB_MR_REREG_TRANS)) {
		if (mr->umem->owning_mm != current->mm)
			return ERR_PTR(-EINVAL);
		start = mr->umem->address;
		length = mr->region.length;
		iova = mr->region.iova;
	}
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->region.access;
	/* RDMA core assumes that deregistering the old region succeeds. */
	if (!kiw_region_close(&mr->region))
		return ERR_PTR(-EBUSY);
	/* The same memory keeps its STag, which peers know; other memory gets a new one. */
	again = kiw_reg_user_mr_common(pd, start, length, iova, access,
				       flags & IB_MR_REREG_TRANS ? NULL : mr);
	if (IS_ERR(again))
		kiw_region_reopen(&mr->region);
	return again;
}

/*
 * TCP may hold pages of an unreachable region: it gets copies. Packets in queues of this host keep
 * the pages. A running process, which may write to them, waits for these for a limited time; its
 * exit and the device's end do not.
 */
static void mr_end_loans(struct kiw_device *dev, struct kiw_mr *mr)
{
	struct kiw_lent *lent = mr->region.lent;
	struct kiw_stream *s;
	u64 pages;

	if (!lent)
		return;
	while ((s = kiw_lent_next(lent))) {
		kiw_stream_call_back(s);
		kiw_stream_put(s);
	}
	if (current->mm == mr->umem->owning_mm)
		kiw_lend_wait(&lent->loans, MR_PATIENCE);
	pages = kiw_lent_leave(lent, mr->umem->owning_mm);
	if (pages)
		ibdev_warn_ratelimited(&dev->ibdev, "packets hold up to %llu pages of a region that goes\n",
				       pages);
}

/*
 * Unreachable: no window is bound or can be, the table lacks it, all uses ended, and TCP holds none
 * of its pages. Released: pages and object. Packets hold references to their pages. Those of a
 * consumer in the kernel are never lent.
 */
int kiw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct kiw_device *dev = to_kiw_device(ibmr->device);
	struct kiw_mr *mr = to_kiw_mr(ibmr);

	/* At the end of a process its windows go as well, and RDMA core retries. */
	if (!kiw_region_close(&mr->region))
		return -EBUSY;
	kiw_region_remove(&dev->regions, &mr->region);
	if (mr->umem) {
		mr_end_loans(dev, mr);
		kvfree(mr->region.pages);
		ib_umem_release(mr->umem);
	} else {
		kiw_fast_free(&mr->fast);
	}
	kfree_rcu(mr, region.rcu);
	atomic_dec(&dev->num_mr);
	return 0;
}
