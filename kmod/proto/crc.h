/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The FPDU checksum: CRC-32C, RFC 5044 section 4.4. A running value is started
 * with kiw_crc_init(), fed in any number of pieces, and turned into the four
 * trailing octets by kiw_crc_wire().
 */
#ifndef KIW_PROTO_CRC_H
#define KIW_PROTO_CRC_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * kiw_crc_init() - value to start a checksum with
 *
 * Return: running checksum over no octets.
 */
static inline u32 kiw_crc_init(void)
{
	return ~(u32)0;
}

/**
 * kiw_crc_update() - add octets to a running checksum
 * @crc: running checksum
 * @p: octets that do not change during the call
 * @n: how many octets, 0 allowed
 *
 * Return: running checksum with the octets included.
 */
u32 kiw_crc_update(u32 crc, const void *p, size_t n);

#ifndef __KERNEL__
/**
 * struct kiw_crc_way - one way to have a checksum, outside of the kernel, which has its own
 * @name: what it is called in messages
 * @update: as kiw_crc_update()
 */
struct kiw_crc_way {
	const char *name;
	u32 (*update)(u32 crc, const void *p, size_t n);
};

/**
 * kiw_crc_way_get() - a way that this processor has
 * @i: 0 for the one that every processor has; the last one is what kiw_crc_update() does
 *
 * Return: the way, or NULL behind the last one.
 */
const struct kiw_crc_way *kiw_crc_way_get(size_t i);
#endif

/**
 * kiw_crc_copy() - copy octets and add exactly the copied ones to a checksum
 * @crc: running checksum
 * @dst: private memory nobody else writes to during the call
 * @src: octets, which another thread may be changing
 * @n: how many octets, 0 allowed; @dst and @src must not overlap
 *
 * Each octet of @src is read once and the checksum is taken from @dst, hence
 * it always agrees with what @dst ends up holding, even if the owner of @src
 * rewrites it meanwhile. Copy and checksum alternate in pieces small enough to
 * stay in the first-level cache.
 *
 * Return: running checksum with the octets included.
 */
u32 kiw_crc_copy(u32 crc, void *dst, const void *src, size_t n);

/**
 * kiw_crc_wire() - finish a checksum
 * @crc: running checksum over ULPDU_Length, ULPDU, PAD and all markers of the
 *	FPDU, a marker directly in front of it included
 *
 * Return: the CRC field as it is stored in the FPDU, least significant octet
 * first.
 */
static inline __le32 kiw_crc_wire(u32 crc)
{
	return cpu_to_le32(~crc);
}

#ifdef __cplusplus
}
#endif

#endif
