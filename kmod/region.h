/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Regions: memory of STags, and its lifetime. The table holds all regions of a device; mr.c makes
 * those of processes, fast.c those of consumers in the kernel, mw.c makes windows.
 *
 * A use is a look-up with all checks, copies, and an end. Consecutive copies may share a use and
 * save the look-up; each is checked (kiw_region_go_on()). The kinds differ in their end:
 *
 *   %KIW_REGION_USER	valid from kiw_region_add() to kiw_region_remove(), which waits for all
 *			uses. Uses take no lock.
 *   %KIW_REGION_FAST	kiw_region_invalidate() may withdraw it in softirq; a request makes it valid
 *			again, with other memory and another key. Each use holds its lock for
 *			reading, with BH off, while one FPDU is copied.
 *   %KIW_REGION_WINDOW	withdrawn like that; a bind gives it a part of a process's region and
 *			another key. For peers only.
 *   %KIW_REGION_MEMORY	all memory of the kernel, by its addresses, as STag 0 of requests of a queue
 *			pair in the kernel. Never in the table, so STag 0 is nothing to peers and
 *			processes. Uses cost nothing.
 *
 * A region counts the windows bound to it, and stays while there are any.
 *
 * Look-ups run under RCU, and a use counts in its region. So kiw_region_remove() waits only for
 * uses of that region. Its memory is freed after a grace period, without waiting. A use ends at the
 * latest when TCP or UDP gets the batch, and its thread does not sleep for memory meanwhile.
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
 * struct kiw_owner - a queue pair, as memory and completions see it
 * @pd: protection domain of all usable regions
 * @regions: table of the device
 * @cookie: of the process, or the &struct ib_qp of a consumer in the kernel, for completions
 * @num: queue pair number
 * @access: allowed IB_ACCESS_REMOTE_*; may change at any time
 * @kernel: of a consumer in the kernel; constant
 *
 * Windows of type 2B belong to its address.
 */
struct kiw_owner {
	struct ib_pd	*pd;
	struct xarray	*regions;
	u64		cookie;
	u32		num;
	u8		access;
	bool		kernel;
};

enum kiw_region_kind {
	KIW_REGION_USER,
	KIW_REGION_FAST,
	KIW_REGION_WINDOW,
	KIW_REGION_MEMORY,
};

/**
 * struct kiw_piece - a run of kernel memory in a region
 * @start: first byte
 * @end: offset behind the last byte, as of kiw_region_offset(); a piece begins at the end of the
 *	one before it, the first at 0
 */
struct kiw_piece {
	void	*start;
	u64	end;
};

/* Value of kiw_region.windows: the region goes, no window can be bound */
#define KIW_REGION_GOES (-1)

/*
 * A region.
 * @valid: usable; if it can be withdrawn, changed under @lock
 * @lock: if it can be withdrawn: uses hold it for reading, changes of all below for writing
 * @stag: index << 8 | key; the index never changes
 * @iova: address of the first byte for peers and requests
 * @offset: of the first byte in the first page, or in the first piece
 * @pages: one pointer per page of PAGE_SIZE; USER and WINDOW
 * @pieces: @num_pieces runs in order; FAST and MEMORY
 * @uses: uses under way, plus one while the region is in the table
 * @lent: pages held by TCP (lend.h), or NULL until the first loan
 * @windows: bound windows, or %KIW_REGION_GOES
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
	u32			num_pieces;
	union {
		struct page		**pages;
		struct kiw_piece	*pieces;
	};
	refcount_t		uses;
	struct kiw_lent		*lent;
	atomic_t		windows;
	struct rcu_head		rcu;
};

/**
 * struct kiw_window - a part of another region
 * @region: %KIW_REGION_WINDOW; its @lock protects all members
 * @of_qp: type 2B: for one queue pair; requests and peers can invalidate it
 * @parent: region with the memory, which counts the window; NULL: not valid
 * @owner: with @of_qp and @parent, the queue pair; only its address counts, until
 *	kiw_region_unbind_all()
 * @link: with @of_qp and @parent, in kiw_pd.windows
 */
struct kiw_window {
	struct kiw_region	region;
	bool			of_qp;
	struct kiw_region	*parent;
	const struct kiw_owner	*owner;
	struct rb_node		link;
};

/**
 * struct kiw_fast - a region of a consumer in the kernel
 * @region: %KIW_REGION_FAST; its @lock protects @fresh, and all below while @fresh
 * @gaps: its pieces may begin and end anywhere
 * @fresh: the next kiw_region_register() takes the members below; else they are the consumer's
 * @next: pieces
 * @next_num: number of @next
 * @next_offset: &kiw_region.offset
 * @next_length: &kiw_region.length
 */
struct kiw_fast {
	struct kiw_region	region;
	bool			gaps;
	bool			fresh;
	struct kiw_piece	*next;
	u32			next_num;
	u32			next_offset;
	u64			next_length;
};

struct kiw_region_use {
	struct kiw_region	*region;
};

/**
 * kiw_region_add() - assign an STag and make a region reachable
 * @regions: table of the device
 * @region: all but @stag is set
 *
 * Indexes and keys are random, so that neither a guess nor a stale STag finds a region (RFC 5042
 * section 8.1.1). Index 0 is unused: STag 0 is never valid.
 *
 * Return: 0, -ENOMEM, or -ENOSPC without a free index.
 */
int kiw_region_add(struct xarray *regions, struct kiw_region *region);

/**
 * kiw_region_replace() - move the STag of @before to @region
 * @regions: table of the device
 * @before: %KIW_REGION_USER in the table; uses go on until kiw_region_remove()
 * @region: all but @stag is set
 */
void kiw_region_replace(struct xarray *regions, const struct kiw_region *before,
			struct kiw_region *region);

/**
 * kiw_region_remove() - make a region unreachable and wait for its uses; may sleep
 * @regions: table of the device
 * @region: in the table, or replaced there; free it by kfree_rcu()
 */
void kiw_region_remove(struct xarray *regions, struct kiw_region *region);

/** kiw_region_close() - refuse further windows; Return: false if one is bound */
bool kiw_region_close(struct kiw_region *region);

static inline void kiw_region_reopen(struct kiw_region *region)
{
	atomic_set(&region->windows, 0);
}

/**
 * kiw_region_begin() - look up a region, check and begin a use
 * @owner: using queue pair, held
 * @stag: index and key
 * @access: needed IB_ACCESS_*; 0: local read
 * @addr: first byte
 * @len: bytes; 0: check all but @addr
 * @use: on success end it by kiw_region_end(), in the same context
 *
 * Any context but hard interrupts.
 *
 * Return: %KIW_REGION_OK, or the first failed check in the order of RFC 5041 section 7.1, without a
 * use to end.
 */
enum kiw_region_fault kiw_region_begin(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use);

/** kiw_region_check() - could a use begin now; as kiw_region_begin(), without a use */
enum kiw_region_fault kiw_region_check(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len);

void kiw_region_end(struct kiw_region_use *use);

/**
 * kiw_region_go_on() - begin a use, or continue one of the same region
 * @owner: using queue pair, held
 * @stag: index and key
 * @access: needed IB_ACCESS_*; 0: local read
 * @addr: first byte
 * @len: bytes, not 0
 * @use: the use set aside last; @region is NULL at first
 *
 * A look-up costs more than a copy of a kilobyte. Call kiw_region_set_aside() afterwards, and
 * kiw_region_leave() soon: deregistration waits for it. All in one context, any but hard
 * interrupts.
 *
 * Return: as kiw_region_begin().
 */
enum kiw_region_fault kiw_region_go_on(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use);

/** kiw_region_set_aside() - keep the use of a region that cannot be withdrawn; end others */
void kiw_region_set_aside(struct kiw_region_use *use);

/** kiw_region_leave() - end a use, if one was set aside */
static inline void kiw_region_leave(struct kiw_region_use *use)
{
	if (use->region)
		kiw_region_end(use);
	use->region = NULL;
}

/**
 * kiw_region_invalidate() - withdraw a region for a peer
 * @owner: queue pair of the peer, held
 * @stag: index and key
 *
 * After %KIW_REGION_OK nobody touches the memory. Any context but hard interrupts.
 *
 * Return: %KIW_REGION_OK, %KIW_REGION_STAG, %KIW_REGION_PD, or %KIW_REGION_ACCESS for a process's
 * region, which only its process removes, for a window shared by queue pairs, and for a region
 * without a right of peers.
 */
enum kiw_region_fault kiw_region_invalidate(const struct kiw_owner *owner, u32 stag);

/** kiw_region_invalidate_own() - for a request; succeeds if the peer did it before */
enum kiw_region_fault kiw_region_invalidate_own(const struct kiw_owner *owner, u32 stag);

/**
 * kiw_region_bind() - give a window memory and another key
 * @owner: queue pair with the request, held
 * @stag: index of the window, new key
 * @args: requested memory, unchecked
 *
 * A window of type 1 loses its former memory: after %KIW_REGION_OK nobody uses the old key. One of
 * type 2B must be invalid. Any context but hard interrupts.
 *
 * Return: %KIW_REGION_OK, or the fault; the window is unchanged then.
 */
enum kiw_region_fault kiw_region_bind(const struct kiw_owner *owner, u32 stag,
				      const struct kiw_bind_args *args);

/**
 * kiw_region_register() - make a region of a consumer in the kernel valid
 * @owner: queue pair with the request, held
 * @stag: its index, and the new key
 * @args: its STag as @lkey, address of the first byte, rights; no length
 *
 * The region gets the memory that was mapped last, or keeps what it had if that is not new. Any
 * context but hard interrupts.
 *
 * Return: %KIW_REGION_OK; %KIW_REGION_STAG for another region's STag; %KIW_REGION_PD;
 * %KIW_REGION_ACCESS for a valid region and for rights that it cannot have; %KIW_REGION_WRAP. The
 * region is unchanged then.
 */
enum kiw_region_fault kiw_region_register(const struct kiw_owner *owner, u32 stag,
					  const struct kiw_bind_args *args);

/** kiw_region_unbind() - take the memory from an unreachable window */
void kiw_region_unbind(struct kiw_window *window);

/** kiw_region_unbind_all() - of a queue pair without running requests; may sleep */
void kiw_region_unbind_all(const struct kiw_owner *owner);

/** kiw_region_offset() - bytes from the start of the first page to @addr */
static inline u64 kiw_region_offset(const struct kiw_region *region, u64 addr)
{
	return addr - region->iova + region->offset;
}

/** kiw_region_piece() - find the byte at @off; cuts *@len to its piece */
void *kiw_region_piece(const struct kiw_region *region, u64 off, u32 *len);

/** kiw_region_chunk() - map @addr; cuts *@len to page or piece. kiw_region_unmap() must follow */
static inline void *kiw_region_chunk(const struct kiw_region *region, u64 addr, u32 *len)
{
	u64 off = kiw_region_offset(region, addr);
	u32 in_page = off & ~PAGE_MASK;

	/* No mapping: there is no high memory, so unmapping does nothing either. */
	if (region->kind == KIW_REGION_FAST || region->kind == KIW_REGION_MEMORY)
		return kiw_region_piece(region, off, len);
	*len = min_t(u32, *len, PAGE_SIZE - in_page);
	return kmap_local_page(region->pages[off >> PAGE_SHIFT]) + in_page;
}

static inline void kiw_region_unmap(void *p)
{
	kunmap_local(p);
}

#endif /* KIWARP_REGION_H */
