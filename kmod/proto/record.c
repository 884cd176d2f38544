// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "record.h"

static bool record_seen(const struct kiw_record *r, u32 n)
{
	return r->seen[n / 64] >> n % 64 & 1;
}

void kiw_record_begin(struct kiw_record *r, const struct kiw_dgram_write *w)
{
	r->write = *w;
	r->missing = kiw_dgram_segs(w);
	r->valid = 0;
	memset(r->seen, 0, sizeof(r->seen));
}

bool kiw_record_has(const struct kiw_record *r, u32 offset)
{
	return record_seen(r, offset / r->write.seg_size);
}

void kiw_record_add(struct kiw_record *r, u32 offset)
{
	u32 n = offset / r->write.seg_size;

	r->seen[n / 64] |= (u64)1 << n % 64;
	r->valid += kiw_dgram_seg_len(&r->write, offset);
	r->missing--;
}

void kiw_record_map(const struct kiw_record *r, u64 map[KIW_RECORD_MAP_BITS / 64])
{
	u32 segs = kiw_dgram_segs(&r->write), unit = kiw_record_map_unit(segs), n;

	memset(map, 0, KIW_RECORD_MAP_BITS / 8);
	for (n = 0; n < segs; n++) {
		if (n % unit == 0)
			map[n / unit / 64] |= (u64)1 << n / unit % 64;
		if (!record_seen(r, n))
			map[n / unit / 64] &= ~((u64)1 << n / unit % 64);
	}
}

void kiw_past_begin(struct kiw_past *p, u32 id)
{
	memset(p->over, 0, sizeof(p->over));
	p->highest = id;
	kiw_past_add(p, id);
}

bool kiw_past_has(const struct kiw_past *p, u32 id)
{
	u32 behind = p->highest - id, n = id % KIW_PAST_NUMBERS;

	if (behind > KIW_PAST_REACH)
		return false;	/* ahead */
	return behind >= KIW_PAST_NUMBERS || (p->over[n / 64] >> n % 64 & 1);
}

void kiw_past_add(struct kiw_past *p, u32 id)
{
	u32 ahead = id - p->highest, n;

	if (ahead <= KIW_PAST_REACH) {
		/* Clear the places of numbers that are now too far behind. */
		for (n = id - min_t(u32, ahead, KIW_PAST_NUMBERS); n++ != id;)
			p->over[n % KIW_PAST_NUMBERS / 64] &= ~((u64)1 << n % 64);
		p->highest = id;
	}
	if (p->highest - id < KIW_PAST_NUMBERS)
		p->over[id % KIW_PAST_NUMBERS / 64] |= (u64)1 << id % 64;
}
