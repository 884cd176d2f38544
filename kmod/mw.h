/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory windows: parts of regions that a process opens to peers, and closes again, by requests in
 * its send queues.
 */
#ifndef KIWARP_MW_H
#define KIWARP_MW_H

#include <rdma/ib_verbs.h>

#include "region.h"

/**
 * struct kiw_mw - a window
 * @ibmw: the part that RDMA core knows; its rkey is the first STag, which no bind has
 * @window: what peers find, and what binds change; allocated by itself, as RDMA core frees the rest
 *	without waiting for RCU
 */
struct kiw_mw {
	struct ib_mw		ibmw;
	struct kiw_window	*window;
};

static inline struct kiw_mw *to_kiw_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct kiw_mw, ibmw);
}

/* Verbs; see struct ib_device_ops. */
int kiw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int kiw_dealloc_mw(struct ib_mw *ibmw);

#endif /* KIWARP_MW_H */
