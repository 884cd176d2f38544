// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets of the connection manager: creation, addresses, callbacks until the stream takes over,
 * start-up frames, release. Nothing blocks.
 */
#include "priv.h"

#include <linux/if_vlan.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/inetdevice.h>
#include <linux/net.h>
#include <linux/nsproxy.h>
#include <linux/tcp.h>
#include <net/addrconf.h>
#include <net/inet_ecn.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/tcp.h>
#include <rdma/rdma_cm.h>

#include "attach.h"
#include "compat.h"

/* Bytes to drop in one run of the work */
#define SOCK_DROP_BATCH (1 << 20)
/* Unanswered keepalive probes until a connection is lost */
#define SOCK_PROBES 3

/* --- making and releasing ------------------------------------------------------------------- */

/**
 * kiw_sock_set_tos() - set type of service (IPv4) and traffic class (IPv6)
 * @sock: socket, connected or not
 * @tos: value; TCP keeps its ECN bits
 */
void kiw_sock_set_tos(struct socket *sock, u8 tos)
{
	struct sock *sk = sock->sk;

	ip_sock_set_tos(sk, tos);
	if (sk->sk_family == AF_INET6) {
		lock_sock(sk);
		WRITE_ONCE(inet6_sk(sk)->tclass, (tos & ~INET_ECN_MASK) |
			   (inet6_sk(sk)->tclass & INET_ECN_MASK));
		release_sock(sk);
	}
}

/* Interface with an address, or NULL; RCU */
static struct net_device *sock_addr_owner(struct net *net, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)addr;

	if (addr->ss_family == AF_INET)
		return __ip_dev_find(net, four->sin_addr.s_addr, false);
	if (six->sin6_scope_id)
		return dev_get_by_index_rcu(net, six->sin6_scope_id);
#if IS_ENABLED(CONFIG_IPV6)
	return ipv6_dev_find(net, &six->sin6_addr, NULL);
#else
	return NULL;
#endif
}

static bool sock_is_vlan_of(const struct net_device *vlan, int ifindex)
{
	return is_vlan_dev(vlan) && vlan_dev_real_dev(vlan)->ifindex == ifindex;
}

static bool sock_is_related(struct kiw_device *dev, struct net_device *owner)
{
	struct net_device *own = dev_get_by_index_rcu(dev->net, dev->ifindex);

	return sock_is_vlan_of(owner, dev->ifindex) ||
	       (own && sock_is_vlan_of(own, owner->ifindex));
}

/*
 * rdma_cm uses the first device that is for the interface, one of its VLANs, or the interface below
 * a VLAN. The address identifies the right interface.
 */
static int sock_ifindex(struct kiw_device *dev, const struct sockaddr_storage *local)
{
	int ifindex = dev->ifindex;
	struct net_device *owner;

	rcu_read_lock();
	owner = sock_addr_owner(dev->net, local);
	if (owner && sock_is_related(dev, owner))
		ifindex = owner->ifindex;
	rcu_read_unlock();
	return ifindex;
}

static bool sock_is_loopback(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)addr;

	if (addr->ss_family == AF_INET)
		return ipv4_is_loopback(four->sin_addr.s_addr);
	return ipv6_addr_loopback(&six->sin6_addr);
}

/**
 * kiw_id_net() - namespace of the program that listens or connects
 * @id: iw_cm's side
 *
 * rdma_cm is iw_cm's only user: the context of its cm_ids is its own structure of an id, which
 * begins with struct rdma_cm_id.
 *
 * Return: the namespace, not referenced.
 */
const struct net *kiw_id_net(const struct iw_cm_id *id)
{
	const struct rdma_cm_id *rdma_id = id->context;

	return rdma_id->route.addr.dev_addr.net;
}

/**
 * kiw_sock_net() - namespace for the socket of an initiator
 * @dev: device
 * @id: iw_cm's side
 * @local: local address
 *
 * For 127.0.0.1 or ::1, rdma_cm uses the first active device of any namespace, but the process
 * means its own host. The connecting process calls. For other addresses, rdma_cm before Linux 6.6
 * uses the device with the interface's MAC address, also of any namespace: there only this check
 * keeps a namespace from using devices of others.
 *
 * Return: the namespace, not referenced; NULL: @dev is not for the namespace of @id.
 */
struct net *kiw_sock_net(struct kiw_device *dev, const struct iw_cm_id *id,
			 const struct sockaddr_storage *local)
{
	if (sock_is_loopback(local))
		return current->nsproxy->net_ns;
	return net_eq(kiw_id_net(id), dev->net) ? dev->net : NULL;
}

/**
 * kiw_sock_stay() - bind a socket to the interface of its address
 * @dev: device
 * @sock: socket without a connection; if bound to an interface already, only a kernel thread or an
 *	administrator may change that
 * @local: local address, or the wildcard: the device's own interface
 *
 * Return: 0 or a negative errno.
 */
int kiw_sock_stay(struct kiw_device *dev, struct socket *sock,
		  const struct sockaddr_storage *local)
{
	return sock_bindtoindex(sock->sk, sock_ifindex(dev, local), true);
}

/**
 * kiw_sock_roam() - bind a socket to no interface
 * @sock: socket without a connection; only for kernel threads
 *
 * Return: 0 or a negative errno.
 */
int kiw_sock_roam(struct socket *sock)
{
	return sock_bindtoindex(sock->sk, 0, true);
}

/**
 * kiw_sock_create() - create a socket bound to the interface of its address
 * @dev: device
 * @net: namespace; that of @dev outlives the endpoints; the socket keeps any other
 * @id: iw_cm's side, for the type of service, or NULL; an initiator's holds the peer's address
 * @local: local address, or the wildcard: the device's own interface
 * @res: output
 *
 * The socket belongs to the cgroups of the calling task: they are charged for TCP's memory, and
 * their BPF programs see the packets. The connecting process creates an initiator's socket, which
 * serves all attempts. May load a protocol's module, so call without the mutex of the endpoint.
 *
 * Return: 0 or a negative errno.
 */
int kiw_sock_create(struct kiw_device *dev, struct net *net, const struct iw_cm_id *id,
		    const struct sockaddr_storage *local, struct socket **res)
{
	/*
	 * Listeners on a loopback address are bound to their devices' interfaces, or only one could
	 * exist.
	 */
	bool loopback = id && id->m_remote_addr.ss_family && sock_is_loopback(local);
	struct socket *sock;
	int err;

	err = sock_create_kern(net, local->ss_family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err == -ENFILE)	/* means no memory here */
		err = -ENOMEM;
	if (err)
		return err;
	if (net != dev->net)
		sk_net_refcnt_upgrade(sock->sk);
	err = loopback ? sock_bindtoindex(sock->sk, LOOPBACK_IFINDEX, true) :
			 kiw_sock_stay(dev, sock, local);
	if (err) {
		sock_release(sock);
		return err;
	}
	tcp_sock_set_nodelay(sock->sk);
	if (id && id->tos_set)
		kiw_sock_set_tos(sock, id->tos);
	*res = sock;
	return 0;
}

static u16 sock_addr_port(const struct sockaddr_storage *addr)
{
	/* Both families have the port at the same offset. */
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static bool sock_port_is_ephemeral(struct sock *sk, u16 port)
{
	int low, high;

	inet_get_local_port_range(sock_net(sk), &low, &high);
	return port >= low && port <= high;
}

/**
 * kiw_sock_bind() - bind the socket of an initiator
 * @sock: socket; unchanged if an earlier attempt bound a port
 * @addr: address and port
 *
 * rdma_cm numbers its own port space and hands out ephemeral ports without knowledge of TCP's. So a
 * port of that range is only a wish, granted if no other socket has it, even with another peer or
 * in TIME_WAIT. Other ports were chosen by a program: bind or fail. As for users of TCP, TIME_WAIT
 * is no conflict.
 *
 * Return: 0 or a negative errno.
 */
int kiw_sock_bind(struct socket *sock, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage any_port = *addr;
	bool wish;
	int err;

	if (inet_sk(sock->sk)->inet_num)
		return 0;
	if (sock_addr_port(addr)) {
		wish = sock_port_is_ephemeral(sock->sk, sock_addr_port(addr));
		if (!wish)
			sock_set_reuseaddr(sock->sk);
		err = kernel_bind(sock, kiw_sockaddr(&any_port), kiw_addr_len(addr));
		if (err != -EADDRINUSE || !wish)
			return err;
		((struct sockaddr_in *)&any_port)->sin_port = 0;
	}
	/* TCP chooses the port when it knows the peer: unique per peer only. */
	kiw_bind_address_no_port(sock->sk);
	return kernel_bind(sock, kiw_sockaddr(&any_port), kiw_addr_len(addr));
}

/**
 * kiw_sock_disconnect() - break off an attempt to connect, so that another can follow
 * @sock: socket of an initiator, with its own callbacks
 *
 * Resets a connection, which leaves no TIME_WAIT that would block the same pair of ports. The
 * socket keeps its cgroups, options, and a bound port; a port chosen by TCP is released.
 */
void kiw_sock_disconnect(struct socket *sock)
{
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	/* Some kernels refuse this while a thread waits on the socket; none does. */
	kernel_connect(sock, kiw_sockaddr(&nobody), sizeof(nobody), 0);
}

/**
 * kiw_sock_close() - release a socket
 * @sock: socket with its own callbacks
 * @reset: drop data that TCP still holds
 *
 * A kernel socket mostly does not keep its namespace, so TCP stops its timers on release and never
 * resends lost data. For an orderly close the socket gets a reference to the namespace, like that
 * of a process, and TCP finishes on its own, unless the peer acknowledges nothing for
 * %KIW_CLOSE_SECS. This is impossible once the namespace goes.
 */
void kiw_sock_close(struct socket *sock, bool reset)
{
	struct sock *sk = sock->sk;
	bool orderly = !reset && sk->sk_net_refcnt;
	struct net *net = reset || orderly ? NULL : maybe_get_net(sock_net(sk));

	if (net) {
		lock_sock(sk);
		sk_net_refcnt_upgrade(sk);
		release_sock(sk);
		put_net(net);
		tcp_sock_set_user_timeout(sk, KIW_CLOSE_SECS * MSEC_PER_SEC);
	} else if (!orderly) {
		sock_no_linger(sk);
	}
	sock_release(sock);
}

/**
 * kiw_sock_drop() - read and drop received data
 * @sock: abandoned connection
 *
 * Return: true: no more data.
 */
bool kiw_sock_drop(struct socket *sock)
{
	struct msghdr msg = {};

	/* With MSG_TRUNC TCP copies nothing. */
	return kernel_recvmsg(sock, &msg, NULL, 0, SOCK_DROP_BATCH, MSG_DONTWAIT | MSG_TRUNC) <
	       SOCK_DROP_BATCH;
}

/**
 * kiw_sock_keepalive() - let TCP probe whether the peer exists
 * @sock: connection
 * @secs: silence before the first probe; three unanswered probes take as long again
 */
void kiw_sock_keepalive(struct socket *sock, int secs)
{
	tcp_sock_set_keepidle(sock->sk, secs);
	tcp_sock_set_keepintvl(sock->sk, DIV_ROUND_UP(secs, SOCK_PROBES));
	tcp_sock_set_keepcnt(sock->sk, SOCK_PROBES);
	sock_set_keepalive(sock->sk);
}

/* --- addresses ------------------------------------------------------------------------------ */

int kiw_addr_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
					     sizeof(struct sockaddr_in);
}

/** kiw_addr_unmap() - convert an IPv4 address mapped into IPv6 */
void kiw_addr_unmap(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)addr;
	struct sockaddr_in four = { .sin_family = AF_INET };

	if (addr->ss_family != AF_INET6 || !ipv6_addr_v4mapped(&six->sin6_addr))
		return;
	four.sin_port = six->sin6_port;
	four.sin_addr.s_addr = six->sin6_addr.s6_addr32[3];
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &four, sizeof(four));
}

/**
 * kiw_addr_check() - can the device use an address
 * @dev: device
 * @addr: address; sets the scope of a link-local one without scope
 *
 * A scope would override the interface that the socket is bound to.
 *
 * Return: 0, -EAFNOSUPPORT, or -EADDRNOTAVAIL: the scope is neither the device's interface nor one
 * that rdma_cm accepts for it.
 */
int kiw_addr_check(struct kiw_device *dev, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)addr;
	struct net_device *scope;
	bool related;

	if (addr->ss_family == AF_INET)
		return 0;
	if (addr->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (!(ipv6_addr_type(&six->sin6_addr) & IPV6_ADDR_LINKLOCAL))
		return 0;
	if (!six->sin6_scope_id)
		six->sin6_scope_id = dev->ifindex;
	if (six->sin6_scope_id == dev->ifindex)
		return 0;
	rcu_read_lock();
	scope = dev_get_by_index_rcu(dev->net, six->sin6_scope_id);
	related = scope && sock_is_related(dev, scope);
	rcu_read_unlock();
	return related ? 0 : -EADDRNOTAVAIL;
}

/**
 * kiw_sock_names() - addresses of a connected socket; never IPv4 mapped into IPv6
 * @sock: socket
 * @local: output, our end
 * @remote: output, the peer's end
 *
 * Return: 0, or a negative errno: the connection is gone.
 */
int kiw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		   struct sockaddr_storage *remote)
{
	int err;

	memset(local, 0, sizeof(*local));
	memset(remote, 0, sizeof(*remote));
	err = kernel_getsockname(sock, (struct sockaddr *)local);
	if (err < 0)
		return err;
	err = kernel_getpeername(sock, (struct sockaddr *)remote);
	if (err < 0)
		return err;
	kiw_addr_unmap(local);
	kiw_addr_unmap(remote);
	return 0;
}

/* --- callbacks ------------------------------------------------------------------------------ */

/*
 * Callback for all three events. sk_callback_lock keeps the endpoint: kiw_ep_unhook() takes that
 * lock before the endpoint may go. A socket that TCP creates for a listener has our callbacks but
 * no endpoint until it is accepted; if a sockmap took it before, sk_user_data points to the map's
 * data, as its flags show.
 */
static void sock_event(struct sock *sk)
{
	uintptr_t data;

	read_lock_bh(&sk->sk_callback_lock);
	data = (uintptr_t)rcu_dereference_check(__sk_user_data(sk),
						lockdep_is_held(&sk->sk_callback_lock));
	if ((data & ~SK_USER_DATA_PTRMASK) == SK_USER_DATA_NOCOPY) {
		struct kiw_ep *ep = (struct kiw_ep *)(data & SK_USER_DATA_PTRMASK);

		kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

/**
 * kiw_ep_hook() - post events of the socket to the endpoint
 * @ep: endpoint, mutex held; the caller makes the work check for earlier events
 * @saved: for an accepted socket, the listening socket's original callbacks, since its own are a
 *	copy of its listener's; else NULL
 *
 * Return: 0, or -EBUSY: another user owns the socket, see kiw_sock_taken().
 */
int kiw_ep_hook(struct kiw_ep *ep, const struct kiw_sk_ops *saved)
{
	struct sock *sk = ep->sock->sk;
	bool taken;

	lockdep_assert_held(&ep->mutex);
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	taken = kiw_sock_taken(sk);
	if (taken)
		goto out_unlock;
	if (saved) {
		ep->saved = *saved;
	} else {
		ep->saved.data_ready = sk->sk_data_ready;
		ep->saved.state_change = sk->sk_state_change;
		ep->saved.write_space = sk->sk_write_space;
	}
	__rcu_assign_sk_user_data_with_flags(sk, ep, SK_USER_DATA_NOCOPY);
	WRITE_ONCE(sk->sk_data_ready, sock_event);
	sk->sk_state_change = sock_event;
	sk->sk_write_space = sock_event;
	ep->hooked = true;
out_unlock:
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
	return taken ? -EBUSY : 0;
}

/**
 * kiw_ep_unhook() - restore the socket's own callbacks
 * @ep: endpoint, mutex held
 *
 * Afterwards no callback finds the endpoint.
 */
void kiw_ep_unhook(struct kiw_ep *ep)
{
	struct sock *sk;

	lockdep_assert_held(&ep->mutex);
	if (!ep->hooked)
		return;
	ep->hooked = false;
	sk = ep->sock->sk;
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	/* TCP calls a listener's callback without any lock of it when a connection is ready. */
	WRITE_ONCE(sk->sk_data_ready, ep->saved.data_ready);
	sk->sk_state_change = ep->saved.state_change;
	sk->sk_write_space = ep->saved.write_space;
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
}

/* --- start-up frames ------------------------------------------------------------------------ */

/** kiw_ep_excess() - did the peer send more than allowed by now; mutex held */
bool kiw_ep_excess(struct kiw_ep *ep)
{
	struct sock *sk = ep->sock->sk;
	bool excess;

	lockdep_assert_held(&ep->mutex);
	lock_sock(sk);
	excess = tcp_inq(sk) > 0;
	release_sock(sk);
	return excess;
}

/**
 * kiw_ep_push() - send our frame as far as there is room
 * @ep: endpoint, mutex held
 *
 * Return: 0: all is sent; -EAGAIN: a callback will report room; else the connection's error.
 */
int kiw_ep_push(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;

	lockdep_assert_held(&ep->mutex);
	while (su->out_sent < su->out_len) {
		struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
		struct kvec iov = {
			.iov_base = su->out + su->out_sent,
			.iov_len = su->out_len - su->out_sent,
		};
		int n = kernel_sendmsg(ep->sock, &msg, &iov, 1, iov.iov_len);

		if (n < 0)
			return n;
		su->out_sent += n;
	}
	return 0;
}

/**
 * kiw_ep_pull() - receive the available part of the peer's frame, and no byte beyond
 * @ep: endpoint, mutex held
 * @kind: expected frame
 * @frame: output
 *
 * Return: 0: complete; -EAGAIN: more must arrive; -EPROTO: malformed; -ECONNRESET: the peer closed;
 * else the connection's error.
 */
int kiw_ep_pull(struct kiw_ep *ep, enum kiw_mpa_kind kind, struct kiw_mpa_frame *frame)
{
	struct kiw_startup *su = ep->su;

	lockdep_assert_held(&ep->mutex);
	for (;;) {
		struct msghdr msg = {};
		struct kvec iov;
		int n;

		switch (kiw_mpa_parse(su->in, su->in_have, kind, frame)) {
		case KIW_DONE:
			return 0;
		case KIW_MORE:
			break;
		default:
			ibdev_dbg(&ep->dev->ibdev, "malformed start-up frame: %d\n", frame->bad);
			kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_MALFORMED);
			return -EPROTO;
		}

		iov.iov_base = su->in + su->in_have;
		iov.iov_len = min_t(size_t, frame->need, sizeof(su->in)) - su->in_have;
		n = kernel_recvmsg(ep->sock, &msg, &iov, 1, iov.iov_len, MSG_DONTWAIT);
		if (n <= 0)
			return n ? n : -ECONNRESET;
		su->in_have += n;
	}
}
