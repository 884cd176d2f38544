// SPDX-License-Identifier: GPL-2.0
#include "mw.h"

#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "kiwarp-abi.h"
#include "types.h"

int kiw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct kiw_device *dev = to_kiw_device(ibmw->device);
	struct kiw_mw *mw = to_kiw_mw(ibmw);
	struct kiw_ucontext *uctx;
	int err;

	uctx = rdma_udata_to_drv_context(udata, struct kiw_ucontext, ibuctx);
	/* An earlier provider cannot bind it. */
	if (!(uctx->features & KIW_FEATURE_MW))
		return -EOPNOTSUPP;
	if (ibmw->type != IB_MW_TYPE_1 && ibmw->type != IB_MW_TYPE_2)
		return -EINVAL;
	if (!kiw_count_up(&dev->num_mw, KIW_MAX_MW))
		return -ENOMEM;
	mw->window = kzalloc(sizeof(*mw->window), GFP_KERNEL_ACCOUNT);
	if (!mw->window) {
		err = -ENOMEM;
		goto err_count;
	}
	mw->window->region.kind = KIW_REGION_WINDOW;
	mw->window->region.pd = ibmw->pd;
	mw->window->of_qp = ibmw->type == IB_MW_TYPE_2;
	err = kiw_region_add(&dev->regions, &mw->window->region);
	if (err)
		goto err_free;
	ibmw->rkey = mw->window->region.stag;
	return 0;

err_free:
	kfree(mw->window);
err_count:
	atomic_dec(&dev->num_mw);
	return err;
}

/*
 * Unreachable: out of the table, all binds and uses ended, and off its protection domain's windows.
 * Released: its count in the region, and the window; RDMA core frees the object.
 */
int kiw_dealloc_mw(struct ib_mw *ibmw)
{
	struct kiw_device *dev = to_kiw_device(ibmw->device);
	struct kiw_mw *mw = to_kiw_mw(ibmw);

	kiw_region_remove(&dev->regions, &mw->window->region);
	kiw_region_unbind(mw->window);
	kfree_rcu(mw->window, region.rcu);
	atomic_dec(&dev->num_mw);
	return 0;
}
