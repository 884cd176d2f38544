// SPDX-License-Identifier: GPL-2.0
#include "inbox.h"

static struct workqueue_struct *inbox_wq;
static void (*inbox_release)(struct kiw_inbox *inbox);

void kiw_inbox_init(struct kiw_inbox *inbox, work_func_t work)
{
	refcount_set(&inbox->ref, 1);
	INIT_WORK(&inbox->work, work);
}

void kiw_inbox_put(struct kiw_inbox *inbox)
{
	if (refcount_dec_and_test(&inbox->ref))
		inbox_release(inbox);
}

void kiw_inbox_post(struct kiw_inbox *inbox, unsigned long events)
{
	atomic_long_or(events, &inbox->events);
	kiw_inbox_get(inbox);
	/* A queued work will see the events, and holds its reference. */
	if (!queue_work(inbox_wq, &inbox->work))
		kiw_inbox_put(inbox);
}

void kiw_inbox_queue(struct work_struct *work)
{
	queue_work(inbox_wq, work);
}

void kiw_inbox_queue_late(struct delayed_work *work, unsigned long delay)
{
	mod_delayed_work(inbox_wq, work, delay);
}

int kiw_inbox_start(void (*release)(struct kiw_inbox *inbox))
{
	inbox_release = release;
	/* A work may wait for a process's lock; no other work waits for it meanwhile. */
	inbox_wq = alloc_workqueue("kiwarp_cm", WQ_UNBOUND | WQ_MEM_RECLAIM, WQ_MAX_ACTIVE);
	return inbox_wq ? 0 : -ENOMEM;
}

void kiw_inbox_stop(void)
{
	destroy_workqueue(inbox_wq);
}
