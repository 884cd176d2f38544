// SPDX-License-Identifier: GPL-2.0
/*
 * Gives back a reference to a device's GID late, when the device may be gone. This is what rdma_cm
 * does when it is interrupted while it lets go of a device: it doesn't keep the device any more,
 * and won't sleep before it is done. Loading always fails: there is nothing to unload afterwards.
 */
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

static char *netdev = "";
module_param(netdev, charp, 0);
MODULE_PARM_DESC(netdev, "the interface that the device is on, in the caller's namespace");

static uint msecs = 1000;
module_param(msecs, uint, 0);
MODULE_PARM_DESC(msecs, "how late");

static int __init late_init(void)
{
	unsigned long end = jiffies + msecs_to_jiffies(msecs);
	const struct ib_gid_attr *gid;
	struct ib_device *ibdev;
	struct net_device *ndev;

	ndev = dev_get_by_name(current->nsproxy->net_ns, netdev);
	ibdev = ndev ? ib_device_get_by_netdev(ndev, RDMA_DRIVER_UNKNOWN) : NULL;
	dev_put(ndev);
	if (!ibdev)
		return -ENODEV;
	gid = rdma_get_gid_attr(ibdev, 1, 0);
	ib_device_put(ibdev);
	if (IS_ERR(gid))
		return PTR_ERR(gid);
	pr_info("late: has a GID of the device on %s\n", netdev);
	while (time_before(jiffies, end)) {
		cpu_relax();
		/* Not every architecture lets go anywhere. */
		preempt_disable();
		preempt_enable();
	}
	rdma_put_gid_attr(gid);
	return -EAGAIN;
}
module_init(late_init);

MODULE_DESCRIPTION("A late reference to a GID, for tests");
MODULE_LICENSE("GPL");
