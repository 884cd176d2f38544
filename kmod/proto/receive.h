/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The receive machine: parses a stream of FPDUs (RFC 5044 sections 4 and 6), hands on the parts of
 * each segment, and can stop at any byte. Bytes come from a source, segments go to a sink. The
 * program defines their functions kiw_source_*() and kiw_sink_*(), bound at link time.
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
	KIW_RECEIVE_LENGTH, /* two bytes */
	KIW_RECEIVE_HEADER, /* DDP and RDMAP headers */
	KIW_RECEIVE_PAYLOAD,
	KIW_RECEIVE_TRAILER, /* PAD and CRC */
};

/*
 * Receiver of a stream.
 * @use_crc: act on nothing of an FPDU before its CRC is verified
 * @use_markers: the peer sends markers
 * @caps: KIW_CAP_* of the stream
 * @stopped: hand on nothing more; anybody may set it at any time
 * @held: with %KIW_MORE, the sink cannot take the segment yet, and the next step offers it again;
 *	the sink sets it in kiw_sink_begin()
 * @between: behind one FPDU and before any byte of the next
 * @err: with %KIW_BAD, the error
 * @want: with %KIW_MORE, a step with fewer bytes in the source changes nothing
 * @have: bytes in @hdr
 * @need: bytes of @hdr that the stage needs
 * @left: bytes of payload or trailer still to come
 * @origin: position of the stream's first byte, for markers
 * @start: position of the current FPDU, or of the next
 * @mk: its next marker
 * @mark, @mark_have: marker under way, and its bytes
 * @astray: a marker pointed elsewhere
 * @crc: over the markers so far
 * @hdr: ULPDU_Length and headers as received
 * @seq: for the sink: due segment of each untagged queue
 * @resp_off: for the sink: placed bytes of the current Read Response
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

/*
 * Available bytes of the stream, the base of the program's source.
 * @seq: position of the next byte
 * @end: position behind the last available byte. Both are modulo 2^32.
 */
struct kiw_source {
	u32 seq;
	u32 end;
};

static inline u32 kiw_source_left(const struct kiw_source *src)
{
	return src->end - src->seq;
}

/** kiw_source_copy() - copy up to @n available bytes and step over them. Return: bytes copied */
u32 kiw_source_copy(struct kiw_source *src, void *to, u32 n);

/** kiw_source_drop() - step over @n available bytes */
void kiw_source_drop(struct kiw_source *src, u32 n);

/** kiw_source_crc() - add @n available bytes to a running CRC and step over them */
u32 kiw_source_crc(struct kiw_source *src, u32 crc, u32 n);

/** kiw_source_fork() - a second source, for a CRC, until kiw_source_close(); one at a time */
struct kiw_source *kiw_source_fork(struct kiw_source *src);

/** kiw_source_close() - end kiw_source_fork()'s source */
void kiw_source_close(struct kiw_source *src);

/**
 * kiw_sink_begin() - check a segment before any of it is placed
 * @rx: machine with @rx->seg parsed
 *
 * All checks of RFC 5041 section 7.1 and RFC 5040 section 7 that need state. May set @rx->stopped,
 * or @rx->held to be called again.
 *
 * Return: KIW_OK, or the error for the peer.
 */
enum kiw_err kiw_sink_begin(struct kiw_receive *rx);

/**
 * kiw_sink_place() - place payload of the checked segment
 * @rx: machine
 * @src: source; the sink steps over the payload
 * @done: bytes placed before
 * @n: bytes to place, all available, at least 1
 *
 * The last KIW_TAIL_MAX bytes come in one call, unless a marker separates them.
 *
 * Return: KIW_OK, or the error for the peer.
 */
enum kiw_err kiw_sink_place(struct kiw_receive *rx, struct kiw_source *src, u32 done, u32 n);

/** kiw_sink_end() - the segment is complete and good. Return: KIW_OK, or the error for the peer */
enum kiw_err kiw_sink_end(struct kiw_receive *rx);

/**
 * kiw_receive_init() - begin a stream
 * @rx: machine, zeroed
 * @seq: position of the first byte after the start-up frames (RFC 5044 section 7.1)
 * @crc: use CRCs
 * @markers: the peer sends markers
 * @caps: agreed KIW_CAP_*
 */
void kiw_receive_init(struct kiw_receive *rx, u32 seq, bool crc, bool markers, u32 caps);

/**
 * kiw_receive_step() - process the available part of one FPDU
 * @rx: machine, not stopped
 * @src: source, where the previous step left it
 *
 * With CRCs the machine waits for a whole FPDU and walks it twice, first for the CRC: nothing
 * unverified reaches memory or chooses an address (RFC 5044 section 6). Without, it hands on
 * available bytes.
 *
 * Return: %KIW_DONE: FPDU accepted; %KIW_MORE with @rx->want or @rx->stopped; %KIW_BAD with
 * @rx->err.
 */
enum kiw_step kiw_receive_step(struct kiw_receive *rx, struct kiw_source *src);

/** kiw_receive_waits() - a segment waits for the sink, and blocks all behind it */
static inline bool kiw_receive_waits(const struct kiw_receive *rx)
{
	return rx->held && !rx->stopped;
}

/** kiw_receive_ulpdu() - gathered bytes of the ULPDU: at most its headers */
static inline const u8 *kiw_receive_ulpdu(const struct kiw_receive *rx)
{
	return rx->hdr + KIW_FPDU_LEN_SIZE;
}

/** kiw_receive_ulpdu_have() - their number */
static inline u32 kiw_receive_ulpdu_have(const struct kiw_receive *rx)
{
	return rx->have - min_t(u32, rx->have, KIW_FPDU_LEN_SIZE);
}

/** kiw_receive_ulpdu_len() - ULPDU_Length of the current FPDU, 0 if unknown */
static inline u32 kiw_receive_ulpdu_len(const struct kiw_receive *rx)
{
	return rx->have < KIW_FPDU_LEN_SIZE ? 0 : get_unaligned_be16(rx->hdr);
}

#ifdef __cplusplus
}
#endif

#endif
