/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory of a ring of requests or completions. */
#ifndef KIW_SESSION_RING_H
#define KIW_SESSION_RING_H

#include "kiwarp-abi.h"
#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_arena;

/*
 * Memory of a ring: @size bytes, a multiple of KIW_RING_ALIGN, of header and slots, zeroed at
 * creation.
 * @arena: mapping of the process that contains it, counted (arena.h); NULL: memory of its own, of a
 *	consumer in the kernel
 */
struct kiw_ring_map {
	struct kiw_arena	*arena;
	void			*mem;
	u32			size;
	u32			stride;
};

/** kiw_ring_prod() - the process's index, behind its last posted request */
static inline u32 kiw_ring_prod(const struct kiw_ring_map *map)
{
	const struct kiw_wq_ring *ring = (const struct kiw_wq_ring *)map->mem;

	/* Pairs with the process's release store of prod. */
	return smp_load_acquire(&ring->prod);
}

/** kiw_ring_slot() - address of a slot; @index runs freely, @entries is a power of two */
static inline void *kiw_ring_slot(const struct kiw_ring_map *map, u32 index, u32 entries)
{
	return (u8 *)map->mem + KIW_RING_HEADER + (size_t)(index & (entries - 1)) * map->stride;
}

/* Result of kiw_sq_take() and kiw_rq_take() */
enum kiw_take {
	KIW_TAKE_NONE,		/* ring empty */
	KIW_TAKE_ONE,
	KIW_TAKE_BAD,		/* bad request: complete it with an error */
	KIW_TAKE_RING,		/* the ring's index is nonsense */
};

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_RING_H */
