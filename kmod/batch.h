/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of FPDUs on their way to TCP. A batch is a list of pieces of pages; TCP gets all of it in
 * one call and takes references to the pages.
 */
#ifndef KIWARP_BATCH_H
#define KIWARP_BATCH_H

#include <linux/bvec.h>
#include <linux/mm_types_task.h>
#include <linux/types.h>

#include "region.h"

/* Pieces of a batch, a page of them: one more FPDU is begun as long as the longest finds room. */
#define KIW_BATCH_PIECES (4096 / sizeof(struct bio_vec))

struct kiw_loan;
struct sock;

/**
 * struct kiw_spare - memory to build FPDUs with
 * @frag: for their bytes
 * @piece: pieces of a batch, as many as the longest may have, or NULL
 */
struct kiw_spare {
	struct page_frag	frag;
	struct bio_vec		*piece;
};

/**
 * struct kiw_batch - what is being sent; the lock of the queue pair's socket protects it
 * @mem: what the batch lies in; only between kiw_batch_begin() and kiw_batch_end(), or as long as
 *	TCP has not taken all of it
 * @loan: for pieces that are registered pages, or NULL
 * @use: of the region that was copied from last, until TCP gets the batch
 * @pieces: so many of @mem.piece are in use; each holds a reference to its first page
 * @len: bytes in the batch
 * @lent: those of them that are registered pages
 * @fpdus: FPDUs in it
 * @sent: bytes that TCP has taken
 * @offset: bytes of the stream up to the end of the batch, markers included, modulo 2^32
 * @charged: bytes that count as memory of the socket, see kiw_batch_charge()
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

/**
 * struct kiw_batch_mark - a place in a batch, to cut it back to
 * @pieces: pieces before it
 * @last_len: bytes in the last of them
 * @len: bytes in all
 * @lent: those of them that are registered pages
 */
struct kiw_batch_mark {
	u32	pieces;
	u32	last_len;
	u32	len;
	u32	lent;
};

/**
 * kiw_batch_begin() - have memory to build FPDUs with; kiw_batch_end() has to follow
 * @b: batch
 * @gfp: how to allocate
 *
 * Return: false when there is no memory.
 */
bool kiw_batch_begin(struct kiw_batch *b, gfp_t gfp);

/** kiw_batch_end() - give back the memory that the batch doesn't hold */
void kiw_batch_end(struct kiw_batch *b);

/** kiw_batch_open() - may one more FPDU be added, even the longest, in memory of single pages */
bool kiw_batch_open(const struct kiw_batch *b);

/** kiw_batch_whole() - TCP has taken nothing of it, or all: it may be added to */
static inline bool kiw_batch_whole(const struct kiw_batch *b)
{
	return !b->sent;
}

/** kiw_batch_unsent() - TCP has not taken all of it */
static inline bool kiw_batch_unsent(const struct kiw_batch *b)
{
	return b->sent < b->len;
}

/**
 * kiw_batch_room() - memory at the end of the batch
 * @b: batch
 * @least: bytes that it must have in one run, at most a page
 * @gfp: how to allocate
 * @room: how many it has
 *
 * Return: its address, or NULL when there is no memory. kiw_batch_grow() adds it to the batch.
 */
void *kiw_batch_room(struct kiw_batch *b, u32 least, gfp_t gfp, u32 *room);

/** kiw_batch_grow() - @n bytes were written to where kiw_batch_room() said */
void kiw_batch_grow(struct kiw_batch *b, u32 n);

/**
 * kiw_batch_lend() - add bytes of a region, as they lie in its pages
 * @b: batch with a loan, which keeps the pages until TCP is through with them
 * @region: region of a use
 * @addr: first byte
 * @n: bytes
 */
void kiw_batch_lend(struct kiw_batch *b, const struct kiw_region *region, u64 addr, u32 n);

/** kiw_batch_mark() - note where the batch ends */
struct kiw_batch_mark kiw_batch_mark(const struct kiw_batch *b);

/** kiw_batch_cut() - cut the batch back to where it once ended */
void kiw_batch_cut(struct kiw_batch *b, const struct kiw_batch_mark *mark);

/**
 * kiw_batch_push() - hand TCP what is left of the batch
 * @b: batch with something unsent
 * @sk: socket, locked
 * @ubuf: the loan of its lent pages, or NULL
 * @more: another batch follows at once
 *
 * Return: 0 when TCP has all of it; -EINTR when it took a part; or TCP's error, -EAGAIN when it has
 * no room.
 */
int kiw_batch_push(struct kiw_batch *b, struct sock *sk, struct ubuf_info *ubuf, bool more);

/** kiw_batch_afford() - may the socket, which is locked, pay for the copied bytes */
bool kiw_batch_afford(struct kiw_batch *b, struct sock *sk);

/**
 * kiw_batch_charge() - account for bytes that wait until TCP takes them
 * @b: batch, between kiw_batch_end() and kiw_batch_begin()
 * @sk: stream socket, locked
 *
 * It counts as memory of the socket, for net.ipv4.tcp_mem and for the memory cgroup that the socket
 * belongs to. TCP does the same with what it takes. kiw_batch_uncharge() has to follow, before the
 * batch is added to, pushed or dropped.
 */
void kiw_batch_charge(struct kiw_batch *b, struct sock *sk);

/** kiw_batch_uncharge() - the batch keeps nothing, or goes to TCP now; the socket is locked */
void kiw_batch_uncharge(struct kiw_batch *b, struct sock *sk);

/**
 * kiw_batch_own() - copy the rest of the batch, so that it holds no registered pages
 * @b: batch; bytes that TCP took are no part of it any more
 * @gfp: how to allocate
 *
 * Return: false when there is no memory; then the batch is as it was.
 */
bool kiw_batch_own(struct kiw_batch *b, gfp_t gfp);

/** kiw_batch_clear() - TCP has all of it: begin a new one */
void kiw_batch_clear(struct kiw_batch *b);

/** kiw_batch_free() - drop all memory */
void kiw_batch_free(struct kiw_batch *b);

/** kiw_batch_exit() - drop the memory that is kept for all batches, when there are none any more */
void kiw_batch_exit(void);

#endif /* KIWARP_BATCH_H */
