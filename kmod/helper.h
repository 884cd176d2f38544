/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads that streams are handed to, to take work off a processor.
 *
 * They run near it, wherever threads of the kernel may, but not on it.
 *
 * Lock order: socket lock, then the helper's. References: a helper has one to each of its streams.
 */
#ifndef KIWARP_HELPER_H
#define KIWARP_HELPER_H

#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

struct task_struct;

/**
 * struct kiw_helper - a thread and what it was given
 * @lock: protects @given; taken in softirq, too
 * @given: what it has yet to take
 * @run: works on that, in the thread; returns when nothing is left
 * @thread: made when it is needed first
 * @ready: it may be given something
 * @hire: makes it
 * @name: of the thread, with %d for @cpu
 * @cpu: which it keeps away from
 */
struct kiw_helper {
	spinlock_t		lock;
	struct list_head	given;
	void			(*run)(struct kiw_helper *helper);
	struct task_struct	*thread;
	bool			ready;
	struct work_struct	hire;
	const char		*name;
	int			cpu;
};

void kiw_helper_init(struct kiw_helper *helper, int cpu, const char *name,
		     void (*run)(struct kiw_helper *helper));

/**
 * kiw_helper_ready() - may it be given something; any context
 *
 * If not, its thread is made.
 */
bool kiw_helper_ready(struct kiw_helper *helper);

/** kiw_helper_wake() - it was given something */
void kiw_helper_wake(struct kiw_helper *helper);

/* How long it isn't asked again whether a helper pays, if it does. */
#define KIW_HELPER_PAYS		HZ

/** kiw_helper_wanted() - may there be helpers at all */
bool kiw_helper_wanted(void);

/** kiw_helper_rate() - octets in a ms, of @moved in @ns */
static inline u32 kiw_helper_rate(u64 moved, u64 ns)
{
	return div64_u64(moved * NSEC_PER_MSEC, ns ?: 1);
}

/** kiw_helper_pays() - is @rate more, by an eighth, than what it was without */
static inline bool kiw_helper_pays(u32 rate, u32 direct)
{
	return rate / 9 >= direct / 8;
}

/** kiw_helper_exit() - end it; nothing is given any more, and it takes what was */
void kiw_helper_exit(struct kiw_helper *helper);

#endif /* KIWARP_HELPER_H */
