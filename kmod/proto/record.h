/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which segments of a Write-Record have arrived, in whatever order, and which
 * messages of a sender are over. Nothing here depends on what was placed: the
 * caller adds a segment when it is.
 */
#ifndef KIW_PROTO_RECORD_H
#define KIW_PROTO_RECORD_H

#include "dgram.h"
#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of the map that a completion has */
#define KIW_RECORD_MAP_BITS 128

/**
 * struct kiw_record - a message that arrives
 * @write: the message, as its first segment told it
 * @missing: segments that have not arrived
 * @valid: octets that have
 * @seen: one bit for each segment, from the lowest bit of the first word on
 */
struct kiw_record {
	struct kiw_dgram_write write;
	u32 missing;
	u32 valid;
	u64 seen[KIW_DGRAM_MAX_SEGS / 64];
};

/** kiw_record_begin() - nothing of a message has arrived yet */
void kiw_record_begin(struct kiw_record *r, const struct kiw_dgram_write *w);

/** kiw_record_same() - does a segment say the same of its message as the first did */
static inline bool kiw_record_same(const struct kiw_record *r, const struct kiw_dgram_write *w)
{
	return r->write.stag == w->stag && r->write.to == w->to && r->write.id == w->id &&
	       r->write.length == w->length && r->write.seg_size == w->seg_size;
}

/** kiw_record_has() - has the segment at an offset arrived */
bool kiw_record_has(const struct kiw_record *r, u32 offset);

/** kiw_record_add() - the segment at an offset, which had not, has arrived */
void kiw_record_add(struct kiw_record *r, u32 offset);

/** kiw_record_map_unit() - segments that a bit of the map stands for; the last bit perhaps fewer */
static inline u32 kiw_record_map_unit(u32 segs)
{
	return (segs - 1) / KIW_RECORD_MAP_BITS + 1;
}

/**
 * kiw_record_map() - the map of what has arrived
 * @r: message
 * @map: KIW_RECORD_MAP_BITS bits, from the lowest bit of the first word on
 *
 * A bit is set when all segments that it stands for have arrived.
 */
void kiw_record_map(const struct kiw_record *r, u64 map[KIW_RECORD_MAP_BITS / 64]);

/* Numbers of a sender that are remembered each, up to the highest one */
#define KIW_PAST_NUMBERS 1024
/*
 * How many numbers a sender may be behind its highest one, or go ahead at once.
 * One that begins anew at a random number is mistaken for the one before it, or
 * for late, in one of some thousand cases.
 */
#define KIW_PAST_REACH (1U << 20)

/**
 * struct kiw_past - messages of a sender that are over
 * @highest: the highest number among them, modulo 2^32
 * @over: one bit for each number modulo KIW_PAST_NUMBERS
 */
struct kiw_past {
	u32 highest;
	u64 over[KIW_PAST_NUMBERS / 64];
};

/** kiw_past_begin() - nothing is over but one message */
void kiw_past_begin(struct kiw_past *p, u32 id);

/*
 * kiw_past_reaches() - is a number one of the same sender
 *
 * One out of reach is that of another sender with the same address and port,
 * now or before.
 */
static inline bool kiw_past_reaches(const struct kiw_past *p, u32 id)
{
	return id - p->highest + KIW_PAST_REACH <= 2 * KIW_PAST_REACH;
}

/** kiw_past_has() - is the message over, or so far behind that it counts as over; within reach */
bool kiw_past_has(const struct kiw_past *p, u32 id);

/** kiw_past_add() - the message is over; within reach */
void kiw_past_add(struct kiw_past *p, u32 id);

#ifdef __cplusplus
}
#endif

#endif
