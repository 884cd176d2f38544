/* SPDX-License-Identifier: GPL-2.0 */
/* The network interfaces under our devices, and their namespaces. */
#ifndef KIWARP_NETDEV_H
#define KIWARP_NETDEV_H

#include <linux/types.h>

struct kiw_device;
struct net_device;

/**
 * kiw_netdev_attach() - enter a new device into the list
 * @dev: device that is about to be registered; gets its namespace and interface from @ndev
 * @ndev: interface; rtnl is held, so that no event about it can be missed
 *
 * Return: 0, -EEXIST if the interface has a device, -ENODEV if it is going away.
 */
int kiw_netdev_attach(struct kiw_device *dev, struct net_device *ndev);

/**
 * kiw_netdev_settle() - catch up on what happened to the interface during registration
 * @dev: device; registration has succeeded, it may have been unregistered again
 */
void kiw_netdev_settle(struct kiw_device *dev);

/** kiw_netdev_detach() - take a device out of the list, if it is there; nothing is left of it */
void kiw_netdev_detach(struct kiw_device *dev);

/** kiw_netdev_get() - the interface, with a reference, or NULL if it is gone or left @dev->net */
struct net_device *kiw_netdev_get(struct kiw_device *dev);

/** kiw_netdev_speed() - speed in Mbit/s, 0 if nobody knows; takes rtnl */
u32 kiw_netdev_speed(struct kiw_device *dev);

int kiw_netdev_init(void);
void kiw_netdev_exit(void);

#endif /* KIWARP_NETDEV_H */
