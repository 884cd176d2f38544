// SPDX-License-Identifier: GPL-2.0
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ring.h"

/**
 * struct kiw_ring_entry - a ring that can be mapped
 * @rdma: the part that RDMA core knows, with the reference count
 * @mem: the ring
 */
struct kiw_ring_entry {
	struct rdma_user_mmap_entry	rdma;
	void				*mem;
};

static struct kiw_ring_entry *to_kiw_ring_entry(struct rdma_user_mmap_entry *rdma)
{
	return container_of(rdma, struct kiw_ring_entry, rdma);
}

/*
 * What vmalloc_user() does, but with every page charged to the process's memory cgroup: a process
 * chooses the size of its rings, up to many megabytes each. vfree() undoes it.
 */
static void *ring_mem_alloc(size_t size)
{
	unsigned int n = size >> PAGE_SHIFT, i;
	struct page **pages;
	void *mem;

	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL_ACCOUNT);
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

int kiw_ring_alloc(struct kiw_ring_map *map, struct ib_ucontext *uctx, u32 entries, u32 stride)
{
	size_t size = PAGE_ALIGN(KIW_RING_HEADER + (size_t)entries * stride);
	struct kiw_ring_entry *entry;
	int err;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->mem = ring_mem_alloc(size);
	if (!entry->mem) {
		err = -ENOMEM;
		goto err_free;
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
	kfree(entry);
}
