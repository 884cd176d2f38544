// SPDX-License-Identifier: GPL-2.0
#include "arena.h"

#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "types.h"

#define ARENA_SIZE	(PAGE_SIZE > 32768 ? PAGE_SIZE : 32768)
#define ARENA_UNITS	(ARENA_SIZE / KIW_RING_ALIGN)
/* Longer rings get an arena of their own. */
#define SHARED_MAX	(ARENA_SIZE / 4)
/* Units of the smallest ring; fewer are no room. */
#define ARENA_LEAST	(KIW_RING_HEADER / KIW_RING_ALIGN + 1)

/*
 * Memory that is mapped as a whole and holds one or more rings.
 * @rdma: RDMA core's part; an mmap() under way holds a reference. Pages that a process still maps
 *	outlive it.
 * @rings: list and lock of its context
 * @mm: process charged for @pages
 * @number: for the process
 * @count: rings; the last one frees the arena
 * @units: used units of KIW_RING_ALIGN bytes, if shared
 * @used: map of these
 */
struct kiw_arena {
	struct rdma_user_mmap_entry	rdma;
	struct kiw_rings		*rings;
	struct list_head		link;
	void				*mem;
	unsigned int			pages;
	struct mm_struct		*mm;
	u64				number;
	unsigned int			count;
	unsigned int			units;
	DECLARE_BITMAP(used, ARENA_UNITS);
};

static struct kiw_arena *to_kiw_arena(struct rdma_user_mmap_entry *rdma)
{
	return container_of(rdma, struct kiw_arena, rdma);
}

/*
 * As vmalloc_user(), but each page is charged to the memory cgroup of the process, which chooses
 * the size of its rings, up to many megabytes each. Undone by vfree().
 */
static void *arena_mem_alloc(unsigned int n)
{
	struct page **pages;
	unsigned int i;
	void *mem;

	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pages)
		return NULL;
	for (i = 0; i < n; i++) {
		pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
		if (!pages[i])
			goto err_pages;
		if (fatal_signal_pending(current)) {
			i++;
			goto err_pages;
		}
	}
	mem = vmap(pages, n, VM_MAP | VM_MAP_PUT_PAGES | VM_USERMAP, PAGE_KERNEL);
	if (mem)
		return mem;

err_pages:
	while (i--)
		__free_page(pages[i]);
	kvfree(pages);
	return NULL;
}

/*
 * Rings count as locked memory together with regions: one limit for both, even without memory
 * cgroups.
 */
static int arena_charge(struct kiw_arena *arena)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct mm_struct *mm = current->mm;

	if (atomic64_add_return(arena->pages, &mm->pinned_vm) > limit && !capable(CAP_IPC_LOCK)) {
		atomic64_sub(arena->pages, &mm->pinned_vm);
		return -ENOMEM;
	}
	mmgrab(mm);
	arena->mm = mm;
	return 0;
}

static void arena_uncharge(struct kiw_arena *arena)
{
	atomic64_sub(arena->pages, &arena->mm->pinned_vm);
	mmdrop(arena->mm);
}

static struct kiw_arena *arena_create(struct kiw_ucontext *uctx, size_t size)
{
	struct kiw_arena *arena = kzalloc(sizeof(*arena), GFP_KERNEL_ACCOUNT);
	int err;

	if (!arena)
		return ERR_PTR(-ENOMEM);
	arena->pages = size >> PAGE_SHIFT;
	err = arena_charge(arena);
	if (err)
		goto err_free;
	arena->mem = arena_mem_alloc(arena->pages);
	if (!arena->mem) {
		err = -ENOMEM;
		goto err_uncharge;
	}
	err = rdma_user_mmap_entry_insert(&uctx->ibuctx, &arena->rdma, size);
	if (err)
		goto err_vfree;
	arena->rings = &uctx->rings;
	arena->number = uctx->rings.next_number++;
	return arena;

err_vfree:
	vfree(arena->mem);
err_uncharge:
	arena_uncharge(arena);
err_free:
	kfree(arena);
	return ERR_PTR(err);
}

/* Move the arena to its list. */
static void arena_file(struct kiw_arena *arena)
{
	bool room = arena->units + ARENA_LEAST <= ARENA_UNITS;

	list_move(&arena->link, room ? &arena->rings->room : &arena->rings->full);
}

static bool arena_take(struct kiw_arena *arena, u32 size, struct kiw_ring_map *map)
{
	unsigned int n = size / KIW_RING_ALIGN;
	unsigned long at = bitmap_find_next_zero_area(arena->used, ARENA_UNITS, 0, n, 0);

	if (at + n > ARENA_UNITS)
		return false;
	bitmap_set(arena->used, at, n);
	arena->units += n;
	arena->count++;
	arena_file(arena);
	map->arena = arena;
	map->mem = memset(arena->mem + at * KIW_RING_ALIGN, 0, size);
	map->size = size;
	return true;
}

static int ring_alloc_shared(struct kiw_ring_map *map, struct kiw_ucontext *uctx, u32 size)
{
	struct kiw_arena *arena;

	list_for_each_entry(arena, &uctx->rings.room, link)
		if (arena_take(arena, size, map))
			return 0;
	arena = arena_create(uctx, ARENA_SIZE);
	if (IS_ERR(arena))
		return PTR_ERR(arena);
	INIT_LIST_HEAD(&arena->link);
	arena_take(arena, size, map);
	return 0;
}

static int ring_alloc_own(struct kiw_ring_map *map, struct kiw_ucontext *uctx, u32 size)
{
	struct kiw_arena *arena = arena_create(uctx, PAGE_ALIGN(size));

	if (IS_ERR(arena))
		return PTR_ERR(arena);
	arena->count = 1;
	list_add(&arena->link, &uctx->rings.full);
	map->arena = arena;
	map->mem = arena->mem;
	map->size = size;
	return 0;
}

/* No process maps it: it has no arena. */
static int ring_alloc_kernel(struct kiw_ring_map *map, u32 size)
{
	map->mem = vzalloc(size);
	map->size = size;
	return map->mem ? 0 : -ENOMEM;
}

int kiw_ring_alloc(struct kiw_ring_map *map, struct kiw_ucontext *uctx, u32 entries, u32 stride)
{
	u32 size = ALIGN(KIW_RING_HEADER + entries * stride, KIW_RING_ALIGN);
	int err;

	map->stride = stride;
	if (!uctx)
		return ring_alloc_kernel(map, size);
	mutex_lock(&uctx->rings.mutex);
	err = size <= SHARED_MAX ? ring_alloc_shared(map, uctx, size) :
				   ring_alloc_own(map, uctx, size);
	mutex_unlock(&uctx->rings.mutex);
	return err;
}

void kiw_ring_free(struct kiw_ring_map *map)
{
	struct kiw_arena *arena = map->arena;
	struct kiw_rings *rings;
	unsigned int n = map->size / KIW_RING_ALIGN;

	if (!arena) {
		vfree(map->mem);
		memset(map, 0, sizeof(*map));
		return;
	}
	rings = arena->rings;
	mutex_lock(&rings->mutex);
	if (!--arena->count) {
		list_del(&arena->link);
		rdma_user_mmap_entry_remove(&arena->rdma);
	} else {
		bitmap_clear(arena->used, (map->mem - arena->mem) / KIW_RING_ALIGN, n);
		arena->units -= n;
		arena_file(arena);
	}
	mutex_unlock(&rings->mutex);
	memset(map, 0, sizeof(*map));
}

void kiw_ring_tell(const struct kiw_ring_map *map, u32 entries,
		   struct kiw_ring_geometry *geometry)
{
	struct kiw_arena *arena = map->arena;

	if (!arena)
		return;
	geometry->mmap_offset = rdma_user_mmap_get_offset(&arena->rdma);
	geometry->mmap_size = (u64)arena->pages << PAGE_SHIFT;
	geometry->mapping = arena->number;
	geometry->offset = map->mem - arena->mem;
	geometry->entries = entries;
	geometry->stride = map->stride;
}

void kiw_rings_init(struct kiw_rings *rings)
{
	mutex_init(&rings->mutex);
	INIT_LIST_HEAD(&rings->room);
	INIT_LIST_HEAD(&rings->full);
}

void kiw_rings_exit(struct kiw_rings *rings)
{
	WARN_ON_ONCE(!list_empty(&rings->room) || !list_empty(&rings->full));
	mutex_destroy(&rings->mutex);
}

int kiw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma;
	int err;

	/* Not now, and not by mprotect() later. */
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYEXEC);

	/* Also checks that the mapping is shared and covers the arena. */
	rdma = rdma_user_mmap_entry_get(uctx, vma);
	if (!rdma)
		return -EINVAL;

	/* The mapping holds each page, so pages may outlive the entry and the module. */
	err = remap_vmalloc_range(vma, to_kiw_arena(rdma)->mem, 0);
	rdma_user_mmap_entry_put(rdma);
	return err;
}

/* The last reference is gone: of the rings, or of a later mmap(). */
void kiw_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct kiw_arena *arena = to_kiw_arena(rdma);

	vfree(arena->mem);
	arena_uncharge(arena);
	kfree(arena);
}
