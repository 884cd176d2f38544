/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * FPDU framing: sizes, padding, and the marker grid (RFC 5044 sections 4.1 to
 * 4.5). Lengths and offsets are octets.
 *
 * With markers on, one starts at every stream offset divisible by 512, where
 * offset 0 is the first octet after the start-up frame of that direction. A
 * marker due at the end of an FPDU waits and travels in front of the next one;
 * the CRC of that one covers it. FPDUs therefore always start at offsets divisible by 4,
 * and no marker ever splits ULPDU_Length or CRC.
 *
 * Both directions walk an FPDU the same way::
 *
 *	kiw_marker_begin(&mk, offset, on);
 *	while (there is something left of ULPDU_Length, ULPDU, PAD) {
 *		if (kiw_marker_due(&mk))
 *			kiw_marker_put(&mk, ...) or kiw_marker_take(&mk, ...);
 *		n = kiw_marker_run(&mk, what is left);
 *		handle n octets;
 *	}
 *	if (kiw_marker_due(&mk))
 *		kiw_marker_put() or kiw_marker_take(), still inside the CRC;
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

/**
 * kiw_fpdu_pad() - length of PAD, RFC 5044 section 4.1
 * @ulpdu_len: ULPDU_Length, 0..65535
 *
 * Return: 0..3.
 */
static inline u32 kiw_fpdu_pad(u32 ulpdu_len)
{
	return -(KIW_FPDU_LEN_SIZE + ulpdu_len) & KIW_FPDU_PAD_MAX;
}

/**
 * kiw_fpdu_len() - length of an FPDU without markers
 * @ulpdu_len: ULPDU_Length, 0..65535
 *
 * Return: octets of length field, ULPDU, PAD and CRC.
 */
static inline u32 kiw_fpdu_len(u32 ulpdu_len)
{
	return KIW_FPDU_OVERHEAD + ulpdu_len + kiw_fpdu_pad(ulpdu_len);
}

/**
 * kiw_mulpdu() - longest ULPDU for which the FPDU fits one TCP segment
 * @emss: effective maximum segment size, any value
 * @markers: markers are sent in this direction
 *
 * RFC 5044 section 4.5, clamped to the smallest and largest value MPA allows;
 * with a tiny @emss the FPDU does not fit the segment and still may be sent.
 *
 * Return: KIW_MULPDU_MIN..KIW_ULPDU_MAX.
 */
u32 kiw_mulpdu(u32 emss, bool markers);

/**
 * kiw_fpdu_markers() - how many markers travel with an FPDU
 * @offset: stream offset of the FPDU, of the marker in front of it if there is
 *	one; modulo 2^32, divisible by 4
 * @ulpdu_len: ULPDU_Length, 0..65535
 *
 * Return: number of markers, the one in front included.
 */
u32 kiw_fpdu_markers(u32 offset, u32 ulpdu_len);

/**
 * kiw_fpdu_wire_len() - octets of the stream an FPDU takes
 * @offset: see kiw_fpdu_markers()
 * @ulpdu_len: ULPDU_Length, 0..65535
 * @markers: this direction carries markers
 *
 * Return: kiw_fpdu_len() plus the markers; always divisible by 4.
 */
static inline u32 kiw_fpdu_wire_len(u32 offset, u32 ulpdu_len, bool markers)
{
	u32 len = kiw_fpdu_len(ulpdu_len);

	return markers ? len + KIW_MARKER_SIZE * kiw_fpdu_markers(offset, ulpdu_len) : len;
}

/**
 * struct kiw_marker - where the next marker of an FPDU is
 * @gap: octets of the FPDU, markers not counted, in front of it
 * @ptr: distance from ULPDU_Length to it in the stream, its FPDUPTR
 */
struct kiw_marker {
	u32 gap;
	u32 ptr;
};

/**
 * kiw_marker_begin() - start to walk one FPDU
 * @mk: walk to set up
 * @offset: see kiw_fpdu_markers()
 * @on: this direction carries markers; otherwise none will ever be due
 */
void kiw_marker_begin(struct kiw_marker *mk, u32 offset, bool on);

/**
 * kiw_marker_due() - does a marker come next
 * @mk: walk
 *
 * Ask before each run of octets and once between PAD and CRC.
 *
 * Return: true if the next four octets of the stream are a marker.
 */
static inline bool kiw_marker_due(const struct kiw_marker *mk)
{
	return !mk->gap;
}

/**
 * kiw_marker_run() - walk over octets that are not a marker
 * @mk: walk; no marker may be due
 * @n: octets wanted
 *
 * Return: octets walked over, up to @n; less when a marker comes first.
 */
static inline u32 kiw_marker_run(struct kiw_marker *mk, u32 n)
{
	u32 run = min_t(u32, n, mk->gap);

	mk->gap -= run;
	return run;
}

/**
 * kiw_marker_count() - how many markers are still to come
 * @mk: walk
 * @n: octets left of ULPDU_Length, ULPDU and PAD
 *
 * Return: those in front of, among and right behind these octets.
 */
u32 kiw_marker_count(const struct kiw_marker *mk, u32 n);

/**
 * kiw_marker_put() - write the marker that is due and walk past it
 * @mk: walk
 * @p: KIW_MARKER_SIZE octets to fill, any alignment
 */
void kiw_marker_put(struct kiw_marker *mk, void *p);

/**
 * kiw_marker_take() - check the marker that is due and walk past it
 * @mk: walk
 * @p: KIW_MARKER_SIZE octets received, any alignment
 *
 * The reserved half and the two low bits of FPDUPTR are ignored (RFC 5044
 * section 4.2). Judge the CRC first: a wrong marker in an FPDU with a wrong CRC
 * is %KIW_ERR_LLP_CRC, otherwise %KIW_ERR_LLP_MARKER.
 *
 * Return: true if the marker points at this FPDU's ULPDU_Length.
 */
bool kiw_marker_take(struct kiw_marker *mk, const void *p);

#ifdef __cplusplus
}
#endif

#endif
