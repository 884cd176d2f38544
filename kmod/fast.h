/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Regions of consumers in the kernel: fast registration. The consumer maps memory, in any context;
 * a request makes the mapping valid (kiw_region_register()) and another withdraws it. A mapping may
 * be made before the withdrawal of the one before it has run.
 */
#ifndef KIWARP_FAST_H
#define KIWARP_FAST_H

#include <rdma/ib_verbs.h>

struct kiw_fast;
struct scatterlist;

/**
 * kiw_alloc_mr() - make a region, not valid, without memory
 * @pd: protection domain
 * @type: %IB_MR_TYPE_MEM_REG: pages; %IB_MR_TYPE_SG_GAPS: runs of any length and alignment
 * @max: pages or runs of a mapping, at most %KIW_MAX_FAST_PAGES
 *
 * May sleep.
 *
 * Return: region or ERR_PTR(): -EOPNOTSUPP for another type, -EINVAL, -ENOMEM, -ENOSPC.
 */
struct ib_mr *kiw_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max);

/**
 * kiw_map_mr_sg() - map memory for the next registration
 * @ibmr: region; RDMA core set its page size
 * @sg: memory, with addresses of ib_dma_map_sg()
 * @n: entries of @sg
 * @offset: into the first entry, and on return into the first that is not mapped; or NULL
 *
 * Process context or softirq, one call for a region at a time. Sets the region's iova and length.
 *
 * Return: mapped entries, fewer than @n if the region has no room, or if pages have gaps; or
 * -EINVAL.
 */
int kiw_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int n, unsigned int *offset);

/** kiw_fast_free() - free the lists of an unreachable region */
void kiw_fast_free(struct kiw_fast *fast);

#endif /* KIWARP_FAST_H */
