// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners: a listening socket and its endpoints.
 *
 * A listener ends in two steps. Unreachable: kiw_destroy_listen() clears the cm_id under the
 * listener's lock, which each report of a request holds, so no report follows; closes the socket,
 * so no connection comes in; and aborts the endpoints unknown to the user. Released: its endpoint
 * goes as all do, when its connections have dropped their references.
 */
#include <linux/errno.h>
#include <linux/net.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/tcp_states.h>

#include "priv.h"
#include "compat.h"

/* Connections to accept in one run of the work */
#define ACCEPT_BATCH 64

static struct kiw_listener *to_listener(struct kiw_ep *ep)
{
	return container_of(ep, struct kiw_listener, ep);
}

/*
 * An administrator may end any socket (ss -K). Neither iw_cm nor programs know such an end of a
 * listener, so log it. The cm_id stays and can be destroyed.
 */
static void listener_lost(struct kiw_ep *ep)
{
	ibdev_warn(&ep->dev->ibdev,
		   "a listening socket was closed from outside: its listener is deaf from now on\n");
	kiw_ep_end(ep, 0, KIW_END_RESET);
}

/* Accept pending connections. */
static void listener_run(struct kiw_ep *ep, unsigned long events)
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
			kiw_ep_again_soon(ep);	/* out of memory; TCP keeps the connections */
			return;
		}
	}
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
}

static void listener_leave(struct kiw_ep *ep)
{
	kiw_listener_abort(to_listener(ep));
}

/* Runs before the device can end it. */
static void listener_prepare(struct kiw_ep *ep)
{
	struct kiw_listener *l = to_listener(ep);

	mutex_init(&l->lock);
	INIT_LIST_HEAD(&l->waiting);
	l->order = RB_ROOT;
	l->next = RB_ROOT_CACHED;
}

static const struct kiw_ep_ops listener_ops = {
	.run = listener_run,
	.prepare = listener_prepare,
	.leave = listener_leave,
	.size = sizeof(struct kiw_listener),
	.listens = true,
};

/* --- downcalls ------------------------------------------------------------------------------ */

static int listen_begin(struct kiw_ep *ep, const struct iw_cm_id *id,
			struct sockaddr_storage *addr, int backlog)
{
	struct sock *sk = ep->sock->sk;
	int err;

	if (addr->ss_family == AF_INET6) {
		lock_sock(sk);
		sk->sk_ipv6only = id && id->afonly;
		release_sock(sk);
	}
	/* Allow bind beside connections in TIME_WAIT; another listener still conflicts. */
	sock_set_reuseaddr(sk);
	err = kernel_bind(ep->sock, kiw_sockaddr(addr), kiw_addr_len(addr));
	if (!err)
		err = kiw_ep_hook(ep, NULL);
	return err ? err : kernel_listen(ep->sock, backlog);
}

/**
 * kiw_listener_open() - create a listener
 * @dev: device
 * @addr: address, perhaps the wildcard, and port
 * @backlog: connections that TCP keeps for us, and undecided requests of the user; also sets the
 *	scale for connections in between
 * @serves: role of the endpoints of its connections
 * @id: iw_cm's side, which then holds the listener; NULL: the caller does, until kiw_listener_end()
 * @anywhere: not bound to the device's interface; only for kernel threads
 *
 * Return: the listener, or an error.
 */
struct kiw_listener *kiw_listener_open(struct kiw_device *dev, struct sockaddr_storage *addr,
				       int backlog, const struct kiw_ep_ops *serves,
				       struct iw_cm_id *id, bool anywhere)
{
	struct kiw_listener *l;
	struct kiw_ep *ep;
	struct socket *sock;
	int err;

	ep = kiw_ep_create(dev, &listener_ops);
	if (IS_ERR(ep))
		return ERR_CAST(ep);
	l = to_listener(ep);
	l->serves = serves;
	backlog = clamp(backlog, 1, 1 << 16);
	l->max_waiting = 4 * backlog + 64;
	l->max_told = backlog;

	err = kiw_sock_create(dev, dev->net, id, addr, &sock);
	mutex_lock(&ep->mutex);
	if (!err)
		err = kiw_ep_take_sock(ep, sock);
	if (!err && anywhere)
		err = kiw_sock_roam(sock);
	if (!err)
		err = listen_begin(ep, id, addr, backlog);
	if (!err)
		kiw_ep_enter(ep, KIW_ST_LISTEN);
	else if (ep->state != KIW_ST_DEAD)
		kiw_ep_end(ep, err, KIW_END_RESET);
	if (!err && id) {
		id->add_ref(id);
		l->id = id;
		id->provider_data = l;
	}
	if (!err)
		kiw_ep_get(ep);
	mutex_unlock(&ep->mutex);

	/* Accepts the first connections, or cleans up. */
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
	kiw_ep_put(ep);
	return err ? ERR_PTR(err) : l;
}

/**
 * kiw_listener_hears() - does a listener get connections
 * @l: listener
 *
 * Return: false once an administrator ended its socket, or the device goes.
 */
bool kiw_listener_hears(struct kiw_listener *l)
{
	bool hears;

	mutex_lock(&l->ep.mutex);
	hears = l->ep.state == KIW_ST_LISTEN;
	mutex_unlock(&l->ep.mutex);
	return hears;
}

/**
 * kiw_listener_end() - stop listening; connections unknown to the user end
 * @l: listener; drops the caller's reference
 */
void kiw_listener_end(struct kiw_listener *l)
{
	struct kiw_ep *ep = &l->ep;

	mutex_lock(&ep->mutex);
	if (ep->state != KIW_ST_DEAD)
		kiw_ep_end(ep, 0, KIW_END_RESET);
	mutex_unlock(&ep->mutex);
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
	kiw_ep_put(ep);
}

/**
 * kiw_create_listen() - listen
 * @id: iw_cm's side: address, perhaps the wildcard, and type of service
 * @backlog: see kiw_listener_open()
 *
 * Listeners of several devices do not conflict: each is bound to its interface. On a device of
 * another namespace a listener has no socket and succeeds: rdma_cm puts a listener on the wildcard
 * onto each device of any namespace, later ones included, in the context of the process that adds
 * them. If this failed, the listener would fail everywhere.
 *
 * Return: 0; -ENODEV: the device goes; or TCP's error, such as -EADDRINUSE, -EADDRNOTAVAIL,
 * -EACCES.
 */
int kiw_create_listen(struct iw_cm_id *id, int backlog)
{
	struct kiw_device *dev = to_kiw_device(id->device);
	struct sockaddr_storage addr = id->m_local_addr;
	int err;

	kiw_addr_unmap(&addr);
	err = kiw_addr_check(dev, &addr);
	if (err)
		return err;
	if (!net_eq(kiw_id_net(id), dev->net)) {
		id->provider_data = NULL;
		return 0;
	}
	return PTR_ERR_OR_ZERO(kiw_listener_open(dev, &addr, backlog, &kiw_accept_ops, id,
						 false));
}

/**
 * kiw_destroy_listen() - stop listening
 * @id: iw_cm's side; no reference to it remains
 *
 * Reported requests stay.
 *
 * Return: 0.
 */
int kiw_destroy_listen(struct iw_cm_id *id)
{
	struct kiw_listener *l = id->provider_data;

	if (!l)	/* of another namespace */
		return 0;
	mutex_lock(&l->lock);
	l->id = NULL;
	mutex_unlock(&l->lock);
	id->rem_ref(id);
	kiw_listener_end(l);	/* drops the reference of @id */
	return 0;
}
