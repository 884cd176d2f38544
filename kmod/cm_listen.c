// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners: a listening socket, and the endpoints whose Requests it brings to its user.
 *
 * How a listener ends, in two steps. Unreachable: kiw_destroy_listen() takes the cm_id away under
 * the listener's lock, under which every request is told, so that none is told after that; closes
 * the socket, so that no connection comes in; and aborts the endpoints that the user doesn't know.
 * Released: its endpoint goes as all do, when those on its behalf have dropped their references.
 */
#include <linux/errno.h>
#include <linux/net.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/tcp_states.h>
#include <rdma/rdma_cm.h>

#include "cm_priv.h"
#include "compat.h"

/* Connections to accept before others get their turn */
#define ACCEPT_BATCH 64

static struct kiw_listener *to_listener(struct kiw_ep *ep)
{
	return container_of(ep, struct kiw_listener, ep);
}

/* --- endpoints that wait -------------------------------------------------------------------- */

static struct in6_addr sock_peer(const struct sock *sk)
{
	struct in6_addr peer;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return sk->sk_v6_daddr;
#endif
	ipv6_addr_set_v4mapped(sk->sk_daddr, &peer);
	return peer;
}

/**
 * kiw_listener_add() - have a connection wait on behalf of a listener
 * @l: listener; connections are added in the order in which TCP hands them over
 * @ep: endpoint, mutex held
 *
 * Return: false when there are too many already.
 */
bool kiw_listener_add(struct kiw_listener *l, struct kiw_ep *ep)
{
	bool room;

	mutex_lock(&l->lock);
	room = l->num_waiting < l->max_waiting;
	if (room) {
		l->num_waiting++;
		list_add_tail(&ep->wait_link, &l->waiting);
		ep->su->number = l->next_number++;
		ep->su->accepted = jiffies;
		ep->su->peer = sock_peer(ep->sock->sk);
		kiw_ep_get(&l->ep);
		ep->listener = l;
	}
	mutex_unlock(&l->lock);
	return room;
}

/*
 * The order in which the user is told is that in which TCP accepted the connections of a host,
 * since programs that open several at once expect the other side to see them in the order that they
 * were made. Their Requests may be complete in another one. A host that connects and says nothing
 * holds up its own later connections only, and those not for long.
 */
static bool same_peer(const struct kiw_ep *ep, const struct in6_addr *peer)
{
	return ipv6_addr_equal(&ep->su->peer, peer);
}

/* Which Requests of a host needn't wait for others of it any more? The listener's lock is held. */
static void listener_release(struct kiw_listener *l, const struct in6_addr *peer)
{
	const struct kiw_ep *awaited = NULL;
	struct kiw_ep *ep;

	list_for_each_entry(ep, &l->waiting, wait_link) {
		if (same_peer(ep, peer) &&
		    !time_after(jiffies, ep->su->accepted + KIW_ORDER_PATIENCE)) {
			awaited = ep;
			break;
		}
	}
	list_for_each_entry(ep, &l->ready, wait_link) {
		if (same_peer(ep, peer) &&
		    (!awaited || (s32)(ep->su->number - awaited->su->number) < 0))
			ep->su->held = false;
	}
}

/* The next request to tell the user of, or NULL; the listener's lock is held. */
static struct kiw_ep *listener_next(const struct kiw_listener *l)
{
	struct kiw_ep *ep;

	list_for_each_entry(ep, &l->ready, wait_link) {
		if (!ep->su->held)
			return ep;
	}
	return NULL;
}

/* Something has changed for @ep: another one's turn may have come. The listener's lock is held. */
static void listener_pass(const struct kiw_listener *l, const struct kiw_ep *ep)
{
	struct kiw_ep *next = listener_next(l);

	if (next && next != ep)
		kiw_ep_notify(next, KIW_EP_SOCKET);
}

/**
 * kiw_listener_leave() - have nothing to do with a listener any more
 * @ep: endpoint, mutex held; its user has decided, or it ends; needn't have a listener
 */
void kiw_listener_leave(struct kiw_ep *ep)
{
	struct kiw_listener *l = ep->listener;

	if (!l)
		return;
	ep->listener = NULL;
	mutex_lock(&l->lock);
	if (ep->told) {
		l->num_told--;
	} else {
		list_del_init(&ep->wait_link);
		l->num_waiting--;
		listener_release(l, &ep->su->peer);
	}
	ep->told = false;
	listener_pass(l, ep);
	mutex_unlock(&l->lock);
	kiw_ep_put(&l->ep);
}

/*
 * Is it its turn, and are there not too many that the user hasn't decided on? If not, it is
 * notified when others have been told, or have left, or comes back when it has waited long enough.
 */
static bool may_tell(struct kiw_listener *l, struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;

	listener_release(l, &su->peer);
	listener_pass(l, ep);
	if (su->held) {
		kiw_ep_again(ep, su->accepted + KIW_ORDER_PATIENCE + 1);
		return false;
	}
	if (listener_next(l) != ep)
		return false;
	if (l->num_told < l->max_told || time_after(jiffies, su->ready + KIW_READY_PATIENCE))
		return true;
	kiw_ep_again(ep, su->ready + KIW_READY_PATIENCE + 1);
	return false;
}

/**
 * kiw_listener_tell() - tell the user of a request
 * @ep: endpoint with a listener, mutex held by its work
 * @event: CONNECT_REQUEST
 *
 * Once it succeeds, the end of the listener isn't the endpoint's any more.
 *
 * Return: 0; -EAGAIN when it isn't its turn, the work will run again when it is; -ENOMEM;
 * -ECONNABORTED when the listener has gone.
 */
int kiw_listener_tell(struct kiw_ep *ep, struct iw_cm_event *event)
{
	struct kiw_listener *l = ep->listener;
	int err = -ECONNABORTED;

	mutex_lock(&l->lock);
	if (l->id)
		err = may_tell(l, ep) ? l->id->event_handler(l->id, event) : -EAGAIN;
	if (!err) {
		list_del_init(&ep->wait_link);
		l->num_waiting--;
		l->num_told++;
		ep->told = true;
		listener_pass(l, ep);
	}
	mutex_unlock(&l->lock);
	return err;
}

/**
 * kiw_listener_ready() - a Request is complete
 * @ep: endpoint with a listener, mutex held
 */
void kiw_listener_ready(struct kiw_ep *ep)
{
	struct kiw_listener *l = ep->listener;
	struct kiw_ep *before;

	mutex_lock(&l->lock);
	ep->su->ready = jiffies;
	ep->su->held = true;
	list_for_each_entry_reverse(before, &l->ready, wait_link) {
		if ((s32)(before->su->number - ep->su->number) < 0)
			break;
	}
	list_move(&ep->wait_link, &before->wait_link);
	listener_release(l, &ep->su->peer);
	mutex_unlock(&l->lock);
}

/**
 * kiw_listener_stop() - end those that the user doesn't know
 * @ep: listener's endpoint, mutex held, socket released
 */
void kiw_listener_stop(struct kiw_ep *ep)
{
	struct kiw_listener *l = to_listener(ep);
	struct kiw_ep *waiting;

	mutex_lock(&l->lock);
	list_for_each_entry(waiting, &l->waiting, wait_link)
		kiw_ep_abort(waiting);
	list_for_each_entry(waiting, &l->ready, wait_link)
		kiw_ep_abort(waiting);
	mutex_unlock(&l->lock);
}

/*
 * An administrator may end any socket (ss -K). iw_cm knows no such end of a listener, nor do
 * programs: the log has to tell. The cm_id stays, and can be destroyed.
 */
static void listener_lost(struct kiw_ep *ep)
{
	ibdev_warn(&ep->dev->ibdev,
		   "a listening socket was closed from outside: its listener is deaf from now on\n");
	kiw_ep_end(ep, 0, KIW_END_RESET);
}

/**
 * kiw_listener_run() - accept what has come in
 * @ep: listener's endpoint, mutex held
 * @events: KIW_EP_*, no matter which
 */
void kiw_listener_run(struct kiw_ep *ep, unsigned long events)
{
	int n;

	for (n = 0; n < ACCEPT_BATCH; n++) {
		struct socket *sock;
		int err = kernel_accept(ep->sock, &sock, O_NONBLOCK);

		if (err == -EAGAIN)
			return;
		if (!err) {
			kiw_responder_start(to_listener(ep), sock);
		} else if (inet_sk_state_load(ep->sock->sk) != TCP_LISTEN) {
			listener_lost(ep);
			return;
		} else if (err != -ECONNABORTED) {
			kiw_ep_again_soon(ep);	/* out of memory; TCP keeps them */
			return;
		}
	}
	kiw_ep_notify(ep, KIW_EP_SOCKET);
}

/* --- downcalls ------------------------------------------------------------------------------ */

static int listen_begin(struct kiw_ep *ep, const struct iw_cm_id *id,
			struct sockaddr_storage *addr, int backlog)
{
	struct sock *sk = ep->sock->sk;
	int err;

	if (addr->ss_family == AF_INET6) {
		lock_sock(sk);
		sk->sk_ipv6only = id->afonly;
		release_sock(sk);
	}
	/* Connections in TIME_WAIT are no obstacle; another listener still is. */
	sock_set_reuseaddr(sk);
	err = kernel_bind(ep->sock, kiw_sockaddr(addr), kiw_addr_len(addr));
	if (!err)
		err = kiw_ep_hook(ep, NULL);
	return err ? err : kernel_listen(ep->sock, backlog);
}

/*
 * The namespace of the program that listens. rdma_cm has a listener on the wildcard listen on every
 * device in whatever namespace, and on those that are added later, too, in the context of whatever
 * process adds them. It is iw_cm's only user: the context of its cm_ids is its own structure for an
 * id, which begins with the one that its users know.
 */
static const struct net *listener_net(const struct iw_cm_id *id)
{
	const struct rdma_cm_id *rdma_id = id->context;

	return rdma_id->route.addr.dev_addr.net;
}

/**
 * kiw_create_listen() - listen
 * @id: iw_cm's side: address, which may be the wildcard, and type of service
 * @backlog: connections that TCP keeps until we take them, and requests that the user is told of
 *	before it decides; also an order of magnitude for the connections in between
 *
 * Listeners of several devices don't get in each other's way, since each is bound to its
 * interface. On a device in another namespace than its own, a listener takes no port, and hears
 * nothing; if this failed, rdma_cm wouldn't let it listen anywhere.
 *
 * Return: 0; -ENODEV when the device is going; or what TCP says, like -EADDRINUSE, -EADDRNOTAVAIL,
 * -EACCES.
 */
int kiw_create_listen(struct iw_cm_id *id, int backlog)
{
	struct kiw_device *dev = to_kiw_device(id->device);
	struct sockaddr_storage addr = id->m_local_addr;
	struct kiw_listener *l;
	struct kiw_ep *ep;
	struct socket *sock;
	int err;

	kiw_addr_unmap(&addr);
	err = kiw_addr_check(dev, &addr);
	if (err)
		return err;
	if (!net_eq(listener_net(id), dev->net)) {
		id->provider_data = NULL;
		return 0;
	}
	ep = kiw_ep_create(dev, sizeof(*l), false);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	l = to_listener(ep);
	mutex_init(&l->lock);
	INIT_LIST_HEAD(&l->waiting);
	INIT_LIST_HEAD(&l->ready);
	backlog = clamp(backlog, 1, 1 << 16);
	l->max_waiting = 4 * backlog + 64;
	l->max_told = backlog;

	err = kiw_sock_create(dev, dev->net, id, &addr, &sock);
	mutex_lock(&ep->mutex);
	if (!err && ep->state == KIW_ST_DEAD) {	/* the device is going */
		sock_release(sock);
		err = -ENODEV;
	} else if (!err) {
		ep->sock = sock;
		err = listen_begin(ep, id, &addr, backlog);
	}
	if (!err) {
		ep->state = KIW_ST_LISTEN;
		id->add_ref(id);
		l->id = id;
		id->provider_data = l;
		kiw_ep_get(ep);
	} else if (ep->state != KIW_ST_DEAD) {
		kiw_ep_end(ep, err, KIW_END_RESET);
	}
	mutex_unlock(&ep->mutex);

	kiw_ep_notify(ep, KIW_EP_SOCKET);	/* takes the first connections, or tidies up */
	kiw_ep_put(ep);
	return err;
}

/**
 * kiw_destroy_listen() - stop listening
 * @id: iw_cm's side
 *
 * Requests that the user was told of stay. No reference to @id is left when this returns.
 *
 * Return: 0.
 */
int kiw_destroy_listen(struct iw_cm_id *id)
{
	struct kiw_listener *l = id->provider_data;
	struct kiw_ep *ep = &l->ep;

	if (!l)	/* in another namespace */
		return 0;
	mutex_lock(&l->lock);
	l->id = NULL;
	mutex_unlock(&l->lock);
	id->rem_ref(id);

	mutex_lock(&ep->mutex);
	if (ep->state != KIW_ST_DEAD)
		kiw_ep_end(ep, 0, KIW_END_RESET);
	mutex_unlock(&ep->mutex);
	kiw_ep_notify(ep, KIW_EP_SOCKET);
	kiw_ep_put(ep);	/* the one of @id */
	return 0;
}
