/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The Terminate message, RFC 5040 section 4.8. */
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
 * kiw_term_build() - write a whole Terminate ULPDU
 * @p: KIW_TERM_MAX_LEN octets
 * @err: what to report, not %KIW_OK
 * @ulpdu: first octets of the offending segment, or NULL
 * @have: how many of them are there
 * @ulpdu_len: ULPDU_Length of the offending segment, 0..65535
 *
 * Which headers travel back depends on the error; those not wholly present in
 * @ulpdu are left out. A Read Request that was partly answered must be handed in
 * advanced, see kiw_rreq_advance(). @p and @ulpdu must not overlap.
 *
 * Return: ULPDU length, KIW_TERM_MIN_LEN..KIW_TERM_MAX_LEN.
 */
u32 kiw_term_build(void *p, enum kiw_err err, const u8 *ulpdu, u32 have, u32 ulpdu_len);

/**
 * kiw_term_possible() - can the peer still be told
 * @err: error
 *
 * Return: false for the MPA errors that leave nothing to send on (RFC 5044
 * section 8).
 */
bool kiw_term_possible(enum kiw_err err);

/**
 * struct kiw_term_info - a received Terminate
 * @raw: error as received
 * @err: same, packed as in enum kiw_err; MPA errors sent with error type 3 are
 *	turned into type 0. May be a value without a name, and 0 for 0/0/00.
 * @has_seg: the fields below are valid
 * @has_rreq: @rreq is valid
 * @tagged: offending segment was tagged
 * @op: its opcode, any 4-bit value
 * @seg_len: its length as reported; some peers count the payload only
 * @stag: tagged only
 * @to: tagged only
 * @qn: untagged only
 * @msn: untagged only
 * @mo: untagged only
 * @rreq: offending Read Request
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
 * kiw_term_parse() - read a received Terminate
 * @ulpdu: whole ULPDU, or its first KIW_TERM_MAX_LEN octets
 * @len: octets at @ulpdu
 * @info: output, cleared first
 *
 * Optional parts the message announces without containing them are ignored, as
 * are octets behind the last part.
 *
 * Return: false if nothing can be learned from it: it is too short, or its
 * queue number, sequence number or offset is not that of a Terminate. The
 * stream is over all the same.
 */
bool kiw_term_parse(const u8 *ulpdu, u32 len, struct kiw_term_info *info);

#ifdef __cplusplus
}
#endif

#endif
