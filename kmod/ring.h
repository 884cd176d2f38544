/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of rings that a process maps. */
#ifndef KIWARP_RING_H
#define KIWARP_RING_H

#include <rdma/ib_verbs.h>

#include "kiwarp-abi.h"

struct kiw_ring_entry;

/**
 * struct kiw_ring_map - a ring's memory and the mapping offered to its process
 * @entry: RDMA core's mapping entry, which owns the memory
 * @mem: the ring, zeroed at creation; starts with its header
 * @size: octets, a multiple of PAGE_SIZE
 *
 * The owner holds @entry until kiw_ring_free(); an mmap() in flight holds it too. Pages that a
 * process still has mapped outlive both.
 */
struct kiw_ring_map {
	struct kiw_ring_entry	*entry;
	void			*mem;
	size_t			size;
};

/**
 * kiw_ring_alloc() - make a ring and offer it to a process
 * @map: to fill
 * @uctx: the process
 * @entries: slots, a power of two
 * @stride: octets per slot
 *
 * Return: 0, -ENOMEM, also for more than the process may lock, or what
 * rdma_user_mmap_entry_insert() says.
 */
int kiw_ring_alloc(struct kiw_ring_map *map, struct ib_ucontext *uctx, u32 entries, u32 stride);

/** kiw_ring_free() - withdraw the offer and let go of the memory; @map may be all zero */
void kiw_ring_free(struct kiw_ring_map *map);

/** kiw_ring_offset() - what the process passes to mmap() */
u64 kiw_ring_offset(const struct kiw_ring_map *map);

int kiw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void kiw_mmap_free(struct rdma_user_mmap_entry *rdma_entry);

/** kiw_ring_slot() - address of a slot; @index runs freely, @entries is a power of two */
static inline void *kiw_ring_slot(const struct kiw_ring_map *map, u32 index, u32 entries,
				  u32 stride)
{
	return map->mem + KIW_RING_HEADER + (size_t)(index & (entries - 1)) * stride;
}

#endif /* KIWARP_RING_H */
