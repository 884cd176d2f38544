// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fpdu.h"

/* Bytes between two markers */
#define MARKER_RUN (KIW_MARKER_SPACING - KIW_MARKER_SIZE)

u32 kiw_mulpdu(u32 emss, bool markers)
{
	u32 cost = KIW_FPDU_OVERHEAD + emss % 4;

	/* The largest ULPDU fits; also prevents overflow below. */
	if (emss > 2 * KIW_ULPDU_MAX)
		return KIW_ULPDU_MAX;

	if (markers) {
		u32 most = (emss + KIW_MARKER_SPACING - 1) / KIW_MARKER_SPACING;

		cost += KIW_MARKER_SIZE * most;
	}
	if (emss < KIW_MULPDU_MIN + cost)
		return KIW_MULPDU_MIN;
	return min_t(u32, emss - cost, KIW_ULPDU_MAX);
}

u32 kiw_fpdu_markers(u32 offset, u32 ulpdu_len)
{
	struct kiw_marker mk;

	kiw_marker_begin(&mk, offset, true);
	return kiw_marker_count(&mk, kiw_fpdu_len(ulpdu_len) - KIW_FPDU_CRC_SIZE);
}

void kiw_marker_begin(struct kiw_marker *mk, u32 offset, bool on)
{
	if (!on) {
		mk->gap = U32_MAX;
		mk->ptr = 0;
		return;
	}
	mk->gap = -offset % KIW_MARKER_SPACING;
	mk->ptr = mk->gap;
}

u32 kiw_marker_count(const struct kiw_marker *mk, u32 n)
{
	return n < mk->gap ? 0 : 1 + (n - mk->gap) / MARKER_RUN;
}

static void fpdu_marker_step(struct kiw_marker *mk)
{
	/* FPDUPTR does not count a marker before the FPDU. */
	mk->ptr += mk->ptr ? KIW_MARKER_SPACING : MARKER_RUN;
	mk->gap = MARKER_RUN;
}

void kiw_marker_put(struct kiw_marker *mk, void *p)
{
	struct kiw_marker_wire *w = p;

	w->reserved = 0;
	w->fpduptr = cpu_to_be16(mk->ptr);
	fpdu_marker_step(mk);
}

bool kiw_marker_take(struct kiw_marker *mk, const void *p)
{
	const struct kiw_marker_wire *w = p;
	bool good = !((be16_to_cpu(w->fpduptr) ^ mk->ptr) & KIW_MARKER_PTR_MASK);

	fpdu_marker_step(mk);
	return good;
}
