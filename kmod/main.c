// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>
#include <rdma/rdma_netlink.h>

#include "cm/cm.h"
#include "device.h"
#include "inbox.h"
#include "lend.h"
#include "stream.h"
#include "ud/ud.h"

static int __init kiw_init(void)
{
	int err;

	err = kiw_stream_init();
	if (err)
		return err;
	err = kiw_ud_init();
	if (err)
		goto err_stream;
	err = kiw_inbox_start();
	if (err)
		goto err_ud;
	err = kiw_device_init();
	if (err)
		goto err_inbox;
	return 0;

err_inbox:
	kiw_inbox_stop();
err_ud:
	kiw_ud_exit();
err_stream:
	kiw_stream_exit();
	return err;
}

/*
 * No process can hold the module: disassociate_ucontext lets RDMA core take its verbs objects away,
 * after which every call of its context fails in the core. So, in this order:
 *
 * Unreachable: kiw_device_exit() withdraws the link type, and no new device comes up. It has the
 * core unregister every device; when that returns, the core has no call of ours running and makes
 * none, including those that were already on their way out by another path, and dealloc_driver has
 * seen the last endpoint, region and QP of each; their farewells are waited for. What remains, our
 * client of the core, the notifier and the namespace operations, finds no device until it is taken
 * down as well.
 *
 * Released: endpoints were all that could have work, timers or socket callbacks pending.
 * kiw_inbox_stop() drains the work queue in which the last of them was dropped, and kiw_cm_exit()
 * waits for callbacks that found no endpoint any more. kiw_lend_exit() waits until the kernel has
 * freed the last buffer that calls us when it is, for as long as that takes, and kiw_ud_exit() for
 * callbacks of UDP. Works of streams hold references to theirs; kiw_stream_exit() waits for those
 * still on their way out, and for what loans have left to works.
 * Pages of rings that are still mapped belong to the mapping and need no code of ours. No RCU
 * callback runs code of ours: grace periods are waited for in place, or end in a plain kfree().
 */
static void __exit kiw_exit(void)
{
	kiw_device_exit();
	kiw_inbox_stop();
	kiw_cm_exit();
	kiw_lend_exit();
	kiw_ud_exit();
	kiw_stream_exit();
}

module_init(kiw_init);
module_exit(kiw_exit);

MODULE_DESCRIPTION("Software iWARP RNIC");
MODULE_AUTHOR("The kiwarp authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(KIWARP_VERSION);
MODULE_ALIAS_RDMA_LINK("kiwarp");
/* Also makes us the latest of the core's clients, see device.c */
MODULE_SOFTDEP("pre: ib_uverbs rdma_ucm");
