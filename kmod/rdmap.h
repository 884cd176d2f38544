/* SPDX-License-Identifier: GPL-2.0 */
/* What an RDMAP message does when it arrives (RFC 5040 section 5). */
#ifndef KIWARP_RDMAP_H
#define KIWARP_RDMAP_H

#include "proto/verdict.h"

struct kiw_cursor;
struct kiw_stream;

/**
 * kiw_rdmap_begin() - judge a segment before any of it is placed
 * @s: stream, @s->rx.seg parsed; socket lock held, any context
 *
 * All checks of RFC 5041 section 7.1 for the whole segment. Takes a receive request for the first
 * segment of a Send.
 *
 * Return: KIW_OK, or what to tell the peer.
 */
enum kiw_err kiw_rdmap_begin(struct kiw_stream *s);

/**
 * kiw_rdmap_place() - place payload of the judged segment
 * @s: stream
 * @cur: where the payload starts in the socket's queue; advanced
 * @done: octets of the segment's payload that were placed before
 * @n: octets to place now
 *
 * Looks the memory up again, since a region may have gone since the last piece.
 *
 * Return: KIW_OK, or what to tell the peer.
 */
enum kiw_err kiw_rdmap_place(struct kiw_stream *s, struct kiw_cursor *cur, u32 done, u32 n);

/**
 * kiw_rdmap_end() - the segment is complete and good
 * @s: stream
 *
 * Delivers the message, if this was its last segment.
 *
 * Return: KIW_OK, or what to tell the peer.
 */
enum kiw_err kiw_rdmap_end(struct kiw_stream *s);

#endif /* KIWARP_RDMAP_H */
