/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arrived segments of a Write-Record, in any order, and finished messages of a sender. The caller
 * adds a segment when it is placed.
 */
#ifndef KIW_PROTO_RECORD_H
#define KIW_PROTO_RECORD_H

#include "dgram.h"
#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of a completion's map */
#define KIW_RECORD_MAP_BITS 128

/**
 * struct kiw_record - an arriving message
 * @write: from its first segment
 * @missing: segments that have not arrived
 * @valid: bytes that have
 * @seen: one bit per segment, from the lowest bit of the first word on
 */
struct kiw_record {
	struct kiw_dgram_write write;
	u32 missing;
	u32 valid;
	u64 seen[KIW_DGRAM_MAX_SEGS / 64];
};

/** kiw_record_begin() - start a message; nothing has arrived */
void kiw_record_begin(struct kiw_record *r, const struct kiw_dgram_write *w);

/** kiw_record_same() - does a segment describe the message as its first one did */
static inline bool kiw_record_same(const struct kiw_record *r, const struct kiw_dgram_write *w)
{
	return r->write.stag == w->stag && r->write.to == w->to && r->write.id == w->id &&
	       r->write.length == w->length && r->write.seg_size == w->seg_size;
}

/** kiw_record_has() - has the segment at @offset arrived */
bool kiw_record_has(const struct kiw_record *r, u32 offset);

/** kiw_record_add() - add the missing segment at @offset */
void kiw_record_add(struct kiw_record *r, u32 offset);

/** kiw_record_map_unit() - segments per bit of the map; the last bit may stand for fewer */
static inline u32 kiw_record_map_unit(u32 segs)
{
	return (segs - 1) / KIW_RECORD_MAP_BITS + 1;
}

/** kiw_record_map() - KIW_RECORD_MAP_BITS bits, lowest first; set if all their segments arrived */
void kiw_record_map(const struct kiw_record *r, u64 map[KIW_RECORD_MAP_BITS / 64]);

/* Remembered numbers of a sender, up to its highest */
#define KIW_PAST_NUMBERS 1024
/*
 * How far numbers of a sender may lie behind its highest, or jump ahead. A sender that restarts at
 * a random number is taken for its predecessor, or for late, in one of some thousand cases.
 */
#define KIW_PAST_REACH (1U << 20)

/*
 * Finished messages of a sender.
 * @highest: highest finished number, modulo 2^32
 * @over: one bit per number modulo KIW_PAST_NUMBERS
 */
struct kiw_past {
	u32 highest;
	u64 over[KIW_PAST_NUMBERS / 64];
};

/** kiw_past_begin() - start with one finished message */
void kiw_past_begin(struct kiw_past *p, u32 id);

/*
 * kiw_past_reaches() - is the number of the same sender
 *
 * Out of reach means another sender at the same address and port, now or before.
 */
static inline bool kiw_past_reaches(const struct kiw_past *p, u32 id)
{
	return id - p->highest + KIW_PAST_REACH <= 2 * KIW_PAST_REACH;
}

/** kiw_past_has() - is the message finished, or too far behind; within reach */
bool kiw_past_has(const struct kiw_past *p, u32 id);

/** kiw_past_add() - finish a message; within reach */
void kiw_past_add(struct kiw_past *p, u32 id);

#ifdef __cplusplus
}
#endif

#endif
