/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * RDMA Reads and atomics under way, in both directions (RFC 5040 section 5.2, RFC 7306 section 5):
 * those that were asked of the peer, and those that the peer has asked for. They are answered in
 * the order in which they were asked, and share the depth. The socket lock protects both queues.
 * Their indexes run freely.
 */
#ifndef KIW_SESSION_READS_H
#define KIW_SESSION_READS_H

#include "kiwarp-abi.h"
#include "os.h"
#include "../proto/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First index of both, so that a mistake about the wrap shows in every test */
#define KIW_READS_START (-16U)

/**
 * struct kiw_read_out - a Read or atomic that the peer has not answered
 * @index: of its request in the send queue; the identifier of an atomic, too
 * @internal: the RTR message: there is no request and no completion
 * @atomic: it is an atomic; what it brings goes into the only buffer
 * @num_sge: entries of @sge
 * @sink_stag: as sent
 * @sink_to: as sent
 * @len: bytes
 * @sge: where the response goes
 */
struct kiw_read_out {
	u32		index;
	bool		internal;
	bool		atomic;
	u8		num_sge;
	u32		sink_stag;
	u64		sink_to;
	u32		len;
	struct kiw_sge	sge[];
};

/**
 * struct kiw_read_in - a Read or atomic of the peer that is to be answered
 * @atomic: it is an atomic
 * @done: the atomic was carried out, and @at.data is what the memory had before
 * @read: the Read
 * @at: the atomic
 */
struct kiw_read_in {
	bool	atomic;
	bool	done;
	union {
		struct kiw_rreq		read;
		struct kiw_atomic	at;
	};
};

/**
 * struct kiw_reads_out - Reads that the peer has yet to answer, in order
 * @slots: @size of them, of @stride bytes
 * @size: a power of two
 * @stride: bytes per slot
 * @head: oldest
 * @tail: next free
 */
struct kiw_reads_out {
	void	*slots;
	u32	size;
	u32	stride;
	u32	head;
	u32	tail;
};

/**
 * struct kiw_reads_in - Reads of the peer that are to be answered, in order
 * @slots: @size of them
 * @size: a power of two
 * @apart: @slots was allocated by itself
 * @head: oldest; its response may be under way
 * @tail: next free
 */
struct kiw_reads_in {
	struct kiw_read_in	*slots;
	u32			size;
	bool			apart;
	u32			head;
	u32			tail;
};

/**
 * kiw_reads_init() - prepare both queues
 * @out: zeroed
 * @in: zeroed
 * @ord: Reads and atomics to have outstanding; an RTR message that is a Read is one of them, and
 *	has a place also with 0
 * @ird: those to hold for the peer; likewise
 * @max_sge: buffers of a response
 * @room: zeroed memory that lives as long as the queues, for what fits into it
 * @room_len: bytes at @room
 *
 * Return: 0 or -ENOMEM.
 */
int kiw_reads_init(struct kiw_reads_out *out, struct kiw_reads_in *in, u32 ord, u32 ird,
		   u32 max_sge, void *room, size_t room_len);

/** kiw_reads_free() - drop the memory of both; also after a failed kiw_reads_init() */
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

/** kiw_read_out_oldest() - the Read or atomic that the next response answers; there is one */
static inline struct kiw_read_out *kiw_read_out_oldest(const struct kiw_reads_out *out)
{
	return kiw_read_out(out, out->head);
}

static inline u32 kiw_reads_in_len(const struct kiw_reads_in *in)
{
	return in->tail - in->head;
}

/** kiw_read_in_oldest() - the Read or atomic to answer next; there is one */
static inline struct kiw_read_in *kiw_read_in_oldest(const struct kiw_reads_in *in)
{
	return &in->slots[in->head % in->size];
}

/** kiw_read_in_add() - the peer asks for a Read, and may: there is room */
static inline void kiw_read_in_add(struct kiw_reads_in *in, const struct kiw_rreq *rreq)
{
	struct kiw_read_in *slot = &in->slots[in->tail++ % in->size];

	slot->atomic = false;
	slot->done = false;
	slot->read = *rreq;
}

/** kiw_atomic_in_add() - the same for an atomic */
static inline void kiw_atomic_in_add(struct kiw_reads_in *in, const struct kiw_atomic *at)
{
	struct kiw_read_in *slot = &in->slots[in->tail++ % in->size];

	slot->atomic = true;
	slot->done = false;
	slot->at = *at;
}

/** kiw_read_in_msn() - message sequence number of the oldest, which its queue implies */
static inline u32 kiw_read_in_msn(const struct kiw_reads_in *in)
{
	return KIW_MSN_FIRST + in->head - KIW_READS_START;
}

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_READS_H */
