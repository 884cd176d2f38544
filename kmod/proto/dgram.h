/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagram-iWARP: one Send, or one segment of a Write-Record, in one UDP
 * datagram. No standard has it; Documentation/datagram.md does. A datagram is
 * one of the three headers below, payload, and a CRC-32C of all before it, as in
 * an FPDU.
 */
#ifndef KIW_PROTO_DGRAM_H
#define KIW_PROTO_DGRAM_H

#include "ddp.h"
#include "os.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First octet: one that no protocol of RFC 9443 section 3 begins with */
#define KIW_DGRAM_MARK 0x0d
/* Second octet: version in the upper half, the lower one is 0 */
#define KIW_DGRAM_VERSION 0x10

/* The reserved field of DDP, which RDMAP has an STag in, is the Q_Key. */
struct kiw_dgram_hdr {
	u8 mark;
	u8 version;
	struct kiw_untagged_hdr ddp;
} __packed;

/*
 * A Send with immediate data: the opcodes of Immediate Data (RFC 7306), with
 * what those carry, and the payload behind it
 */
struct kiw_dgram_imm_hdr {
	struct kiw_dgram_hdr hdr;
	__be32 imm;
	__be32 reserved;
} __packed;

/*
 * Write-Record: a tagged header, and what a target needs to know that gets the
 * segments in any order, and not all of them
 */
struct kiw_dgram_write_hdr {
	u8 mark;
	u8 version;
	struct kiw_tagged_hdr ddp;
	__be32 qkey;
	__be32 id;
	__be32 length;
	__be32 offset;
	__be32 seg_size;
} __packed;

#define KIW_DGRAM_HDR_LEN 20
#define KIW_DGRAM_IMM_LEN (KIW_DGRAM_HDR_LEN + KIW_IMM_SIZE)
#define KIW_DGRAM_WRITE_LEN 36
#define KIW_DGRAM_HDR_MAX KIW_DGRAM_WRITE_LEN
#define KIW_DGRAM_CRC_SIZE 4
#define KIW_DGRAM_MIN (KIW_DGRAM_HDR_LEN + KIW_DGRAM_CRC_SIZE)
/* What IPv4 leaves of 65535 octets behind its header and UDP's */
#define KIW_DGRAM_MAX 65507
/* Payload of the longest message, octets */
#define KIW_DGRAM_MAX_MSG (KIW_DGRAM_MAX - KIW_DGRAM_MIN)
/* The same of a message with immediate data */
#define KIW_DGRAM_MAX_IMM_MSG (KIW_DGRAM_MAX_MSG - KIW_IMM_SIZE)
/* Payload of the longest segment of a Write-Record, octets */
#define KIW_DGRAM_MAX_SEG (KIW_DGRAM_MAX - KIW_DGRAM_WRITE_LEN - KIW_DGRAM_CRC_SIZE)
/* Segments of a Write-Record at most */
#define KIW_DGRAM_MAX_SEGS 1024

static_assert(sizeof(struct kiw_dgram_hdr) == KIW_DGRAM_HDR_LEN, "datagram header");
static_assert(sizeof(struct kiw_dgram_imm_hdr) == KIW_DGRAM_IMM_LEN, "header with immediate data");
static_assert(sizeof(struct kiw_dgram_write_hdr) == KIW_DGRAM_WRITE_LEN, "Write-Record header");

/**
 * enum kiw_dgram_verdict - what a datagram is, as far as its header tells
 * @KIW_DGRAM_OK: a message or segment of this version
 * @KIW_DGRAM_MALFORMED: not of this protocol, or with headers that it hasn't
 * @KIW_DGRAM_OTHER_VERSION: of another version; nothing else was looked at
 */
enum kiw_dgram_verdict {
	KIW_DGRAM_OK = 0,
	KIW_DGRAM_MALFORMED,
	KIW_DGRAM_OTHER_VERSION,
};

/**
 * struct kiw_dgram_write - a Write-Record, which all of its segments tell alike
 * @stag: buffer at the target, not yet judged
 * @to: tagged offset of the message's first octet, not yet judged
 * @id: which message of its sender
 * @length: octets of the message; at most KIW_DGRAM_MAX_SEGS times @seg_size
 * @seg_size: octets of each segment but the last, 1..KIW_DGRAM_MAX_SEG
 */
struct kiw_dgram_write {
	u32 stag;
	u64 to;
	u32 id;
	u32 length;
	u32 seg_size;
};

/**
 * struct kiw_dgram - a parsed header
 * @is_write: a segment of a Write-Record, else a Send
 * @solicited: the receiver is to be woken also where it waits for such messages only
 * @has_imm: of a Send: it carries immediate data
 * @hdr_len: octets in front of the payload
 * @qkey: Q_Key of the sender, not yet judged
 * @msn: of a Send: number of the message among those of its sender; nothing follows from it
 * @imm: with @has_imm, as the sender gave them
 * @payload_len: octets of the payload, 0..KIW_DGRAM_MAX_MSG
 * @write: of a segment: its message
 * @offset: of a segment: octets of the message in front of it, a multiple of @write.seg_size
 */
struct kiw_dgram {
	bool is_write;
	bool solicited;
	bool has_imm;
	u8 hdr_len;
	u32 qkey;
	u32 msn;
	__be32 imm;
	u32 payload_len;
	struct kiw_dgram_write write;
	u32 offset;
};

/** kiw_dgram_seg_len() - octets of the segment at an offset; there is one */
static inline u32 kiw_dgram_seg_len(const struct kiw_dgram_write *w, u32 offset)
{
	return min_t(u32, w->seg_size, w->length - offset);
}

/** kiw_dgram_segs() - segments of a message, at least one */
static inline u32 kiw_dgram_segs(const struct kiw_dgram_write *w)
{
	return w->length ? (w->length - 1) / w->seg_size + 1 : 1;
}

/**
 * kiw_dgram_parse() - take the header of a datagram apart
 * @p: first octets of what UDP carries: KIW_DGRAM_HDR_MAX, or all if there are fewer
 * @len: how many UDP carries, 0..65535
 * @d: output, valid with %KIW_DGRAM_OK
 *
 * Checks in this order: length, first octet, version, then the DDP header as
 * kiw_seg_parse() does. Sends, with or without Solicited Event and immediate
 * data, are whole in their datagram. Of a Write, length, offset and segment size
 * have to agree with each other, with the payload and with the L bit, so that
 * segments of a message are either the same or apart. The CRC is the caller's;
 * until it was found good, nothing may be done but to drop the datagram.
 *
 * Return: see enum kiw_dgram_verdict.
 */
enum kiw_dgram_verdict kiw_dgram_parse(const u8 *p, u32 len, struct kiw_dgram *d);

/**
 * kiw_dgram_build() - write the header of a datagram
 * @p: KIW_DGRAM_HDR_LEN octets
 * @solicited: see struct kiw_dgram
 * @qkey: Q_Key
 * @msn: number of the message
 *
 * Return: KIW_DGRAM_HDR_LEN.
 */
u32 kiw_dgram_build(void *p, bool solicited, u32 qkey, u32 msn);

/**
 * kiw_dgram_build_imm() - the same for a message with immediate data
 * @p: KIW_DGRAM_IMM_LEN octets
 * @solicited: see struct kiw_dgram
 * @qkey: Q_Key
 * @msn: number of the message
 * @imm: immediate data
 *
 * Return: KIW_DGRAM_IMM_LEN.
 */
u32 kiw_dgram_build_imm(void *p, bool solicited, u32 qkey, u32 msn, __be32 imm);

/**
 * kiw_dgram_build_write() - write the header of a segment of a Write-Record
 * @p: KIW_DGRAM_WRITE_LEN octets
 * @w: the message
 * @offset: octets of it in front of the segment
 * @qkey: Q_Key
 *
 * Return: KIW_DGRAM_WRITE_LEN.
 */
u32 kiw_dgram_build_write(void *p, const struct kiw_dgram_write *w, u32 offset, u32 qkey);

#ifdef __cplusplus
}
#endif

#endif
