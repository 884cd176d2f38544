/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CRC-32C of FPDUs (RFC 5044 section 4.4): start with kiw_crc_init(), add pieces of any size,
 * finish with kiw_crc_wire().
 */
#ifndef KIW_PROTO_CRC_H
#define KIW_PROTO_CRC_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/** kiw_crc_init() - running checksum over no bytes */
static inline u32 kiw_crc_init(void)
{
	return ~(u32)0;
}

/** kiw_crc_update() - add @n bytes, 0 allowed, that do not change during the call */
u32 kiw_crc_update(u32 crc, const void *p, size_t n);

#ifndef __KERNEL__
/* One implementation of kiw_crc_update() in user space */
struct kiw_crc_way {
	const char *name;
	u32 (*update)(u32 crc, const void *p, size_t n);
};

/** kiw_crc_way_get() - from 0, the portable one, to the one in use; then NULL */
const struct kiw_crc_way *kiw_crc_way_get(size_t i);

/** kiw_crc_prefer() - use another implementation from now on; the program has one at most */
void kiw_crc_prefer(const char *name, u32 (*update)(u32 crc, const void *p, size_t n));
#endif

/**
 * kiw_crc_copy() - copy bytes and add the copies to a checksum
 * @crc: running checksum
 * @dst: private memory that nobody else writes
 * @src: bytes that another thread may change meanwhile
 * @n: bytes, 0 allowed; @dst and @src must not overlap
 *
 * Reads each byte of @src once and computes the checksum from @dst, so both always agree. Copy and
 * checksum alternate in pieces that stay in the first-level cache.
 *
 * Return: running checksum.
 */
u32 kiw_crc_copy(u32 crc, void *dst, const void *src, size_t n);

/**
 * kiw_crc_wire() - finish a checksum
 * @crc: running checksum over ULPDU_Length, ULPDU, PAD and all markers, including one directly
 *	before the FPDU
 *
 * Return: CRC field as stored, least significant byte first.
 */
static inline __le32 kiw_crc_wire(u32 crc)
{
	return cpu_to_le32(~crc);
}

#ifdef __cplusplus
}
#endif

#endif
