/* SPDX-License-Identifier: GPL-2.0 */
/* Connecting by queue pair number, without rdma_cm. */
#ifndef KIWARP_CM_NUMBER_H
#define KIWARP_CM_NUMBER_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct ib_qp_attr;
struct kiw_device;
struct kiw_ep_ops;
struct kiw_listener;
struct kiw_qp;

#define KIW_EARLY_BITS	8	/* of the hash of numbers */

/**
 * struct kiw_port - where a device listens for connections by QP number, see port.c
 * @mutex: protects @outer, @inner and @err
 * @outer: the listener on the interface, or NULL; reference held
 * @inner: the listener for other links of the host, or NULL; reference held
 * @err: why there is no @outer, or 0
 * @work: brings both to what they should be
 * @serves: role of the endpoints of their connections
 * @link: in the list of devices with an @outer, protected by the lock of that list
 * @inner_port: that of @inner, or 0; likewise
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
 * struct kiw_numbers - what is about to connect by QP number; the device's ep_lock protects it
 * @early: Requests that came before their QP was ready for them, by its number
 * @users: users with QPs that dial
 * @num_users: how many
 */
struct kiw_numbers {
	struct hlist_head	early[1 << KIW_EARLY_BITS];
	struct list_head	users;
	u32			num_users;
};

/** kiw_number_init() - prepare a new device */
void kiw_number_init(struct kiw_device *dev);

/**
 * kiw_port_settle() - open or close the port of a device
 * @dev: device, with its option and ep_closed as they shall be
 *
 * May sleep; no lock of the connection manager is held.
 *
 * Return: 0 when the device listens; -EOPNOTSUPP when the option is off; -ENODEV when the device
 * goes; or what TCP says, like -EADDRINUSE.
 */
int kiw_port_settle(struct kiw_device *dev);

/** kiw_port_exit() - the device goes, and none of its endpoints can be made any more */
void kiw_port_exit(struct kiw_device *dev);

/**
 * kiw_number_modify() - change a connected QP, which may be connected by number
 * @qp: QP
 * @attr: what to change
 * @mask: IB_QP_*, which of @attr, standard ones
 *
 * A change to RTR that names an address and a number has the QP connected to that one, without
 * waiting for it.
 *
 * Return: 0; -EINVAL for what can't be, an address that isn't one of IP or isn't this device's
 * among it; -EOPNOTSUPP for a peer where connections by number are off; -ENOMEM; -ENODEV when the
 * device is going; -EADDRINUSE when another program holds the TCP port of the device; -EACCES when
 * a connection that stood before RTS turns out to be another one's.
 */
int kiw_number_modify(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask);

#endif /* KIWARP_CM_NUMBER_H */
