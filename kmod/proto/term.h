/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The Terminate message (RFC 5040 section 4.8). */
#ifndef KIW_PROTO_TERM_H
#define KIW_PROTO_TERM_H

#include "ddp.h"
#include "os.h"
#include "verdict.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * kiw_term_build() - write a Terminate
 * @p: KIW_TERM_MAX_LEN bytes
 * @err: error, not %KIW_OK
 * @ulpdu: first bytes of the offending segment, or NULL
 * @have: bytes at @ulpdu
 * @ulpdu_len: its ULPDU_Length, 0..65535
 *
 * The error decides on the returned headers; incomplete ones are left out. Pass a partly answered
 * Read Request through kiw_rreq_advance() first. @p and @ulpdu must not overlap.
 *
 * Return: ULPDU length, KIW_TERM_MIN_LEN..KIW_TERM_MAX_LEN.
 */
u32 kiw_term_build(void *p, enum kiw_err err, const u8 *ulpdu, u32 have, u32 ulpdu_len);

/** kiw_term_possible() - false for MPA errors that leave no stream (RFC 5044 section 8) */
bool kiw_term_possible(enum kiw_err err);

/*
 * A received Terminate.
 * @err: as enum kiw_err; MPA errors with error type 3 become type 0. May have no name; 0 for 0/0/00
 * @has_seg: @tagged to @mo describe the offending segment
 * @op: any 4-bit value
 * @seg_len: its reported length; some peers count the payload only
 * @stag, @to: if tagged
 * @qn, @msn, @mo: if untagged
 * @rreq: with @has_rreq, the offending Read Request
 */
struct kiw_term_info {
	struct kiw_term raw;
	u16 err;
	bool has_seg;
	bool has_rreq;
	bool tagged;
	u8 op;
	u16 seg_len;
	u32 stag;
	u64 to;
	u32 qn;
	u32 msn;
	u32 mo;
	struct kiw_rreq rreq;
};

/**
 * kiw_term_parse() - parse a received Terminate
 * @ulpdu: ULPDU, or its first KIW_TERM_MAX_LEN bytes
 * @len: bytes at @ulpdu
 * @info: output, cleared first
 *
 * Ignores announced parts that are missing, and bytes behind the last part.
 *
 * Return: false if it is too short, or has a wrong queue number, sequence number or offset. The
 * stream ends even then.
 */
bool kiw_term_parse(const u8 *ulpdu, u32 len, struct kiw_term_info *info);

#ifdef __cplusplus
}
#endif

#endif
