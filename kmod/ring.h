/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of rings that a process maps. */
#ifndef KIWARP_RING_H
#define KIWARP_RING_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>

#include "kiwarp-abi.h"

struct kiw_arena;
struct kiw_ucontext;

/**
 * struct kiw_rings - all arenas of a process's context
 * @mutex: protects this and what is taken of the arenas; innermost
 * @room: arenas with room for further rings
 * @full: all others
 * @next_number: of the next arena
 */
struct kiw_rings {
	struct mutex		mutex;
	struct list_head	room;
	struct list_head	full;
	u64			next_number;
};

/**
 * struct kiw_ring_map - a ring's memory
 * @arena: what it lies in, and holds a count of until kiw_ring_free()
 * @mem: the ring, zeroed at creation; starts with its header
 * @size: bytes, a multiple of KIW_RING_ALIGN
 * @stride: bytes per slot
 */
struct kiw_ring_map {
	struct kiw_arena	*arena;
	void			*mem;
	u32			size;
	u32			stride;
};

void kiw_rings_init(struct kiw_rings *rings);
/** kiw_rings_exit() - all rings are gone */
void kiw_rings_exit(struct kiw_rings *rings);

/**
 * kiw_ring_alloc() - make a ring that a process can map
 * @map: to fill
 * @uctx: the process
 * @entries: slots, a power of two
 * @stride: bytes per slot
 *
 * Return: 0, -ENOMEM, also for more than the process may lock, or what
 * rdma_user_mmap_entry_insert() says.
 */
int kiw_ring_alloc(struct kiw_ring_map *map, struct kiw_ucontext *uctx, u32 entries, u32 stride);

/** kiw_ring_free() - let go of the memory; @map may be all zero */
void kiw_ring_free(struct kiw_ring_map *map);

/** kiw_ring_tell() - what the process has to know of its ring; for one that is all zero, nothing */
void kiw_ring_tell(const struct kiw_ring_map *map, u32 entries,
		   struct kiw_ring_geometry *geometry);

int kiw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void kiw_mmap_free(struct rdma_user_mmap_entry *rdma_entry);

/** kiw_ring_prod() - the process's index of a work ring, behind the last request that it posted */
static inline u32 kiw_ring_prod(const struct kiw_ring_map *map)
{
	const struct kiw_wq_ring *ring = map->mem;

	/* Pairs with the release store of prod in the process. */
	return smp_load_acquire(&ring->prod);
}

/** kiw_ring_slot() - address of a slot; @index runs freely, @entries is a power of two */
static inline void *kiw_ring_slot(const struct kiw_ring_map *map, u32 index, u32 entries)
{
	return map->mem + KIW_RING_HEADER + (size_t)(index & (entries - 1)) * map->stride;
}

#endif /* KIWARP_RING_H */
