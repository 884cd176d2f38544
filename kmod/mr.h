/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions and the copies into and out of them.
 *
 * Look-ups and copies run in a read-side section of kiw_mr_srcu and take no reference:
 * kiw_dereg_mr() takes the region out of the table, waits for a grace period, and only then unpins.
 * A copy comes with a look-up and all checks in the same section, for every segment anew. No page
 * of a region is handed on: TCP gets copies, in memory of ours.
 *
 * An SRCU domain of their own, because processes deregister in loops over thousands of regions: a
 * plain grace period of RCU takes tens of milliseconds, and an expedited one interrupts every CPU.
 */
#ifndef KIWARP_MR_H
#define KIWARP_MR_H

#include <linux/highmem.h>
#include <linux/srcu.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "proto/verdict.h"

struct kiw_device;

/**
 * struct kiw_mr - a registered region
 * @ibmr: the part that RDMA core knows; lkey == rkey == STag
 * @pd: protection domain
 * @umem: the pinned user memory
 * @pages: one pointer per page of PAGE_SIZE
 * @iova: address of the first octet, as peers and work requests name it
 * @length: octets
 * @offset: of the first octet in the first page
 * @access: IB_ACCESS_*
 * @stag: index << 8 | key
 */
struct kiw_mr {
	struct ib_mr	ibmr;
	struct ib_pd	*pd;
	struct ib_umem	*umem;
	struct page	**pages;
	u64		iova;
	u64		length;
	u32		offset;
	int		access;
	u32		stag;
};

static inline struct kiw_mr *to_kiw_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct kiw_mr, ibmr);
}

extern struct srcu_struct kiw_mr_srcu;

/** kiw_mr_lock() - begin a read-side section of regions. Return: for kiw_mr_unlock() */
static inline int kiw_mr_lock(void)
{
	return srcu_read_lock(&kiw_mr_srcu);
}

static inline void kiw_mr_unlock(int idx)
{
	srcu_read_unlock(&kiw_mr_srcu, idx);
}

/* Why a region may not be touched; the caller turns it into an RDMAP or DDP error or a status. */
enum kiw_mr_fault {
	KIW_MR_OK = 0,
	KIW_MR_STAG,
	KIW_MR_PD,
	KIW_MR_ACCESS,
	KIW_MR_BOUNDS,
	KIW_MR_WRAP,
};

/**
 * kiw_mr_find() - look up a region and check that it may be used so
 * @dev: device
 * @pd: protection domain of the QP
 * @stag: full STag, index and key
 * @access: IB_ACCESS_* bits that are needed; 0 for local reads
 * @addr: first octet
 * @len: octets, not 0
 * @mr: where to put the region
 *
 * Caller is in a read-side section of regions; @mr is valid until its end.
 *
 * Return: KIW_MR_OK or the first check that failed, in the order of RFC 5041 section 7.1.
 */
enum kiw_mr_fault kiw_mr_find(struct kiw_device *dev, const struct ib_pd *pd, u32 stag, int access,
			      u64 addr, u32 len, struct kiw_mr **mr);

/** kiw_mr_offset() - octets between the start of the region's first page and an address in it */
static inline u64 kiw_mr_offset(const struct kiw_mr *mr, u64 addr)
{
	return addr - mr->iova + mr->offset;
}

/**
 * kiw_mr_chunk() - the longest run of octets at an address that lies in one page
 * @mr: region from kiw_mr_find()
 * @addr: within the checked range
 * @len: in: octets wanted, out: octets in this page
 *
 * Return: the kernel's address of the octet, valid until kunmap_local().
 */
static inline void *kiw_mr_chunk(const struct kiw_mr *mr, u64 addr, u32 *len)
{
	u64 off = kiw_mr_offset(mr, addr);
	u32 in_page = off & ~PAGE_MASK;

	*len = min_t(u32, *len, PAGE_SIZE - in_page);
	return kmap_local_page(mr->pages[off >> PAGE_SHIFT]) + in_page;
}

struct ib_mr *kiw_reg_user_mr_common(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access);
int kiw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

#endif /* KIWARP_MR_H */
