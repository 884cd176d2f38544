/* SPDX-License-Identifier: GPL-2.0 */
/* What a process has before it makes anything that works: its context, and protection domains */
#ifndef KIWARP_CONTEXT_H
#define KIWARP_CONTEXT_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* What ib_device.driver_def adds to the methods of RDMA core */
extern const struct uapi_definition kiw_context_uapi[];

/* Verbs; see struct ib_device_ops. */
int kiw_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata);
int kiw_query_ucontext(struct ib_ucontext *ibuctx, struct uverbs_attr_bundle *attrs);
void kiw_dealloc_ucontext(struct ib_ucontext *ibuctx);
void kiw_disassociate_ucontext(struct ib_ucontext *ibuctx);
int kiw_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int kiw_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

#endif /* KIWARP_CONTEXT_H */
