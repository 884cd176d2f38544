/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * DDP and RDMAP headers: build, parse, and check the sequence of untagged
 * messages (RFC 5040, 5041, 7306). Offsets are counted from the start of the
 * ULPDU, lengths are octets, builders write to memory of any alignment.
 */
#ifndef KIW_PROTO_DDP_H
#define KIW_PROTO_DDP_H

#include "os.h"
#include "verdict.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Properties of an opcode, and of a segment that carries it */
#define KIW_F_TAGGED 0x01 /* goes to a tagged buffer */
#define KIW_F_SOLICITED 0x02 /* fires a solicited-only completion queue */
#define KIW_F_INVALIDATE 0x04 /* carries an STag to invalidate */
#define KIW_F_RECV 0x08 /* consumes a receive request */
#define KIW_F_SINGLE 0x10 /* message is one segment of fixed length */
#define KIW_F_SEND_IMM 0x20 /* of a segment only: a Send that carries immediate data */
#define KIW_F_LAST 0x80 /* of a segment only: DDP's L bit */

/* What a stream supports beyond RFC 5040 */
#define KIW_CAP_IMM 0x01 /* Immediate Data, RFC 7306 section 6, and Sends with it (private) */
#define KIW_CAP_ATOMIC 0x02 /* all atomics, RFC 7306 section 5 */

/**
 * struct kiw_op_info - what there is to know about one RDMAP opcode
 * @qn: queue number, if untagged
 * @hdr_len: octets in front of the payload; for Terminate the DDP header alone
 * @flags: KIW_F_*
 * @cap: KIW_CAP_* it takes to accept it, 0 for RFC 5040 opcodes
 */
struct kiw_op_info {
	u8 qn;
	u8 hdr_len;
	u8 flags;
	u8 cap;
};

/* One row per opcode, indexed by enum kiw_op */
extern const struct kiw_op_info kiw_ops[KIW_OP_COUNT];

/**
 * struct kiw_rreq - contents of a Read Request, RFC 5040 section 4.4
 * @sink_stag: buffer at the requester, returned in the Read Response
 * @sink_to: its tagged offset, likewise
 * @size: octets to read
 * @src_stag: buffer at the responder
 * @src_to: its tagged offset
 */
struct kiw_rreq {
	u32 sink_stag;
	u64 sink_to;
	u32 size;
	u32 src_stag;
	u64 src_to;
};

/**
 * struct kiw_atomic - contents of an Atomic Request, RFC 7306 section 5.2.1
 * @op: KIW_ATOMIC_*, or any other 4-bit value a peer chose to send
 * @req_id: returned in the Atomic Response
 * @stag: buffer at the responder
 * @to: its tagged offset
 * @data: value to add or to swap in
 * @mask: field boundaries of an add, or bits to swap
 * @cmp: value to compare with
 * @cmp_mask: bits to compare
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

/**
 * struct kiw_atomic_resp - contents of an Atomic Response, RFC 7306 section 5.2.2
 * @req_id: as in the request
 * @value: memory before the operation
 */
struct kiw_atomic_resp {
	u32 req_id;
	u64 value;
};

/**
 * struct kiw_seg - one parsed DDP segment
 * @op: enum kiw_op
 * @flags: KIW_F_*
 * @hdr_len: octets of the ULPDU in front of the payload
 * @need: after %KIW_MORE, octets the parser wants to see from the start
 * @err: after %KIW_BAD, what is wrong
 * @payload_len: octets of the ULPDU behind @hdr_len
 * @stag: tagged only
 * @to: tagged only, tagged offset of the payload
 * @inv_stag: untagged only, as received: with %KIW_F_INVALIDATE the STag, with
 *	%KIW_F_SEND_IMM the immediate data
 * @qn: untagged only, fits @op
 * @msn: untagged only, not yet judged
 * @mo: untagged only, not yet judged
 * @rreq: %KIW_OP_READ_REQ only
 * @atomic: %KIW_OP_ATOMIC_REQ only
 * @atomic_resp: %KIW_OP_ATOMIC_RESP only
 * @imm: %KIW_OP_IMM and %KIW_OP_IMM_SE only
 *
 * A Terminate is parsed no further here: its up to KIW_TERM_MAX_LEN octets all
 * count as header and are for kiw_term_parse().
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
 * kiw_seg_parse() - take the headers of a DDP segment apart
 * @ulpdu: first octets of the ULPDU, markers removed
 * @have: how many are there
 * @ulpdu_len: ULPDU_Length, 0..65535
 * @caps: KIW_CAP_* of the stream
 * @seg: output, complete only after %KIW_DONE
 *
 * Checks in this order and stops at the first mistake (RFC 5041 section 7.1,
 * RFC 5040 section 7.2): room for a DDP header, DDP version, RDMAP version,
 * opcode, T bit, queue number, length and L bit of single-segment messages.
 * STag, MSN, MO and everything that needs state are left to the caller.
 *
 * It never asks for more than the header of the opcode at hand nor for more
 * than @ulpdu_len. Call it again from scratch with more octets, the result
 * depends on nothing else. While CRC is in use, a verdict other than
 * %KIW_DONE must not be acted upon until the CRC was found good.
 *
 * Return: %KIW_DONE, %KIW_MORE with @seg->need, %KIW_BAD with @seg->err.
 */
enum kiw_step kiw_seg_parse(const u8 *ulpdu, u32 have, u32 ulpdu_len, u32 caps,
			    struct kiw_seg *seg);

/**
 * kiw_build_tagged() - write a tagged header, RFC 5041 section 4.2
 * @p: KIW_TAGGED_LEN octets
 * @op: %KIW_OP_WRITE or %KIW_OP_READ_RESP
 * @last: last segment of its message
 * @stag: peer's buffer
 * @to: tagged offset of the payload
 *
 * Return: KIW_TAGGED_LEN.
 */
u32 kiw_build_tagged(void *p, u8 op, bool last, u32 stag, u64 to);

/**
 * kiw_build_untagged() - write an untagged header, RFC 5041 section 4.3
 * @p: KIW_UNTAGGED_LEN octets
 * @op: any untagged opcode; that of a Send with %KIW_RDMAP_SEND_IMM if it
 *	carries immediate data
 * @last: last segment of its message
 * @inv_stag: STag to invalidate, or the immediate data; 0 if @op has neither
 * @qn: queue number of @op
 * @msn: message sequence number
 * @mo: octets of the message in front of this segment's payload
 *
 * Return: KIW_UNTAGGED_LEN.
 */
u32 kiw_build_untagged(void *p, u8 op, bool last, u32 inv_stag, u32 qn, u32 msn, u32 mo);

/**
 * kiw_build_rreq() - write a whole Read Request, RFC 5040 section 4.4
 * @p: KIW_RREQ_LEN octets
 * @msn: message sequence number on KIW_QN_READ
 * @rr: contents
 *
 * Return: KIW_RREQ_LEN.
 */
u32 kiw_build_rreq(void *p, u32 msn, const struct kiw_rreq *rr);

/**
 * kiw_build_imm() - write a whole Immediate Data message, RFC 7306 section 6.3
 * @p: KIW_IMM_LEN octets
 * @solicited: use the variant with solicited event
 * @msn: message sequence number on KIW_QN_SEND
 * @imm: the eight octets to carry
 *
 * Return: KIW_IMM_LEN.
 */
u32 kiw_build_imm(void *p, bool solicited, u32 msn, const u8 imm[KIW_IMM_SIZE]);

/**
 * kiw_build_atomic() - write a whole Atomic Request, RFC 7306 section 5.2.1
 * @p: KIW_ATOMIC_REQ_LEN octets
 * @msn: message sequence number on KIW_QN_READ
 * @at: contents
 *
 * Return: KIW_ATOMIC_REQ_LEN.
 */
u32 kiw_build_atomic(void *p, u32 msn, const struct kiw_atomic *at);

/**
 * kiw_build_atomic_resp() - write a whole Atomic Response, RFC 7306 section 5.2.2
 * @p: KIW_ATOMIC_RESP_LEN octets
 * @msn: message sequence number on KIW_QN_ATOMIC
 * @ar: contents
 *
 * Return: KIW_ATOMIC_RESP_LEN.
 */
u32 kiw_build_atomic_resp(void *p, u32 msn, const struct kiw_atomic_resp *ar);

/**
 * kiw_rreq_advance() - what is left of a Read Request partly answered
 * @rr: request to change
 * @done: octets already sent in Read Responses, at most @rr->size
 *
 * A Terminate about a Read Request returns it in this form (RFC 5040 section
 * 4.8).
 */
void kiw_rreq_advance(struct kiw_rreq *rr, u32 done);

/**
 * kiw_atomic_apply() - the arithmetic of an Atomic Request, RFC 7306 section 5.1
 * @at: request, values in host byte order
 * @old: memory before
 * @new_value: memory after
 *
 * Return: false if @at->op is none that is defined; @new_value is not set then.
 */
bool kiw_atomic_apply(const struct kiw_atomic *at, u64 old, u64 *new_value);

/**
 * struct kiw_seq - next untagged segment due on one queue
 * @msn: its message sequence number
 * @mo: its message offset
 */
struct kiw_seq {
	u32 msn;
	u32 mo;
};

/**
 * kiw_seq_init() - start a queue, RFC 5041 section 4.3
 * @seq: sequence of one queue in one direction
 */
static inline void kiw_seq_init(struct kiw_seq *seq)
{
	seq->msn = KIW_MSN_FIRST;
	seq->mo = 0;
}

/**
 * kiw_seq_check_msn() - first half of the check of an untagged segment
 * @seq: sequence of the queue the segment is for
 * @seg: segment
 *
 * Next comes "is there a buffer" (%KIW_ERR_DDP_NOBUF), which only the caller
 * knows, then kiw_seq_check_mo(). RFC 5041 section 7.1.
 *
 * Return: %KIW_OK or %KIW_ERR_DDP_MSN.
 */
static inline enum kiw_err kiw_seq_check_msn(const struct kiw_seq *seq, const struct kiw_seg *seg)
{
	return seg->msn == seq->msn ? KIW_OK : KIW_ERR_DDP_MSN;
}

/**
 * kiw_seq_check_mo() - second half of the check of an untagged segment
 * @seq: sequence of the queue the segment is for
 * @seg: segment
 * @room: length of the whole buffer the message goes to
 *
 * Return: %KIW_OK, %KIW_ERR_DDP_MO or %KIW_ERR_DDP_TOOLONG.
 */
enum kiw_err kiw_seq_check_mo(const struct kiw_seq *seq, const struct kiw_seg *seg, u32 room);

/**
 * kiw_seq_advance() - step over a segment that passed both checks
 * @seq: sequence of the queue the segment is for
 * @seg: segment
 */
void kiw_seq_advance(struct kiw_seq *seq, const struct kiw_seg *seg);

#ifdef __cplusplus
}
#endif

#endif
