/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * DDP and RDMAP headers (RFC 5040, 5041, 7306): build, parse, check the sequence of untagged
 * messages. Offsets count from the start of the ULPDU, lengths are in bytes, and builders write to
 * any alignment.
 */
#ifndef KIW_PROTO_DDP_H
#define KIW_PROTO_DDP_H

#include "os.h"
#include "verdict.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of an opcode and of its segments */
#define KIW_F_TAGGED 0x01 /* tagged buffer */
#define KIW_F_SOLICITED 0x02 /* solicited event */
#define KIW_F_INVALIDATE 0x04 /* carries an STag to invalidate */
#define KIW_F_RECV 0x08 /* consumes a receive request */
#define KIW_F_SINGLE 0x10 /* one segment of fixed length */
#define KIW_F_SEND_IMM 0x20 /* segments only: Send with immediate data */
#define KIW_F_LAST 0x80 /* segments only: DDP's L bit */

/* Capabilities of a stream beyond RFC 5040 */
#define KIW_CAP_IMM 0x01 /* Immediate Data (RFC 7306 section 6), Sends with it (private) */
#define KIW_CAP_ATOMIC 0x02 /* all atomics (RFC 7306 section 5) */

/**
 * struct kiw_op_info - properties of an RDMAP opcode
 * @qn: queue number, if untagged
 * @hdr_len: bytes before the payload; of a Terminate, the DDP header
 * @flags: KIW_F_*
 * @cap: needed KIW_CAP_*, 0 for RFC 5040
 */
struct kiw_op_info {
	u8 qn;
	u8 hdr_len;
	u8 flags;
	u8 cap;
};

/* Indexed by enum kiw_op */
extern const struct kiw_op_info kiw_ops[KIW_OP_COUNT];

/* A Read Request (RFC 5040 section 4.4): sink buffer at the requester, source at the responder */
struct kiw_rreq {
	u32 sink_stag;
	u64 sink_to;
	u32 size;
	u32 src_stag;
	u64 src_to;
};

/*
 * An Atomic Request (RFC 7306 section 5.2.1).
 * @op: KIW_ATOMIC_*, or any 4-bit value of a peer
 * @req_id: returned in the response
 * @data: value to add or to swap in
 * @mask: field boundaries of an add, or bits to swap
 * @cmp, @cmp_mask: value and bits to compare
 */
struct kiw_atomic {
	u8 op;
	u32 req_id;
	u32 stag;
	u64 to;
	u64 data;
	u64 mask;
	u64 cmp;
	u64 cmp_mask;
};

/* An Atomic Response (RFC 7306 section 5.2.2); @value is the memory before the operation */
struct kiw_atomic_resp {
	u32 req_id;
	u64 value;
};

/*
 * A parsed DDP segment.
 * @flags: KIW_F_*
 * @hdr_len: bytes before the payload
 * @need: with %KIW_MORE, bytes needed from the start
 * @err: with %KIW_BAD, the error
 * @payload_len: bytes after @hdr_len
 * @stag, @to: tagged; offset of the payload
 * @inv_stag: untagged: STag with %KIW_F_INVALIDATE, immediate data with %KIW_F_SEND_IMM
 * @qn, @msn, @mo: untagged; @qn fits @op, the others are unchecked
 *
 * All of a Terminate, up to KIW_TERM_MAX_LEN bytes, counts as header; kiw_term_parse() reads it.
 */
struct kiw_seg {
	u8 op;
	u8 flags;
	u8 hdr_len;
	u8 need;
	enum kiw_err err;
	u32 payload_len;
	u32 stag;
	u64 to;
	u32 inv_stag;
	u32 qn;
	u32 msn;
	u32 mo;
	union {
		struct kiw_rreq rreq;
		struct kiw_atomic atomic;
		struct kiw_atomic_resp atomic_resp;
		u8 imm[KIW_IMM_SIZE];
	};
};

/**
 * kiw_seg_parse() - parse the headers of a DDP segment
 * @ulpdu: first bytes of the ULPDU, without markers
 * @have: bytes at @ulpdu
 * @ulpdu_len: ULPDU_Length, 0..65535
 * @caps: KIW_CAP_* of the stream
 * @seg: output, complete with %KIW_DONE only
 *
 * Checks in the order of RFC 5041 section 7.1 and RFC 5040 section 7.2, up to the first error: room
 * for a DDP header, DDP version, RDMAP version, opcode, T bit, queue number, length and L bit of
 * single-segment messages. The caller checks STag, MSN, MO and all that needs state.
 *
 * Never needs more than the header of the opcode or @ulpdu_len. Keeps no state: call again with
 * more bytes. With a CRC, act on no other verdict than %KIW_DONE before the CRC is verified.
 *
 * Return: %KIW_DONE, %KIW_MORE with @seg->need, %KIW_BAD with @seg->err.
 */
enum kiw_step kiw_seg_parse(const u8 *ulpdu, u32 have, u32 ulpdu_len, u32 caps,
			    struct kiw_seg *seg);

/** kiw_build_tagged() - write a tagged header (RFC 5041 section 4.2), KIW_TAGGED_LEN bytes */
u32 kiw_build_tagged(void *p, u8 op, bool last, u32 stag, u64 to);

/**
 * kiw_build_untagged() - write an untagged header (RFC 5041 section 4.3)
 * @p: KIW_UNTAGGED_LEN bytes
 * @op: untagged opcode; with %KIW_RDMAP_SEND_IMM for a Send with immediate data
 * @last: last segment of the message
 * @inv_stag: STag to invalidate, or immediate data, or 0
 * @qn: queue number of @op
 * @msn: message sequence number
 * @mo: bytes of the message before this segment
 *
 * Return: KIW_UNTAGGED_LEN.
 */
u32 kiw_build_untagged(void *p, u8 op, bool last, u32 inv_stag, u32 qn, u32 msn, u32 mo);

/** kiw_build_rreq() - write a Read Request (RFC 5040 section 4.4), KIW_RREQ_LEN bytes */
u32 kiw_build_rreq(void *p, u32 msn, const struct kiw_rreq *rr);

/** kiw_build_imm() - write Immediate Data (RFC 7306 section 6.3), KIW_IMM_LEN bytes */
u32 kiw_build_imm(void *p, bool solicited, u32 msn, const u8 imm[KIW_IMM_SIZE]);

/** kiw_build_atomic() - write an Atomic Request (RFC 7306 5.2.1), KIW_ATOMIC_REQ_LEN bytes */
u32 kiw_build_atomic(void *p, u32 msn, const struct kiw_atomic *at);

/** kiw_build_atomic_resp() - an Atomic Response (RFC 7306 5.2.2), KIW_ATOMIC_RESP_LEN bytes */
u32 kiw_build_atomic_resp(void *p, u32 msn, const struct kiw_atomic_resp *ar);

/** kiw_rreq_advance() - the unanswered rest, as a Terminate returns it (RFC 5040 section 4.8) */
void kiw_rreq_advance(struct kiw_rreq *rr, u32 done);

/** kiw_atomic_apply() - compute an atomic (RFC 7306 section 5.1); false: undefined @at->op */
bool kiw_atomic_apply(const struct kiw_atomic *at, u64 old, u64 *new_value);

/* The next untagged segment due on a queue: message sequence number and offset */
struct kiw_seq {
	u32 msn;
	u32 mo;
};

/** kiw_seq_init() - start a queue (RFC 5041 section 4.3) */
static inline void kiw_seq_init(struct kiw_seq *seq)
{
	seq->msn = KIW_MSN_FIRST;
	seq->mo = 0;
}

/**
 * kiw_seq_check_msn() - first check of an untagged segment (RFC 5041 section 7.1)
 * @seq: sequence of its queue
 * @seg: segment
 *
 * The caller then looks for a buffer (%KIW_ERR_DDP_NOBUF) and calls kiw_seq_check_mo().
 *
 * Return: %KIW_OK or %KIW_ERR_DDP_MSN.
 */
static inline enum kiw_err kiw_seq_check_msn(const struct kiw_seq *seq, const struct kiw_seg *seg)
{
	return seg->msn == seq->msn ? KIW_OK : KIW_ERR_DDP_MSN;
}

/** kiw_seq_check_mo() - second check: %KIW_ERR_DDP_MO, or _TOOLONG for a buffer of @room bytes */
enum kiw_err kiw_seq_check_mo(const struct kiw_seq *seq, const struct kiw_seg *seg, u32 room);

/** kiw_seq_advance() - step over a segment that passed both checks */
void kiw_seq_advance(struct kiw_seq *seq, const struct kiw_seg *seg);

#ifdef __cplusplus
}
#endif

#endif
