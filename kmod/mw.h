/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory windows: parts of regions that a process opens to peers, and closes again, by requests in
 * its send queues.
 */
#ifndef KIWARP_MW_H
#define KIWARP_MW_H

#include <linux/list.h>
#include <rdma/ib_verbs.h>

#include "region.h"

struct kiw_qp;

/**
 * struct kiw_mw - a window
 * @ibmw: the part that RDMA core knows; its rkey is the first STag, which no bind has
 * @window: what peers find, and what binds change; allocated by itself, as RDMA core frees the rest
 *	without waiting for RCU
 * @link: in the list of the protection domain
 */
struct kiw_mw {
	struct ib_mw		ibmw;
	struct kiw_window	*window;
	struct list_head	link;
};

static inline struct kiw_mw *to_kiw_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct kiw_mw, ibmw);
}

/* Verbs; see struct ib_device_ops. */
int kiw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int kiw_dealloc_mw(struct ib_mw *ibmw);

/** kiw_mw_forget() - windows of a queue pair that goes, or begins anew, are invalid; may sleep */
void kiw_mw_forget(const struct kiw_qp *qp);

#endif /* KIWARP_MW_H */
