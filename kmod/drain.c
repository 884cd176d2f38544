// SPDX-License-Identifier: GPL-2.0
#include "drain.h"

#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>

#include <net/sock.h>

#include "helper.h"
#include "stream.h"
#include "wq.h"

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
/* How long a trial lasts, ns. */
#define DRAIN_TRIAL	(8 * NSEC_PER_MSEC)
/* For how long one stream isn't tried again if it doesn't pay, from and to. */
#define DRAIN_AGAIN_MIN	(HZ / 16 + 1)
#define DRAIN_AGAIN_MAX	(4 * HZ)
/* What a doorbell sent, octets, beyond which a system call is nothing beside it. */
#define DRAIN_LONG	(2U << 20)
/* A request counts as much as so many octets. */
#define DRAIN_REQUEST	2048

/**
 * struct drainer - one for each processor that doorbells ring on
 * @helper: its thread looks at the rings
 * @given_at: when the first of those came that it has yet to take, ns; the helper's lock
 * @running: the thread has streams, and takes more; the helper's lock
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
	struct kiw_helper	helper;
	u64			given_at;
	bool			running;

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

/* --- whoever rings ------------------------------------------------------------------------- */

static bool give(struct drainer *dr, struct kiw_stream *s, u64 now)
{
	if (!kiw_helper_ready(&dr->helper))
		return false;
	kiw_stat_inc(&s->dev->stats, KIW_STAT_DRAINS);
	s->drain.on = true;
	s->drain.leaving = false;
	s->drain.moved = now;
	kiw_sq_flag(s->qp, KIW_RING_DRAINING);
	kref_get(&s->ref);
	spin_lock_bh(&dr->helper.lock);
	if (list_empty(&dr->helper.given) && !dr->running)
		dr->given_at = now;
	list_add_tail(&s->drain.node, &dr->helper.given);
	spin_unlock_bh(&dr->helper.lock);
	kiw_helper_wake(&dr->helper);
	return true;
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
		WRITE_ONCE(dr->direct, kiw_helper_rate(dr->sent, now - dr->since));
	run_begin(dr, now);
	return pays || time_after_eq(jiffies, s->drain.until);
}

void kiw_drain_rung(struct kiw_stream *s)
{
	bool hand_over = false;
	struct drainer *dr;
	u64 now = 0;
	u32 n;

	if (s->drain.on || !kiw_helper_wanted())
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

/**
 * struct round - a look at all streams
 * @now: when it began, ns
 * @moved: what those on trial moved since the last one
 * @judged: so many are still there
 */
struct round {
	u64	now;
	u64	moved;
	u32	judged;
};

/* Send what is posted. Return: whether to look again; else it is left to the process. */
static bool serve(struct kiw_stream *s, enum verdict verdict, bool pays, struct round *r)
{
	struct kiw_drain *d = &s->drain;
	bool keep = false;
	u32 n, patience;

	/*
	 * Whoever has the socket sends what is posted, and needn't let go of it for our sake;
	 * but it may be waiting for this processor.
	 */
	if (verdict == GO_ON && !d->leaving && r->now - d->moved < DRAIN_BREAK &&
	    /* only a hint */
	    data_race(sock_owned_by_user_nocheck(s->sk)))
		return true;
	kiw_stream_lock(s);
	if (s->qp) {
		n = progress(s);
		r->moved += n;
		if (n)
			d->moved = r->now;
		if (pays)
			d->again = 0;
		/* What waits for room isn't a pause of the process. */
		patience = kiw_tx_more(s) ? DRAIN_BREAK : d->patience;
		keep = s->qp->state == KIW_QP_RTS && r->now - d->moved < patience;
		if (keep && !d->leaving && (verdict != GO_ON || in_turns(s)))
			leave(s, verdict == REFUSED);
		keep = keep && (!d->leaving || kiw_sq_posted(s->qp));
		r->judged += keep;
	}
	/* As soon as it isn't on, it may be given to another. */
	d->on = keep;
	if (!keep)
		list_del(&d->node);
	kiw_stream_unlock(s);
	return keep;
}

/* Is it known what a trial tells, of so many ns, and octets in a ms? */
static bool tried_enough(u64 ns, u32 rate, u32 direct)
{
	return ns >= DRAIN_TRIAL || (ns >= DRAIN_TRIAL / 4 && rate < direct / 2);
}

static enum verdict judge(struct drainer *dr, u64 *since, u64 now, u64 moved)
{
	u32 direct = READ_ONCE(dr->direct);
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
	tried = kiw_helper_rate(dr->moved, dr->tried);
	if (!tried_enough(dr->tried, tried, direct))
		return GO_ON;
	dr->tried = 0;
	dr->moved = 0;
	if (!kiw_helper_pays(tried, direct))
		return REFUSED;
	dr->until = jiffies + KIW_HELPER_PAYS;
	WRITE_ONCE(dr->pays, true);
	return GO_ON;
}

static bool take(struct drainer *dr, struct list_head *mine)
{
	spin_lock_bh(&dr->helper.lock);
	list_splice_tail_init(&dr->helper.given, mine);
	WRITE_ONCE(dr->running, !list_empty(mine));
	spin_unlock_bh(&dr->helper.lock);
	return !list_empty(mine);
}

/* Those given from now on are for the next time; so are those who still wait, as if given now. */
static void take_no_more(struct drainer *dr, u64 now)
{
	spin_lock_bh(&dr->helper.lock);
	WRITE_ONCE(dr->running, false);
	dr->given_at = now;
	spin_unlock_bh(&dr->helper.lock);
}

static void drainer_run(struct kiw_helper *helper)
{
	struct drainer *dr = container_of(helper, struct drainer, helper);
	enum verdict verdict = GO_ON;
	struct kiw_stream *s, *next;
	struct round round;
	LIST_HEAD(mine);
	u64 since;

	if (!take(dr, &mine))
		return;
	since = dr->given_at;
	do {
		round = (struct round){ .now = ktime_get_ns() };
		list_for_each_entry_safe(s, next, &mine, drain.node) {
			if (!serve(s, verdict, dr->pays, &round))
				kiw_stream_put(s);
		}
		if (verdict == GO_ON) {
			verdict = kiw_helper_wanted() ? judge(dr, &since, round.now, round.moved) :
							ASK_AGAIN;
			if (verdict != GO_ON)
				take_no_more(dr, round.now);
		} else if (!round.judged) {
			verdict = GO_ON;
			since = round.now;
		}
		cond_resched_tasks_rcu_qs();
	} while (verdict == GO_ON ? take(dr, &mine) : !list_empty(&mine));
}

void kiw_drain_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kiw_helper_init(&per_cpu(drainers, cpu).helper, cpu, "kiwarp/%d", drainer_run);
}

void kiw_drain_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kiw_helper_exit(&per_cpu(drainers, cpu).helper);
}
