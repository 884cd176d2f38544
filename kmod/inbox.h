/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events for an endpoint of the connection manager. Streams and queue pairs know only the
 * endpoint's inbox: they post events, and the endpoint's work handles them. Events cannot be lost,
 * however many, and posting never waits.
 */
#ifndef KIWARP_INBOX_H
#define KIWARP_INBOX_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>

/* Events; those from bit 16 on are the endpoint's own. */
#define KIW_INBOX_ESTABLISHED	BIT(0)	/* responder: the peer's first message was good */
#define KIW_INBOX_CLOSING	BIT(1)	/* an orderly end began: FIN sent or received */
#define KIW_INBOX_ENDED		BIT(2)	/* both directions are done, or the stream is dead */
/*
 * Give up the connection or the attempt: the QP is destroyed or in error, or the device goes. The
 * consumer gets its pending event with an error.
 */
#define KIW_INBOX_ABORTED	BIT(3)
#define KIW_INBOX_READY		BIT(4)	/* a QP that connects by number may send */

/**
 * struct kiw_inbox - see above; part of the endpoint
 * @ref: the endpoint's references
 * @events: KIW_INBOX_* since the last kiw_inbox_take()
 * @work: the endpoint's work; holds a reference while queued
 */
struct kiw_inbox {
	refcount_t		ref;
	atomic_long_t		events;
	struct work_struct	work;
};

/** kiw_inbox_init() - prepare a zeroed inbox, with a reference for the caller */
void kiw_inbox_init(struct kiw_inbox *inbox, work_func_t work);

/**
 * kiw_inbox_post() - post events to the endpoint
 * @inbox: inbox; the caller holds a reference or is the endpoint's stream
 * @events: KIW_INBOX_*
 *
 * Any context, also under the socket lock.
 */
void kiw_inbox_post(struct kiw_inbox *inbox, unsigned long events);

/** kiw_inbox_take() - all events since the last call; only for the endpoint's work */
static inline unsigned long kiw_inbox_take(struct kiw_inbox *inbox)
{
	return atomic_long_xchg(&inbox->events, 0);
}

static inline void kiw_inbox_get(struct kiw_inbox *inbox)
{
	refcount_inc(&inbox->ref);
}

/** kiw_inbox_put() - drop a reference; the last one releases the endpoint */
void kiw_inbox_put(struct kiw_inbox *inbox);

/**
 * kiw_inbox_queue() - run a work beside those of endpoints
 * @work: work; may sleep
 */
void kiw_inbox_queue(struct work_struct *work);

/**
 * kiw_inbox_queue_late() - same after a time; a queued work gets the new time
 * @work: work
 * @delay: jiffies
 */
void kiw_inbox_queue_late(struct delayed_work *work, unsigned long delay);

/**
 * kiw_inbox_start() - create the workqueue, before the first device
 * @release: frees an endpoint, called with its inbox when the last reference is dropped
 *
 * Return: 0 or -ENOMEM.
 */
int kiw_inbox_start(void (*release)(struct kiw_inbox *inbox));

/** kiw_inbox_stop() - wait for works under way, after the last device */
void kiw_inbox_stop(void);

#endif /* KIWARP_INBOX_H */
