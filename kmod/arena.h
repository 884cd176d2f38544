/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that a process maps, with one or more rings. */
#ifndef KIWARP_ARENA_H
#define KIWARP_ARENA_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>

#include "session/ring.h"

struct kiw_ucontext;

/*
 * All arenas of a context.
 * @mutex: protects the lists and the use of arenas; innermost
 * @room: arenas with room for more rings
 * @full: the others
 */
struct kiw_rings {
	struct mutex		mutex;
	struct list_head	room;
	struct list_head	full;
	u64			next_number;
};

void kiw_rings_init(struct kiw_rings *rings);
/** kiw_rings_exit() - all rings are gone */
void kiw_rings_exit(struct kiw_rings *rings);

/**
 * kiw_ring_alloc() - make a ring that a process can map, or one of the kernel
 * @map: output
 * @uctx: process; NULL: a consumer in the kernel
 * @entries: slots, a power of two
 * @stride: bytes per slot
 *
 * Return: 0, -ENOMEM, also above RLIMIT_MEMLOCK, or an error of rdma_user_mmap_entry_insert().
 */
int kiw_ring_alloc(struct kiw_ring_map *map, struct kiw_ucontext *uctx, u32 entries, u32 stride);

/** kiw_ring_free() - free the memory; @map may be all zero */
void kiw_ring_free(struct kiw_ring_map *map);

/** kiw_ring_tell() - describe a ring to its process; nothing if @map is all zero */
void kiw_ring_tell(const struct kiw_ring_map *map, u32 entries,
		   struct kiw_ring_geometry *geometry);

int kiw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void kiw_mmap_free(struct rdma_user_mmap_entry *rdma_entry);

#endif /* KIWARP_ARENA_H */
