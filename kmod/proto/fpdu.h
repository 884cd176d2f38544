/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * FPDU framing: sizes, padding, markers (RFC 5044 sections 4.1 to 4.5). Lengths and offsets are in
 * bytes.
 *
 * A marker starts at each stream offset divisible by 512; offset 0 is the first byte after the
 * start-up frame of the direction. A marker due at the end of an FPDU travels before the next one,
 * under its CRC. So FPDUs start at offsets divisible by 4, and no marker splits ULPDU_Length
 * or CRC.
 *
 * Both directions walk an FPDU like this::
 *
 *	kiw_marker_begin(&mk, offset, on);
 *	while (ULPDU_Length, ULPDU or PAD remain) {
 *		if (kiw_marker_due(&mk))
 *			kiw_marker_put(&mk, ...) or kiw_marker_take(&mk, ...);
 *		n = kiw_marker_run(&mk, remaining bytes);
 *		handle n bytes;
 *	}
 *	if (kiw_marker_due(&mk))
 *		kiw_marker_put() or kiw_marker_take(), covered by the CRC;
 *	handle CRC;
 *	offset += kiw_fpdu_wire_len(offset, ulpdu_len, on);
 */
#ifndef KIW_PROTO_FPDU_H
#define KIW_PROTO_FPDU_H

#include "os.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** kiw_fpdu_pad() - bytes of PAD (RFC 5044 section 4.1), 0..3; @ulpdu_len 0..65535 */
static inline u32 kiw_fpdu_pad(u32 ulpdu_len)
{
	return -(KIW_FPDU_LEN_SIZE + ulpdu_len) & KIW_FPDU_PAD_MAX;
}

/** kiw_fpdu_len() - bytes of an FPDU without markers; @ulpdu_len 0..65535 */
static inline u32 kiw_fpdu_len(u32 ulpdu_len)
{
	return KIW_FPDU_OVERHEAD + ulpdu_len + kiw_fpdu_pad(ulpdu_len);
}

/**
 * kiw_mulpdu() - longest ULPDU with an FPDU of one TCP segment (RFC 5044 section 4.5)
 * @emss: effective maximum segment size, any value
 * @markers: this direction carries markers
 *
 * With a tiny @emss the FPDU exceeds the segment and may still be sent.
 *
 * Return: KIW_MULPDU_MIN..KIW_ULPDU_MAX.
 */
u32 kiw_mulpdu(u32 emss, bool markers);

/**
 * kiw_fpdu_markers() - markers of an FPDU, including one before it
 * @offset: stream offset of the FPDU, or of the marker before it; modulo 2^32, divisible by 4
 * @ulpdu_len: ULPDU_Length, 0..65535
 *
 * Return: number of markers.
 */
u32 kiw_fpdu_markers(u32 offset, u32 ulpdu_len);

/** kiw_fpdu_wire_len() - kiw_fpdu_len() plus markers; divisible by 4 */
static inline u32 kiw_fpdu_wire_len(u32 offset, u32 ulpdu_len, bool markers)
{
	u32 len = kiw_fpdu_len(ulpdu_len);

	return markers ? len + KIW_MARKER_SIZE * kiw_fpdu_markers(offset, ulpdu_len) : len;
}

/*
 * The next marker of an FPDU.
 * @gap: bytes of the FPDU before it, without markers
 * @ptr: its FPDUPTR, the distance from ULPDU_Length in the stream
 */
struct kiw_marker {
	u32 gap;
	u32 ptr;
};

/** kiw_marker_begin() - start to walk an FPDU at @offset, see kiw_fpdu_markers() */
void kiw_marker_begin(struct kiw_marker *mk, u32 offset, bool on);

/** kiw_marker_due() - is a marker next; ask before each run and between PAD and CRC */
static inline bool kiw_marker_due(const struct kiw_marker *mk)
{
	return !mk->gap;
}

/** kiw_marker_run() - walk up to @n bytes; fewer if a marker comes first; none is due now */
static inline u32 kiw_marker_run(struct kiw_marker *mk, u32 n)
{
	u32 run = min_t(u32, n, mk->gap);

	mk->gap -= run;
	return run;
}

/** kiw_marker_count() - markers before, among and directly after the last @n bytes up to PAD */
u32 kiw_marker_count(const struct kiw_marker *mk, u32 n);

/** kiw_marker_put() - write the due marker, KIW_MARKER_SIZE bytes, any alignment */
void kiw_marker_put(struct kiw_marker *mk, void *p);

/**
 * kiw_marker_take() - check the due marker
 * @mk: walk
 * @p: KIW_MARKER_SIZE bytes received, any alignment
 *
 * Ignores the reserved half and the low two bits of FPDUPTR (RFC 5044 section 4.2). Check the CRC
 * first: a wrong marker is %KIW_ERR_LLP_CRC with a wrong CRC, else %KIW_ERR_LLP_MARKER.
 *
 * Return: true if the marker points to this FPDU's ULPDU_Length.
 */
bool kiw_marker_take(struct kiw_marker *mk, const void *p);

#ifdef __cplusplus
}
#endif

#endif
