/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * MPA start-up: Request, Reply and the resulting terms (RFC 5044 section 7.1, RFC 6581).
 *
 *	initiator				responder
 *	kiw_mpa_request()
 *	kiw_mpa_build()		-- Request -->	kiw_mpa_parse()
 *						kiw_mpa_answer()
 *	kiw_mpa_parse()		<-- Reply --	kiw_mpa_build()
 *	kiw_mpa_conclude()
 */
#ifndef KIW_PROTO_MPA_H
#define KIW_PROTO_MPA_H

#include "os.h"
#include "verdict.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* IRD or ORD not negotiated by MPA (RFC 6581 section 9.1) */
#define KIW_DEPTH_UNSET 0x3fff
#define KIW_DEPTH_MAX 0x3ffe

/* Ready-to-receive messages, a mask */
#define KIW_RTR_SEND 0x1
#define KIW_RTR_WRITE 0x2
#define KIW_RTR_READ 0x4

enum kiw_mpa_kind {
	KIW_MPA_REQUEST,
	KIW_MPA_REPLY,
};

/**
 * enum kiw_mpa_bad - fault of a start-up frame
 * @KIW_MPA_BAD_NONE: none
 * @KIW_MPA_BAD_KEY: wrong key in the first 16 bytes
 * @KIW_MPA_BAD_REV: neither revision 1 nor 2
 * @KIW_MPA_BAD_PD_LEN: more than 512 bytes of private data announced
 * @KIW_MPA_BAD_V2: enhanced, without room for the v2 word
 */
enum kiw_mpa_bad {
	KIW_MPA_BAD_NONE,
	KIW_MPA_BAD_KEY,
	KIW_MPA_BAD_REV,
	KIW_MPA_BAD_PD_LEN,
	KIW_MPA_BAD_V2,
};

/*
 * Contents of a Request or Reply; flags are the sender's.
 * @reject: Reply: connection refused
 * @markers: wants to receive markers
 * @large: accepts FPDUs beyond one TCP segment (private)
 * @ext: accepts Immediate Data and atomics (private)
 * @enhanced: the v2 word is present: @p2p to @ord are valid
 * @p2p: peer-to-peer model: an RTR message opens the stream
 * @rtr: KIW_RTR_*, 0 unless @p2p
 * @ird, @ord: 0..0x3fff
 * @pd: ULP's private data; after parsing it points into the parsed buffer
 * @pd_len: its bytes, without the v2 word
 * @need: with %KIW_MORE, bytes needed from the start
 * @len: with %KIW_DONE, bytes of the frame
 * @bad: with %KIW_BAD, the fault
 */
struct kiw_mpa_frame {
	enum kiw_mpa_kind kind;
	u8 rev;
	bool reject;
	bool crc;
	bool markers;
	bool large;
	bool ext;
	bool enhanced;
	bool p2p;
	u8 rtr;
	u16 ird;
	u16 ord;
	const u8 *pd;
	u16 pd_len;
	u16 need;
	u16 len;
	enum kiw_mpa_bad bad;
};

/**
 * kiw_mpa_parse() - parse a start-up frame
 * @buf: first bytes of the stream
 * @have: bytes at @buf
 * @kind: due frame
 * @f: output, complete with %KIW_DONE only
 *
 * Reports a fault with the first bytes that show it. Ignores reserved bits, and R in a Request.
 * Close the stream after a malformed Request, without an answer (RFC 5044 section 7.1.2).
 *
 * Return: %KIW_DONE, %KIW_MORE with @f->need, %KIW_BAD with @f->bad.
 */
enum kiw_step kiw_mpa_parse(const u8 *buf, size_t have, enum kiw_mpa_kind kind,
			    struct kiw_mpa_frame *f);

/** kiw_mpa_pd_max() - most bytes of private data: 512, or 508 beside the v2 word */
static inline u16 kiw_mpa_pd_max(const struct kiw_mpa_frame *f)
{
	return f->enhanced ? KIW_MPA_PD_MAX - sizeof(struct kiw_mpa_v2) : KIW_MPA_PD_MAX;
}

/**
 * kiw_mpa_build() - write a start-up frame
 * @p: up to KIW_MPA_FRAME_MAX bytes
 * @f: contents; @pd_len at most kiw_mpa_pd_max(), @pd may be NULL if it is 0
 *
 * Return: bytes written.
 */
u32 kiw_mpa_build(void *p, const struct kiw_mpa_frame *f);

/**
 * struct kiw_mpa_cfg - terms that this side wants
 * @rev: highest revision, 1 or 2. An initiator uses exactly this one; 2 means enhanced
 * @crc: use CRCs; RFC's default is true
 * @markers: receive markers
 * @p2p: initiator: peer-to-peer model; needs @rev 2
 * @large: accept FPDUs beyond one TCP segment, and send them if the peer accepts them
 * @ext: accept Immediate Data and atomics, and send them if the peer accepts them
 * @rtr: usable KIW_RTR_*, not 0 if @p2p or responder
 * @ird: inbound depth, 0..KIW_DEPTH_MAX
 * @ord: outbound depth, 0..KIW_DEPTH_MAX
 * @ird_max: responder: limit for raising @ird to the peer's ORD
 */
struct kiw_mpa_cfg {
	u8 rev;
	bool crc;
	bool markers;
	bool p2p;
	bool large;
	bool ext;
	u8 rtr;
	u16 ird;
	u16 ord;
	u16 ird_max;
};

/*
 * Agreed terms.
 * @enhanced: IRD and ORD were exchanged
 * @large: FPDUs may exceed one TCP segment, both directions
 * @ext: Immediate Data and atomics are allowed, both directions
 * @p2p: an RTR message opens the stream
 * @rtr: initiator: the one to send; responder: those that may come
 * @peer_ird, @peer_ord: as stated, or KIW_DEPTH_UNSET
 */
struct kiw_mpa_result {
	u8 rev;
	bool enhanced;
	bool crc;
	bool markers_tx;
	bool markers_rx;
	bool large;
	bool ext;
	bool p2p;
	u8 rtr;
	u16 ird;
	u16 ord;
	u16 peer_ird;
	u16 peer_ord;
};

/**
 * kiw_mpa_request() - initiator: compose the Request
 * @local: wanted terms
 * @req: output; the caller adds private data
 *
 * States an ORD of at least 1 if a Read may serve as RTR.
 */
void kiw_mpa_request(const struct kiw_mpa_cfg *local, struct kiw_mpa_frame *req);

/**
 * kiw_mpa_answer() - responder: compose the Reply and settle the terms
 * @local: wanted terms
 * @req: parsed Request
 * @rep: output; the caller adds private data, and sets @rep->reject to refuse
 * @res: output, valid for an accepted connection
 *
 * States at most the peer's IRD as ORD. Raises IRD to the peer's ORD, up to @local->ird_max, and to
 * 1 if a Read may serve as RTR (RFC 6581 sections 9 and 10).
 *
 * Return: %KIW_OK; %KIW_ERR_LLP_IRD if the peer's ORD is too high: rejecting with @rep tells the
 * peer the limit, accepting makes it lower its ORD; %KIW_ERR_LLP_FRAME if the revision exceeds
 * @local->rev: close without answer.
 */
enum kiw_err kiw_mpa_answer(const struct kiw_mpa_cfg *local, const struct kiw_mpa_frame *req,
			    struct kiw_mpa_frame *rep, struct kiw_mpa_result *res);

/**
 * kiw_mpa_conclude() - initiator: settle the terms
 * @local: as given to kiw_mpa_request()
 * @req: sent Request
 * @rep: parsed Reply, not a rejection
 * @res: output; on an error filled as far as possible, to frame a Terminate
 *
 * Return: %KIW_OK; %KIW_ERR_LLP_IRD or %KIW_ERR_LLP_RTR to send as Terminate (RFC 6581 sections 9.1
 * and 9.2); %KIW_ERR_LLP_FRAME if the Reply does not fit the Request: close.
 */
enum kiw_err kiw_mpa_conclude(const struct kiw_mpa_cfg *local, const struct kiw_mpa_frame *req,
			      const struct kiw_mpa_frame *rep, struct kiw_mpa_result *res);

#ifdef __cplusplus
}
#endif

#endif
