// SPDX-License-Identifier: GPL-2.0
#include "drain.h"

#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "stream.h"
#include "wq.h"

static bool drain = true;
module_param(drain, bool, 0644);
MODULE_PARM_DESC(drain,
		 "Send from another processor for who posts and posts, where that moves more (default: Y)");

/*
 * Doorbells of a run come one after the other, with no more than this in between, ns, or twice what
 * the last one took, up to a limit. A drainer looks at a ring in vain for as long.
 */
#define DRAIN_PAUSE	(25 * NSEC_PER_USEC)
#define DRAIN_PAUSE_MAX	(250 * NSEC_PER_USEC)
/* A run is over when nothing came for so long, ns. */
#define DRAIN_BREAK	(2 * NSEC_PER_MSEC)
/* Doorbells of a run before a trial; and before the next time, once it has paid. */
#define DRAIN_RUN	64
#define DRAIN_RUN_AGAIN	8
/* As many are taken off for one that comes later. */
#define DRAIN_SLOW	8U
/* How long a trial has to have been moving something, ns. */
#define DRAIN_TRIAL	(8 * NSEC_PER_MSEC)
/* For how long it isn't asked again whether it pays; if it doesn't, for one stream, from and to. */
#define DRAIN_PAYS	HZ
#define DRAIN_AGAIN_MIN	(HZ / 16 + 1)
#define DRAIN_AGAIN_MAX	(4 * HZ)
/* What a doorbell sent, octets, beyond which a system call is nothing beside it. */
#define DRAIN_LONG	(2U << 20)
/* A request counts as much as so many octets. */
#define DRAIN_REQUEST	2048

/**
 * struct drainer - one for each processor that doorbells ring on
 * @lock: protects @given, and @given_at and @running with it
 * @given: streams that the thread has yet to take
 * @given_at: when the first of them came, ns
 * @running: the thread has streams, and takes more
 * @thread: looks at the rings, from another processor; made when it is needed first
 * @ready: it may be given streams
 * @hire: makes it
 * @cpu: whose
 * @began: when the last doorbell did, ns
 * @ended: when it did
 * @since: when the run began, ns; 0 where there is none
 * @rung: doorbells in the run
 * @sent: by them
 * @direct: what the last run moved in a ms
 * @pays: the last trial did
 * @until: when it has to be tried again then, jiffies
 * @tried: for how long this trial has been moving something, ns
 * @moved: what it moved
 *
 * From @began to @direct it is the doorbells', with preemption off; @direct is read by the thread.
 * From @pays on it is the thread's; @pays is read by doorbells.
 */
struct drainer {
	spinlock_t		lock;
	struct list_head	given;
	u64			given_at;
	bool			running;

	struct task_struct	*thread;
	bool			ready;
	struct work_struct	hire;
	int			cpu;

	u64			began;
	u64			ended;
	u64			since;
	u32			rung;
	u64			sent;
	u32			direct;

	bool			pays;
	unsigned long		until;
	u64			tried;
	u64			moved;
};

static DEFINE_PER_CPU(struct drainer, drainers);

/* What @s has sent since the last look. */
static u32 progress(struct kiw_stream *s)
{
	struct kiw_drain *d = &s->drain;
	u32 index = s->qp->sq.next, offset = s->tx.offset;
	u32 requests = index - d->index;
	u32 n = offset - d->offset + DRAIN_REQUEST * requests;

	d->index = index;
	d->offset = offset;
	d->heard -= min(d->heard, requests);
	return n;
}

static u32 per_ms(u64 moved, u64 ns)
{
	return div64_u64(moved * NSEC_PER_MSEC, ns ?: 1);
}

/* --- whoever rings ------------------------------------------------------------------------- */

static void give(struct drainer *dr, struct kiw_stream *s, u64 now)
{
	if (!smp_load_acquire(&dr->ready)) {	/* in drainer_thread() */
		schedule_work(&dr->hire);
		return;
	}
	kiw_stat_inc(&s->dev->stats, KIW_STAT_DRAINS);
	s->drain.on = true;
	s->drain.leaving = false;
	s->drain.moved = now;
	kiw_sq_flag(s->qp, KIW_RING_DRAINING);
	kref_get(&s->ref);
	spin_lock(&dr->lock);
	if (list_empty(&dr->given) && !dr->running)
		dr->given_at = now;
	list_add_tail(&s->drain.node, &dr->given);
	spin_unlock(&dr->lock);
	wake_up_process(dr->thread);
}

/* Who takes turns with the peer gains nothing. */
static bool in_turns(const struct kiw_stream *s)
{
	return s->drain.heard > 2 * KIW_DRAIN_HEARD;
}

static void run_begin(struct drainer *dr, u64 now)
{
	dr->since = now;
	dr->rung = 0;
	dr->sent = 0;
}

/* Take down that the doorbell rang in a run. Return: whether to hand the stream over. */
static bool rung(struct drainer *dr, struct kiw_stream *s, u32 n, u64 now)
{
	u64 pause = now - dr->ended;
	bool pays;

	s->drain.patience = clamp_t(u64, 2 * (dr->ended - dr->began), DRAIN_PAUSE,
				    DRAIN_PAUSE_MAX);
	dr->began = now;
	if (!dr->since || pause > DRAIN_BREAK || n > DRAIN_LONG) {
		run_begin(dr, now);
		return false;
	}
	dr->sent += n;
	if (pause > s->drain.patience) {
		dr->rung -= min(dr->rung, DRAIN_SLOW);
		return false;
	}
	pays = READ_ONCE(dr->pays);
	if (READ_ONCE(dr->running))
		return pays || time_after_eq(jiffies, s->drain.until);
	if (++dr->rung < (pays ? DRAIN_RUN_AGAIN : DRAIN_RUN))
		return false;
	if (!pays)
		WRITE_ONCE(dr->direct, per_ms(dr->sent, now - dr->since));
	run_begin(dr, now);
	return pays || time_after_eq(jiffies, s->drain.until);
}

void kiw_drain_rung(struct kiw_stream *s)
{
	bool hand_over = false;
	struct drainer *dr;
	u64 now = 0;
	u32 n;

	if (s->drain.on || !READ_ONCE(drain) || num_online_cpus() == 1)
		return;
	n = progress(s);
	dr = get_cpu_ptr(&drainers);
	if (in_turns(s)) {
		dr->since = 0;
	} else {
		now = ktime_get_ns();
		hand_over = rung(dr, s, n, now);
	}
	put_cpu_ptr(&drainers);
	if (hand_over)
		give(dr, s, now);
}

void kiw_drain_pause(void)
{
	/* Who takes turns isn't slowed down by clocks. */
	if (this_cpu_read(drainers.since))
		this_cpu_write(drainers.ended, ktime_get_ns());
}

/* --- the thread ---------------------------------------------------------------------------- */

/* What becomes of the drainer's streams */
enum verdict { GO_ON, ASK_AGAIN, REFUSED };

/* The process rings again; what it has posted until then is still the drainer's. */
static void leave(struct kiw_stream *s, bool refused)
{
	struct kiw_drain *d = &s->drain;

	d->leaving = true;
	kiw_sq_rest(s->qp);
	if (!refused)
		return;
	d->again = clamp_t(unsigned long, 2 * d->again, DRAIN_AGAIN_MIN, DRAIN_AGAIN_MAX);
	d->until = jiffies + d->again;
}

/* Send what is posted. Return: whether to look again; else it is left to the process. */
static bool serve(struct kiw_stream *s, enum verdict verdict, bool pays, u64 now, u64 *moved)
{
	struct kiw_drain *d = &s->drain;
	bool keep = false;
	u32 n;

	kiw_stream_lock(s);
	if (s->qp) {
		n = progress(s);
		*moved += n;
		if (n)
			d->moved = now;
		if (pays)
			d->again = 0;
		keep = s->qp->state == KIW_QP_RTS && now - d->moved < d->patience;
		if (keep && !d->leaving && (verdict != GO_ON || in_turns(s)))
			leave(s, verdict == REFUSED);
		keep = keep && (!d->leaving || kiw_sq_posted(s->qp));
	}
	/* As soon as it isn't on, it may be given to another. */
	d->on = keep;
	if (!keep)
		list_del(&d->node);
	kiw_stream_unlock(s);
	return keep;
}

static enum verdict judge(struct drainer *dr, u64 *since, u64 now, u64 moved)
{
	u32 tried;

	if (dr->pays) {
		if (time_before(jiffies, dr->until))
			return GO_ON;
		WRITE_ONCE(dr->pays, false);
		return ASK_AGAIN;
	}
	if (moved) {
		dr->moved += moved;
		dr->tried += now - *since;
		*since = now;
	}
	if (dr->tried < DRAIN_TRIAL)
		return GO_ON;
	tried = per_ms(dr->moved, dr->tried);
	dr->tried = 0;
	dr->moved = 0;
	if (tried / 9 < READ_ONCE(dr->direct) / 8)
		return REFUSED;
	dr->until = jiffies + DRAIN_PAYS;
	WRITE_ONCE(dr->pays, true);
	return GO_ON;
}

static bool take(struct drainer *dr, struct list_head *mine)
{
	spin_lock(&dr->lock);
	list_splice_tail_init(&dr->given, mine);
	WRITE_ONCE(dr->running, !list_empty(mine));
	spin_unlock(&dr->lock);
	return !list_empty(mine);
}

/* Those given from now on are for the next time; so are those who still wait, as if given now. */
static void take_no_more(struct drainer *dr, u64 now)
{
	spin_lock(&dr->lock);
	WRITE_ONCE(dr->running, false);
	dr->given_at = now;
	spin_unlock(&dr->lock);
}

static void drainer_run(struct drainer *dr)
{
	enum verdict verdict = GO_ON;
	struct kiw_stream *s, *next;
	u64 now, moved, since;
	LIST_HEAD(mine);

	if (!take(dr, &mine))
		return;
	since = dr->given_at;
	do {
		now = ktime_get_ns();
		moved = 0;
		list_for_each_entry_safe(s, next, &mine, drain.node) {
			if (!serve(s, verdict, dr->pays, now, &moved))
				kiw_stream_put(s);
		}
		if (verdict == GO_ON) {
			verdict = READ_ONCE(drain) ? judge(dr, &since, now, moved) : ASK_AGAIN;
			if (verdict != GO_ON)
				take_no_more(dr, now);
		}
		cond_resched_tasks_rcu_qs();
	} while (verdict == GO_ON ? take(dr, &mine) : !list_empty(&mine));
}

/* Wherever threads of the kernel may run nearby, but not where the doorbells ring. */
static bool drainer_place(const struct drainer *dr)
{
	cpumask_var_t mask;
	bool placed;

	if (!alloc_cpumask_var(&mask, GFP_KERNEL))
		return false;
	cpumask_and(mask, cpumask_of_node(cpu_to_node(dr->cpu)),
		    housekeeping_cpumask(HK_TYPE_KTHREAD));
	cpumask_clear_cpu(dr->cpu, mask);
	placed = !set_cpus_allowed_ptr(current, mask);
	free_cpumask_var(mask);
	return placed;
}

static int drainer_thread(void *data)
{
	struct drainer *dr = data;

	set_user_nice(current, MIN_NICE);
	smp_store_release(&dr->ready, drainer_place(dr));	/* for give() */
	for (;;) {
		set_current_state(TASK_IDLE);
		if (list_empty(&dr->given)) {
			if (kthread_should_stop())
				break;
			schedule();
		}
		__set_current_state(TASK_RUNNING);
		drainer_run(dr);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static void drainer_hire(struct work_struct *work)
{
	struct drainer *dr = container_of(work, struct drainer, hire);
	struct task_struct *thread;

	if (dr->thread)
		return;
	thread = kthread_create(drainer_thread, dr, "kiwarp/%d", dr->cpu);
	if (IS_ERR(thread))
		return;
	dr->thread = thread;
	wake_up_process(thread);
}

void kiw_drain_init(void)
{
	struct drainer *dr;
	int cpu;

	for_each_possible_cpu(cpu) {
		dr = per_cpu_ptr(&drainers, cpu);
		dr->cpu = cpu;
		spin_lock_init(&dr->lock);
		INIT_LIST_HEAD(&dr->given);
		INIT_WORK(&dr->hire, drainer_hire);
	}
}

void kiw_drain_exit(void)
{
	struct drainer *dr;
	int cpu;

	for_each_possible_cpu(cpu) {
		dr = per_cpu_ptr(&drainers, cpu);
		cancel_work_sync(&dr->hire);
		if (dr->thread)
			kthread_stop(dr->thread);
	}
}
