/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of outgoing FPDUs. A batch is a list of pieces of pages; TCP takes it in one call, with
 * references to the pages.
 */
#ifndef KIWARP_BATCH_H
#define KIWARP_BATCH_H

#include <linux/bvec.h>
#include <linux/mm_types_task.h>
#include <linux/types.h>

#include "region.h"

/* Pieces of a batch, one page of them; an FPDU is begun while the longest would fit. */
#define KIW_BATCH_PIECES (4096 / sizeof(struct bio_vec))

struct kiw_loan;
struct sock;

/* Memory to build FPDUs: @frag for bytes, @piece for a batch's pieces or NULL */
struct kiw_spare {
	struct page_frag	frag;
	struct bio_vec		*piece;
};

/**
 * struct kiw_batch - FPDUs on their way out; protected by the queue pair's socket lock
 * @mem: memory; held only between kiw_batch_begin() and kiw_batch_end(), or until TCP took all
 * @loan: of pieces that are registered pages, or NULL
 * @use: of the region copied from last, until TCP gets the batch
 * @pieces: used entries of @mem.piece; each holds a reference to its first page
 * @len: bytes
 * @lent: of these, registered pages
 * @fpdus: FPDUs
 * @sent: bytes that TCP took
 * @offset: stream offset of the batch's end, with markers, modulo 2^32
 * @charged: bytes charged to the socket, see kiw_batch_charge()
 */
struct kiw_batch {
	struct kiw_spare	mem;
	struct kiw_loan		*loan;
	struct kiw_region_use	use;
	u32			pieces;
	u32			len;
	u32			lent;
	u32			fpdus;
	u32			sent;
	u32			offset;
	u32			charged;
};

/* A place to cut a batch back to: @pieces before it, bytes in the last of them, @len and @lent */
struct kiw_batch_mark {
	u32	pieces;
	u32	last_len;
	u32	len;
	u32	lent;
};

/** kiw_batch_begin() - get memory, until kiw_batch_end(). Return: false without memory */
bool kiw_batch_begin(struct kiw_batch *b, gfp_t gfp);

/** kiw_batch_end() - give back unused memory */
void kiw_batch_end(struct kiw_batch *b);

/** kiw_batch_open() - is there room for the longest FPDU, in single pages */
bool kiw_batch_open(const struct kiw_batch *b);

/** kiw_batch_whole() - TCP took nothing, or all: the batch can grow */
static inline bool kiw_batch_whole(const struct kiw_batch *b)
{
	return !b->sent;
}

static inline bool kiw_batch_unsent(const struct kiw_batch *b)
{
	return b->sent < b->len;
}

/**
 * kiw_batch_room() - memory at the end of the batch, added by kiw_batch_grow()
 * @b: batch
 * @least: bytes needed in one run, at most a page
 * @gfp: for allocations
 * @room: available bytes
 *
 * Return: address, or NULL without memory.
 */
void *kiw_batch_room(struct kiw_batch *b, u32 least, gfp_t gfp, u32 *room);

/** kiw_batch_grow() - add @n bytes written at kiw_batch_room() */
void kiw_batch_grow(struct kiw_batch *b, u32 n);

/** kiw_batch_lend() - add bytes of a region in use; the batch's loan keeps the pages for TCP */
void kiw_batch_lend(struct kiw_batch *b, const struct kiw_region *region, u64 addr, u32 n);

/** kiw_batch_mark() - note the end of the batch */
struct kiw_batch_mark kiw_batch_mark(const struct kiw_batch *b);

/** kiw_batch_cut() - cut the batch back to @mark */
void kiw_batch_cut(struct kiw_batch *b, const struct kiw_batch_mark *mark);

/**
 * kiw_batch_push() - hand the rest of the batch to TCP
 * @b: batch with unsent bytes
 * @sk: socket, locked
 * @ubuf: loan of its lent pages, or NULL
 * @flags: %MSG_MORE: another batch follows at once; %MSG_EOR: TCP begins a segment with it
 *
 * Return: 0: TCP took all; -EINTR: a part; else TCP's error, -EAGAIN without room.
 */
int kiw_batch_push(struct kiw_batch *b, struct sock *sk, struct ubuf_info *ubuf, int flags);

/** kiw_batch_pages() - pages of its pieces: TCP takes each by itself */
u32 kiw_batch_pages(const struct kiw_batch *b);

/** kiw_batch_afford() - may the locked socket pay for the copied bytes */
bool kiw_batch_afford(struct kiw_batch *b, struct sock *sk);

/**
 * kiw_batch_charge() - account for bytes that wait for TCP
 * @b: batch, between kiw_batch_end() and kiw_batch_begin()
 * @sk: stream socket, locked
 *
 * They count as memory of the socket, for net.ipv4.tcp_mem and the socket's memory cgroup, like
 * bytes that TCP took. Call kiw_batch_uncharge() before adding to, pushing or dropping the batch.
 */
void kiw_batch_charge(struct kiw_batch *b, struct sock *sk);

/** kiw_batch_uncharge() - undo kiw_batch_charge(); the socket is locked */
void kiw_batch_uncharge(struct kiw_batch *b, struct sock *sk);

/** kiw_batch_own() - replace lent pages by copies; drops bytes that TCP took. Return: success */
bool kiw_batch_own(struct kiw_batch *b, gfp_t gfp);

/** kiw_batch_copy() - copy @n bytes of a payload into a batch */
static inline void kiw_batch_copy(void *to, const void *from, u32 n)
{
	memcpy(to, from, n);
}

/** kiw_batch_clear() - TCP took all: begin a new batch */
void kiw_batch_clear(struct kiw_batch *b);

/** kiw_batch_free() - drop all memory */
void kiw_batch_free(struct kiw_batch *b);

/** kiw_batch_exit() - drop the memory shared by all batches; none is left */
void kiw_batch_exit(void);

#endif /* KIWARP_BATCH_H */
