/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between kernels. `make config` writes config.h by scripts/probe-kernel. Each piece
 * names the first kernel with the new form, to show when it can go.
 */
#ifndef KIWARP_COMPAT_H
#define KIWARP_COMPAT_H

/* With PREEMPT_RT, local_lock.h needs spinlock.h; older kernels omit it. */
#include <linux/spinlock.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/overflow.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/inet_sock.h>
#include <net/tcp.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "config.h"

/* 6.11: ib_device_ops.create_cq gets all attributes of the call */
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

/* 7.2: ib_device_ops.resize_cq is resize_user_cq, with an unsigned number */
#ifdef KIW_HAVE_RESIZE_USER_CQ
#define kiw_cqe_number unsigned int
#else
#define kiw_cqe_number int
#define resize_user_cq resize_cq
#endif

/* 6.17: ib_device_ops.reg_user_mr gets a DMA handle */
#ifdef KIW_HAVE_REG_USER_MR_DMAH
#define KIW_DMAH_PARAMETER struct ib_dmah *dmah,
#define KIW_DMAH dmah
#else
#define KIW_DMAH_PARAMETER
#define KIW_DMAH NULL
#endif

/* 7.2: ib_umem_get() is split by the source of the memory */
#ifndef KIW_HAVE_UMEM_GET_VA
#define ib_umem_get_va ib_umem_get
#endif

/* 7.0: a device may belong to a namespace from the start */
#ifndef ib_alloc_device_with_net
#define ib_alloc_device_with_net(drv_struct, member, net) \
	((void)(net), ib_alloc_device(drv_struct, member))
#endif

/* 6.11: with PREEMPT_RT, a lock replaces the exclusion by BH off */
#ifndef local_lock_nested_bh
#define local_lock_nested_bh(lock)	((void)(lock))
#define local_unlock_nested_bh(lock)	((void)(lock))
#endif

/* 6.9: works can run in softirq; before, tasklets. Cancelling waits for a running one. */
#ifdef KIW_HAVE_BH_WORK
#define kiw_bh_work			work_struct
#define kiw_bh_work_init(work, fn)	INIT_WORK(work, fn)
#define kiw_bh_work_queue(work)		((void)queue_work(system_bh_wq, work))
#define kiw_bh_work_cancel(work)	((void)cancel_work_sync(work))
#else
#define kiw_bh_work			tasklet_struct
#define kiw_bh_work_init(work, fn)	tasklet_setup(work, fn)
#define kiw_bh_work_queue(work)		tasklet_schedule(work)
#define kiw_bh_work_cancel(work)	tasklet_kill(work)
#endif

/* 6.17: the system's queue for short works is renamed */
#ifndef KIW_HAVE_SYSTEM_PERCPU_WQ
#define system_percpu_wq system_wq
#endif

/* 6.13: a timer is initialised with its function */
#ifndef KIW_HAVE_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* 6.5: size of a structure with @count elements, without an instance */
#ifndef struct_size_t
#define struct_size_t(type, member, count)	struct_size((type *)NULL, member, count)
#endif

/* 6.10: drivers can show details of SRQs */
static inline void kiw_show_srqs(struct ib_device *ibdev,
				 int (*fill)(struct sk_buff *msg, struct ib_srq *ibsrq))
{
#ifdef KIW_HAVE_FILL_RES_SRQ
	ibdev->ops.fill_res_srq_entry = fill;
#endif
}

/* 6.3: udev can be told to leave a name alone */
#ifndef KIW_HAVE_IB_MARK_NAME
static inline void ib_mark_name_assigned_by_user(struct ib_device *ibdev)
{
}
#endif

/* 6.3: helpers change the flags of a mapping */
#ifndef KIW_HAVE_VM_FLAGS_CLEAR
static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* 6.13: RDMA core reports the port's state, except with bonds */
static inline bool kiw_core_reports_port(struct net_device *ndev)
{
#ifdef KIW_HAVE_REPORT_PORT_EVENT
	return !netif_is_lag_master(ndev) && !netif_is_lag_port(ndev);
#else
	return false;
#endif
}

/* 6.16: from_timer() is renamed */
#ifndef timer_container_of
#define timer_container_of from_timer
#endif

/* 6.19: kernel_bind() and kernel_connect() take another type of address */
#ifdef KIW_HAVE_SOCKADDR_UNSIZED
#define kiw_sockaddr(addr) ((struct sockaddr_unsized *)(addr))
#else
#define kiw_sockaddr(addr) ((struct sockaddr *)(addr))
#endif

/* 6.2: a socket can decline the task's page fragment; before, TCP decides */
static inline void kiw_no_task_frag(struct sock *sk)
{
#ifdef KIW_HAVE_SK_USE_TASK_FRAG
	sk->sk_use_task_frag = false;
#endif
}

/* 6.6: flags of an INET socket are bits of one word, set without a lock */
static inline void kiw_bind_address_no_port(struct sock *sk)
{
#ifdef inet_set_bit
	inet_set_bit(BIND_ADDRESS_NO_PORT, sk);
#else
	lock_sock(sk);
	inet_sk(sk)->bind_address_no_port = 1;
	release_sock(sk);
#endif
}

/* 6.14: a kernel socket can hold its namespace later; socket lock */
#ifndef KIW_HAVE_SK_NET_REFCNT_UPGRADE
static inline void sk_net_refcnt_upgrade(struct sock *sk)
{
	struct net *net = sock_net(sk);

#ifdef KIW_HAVE_NETNS_TRACKER_FREE
	/* 6.2: replace the tracker that holds no reference */
	__netns_tracker_free(net, &sk->ns_tracker, false);
#endif
	sk->sk_net_refcnt = 1;
	get_net_track(net, &sk->ns_tracker, GFP_KERNEL);
	sock_inuse_add(net, 1);
}
#endif

/* 6.6: TCP computes the buffer for a window; before, only a sysctl knows the ratio */
#ifndef KIW_HAVE_TCP_SPACE_FROM_WIN
static inline int tcp_space_from_win(const struct sock *sk, u32 win)
{
	int scale = READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_adv_win_scale);
	u64 space;

	if (scale <= 0)
		space = (u64)win << -scale;
	else
		space = win + win / ((1U << scale) - 1) + 1;
	return min_t(u64, space, INT_MAX);
}
#endif

/* 6.10: a ubuf_info calls a structure of functions */
#ifdef KIW_HAVE_UBUF_OPS
#define kiw_ubuf_complete_by(ubuf, fn)						\
	do {									\
		static const struct ubuf_info_ops kiw_ops = { .complete = fn };	\
										\
		(ubuf)->ops = &kiw_ops;						\
	} while (0)
#else
#define kiw_ubuf_complete_by(ubuf, fn)	((void)((ubuf)->callback = (fn)))
#endif

static inline int kiw_send_msg(struct sock *sk, const struct bio_vec *piece, u32 pieces, u32 skip,
			       u32 len, struct ubuf_info *ubuf, int flags)
{
	struct msghdr msg = { .msg_flags = flags, .msg_ubuf = ubuf };

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, piece, pieces, len);
	iov_iter_advance(&msg.msg_iter, skip);
	return tcp_sendmsg_locked(sk, &msg, len - skip);
}

/*
 * Hand @len bytes of pages to TCP, without the first @skip. With @ubuf, which counts their buffers,
 * they are sent without a copy. Return: bytes taken, or an errno.
 *
 * 6.5: TCP takes the pages of a message. Before, pages go one by one; messages are copied, even
 * where MSG_SPLICE_PAGES exists.
 */
static inline int kiw_send_pages(struct sock *sk, const struct bio_vec *piece, u32 pieces,
				 u32 skip, u32 len, struct ubuf_info *ubuf, int flags)
{
#ifdef KIW_HAVE_SPLICE_PAGES
	return kiw_send_msg(sk, piece, pieces, skip, len, ubuf,
			    flags | (ubuf ? MSG_ZEROCOPY : MSG_SPLICE_PAGES));
#else
	struct sk_buff *last;
	int sent = 0, ret = 0;

	if (ubuf)
		return kiw_send_msg(sk, piece, pieces, skip, len, ubuf, flags | MSG_ZEROCOPY);
	for (; pieces; piece++, pieces--) {
		if (skip >= piece->bv_len) {
			skip -= piece->bv_len;
			continue;
		}
		ret = tcp_sendpage_locked(sk, piece->bv_page, piece->bv_offset + skip,
					  piece->bv_len - skip,
					  flags | (pieces > 1 ? MSG_SENDPAGE_NOTLAST : 0));
		if (ret > 0)
			sent += ret;
		if (ret != piece->bv_len - skip)
			break;
		skip = 0;
	}
	/* Of single pages TCP takes no MSG_EOR. */
	last = flags & MSG_EOR && !pieces ? tcp_write_queue_tail(sk) : NULL;
	if (last)
		TCP_SKB_CB(last)->eor = 1;
	return sent ?: ret;
#endif
}

#endif /* KIWARP_COMPAT_H */
