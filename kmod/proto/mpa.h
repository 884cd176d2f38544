/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * MPA start-up: Request and Reply frames and what two sides agree on with them
 * (RFC 5044 section 7.1, RFC 6581).
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

/* IRD or ORD that is not for MPA to negotiate, RFC 6581 section 9.1 */
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
 * enum kiw_mpa_bad - why a start-up frame is malformed
 * @KIW_MPA_BAD_NONE: it is not
 * @KIW_MPA_BAD_KEY: first 16 octets are not the key that is due
 * @KIW_MPA_BAD_REV: neither revision 1 nor 2
 * @KIW_MPA_BAD_PD_LEN: more than 512 octets of private data announced
 * @KIW_MPA_BAD_V2: enhanced, but no room for the v2 word
 */
enum kiw_mpa_bad {
	KIW_MPA_BAD_NONE,
	KIW_MPA_BAD_KEY,
	KIW_MPA_BAD_REV,
	KIW_MPA_BAD_PD_LEN,
	KIW_MPA_BAD_V2,
};

/**
 * struct kiw_mpa_frame - contents of a Request or Reply
 * @kind: which of both
 * @rev: revision, 1 or 2
 * @reject: Reply only, connection refused
 * @crc: CRC wanted
 * @markers: sender of the frame wants to receive markers
 * @large: sender of the frame takes FPDUs beyond one TCP segment (private)
 * @ext: sender of the frame takes Immediate Data and atomics (private)
 * @enhanced: the v2 word is present, the next four fields are valid
 * @p2p: peer-to-peer model, an RTR message opens the stream
 * @rtr: KIW_RTR_*, 0 unless @p2p
 * @ird: as the sender of the frame sees it, 0..0x3fff
 * @ord: likewise
 * @pd: ULP's private data; after parsing it points into the parsed buffer
 * @pd_len: its octets, the v2 word not counted
 * @need: after %KIW_MORE, octets the parser wants to see from the start
 * @len: after %KIW_DONE, octets of the whole frame; anything behind is not
 *	part of it
 * @bad: after %KIW_BAD, why
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
 * kiw_mpa_parse() - read a start-up frame
 * @buf: octets from the start of the stream
 * @have: how many are there
 * @kind: which frame is due
 * @f: output, complete only after %KIW_DONE
 *
 * Anything malformed is noticed as soon as the octets that show it arrived.
 * Reserved bits and R in a Request are ignored. Never answer a malformed
 * Request, close the stream (RFC 5044 section 7.1.2).
 *
 * Return: %KIW_DONE, %KIW_MORE with @f->need, %KIW_BAD with @f->bad.
 */
enum kiw_step kiw_mpa_parse(const u8 *buf, size_t have, enum kiw_mpa_kind kind,
			    struct kiw_mpa_frame *f);

/**
 * kiw_mpa_pd_max() - private data a frame has room for
 * @f: frame, @enhanced set or not
 *
 * Return: 512, or 508 beside the v2 word.
 */
static inline u16 kiw_mpa_pd_max(const struct kiw_mpa_frame *f)
{
	return f->enhanced ? KIW_MPA_PD_MAX - sizeof(struct kiw_mpa_v2) : KIW_MPA_PD_MAX;
}

/**
 * kiw_mpa_build() - write a start-up frame
 * @p: up to KIW_MPA_FRAME_MAX octets
 * @f: contents; @pd_len at most kiw_mpa_pd_max(), @pd may be NULL if it is 0
 *
 * Return: octets written.
 */
u32 kiw_mpa_build(void *p, const struct kiw_mpa_frame *f);

/**
 * struct kiw_mpa_cfg - what this side wants of a connection
 * @rev: highest revision to speak, 1 or 2. An initiator asks with exactly this
 *	one, and 2 always means enhanced.
 * @crc: want CRC; RFC default is true
 * @markers: want to receive markers
 * @p2p: initiator only, ask for the peer-to-peer model; takes @rev 2
 * @large: take FPDUs beyond one TCP segment, and send them if the peer does
 * @ext: take Immediate Data and atomics, and send them if the peer does
 * @rtr: KIW_RTR_* this side is able to use, not 0 if @p2p or responder
 * @ird: incoming Reads and Atomics to hold, 0..KIW_DEPTH_MAX
 * @ord: outgoing ones to have under way, 0..KIW_DEPTH_MAX
 * @ird_max: responder only, how far @ird may be raised to satisfy the peer
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

/**
 * struct kiw_mpa_result - what was agreed
 * @rev: revision of the Reply
 * @enhanced: IRD and ORD were exchanged
 * @crc: generate and check CRC
 * @markers_tx: insert markers
 * @markers_rx: expect markers
 * @large: FPDUs may exceed one TCP segment, both directions
 * @ext: Immediate Data and atomics may be sent, both directions
 * @p2p: an RTR message opens the stream
 * @rtr: initiator: the one to send; responder: the ones that may come
 * @ird: own final value
 * @ord: own final value
 * @peer_ird: as the peer stated it, KIW_DEPTH_UNSET if it did not
 * @peer_ord: likewise
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
 * kiw_mpa_request() - compose the Request of an initiator
 * @local: what this side wants
 * @req: output without private data, for the caller to add
 *
 * ORD is stated as at least 1 if a Read may serve as RTR.
 */
void kiw_mpa_request(const struct kiw_mpa_cfg *local, struct kiw_mpa_frame *req);

/**
 * kiw_mpa_answer() - responder: compose the Reply and settle the terms
 * @local: what this side wants
 * @req: Request as parsed
 * @rep: output without private data, for the caller to add. For a rejection
 *	set @rep->reject.
 * @res: output, valid for an accepted connection
 *
 * Never states more ORD than the peer has IRD; raises IRD to the peer's ORD as
 * far as @local->ird_max allows, and to 1 if a Read may serve as RTR. RFC 6581
 * sections 9 and 10.
 *
 * Return: %KIW_OK; %KIW_ERR_LLP_IRD if the peer's ORD exceeds what this side
 * can hold: rejecting with @rep tells the peer the limit, accepting makes it
 * lower its ORD; %KIW_ERR_LLP_FRAME if the revision is beyond @local->rev:
 * close without answer.
 */
enum kiw_err kiw_mpa_answer(const struct kiw_mpa_cfg *local, const struct kiw_mpa_frame *req,
			    struct kiw_mpa_frame *rep, struct kiw_mpa_result *res);

/**
 * kiw_mpa_conclude() - initiator: settle the terms
 * @local: as given to kiw_mpa_request()
 * @req: Request as sent
 * @rep: Reply as parsed, not a rejection
 * @res: output; filled as far as possible also with an error, so that a
 *	Terminate can be framed
 *
 * Return: %KIW_OK; %KIW_ERR_LLP_IRD or %KIW_ERR_LLP_RTR to be sent as
 * Terminate (RFC 6581 sections 9.1 and 9.2); %KIW_ERR_LLP_FRAME if the Reply
 * does not fit the Request: close.
 */
enum kiw_err kiw_mpa_conclude(const struct kiw_mpa_cfg *local, const struct kiw_mpa_frame *req,
			      const struct kiw_mpa_frame *rep, struct kiw_mpa_result *res);

#ifdef __cplusplus
}
#endif

#endif
