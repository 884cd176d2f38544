// SPDX-License-Identifier: GPL-2.0
/*
 * Connecting by queue pair number: ibv_modify_qp() to RTR names the peer's address and QP, without
 * rdma_cm (proto/number.h). One end dials; the other end's device listens (port.c).
 *
 * The dialing end tries until it succeeds, its QP is destroyed, reset or in error, or the device
 * goes: the peer's program may come much later. The other end has no endpoint until a Request for
 * its QP comes from the named address, with a PSN that only both programs know. An earlier Request
 * waits for a while, since the programs exchange the numbers in either order. The QP limits how
 * long requests wait for all this (peer.c).
 *
 * A QP connects once. Then it accepts no Request and does not dial until it is reset: otherwise
 * data of its first connection could be replayed to it.
 */
#include "number.h"

#include <linux/cred.h>
#include <linux/random.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/tcp_states.h>

#include "payer.h"
#include "priv.h"

/* Pause between two attempts, in jiffies; doubles from first to last */
#define NUMBER_PAUSE_MIN 1
#define NUMBER_PAUSE_MAX (4 * HZ)
/* Longest pause after an attempt that sent no packet, as without a route, jiffies */
#define NUMBER_PAUSE_HOME (HZ / 4)
/*
 * A user's QP pauses for the number of the user's dialing QPs, times the larger of NUMBER_TURN and
 * NUMBER_TURN_OF_USER for each user, milliseconds: a user makes at most 250 attempts per second,
 * with any number of QPs, and all users together 1,000.
 */
#define NUMBER_TURN 4
#define NUMBER_TURN_OF_USER 1
/* QPs of a user that may begin to dial at once; of the others one per millisecond */
#define NUMBER_CROWD 256
/*
 * Jiffies that a Request without a fitting QP waits for one. The time is the same whether or not
 * the number exists: no stranger learns which numbers are in use.
 */
#define NUMBER_EARLY_PATIENCE (2 * HZ)
/* Outstanding Reads of an end that did not state its number */
#define NUMBER_ORD 16
/*
 * A process on a user-level device has a TCP port of its own, which its numbers tell: they are the
 * port times 256, plus an index. Programs without privileges get no port below 1024.
 */
#define NUMBER_TELLS_PORT (1024U << 8)

/* --- both roles ----------------------------------------------------------------------------- */

/* Configure the peer-to-peer model, since either end may send first. */
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

static struct in6_addr number_addr(const struct sockaddr_storage *sa)
{
	struct in6_addr mapped;

	if (sa->ss_family != AF_INET)
		return ((const struct sockaddr_in6 *)sa)->sin6_addr;
	ipv6_addr_set_v4mapped(((const struct sockaddr_in *)sa)->sin_addr.s_addr, &mapped);
	return mapped;
}

/* Is the connection between the named addresses? */
static bool number_same_ends(const struct kiw_startup *su, const struct kiw_peer *peer)
{
	struct in6_addr local = number_addr(&su->local), remote = number_addr(&su->remote);

	return ipv6_addr_equal(&local, &peer->local) && ipv6_addr_equal(&remote, &peer->remote);
}

static void number_other_version(const struct kiw_ep *ep, u8 version)
{
	ibdev_warn_ratelimited(&ep->dev->ibdev,
			       "%pISpc connects by queue pair number in version %u, this kiwarp in version %u: it is refused\n",
			       &ep->su->remote, version, KIW_NUMBER_VERSION);
}

/* The right peer, but no common terms: every further attempt would fail alike. */
static void number_no_terms(struct kiw_ep *ep, struct kiw_qp *qp)
{
	ibdev_warn_ratelimited(&ep->dev->ibdev,
			       "QP %u and %pISpc have no ready-to-receive message in common: see the option rtr of both links\n",
			       qp->ibqp.qp_num, &ep->su->remote);
	kiw_qp_give_up(qp);
}

/* --- users ---------------------------------------------------------------------------------- */

/**
 * struct number_user - a user with QPs that dial
 * @link: in the device's list
 * @uid: user ID
 * @dialing: number of these QPs
 *
 * Exists while @dialing is not 0; protected by the device's ep_lock.
 */
struct number_user {
	struct list_head	link;
	kuid_t			uid;
	u32			dialing;
};

/* Count one more dialing QP of the current user. Return: the user, or NULL without memory. */
static struct number_user *number_user_get(struct kiw_device *dev)
{
	struct number_user *user, *new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);

	if (!new)
		return NULL;
	new->uid = kiw_payer(current_cred());
	spin_lock_bh(&dev->ep_lock);
	list_for_each_entry(user, &dev->number.users, link) {
		if (uid_eq(user->uid, new->uid))
			goto out_unlock;
	}
	user = new;
	new = NULL;
	list_add_tail(&user->link, &dev->number.users);
	dev->number.num_users++;
out_unlock:
	user->dialing++;
	spin_unlock_bh(&dev->ep_lock);
	kfree(new);
	return user;
}

static void number_user_put(struct kiw_device *dev, struct number_user *user)
{
	bool last;

	spin_lock_bh(&dev->ep_lock);
	last = !--user->dialing;
	if (last) {
		list_del(&user->link);
		dev->number.num_users--;
	}
	spin_unlock_bh(&dev->ep_lock);
	if (last)
		kfree(user);
}

/* Jiffies for one attempt of each of the user's QPs */
static unsigned long number_turn(struct kiw_device *dev, const struct number_user *user)
{
	unsigned long ms;

	spin_lock_bh(&dev->ep_lock);
	ms = user->dialing * max_t(u32, NUMBER_TURN, dev->number.num_users * NUMBER_TURN_OF_USER);
	spin_unlock_bh(&dev->ep_lock);
	return msecs_to_jiffies(ms);
}

/* Jiffies before a QP's first attempt */
static unsigned long number_crowd(struct kiw_device *dev, const struct number_user *user)
{
	u32 dialing;

	spin_lock_bh(&dev->ep_lock);
	dialing = user->dialing;
	spin_unlock_bh(&dev->ep_lock);
	return dialing > NUMBER_CROWD ? msecs_to_jiffies(dialing - NUMBER_CROWD) : 0;
}

/* --- the end that dials --------------------------------------------------------------------- */

/**
 * struct number_dialer - endpoint of the end that dials
 * @ep: common part; first, so that all are freed alike
 * @user: charged for the attempts; NULL after the last
 * @pause: jiffies until the next attempt, if this one fails
 * @next: jiffies of the next attempt, in state DIAL_WAIT
 * @tried: there was an attempt
 * @elsewhere: the next attempt is at the port that the number tells, if it tells one
 * @said: contents of the Request of the present attempt
 */
struct number_dialer {
	struct kiw_ep		ep;
	struct number_user	*user;
	unsigned long		pause;
	unsigned long		next;
	bool			tried;
	bool			elsewhere;
	struct kiw_number_said	said;
};

static_assert(offsetof(struct number_dialer, ep) == 0);

static struct number_dialer *to_dialer(struct kiw_ep *ep)
{
	return container_of(ep, struct number_dialer, ep);
}

/* Make no more attempts. */
static void dial_leave(struct kiw_ep *ep)
{
	struct number_dialer *d = to_dialer(ep);

	if (d->user)
		number_user_put(ep->dev, d->user);
	d->user = NULL;
}

static void dial_break_off(struct kiw_ep *ep)
{
	kiw_ep_unhook(ep);
	kiw_sock_disconnect(ep->sock);
	kiw_ep_deadline(ep, 0);
	kiw_ep_enter(ep, KIW_ST_DIAL_WAIT);
}

/*
 * The pause grows up to @most. A random part extends each, so that QPs which began together
 * diverge.
 */
static void dial_pause(struct kiw_ep *ep, unsigned long most)
{
	struct number_dialer *d = to_dialer(ep);
	unsigned long pause = max(d->pause, number_turn(ep->dev, d->user));

	dial_break_off(ep);
	d->next = jiffies + pause + get_random_u32() % (pause / 4 + 1);
	d->pause = min(2 * d->pause, most);
	kiw_ep_again(ep, d->next);
}

static void dial_later(struct kiw_ep *ep)
{
	dial_pause(ep, NUMBER_PAUSE_MAX);
}

/* Return: 0, -ECONNABORTED without a peer of the QP, or -EINVAL. */
static int dial_compose(struct kiw_ep *ep, struct kiw_peer *peer)
{
	struct kiw_startup *su = ep->su;

	if (!kiw_qp_peer(ep->qp, peer))
		return -ECONNABORTED;
	number_config(ep, peer);
	su->pd_len = KIW_NUMBER_LEN;
	kiw_number_request(su->pd, &peer->ends, get_random_u64(), &to_dialer(ep)->said);
	return kiw_request_compose(su);
}

/*
 * TCP refused. A rejection is the answer of the port that all hosts know: then a port that any user
 * of that host may hold is not asked.
 */
static void dial_elsewhere(struct kiw_ep *ep)
{
	struct number_dialer *d = to_dialer(ep);

	d->elsewhere = !d->elsewhere;
	dial_later(ep);
}

static int dial_addresses(struct kiw_ep *ep, const struct kiw_peer *peer)
{
	struct kiw_startup *su = ep->su;
	u16 port = kiw_port();
	bool near = kiw_port_near(ep->dev, &peer->remote, &port);
	int err;

	if (!port)
		return -ECONNREFUSED;
	if (to_dialer(ep)->elsewhere && peer->ends.to >= NUMBER_TELLS_PORT)
		port = peer->ends.to >> 8;
	number_sockaddr(&su->local, &peer->local, 0);
	number_sockaddr(&su->remote, &peer->remote, port);
	err = kiw_addr_check(ep->dev, &su->local);
	if (!err)
		err = kiw_addr_check(ep->dev, &su->remote);
	if (err)
		return err;
	/* The address may have moved to another interface. */
	return near ? kiw_sock_roam(ep->sock) : kiw_sock_stay(ep->dev, ep->sock, &su->local);
}

static int dial_begin(struct kiw_ep *ep)
{
	struct kiw_peer peer;
	int err;

	to_dialer(ep)->tried = true;
	if (kiw_number_mode(ep->dev) == KIW_NUMBER_OFF)
		return -EOPNOTSUPP;
	err = dial_compose(ep, &peer);
	if (!err)
		err = dial_addresses(ep, &peer);
	if (err)
		return err;
	kiw_ep_deadline(ep, kiw_connect_secs(ep->dev));
	return kiw_dial(ep);
}

/* A strict link states its own PSN, so that the peer states the other. */
static bool dial_waits_for_rts(struct kiw_ep *ep)
{
	struct kiw_peer peer;

	return kiw_number_mode(ep->dev) == KIW_NUMBER_STRICT && kiw_qp_peer(ep->qp, &peer) &&
	       !peer.ends.ready;
}

/* Continue after any failure: an address or a route may come back, and memory too. */
static void dial_wait(struct kiw_ep *ep, unsigned long events)
{
	struct number_dialer *d = to_dialer(ep);
	unsigned long crowd;

	if (events & KIW_INBOX_READY) {
		crowd = number_crowd(ep->dev, d->user);
		d->pause = NUMBER_PAUSE_MIN;
		if (d->tried || !crowd)
			d->next = jiffies + crowd;
	}
	if (time_before(jiffies, d->next))
		kiw_ep_again(ep, d->next);
	else if (dial_waits_for_rts(ep))
		return;
	else if (dial_begin(ep))
		dial_pause(ep, NUMBER_PAUSE_HOME);
}

/* The program went on to RTS, and the Request of this attempt does not say so. */
static void dial_ready(struct kiw_ep *ep)
{
	struct kiw_peer peer;

	/* Nothing of it is sent yet: rewrite it. */
	if (!ep->su->out_sent && !dial_compose(ep, &peer))
		return;
	dial_break_off(ep);
	dial_wait(ep, KIW_INBOX_READY);
}

/* An end of another version rejects and states its version; version 1 states none. */
static void dial_rejected(const struct kiw_ep *ep, const struct kiw_mpa_frame *rep)
{
	struct kiw_number_said said;

	if (!rep->pd_len)
		number_other_version(ep, 1);
	else if (kiw_number_parse(rep->pd, rep->pd_len, &said) == KIW_NUMBER_OTHER_VERSION)
		number_other_version(ep, said.version);
}

/* Is the Reply from the named end? */
static bool dial_believes(struct kiw_ep *ep, const struct kiw_mpa_frame *rep,
			  struct kiw_number_said *said)
{
	struct kiw_startup *su = ep->su;
	struct kiw_peer peer;

	if (kiw_ep_excess(ep) || !kiw_qp_peer(ep->qp, &peer) ||
	    kiw_sock_names(ep->sock, &su->local, &su->remote) || !number_same_ends(su, &peer))
		return false;
	switch (kiw_number_parse(rep->pd, rep->pd_len, said)) {
	case KIW_NUMBER_GOOD:
		break;
	case KIW_NUMBER_OTHER_VERSION:
		number_other_version(ep, said->version);
		return false;
	default:
		return false;
	}
	switch (kiw_number_proves(&peer.ends, &to_dialer(ep)->said, said)) {
	case KIW_NUMBER_PROVED:
		return true;
	case KIW_NUMBER_UNPROVED:
	case KIW_NUMBER_LATER:
		return kiw_number_mode(ep->dev) != KIW_NUMBER_STRICT;
	default:
		ibdev_dbg(&ep->dev->ibdev, "a Reply of %pISpc proves nothing\n", &su->remote);
		return false;
	}
}

static void dial_open(struct kiw_ep *ep, const struct kiw_number_said *said)
{
	const struct kiw_number_said *own = &to_dialer(ep)->said;
	int err;

	kiw_qp_meet(ep->qp, said->limited);
	err = kiw_ep_prepare(ep, &ep->su->terms) ?: kiw_ep_open(ep);
	if (!err && !own->ready && !kiw_qp_proved(ep->qp, &ep->inbox, said->psn))
		kiw_ep_end(ep, -EACCES, KIW_END_RESET);
	else if (!err)
		kiw_ep_established(ep);
	else if (err == -EISCONN)	/* QP in error or being destroyed */
		kiw_ep_end(ep, err, KIW_END_RESET);
	else
		dial_later(ep);
	if (!err)
		dial_leave(ep);
}

static void dial_answered(struct kiw_ep *ep, const struct kiw_mpa_frame *rep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_number_said said;
	enum kiw_err why;

	if (rep->reject)
		dial_rejected(ep, rep);
	if (rep->reject || !dial_believes(ep, rep, &said)) {
		dial_later(ep);
		return;
	}
	why = kiw_mpa_conclude(&su->cfg, &su->req, rep, &su->terms);
	if (why == KIW_ERR_LLP_RTR) {
		number_no_terms(ep, ep->qp);
		kiw_ep_end(ep, -EPROTO, KIW_END_RESET);
	} else if (why || !su->terms.p2p) {
		dial_later(ep);
	} else {
		dial_open(ep, &said);
	}
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
	else if (err == -ECONNREFUSED)
		dial_elsewhere(ep);
	else if (err != -EAGAIN)
		dial_later(ep);
	else if ((events & KIW_INBOX_READY) && !to_dialer(ep)->said.ready)
		dial_ready(ep);
}

static const struct kiw_ep_ops dial_ops = {
	.run = dial_run,
	.leave = dial_leave,
	.size = sizeof(struct number_dialer),
	.initiates = true,
	.quiet = true,
};

/* --- the end that is dialed ----------------------------------------------------------------- */

/**
 * struct number_answerer - endpoint of the end that is dialed
 * @ep: common part; first, so that all are freed alike
 * @waits: the Request is among those that wait for their QP
 * @said: contents of the Request
 */
struct number_answerer {
	struct kiw_ep		ep;
	bool			waits;
	struct kiw_number_said	said;
};

static_assert(offsetof(struct number_answerer, ep) == 0);

static struct number_answerer *to_answerer(struct kiw_ep *ep)
{
	return container_of(ep, struct number_answerer, ep);
}

/* Is it a Request of the QP's named peer? */
static bool answer_meets(const struct number_answerer *a, const struct kiw_peer *peer)
{
	return kiw_number_answers(&peer->ends, &a->said) && number_same_ends(a->ep.su, peer);
}

/* From now on number_tell() finds the endpoint. */
static void answer_await(struct number_answerer *a)
{
	struct in6_addr local = number_addr(&a->ep.su->local);
	struct in6_addr remote = number_addr(&a->ep.su->remote);

	kiw_early_add(&a->ep, &a->said, &local, &remote);
	a->waits = true;
}

/*
 * The program named a peer for a dialed QP, the QP became ready, or it lost a connection that was
 * never established.
 */
static void number_tell(struct kiw_qp *qp)
{
	struct kiw_peer peer;

	if (kiw_qp_peer(qp, &peer))
		kiw_early_tell(qp->dev, &peer);
}

static void answer_forget(struct kiw_ep *ep)
{
	struct number_answerer *a = to_answerer(ep);

	if (a->waits)
		kiw_early_remove(ep);
	a->waits = false;
	kiw_listener_leave(ep);
}

static void answer_leave(struct kiw_ep *ep)
{
	struct kiw_qp *qp;

	answer_forget(ep);
	/* The peer may have replaced this connection by another. */
	qp = kiw_qp_find(ep->dev, to_answerer(ep)->said.to);
	if (!qp)
		return;
	number_tell(qp);
	kiw_qp_put(qp);
}

static bool answer_fits(struct kiw_ep *ep, struct kiw_qp *qp, struct kiw_peer *peer)
{
	return kiw_qp_peer(qp, peer) && answer_meets(to_answerer(ep), peer) &&
	       (peer->ends.ready || kiw_number_mode(ep->dev) != KIW_NUMBER_STRICT);
}

static int answer_bind(struct kiw_ep *ep, struct kiw_peer *peer)
{
	struct kiw_qp *qp = kiw_qp_find(ep->dev, to_answerer(ep)->said.to);
	int err;

	if (!qp)
		return -ENOENT;
	err = answer_fits(ep, qp, peer) ? kiw_qp_bind(qp, &ep->inbox, true) : -EACCES;
	if (err) {
		kiw_qp_put(qp);
		return err;
	}
	ep->qp = qp;
	/* The program may have named another peer just before. A stranger never keeps the QP. */
	if (answer_fits(ep, qp, peer))
		return 0;
	kiw_ep_drop_qp(ep);
	return -EACCES;
}

static void answer_refuse(struct kiw_ep *ep)
{
	u8 pd[KIW_NUMBER_REJECT_LEN];

	answer_forget(ep);
	kiw_number_reject(pd);
	kiw_refuse(ep, "no QP here expects it", pd, sizeof(pd));
}

/* Let the Reply report it to the peer; no stream follows. */
static void answer_no_terms(struct kiw_ep *ep)
{
	struct kiw_qp *qp = ep->qp;

	kiw_qp_get(qp);
	kiw_ep_drop_qp(ep);
	number_no_terms(ep, qp);
	kiw_qp_put(qp);
	ep->su->reject = true;
}

static void answer_request(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_mpa_frame rep;
	u8 pd[KIW_NUMBER_LEN];
	struct kiw_peer peer;

	/* A peer that does not wait gave up. */
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
	answer_forget(ep);
	if (!(su->cfg.rtr & su->req.rtr))
		answer_no_terms(ep);
	else
		kiw_qp_meet(ep->qp, to_answerer(ep)->said.limited);
	/* Without a Reply the peer dials again. */
	if (!su->reject && kiw_ep_prepare(ep, &su->terms)) {
		kiw_ep_end(ep, 0, KIW_END_RESET);
		return;
	}
	kiw_sock_set_tos(ep->sock, peer.path.traffic_class);
	kiw_number_reply(pd, &peer.ends, &to_answerer(ep)->said);
	kiw_reply_compose(ep, &rep, pd, sizeof(pd));
	if (kiw_reply_send(ep))
		kiw_ep_end(ep, 0, KIW_END_RESET);
}

/* An inner listener is bound to no interface and serves only other links of the host. */
static bool answer_is_astray(struct kiw_ep *ep)
{
	struct in6_addr remote = number_addr(&ep->su->remote);
	u16 port;

	return !ep->sock->sk->sk_bound_dev_if && !kiw_port_near(ep->dev, &remote, &port);
}

/* The Request is complete. */
static void answer_begin(struct kiw_ep *ep)
{
	struct number_answerer *a = to_answerer(ep);
	struct kiw_startup *su = ep->su;
	enum kiw_number_form form;

	if (kiw_sock_names(ep->sock, &su->local, &su->remote) || answer_is_astray(ep)) {
		kiw_ep_end(ep, 0, KIW_END_RESET);
		return;
	}
	form = kiw_number_parse(su->req.pd, su->req.pd_len, &a->said);
	if (form == KIW_NUMBER_OTHER_VERSION)
		number_other_version(ep, a->said.version);
	if (form != KIW_NUMBER_GOOD || !su->req.p2p) {
		a->said.to = 0;
		answer_refuse(ep);
		return;
	}
	su->ready = jiffies;
	kiw_ep_deadline(ep, 0);	/* the Request is complete */
	kiw_ep_enter(ep, KIW_ST_REQUEST_READY);
	/* This order: a QP that changes after answer_bind() read it then notifies the endpoint. */
	answer_await(a);
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

static const struct kiw_ep_ops answer_ops = {
	.run = answer_run,
	.leave = answer_leave,
	.size = sizeof(struct number_answerer),
	.quiet = true,
};

/* --- the device ----------------------------------------------------------------------------- */

void kiw_number_init(struct kiw_device *dev)
{
	dev->number.early = RB_ROOT;
	INIT_LIST_HEAD(&dev->number.users);
	kiw_port_init(dev, &answer_ops);
}

/* --- verbs ---------------------------------------------------------------------------------- */

/* Read the peer from the attributes of a change to RTR. Return: 0 or -EINVAL. */
static int number_named(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask,
			struct kiw_peer *peer)
{
	const int needed = IB_QP_STATE | IB_QP_AV | IB_QP_DEST_QPN | IB_QP_RQ_PSN;
	const struct ib_global_route *grh;

	if ((mask & needed) != needed || attr->qp_state != IB_QPS_RTR)
		return -EINVAL;
	/* Connections need an IP address, which only a GID holds. */
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
	peer->ird = mask & IB_QP_MAX_DEST_RD_ATOMIC ? attr->max_dest_rd_atomic : KIW_MAX_RD_ATOM;
	peer->ord = NUMBER_ORD;
	/* A connection needs two QPs. */
	if (peer->ends.to > KIW_QPN_MASK || peer->ird > KIW_MAX_RD_ATOM ||
	    (peer->ends.to == peer->ends.from && ipv6_addr_equal(&peer->local, &peer->remote)))
		return -EINVAL;
	return 0;
}

/* The endpoint of a reset QP gives up, connected or not, and releases the QP. */
static void number_end(struct kiw_qp *qp)
{
	struct kiw_inbox *inbox = kiw_qp_forget_peer(qp);
	struct kiw_ep *ep;

	if (!inbox)
		return;
	ep = container_of(inbox, struct kiw_ep, inbox);
	mutex_lock(&ep->mutex);
	kiw_ep_abort(ep);
	mutex_unlock(&ep->mutex);
	kiw_inbox_put(inbox);
}

static int number_make_sock(struct kiw_device *dev, const struct kiw_peer *peer,
			    struct socket **sock)
{
	struct sockaddr_storage local;
	int err;

	number_sockaddr(&local, &peer->local, 0);
	err = kiw_sock_create(dev, dev->net, NULL, &local, sock);
	if (!err)
		kiw_sock_set_tos(*sock, peer->path.traffic_class);
	return err;
}

static int number_dial(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask,
		       const struct kiw_peer *peer)
{
	struct kiw_ep *ep = kiw_ep_create(qp->dev, &dial_ops);
	struct number_dialer *d = to_dialer(ep);
	struct number_user *user;
	struct socket *sock;
	int err;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	user = number_user_get(qp->dev);
	err = user ? number_make_sock(qp->dev, peer, &sock) : -ENOMEM;
	mutex_lock(&ep->mutex);
	d->user = user;
	if (!err)
		err = kiw_ep_take_sock(ep, sock);
	if (!err)
		err = kiw_qp_modify(qp, attr, mask, peer);
	if (!err)
		err = kiw_qp_bind(qp, &ep->inbox, true);
	if (!err) {
		kiw_qp_get(qp);
		ep->qp = qp;
		d->pause = NUMBER_PAUSE_MIN;
		/* RTS mostly follows at once: then the Request can state it. */
		d->next = jiffies + max_t(unsigned long, NUMBER_PAUSE_MIN,
					  number_crowd(qp->dev, user));
		kiw_ep_enter(ep, KIW_ST_DIAL_WAIT);
	} else if (ep->state != KIW_ST_DEAD) {
		kiw_ep_end(ep, err, KIW_END_RESET);
	} else {
		dial_leave(ep);	/* kiw_ep_end() ran before @user was set */
	}
	mutex_unlock(&ep->mutex);
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);	/* dials, or cleans up */
	kiw_ep_put(ep);
	return err;
}

/* Change a QP to RTR with a named peer. */
static int number_connect(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask)
{
	struct kiw_peer peer;
	int err;

	err = number_named(qp, attr, mask, &peer);
	if (err)
		return err;
	if (kiw_number_mode(qp->dev) == KIW_NUMBER_OFF)
		return -EOPNOTSUPP;
	mask &= ~(IB_QP_AV | IB_QP_DEST_QPN);
	if (kiw_number_dials(peer.local.s6_addr, peer.ends.from, peer.remote.s6_addr,
			     peer.ends.to))
		return number_dial(qp, attr, mask, &peer);
	err = kiw_port_ask(qp->dev);
	if (!err)
		err = kiw_qp_modify(qp, attr, mask, &peer);
	if (!err)
		number_tell(qp);
	return err;
}

int kiw_number_modify(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask)
{
	int err;

	if (mask & (IB_QP_AV | IB_QP_DEST_QPN))
		return number_connect(qp, attr, mask);
	if ((mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RESET) {
		/* A refused change leaves the connection alone. */
		err = kiw_qp_check(qp, attr, mask);
		if (err)
			return err;
		number_end(qp);
		/* The check passed, and number_end() changed the state. */
		mask &= ~IB_QP_CUR_STATE;
	}
	err = kiw_qp_modify(qp, attr, mask, NULL);
	if (!err && (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RTS)
		number_tell(qp);
	return err;
}
