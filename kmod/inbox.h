/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where an endpoint of the connection manager is told what happened. Streams and queue pairs know
 * the endpoint by its inbox only: they leave events there, and the endpoint's work finds them.
 * Events can't get lost, however often they come, and leaving one never waits.
 */
#ifndef KIWARP_INBOX_H
#define KIWARP_INBOX_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>

/* Events; those from bit 16 on are the endpoint's own. */
#define KIW_INBOX_ESTABLISHED	BIT(0)	/* responder: the peer's first message was good */
#define KIW_INBOX_CLOSING	BIT(1)	/* an orderly end has begun: FIN sent or received */
#define KIW_INBOX_ENDED		BIT(2)	/* both directions are done, or the stream is dead */
/*
 * Give up the connection or the attempt: the QP is destroyed or in error, or the device goes. The
 * consumer gets the event that it waits for, with an error.
 */
#define KIW_INBOX_ABORTED	BIT(3)
#define KIW_INBOX_READY		BIT(4)	/* a QP that connects by number may send */

/**
 * struct kiw_inbox - see above; part of the endpoint
 * @ref: the endpoint's references
 * @release: called with the last of them
 * @events: KIW_INBOX_*, what happened since the work last looked
 * @work: the endpoint's work; has a reference while it is queued
 */
struct kiw_inbox {
	refcount_t		ref;
	void			(*release)(struct kiw_inbox *inbox);
	atomic_long_t		events;
	struct work_struct	work;
};

/** kiw_inbox_init() - prepare a zeroed inbox, with one reference for the caller */
void kiw_inbox_init(struct kiw_inbox *inbox, work_func_t work,
		    void (*release)(struct kiw_inbox *inbox));

/**
 * kiw_inbox_post() - tell the endpoint what happened
 * @inbox: inbox; the caller holds a reference or is the endpoint's stream
 * @events: KIW_INBOX_*
 *
 * Any context, also under the socket lock.
 */
void kiw_inbox_post(struct kiw_inbox *inbox, unsigned long events);

/** kiw_inbox_take() - all events since the last call; the work calls it */
static inline unsigned long kiw_inbox_take(struct kiw_inbox *inbox)
{
	return atomic_long_xchg(&inbox->events, 0);
}

static inline void kiw_inbox_get(struct kiw_inbox *inbox)
{
	refcount_inc(&inbox->ref);
}

static inline void kiw_inbox_put(struct kiw_inbox *inbox)
{
	if (refcount_dec_and_test(&inbox->ref))
		inbox->release(inbox);
}

/**
 * kiw_inbox_queue() - have a work done beside those of endpoints
 * @work: work; may sleep
 */
void kiw_inbox_queue(struct work_struct *work);

/**
 * kiw_inbox_queue_late() - likewise, after a time; one that is queued already gets the new time
 * @work: work
 * @delay: jiffies
 */
void kiw_inbox_queue_late(struct delayed_work *work, unsigned long delay);

/** kiw_inbox_start() - prepare the works of endpoints, before there is a device; 0 or -ENOMEM */
int kiw_inbox_start(void);

/** kiw_inbox_stop() - wait for the works that are still under way, when all devices are gone */
void kiw_inbox_stop(void);

#endif /* KIWARP_INBOX_H */
