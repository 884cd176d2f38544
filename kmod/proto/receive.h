/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The receive machine: takes a stream of FPDUs apart (RFC 5044 sections 4 and 6), hands the parts
 * of each segment on, and can stop at any byte. Bytes come from a source and segments go to a sink.
 * Both are bound when the program is linked: it defines the functions kiw_source_*() and
 * kiw_sink_*() that are declared here, once.
 */
#ifndef KIW_PROTO_RECEIVE_H
#define KIW_PROTO_RECEIVE_H

#include "ddp.h"
#include "fpdu.h"
#include "os.h"
#include "verdict.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kiw_receive_stage {
	KIW_RECEIVE_LENGTH, /* the two octets of ULPDU_Length */
	KIW_RECEIVE_HEADER, /* DDP and RDMAP headers */
	KIW_RECEIVE_PAYLOAD,
	KIW_RECEIVE_TRAILER, /* PAD and CRC */
};

/**
 * struct kiw_receive - where the receiver of one stream stands
 * @stage: what comes next
 * @use_crc: CRCs are in use; nothing of an FPDU is acted upon before its CRC was found good
 * @use_markers: the peer sends markers
 * @caps: KIW_CAP_* of the stream
 * @stopped: set by anybody at any time: no more is handed on
 * @held: after %KIW_MORE, the sink can't take the segment yet: the next step offers it again. The
 *	sink sets it when it begins a segment
 * @between: the machine stands behind one FPDU and before any byte of the next
 * @err: after %KIW_BAD, what is wrong
 * @want: after %KIW_MORE, a step with fewer bytes in the source than this changes nothing
 * @have: bytes in @hdr
 * @need: bytes of @hdr that the stage wants
 * @left: bytes of payload, or of the trailer, that are still to come
 * @origin: position of the stream's first byte, from which markers are counted
 * @start: that of the FPDU under way, or of the next one
 * @mk: where its next marker is
 * @mark: the marker under way
 * @mark_have: bytes in @mark
 * @astray: a marker pointed elsewhere
 * @crc: over the markers so far
 * @hdr: ULPDU_Length and headers as received
 * @seg: the parsed segment
 * @seq: for the sink: what is due on each untagged queue
 * @resp_off: for the sink: bytes of the Read Response under way that have been placed
 */
struct kiw_receive {
	enum kiw_receive_stage stage;
	bool use_crc;
	bool use_markers;
	bool stopped;
	bool held;
	bool between;
	u32 caps;
	enum kiw_err err;
	u32 want;
	u32 have;
	u32 need;
	u32 left;
	u32 origin;
	u32 start;
	struct kiw_marker mk;
	u8 mark[KIW_MARKER_SIZE];
	u8 mark_have;
	bool astray;
	u32 crc;
	u8 hdr[KIW_FPDU_LEN_SIZE + KIW_HDR_MAX];
	struct kiw_seg seg;
	struct kiw_seq seq[KIW_QN_COUNT];
	u32 resp_off;
};

/**
 * struct kiw_source - what there is of the stream; the base of what the program calls a source
 * @seq: position of the next byte
 * @end: that of the first byte behind those that are there; both are modulo 2^32
 */
struct kiw_source {
	u32 seq;
	u32 end;
};

/** kiw_source_left() - bytes that are there */
static inline u32 kiw_source_left(const struct kiw_source *src)
{
	return src->end - src->seq;
}

/**
 * kiw_source_copy() - copy bytes and step over them
 * @src: source
 * @to: target
 * @n: bytes wanted
 *
 * Return: bytes copied; less than @n only if fewer are there.
 */
u32 kiw_source_copy(struct kiw_source *src, void *to, u32 n);

/** kiw_source_drop() - step over @n bytes, all of which are there */
void kiw_source_drop(struct kiw_source *src, u32 n);

/** kiw_source_crc() - add @n bytes, all of which are there, to a running CRC and step over them */
u32 kiw_source_crc(struct kiw_source *src, u32 crc, u32 n);

/**
 * kiw_source_fork() - a second source that begins where the first one stands
 * @src: source; stays where it is
 *
 * There is one at a time. The machine reads it to judge a CRC, then calls kiw_source_close().
 *
 * Return: the second source.
 */
struct kiw_source *kiw_source_fork(struct kiw_source *src);

/** kiw_source_close() - the machine is through with what kiw_source_fork() returned */
void kiw_source_close(struct kiw_source *src);

/**
 * kiw_sink_begin() - judge a segment before any of it is placed
 * @rx: machine with @rx->seg parsed
 *
 * All checks of RFC 5041 section 7.1 and RFC 5040 section 7 that need state. May
 * set @rx->stopped; or @rx->held, and is called again then.
 *
 * Return: KIW_OK, or what to tell the peer.
 */
enum kiw_err kiw_sink_begin(struct kiw_receive *rx);

/**
 * kiw_sink_place() - place payload of the judged segment
 * @rx: machine
 * @src: where the payload is; the sink has to step over it
 * @done: bytes of the segment's payload that were placed before
 * @n: bytes to place now, all of which are there, at least 1
 *
 * The last KIW_TAIL_MAX bytes of a payload come in one call, unless a marker lies among them.
 *
 * Return: KIW_OK, or what to tell the peer.
 */
enum kiw_err kiw_sink_place(struct kiw_receive *rx, struct kiw_source *src, u32 done, u32 n);

/**
 * kiw_sink_end() - the segment is complete and good
 * @rx: machine
 *
 * Return: KIW_OK, or what to tell the peer.
 */
enum kiw_err kiw_sink_end(struct kiw_receive *rx);

/**
 * kiw_receive_init() - begin a stream
 * @rx: machine, zeroed
 * @seq: position of the first octet behind the start-up frames (RFC 5044 section 7.1)
 * @crc: CRCs were agreed on
 * @markers: the peer sends markers
 * @caps: KIW_CAP_* that were agreed on
 */
void kiw_receive_init(struct kiw_receive *rx, u32 seq, bool crc, bool markers, u32 caps);

/**
 * kiw_receive_step() - do as much of one FPDU as is there
 * @rx: machine that isn't stopped
 * @src: source that stands where the step before left it
 *
 * With CRCs in use the machine waits until a whole FPDU is there and walks it twice: once for the
 * CRC, once to place it, so that nothing unverified reaches memory or chooses an address (RFC 5044
 * section 6). Without, it hands on what is there.
 *
 * Return: %KIW_DONE when the FPDU was accepted, %KIW_MORE with @rx->want or with @rx->stopped,
 * %KIW_BAD with @rx->err.
 */
enum kiw_step kiw_receive_step(struct kiw_receive *rx, struct kiw_source *src);

/** kiw_receive_waits() - a segment waits for the sink, and nothing behind it can be looked at */
static inline bool kiw_receive_waits(const struct kiw_receive *rx)
{
	return rx->held && !rx->stopped;
}

/** kiw_receive_ulpdu() - the octets of the ULPDU that have been gathered: its headers, at most */
static inline const u8 *kiw_receive_ulpdu(const struct kiw_receive *rx)
{
	return rx->hdr + KIW_FPDU_LEN_SIZE;
}

/** kiw_receive_ulpdu_have() - how many these are */
static inline u32 kiw_receive_ulpdu_have(const struct kiw_receive *rx)
{
	return rx->have - min_t(u32, rx->have, KIW_FPDU_LEN_SIZE);
}

/** kiw_receive_ulpdu_len() - ULPDU_Length of the FPDU under way, 0 before it is there */
static inline u32 kiw_receive_ulpdu_len(const struct kiw_receive *rx)
{
	return rx->have < KIW_FPDU_LEN_SIZE ? 0 : get_unaligned_be16(rx->hdr);
}

#ifdef __cplusplus
}
#endif

#endif
