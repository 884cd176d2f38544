// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ring.h"

/**
 * struct kiw_ring_entry - a ring that can be mapped
 * @rdma: the part that RDMA core knows, with the reference count
 * @mem: the ring
 * @pages: of @mem
 * @mm: the process that they are charged to
 */
struct kiw_ring_entry {
	struct rdma_user_mmap_entry	rdma;
	void				*mem;
	unsigned int			pages;
	struct mm_struct		*mm;
};

static struct kiw_ring_entry *to_kiw_ring_entry(struct rdma_user_mmap_entry *rdma)
{
	return container_of(rdma, struct kiw_ring_entry, rdma);
}

/*
 * What vmalloc_user() does, but with every page charged to the process's memory cgroup: a process
 * chooses the size of its rings, up to many megabytes each. vfree() undoes it.
 */
static void *ring_mem_alloc(unsigned int n)
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
 * Rings count as locked memory, as regions do, and in the same sum: a limit holds for both together
 * and where there are no memory cgroups.
 */
static int ring_charge(struct kiw_ring_entry *entry)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct mm_struct *mm = current->mm;

	if (atomic64_add_return(entry->pages, &mm->pinned_vm) > limit && !capable(CAP_IPC_LOCK)) {
		atomic64_sub(entry->pages, &mm->pinned_vm);
		return -ENOMEM;
	}
	mmgrab(mm);
	entry->mm = mm;
	return 0;
}

static void ring_uncharge(struct kiw_ring_entry *entry)
{
	atomic64_sub(entry->pages, &entry->mm->pinned_vm);
	mmdrop(entry->mm);
}

int kiw_ring_alloc(struct kiw_ring_map *map, struct ib_ucontext *uctx, u32 entries, u32 stride)
{
	size_t size = PAGE_ALIGN(KIW_RING_HEADER + (size_t)entries * stride);
	struct kiw_ring_entry *entry;
	int err;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->pages = size >> PAGE_SHIFT;
	err = ring_charge(entry);
	if (err)
		goto err_free;
	entry->mem = ring_mem_alloc(entry->pages);
	if (!entry->mem) {
		err = -ENOMEM;
		goto err_uncharge;
	}
	err = rdma_user_mmap_entry_insert(uctx, &entry->rdma, size);
	if (err)
		goto err_vfree;

	map->entry = entry;
	map->mem = entry->mem;
	map->size = size;
	return 0;

err_vfree:
	vfree(entry->mem);
err_uncharge:
	ring_uncharge(entry);
err_free:
	kfree(entry);
	return err;
}

void kiw_ring_free(struct kiw_ring_map *map)
{
	if (map->entry)
		rdma_user_mmap_entry_remove(&map->entry->rdma);
	memset(map, 0, sizeof(*map));
}

u64 kiw_ring_offset(const struct kiw_ring_map *map)
{
	return rdma_user_mmap_get_offset(&map->entry->rdma);
}

int kiw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma;
	int err;

	if (vma->vm_flags & VM_EXEC)
		return -EPERM;

	/* Also sees to it that the mapping is shared, and as long as the ring. */
	rdma = rdma_user_mmap_entry_get(uctx, vma);
	if (!rdma)
		return -EINVAL;

	/* Each page is now the mapping's too, so that it may outlive the entry, and the module. */
	err = remap_vmalloc_range(vma, to_kiw_ring_entry(rdma)->mem, 0);
	rdma_user_mmap_entry_put(rdma);
	return err;
}

/* The last reference is gone: the owner's, or that of an mmap() that was faster than it */
void kiw_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct kiw_ring_entry *entry = to_kiw_ring_entry(rdma);

	vfree(entry->mem);
	ring_uncharge(entry);
	kfree(entry);
}
