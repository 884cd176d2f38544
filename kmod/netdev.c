// SPDX-License-Identifier: GPL-2.0
/*
 * List of all devices, and events of their interfaces.
 *
 * A device enters the list under rtnl, before registration, and leaves it in dealloc_driver, when
 * nothing is left. So each event finds it here, at any stage of registration and unregistration;
 * RDMA core's table would miss the ends.
 *
 * A deleted interface, or one that moves to another namespace, takes its device along: the event
 * queues the unregistration, which cannot run under rtnl. Two waits follow. The core holds the
 * interface until its own part is done. The namespace's exit, netdev_exit_net(), waits until
 * dealloc_driver saw the last endpoint: each socket is closed while its namespace still has a TCP,
 * and kiw_device.net is valid during the device's life. Exits run backwards, so ours, of a pernet
 * "subsystem", runs after those of all interfaces (pernet "devices"), when all devices of the
 * namespace are doomed, and before TCP's, registered at boot.
 */
#include "netdev.h"

#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/wait.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>

#include "compat.h"
#include "types.h"

/* Protects the list and members named in types.h; BH off: IPv6 adds addresses in softirq */
static DEFINE_SPINLOCK(netdev_devices_lock);
static LIST_HEAD(netdev_devices);
/* Woken when a device left the list */
static DECLARE_WAIT_QUEUE_HEAD(netdev_devices_gone);

/* The device on an interface, unless doomed */
static struct kiw_device *netdev_find_device(const struct net_device *ndev)
{
	struct kiw_device *dev;

	lockdep_assert_held(&netdev_devices_lock);
	list_for_each_entry(dev, &netdev_devices, link) {
		if (!dev->doomed && dev->net == dev_net(ndev) && dev->ifindex == ndev->ifindex)
			return dev;
	}
	return NULL;
}

static bool netdev_guid_taken(__be64 guid)
{
	struct kiw_device *dev;

	lockdep_assert_held(&netdev_devices_lock);
	list_for_each_entry(dev, &netdev_devices, link) {
		if (dev->ibdev.node_guid == guid)
			return true;
	}
	return false;
}

static bool netdev_is_up(const struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev);
}

int kiw_netdev_attach(struct kiw_device *dev, struct net_device *ndev)
{
	int err = 0;

	ASSERT_RTNL();
	if (ndev->reg_state != NETREG_REGISTERED)
		return -ENODEV;

	dev->net = dev_net(ndev);
	dev->ifindex = ndev->ifindex;
	dev->port_up = netdev_is_up(ndev);

	spin_lock_bh(&netdev_devices_lock);
	if (netdev_find_device(ndev)) {
		err = -EEXIST;
	} else {
		while (netdev_guid_taken(dev->ibdev.node_guid))
			be64_add_cpu(&dev->ibdev.node_guid, 1 << 24);
		list_add_tail(&dev->link, &netdev_devices);
	}
	spin_unlock_bh(&netdev_devices_lock);
	return err;
}

void kiw_netdev_detach(struct kiw_device *dev)
{
	spin_lock_bh(&netdev_devices_lock);
	list_del_init(&dev->link);
	spin_unlock_bh(&netdev_devices_lock);
	/* Waiters look at the list only: the device may be freed now. */
	wake_up_all(&netdev_devices_gone);
}

struct net_device *kiw_netdev_get(struct kiw_device *dev)
{
	return dev_get_by_index(dev->net, dev->ifindex);
}

u32 kiw_netdev_speed(struct kiw_device *dev)
{
	struct ethtool_link_ksettings link = {};
	struct net_device *ndev;
	u32 speed = 0;

	rtnl_lock();
	ndev = __dev_get_by_index(dev->net, dev->ifindex);
	if (ndev && netif_device_present(ndev) && !__ethtool_get_link_ksettings(ndev, &link) &&
	    link.base.speed != (u32)SPEED_UNKNOWN)
		speed = link.base.speed;
	rtnl_unlock();
	return speed;
}

static void netdev_dispatch(struct kiw_device *dev, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = type,
		.element.port_num = 1,
	};

	ib_dispatch_event(&event);
}

/* The interface's addresses may have changed. */
static void netdev_refresh_gids(struct kiw_device *dev)
{
	if (kiw_gid_refresh(dev))
		netdev_dispatch(dev, IB_EVENT_GID_CHANGE);
}

void kiw_netdev_settle(struct kiw_device *dev)
{
	bool doomed;

	spin_lock_bh(&netdev_devices_lock);
	doomed = dev->doomed;
	spin_unlock_bh(&netdev_devices_lock);

	if (!ib_device_try_get(&dev->ibdev))
		return;
	if (doomed)
		ib_unregister_device_queued(&dev->ibdev);
	else
		netdev_refresh_gids(dev);
	ib_device_put(&dev->ibdev);
}

static int netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	bool up = netdev_is_up(ndev), changed = false;
	struct kiw_device *dev;

	spin_lock_bh(&netdev_devices_lock);
	dev = netdev_find_device(ndev);
	if (!dev)
		goto out_unlock;
	if (event == NETDEV_UNREGISTER)
		dev->doomed = true;
	/* Not registered yet: kiw_netdev_settle() follows. Or being unregistered. */
	if (!ib_device_try_get(&dev->ibdev))
		goto out_unlock;
	changed = up != dev->port_up;
	dev->port_up = up;
	spin_unlock_bh(&netdev_devices_lock);

	switch (event) {
	case NETDEV_UNREGISTER:
		ib_unregister_device_queued(&dev->ibdev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		if (changed && !kiw_core_reports_port(ndev))
			netdev_dispatch(dev, up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR);
		break;
	case NETDEV_CHANGEADDR:
		netdev_dispatch(dev, IB_EVENT_GID_CHANGE);
		break;
	}
	ib_device_put(&dev->ibdev);
	return NOTIFY_DONE;

out_unlock:
	spin_unlock_bh(&netdev_devices_lock);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = {
	.notifier_call = netdev_event,
};

/* An interface got or lost an address; any context */
static void netdev_addr_event(const struct net_device *ndev)
{
	struct kiw_device *dev;

	spin_lock_bh(&netdev_devices_lock);
	dev = netdev_find_device(ndev);
	if (dev && !ib_device_try_get(&dev->ibdev))
		dev = NULL;	/* as above */
	spin_unlock_bh(&netdev_devices_lock);
	if (!dev)
		return;
	netdev_refresh_gids(dev);
	ib_device_put(&dev->ibdev);
}

static int netdev_inet_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	const struct in_ifaddr *ifa = ptr;

	netdev_addr_event(ifa->ifa_dev->dev);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_inet_notifier = {
	.notifier_call = netdev_inet_event,
};

static int netdev_inet6_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	const struct inet6_ifaddr *ifa = ptr;

	netdev_addr_event(ifa->idev->dev);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_inet6_notifier = {
	.notifier_call = netdev_inet6_event,
};

static bool netdev_net_is_empty(const struct net *net)
{
	struct kiw_device *dev;
	bool empty = true;

	spin_lock_bh(&netdev_devices_lock);
	list_for_each_entry(dev, &netdev_devices, link) {
		if (dev->net == net) {
			empty = false;
			break;
		}
	}
	spin_unlock_bh(&netdev_devices_lock);
	return empty;
}

static void __net_exit netdev_exit_net(struct net *net)
{
	wait_event(netdev_devices_gone, netdev_net_is_empty(net));
}

static struct pernet_operations netdev_net_ops = {
	.exit = netdev_exit_net,
};

int kiw_netdev_init(void)
{
	int err;

	err = register_pernet_subsys(&netdev_net_ops);
	if (err)
		return err;
	err = register_netdevice_notifier(&netdev_notifier);
	if (err)
		goto err_pernet;
	err = register_inetaddr_notifier(&netdev_inet_notifier);
	if (err)
		goto err_netdev;
	err = register_inet6addr_notifier(&netdev_inet6_notifier);
	if (err)
		goto err_inet;
	return 0;

err_inet:
	unregister_inetaddr_notifier(&netdev_inet_notifier);
err_netdev:
	unregister_netdevice_notifier(&netdev_notifier);
err_pernet:
	unregister_pernet_subsys(&netdev_net_ops);
	return err;
}

/* No device is left: callbacks until then find an empty list. */
void kiw_netdev_exit(void)
{
	unregister_inet6addr_notifier(&netdev_inet6_notifier);
	unregister_inetaddr_notifier(&netdev_inet_notifier);
	unregister_netdevice_notifier(&netdev_notifier);
	unregister_pernet_subsys(&netdev_net_ops);
}
