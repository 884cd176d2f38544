/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common to all files: a device, made by `rdma link add NAME type kiwarp netdev DEV`, a process
 * that uses it, limits.
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

/* Limits reported by query_device and enforced by verbs */
#define KIW_MAX_QP		65536
#define KIW_MAX_QP_WR		16384
#define KIW_MAX_SGE		16
#define KIW_MAX_INLINE		512	/* bytes */
#define KIW_MAX_SRQ		65536
#define KIW_MAX_CQ		65536
#define KIW_MAX_CQE		(1 << 20)
#define KIW_MAX_MR		(1 << 20)
#define KIW_MAX_MW		65536
#define KIW_MAX_FAST_PAGES	1024	/* of a region of a consumer in the kernel */
#define KIW_MAX_PD		65536
#define KIW_MAX_AH		(1 << 20)
#define KIW_MAX_GROUP		65536
#define KIW_MAX_RD_ATOM		128	/* IRD and ORD of one QP */
#define KIW_MAX_MR_SIZE		min_t(u64, 1ULL << 39, SIZE_MAX)	/* bytes */

/*
 * Vendor OUI from IEEE 802c's local range (second digit 2), no hardware's: "riw". SPDK takes 0 and
 * 0xffffff for Soft-RoCE.
 */
#define KIW_VENDOR_ID		0x726977
#define KIW_VENDOR_PART_ID	1

/*
 * An RDMA device on a network interface.
 * @net: without a reference: the namespace outlives the device (netdev.c)
 * @ifindex: interface of all sockets; may be gone, or have left @net
 * @link: in netdev.c's list
 * @doomed: the interface goes or leaves @net, nothing new may begin; netdev.c's lock
 * @port_up: last reported port state; netdev.c's lock
 * @fallback_mac: made-up address for an interface without one
 * @qps: QP number to &struct kiw_qp; read under RCU
 * @next_qpn: start of the search for a free number; lock of @qps
 * @regions: STag index (upper 24 bits) to &struct kiw_region
 * @ep_lock: protects @eps, @ep_closed and @number; innermost, BH off
 * @eps: all endpoints, including listening ones
 * @ep_closed: the device goes: make no endpoint, unless it comes back elsewhere
 * @ep_count: existing endpoints, plus one for the device
 * @ep_none: completed with the last endpoint
 * @port: listener for connections by number (cm/port.c)
 * @number: pending connections by number (cm/number.c)
 * @num_qp: existing QPs; the limits are KIW_MAX_QP and so on
 * @num_group: attachments of datagram QPs to groups
 * @farewell: drops the last reference after dealloc_driver
 *
 * Held by RDMA core until dealloc_driver, then by @farewell. Verbs objects and endpoints hold no
 * reference: the core destroys the former first, and dealloc_driver drops the device's share of
 * @ep_count and waits for @ep_none.
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

/*
 * A process's open device.
 * @features: KIW_FEATURES of both its provider and this module
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

/*
 * A protection domain.
 * @lock: protects @windows; innermost
 * @windows: bound windows of type 2B, by queue pair
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

/* kiw_count_up() - take one of @max places; atomic_dec() returns it */
static inline bool kiw_count_up(atomic_t *count, int max)
{
	return atomic_add_unless(count, 1, max);
}

/** kiw_qp_raise() - raise an asynchronous event of a queue pair; any context */
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

/** kiw_qp_raise_last_wqe() - a QP with an SRQ completed its last request */
static inline void kiw_qp_raise_last_wqe(struct ib_qp *ibqp)
{
	if (ibqp->srq)
		kiw_qp_raise(ibqp, IB_EVENT_QP_LAST_WQE_REACHED);
}

#endif /* KIWARP_TYPES_H */
