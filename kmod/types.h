/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every file knows: a device, which is what `rdma link add NAME type kiwarp netdev DEV` makes,
 * a process that has it open, and the limits.
 */
#ifndef KIWARP_TYPES_H
#define KIWARP_TYPES_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/if_ether.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "arena.h"
#include "cm/number.h"
#include "gid.h"
#include "options.h"
#include "count.h"

/* Limits that query_device reports and the verbs enforce. */
#define KIW_MAX_QP		65536
#define KIW_MAX_QP_WR		16384
#define KIW_MAX_SGE		16
#define KIW_MAX_INLINE		512	/* bytes */
#define KIW_MAX_SRQ		65536
#define KIW_MAX_CQ		65536
#define KIW_MAX_CQE		(1 << 20)
#define KIW_MAX_MR		(1 << 20)
#define KIW_MAX_MW		65536
#define KIW_MAX_PD		65536
#define KIW_MAX_AH		(1 << 20)
#define KIW_MAX_GROUP		65536
#define KIW_MAX_RD_ATOM		128	/* IRD and ORD of one QP */
#define KIW_MAX_MR_SIZE		min_t(u64, 1ULL << 39, SIZE_MAX)	/* bytes */

/*
 * The OUI of a vendor, of the kind that IEEE 802c leaves to local administration (the second digit
 * is 2), so that it is nobody's hardware: the letters "riw". SPDK takes 0 and 0xffffff for
 * Soft-RoCE.
 */
#define KIW_VENDOR_ID		0x726977
#define KIW_VENDOR_PART_ID	1

/**
 * struct kiw_device - one RDMA device on one network interface
 * @ibdev: the device that RDMA core knows
 * @net: namespace of the interface; no reference is held, the device is gone before it (netdev.c)
 * @ifindex: the interface; sockets are bound to it. May be gone already, or have left @net
 * @link: in the list of all devices, see netdev.c
 * @doomed: the interface goes or leaves @net, nothing new may begin; protected by netdev.c's lock
 * @port_up: last port state that was reported; protected by netdev.c's lock
 * @fallback_mac: made-up address, used where the interface has none
 * @qps: QP number to &struct kiw_qp; readers use RCU
 * @next_qpn: where the search for a free number starts; protected by the lock of @qps
 * @regions: STag index (upper 24 bits) to &struct kiw_region, see region.h
 * @gids: addresses of the interface
 * @ep_lock: protects @eps, @ep_closed and @number; innermost, taken with bottom halves off
 * @eps: all endpoints of the connection manager, listening ones included
 * @ep_closed: the device goes, no endpoint may be made, unless it comes back elsewhere
 * @ep_count: endpoints that still exist, plus one for the device itself
 * @ep_none: completed when the last endpoint is gone
 * @port: where peers connect by QP number, see cm/port.c
 * @number: what is about to connect by QP number, see cm/number.c
 * @num_qp: QPs that exist, at most KIW_MAX_QP
 * @num_srq: SRQs that exist, at most KIW_MAX_SRQ
 * @num_cq: CQs that exist, at most KIW_MAX_CQ
 * @num_mr: regions that exist, at most KIW_MAX_MR
 * @num_mw: windows that exist, at most KIW_MAX_MW
 * @num_pd: protection domains that exist, at most KIW_MAX_PD
 * @num_ah: address handles that exist, at most KIW_MAX_AH
 * @num_group: attachments of datagram QPs to groups, at most KIW_MAX_GROUP
 * @options: what an administrator has set for this link
 * @farewell: puts the last reference, some time after dealloc_driver
 * @stats: counters
 *
 * Held by RDMA core from registration to dealloc_driver, and then by @farewell; verbs objects and
 * endpoints hold no reference of their own: the core destroys the former first, and dealloc_driver
 * drops the device's share of @ep_count and waits for @ep_none.
 */
struct kiw_device {
	struct ib_device	ibdev;
	struct net		*net;
	int			ifindex;

	struct list_head	link;
	bool			doomed;
	bool			port_up;
	u8			fallback_mac[ETH_ALEN];

	struct xarray		qps;
	u32			next_qpn;
	struct xarray		regions;
	struct kiw_gids		gids;

	spinlock_t		ep_lock;
	struct list_head	eps;
	bool			ep_closed;
	refcount_t		ep_count;
	struct completion	ep_none;

	struct kiw_port		port;
	struct kiw_numbers	number;

	atomic_t		num_qp;
	atomic_t		num_srq;
	atomic_t		num_cq;
	atomic_t		num_mr;
	atomic_t		num_mw;
	atomic_t		num_pd;
	atomic_t		num_ah;
	atomic_t		num_group;

	struct kiw_options	options;

	struct work_struct	farewell;
	struct kiw_stats	stats;
};

static inline struct kiw_device *to_kiw_device(struct ib_device *ibdev)
{
	return container_of(ibdev, struct kiw_device, ibdev);
}

/**
 * struct kiw_ucontext - one process's open device
 * @ibuctx: the part that RDMA core knows
 * @rings: those of its queues
 * @features: KIW_FEATURES that its provider and this module know
 */
struct kiw_ucontext {
	struct ib_ucontext	ibuctx;
	struct kiw_rings	rings;
	u32			features;
};

static inline struct kiw_ucontext *to_kiw_ucontext(struct ib_ucontext *ibuctx)
{
	return container_of(ibuctx, struct kiw_ucontext, ibuctx);
}

/**
 * struct kiw_pd - protection domain
 * @ibpd: the part that RDMA core knows
 * @lock: protects @windows; innermost
 * @windows: windows of type 2B that are bound, by their queue pair
 */
struct kiw_pd {
	struct ib_pd		ibpd;
	spinlock_t		lock;
	struct rb_root		windows;
};

static inline struct kiw_pd *to_kiw_pd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct kiw_pd, ibpd);
}

/* kiw_count_up() - take one of @max places; give it back by atomic_dec() */
static inline bool kiw_count_up(atomic_t *count, int max)
{
	return atomic_add_unless(count, 1, max);
}

/** kiw_qp_raise() - tell the process of an asynchronous event of a queue pair; any context */
static inline void kiw_qp_raise(struct ib_qp *ibqp, enum ib_event_type type)
{
	struct ib_event event = {
		.device = ibqp->device,
		.element.qp = ibqp,
		.event = type,
	};

	if (ibqp->event_handler)
		ibqp->event_handler(&event, ibqp->qp_context);
}

/** kiw_qp_raise_last_wqe() - a QP with an SRQ has come to its end there: all is completed */
static inline void kiw_qp_raise_last_wqe(struct ib_qp *ibqp)
{
	if (ibqp->srq)
		kiw_qp_raise(ibqp, IB_EVENT_QP_LAST_WQE_REACHED);
}

#endif /* KIWARP_TYPES_H */
