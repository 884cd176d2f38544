/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions: pinned pages of a process, or what a consumer in the kernel maps, behind a region
 * of the table.
 */
#ifndef KIWARP_MR_H
#define KIWARP_MR_H

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "region.h"

/*
 * A registered region; lkey == rkey == STag, of which a consumer in the kernel may change the key
 * @umem: of a process; NULL: of a consumer in the kernel
 * @max: pages, or pieces, of @fast
 * @mapped: pages of @fast in the present mapping
 */
struct kiw_mr {
	struct ib_mr		ibmr;
	struct ib_umem		*umem;
	u32			max;
	u32			mapped;
	union {
		struct kiw_region	region;
		struct kiw_fast		fast;
	};
};

static inline struct kiw_mr *to_kiw_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct kiw_mr, ibmr);
}

/**
 * kiw_reg_user_mr_common() - register memory of the process
 * @pd: protection domain
 * @start: address in the process
 * @length: bytes, 1 to %KIW_MAX_MR_SIZE
 * @iova: address of the first byte for peers and requests
 * @access: IB_ACCESS_*
 * @instead: closed region that passes its STag to the new one, or NULL: new STag
 *
 * Return: region or ERR_PTR(); @instead is unchanged then.
 */
struct ib_mr *kiw_reg_user_mr_common(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access,
				     struct kiw_mr *instead);

/**
 * kiw_rereg_user_mr() - register a region again, with changes
 * @ibmr: region, which stays as it is
 * @flags: IB_MR_REREG_*: changed parameters; the others are the region's
 * @start: address in the process
 * @length: bytes
 * @iova: address for peers and requests
 * @access: IB_ACCESS_*
 * @pd: protection domain, the region's or a new one
 * @udata: of the call
 *
 * Return: new region, after which RDMA core deregisters the old one; or a registration's error,
 * -EINVAL for memory of another process, -EBUSY with bound windows.
 */
struct ib_mr *kiw_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata);
int kiw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

#endif /* KIWARP_MR_H */
