/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reasons to refuse memory, and the errors that report them to a peer. */
#ifndef KIW_PROTO_FAULT_H
#define KIW_PROTO_FAULT_H

#include "verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum kiw_region_fault - reason to refuse a region
 * @KIW_REGION_OK: none
 * @KIW_REGION_STAG: no such region, or not valid
 * @KIW_REGION_PD: other protection domain, or a window of another queue pair
 * @KIW_REGION_ACCESS: a right is missing
 * @KIW_REGION_BOUNDS: bytes outside of it
 * @KIW_REGION_WRAP: address plus length reach 2^64
 */
enum kiw_region_fault {
	KIW_REGION_OK = 0,
	KIW_REGION_STAG,
	KIW_REGION_PD,
	KIW_REGION_ACCESS,
	KIW_REGION_BOUNDS,
	KIW_REGION_WRAP,
};

/** kiw_region_rdmap_error() - error for a peer that reads */
enum kiw_err kiw_region_rdmap_error(enum kiw_region_fault fault);

/** kiw_region_ddp_error() - error for a peer that writes */
enum kiw_err kiw_region_ddp_error(enum kiw_region_fault fault);

#ifdef __cplusplus
}
#endif

#endif
