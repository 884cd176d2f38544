// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fault.h"

enum kiw_err kiw_region_rdmap_error(enum kiw_region_fault fault)
{
	switch (fault) {
	case KIW_REGION_OK:
		return KIW_OK;
	case KIW_REGION_STAG:
		return KIW_ERR_RDMAP_STAG;
	case KIW_REGION_PD:
		return KIW_ERR_RDMAP_PD;
	case KIW_REGION_ACCESS:
		return KIW_ERR_RDMAP_ACCESS;
	case KIW_REGION_BOUNDS:
		return KIW_ERR_RDMAP_BOUNDS;
	case KIW_REGION_WRAP:
		return KIW_ERR_RDMAP_WRAP;
	}
	return KIW_ERR_RDMAP_UNSPECIFIED;
}

/* DDP lacks a code for a missing right; most peers send RDMAP's. */
enum kiw_err kiw_region_ddp_error(enum kiw_region_fault fault)
{
	switch (fault) {
	case KIW_REGION_OK:
		return KIW_OK;
	case KIW_REGION_STAG:
		return KIW_ERR_DDP_STAG;
	case KIW_REGION_PD:
		return KIW_ERR_DDP_PD;
	case KIW_REGION_ACCESS:
		return KIW_ERR_RDMAP_ACCESS;
	case KIW_REGION_BOUNDS:
		return KIW_ERR_DDP_BOUNDS;
	case KIW_REGION_WRAP:
		return KIW_ERR_DDP_WRAP;
	}
	return KIW_ERR_DDP_CATASTROPHE;
}
