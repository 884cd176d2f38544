/* SPDX-License-Identifier: GPL-2.0 */
/* Network interfaces under devices, and their namespaces. */
#ifndef KIWARP_NETDEV_H
#define KIWARP_NETDEV_H

#include <linux/types.h>

struct kiw_device;
struct net_device;

/**
 * kiw_netdev_attach() - add a new device to the list
 * @dev: device before registration; gets its namespace and interface
 * @ndev: interface; rtnl is held, so that no event is missed
 *
 * Return: 0, -EEXIST if the interface already carries a device, -ENODEV if it is going away.
 */
int kiw_netdev_attach(struct kiw_device *dev, struct net_device *ndev);

/** kiw_netdev_settle() - catch up on events of registration; may be unregistered again */
void kiw_netdev_settle(struct kiw_device *dev);

/** kiw_netdev_detach() - remove a device, if listed; nothing is left of it */
void kiw_netdev_detach(struct kiw_device *dev);

/** kiw_netdev_get() - the interface, with a reference; NULL if gone or not in @dev->net */
struct net_device *kiw_netdev_get(struct kiw_device *dev);

/** kiw_netdev_speed() - Mbit/s, 0 if unknown; takes rtnl */
u32 kiw_netdev_speed(struct kiw_device *dev);

int kiw_netdev_init(void);
void kiw_netdev_exit(void);

#endif /* KIWARP_NETDEV_H */
