/* SPDX-License-Identifier: GPL-2.0 */
/* Memory regions of processes: pinned pages behind a region of the table. */
#ifndef KIWARP_MR_H
#define KIWARP_MR_H

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "region.h"

/**
 * struct kiw_mr - a registered region
 * @ibmr: the part that RDMA core knows; lkey == rkey == STag
 * @umem: the pinned memory
 * @region: what peers and work requests find
 */
struct kiw_mr {
	struct ib_mr		ibmr;
	struct ib_umem		*umem;
	struct kiw_region	region;
};

static inline struct kiw_mr *to_kiw_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct kiw_mr, ibmr);
}

/**
 * kiw_reg_user_mr_common() - register memory of the process
 * @pd: its protection domain
 * @start: address in the process
 * @length: bytes, 1 to %KIW_MAX_MR_SIZE
 * @iova: address of the first byte, as peers and work requests name it
 * @access: IB_ACCESS_*
 * @instead: closed region of a process, to be deregistered: its STag leads to the new one from now
 *	on. NULL: the STag is a new one
 *
 * Return: the region or ERR_PTR(); then @instead is as it was.
 */
struct ib_mr *kiw_reg_user_mr_common(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				     struct kiw_mr *instead);

/**
 * kiw_rereg_user_mr() - register a region once more, with some things changed
 * @ibmr: region, which stays as it is
 * @flags: IB_MR_REREG_*, what of the following counts; the rest is the region's
 * @start: address in the process
 * @length: bytes
 * @iova: address for peers and work requests
 * @access: IB_ACCESS_*
 * @pd: protection domain, the region's or a new one
 * @udata: of the call
 *
 * Return: the new region, with another STag, after which RDMA core deregisters the old one; or an
 * error as of a registration, -EINVAL for memory of another process, -EBUSY if a window is bound
 * to the region.
 */
struct ib_mr *kiw_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata);
int kiw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

#endif /* KIWARP_MR_H */
