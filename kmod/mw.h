/* SPDX-License-Identifier: GPL-2.0 */
/* Memory windows: parts of regions that requests open to peers and close. */
#ifndef KIWARP_MW_H
#define KIWARP_MW_H

#include <rdma/ib_verbs.h>

#include "region.h"

/*
 * A memory window.
 * @ibmw: RDMA core's part; its rkey is the first STag, used by no bind
 * @window: allocated by itself, since RDMA core frees the rest without waiting for RCU
 */
struct kiw_mw {
	struct ib_mw		ibmw;
	struct kiw_window	*window;
};

static inline struct kiw_mw *to_kiw_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct kiw_mw, ibmw);
}

/* Verbs of struct ib_device_ops */
int kiw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int kiw_dealloc_mw(struct ib_mw *ibmw);

#endif /* KIWARP_MW_H */
