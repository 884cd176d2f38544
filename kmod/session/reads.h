/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * RDMA Reads and atomics under way, outbound and inbound (RFC 5040 section 5.2, RFC 7306 section
 * 5). Both kinds share the depth and are answered in order. The session's lock protects both
 * queues. Indexes run freely.
 */
#ifndef KIW_SESSION_READS_H
#define KIW_SESSION_READS_H

#include "kiwarp-abi.h"
#include "os.h"
#include "../proto/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First index: a fault at the wrap shows in every test */
#define KIW_READS_START (-16U)

/*
 * A Read or atomic that the peer has not answered.
 * @index: its send request, and the identifier of an atomic
 * @internal: RTR message, without request or completion
 * @invalidates: the answer invalidates the region of its only buffer
 * @sge: buffers of the response
 */
struct kiw_read_out {
	u32		index;
	bool		internal;
	bool		atomic;
	bool		invalidates;
	u8		num_sge;
	u32		sink_stag;
	u32		len;
	u64		sink_to;
	struct kiw_sge	sge[];
};

/*
 * A Read or atomic of the peer to answer.
 * @done: the atomic ran, and @at.data is the value before it.
 */
struct kiw_read_in {
	bool	atomic;
	bool	done;
	union {
		struct kiw_rreq		read;
		struct kiw_atomic	at;
	};
};

/* Our unanswered Reads and atomics, in order. @size is a power of two. @room: see below */
struct kiw_reads_out {
	void	*room;
	void	*slots;
	u32	size;
	u32	stride;
	u32	head;
	u32	tail;
};

/*
 * The peer's unanswered Reads and atomics, in order. @size is a power of two. The response to @head
 * may be under way.
 */
struct kiw_reads_in {
	struct kiw_read_in	*slots;
	u32			size;
	u32			head;
	u32			tail;
};

/**
 * kiw_reads_init() - prepare both queues, and other memory with them
 * @out: zeroed
 * @in: zeroed
 * @ord: outbound depth; with 0 there is still one slot, for an RTR message
 * @ird: inbound depth; with 0 still one slot
 * @max_sge: buffers of a response
 * @more: bytes of the other memory, a multiple of 8
 *
 * Return: the other memory, zeroed, or NULL: there is none for the queues either.
 */
void *kiw_reads_init(struct kiw_reads_out *out, struct kiw_reads_in *in, u32 ord, u32 ird,
		     u32 max_sge, size_t more);

/** kiw_reads_free() - free all memory of kiw_reads_init(), even if it failed */
void kiw_reads_free(struct kiw_reads_out *out, struct kiw_reads_in *in);

static inline u32 kiw_reads_out_len(const struct kiw_reads_out *out)
{
	return out->tail - out->head;
}

static inline struct kiw_read_out *kiw_read_out(const struct kiw_reads_out *out, u32 index)
{
	return (struct kiw_read_out *)((u8 *)out->slots +
				       (size_t)(index % out->size) * out->stride);
}

/** kiw_read_out_oldest() - the one that the next response answers; must exist */
static inline struct kiw_read_out *kiw_read_out_oldest(const struct kiw_reads_out *out)
{
	return kiw_read_out(out, out->head);
}

static inline u32 kiw_reads_in_len(const struct kiw_reads_in *in)
{
	return in->tail - in->head;
}

/** kiw_read_in_oldest() - the next to answer; must exist */
static inline struct kiw_read_in *kiw_read_in_oldest(const struct kiw_reads_in *in)
{
	return &in->slots[in->head % in->size];
}

/** kiw_read_in_add() - add a Read of the peer; the caller checked for room */
static inline void kiw_read_in_add(struct kiw_reads_in *in, const struct kiw_rreq *rreq)
{
	struct kiw_read_in *slot = &in->slots[in->tail++ % in->size];

	slot->atomic = false;
	slot->done = false;
	slot->read = *rreq;
}

/** kiw_atomic_in_add() - add an atomic of the peer; the caller checked for room */
static inline void kiw_atomic_in_add(struct kiw_reads_in *in, const struct kiw_atomic *at)
{
	struct kiw_read_in *slot = &in->slots[in->tail++ % in->size];

	slot->atomic = true;
	slot->done = false;
	slot->at = *at;
}

static inline u32 kiw_read_in_msn(const struct kiw_reads_in *in)
{
	return KIW_MSN_FIRST + in->head - KIW_READS_START;
}

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_READS_H */
