/* SPDX-License-Identifier: GPL-2.0 */
/* Receive: from the socket's queue to FPDUs to segments, verified and then placed. */
#ifndef KIWARP_RX_H
#define KIWARP_RX_H

#include "kiwarp-abi.h"
#include "proto/ddp.h"
#include "proto/fpdu.h"

#include "types.h"

struct kiw_stream;

enum kiw_rx_stage {
	KIW_RX_LENGTH,		/* the two octets of ULPDU_Length */
	KIW_RX_HEADER,		/* DDP and RDMAP headers */
	KIW_RX_PAYLOAD,
	KIW_RX_TRAILER,		/* PAD and CRC */
};

/**
 * struct kiw_rx - where the receive side stands; socket lock
 * @stage: what comes next
 * @stopped: an error was found or the QP is gone: drop what arrives
 * @first: no FPDU has been delivered yet
 * @between: the pump stopped behind one FPDU and before any octet of the next
 * @have: octets in @hdr
 * @need: octets of @hdr that the stage wants
 * @left: octets of payload, or of the trailer, that are still to come
 * @fpdus: completed since the pump began
 * @taken: octets that the pump is through with, but TCP hasn't been told of
 * @origin: TCP sequence number of the stream's first octet, from which markers are counted
 * @start: that of the FPDU under way, or of the next one
 * @mk: where its next marker is
 * @mark: the marker under way
 * @mark_have: octets in @mark
 * @astray: a marker pointed elsewhere
 * @crc: over the markers so far
 * @hdr: ULPDU_Length and headers as received
 * @seg: the parsed segment
 * @seq: what is due on each untagged queue
 * @resp_off: octets of the Read Response under way that have been placed
 */
struct kiw_rx {
	enum kiw_rx_stage	stage;
	bool			stopped;
	bool			first;
	bool			between;
	u32			have;
	u32			need;
	u32			left;
	u32			fpdus;
	u32			taken;
	u32			origin;
	u32			start;
	struct kiw_marker	mk;
	u8			mark[KIW_MARKER_SIZE];
	u8			mark_have;
	bool			astray;
	u32			crc;
	u8			hdr[KIW_FPDU_LEN_SIZE + KIW_HDR_MAX];
	struct kiw_seg		seg;
	struct kiw_seq		seq[KIW_QN_COUNT];
	u32			resp_off;
};

/**
 * kiw_rx_init() - prepare the receive side
 * @s: stream, zeroed but for what was agreed on; socket lock held
 *
 * What TCP has not handed out yet is the stream's.
 */
void kiw_rx_init(struct kiw_stream *s);

/**
 * kiw_rx_pump() - take what TCP has for us
 * @s: stream; socket lock held, any context
 *
 * Takes whole FPDUs, and parts where no CRC has to be seen first, up to a budget; leftovers are the
 * stream's work. kiw_rx_done() has to follow.
 */
void kiw_rx_pump(struct kiw_stream *s);

/** kiw_rx_done() - TCP needn't keep what the pump took; it may tell the peer of the room */
void kiw_rx_done(struct kiw_stream *s);

/** kiw_rx_ulpdu_len() - ULPDU_Length of the FPDU under way */
static inline u32 kiw_rx_ulpdu_len(const struct kiw_rx *rx)
{
	return get_unaligned_be16(rx->hdr);
}

#endif /* KIWARP_RX_H */
