/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagram-iWARP (Documentation/datagram.md): one Send, or one segment of a Write-Record, per UDP
 * datagram. One of the three headers below, payload, CRC-32C of all before it.
 */
#ifndef KIW_PROTO_DGRAM_H
#define KIW_PROTO_DGRAM_H

#include "ddp.h"
#include "os.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* First byte: no protocol of RFC 9443 section 3 begins with it */
#define KIW_DGRAM_MARK 0x0d
/* Second byte: version in the upper half, 0 in the lower */
#define KIW_DGRAM_VERSION 0x10

/* DDP's field reserved for the ULP, an STag in RDMAP, is the Q_Key. */
struct kiw_dgram_hdr {
	u8 mark;
	u8 version;
	struct kiw_untagged_hdr ddp;
} __packed;

/*
 * A Send with immediate data: opcodes and contents of Immediate Data (RFC 7306), then the payload
 */
struct kiw_dgram_imm_hdr {
	struct kiw_dgram_hdr hdr;
	__be32 imm;
	__be32 reserved;
} __packed;

/*
 * Write-Record: a tagged header, and the fields that let a target place segments in any order and
 * with gaps
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
/* 65535 bytes less the headers of IPv4 and UDP */
#define KIW_DGRAM_MAX 65507
/* Longest payload, bytes */
#define KIW_DGRAM_MAX_MSG (KIW_DGRAM_MAX - KIW_DGRAM_MIN)
/* Longest payload with immediate data, bytes */
#define KIW_DGRAM_MAX_IMM_MSG (KIW_DGRAM_MAX_MSG - KIW_IMM_SIZE)
/* Longest payload of a Write-Record's segment, bytes */
#define KIW_DGRAM_MAX_SEG (KIW_DGRAM_MAX - KIW_DGRAM_WRITE_LEN - KIW_DGRAM_CRC_SIZE)
/* Most segments of a Write-Record */
#define KIW_DGRAM_MAX_SEGS 1024

static_assert(sizeof(struct kiw_dgram_hdr) == KIW_DGRAM_HDR_LEN, "datagram header");
static_assert(sizeof(struct kiw_dgram_imm_hdr) == KIW_DGRAM_IMM_LEN, "header with immediate data");
static_assert(sizeof(struct kiw_dgram_write_hdr) == KIW_DGRAM_WRITE_LEN, "Write-Record header");

/**
 * enum kiw_dgram_verdict - verdict on a datagram's header
 * @KIW_DGRAM_OK: message or segment of this version
 * @KIW_DGRAM_MALFORMED: other protocol, or bad headers
 * @KIW_DGRAM_OTHER_VERSION: other version; nothing else was checked
 */
enum kiw_dgram_verdict {
	KIW_DGRAM_OK = 0,
	KIW_DGRAM_MALFORMED,
	KIW_DGRAM_OTHER_VERSION,
};

/**
 * struct kiw_dgram_write - a Write-Record; the same in each of its segments
 * @stag: buffer at the target, unchecked
 * @to: tagged offset of the message's first byte, unchecked
 * @id: number of the message at its sender
 * @length: bytes of the message; at most KIW_DGRAM_MAX_SEGS times @seg_size
 * @seg_size: bytes of each segment but the last, 1..KIW_DGRAM_MAX_SEG
 */
struct kiw_dgram_write {
	u32 stag;
	u64 to;
	u32 id;
	u32 length;
	u32 seg_size;
};

/*
 * A parsed header.
 * @is_write: segment of a Write-Record, else a Send
 * @hdr_len: bytes before the payload
 * @qkey: unchecked
 * @msn: Send: its number at the sender; informational
 * @imm: with @has_imm, as sent
 * @payload_len: 0..KIW_DGRAM_MAX_MSG bytes
 * @write: segment: its message
 * @offset: segment: bytes of the message before it, a multiple of @write.seg_size
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

/** kiw_dgram_seg_len() - bytes of the segment at @offset, which must exist */
static inline u32 kiw_dgram_seg_len(const struct kiw_dgram_write *w, u32 offset)
{
	return min_t(u32, w->seg_size, w->length - offset);
}

/** kiw_dgram_segs() - segments of a message, at least 1 */
static inline u32 kiw_dgram_segs(const struct kiw_dgram_write *w)
{
	return w->length ? (w->length - 1) / w->seg_size + 1 : 1;
}

/**
 * kiw_dgram_parse() - parse the header of a datagram
 * @p: first bytes of the UDP payload: KIW_DGRAM_HDR_MAX, or all
 * @len: bytes of the UDP payload, 0..65535
 * @d: output, valid with %KIW_DGRAM_OK
 *
 * Checks in this order: length, first byte, version, DDP header as kiw_seg_parse(). A Send is whole
 * in its datagram. Length, offset and segment size of a Write must agree with each other, with the
 * payload and with the L bit, so that segments of a message never overlap. The caller verifies the
 * CRC; until then it may only drop the datagram.
 *
 * Return: enum kiw_dgram_verdict.
 */
enum kiw_dgram_verdict kiw_dgram_parse(const u8 *p, u32 len, struct kiw_dgram *d);

/** kiw_dgram_build() - write the header of a datagram, KIW_DGRAM_HDR_LEN bytes */
u32 kiw_dgram_build(void *p, bool solicited, u32 qkey, u32 msn);

/** kiw_dgram_build_imm() - write a header with immediate data, KIW_DGRAM_IMM_LEN bytes */
u32 kiw_dgram_build_imm(void *p, bool solicited, u32 qkey, u32 msn, __be32 imm);

/** kiw_dgram_build_write() - write a Write-Record's header, KIW_DGRAM_WRITE_LEN bytes */
u32 kiw_dgram_build_write(void *p, const struct kiw_dgram_write *w, u32 offset, u32 qkey);

#ifdef __cplusplus
}
#endif

#endif
