// SPDX-License-Identifier: GPL-2.0
/*
 * Datagram queue pairs: the socket, the verbs and the doorbells.
 *
 * A QP ends in two steps. Unreachable: its number is withdrawn, RDMA core calls no verb of it any
 * more, and kiw_ud_close() clears @open under the lock, so that no callback uses it or queues its
 * work, and then cancels the work. Released: the socket, and a grace period later struct kiw_ud,
 * which running callbacks may still read. kiw_ud_exit() waits for these callbacks.
 */
#include "ud.h"

#include <linux/net.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/udp.h>
#include <rdma/rdma_cm_ib.h>

#include "compat.h"
#include "path.h"
#include "record.h"
#include "rx.h"
#include "tx.h"

/* Send buffer, bytes: UDP counts packets with overhead, and the longest datagram is many packets */
#define UD_SNDBUF_MIN (4 * 65536)

/* Receive buffer, bytes: several processors may queue trains at once */
#define UD_RCVBUF_MIN (16 * 65536)

/* Most packets per callback */
#define UD_READY_MAX 64

/* Jiffies until a retry for want of memory */
#define UD_STARVED (HZ / 50)

static struct workqueue_struct *ud_wq;

/* --- states --------------------------------------------------------------------------------- */

/* Complete posted requests as flushed. */
static void ud_flush(struct kiw_ud *ud)
{
	bool last = false;

	lockdep_assert_held(ud->mutex);
	kiw_ud_unsend(ud);
	kiw_core_flush_sq(ud->core);
	spin_lock_bh(&ud->lock);
	kiw_rq_flush(&ud->core->rq, NULL);
	kiw_ud_record_flush(ud);
	swap(last, ud->last);
	spin_unlock_bh(&ud->lock);
	if (last)
		kiw_qp_raise_last_wqe(ud->ibqp);
}

/* Enter the error state; ud_flush() must follow. */
static void ud_enter_error(struct kiw_ud *ud)
{
	lockdep_assert_held(&ud->lock);
	if (ud->state == IB_QPS_ERR)
		return;
	WRITE_ONCE(ud->state, IB_QPS_ERR);
	ud->last = true;
}

/*
 * The process ruined its rings, or left no room for completions. The work flushes, since callbacks
 * do not hold the send queue.
 */
static void ud_break(struct kiw_ud *ud)
{
	spin_lock_bh(&ud->lock);
	if (ud->open && ud->state != IB_QPS_ERR) {
		ud_enter_error(ud);
		ud->fatal = true;
		mod_delayed_work(ud_wq, &ud->work, 0);
	}
	spin_unlock_bh(&ud->lock);
}

static void ud_send(struct kiw_ud *ud)
{
	switch (kiw_ud_send(ud, KIW_UD_BUDGET)) {
	case KIW_UD_SENT_ALL:
	case KIW_UD_SENT_STALLED:
		break;
	case KIW_UD_SENT_SOME:
		mod_delayed_work(ud_wq, &ud->work, 0);
		break;
	case KIW_UD_SENT_STARVED:
		mod_delayed_work(ud_wq, &ud->work, UD_STARVED);
		break;
	case KIW_UD_SENT_BROKEN:
		ud_break(ud);
		break;
	}
}

static void ud_work(struct work_struct *work)
{
	struct kiw_ud *ud = container_of(to_delayed_work(work), struct kiw_ud, work);
	bool fatal = false;

	mutex_lock(ud->mutex);
	switch (READ_ONCE(ud->state)) {
	case IB_QPS_RTS:
		ud_send(ud);
		break;
	case IB_QPS_ERR:
		ud_flush(ud);
		spin_lock_bh(&ud->lock);
		swap(fatal, ud->fatal);
		spin_unlock_bh(&ud->lock);
		break;
	default:
		break;
	}
	mutex_unlock(ud->mutex);
	if (fatal)
		kiw_qp_raise(ud->ibqp, IB_EVENT_QP_FATAL);
}

/* --- the socket ----------------------------------------------------------------------------- */

static void ud_count(struct sock *sk, const struct sk_buff *skb, int what)
{
	__SNMP_INC_STATS(__UDPX_MIB(sk, skb->protocol == htons(ETH_P_IP)), what);
}

/* UDP leaves the checksum and its counters to readers. */
static bool ud_checksum_good(struct sock *sk, struct sk_buff *skb)
{
	if (skb_checksum_complete(skb)) {
		ud_count(sk, skb, UDP_MIB_CSUMERRORS);
		ud_count(sk, skb, UDP_MIB_INERRORS);
		return false;
	}
	ud_count(sk, skb, UDP_MIB_INDATAGRAMS);
	return true;
}

static bool ud_has_queued(struct sock *sk)
{
	return !skb_queue_empty_lockless(&sk->sk_receive_queue) ||
	       !skb_queue_empty_lockless(&udp_sk(sk)->reader_queue);
}

/*
 * UDP queued a packet; BH off. UDP calls for each packet, so a call for packets that another
 * processor queues meanwhile follows.
 */
static void ud_data_ready(struct sock *sk)
{
	struct sk_buff *skb;
	struct kiw_ud *ud;
	int err, i;

	rcu_read_lock();
	ud = rcu_dereference_sk_user_data(sk);
	for (i = 0; ud && i < UD_READY_MAX && ud_has_queued(sk); i++) {
		/*
		 * None: another processor got it, or the socket reported an error, which it does
		 * once.
		 */
		skb = skb_recv_udp(sk, MSG_DONTWAIT, &err);
		if (!skb)
			continue;
		if (ud_checksum_good(sk, skb) && !kiw_ud_receive(ud, skb, sk == ud->own))
			ud_break(ud);
		consume_skb(skb);
	}
	rcu_read_unlock();
}

/* The kernel freed a packet of the socket. */
static void ud_write_space(struct sock *sk)
{
	struct kiw_ud *ud;

	smp_mb();	/* pairs with that in udtx_stall() */
	rcu_read_lock();
	ud = rcu_dereference_sk_user_data(sk);
	if (ud && READ_ONCE(ud->stalled)) {
		spin_lock_bh(&ud->lock);
		if (ud->open)
			mod_delayed_work(ud_wq, &ud->work, 0);
		spin_unlock_bh(&ud->lock);
	}
	rcu_read_unlock();
}

/* Create a socket for IPv4 and IPv6, or for IPv4 if there is no IPv6. */
static int ud_make_socket(struct kiw_device *dev, struct socket **sock)
{
	int err = sock_create_kern(dev->net, AF_INET6, SOCK_DGRAM, IPPROTO_UDP, sock);

	if (err == -EAFNOSUPPORT)
		err = sock_create_kern(dev->net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, sock);
	return err;
}

/*
 * Refuse datagrams of groups that other sockets joined. Some kernels lack these options;
 * kiw_ud_receive() checks, too.
 */
static void ud_join_nothing(struct socket *sock)
{
	int off = 0;

	sock->ops->setsockopt(sock, SOL_IP, IP_MULTICAST_ALL, KERNEL_SOCKPTR(&off), sizeof(off));
	if (sock->sk->sk_family == AF_INET6)
		sock->ops->setsockopt(sock, SOL_IPV6, IPV6_MULTICAST_ALL, KERNEL_SOCKPTR(&off),
				      sizeof(off));
}

static int ud_bind(struct socket *sock, struct kiw_device *dev, u16 port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sock *sk = sock->sk;
	int err;

	err = sock_bindtoindex(sk, dev->ifindex, true);
	if (err)
		return err;
	if (sk->sk_family == AF_INET)
		return kernel_bind(sock, kiw_sockaddr(&any4), sizeof(any4));
	sk->sk_ipv6only = false;
	return kernel_bind(sock, kiw_sockaddr(&any), sizeof(any));
}

/*
 * Datagrams wait in the socket's queue only until ud_data_ready() runs. UDP's encapsulation
 * callback would get the datagrams of a train one by one.
 */
void kiw_ud_listen(struct kiw_ud *ud, struct socket *sock)
{
	struct sock *sk = sock->sk;
	int on = 1;

#ifdef CONFIG_NET_RX_BUSY_POLL
	/* With net.core.busy_read, a read of an empty queue would poll the interface. */
	WRITE_ONCE(sk->sk_ll_usec, 0);
#endif
	WRITE_ONCE(sk->sk_rcvbuf, max(sk->sk_rcvbuf, UD_RCVBUF_MIN));
	/* On failure each datagram comes alone. */
	sock->ops->setsockopt(sock, SOL_UDP, UDP_GRO, KERNEL_SOCKPTR(&on), sizeof(on));
	rcu_assign_sk_user_data(sk, ud);
	WRITE_ONCE(sk->sk_data_ready, ud_data_ready);
}

/* A running callback may still hold the QP; it checks @open. */
void kiw_ud_unlisten(struct socket *sock)
{
	rcu_assign_sk_user_data(sock->sk, NULL);
	sock_release(sock);
}

/* Prepare the socket that sends. */
static void ud_prepare(struct kiw_ud *ud)
{
	struct sock *sk = ud->sock->sk;

	ud->saved_write_space = sk->sk_write_space;
	WRITE_ONCE(sk->sk_write_space, ud_write_space);
	sk->sk_sndbuf = max(sk->sk_sndbuf, UD_SNDBUF_MIN);
	sock_set_flag(sk, SOCK_BROADCAST);
}

struct kiw_ud *kiw_ud_open(struct ib_qp *ibqp, struct kiw_core *core, struct mutex *mutex,
			   const struct kiw_create_qp_req *req)
{
	u32 sges = core->sq.max_sge + core->rq.max_sge;
	struct kiw_ud *ud;
	int err;

	ud = kzalloc(struct_size(ud, sge, sges), GFP_KERNEL_ACCOUNT);
	if (!ud)
		return ERR_PTR(-ENOMEM);
	ud->ibqp = ibqp;
	ud->dev = to_kiw_device(ibqp->device);
	ud->core = core;
	ud->mutex = mutex;
	spin_lock_init(&ud->lock);
	ud->state = IB_QPS_RESET;
	kiw_rq_call(&core->rq);	/* the doorbell refuses requests */
	ud->req.sge = ud->sge;
	ud->recv.sge = ud->sge + core->sq.max_sge;
	ud->seg_size = req->seg_size ?: KIW_RECORD_SEG_SIZE;
	/* Peers remember messages of a former owner of the port. */
	ud->write_id = get_random_u32();
	INIT_LIST_HEAD(&ud->groups);
	INIT_DELAYED_WORK(&ud->work, ud_work);
	if (req->flags & KIW_QP_RECORD) {
		err = kiw_ud_record_open(ud, req->record_timeout);
		if (err)
			goto free;
	}
	err = ud_make_socket(ud->dev, &ud->sock);
	if (err)
		goto close_record;
	ud->open = true;
	ud->own = ud->sock->sk;
	ud_join_nothing(ud->sock);
	ip_sock_set_pktinfo(ud->sock->sk);	/* for udrx_is_unicast() */
	kiw_ud_listen(ud, ud->sock);
	ud_prepare(ud);
	err = ud_bind(ud->sock, ud->dev, req->udp_port);
	/* On that port, one QP would exclude all others of the namespace from groups. */
	if (!err && kiw_ud_port(ud) == kiw_ud_group_port())
		err = -EADDRINUSE;
	if (err) {
		kiw_ud_close(ud);
		return ERR_PTR(kiw_ud_error(err));
	}
	return ud;

close_record:
	kiw_ud_record_close(ud);
free:
	kfree(ud);
	return ERR_PTR(kiw_ud_error(err));
}

u16 kiw_ud_port(const struct kiw_ud *ud)
{
	return ntohs(inet_sk(ud->sock->sk)->inet_sport);
}

void kiw_ud_close(struct kiw_ud *ud)
{
	WARN_ON_ONCE(!list_empty(&ud->groups));
	spin_lock_bh(&ud->lock);
	ud->open = false;
	spin_unlock_bh(&ud->lock);
	cancel_delayed_work_sync(&ud->work);
	/* Packets may outlive the socket, and even the module. */
	WRITE_ONCE(ud->sock->sk->sk_write_space, ud->saved_write_space);
	kiw_ud_unlisten(ud->sock);
	kiw_ud_record_close(ud);
	kiw_batch_free(&ud->train.batch);
	kfree_rcu(ud, rcu);
}

/* --- verbs ---------------------------------------------------------------------------------- */

/*
 * librdmacm assumes that each queue pair of iWARP uses access rights and no Q_Key; then it means
 * RDMA_UDP_QKEY.
 */
static bool ud_is_rdma_cms(enum ib_qp_state from, enum ib_qp_state to, int mask)
{
	return from == IB_QPS_RESET && to == IB_QPS_INIT &&
	       mask == (IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_PORT);
}

/* Datagrams are unordered, so there is nothing to drain: SQD and SQE are not supported. */
static bool ud_may_go(enum ib_qp_state from, enum ib_qp_state to, int mask)
{
	if (to == IB_QPS_SQD || to == IB_QPS_SQE)
		return false;
	return ud_is_rdma_cms(from, to, mask) ||
	       ib_modify_qp_is_ok(from, to, IB_QPT_UD, mask);
}

static int ud_change(struct kiw_ud *ud, const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state from, to;
	int ret = -EINVAL;

	spin_lock_bh(&ud->lock);
	from = ud->state;
	to = mask & IB_QP_STATE ? attr->qp_state : from;
	if (((mask & IB_QP_CUR_STATE) && attr->cur_qp_state != from) || !ud_may_go(from, to, mask))
		goto unlock;
	if (mask & IB_QP_SQ_PSN)
		ud->sq_psn = attr->sq_psn;
	if (mask & IB_QP_QKEY)
		WRITE_ONCE(ud->qkey, attr->qkey);
	else if (ud_is_rdma_cms(from, to, mask))
		WRITE_ONCE(ud->qkey, RDMA_UDP_QKEY);
	if (to == IB_QPS_RESET) {
		kiw_ud_record_forget(ud);
		kiw_rq_forget(&ud->core->rq);
		kiw_rq_call(&ud->core->rq);	/* the doorbell refuses requests */
	} else if (from == IB_QPS_RESET) {
		kiw_rq_open(&ud->core->rq);
	}
	if (to == IB_QPS_ERR)
		ud_enter_error(ud);
	else
		WRITE_ONCE(ud->state, to);
	ret = 0;
unlock:
	spin_unlock_bh(&ud->lock);
	return ret;
}

int kiw_ud_modify(struct kiw_ud *ud, const struct ib_qp_attr *attr, int mask)
{
	int ret;

	mutex_lock(ud->mutex);
	ret = ud_change(ud, attr, mask);
	if (!ret && READ_ONCE(ud->state) == IB_QPS_ERR) {
		ud_flush(ud);
	} else if (!ret && READ_ONCE(ud->state) == IB_QPS_RESET) {
		kiw_ud_unsend(ud);
		kiw_sq_forget(&ud->core->sq);
		kiw_sq_flag(&ud->core->sq, 0);
	}
	mutex_unlock(ud->mutex);
	return ret;
}

void kiw_ud_query(const struct kiw_ud *ud, struct ib_qp_attr *attr, int mask)
{
	attr->qp_state = READ_ONCE(ud->state);
	attr->cur_qp_state = attr->qp_state;
	/* RDMA core queries with an empty mask for each user that lists resources. */
	if (mask & IB_QP_QKEY)
		attr->qkey = READ_ONCE(ud->qkey);
	if (mask & IB_QP_SQ_PSN)
		attr->sq_psn = READ_ONCE(ud->sq_psn);
}

int kiw_ud_doorbell(struct kiw_ud *ud, bool send)
{
	int ret = 0;

	mutex_lock(ud->mutex);
	if (READ_ONCE(ud->state) == IB_QPS_ERR)
		ud_flush(ud);
	else if (send && READ_ONCE(ud->state) == IB_QPS_RTS)
		ud_send(ud);
	else if (send || READ_ONCE(ud->state) == IB_QPS_RESET)
		ret = -EINVAL;
	mutex_unlock(ud->mutex);
	return ret;
}

int kiw_ud_init(void)
{
	ud_wq = alloc_workqueue("kiwarp_ud", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return ud_wq ? 0 : -ENOMEM;
}

/* Sockets are gone; their callbacks may still run. */
void kiw_ud_exit(void)
{
	synchronize_net();
	destroy_workqueue(ud_wq);
}
