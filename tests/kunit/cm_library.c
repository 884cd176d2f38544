// SPDX-License-Identifier: GPL-2.0
/*
 * What waits in the connection manager once more, as proto_library.c has the library. It counts its
 * steps, and endpoints have no works.
 */
#include "cm_library.h"

#include <linux/string.h>
#include <linux/workqueue.h>
#include <net/ipv6.h>

#include "cm/priv.h"
#include "proto/number.h"

unsigned int cm_steps;

void kiw_inbox_post(struct kiw_inbox *inbox, unsigned long events)
{
	atomic_long_or(events, &inbox->events);
}

void kiw_inbox_put(struct kiw_inbox *inbox)
{
	refcount_dec(&inbox->ref);
}

void kiw_ep_again(struct kiw_ep *ep, unsigned long when)
{
	ep->again = when;
}

#define memcmp(a, b, n)			(cm_steps++, memcmp(a, b, n))
#define ipv6_addr_cmp(a, b)		(cm_steps++, ipv6_addr_cmp(a, b))
#define ipv6_addr_equal(a, b)		(cm_steps++, ipv6_addr_equal(a, b))
#define kiw_number_answers(own, req)	(cm_steps++, kiw_number_answers(own, req))
#define work_busy(work)			(cm_steps++, work_busy(work))

#include "../../kmod/cm/early.c"
#include "../../kmod/cm/queue.c"
