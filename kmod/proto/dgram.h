/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagram-iWARP: one RDMAP message in one UDP datagram. No standard has it;
 * Documentation/datagram.md does. A datagram is struct kiw_dgram_hdr, the
 * payload of the message, and a CRC-32C of all before it, as in an FPDU.
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

#define KIW_DGRAM_HDR_LEN 20
#define KIW_DGRAM_CRC_SIZE 4
#define KIW_DGRAM_MIN (KIW_DGRAM_HDR_LEN + KIW_DGRAM_CRC_SIZE)
/* What IPv4 leaves of 65535 octets behind its header and UDP's */
#define KIW_DGRAM_MAX 65507
/* Payload of the longest message, octets */
#define KIW_DGRAM_MAX_MSG (KIW_DGRAM_MAX - KIW_DGRAM_MIN)

static_assert(sizeof(struct kiw_dgram_hdr) == KIW_DGRAM_HDR_LEN, "datagram header");

/**
 * enum kiw_dgram_verdict - what a datagram is, as far as its header tells
 * @KIW_DGRAM_OK: a message of this version
 * @KIW_DGRAM_MALFORMED: not of this protocol, or with headers that it hasn't
 * @KIW_DGRAM_OTHER_VERSION: of another version; nothing else was looked at
 */
enum kiw_dgram_verdict {
	KIW_DGRAM_OK = 0,
	KIW_DGRAM_MALFORMED,
	KIW_DGRAM_OTHER_VERSION,
};

/**
 * struct kiw_dgram - a parsed header
 * @solicited: the receiver is to be woken also where it waits for such messages only
 * @qkey: Q_Key of the sender, not yet judged
 * @msn: number of the message among those of its sender; nothing follows from it
 * @payload_len: octets of the message, 0..KIW_DGRAM_MAX_MSG
 */
struct kiw_dgram {
	bool solicited;
	u32 qkey;
	u32 msn;
	u32 payload_len;
};

/**
 * kiw_dgram_parse() - take the header of a datagram apart
 * @p: first octets of what UDP carries: KIW_DGRAM_HDR_LEN, or all if there are fewer
 * @len: how many UDP carries, 0..65535
 * @d: output, valid with %KIW_DGRAM_OK
 *
 * Checks in this order: length, first octet, version, then the DDP header as
 * kiw_seg_parse() does. Send and Send with Solicited Event are all that there
 * is, whole in their datagram. The CRC is the caller's; until it was found
 * good, nothing may be done but to drop the datagram.
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

#ifdef __cplusplus
}
#endif

#endif
