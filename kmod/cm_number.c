// SPDX-License-Identifier: GPL-2.0
/*
 * Connecting by queue pair number: ibv_modify_qp() to RTR names the peer's address and QP, and
 * there is no rdma_cm (proto/number.h). Of the two ends one dials, the other one's device listens.
 *
 * The one that dials tries until it succeeds, its QP is destroyed, reset or in error, or the device
 * goes: its peer may be told of it much later. The one that doesn't has no endpoint until a Request
 * comes that names its QP, from the address that was named, with the PSNs that only both programs
 * know. A Request that comes before that waits for a moment, since the programs tell each other in
 * one order or the other. How long requests wait for all this is the QP's business (qp.c).
 */
#include "cm_number.h"

#include <linux/moduleparam.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/tcp_states.h>

#include "cm_priv.h"

/* Pause between two attempts, in jiffies: it doubles from the first to the last */
#define NUMBER_PAUSE_MIN 1
#define NUMBER_PAUSE_MAX (HZ / 4)
/*
 * How long a Request that fits no QP waits for one, in jiffies. It makes no difference whether a QP
 * has that number: no stranger learns the numbers that are in use.
 */
#define NUMBER_EARLY_PATIENCE (HZ / 4)
/* Connections that TCP keeps for us; the others wait on their peers' side */
#define NUMBER_BACKLOG 1024
/* Reads that an end may have outstanding that hasn't said how many */
#define NUMBER_ORD 16

static int number_set_port(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, 65535);
}

static const struct kernel_param_ops number_port_ops = {
	.set = number_set_port,
	.get = param_get_uint,
};

static unsigned int qpn_port = 19287;
module_param_cb(qpn_port, &number_port_ops, &qpn_port, 0444);
MODULE_PARM_DESC(qpn_port,
		 "TCP port for connections by queue pair number, the same on all hosts (default: 19287)");

/* --- what both roles do --------------------------------------------------------------------- */

/* What this side wants: the peer-to-peer model, since either end may be the first to send. */
static void number_config(const struct kiw_ep *ep, const struct kiw_peer *peer)
{
	struct kiw_startup *su = ep->su;

	kiw_ep_config(ep->dev, su);
	su->cfg.rev = KIW_MPA_REV_2;
	su->cfg.p2p = true;
	su->cfg.ird = peer->ird;
	su->cfg.ird_max = peer->ird;
	su->cfg.ord = peer->ord;
}

static void number_sockaddr(struct sockaddr_storage *to, const struct in6_addr *addr, u16 port)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	six->sin6_addr = *addr;
	kiw_addr_unmap(to);
}

static bool number_same_addr(const struct sockaddr_storage *sa, const struct in6_addr *addr)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)sa;

	if (sa->ss_family == AF_INET)
		return ipv6_addr_v4mapped(addr) && addr->s6_addr32[3] == four->sin_addr.s_addr;
	return ipv6_addr_equal(addr, &six->sin6_addr);
}

/* Is the peer's frame from the QP that was named, and for the one that named it? */
static bool number_fits(const struct kiw_startup *su, const struct kiw_peer *peer,
			const struct kiw_mpa_frame *frame)
{
	struct kiw_number said;

	return kiw_number_parse(frame->pd, frame->pd_len, &said) &&
	       kiw_number_meets(&peer->ends, &said) && number_same_addr(&su->local, &peer->local) &&
	       number_same_addr(&su->remote, &peer->remote);
}

/* --- the end that dials --------------------------------------------------------------------- */

/**
 * struct number_dialer - endpoint of the end that dials
 * @ep: what all endpoints have; first, so that all are freed alike
 * @pause: jiffies until the next attempt, if this one fails
 * @next: jiffies of the next attempt, in state DIAL_WAIT
 */
struct number_dialer {
	struct kiw_ep	ep;
	unsigned long	pause;
	unsigned long	next;
};

static_assert(offsetof(struct number_dialer, ep) == 0);

static struct number_dialer *to_dialer(struct kiw_ep *ep)
{
	return container_of(ep, struct number_dialer, ep);
}

static void dial_later(struct kiw_ep *ep)
{
	struct number_dialer *d = to_dialer(ep);

	kiw_ep_unhook(ep);
	kiw_sock_disconnect(ep->sock);
	d->next = jiffies + d->pause;
	d->pause = min_t(unsigned long, 2 * d->pause, NUMBER_PAUSE_MAX);
	kiw_ep_deadline(ep, 0);
	kiw_ep_enter(ep, KIW_ST_DIAL_WAIT);
	kiw_ep_again(ep, d->next);
}

static int dial_begin(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_peer peer;
	int err;

	if (!kiw_qp_peer(ep->qp, &peer))
		return -ECONNABORTED;
	number_config(ep, &peer);
	number_sockaddr(&su->local, &peer.local, 0);
	number_sockaddr(&su->remote, &peer.remote, qpn_port);
	su->pd_len = KIW_NUMBER_LEN;
	kiw_number_build(su->pd, &peer.ends);
	err = kiw_addr_check(ep->dev, &su->local);
	if (!err)
		err = kiw_addr_check(ep->dev, &su->remote);
	if (!err)
		err = kiw_request_compose(su);
	/* The address may have come to another interface. */
	if (!err)
		err = kiw_sock_stay(ep->dev, ep->sock, &su->local);
	if (err)
		return err;
	kiw_ep_deadline(ep, kiw_connect_secs(ep->dev));
	return kiw_dial(ep);
}

/* An address may come back, a route appear, and memory: an attempt's failure is its own only. */
static void dial_wait(struct kiw_ep *ep, unsigned long events)
{
	struct number_dialer *d = to_dialer(ep);

	if (events & KIW_INBOX_READY) {
		d->pause = NUMBER_PAUSE_MIN;
	} else if (time_before(jiffies, d->next)) {
		kiw_ep_again(ep, d->next);
		return;
	}
	if (dial_begin(ep))
		dial_later(ep);
}

static void dial_answered(struct kiw_ep *ep, const struct kiw_mpa_frame *rep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_peer peer;
	int err;

	if (rep->reject || kiw_ep_excess(ep) || !kiw_qp_peer(ep->qp, &peer) ||
	    kiw_sock_names(ep->sock, &su->local, &su->remote) || !number_fits(su, &peer, rep) ||
	    kiw_mpa_conclude(&su->cfg, &su->req, rep, &su->terms) || !su->terms.p2p) {
		dial_later(ep);
		return;
	}
	err = kiw_ep_open(ep, &su->terms);
	if (!err)
		kiw_ep_established(ep);
	else if (err == -EISCONN)	/* not any more: in error, or being destroyed */
		kiw_ep_end(ep, err, KIW_END_RESET);
	else
		dial_later(ep);
}

static void dial_run(struct kiw_ep *ep, unsigned long events)
{
	struct kiw_mpa_frame rep;
	int err;

	if (ep->state == KIW_ST_DIAL_WAIT) {
		dial_wait(ep, events);
		return;
	}
	if (kiw_ep_expired(ep, events)) {
		dial_later(ep);
		return;
	}
	err = kiw_request_step(ep, &rep);
	if (!err)
		dial_answered(ep, &rep);
	else if (err != -EAGAIN)
		dial_later(ep);
}

static const struct kiw_ep_ops dial_ops = {
	.run = dial_run,
	.initiates = true,
	.quiet = true,
};

/* --- the end that is dialed ----------------------------------------------------------------- */

static void answer_prepare(struct kiw_ep *ep)
{
	INIT_LIST_HEAD(&ep->su->early);
}

/* From here on the endpoint is told when the QP is named a peer, and when it is ready. */
static void answer_await(struct kiw_ep *ep, u32 qpn)
{
	struct kiw_startup *su = ep->su;

	spin_lock_bh(&ep->dev->ep_lock);
	su->ep = ep;
	su->wants = qpn;
	list_add_tail(&su->early, &ep->dev->number_early);
	spin_unlock_bh(&ep->dev->ep_lock);
}

static void answer_leave(struct kiw_ep *ep)
{
	/* Once it is open there is no start-up any more. */
	if (ep->su) {
		spin_lock_bh(&ep->dev->ep_lock);
		list_del_init(&ep->su->early);
		spin_unlock_bh(&ep->dev->ep_lock);
	}
	kiw_listener_leave(ep);
}

/* A QP that is dialed was named a peer, or became ready. */
static void number_tell(struct kiw_device *dev, u32 qpn)
{
	struct kiw_startup *su;

	spin_lock_bh(&dev->ep_lock);
	list_for_each_entry(su, &dev->number_early, early) {
		if (su->wants == qpn)
			kiw_inbox_post(&su->ep->inbox, KIW_INBOX_READY);
	}
	spin_unlock_bh(&dev->ep_lock);
}

static bool answer_fits(const struct kiw_ep *ep, struct kiw_qp *qp, struct kiw_peer *peer)
{
	return kiw_qp_peer(qp, peer) && number_fits(ep->su, peer, &ep->su->req);
}

static int answer_bind(struct kiw_ep *ep, struct kiw_peer *peer)
{
	struct kiw_qp *qp = kiw_qp_find(ep->dev, ep->su->wants);
	int err;

	if (!qp)
		return -ENOENT;
	err = answer_fits(ep, qp, peer) ? kiw_qp_bind(qp, &ep->inbox, true) : -EACCES;
	if (err) {
		kiw_qp_put(qp);
		return err;
	}
	ep->qp = qp;
	/* Another peer may have been named just before. A stranger never has the QP. */
	if (answer_fits(ep, qp, peer))
		return 0;
	kiw_ep_drop_qp(ep);
	return -EACCES;
}

static void answer_refuse(struct kiw_ep *ep)
{
	answer_leave(ep);
	kiw_refuse(ep, "no QP here expects it", NULL, 0);
}

static void answer_request(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_mpa_frame rep;
	u8 pd[KIW_NUMBER_LEN];
	struct kiw_peer peer;

	/* The peer waits, or has given up. */
	if (inet_sk_state_load(ep->sock->sk) != TCP_ESTABLISHED || kiw_ep_excess(ep)) {
		kiw_ep_end(ep, 0, KIW_END_RESET);
		return;
	}
	if (answer_bind(ep, &peer)) {
		if (time_before(jiffies, su->ready + NUMBER_EARLY_PATIENCE))
			kiw_ep_again(ep, su->ready + NUMBER_EARLY_PATIENCE);
		else
			answer_refuse(ep);
		return;
	}
	number_config(ep, &peer);
	if (kiw_mpa_answer(&su->cfg, &su->req, &rep, &su->terms) == KIW_ERR_LLP_FRAME) {
		kiw_ep_end(ep, 0, KIW_END_RESET);
		return;
	}
	answer_leave(ep);
	kiw_sock_set_tos(ep->sock, peer.path.traffic_class);
	kiw_number_build(pd, &peer.ends);
	kiw_reply_compose(ep, &rep, pd, sizeof(pd));
	if (kiw_reply_send(ep))
		kiw_ep_end(ep, 0, KIW_END_RESET);
}

/* The Request is complete. */
static void answer_begin(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_number said;

	if (kiw_sock_names(ep->sock, &su->local, &su->remote)) {
		kiw_ep_end(ep, 0, KIW_END_RESET);
		return;
	}
	if (!su->req.p2p || !kiw_number_parse(su->req.pd, su->req.pd_len, &said)) {
		answer_refuse(ep);
		return;
	}
	su->ready = jiffies;
	kiw_ep_enter(ep, KIW_ST_REQUEST_READY);
	/* In this order: a QP that changes after answer_bind() has looked at it tells of that. */
	answer_await(ep, said.to);
	answer_request(ep);
}

static void answer_run(struct kiw_ep *ep, unsigned long events)
{
	int err;

	if (kiw_ep_expired(ep, events)) {
		kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_TIMEOUTS);
		kiw_ep_end(ep, 0, KIW_END_RESET);
	} else if (ep->state == KIW_ST_REPLY_SEND) {
		if (kiw_reply_send(ep))
			kiw_ep_end(ep, 0, KIW_END_RESET);
	} else if (ep->state == KIW_ST_REQUEST_READY) {
		answer_request(ep);
	} else if (inet_sk_state_load(ep->sock->sk) != TCP_SYN_RECV) {
		err = kiw_ep_pull(ep, KIW_MPA_REQUEST, &ep->su->req);
		if (!err)
			answer_begin(ep);
		else if (err != -EAGAIN)
			kiw_ep_end(ep, 0, KIW_END_FIN);
	}
}

static void answer_deaf(struct kiw_device *dev)
{
	WRITE_ONCE(dev->number_listens, false);
}

static const struct kiw_ep_ops answer_ops = {
	.run = answer_run,
	.prepare = answer_prepare,
	.leave = answer_leave,
	.deaf = answer_deaf,
	.quiet = true,
};

static int number_open(struct kiw_device *dev, struct sockaddr_storage *any)
{
	int err;

	/* Before it can end, so that its end is seen. */
	WRITE_ONCE(dev->number_listens, true);
	err = PTR_ERR_OR_ZERO(kiw_listener_open(dev, any, NUMBER_BACKLOG, &answer_ops, NULL));
	if (err)
		WRITE_ONCE(dev->number_listens, false);
	return err;
}

/* The device listens from the first QP on that will be dialed, and again if it was made deaf. */
static int number_listen(struct kiw_device *dev)
{
	struct sockaddr_storage any;
	int err = 0;

	mutex_lock(&dev->number_mutex);
	if (!READ_ONCE(dev->number_listens)) {
		number_sockaddr(&any, &in6addr_any, qpn_port);
		err = number_open(dev, &any);
		if (err == -EAFNOSUPPORT) {
			((struct sockaddr_in *)&any)->sin_family = AF_INET;
			err = number_open(dev, &any);
		}
	}
	mutex_unlock(&dev->number_mutex);
	return err;
}

/* --- verbs ---------------------------------------------------------------------------------- */

/* What the change to RTR says of the peer. Return: 0 or -EINVAL */
static int number_named(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask,
			struct kiw_peer *peer)
{
	const int needed = IB_QP_STATE | IB_QP_AV | IB_QP_DEST_QPN | IB_QP_RQ_PSN;
	const struct ib_global_route *grh;

	if ((mask & needed) != needed || attr->qp_state != IB_QPS_RTR)
		return -EINVAL;
	/* Connections are routed by IP: without a GID there is no address. */
	if (!(rdma_ah_get_ah_flags(&attr->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	grh = rdma_ah_read_grh(&attr->ah_attr);
	memset(peer, 0, sizeof(*peer));
	memcpy(&peer->remote, grh->dgid.raw, sizeof(peer->remote));
	if (!kiw_gid_path(qp->dev, grh->sgid_index, &peer->remote, &peer->local) ||
	    rdma_is_multicast_addr(&peer->remote))
		return -EINVAL;
	peer->gid_index = grh->sgid_index;
	peer->path.flow_label = grh->flow_label;
	peer->path.traffic_class = grh->traffic_class;
	peer->path.hop_limit = grh->hop_limit;
	peer->path.mtu = IB_MTU_4096;
	peer->ends.from = qp->ibqp.qp_num;
	peer->ends.to = attr->dest_qp_num;
	peer->ends.rq_psn = attr->rq_psn & KIW_PSN_MASK;
	peer->ird = KIW_MAX_RD_ATOM;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		peer->ird = min_t(u16, attr->max_dest_rd_atomic, KIW_MAX_RD_ATOM);
	peer->ord = NUMBER_ORD;
	/* A connection has two ends, each with a QP of its own. */
	if (peer->ends.to > KIW_QPN_MASK ||
	    (peer->ends.to == peer->ends.from && ipv6_addr_equal(&peer->local, &peer->remote)))
		return -EINVAL;
	return 0;
}

/* The endpoint of a QP that is reset gives up, connected or not, and lets go of the QP. */
static void number_end(struct kiw_qp *qp)
{
	struct kiw_inbox *inbox = kiw_qp_forget_peer(qp);

	if (!inbox)
		return;
	flush_work(&inbox->work);
	kiw_inbox_put(inbox);
}

static int number_dial(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask,
		       const struct kiw_peer *peer)
{
	struct kiw_ep *ep = kiw_ep_create(qp->dev, sizeof(struct number_dialer), &dial_ops);
	struct sockaddr_storage local;
	struct socket *sock;
	int err;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	to_dialer(ep)->pause = NUMBER_PAUSE_MIN;
	/* RTS mostly follows at once, and then the Request can say so. */
	to_dialer(ep)->next = jiffies + NUMBER_PAUSE_MIN;
	number_sockaddr(&local, &peer->local, 0);
	err = kiw_sock_create(qp->dev, qp->dev->net, NULL, &local, &sock);
	if (!err)
		kiw_sock_set_tos(sock, peer->path.traffic_class);
	mutex_lock(&ep->mutex);
	if (!err)
		err = kiw_ep_take_sock(ep, sock);
	if (!err)
		err = kiw_qp_modify(qp, attr, mask, peer);
	if (!err)
		err = kiw_qp_bind(qp, &ep->inbox, true);
	if (!err) {
		kiw_qp_get(qp);
		ep->qp = qp;
		kiw_ep_enter(ep, KIW_ST_DIAL_WAIT);
	} else if (ep->state != KIW_ST_DEAD) {
		kiw_ep_end(ep, err, KIW_END_RESET);
	}
	mutex_unlock(&ep->mutex);
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);	/* dials, or tidies up */
	kiw_ep_put(ep);
	return err;
}

int kiw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	const int numbers = IB_QP_AV | IB_QP_DEST_QPN;
	struct kiw_qp *qp = to_kiw_qp(ibqp);
	struct kiw_peer peer;
	int err;

	if (kiw_qp_is_ud(qp))
		return kiw_qp_modify(qp, attr, mask, NULL);
	if (!(mask & numbers)) {
		if ((mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RESET)
			number_end(qp);
		err = kiw_qp_modify(qp, attr, mask, NULL);
		if (!err && (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RTS)
			number_tell(qp->dev, ibqp->qp_num);
		return err;
	}
	err = number_named(qp, attr, mask, &peer);
	if (err)
		return err;
	mask &= ~numbers;
	if (kiw_number_dials(peer.local.s6_addr, peer.ends.from, peer.remote.s6_addr,
			     peer.ends.to))
		return number_dial(qp, attr, mask, &peer);
	err = number_listen(qp->dev);
	if (!err)
		err = kiw_qp_modify(qp, attr, mask, &peer);
	if (!err)
		number_tell(qp->dev, ibqp->qp_num);
	return err;
}
