/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Wire format of MPA (RFC 5044, 6581), DDP (RFC 5041) and RDMAP (RFC 5040, 7306). Big-endian,
 * except the CRC.
 */
#ifndef KIW_PROTO_WIRE_H
#define KIW_PROTO_WIRE_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MPA start-up frames, RFC 5044 section 7.1.1 */

#define KIW_MPA_KEY_LEN 16
#define KIW_MPA_KEY_REQ "MPA ID Req Frame"
#define KIW_MPA_KEY_REP "MPA ID Rep Frame"

#define KIW_MPA_MARKERS 0x80 /* M: send me markers */
#define KIW_MPA_CRC 0x40 /* C: use CRC, both directions */
#define KIW_MPA_REJECT 0x20 /* R: Reply only */
#define KIW_MPA_ENHANCED 0x10 /* S: private data starts with the v2 word */
/*
 * Private extension in reserved bits. Request and Reply use different ones: some peers echo unknown
 * bits of a Request.
 */
#define KIW_MPA_LARGE_REQ 0x04 /* the sender accepts FPDUs of any length */
#define KIW_MPA_LARGE_REP 0x02 /* so does the responder */
#define KIW_MPA_EXT_REQ 0x08 /* accepts messages of RFC 7306, and Sends with immediate data */
#define KIW_MPA_EXT_REP 0x01 /* so does the responder */

#define KIW_MPA_REV_1 1 /* RFC 5044 */
#define KIW_MPA_REV_2 2 /* RFC 6581 */

#define KIW_MPA_PD_MAX 512

struct kiw_mpa_hdr {
	u8 key[KIW_MPA_KEY_LEN];
	u8 flags;
	u8 rev;
	__be16 pd_len;
} __packed;
static_assert(sizeof(struct kiw_mpa_hdr) == 20, "MPA frame header");

/* Enhanced connection word, RFC 6581 section 9 */

#define KIW_V2_P2P 0x8000 /* A, in @ird */
#define KIW_V2_RTR_SEND 0x4000 /* B, in @ird */
#define KIW_V2_RTR_WRITE 0x8000 /* C, in @ord */
#define KIW_V2_RTR_READ 0x4000 /* D, in @ord */
#define KIW_V2_DEPTH 0x3fff /* low bits of either half */

struct kiw_mpa_v2 {
	__be16 ird;
	__be16 ord;
} __packed;
static_assert(sizeof(struct kiw_mpa_v2) == 4, "MPA v2 word");

#define KIW_MPA_FRAME_MAX \
	(sizeof(struct kiw_mpa_hdr) + KIW_MPA_PD_MAX)

/* FPDU, RFC 5044 sections 3 and 4 */

#define KIW_FPDU_LEN_SIZE 2
#define KIW_FPDU_CRC_SIZE 4
#define KIW_FPDU_OVERHEAD (KIW_FPDU_LEN_SIZE + KIW_FPDU_CRC_SIZE)
#define KIW_FPDU_PAD_MAX 3
#define KIW_ULPDU_MAX 64768
#define KIW_MULPDU_MIN 128

#define KIW_MARKER_SPACING 512
#define KIW_MARKER_SIZE 4
#define KIW_MARKER_PTR_MASK 0xfffc

struct kiw_marker_wire {
	__be16 reserved;
	__be16 fpduptr;
} __packed;
static_assert(sizeof(struct kiw_marker_wire) == KIW_MARKER_SIZE, "MPA marker");

/* DDP control octet, RFC 5041 section 4.1 */

#define KIW_DDP_TAGGED 0x80
#define KIW_DDP_LAST 0x40
#define KIW_DDP_VERSION_MASK 0x03
#define KIW_DDP_VERSION 0x01

/* RDMAP control octet, RFC 5040 section 4.1 */

#define KIW_RDMAP_VERSION_MASK 0xc0
#define KIW_RDMAP_VERSION 0x40
#define KIW_RDMAP_OP_MASK 0x0f
/*
 * Private extension in a reserved bit, of Send and Send with Solicited Event: immediate data in
 * place of the STag to invalidate.
 */
#define KIW_RDMAP_SEND_IMM 0x20

enum kiw_op {
	KIW_OP_WRITE = 0x0,
	KIW_OP_READ_REQ = 0x1,
	KIW_OP_READ_RESP = 0x2,
	KIW_OP_SEND = 0x3,
	KIW_OP_SEND_INV = 0x4,
	KIW_OP_SEND_SE = 0x5,
	KIW_OP_SEND_SE_INV = 0x6,
	KIW_OP_TERMINATE = 0x7,
	KIW_OP_IMM = 0x8,
	KIW_OP_IMM_SE = 0x9,
	KIW_OP_ATOMIC_REQ = 0xa,
	KIW_OP_ATOMIC_RESP = 0xb,
	KIW_OP_COUNT = 0xc,
};

/* Untagged queue numbers, RFC 5040 section 4.1 and RFC 7306 section 4.1 */

#define KIW_QN_SEND 0
#define KIW_QN_READ 1
#define KIW_QN_TERM 2
#define KIW_QN_ATOMIC 3
#define KIW_QN_COUNT 4

/* The first message on every queue, RFC 5041 section 4.3 */
#define KIW_MSN_FIRST 1

struct kiw_ctrl {
	u8 ddp;
	u8 rdmap;
} __packed;
static_assert(sizeof(struct kiw_ctrl) == 2, "DDP and RDMAP control octets");

/* RFC 5041 section 4.2 */
struct kiw_tagged_hdr {
	struct kiw_ctrl ctrl;
	__be32 stag;
	__be64 to;
} __packed;
static_assert(sizeof(struct kiw_tagged_hdr) == 14, "tagged header");

/* RFC 5041 section 4.3 with the RDMAP meaning of RsvdULP */
struct kiw_untagged_hdr {
	struct kiw_ctrl ctrl;
	__be32 inv_stag;
	__be32 qn;
	__be32 msn;
	__be32 mo;
} __packed;
static_assert(sizeof(struct kiw_untagged_hdr) == 18, "untagged header");

/* RFC 5040 section 4.4 */
struct kiw_rreq_wire {
	__be32 sink_stag;
	__be64 sink_to;
	__be32 size;
	__be32 src_stag;
	__be64 src_to;
} __packed;
static_assert(sizeof(struct kiw_rreq_wire) == 28, "Read Request header");

/* RFC 5040 section 4.8: control word of the Terminate header */

#define KIW_TERM_HDRCT_M 0x80 /* DDP Segment Length is valid */
#define KIW_TERM_HDRCT_D 0x40 /* Terminated DDP Header follows */
#define KIW_TERM_HDRCT_R 0x20 /* Terminated RDMA Header follows */

struct kiw_term_wire {
	u8 layer_etype; /* layer in the high, error type in the low half */
	u8 code;
	u8 hdrct;
	u8 reserved;
} __packed;
static_assert(sizeof(struct kiw_term_wire) == 4, "Terminate control word");

#define KIW_TERM_SEGLEN_SIZE 2

/* RFC 7306 section 6.3 */
#define KIW_IMM_SIZE 8

/* RFC 7306 section 5.2.1 */

#define KIW_ATOMIC_OP_MASK 0x0f
#define KIW_ATOMIC_FETCH_ADD 0x0
#define KIW_ATOMIC_CMP_SWAP 0x2

struct kiw_atomic_req_wire {
	__be32 op;
	__be32 req_id;
	__be32 stag;
	__be64 to;
	__be64 data;
	__be64 mask;
	__be64 cmp;
	__be64 cmp_mask;
} __packed;
static_assert(sizeof(struct kiw_atomic_req_wire) == 52, "Atomic Request header");

/* RFC 7306 section 5.2.2 */
struct kiw_atomic_resp_wire {
	__be32 req_id;
	__be64 value;
} __packed;
static_assert(sizeof(struct kiw_atomic_resp_wire) == 12, "Atomic Response header");

/* Bytes of a whole header, from the start of the ULPDU */

#define KIW_TAGGED_LEN 14
#define KIW_UNTAGGED_LEN 18
#define KIW_IMM_LEN (KIW_UNTAGGED_LEN + KIW_IMM_SIZE)
#define KIW_RREQ_LEN 46
#define KIW_ATOMIC_RESP_LEN 30
#define KIW_ATOMIC_REQ_LEN 70
#define KIW_TERM_MIN_LEN 22
#define KIW_TERM_MAX_LEN 70
#define KIW_HDR_MAX 70

#ifdef __cplusplus
}
#endif

#endif
