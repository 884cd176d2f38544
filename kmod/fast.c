// SPDX-License-Identifier: GPL-2.0
#include "fast.h"

#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "mr.h"
#include "types.h"

void kiw_fast_free(struct kiw_fast *fast)
{
	kvfree(fast->region.pieces);
	kvfree(fast->next);
}

static int fast_alloc_lists(struct kiw_fast *fast, u32 max)
{
	fast->region.pieces = kvcalloc(max, sizeof(*fast->region.pieces), GFP_KERNEL);
	fast->next = kvcalloc(max, sizeof(*fast->next), GFP_KERNEL);
	if (fast->region.pieces && fast->next)
		return 0;
	kiw_fast_free(fast);
	return -ENOMEM;
}

struct ib_mr *kiw_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 max)
{
	struct kiw_device *dev = to_kiw_device(pd->device);
	struct kiw_mr *mr;
	int err = -ENOMEM;

	if (type != IB_MR_TYPE_MEM_REG && type != IB_MR_TYPE_SG_GAPS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max || max > KIW_MAX_FAST_PAGES)
		return ERR_PTR(-EINVAL);
	if (!kiw_count_up(&dev->num_mr, KIW_MAX_MR))
		return ERR_PTR(-ENOMEM);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		goto err_count;
	mr->max = max;
	mr->fast.gaps = type == IB_MR_TYPE_SG_GAPS;
	mr->region.kind = KIW_REGION_FAST;
	mr->region.pd = pd;
	err = fast_alloc_lists(&mr->fast, max);
	if (err)
		goto err_free;
	err = kiw_region_add(&dev->regions, &mr->region);
	if (err)
		goto err_lists;
	mr->ibmr.lkey = mr->region.stag;
	mr->ibmr.rkey = mr->region.stag;
	return &mr->ibmr;

err_lists:
	kiw_fast_free(&mr->fast);
err_free:
	kfree(mr);
err_count:
	atomic_dec(&dev->num_mr);
	return ERR_PTR(err);
}

/* Withdraw the last mapping from the next registration, or offer it. */
static void fast_set_fresh(struct kiw_fast *fast, bool fresh)
{
	unsigned long flags;

	write_lock_irqsave(&fast->region.lock, flags);
	fast->fresh = fresh;
	write_unlock_irqrestore(&fast->region.lock, flags);
}

/* Append @len bytes at @start. Return: false: there is no room. */
static bool fast_append(struct kiw_mr *mr, void *start, u64 len)
{
	struct kiw_fast *fast = &mr->fast;
	struct kiw_piece *last = &fast->next[fast->next_num] - 1;
	u64 begin = fast->next_num > 1 ? last[-1].end : 0;
	u64 end = fast->next_num ? last->end : 0;

	if (fast->next_num && last->start + (last->end - begin) == start) {
		last->end += len;
		return true;
	}
	if (fast->next_num == mr->max)
		return false;
	fast->next[fast->next_num++] = (struct kiw_piece){ start, end + len };
	return true;
}

static void *fast_address(u64 addr)
{
	return (void *)(uintptr_t)addr;
}

/* A page of the region's page size, for ib_sg_to_pages(); runs of pages become one piece. */
static int fast_add_page(struct ib_mr *ibmr, u64 addr)
{
	struct kiw_mr *mr = to_kiw_mr(ibmr);

	if (mr->mapped == mr->max)
		return -ENOMEM;
	mr->mapped++;
	return fast_append(mr, fast_address(addr), ibmr->page_size) ? 0 : -ENOMEM;
}

/* The first piece begins at a page, too, so that offsets tell how memory is aligned. */
static int fast_map_gaps(struct ib_mr *ibmr, struct scatterlist *sg, int n, u32 skip)
{
	struct kiw_mr *mr = to_kiw_mr(ibmr);
	u32 in_page = (sg_dma_address(sg) + skip) & ~PAGE_MASK;
	struct scatterlist *at;
	int i;

	ibmr->iova = sg_dma_address(sg) + skip;
	ibmr->length = 0;
	for_each_sg(sg, at, n, i) {
		u64 start = sg_dma_address(at) + skip - in_page;
		u32 len = sg_dma_len(at) - skip;

		if (!fast_append(mr, fast_address(start), (u64)len + in_page))
			break;
		ibmr->length += len;
		skip = 0;
		in_page = 0;
	}
	return i;
}

int kiw_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int n, unsigned int *offset)
{
	struct kiw_mr *mr = to_kiw_mr(ibmr);
	struct kiw_fast *fast = &mr->fast;
	u32 skip = offset ? *offset : 0;
	int ret;

	if (mr->umem || n <= 0 || skip > sg_dma_len(sg))
		return -EINVAL;
	fast_set_fresh(fast, false);
	mr->mapped = 0;
	fast->next_num = 0;
	if (fast->gaps) {
		ret = fast_map_gaps(ibmr, sg, n, skip);
		if (offset)
			*offset = 0;
	} else {
		ret = ib_sg_to_pages(ibmr, sg, n, offset, fast_add_page);
	}
	/* 0: perhaps a part of the first entry */
	if (ret < 0)
		return ret;
	fast->next_offset = ibmr->iova & ((fast->gaps ? PAGE_SIZE : ibmr->page_size) - 1);
	fast->next_length = ibmr->length;
	fast_set_fresh(fast, true);
	return ret;
}
