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
	err = kiw_inbox_start(kiw_ep_release);
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
 * No process can hold the module: with disassociate_ucontext RDMA core takes verbs objects away,
 * and later calls fail in the core. The order:
 *
 * Unreachable: kiw_device_exit() withdraws the link type, so no device comes up, and has the core
 * unregister all devices. Then the core runs and makes no call of ours, and dealloc_driver saw the
 * last endpoint, region and QP of each device; it waits for their farewells. Our client of the
 * core, the notifiers and the namespace operations find no device until they go.
 *
 * Released: only endpoints had work, timers or socket callbacks pending. kiw_inbox_stop() drains
 * the queue that dropped the last of them, kiw_cm_exit() waits for callbacks without an endpoint.
 * kiw_lend_exit() waits until the kernel freed the last buffer of a loan, for as long as that
 * takes, and kiw_ud_exit() for UDP's callbacks. Works of streams hold references; kiw_stream_exit()
 * waits for the last, for works queued by loans, and for the RCU callbacks that free streams, the
 * only ones that run our code. Mapped pages of rings belong to the mapping.
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
/* Also makes us the core's latest client, see device.c */
MODULE_SOFTDEP("pre: ib_uverbs rdma_ucm");
