/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A ring of requests or completions: memory, wherever it comes from. */
#ifndef KIW_SESSION_RING_H
#define KIW_SESSION_RING_H

#include "kiwarp-abi.h"
#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_arena;

/**
 * struct kiw_ring_map - a ring's memory
 * @arena: mapping of a process that it lies in, with a count for it; see arena.h
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

/** kiw_ring_prod() - the process's index of a work ring, behind the last request that it posted */
static inline u32 kiw_ring_prod(const struct kiw_ring_map *map)
{
	const struct kiw_wq_ring *ring = (const struct kiw_wq_ring *)map->mem;

	/* Pairs with the release store of prod in the process. */
	return smp_load_acquire(&ring->prod);
}

/** kiw_ring_slot() - address of a slot; @index runs freely, @entries is a power of two */
static inline void *kiw_ring_slot(const struct kiw_ring_map *map, u32 index, u32 entries)
{
	return (u8 *)map->mem + KIW_RING_HEADER + (size_t)(index & (entries - 1)) * map->stride;
}

/* Outcome of looking for a request */
enum kiw_take {
	KIW_TAKE_NONE,		/* the ring is empty */
	KIW_TAKE_ONE,
	KIW_TAKE_BAD,		/* the request is wrong, and has to complete with an error */
	KIW_TAKE_RING,		/* the ring's index is nonsense */
};

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_RING_H */
