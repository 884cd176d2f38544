/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Send queues: requests taken out of the mapped ring, their completion and their flush. */
#ifndef KIW_SESSION_SQ_H
#define KIW_SESSION_SQ_H

#include "kiwarp-abi.h"
#include "port.h"
#include "ring.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_cq;
struct kiw_owner;

/* Bytes of a message at most */
#define KIW_MAX_MSG	(1U << 31)

/* Bytes of a slot in front of the buffers, without and with a destination */
#define KIW_SQ_HEAD	sizeof(struct kiw_wqe)
#define KIW_SQ_HEAD_UD	(sizeof(struct kiw_wqe) + sizeof(struct kiw_ud_dest))

/**
 * enum kiw_send_kind - how a request becomes FPDUs
 * @KIW_SEND_UNTAGGED: a message on queue 0 (RFC 5040 section 5.3)
 * @KIW_SEND_TAGGED: into a region of the peer's (RFC 5040 section 5.1)
 * @KIW_SEND_TAGGED_IMM: the same, and Immediate Data behind it (RFC 7306 section 6)
 * @KIW_SEND_READ: a Read Request, which the peer answers (RFC 5040 section 5.2)
 * @KIW_SEND_ATOMIC: an Atomic Request, likewise (RFC 7306 section 5)
 * @KIW_SEND_BIND: no FPDU: a window gets its memory
 * @KIW_SEND_INVALIDATE: no FPDU: a region that can be withdrawn is
 */
enum kiw_send_kind {
	KIW_SEND_UNTAGGED,
	KIW_SEND_TAGGED,
	KIW_SEND_TAGGED_IMM,
	KIW_SEND_READ,
	KIW_SEND_ATOMIC,
	KIW_SEND_BIND,
	KIW_SEND_INVALIDATE,
};

/**
 * struct kiw_send_op - what there is to know about one opcode of send requests
 * @kind: how it is sent
 * @wire: RDMAP opcode, with %KIW_RDMAP_SEND_IMM where that belongs to it
 * @wire_solicited: the same with %KIW_WQE_SOLICITED, where that makes a difference
 * @flags: KIW_WQE_* that it takes; 0 in the rows of opcodes that can't be sent
 * @cap: KIW_CAP_* that the peer must have for it
 */
struct kiw_send_op {
	enum kiw_send_kind	kind;
	u8			wire;
	u8			wire_solicited;
	u8			flags;
	u8			cap;
};

/* One row per opcode, indexed by enum kiw_wr_op */
#define KIW_SEND_OPS (KIW_WR_LOCAL_INV + 1)
extern const struct kiw_send_op kiw_send_ops[KIW_SEND_OPS];

/* kiw_send_is_answered() - completes when the peer has answered */
static inline bool kiw_send_is_answered(const struct kiw_send_op *op)
{
	return op->kind == KIW_SEND_READ || op->kind == KIW_SEND_ATOMIC;
}

/* kiw_send_is_local() - the peer isn't told */
static inline bool kiw_send_is_local(const struct kiw_send_op *op)
{
	return op->kind == KIW_SEND_BIND || op->kind == KIW_SEND_INVALIDATE;
}

/**
 * struct kiw_swr - what is left of a send request between its copy out of the ring and its
 * completion
 * @wr_id: the user's
 * @byte_len: for the completion
 * @op: enum kiw_wr_op
 * @flags: KIW_WQE_*
 * @status: enum ib_wc_status, valid when @done
 * @done: complete as soon as all before it are
 */
struct kiw_swr {
	u64	wr_id;
	u32	byte_len;
	u8	op;
	u8	flags;
	u8	status;
	bool	done;
};

/**
 * struct kiw_sq - send queue; the QP is held
 * @map: the ring
 * @entries: slots, power of two
 * @next: index of the next request to take out of the ring
 * @done: index of the oldest request that has not completed; @done <= @next
 * @max_inline: bytes of payload that a slot holds
 * @max_sge: buffers that a slot holds
 * @head: bytes of a slot in front of the buffers
 * @swr: @entries of them, for @done..@next
 * @cq: gets the completions
 * @owner: the QP
 */
struct kiw_sq {
	struct kiw_ring_map	map;
	u32			entries;
	u32			next;
	u32			done;
	u16			max_inline;
	u8			max_sge;
	u8			head;
	struct kiw_swr		*swr;
	struct kiw_cq		*cq;
	const struct kiw_owner	*owner;
};

/**
 * struct kiw_send_req - a send request that was taken
 * @wqe: private copy of its slot
 * @dest: likewise, where slots have one
 * @atomic: likewise, of an atomic
 * @bind: likewise, of a bind
 * @sge: private copy of its buffers; room for as many as the queue allows
 * @inline_data: its inline payload, still in the ring: each byte is read once
 * @index: in the send queue
 * @len: bytes of the message
 */
struct kiw_send_req {
	struct kiw_wqe		wqe;
	union {
		struct kiw_ud_dest	dest;
		struct kiw_atomic_args	atomic;
		struct kiw_bind_args	bind;
	};
	struct kiw_sge		*sge;
	const void		*inline_data;
	u32			index;
	u32			len;
};

static inline struct kiw_swr *kiw_swr(const struct kiw_sq *sq, u32 index)
{
	return &sq->swr[index & (sq->entries - 1)];
}

/** kiw_sge_total() - bytes that buffers hold, or -1 for more than a message may have */
s64 kiw_sge_total(const struct kiw_sge *sge, u32 n);

/**
 * kiw_sq_take() - take the next send request out of its ring
 * @sq: send queue
 * @req: gets the private, checked copy
 *
 * Return: see enum kiw_take. With KIW_TAKE_BAD, @req has nothing but its index.
 */
enum kiw_take kiw_sq_take(struct kiw_sq *sq, struct kiw_send_req *req);

/** kiw_sq_posted() - are there requests in the ring that were not taken */
bool kiw_sq_posted(const struct kiw_sq *sq);

/** kiw_sq_done() - a request has come to its end; kiw_sq_complete() has to follow */
static inline void kiw_sq_done(struct kiw_sq *sq, u32 index, enum ib_wc_status status)
{
	struct kiw_swr *swr = kiw_swr(sq, index);

	swr->status = status;
	swr->done = true;
}

/**
 * kiw_sq_complete() - publish completions for all requests that are done, in order
 * @sq: send queue
 *
 * Return: false when the completion queue overflowed.
 */
bool kiw_sq_complete(struct kiw_sq *sq);

/**
 * kiw_sq_rest() - have the process ring the doorbell for what it posts from now on
 * @sq: send queue
 *
 * Return: whether something was posted without a doorbell.
 */
bool kiw_sq_rest(struct kiw_sq *sq);

/**
 * kiw_sq_flag() - tell the process whether it has to ring the doorbell
 * @sq: send queue
 * @flags: KIW_RING_*
 */
void kiw_sq_flag(struct kiw_sq *sq, u32 flags);

/** kiw_sq_forget() - drop what is posted, without completions; the QP is idle */
void kiw_sq_forget(struct kiw_sq *sq);

/**
 * kiw_sq_flush() - complete all that is posted with an error
 * @sq: send queue of a QP in error
 * @oldest: how the oldest request that is undone ends; the others end with IB_WC_WR_FLUSH_ERR
 *
 * Return: whether a request ended with an @oldest that is another error.
 */
bool kiw_sq_flush(struct kiw_sq *sq, enum ib_wc_status oldest);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_SQ_H */
