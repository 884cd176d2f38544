/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Regions: what an STag leads to, and how long. The table has every region of a device; mr.c makes
 * those of processes, mw.c makes windows.
 *
 * A use of a region is a look-up with all checks, copies, and the end of the use. Copies that
 * follow each other may share a use: each is checked, and only the look-up is saved
 * (kiw_region_go_on()). How a region goes depends on its kind:
 *
 *   %KIW_REGION_USER	is good from kiw_region_add() to kiw_region_remove(), which waits until all
 *			uses have ended. Uses take no lock.
 *   %KIW_REGION_FAST	can be withdrawn in softirq, by kiw_region_invalidate(), and then be made
 *			valid again with other memory. Each use holds its lock for reading, with
 *			BH off, for as long as one FPDU is copied.
 *   %KIW_REGION_WINDOW	is withdrawn likewise, and gets its memory by a bind: a part of a region of
 *			a process. Each bind gives it another key. It is for peers alone.
 *
 * A region counts the windows that are bound to it, and goes only when there is none.
 *
 * A look-up runs under RCU, and a use counts in its region. So kiw_region_remove() waits for the
 * uses of that region and for nobody else, and without a use it doesn't wait at all. The memory of
 * a region is freed after a grace period, for which nobody waits. A use lasts at most until TCP or
 * UDP gets the batch that its bytes are copied to, and its thread doesn't sleep for memory
 * meanwhile.
 */
#ifndef KIWARP_REGION_H
#define KIWARP_REGION_H

#include <linux/atomic.h>
#include <linux/highmem.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "proto/fault.h"

struct ib_pd;
struct kiw_bind_args;
struct kiw_lent;

/**
 * struct kiw_owner - a queue pair, as memory and completions know it
 * @pd: protection domain: no other region may be used
 * @regions: table of the device
 * @cookie: of the process, for completions
 * @num: number of the queue pair
 * @access: IB_ACCESS_REMOTE_* that it allows at all; may change at any time
 *
 * Windows of type 2B belong to it by its address.
 */
struct kiw_owner {
	struct ib_pd	*pd;
	struct xarray	*regions;
	u64		cookie;
	u32		num;
	u8		access;
};

enum kiw_region_kind {
	KIW_REGION_USER,
	KIW_REGION_FAST,
	KIW_REGION_WINDOW,
};

/* Value of kiw_region.windows: the region goes, no window is bound to it any more */
#define KIW_REGION_GOES (-1)

/**
 * struct kiw_region - a region
 * @kind: see above
 * @valid: the region may be used; where it can be withdrawn, changed under @lock
 * @lock: where the region can be withdrawn, held by uses for reading, and for writing to change
 *	what follows
 * @stag: index << 8 | key; the index never changes
 * @access: IB_ACCESS_*
 * @pd: protection domain
 * @iova: address of the first byte, as peers and work requests name it
 * @length: bytes
 * @offset: of the first byte in the first page
 * @pages: one pointer per page of PAGE_SIZE
 * @uses: under way, and one as long as the region is in the table
 * @lent: its pages that TCP holds, see lend.h, or NULL: none so far
 * @windows: that are bound to the region, or %KIW_REGION_GOES
 * @rcu: to free it by
 */
struct kiw_region {
	enum kiw_region_kind	kind;
	bool			valid;
	rwlock_t		lock;
	u32			stag;
	int			access;
	struct ib_pd		*pd;
	u64			iova;
	u64			length;
	u32			offset;
	struct page		**pages;
	refcount_t		uses;
	struct kiw_lent		*lent;
	atomic_t		windows;
	struct rcu_head		rcu;
};

/**
 * struct kiw_window - a region that is a part of another one
 * @region: of the kind %KIW_REGION_WINDOW; its @lock protects the rest, too
 * @of_qp: it is of type 2B: good for one queue pair, and for requests and peers to invalidate
 * @parent: region that has its memory, and counts it; NULL: it isn't valid
 * @owner: with @of_qp and @parent, the queue pair; only its address counts, and
 *	kiw_region_unbind_all() ends that before it can be another one's
 * @link: likewise, in kiw_pd.windows
 */
struct kiw_window {
	struct kiw_region	region;
	bool			of_qp;
	struct kiw_region	*parent;
	const struct kiw_owner	*owner;
	struct rb_node		link;
};

/**
 * struct kiw_region_use - a use that was begun
 * @region: the region, which counts it
 */
struct kiw_region_use {
	struct kiw_region	*region;
};

/**
 * kiw_region_add() - give a region its STag and make it reachable
 * @regions: table of the device
 * @region: all but @stag is set
 *
 * Indexes are spread at random over the whole space and keys are random too, so that neither a
 * guess nor a stale STag finds a region (RFC 5042 section 8.1.1). Index 0 isn't used: STag 0 is
 * never good.
 *
 * Return: 0, -ENOMEM, or -ENOSPC when no free index was found.
 */
int kiw_region_add(struct xarray *regions, struct kiw_region *region);

/**
 * kiw_region_replace() - give a region the STag of another one, which is found no more
 * @regions: table of the device
 * @before: in the table, of the kind %KIW_REGION_USER; uses go on until kiw_region_remove()
 * @region: all but @stag is set
 */
void kiw_region_replace(struct xarray *regions, const struct kiw_region *before,
			struct kiw_region *region);

/**
 * kiw_region_remove() - nobody finds the region any more, and all uses have ended; may sleep
 * @regions: table of the device
 * @region: in the table, or replaced there; free its memory by kfree_rcu()
 */
void kiw_region_remove(struct xarray *regions, struct kiw_region *region);

/** kiw_region_close() - no window is bound to a region any more; Return: false if one is */
bool kiw_region_close(struct kiw_region *region);

/** kiw_region_reopen() - a region that was closed is to stay after all */
static inline void kiw_region_reopen(struct kiw_region *region)
{
	atomic_set(&region->windows, 0);
}

/**
 * kiw_region_begin() - look a region up and check that it may be used so
 * @owner: queue pair that uses it, held
 * @stag: index and key
 * @access: IB_ACCESS_* that are needed; 0 for what is local and reads
 * @addr: first byte
 * @len: bytes; with 0 all is checked but @addr
 * @use: the use; if all is well, kiw_region_end() has to follow, in the same context
 *
 * Any context but hard interrupts.
 *
 * Return: %KIW_REGION_OK, or the first check that failed, in the order of RFC 5041 section 7.1;
 * then there is no use to end.
 */
enum kiw_region_fault kiw_region_begin(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use);

/**
 * kiw_region_check() - could a use begin now
 * @owner: queue pair, held
 * @stag: index and key
 * @access: IB_ACCESS_* that are needed
 * @addr: first byte
 * @len: bytes; with 0 all is checked but @addr
 *
 * Any context but hard interrupts.
 *
 * Return: as kiw_region_begin().
 */
enum kiw_region_fault kiw_region_check(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len);

/** kiw_region_end() - end a use */
void kiw_region_end(struct kiw_region_use *use);

/**
 * kiw_region_go_on() - begin a use, or go on with the last one if it was of the same region
 * @owner: queue pair that uses it, held
 * @stag: index and key
 * @access: IB_ACCESS_* that are needed; 0 for what is local and reads
 * @addr: first byte
 * @len: bytes, not 0
 * @use: the use that was set aside last; with @region NULL at first
 *
 * Looking up costs more than a copy of a kilobyte. kiw_region_set_aside() has to follow, and
 * kiw_region_leave() soon after: deregistering waits for it. All in one context, any but hard
 * interrupts.
 *
 * Return: as kiw_region_begin().
 */
enum kiw_region_fault kiw_region_go_on(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use);

/** kiw_region_set_aside() - end a use, unless the region is of a kind that can't be withdrawn */
void kiw_region_set_aside(struct kiw_region_use *use);

/** kiw_region_leave() - end a use that may have been set aside */
static inline void kiw_region_leave(struct kiw_region_use *use)
{
	if (use->region)
		kiw_region_end(use);
	use->region = NULL;
}

/**
 * kiw_region_invalidate() - a peer withdraws a region that it may withdraw
 * @owner: queue pair that uses it, held
 * @stag: index and key
 *
 * When this returns %KIW_REGION_OK, nobody touches the region's memory any more. Any context but
 * hard interrupts.
 *
 * Return: %KIW_REGION_OK, %KIW_REGION_STAG, %KIW_REGION_PD, or %KIW_REGION_ACCESS for a region of
 * a process, which only its owner can remove, and for a window that several queue pairs share.
 */
enum kiw_region_fault kiw_region_invalidate(const struct kiw_owner *owner, u32 stag);

/**
 * kiw_region_invalidate_own() - a request does so
 * @owner: queue pair with the request, held
 * @stag: index and key
 *
 * As kiw_region_invalidate(), but all is well with one that the peer has invalidated before.
 *
 * Return: as there.
 */
enum kiw_region_fault kiw_region_invalidate_own(const struct kiw_owner *owner, u32 stag);

/**
 * kiw_region_bind() - give a window its memory, and another key
 * @owner: queue pair with the request, held
 * @stag: index of the window, and its new key
 * @args: what is to be its memory, not checked
 *
 * What a window of type 1 had before is taken from it: when this returns %KIW_REGION_OK, nobody
 * uses the old key any more. One of type 2B has to be invalid. Any context but hard interrupts.
 *
 * Return: %KIW_REGION_OK, or what is wrong; then the window is as it was.
 */
enum kiw_region_fault kiw_region_bind(const struct kiw_owner *owner, u32 stag,
				      const struct kiw_bind_args *args);

/** kiw_region_unbind() - take its memory from a window that is found by its STag no more */
void kiw_region_unbind(struct kiw_window *window);

/**
 * kiw_region_unbind_all() - the windows of a queue pair are invalid; may sleep
 * @owner: queue pair that goes, or begins anew; no request of it is carried out any more
 */
void kiw_region_unbind_all(const struct kiw_owner *owner);

/** kiw_region_offset() - bytes between the start of the first page and an address in the region */
static inline u64 kiw_region_offset(const struct kiw_region *region, u64 addr)
{
	return addr - region->iova + region->offset;
}

/**
 * kiw_region_chunk() - the longest run of bytes at an address that lies in one page
 * @region: region of a use
 * @addr: within the checked range
 * @len: in: bytes wanted, out: bytes in this page
 *
 * Return: the kernel's address of the byte, valid until kiw_region_unmap().
 */
static inline void *kiw_region_chunk(const struct kiw_region *region, u64 addr, u32 *len)
{
	u64 off = kiw_region_offset(region, addr);
	u32 in_page = off & ~PAGE_MASK;

	*len = min_t(u32, *len, PAGE_SIZE - in_page);
	return kmap_local_page(region->pages[off >> PAGE_SHIFT]) + in_page;
}

/** kiw_region_unmap() - the last address of kiw_region_chunk() isn't used any more */
static inline void kiw_region_unmap(void *p)
{
	kunmap_local(p);
}

#endif /* KIWARP_REGION_H */
