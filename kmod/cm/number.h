/* SPDX-License-Identifier: GPL-2.0 */
/* Connecting by queue pair number, without rdma_cm. */
#ifndef KIWARP_CM_NUMBER_H
#define KIWARP_CM_NUMBER_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct ib_qp_attr;
struct kiw_device;
struct kiw_ep_ops;
struct kiw_listener;
struct kiw_qp;

/**
 * struct kiw_port - listeners of a device for connections by QP number, see port.c
 * @mutex: protects @outer, @inner and @err
 * @outer: listener on the interface, or NULL; reference held
 * @inner: listener for other links of the host, or NULL; reference held
 * @err: 0, or why there is no @outer
 * @work: opens and closes both as needed
 * @serves: role of the endpoints of their connections
 * @link: in the list of devices with an @outer; protected by that list's lock
 * @inner_port: port of @inner, or 0; same lock
 */
struct kiw_port {
	struct mutex			mutex;
	struct kiw_listener		*outer;
	struct kiw_listener		*inner;
	int				err;
	struct work_struct		work;
	const struct kiw_ep_ops		*serves;
	struct list_head		link;
	u16				inner_port;
};

/**
 * struct kiw_numbers - pending connections by QP number; protected by the device's ep_lock
 * @early: Requests that wait for their QP, see early.c
 * @users: users with QPs that dial
 * @num_users: entries of @users
 */
struct kiw_numbers {
	struct rb_root		early;
	struct list_head	users;
	u32			num_users;
};

void kiw_number_init(struct kiw_device *dev);

/**
 * kiw_port_settle() - open or close the port of a device
 * @dev: device; its option and ep_closed are already set
 *
 * May sleep; call without locks of the connection manager.
 *
 * Return: 0: the device listens; -EOPNOTSUPP: the option is off; -ENODEV: the device goes; or TCP's
 * error, such as -EADDRINUSE.
 */
int kiw_port_settle(struct kiw_device *dev);

/** kiw_port_exit() - stop the work of a device that goes and can create no endpoints */
void kiw_port_exit(struct kiw_device *dev);

/**
 * kiw_number_modify() - modify a connected QP, perhaps to connect by number
 * @qp: queue pair
 * @attr: new attributes
 * @mask: IB_QP_* of @attr, standard ones
 *
 * A change to RTR with an address and a number begins to connect to these and does not wait. May
 * sleep.
 *
 * Return: 0; -EINVAL for invalid attributes, including an address that is not IP or not this
 * device's; -EOPNOTSUPP for a peer while connections by number are off; -ENOMEM; -ENODEV: the
 * device goes; -EADDRINUSE: another program holds the device's TCP port; -EACCES: a connection that
 * existed before RTS belongs to another peer.
 */
int kiw_number_modify(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask);

#endif /* KIWARP_CM_NUMBER_H */
