// SPDX-License-Identifier: GPL-2.0
#include "batch.h"

#include <linux/slab.h>
#include <net/sock.h>

#include "compat.h"
#include "region.h"
#include "types.h"

/* Copied bytes per batch, still cached when TCP gets them; the last FPDU may exceed it. */
#define BATCH_COPIED 131072
/* All bytes per batch, with registered pages */
#define BATCH_LEN 524288
/*
 * Pieces of the longest FPDU: its pages, two per partly used buffer, and two each for header and
 * trailer, which may cross a page.
 */
#define BATCH_FPDU_PIECES (65536 / PAGE_SIZE + 2 * KIW_MAX_SGE + 4)

/*
 * Memory of idle streams: a stream holds a fragment and an array of pieces only while it sends. The
 * second set is for softirqs, which interrupt a sending process. BH off, and @lock for PREEMPT_RT,
 * where BH off excludes nobody.
 */
struct batch_spares {
	local_lock_t		lock;
	struct kiw_spare	spare[2];
};

static DEFINE_PER_CPU(struct batch_spares, batch_spares) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

static void batch_drop_pieces(struct kiw_batch *b, u32 keep)
{
	while (b->pieces > keep)
		put_page(b->mem.piece[--b->pieces].bv_page);
}

static void batch_drop_spare(struct kiw_spare *spare)
{
	if (spare->frag.page)
		put_page(spare->frag.page);
	spare->frag.page = NULL;
	kfree(spare->piece);
	spare->piece = NULL;
}

/* A batch with pieces keeps its array; the fragment is anybody's. */
static void batch_exchange(struct kiw_batch *b)
{
	struct kiw_spare *spare;

	local_bh_disable();
	local_lock_nested_bh(&batch_spares.lock);
	spare = this_cpu_ptr(&batch_spares.spare[!!in_serving_softirq()]);
	swap(b->mem.frag, spare->frag);
	if (!b->pieces)
		swap(b->mem.piece, spare->piece);
	local_unlock_nested_bh(&batch_spares.lock);
	local_bh_enable();
}

bool kiw_batch_begin(struct kiw_batch *b, gfp_t gfp)
{
	batch_exchange(b);
	if (!b->mem.piece)
		b->mem.piece = kmalloc_array(KIW_BATCH_PIECES, sizeof(*b->mem.piece),
					     gfp | __GFP_NOWARN);
	return b->mem.piece;
}

void kiw_batch_end(struct kiw_batch *b)
{
	kiw_region_leave(&b->use);
	batch_exchange(b);
	/* Drop memory returned by another batch, and the fragment if pieces are left. */
	if (!b->pieces)
		batch_drop_spare(&b->mem);
}

bool kiw_batch_open(const struct kiw_batch *b)
{
	return b->len - b->lent < BATCH_COPIED && b->len < BATCH_LEN &&
	       b->pieces <= KIW_BATCH_PIECES - BATCH_FPDU_PIECES;
}

void *kiw_batch_room(struct kiw_batch *b, u32 least, gfp_t gfp, u32 *room)
{
	struct page_frag *frag = &b->mem.frag;

	/* Deregistration waits for the use, but not for memory. */
	if (frag->offset + least > frag->size)
		kiw_region_leave(&b->use);
	if (!skb_page_frag_refill(least, frag, gfp))
		return NULL;
	*room = frag->size - frag->offset;
	return page_address(frag->page) + frag->offset;
}

void kiw_batch_grow(struct kiw_batch *b, u32 n)
{
	struct page_frag *frag = &b->mem.frag;
	struct bio_vec *last = b->pieces ? &b->mem.piece[b->pieces - 1] : NULL;

	if (last && last->bv_page == frag->page &&
	    last->bv_offset + last->bv_len == frag->offset) {
		last->bv_len += n;
	} else {
		get_page(frag->page);
		bvec_set_page(&b->mem.piece[b->pieces++], frag->page, n, frag->offset);
	}
	frag->offset += n;
	b->len += n;
	b->offset += n;
}

static void batch_lend_page(struct kiw_batch *b, struct page *page, u32 offset, u32 n)
{
	struct bio_vec *last = b->pieces ? &b->mem.piece[b->pieces - 1] : NULL;

	if (last && PFN_PHYS(page_to_pfn(last->bv_page)) + last->bv_offset + last->bv_len ==
		    PFN_PHYS(page_to_pfn(page)) + offset) {
		last->bv_len += n;
	} else {
		get_page(page);
		bvec_set_page(&b->mem.piece[b->pieces++], page, n, offset);
	}
	b->lent += n;
	b->len += n;
	b->offset += n;
}

void kiw_batch_lend(struct kiw_batch *b, const struct kiw_region *region, u64 addr, u32 n)
{
	u64 off = kiw_region_offset(region, addr);
	u32 part;

	for (; n; off += part, n -= part) {
		u32 in_page = off & ~PAGE_MASK;

		part = min_t(u32, n, PAGE_SIZE - in_page);
		batch_lend_page(b, region->pages[off >> PAGE_SHIFT], in_page, part);
	}
}

struct kiw_batch_mark kiw_batch_mark(const struct kiw_batch *b)
{
	return (struct kiw_batch_mark){
		.pieces = b->pieces,
		.last_len = b->pieces ? b->mem.piece[b->pieces - 1].bv_len : 0,
		.len = b->len,
		.lent = b->lent,
	};
}

void kiw_batch_cut(struct kiw_batch *b, const struct kiw_batch_mark *mark)
{
	batch_drop_pieces(b, mark->pieces);
	if (b->pieces)
		b->mem.piece[b->pieces - 1].bv_len = mark->last_len;
	b->offset -= b->len - mark->len;
	b->len = mark->len;
	b->lent = mark->lent;
}

int kiw_batch_push(struct kiw_batch *b, struct sock *sk, struct ubuf_info *ubuf, int flags)
{
	int ret;

	kiw_region_leave(&b->use);
	/* This may process the backlog; our receive callback leaves the batch alone. */
	ret = kiw_send_pages(sk, b->mem.piece, b->pieces, b->sent, b->len,
			     ubuf, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	if (ret < 0)
		return ret;
	b->sent += ret;
	return b->sent == b->len ? 0 : -EINTR;
}

u32 kiw_batch_pages(const struct kiw_batch *b)
{
	const struct bio_vec *piece = b->mem.piece;
	u32 n = 0;

	for (u32 i = 0; i < b->pieces; i++)
		n += DIV_ROUND_UP(offset_in_page(piece[i].bv_offset) + piece[i].bv_len, PAGE_SIZE);
	return n;
}

bool kiw_batch_afford(struct kiw_batch *b, struct sock *sk)
{
	int n = b->len - b->lent;

	if (n <= sk->sk_forward_alloc)
		return true;
	kiw_region_leave(&b->use);	/* as in kiw_batch_room() */
	return sk_wmem_schedule(sk, n);
}

void kiw_batch_charge(struct kiw_batch *b, struct sock *sk)
{
	/* Registered pages are charged to the process. */
	u32 n = min(b->len - b->sent, b->len - b->lent);

	if (!b->pieces)
		return;
	n += KIW_BATCH_PIECES * sizeof(*b->mem.piece);
	/* TCP refuses only if its queue is short; then at most one FPDU is here (tx.c). */
	if (!sk_wmem_schedule(sk, n))
		return;
	sk_mem_charge(sk, n);
	b->charged = n;
}

void kiw_batch_uncharge(struct kiw_batch *b, struct sock *sk)
{
	if (b->charged)
		sk_mem_uncharge(sk, b->charged);
	b->charged = 0;
}

/* Append @n bytes of pages; a piece longer than a page is contiguous. */
static bool batch_append(struct kiw_batch *b, struct page *page, u32 offset, u32 n, gfp_t gfp)
{
	u32 room, part;
	void *to;

	for (; n; offset += part, n -= part) {
		page += offset >> PAGE_SHIFT;
		offset &= ~PAGE_MASK;
		to = b->pieces < KIW_BATCH_PIECES ? kiw_batch_room(b, 1, gfp, &room) : NULL;
		if (!to)
			return false;
		part = min3(n, room, (u32)PAGE_SIZE - offset);
		memcpy_from_page(to, page, offset, part);
		kiw_batch_grow(b, part);
	}
	return true;
}

bool kiw_batch_own(struct kiw_batch *b, gfp_t gfp)
{
	struct kiw_batch own = {};
	u32 i, skip = b->sent;
	bool good = true;

	own.mem.piece = kmalloc_array(KIW_BATCH_PIECES, sizeof(*own.mem.piece), gfp | __GFP_NOWARN);
	if (!own.mem.piece)
		return false;
	for (i = 0; good && i < b->pieces; i++) {
		const struct bio_vec *piece = &b->mem.piece[i];

		if (skip >= piece->bv_len) {
			skip -= piece->bv_len;
			continue;
		}
		good = batch_append(&own, piece->bv_page, piece->bv_offset + skip,
				    piece->bv_len - skip, gfp);
		skip = 0;
	}
	if (good) {
		batch_drop_pieces(b, 0);
		swap(b->mem.piece, own.mem.piece);
		b->pieces = own.pieces;
		own.pieces = 0;
		b->len -= b->sent;
		b->sent = 0;
		b->lent = 0;
	}
	kiw_batch_free(&own);
	return good;
}

void kiw_batch_clear(struct kiw_batch *b)
{
	batch_drop_pieces(b, 0);
	b->loan = NULL;
	b->fpdus = 0;
	b->lent = 0;
	b->len = 0;
	b->sent = 0;
}

void kiw_batch_free(struct kiw_batch *b)
{
	batch_drop_pieces(b, 0);
	batch_drop_spare(&b->mem);
}

void kiw_batch_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		batch_drop_spare(per_cpu_ptr(&batch_spares.spare[0], cpu));
		batch_drop_spare(per_cpu_ptr(&batch_spares.spare[1], cpu));
	}
}
