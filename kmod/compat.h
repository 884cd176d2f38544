/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernels. config.h says what this kernel has; `make config` writes it, by
 * scripts/probe-kernel. Each piece names the first kernel with the new form, so that whoever drops
 * the last kernel before it knows what to delete.
 */
#ifndef KIWARP_COMPAT_H
#define KIWARP_COMPAT_H

#include <linux/netdevice.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "config.h"

/* 6.11: ib_device_ops.create_cq has all attributes of the call as its last argument */
#ifdef KIW_HAVE_CREATE_CQ_BUNDLE
#define kiw_cq_attrs uverbs_attr_bundle
static inline struct ib_udata *kiw_cq_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#else
#define kiw_cq_attrs ib_udata
static inline struct ib_udata *kiw_cq_udata(struct ib_udata *udata)
{
	return udata;
}
#endif

/* 6.17: ib_device_ops.reg_user_mr has a DMA handle before its last argument */
#ifdef KIW_HAVE_REG_USER_MR_DMAH
#define KIW_DMAH_PARAMETER struct ib_dmah *dmah,
#define KIW_DMAH dmah
#else
#define KIW_DMAH_PARAMETER
#define KIW_DMAH NULL
#endif

/* 7.2: ib_umem_get() is split by where the memory comes from */
#ifndef KIW_HAVE_UMEM_GET_VA
#define ib_umem_get_va ib_umem_get
#endif

/* 7.0: a device may belong to a namespace from the start */
#ifndef ib_alloc_device_with_net
#define ib_alloc_device_with_net(drv_struct, member, net) \
	((void)(net), ib_alloc_device(drv_struct, member))
#endif

/* 6.3: udev can be told to leave a name alone */
#ifndef KIW_HAVE_IB_MARK_NAME
static inline void ib_mark_name_assigned_by_user(struct ib_device *ibdev)
{
}
#endif

/* 6.13: the core reports changes of the port's state, except where bonds are involved */
static inline bool kiw_core_reports_port(struct net_device *ndev)
{
#ifdef KIW_HAVE_REPORT_PORT_EVENT
	return !netif_is_lag_master(ndev) && !netif_is_lag_port(ndev);
#else
	return false;
#endif
}

/* 6.16: from_timer() has a longer name */
#ifndef timer_container_of
#define timer_container_of from_timer
#endif

/* 6.19: kernel_bind() and kernel_connect() take a type of their own for any address */
#ifdef KIW_HAVE_SOCKADDR_UNSIZED
#define kiw_sockaddr(addr) ((struct sockaddr_unsized *)(addr))
#else
#define kiw_sockaddr(addr) ((struct sockaddr *)(addr))
#endif

#endif /* KIWARP_COMPAT_H */
