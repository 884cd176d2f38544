/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Bounds of an access to a region. DDP and RDMAP number the two errors differently, so the result
 * belongs to neither.
 */
#ifndef KIW_PROTO_RANGE_H
#define KIW_PROTO_RANGE_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum kiw_range - verdict on an access
 * @KIW_RANGE_OK: inside the region
 * @KIW_RANGE_BOUNDS: starts before or ends after the region
 * @KIW_RANGE_WRAP: tagged offset plus length reach 2^64
 */
enum kiw_range {
	KIW_RANGE_OK = 0,
	KIW_RANGE_BOUNDS,
	KIW_RANGE_WRAP,
};

/**
 * kiw_range_check() - check an access against a region
 * @base: tagged offset of the region's first byte
 * @len: bytes of the region
 * @to: tagged offset of the access
 * @n: bytes of the access, 0 to 2^64 - 1
 *
 * An empty access passes anywhere (RFC 5041 section 5.2, RFC 5040 section 5.2.1). Wrapping is
 * checked before bounds.
 *
 * Return: enum kiw_range.
 */
static inline enum kiw_range kiw_range_check(u64 base, u64 len, u64 to, u64 n)
{
	if (!n)
		return KIW_RANGE_OK;
	if (to + n < to)
		return KIW_RANGE_WRAP;
	if (to < base || to - base > len || n > len - (to - base))
		return KIW_RANGE_BOUNDS;
	return KIW_RANGE_OK;
}

#ifdef __cplusplus
}
#endif

#endif
