/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Why memory may not be used, and how a peer is told. */
#ifndef KIW_PROTO_FAULT_H
#define KIW_PROTO_FAULT_H

#include "verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum kiw_region_fault - why a region may not be used
 * @KIW_REGION_OK: it may
 * @KIW_REGION_STAG: there is none, or it isn't valid
 * @KIW_REGION_PD: it belongs to another protection domain, or is a window of another queue pair
 * @KIW_REGION_ACCESS: a right is missing
 * @KIW_REGION_BOUNDS: not all bytes lie in it
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

/** kiw_region_rdmap_error() - how a peer is told of a fault when it wants to read */
enum kiw_err kiw_region_rdmap_error(enum kiw_region_fault fault);

/** kiw_region_ddp_error() - how a peer is told of a fault when it wants to write */
enum kiw_err kiw_region_ddp_error(enum kiw_region_fault fault);

#ifdef __cplusplus
}
#endif

#endif
