/* SPDX-License-Identifier: GPL-2.0 */
/* Contexts of processes, and their protection domains */
#ifndef KIWARP_CONTEXT_H
#define KIWARP_CONTEXT_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* Additions to RDMA core's methods, for ib_device.driver_def */
extern const struct uapi_definition kiw_context_uapi[];

/* Verbs; see struct ib_device_ops. */
int kiw_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata);
int kiw_query_ucontext(struct ib_ucontext *ibuctx, struct uverbs_attr_bundle *attrs);
void kiw_dealloc_ucontext(struct ib_ucontext *ibuctx);
void kiw_disassociate_ucontext(struct ib_ucontext *ibuctx);
int kiw_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int kiw_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

#endif /* KIWARP_CONTEXT_H */
