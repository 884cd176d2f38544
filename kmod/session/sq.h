/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Send queues: taking requests from the mapped ring, completions, flush. */
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

/*
 * Opcodes of consumers in the kernel alone, behind those of the ABI. A registration: the header's
 * rkey is the region's new STag; behind it is a struct kiw_bind_args with its present STag, first
 * address and rights. A Read that invalidates the region of its only buffer.
 */
#define KIW_WR_REG_MR	(KIW_WR_LOCAL_INV + 1)
#define KIW_WR_READ_INV	(KIW_WR_LOCAL_INV + 2)

/* Longest message, bytes */
#define KIW_MAX_MSG	(1U << 31)

/* Bytes of a slot before the buffers, without and with a destination */
#define KIW_SQ_HEAD	sizeof(struct kiw_wqe)
#define KIW_SQ_HEAD_UD	(sizeof(struct kiw_wqe) + sizeof(struct kiw_ud_dest))

/*
 * How a request becomes FPDUs
 * @KIW_SEND_UNTAGGED: a message on queue 0 (RFC 5040 section 5.3)
 * @KIW_SEND_TAGGED: into a region of the peer (RFC 5040 section 5.1)
 * @KIW_SEND_TAGGED_IMM: with Immediate Data behind it (RFC 7306 section 6)
 * @KIW_SEND_READ: Read Request (RFC 5040 section 5.2)
 * @KIW_SEND_ATOMIC: Atomic Request (RFC 7306 section 5)
 * @KIW_SEND_BIND: no FPDU: memory for a window
 * @KIW_SEND_INVALIDATE: no FPDU: withdrawal of a region
 * @KIW_SEND_REGISTER: no FPDU: memory for a region
 */
enum kiw_send_kind {
	KIW_SEND_UNTAGGED,
	KIW_SEND_TAGGED,
	KIW_SEND_TAGGED_IMM,
	KIW_SEND_READ,
	KIW_SEND_ATOMIC,
	KIW_SEND_BIND,
	KIW_SEND_INVALIDATE,
	KIW_SEND_REGISTER,
};

/**
 * struct kiw_send_op - properties of an opcode of send requests
 * @kind: enum kiw_send_kind
 * @wire: RDMAP opcode, with %KIW_RDMAP_SEND_IMM if set
 * @wire_solicited: with %KIW_WQE_SOLICITED, if different
 * @flags: allowed KIW_WQE_*; 0: cannot be sent
 * @cap: KIW_CAP_* that the peer needs
 */
struct kiw_send_op {
	enum kiw_send_kind	kind;
	u8			wire;
	u8			wire_solicited;
	u8			flags;
	u8			cap;
};

/* Indexed by enum kiw_wr_op and the two above; those of processes come first */
#define KIW_SEND_OPS (KIW_WR_READ_INV + 1)
#define KIW_SEND_OPS_PROCESS (KIW_WR_LOCAL_INV + 1)
extern const struct kiw_send_op kiw_send_ops[KIW_SEND_OPS];

static inline bool kiw_send_is_answered(const struct kiw_send_op *op)
{
	return op->kind == KIW_SEND_READ || op->kind == KIW_SEND_ATOMIC;
}

static inline bool kiw_send_is_local(const struct kiw_send_op *op)
{
	return op->kind == KIW_SEND_BIND || op->kind == KIW_SEND_INVALIDATE ||
	       op->kind == KIW_SEND_REGISTER;
}

/*
 * A send request between its copy out of the ring and its completion. It completes once it and all
 * before it are @done; @status is enum ib_wc_status.
 */
struct kiw_swr {
	u64	wr_id;
	u32	byte_len;
	u8	op;
	u8	flags;
	u8	status;
	bool	done;
};

/*
 * Send queue; the QP is held. @entries is a power of two.
 * @next: next request to take
 * @done: oldest request that is not complete, at most @next
 * @max_inline: bytes of inline payload of a slot
 * @max_sge: buffers of a slot
 * @head: bytes of a slot before them
 * @kernel: of a consumer in the kernel, which may use all opcodes; constant
 * @swr: @entries elements, for @done..@next
 */
struct kiw_sq {
	struct kiw_ring_map	map;
	u32			entries;
	u32			next;
	u32			done;
	u16			max_inline;
	u8			max_sge;
	u8			head;
	bool			kernel;
	struct kiw_swr		*swr;
	struct kiw_cq		*cq;
	const struct kiw_owner	*owner;
};

/*
 * A taken send request: private copies of its slot, arguments and @sge, which has room for the
 * queue's maximum. @inline_data is still in the ring; each byte is read once.
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

/** kiw_sge_total() - bytes of the buffers, or -1 if a message cannot be so long */
s64 kiw_sge_total(const struct kiw_sge *sge, u32 n);

/** kiw_sq_take() - take a private, checked copy; with KIW_TAKE_BAD only its index */
enum kiw_take kiw_sq_take(struct kiw_sq *sq, struct kiw_send_req *req);

/** kiw_sq_posted() - does the ring hold requests that were not taken */
bool kiw_sq_posted(const struct kiw_sq *sq);

/** kiw_sq_done() - a request has ended; kiw_sq_complete() must follow */
static inline void kiw_sq_done(struct kiw_sq *sq, u32 index, enum ib_wc_status status)
{
	struct kiw_swr *swr = kiw_swr(sq, index);

	swr->status = status;
	swr->done = true;
}

/** kiw_sq_complete() - publish done requests, in order. Return: false: the CQ overflowed */
bool kiw_sq_complete(struct kiw_sq *sq);

/**
 * kiw_sq_rest() - demand doorbells
 * @sq: queue
 * @flags: 0, or KIW_RING_SMALL: not of all requests
 *
 * Return: was a request posted without one meanwhile.
 */
bool kiw_sq_rest(struct kiw_sq *sq, u32 flags);

/** kiw_sq_flag() - set KIW_RING_*: must the process ring the doorbell */
void kiw_sq_flag(struct kiw_sq *sq, u32 flags);

/** kiw_sq_forget() - drop posted requests without completions; the QP is idle */
void kiw_sq_forget(struct kiw_sq *sq);

/**
 * kiw_sq_flush() - fail all requests
 * @sq: send queue of a QP in error
 * @oldest: status of the oldest unfinished request; the others end with IB_WC_WR_FLUSH_ERR
 *
 * Return: whether a request ended with @oldest, and that is another error.
 */
bool kiw_sq_flush(struct kiw_sq *sq, enum ib_wc_status oldest);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_SQ_H */
