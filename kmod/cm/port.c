// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners of a link for connections by queue pair number, from the link's creation on.
 *
 * The outer listener holds the port that all hosts know, bound to the interface of the link. A
 * kernel thread creates it, so it belongs to no process's cgroups and needs no process's right to
 * the port. No user can hold the port instead: the link keeps it until an administrator closes it,
 * whatever happens to the interface's addresses and carrier.
 *
 * Packets between two interfaces of one host pass through neither: IP routes them by lo. A socket
 * bound to its interface neither sends nor answers them. So in a namespace with several links, each
 * link gets an inner listener as well, bound to no interface, on a port that TCP chooses and only
 * this module knows. Links in a VRF have none.
 *
 * One work of each device opens and closes both, by the option, the device's end, and its
 * neighbours.
 */
#include "priv.h"

#include <linux/moduleparam.h>
#include <linux/netdevice.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

/* Connections that TCP keeps for us; further peers wait */
#define PORT_BACKLOG 1024

static int port_set(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, 65535);
}

static const struct kernel_param_ops port_ops = {
	.set = port_set,
	.get = param_get_uint,
};

static unsigned int qpn_port = 19287;
module_param_cb(qpn_port, &port_ops, &qpn_port, 0444);
MODULE_PARM_DESC(qpn_port,
		 "TCP port for connections by queue pair number, the same on all hosts (default: 19287)");

/* Devices with an outer listener, and their inner_port. Outside of the locks of GID tables. */
static DEFINE_SPINLOCK(port_lock);
static LIST_HEAD(port_devices);

/* --- neighbours ----------------------------------------------------------------------------- */

static bool port_in_vrf(const struct kiw_device *dev)
{
	struct net_device *ndev;
	bool vrf;

	rcu_read_lock();
	ndev = dev_get_by_index_rcu(dev->net, dev->ifindex);
	vrf = ndev && netif_is_l3_slave(ndev);
	rcu_read_unlock();
	return vrf;
}

static bool port_is_neighbour(const struct kiw_device *dev, const struct kiw_device *other)
{
	lockdep_assert_held(&port_lock);
	return other != dev && net_eq(other->net, dev->net) && !port_in_vrf(dev) &&
	       !port_in_vrf(other);
}

static bool port_has_neighbour(const struct kiw_device *dev)
{
	const struct kiw_device *other;
	bool has = false;

	spin_lock_bh(&port_lock);
	list_for_each_entry(other, &port_devices, port.link)
		has |= port_is_neighbour(dev, other);
	spin_unlock_bh(&port_lock);
	return has;
}

bool kiw_port_near(struct kiw_device *dev, const struct in6_addr *addr, u16 *port)
{
	struct kiw_device *other;
	bool near = false;

	/* A link-local address is a host on the interface's own link. */
	if ((ipv6_addr_type(addr) & IPV6_ADDR_LINKLOCAL) || kiw_gid_has(dev, addr))
		return false;
	spin_lock_bh(&port_lock);
	list_for_each_entry(other, &port_devices, port.link) {
		near = port_is_neighbour(dev, other) && kiw_gid_has(other, addr);
		if (near) {
			*port = other->port.inner_port;
			break;
		}
	}
	spin_unlock_bh(&port_lock);
	return near;
}

/* The device comes or goes: its neighbours may need an inner listener, or no longer. */
static void port_enter(struct kiw_device *dev, bool there)
{
	struct kiw_device *other;

	lockdep_assert_held(&dev->port.mutex);
	spin_lock_bh(&port_lock);
	if (there == list_empty(&dev->port.link)) {
		if (there)
			list_add_tail(&dev->port.link, &port_devices);
		else
			list_del_init(&dev->port.link);
		list_for_each_entry(other, &port_devices, port.link) {
			if (other != dev && net_eq(other->net, dev->net))
				kiw_inbox_queue(&other->port.work);
		}
	}
	spin_unlock_bh(&port_lock);
}

static void port_tell_inner(struct kiw_device *dev, u16 port)
{
	spin_lock_bh(&port_lock);
	dev->port.inner_port = port;
	spin_unlock_bh(&port_lock);
}

/* --- listeners ------------------------------------------------------------------------------ */

static void port_close(struct kiw_listener **l)
{
	if (*l)
		kiw_listener_end(*l);
	*l = NULL;
}

static int port_listen(struct kiw_device *dev, struct kiw_listener **l, u16 port, bool anywhere)
{
	struct sockaddr_storage any = { .ss_family = AF_INET6 };
	struct kiw_listener *new;

	lockdep_assert_held(&dev->port.mutex);
	/* An administrator may have closed it. */
	if (*l && kiw_listener_hears(*l))
		return 0;
	port_close(l);
	((struct sockaddr_in6 *)&any)->sin6_port = htons(port);
	new = kiw_listener_open(dev, &any, PORT_BACKLOG, dev->port.serves, NULL, anywhere);
	if (new == ERR_PTR(-EAFNOSUPPORT)) {
		any.ss_family = AF_INET;
		new = kiw_listener_open(dev, &any, PORT_BACKLOG, dev->port.serves, NULL, anywhere);
	}
	if (IS_ERR(new))
		return PTR_ERR(new);
	*l = new;
	return 0;
}

static u16 port_of(const struct kiw_listener *l)
{
	return ntohs(inet_sk(l->ep.sock->sk)->inet_sport);
}

static int port_open_outer(struct kiw_device *dev)
{
	int err = port_listen(dev, &dev->port.outer, qpn_port, false);

	if (err == -EADDRINUSE)
		ibdev_warn_ratelimited(&dev->ibdev,
				       "TCP port %u is taken, so peers can't connect by queue pair number (see ss -tlnp 'sport = :%u' in the namespace of the interface)\n",
				       qpn_port, qpn_port);
	else if (err && err != -ENODEV)
		ibdev_warn_ratelimited(&dev->ibdev,
				       "can't listen on TCP port %u for connections by queue pair number: %d\n",
				       qpn_port, err);
	return err;
}

static void port_settle_inner(struct kiw_device *dev)
{
	bool wanted = dev->port.outer && port_has_neighbour(dev);
	struct kiw_port *p = &dev->port;
	int err = 0;

	lockdep_assert_held(&p->mutex);
	if (wanted)
		err = port_listen(dev, &p->inner, 0, true);
	if (err && err != -ENODEV)
		ibdev_warn_ratelimited(&dev->ibdev,
				       "other links of this host can't connect by queue pair number: %d\n",
				       err);
	/* Withdraw the port before it closes: another socket may get it. */
	if (!wanted || err)
		port_tell_inner(dev, 0);
	if (!wanted)
		port_close(&p->inner);
	else if (!err)
		port_tell_inner(dev, port_of(p->inner));
}

/* The device's sockets must be gone soon. */
static bool port_device_goes(struct kiw_device *dev)
{
	bool goes;

	spin_lock_bh(&dev->ep_lock);
	goes = dev->ep_closed;
	spin_unlock_bh(&dev->ep_lock);
	return goes;
}

static void port_run(struct kiw_device *dev)
{
	struct kiw_port *p = &dev->port;

	mutex_lock(&p->mutex);
	if (port_device_goes(dev)) {
		p->err = -ENODEV;
		port_close(&p->outer);
	} else if (kiw_number_mode(dev) == KIW_NUMBER_OFF) {
		p->err = -EOPNOTSUPP;
		port_close(&p->outer);
	} else {
		p->err = port_open_outer(dev);
	}
	port_enter(dev, p->outer);
	port_settle_inner(dev);
	mutex_unlock(&p->mutex);
}

static void port_work(struct work_struct *work)
{
	port_run(container_of(work, struct kiw_device, port.work));
}

u16 kiw_port(void)
{
	return qpn_port;
}

void kiw_port_init(struct kiw_device *dev, const struct kiw_ep_ops *serves)
{
	struct kiw_port *p = &dev->port;

	mutex_init(&p->mutex);
	INIT_LIST_HEAD(&p->link);
	INIT_WORK(&p->work, port_work);
	p->serves = serves;
}

void kiw_port_exit(struct kiw_device *dev)
{
	cancel_work_sync(&dev->port.work);
}

static bool port_is_open(struct kiw_port *p)
{
	bool open;

	mutex_lock(&p->mutex);
	open = p->outer && kiw_listener_hears(p->outer) &&
	       (!p->inner || kiw_listener_hears(p->inner));
	mutex_unlock(&p->mutex);
	return open;
}

/* What a process waits for, in no process's cgroup or credentials */
struct port_settling {
	struct work_struct	work;
	struct kiw_device	*dev;
};

static void port_settle_work(struct work_struct *work)
{
	port_run(container_of(work, struct port_settling, work)->dev);
}

int kiw_port_settle(struct kiw_device *dev)
{
	struct port_settling own = { .dev = dev };
	int err;

	/* flush_work() does not wait for the device's work while another CPU queues it. */
	INIT_WORK_ONSTACK(&own.work, port_settle_work);
	kiw_inbox_queue(&own.work);
	flush_work(&own.work);
	destroy_work_on_stack(&own.work);
	mutex_lock(&dev->port.mutex);
	err = dev->port.err;
	mutex_unlock(&dev->port.mutex);
	return err;
}

int kiw_port_ask(struct kiw_device *dev)
{
	return port_is_open(&dev->port) ? 0 : kiw_port_settle(dev);
}
