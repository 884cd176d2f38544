/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Does an access stay inside a registered region. DDP and RDMAP report the
 * same two mistakes under different numbers, hence the layer-free answer.
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
 * @base: tagged offset of the region's first octet
 * @len: octets in the region
 * @to: tagged offset of the first octet accessed
 * @n: octets accessed, 0 to 2^64 - 1
 *
 * An empty access passes wherever it points (RFC 5041 section 5.2, RFC 5040
 * section 5.2.1). Wrapping is looked at before bounds.
 *
 * Return: see enum kiw_range.
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
