// SPDX-License-Identifier: GPL-2.0
#include "place.h"

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <net/tcp.h>

#include "helper.h"
#include "stream.h"

/* What a callback places, octets, where two don't take turns, nor are messages small. */
#define PLACE_BULK	4096
/* What of a stream may wait for the placer, octets; beyond that callbacks place. */
#define PLACE_QUEUE	(1U << 20)
/*
 * A run of callbacks, or of the placer's, is over when nothing came for so long, ns: more than a
 * process waits for its turn where two share a processor.
 */
#define PLACE_BREAK	(8 * NSEC_PER_MSEC)
/*
 * For how long callbacks are measured, ns; what part of that they have to take, one of so many; and
 * how many times that has to be so before a trial.
 */
#define PLACE_RUN	(16 * NSEC_PER_MSEC)
#define PLACE_LOAD	4
#define PLACE_RUNS	2
/* How long a trial lasts, ns, after what of it isn't measured: threads have to find processors. */
#define PLACE_TRIAL	(16 * NSEC_PER_MSEC)
#define PLACE_WARM	(4 * NSEC_PER_MSEC)
/* How long there is no trial after one that didn't pay, from and to. */
#define PLACE_AGAIN_MIN	(HZ / 4)
#define PLACE_AGAIN_MAX	HZ

/**
 * enum phase - what becomes of callbacks
 * @DIRECT: they place, or whoever owns the socket, and that is measured
 * @TRIAL: the placer does, and that is measured; a pause ends it
 * @PAYS: it does
 * @REFUSED: they do
 */
enum phase { DIRECT, TRIAL, PAYS, REFUSED };

/**
 * struct placer - one for each processor that packets arrive on
 * @helper: its thread places
 * @phase: TRIAL is ended by the thread, the others by callbacks
 * @since: when what is measured began, ns; 0 if it didn't
 * @last: when something was placed last, ns
 * @base: octets placed before
 * @busy: what it took, ns; not of the thread
 * @runs: so many measurements found that it takes its part, in a row
 * @direct: what was placed in a ms then, at most
 * @warm: the trial has gone on for PLACE_WARM
 * @until: when the phase ends, if it isn't one of measuring, jiffies
 * @again: how long it was refused for, jiffies; 0 if the last trial paid
 * @here: octets that callbacks and owners on its processor placed; theirs
 * @there: octets that the thread placed; its own
 *
 * From @since to @again all is the thread's in TRIAL, else that of callbacks and owners on its
 * processor, with BH off.
 */
struct placer {
	struct kiw_helper	helper;
	enum phase		phase;
	u64			since;
	u64			last;
	u64			base;
	u64			busy;
	u32			runs;
	u32			direct;
	bool			warm;
	unsigned long		until;
	unsigned long		again;
	u64			here;
	u64			there;
};

static DEFINE_PER_CPU(struct placer, placers);

static u64 placed(const struct placer *p)
{
	return READ_ONCE(p->here) + READ_ONCE(p->there);
}

static void run_begin(struct placer *p, u64 now)
{
	p->since = now;
	p->base = placed(p);
	p->busy = 0;
}

/* Did nothing come for long, before @began? */
static bool paused(const struct placer *p, u64 began)
{
	return (s64)(began - p->last) > PLACE_BREAK;
}

/* Something is being placed since @began. Return: whether it goes on a run, which else begins. */
static bool run_goes_on(struct placer *p, u64 began, u64 now)
{
	bool on = p->since && !paused(p, began);

	if (!on)
		run_begin(p, began);
	p->last = now;
	return on;
}

static u32 run_rate(const struct placer *p, u64 now)
{
	return kiw_helper_rate(placed(p) - p->base, now - p->since);
}

/* Octets placed in this turn. The part of an FPDU that has yet to end counts as data. */
static u32 placed_now(const struct kiw_stream *s)
{
	u32 received = kiw_stream_received(s) - s->turn;

	return received - min(received, s->place.requests);
}

/* --- callbacks ----------------------------------------------------------------------------- */

/* Does the placer place? */
static bool steers(struct placer *p)
{
	switch (smp_load_acquire(&p->phase)) {	/* in judge() */
	case TRIAL:
		return kiw_helper_wanted();
	case PAYS:
		if (time_before(jiffies, p->until) && kiw_helper_wanted())
			return true;
		break;
	case REFUSED:
		if (time_before(jiffies, p->until))
			return false;
		break;
	case DIRECT:
		return false;
	}
	p->since = 0;
	p->runs = 0;
	WRITE_ONCE(p->phase, DIRECT);
	return false;
}

static void enlist(struct placer *p, struct kiw_stream *s)
{
	spin_lock_bh(&p->helper.lock);
	list_add_tail(&s->place.node, &p->helper.given);
	spin_unlock_bh(&p->helper.lock);
}

static void give(struct placer *p, struct kiw_stream *s)
{
	kiw_stat_inc(&s->dev->stats, KIW_STAT_STEERS);
	s->place.queued = true;
	kref_get(&s->ref);
	enlist(p, s);
	kiw_helper_wake(&p->helper);
}

bool kiw_place_elsewhere(struct kiw_stream *s)
{
	struct sock *sk = s->sk;
	struct placer *p;

	/* What comes in from the backlog is placed there, too, until its turn is over. */
	if (s->place.served) {
		s->place.queued |= kiw_stream_turn_over(s);
		return s->place.queued;
	}
	if (s->busy || sock_owned_by_user(sk))
		return s->place.queued;
	if (tcp_inq(sk) - s->rx.taken >= PLACE_QUEUE)
		return false;
	if (s->place.queued)
		return true;
	p = this_cpu_ptr(&placers);
	if (!s->place.bulk || !steers(p))
		return false;
	give(p, s);
	return true;
}

bool kiw_place_rest(struct kiw_stream *s)
{
	bool given = false;
	struct placer *p;

	if (s->place.queued)
		return true;
	if (s->place.served || placed_now(s) < PLACE_BULK)
		return false;
	local_bh_disable();
	p = this_cpu_ptr(&placers);
	if (steers(p)) {
		give(p, s);
		given = true;
	}
	local_bh_enable();
	return given;
}

void kiw_place_resume(struct kiw_stream *s)
{
	struct placer *p = s->place.gave_way;

	if (!p)
		return;
	s->place.gave_way = NULL;
	enlist(p, s);
	kiw_helper_wake(&p->helper);
}

void kiw_place_begin(struct kiw_stream *s)
{
	const struct placer *p = raw_cpu_ptr(&placers);

	s->place.requests = 0;
	s->place.began = s->place.bulk && READ_ONCE(p->phase) == DIRECT ? ktime_get_ns() : 0;
}

/* Return: whether it is time for a trial. */
static bool measure(struct placer *p, u64 began)
{
	u64 now = ktime_get_ns(), lasted;

	if (!run_goes_on(p, began, now)) {
		p->runs = 0;
		return false;
	}
	p->busy += now - began;
	lasted = now - p->since;
	if (lasted < PLACE_RUN)
		return false;
	p->direct = max(run_rate(p, now), p->runs ? p->direct : 0);
	p->runs = PLACE_LOAD * p->busy >= lasted ? p->runs + 1 : 0;
	run_begin(p, now);
	return p->runs >= PLACE_RUNS && kiw_helper_wanted() && kiw_helper_ready(&p->helper);
}

void kiw_place_end(struct kiw_stream *s)
{
	u32 n = placed_now(s);
	bool bulk = n >= PLACE_BULK;
	struct placer *p;

	if (kiw_stream_received(s) == s->turn)
		return;
	local_bh_disable();
	p = this_cpu_ptr(&placers);
	/* A trial may have begun since, of another stream. */
	if (bulk && s->place.began && p->phase == DIRECT && measure(p, s->place.began)) {
		p->since = 0;
		p->warm = false;
		smp_store_release(&p->phase, TRIAL);	/* in serve() */
	}
	s->place.bulk = bulk;
	WRITE_ONCE(p->here, p->here + n);
	local_bh_enable();
}

/* --- the thread ---------------------------------------------------------------------------- */

/* The trial is over. Return: whether it paid. */
static bool conclude(struct placer *p, bool pays)
{
	p->again = pays ? 0 : clamp_t(unsigned long, 2 * p->again, PLACE_AGAIN_MIN,
				      PLACE_AGAIN_MAX);
	p->until = jiffies + (pays ? KIW_HELPER_PAYS : p->again);
	smp_store_release(&p->phase, pays ? PAYS : REFUSED);	/* in steers() */
	return pays;
}

/* Return: whether it goes on placing. */
static bool judge(struct placer *p, u64 now)
{
	u32 rate = run_rate(p, now);
	u64 lasted = now - p->since;

	if (!p->warm) {
		if (lasted >= PLACE_WARM) {
			p->warm = true;
			run_begin(p, now);
		}
		return true;
	}
	if (lasted < PLACE_TRIAL)
		return true;
	return conclude(p, kiw_helper_pays(rate, p->direct));
}

/* It has placed @n octets. Return: whether it goes on. */
static bool account(struct placer *p, u32 n, u64 began)
{
	enum phase phase = smp_load_acquire(&p->phase);	/* in kiw_place_end() */
	u64 now = ktime_get_ns();

	WRITE_ONCE(p->there, p->there + n);
	if (phase == TRIAL) {
		/* Other streams may come now, or the thread is late, as it would be again. */
		if (paused(p, began))
			return conclude(p, false);
		if (run_goes_on(p, began, now))
			return judge(p, now);
		return kiw_helper_wanted();
	}
	return phase == PAYS && time_before(jiffies, READ_ONCE(p->until)) && kiw_helper_wanted();
}

/* Place what has arrived in @s, which is on no list. */
static void serve(struct placer *p, struct kiw_stream *s)
{
	u64 began = ktime_get_ns();
	bool more, again, wanted;

	kiw_stream_lock(s);
	s->place.queued = false;
	s->place.served = true;
	more = kiw_stream_settle(s) || s->place.queued;
	again = account(p, placed_now(s), began) && more;
	wanted = kiw_stream_wanted(s);
	s->place.queued = again;
	s->place.gave_way = again && wanted ? p : NULL;
	s->place.served = false;
	kiw_stream_unlock_settled(s, more && !again);
	if (!again)
		kiw_stream_put(s);
	else if (!wanted)
		enlist(p, s);
}

static void placer_run(struct kiw_helper *helper)
{
	struct placer *p = container_of(helper, struct placer, helper);
	struct kiw_stream *s;

	for (;;) {
		spin_lock_bh(&helper->lock);
		s = list_first_entry_or_null(&helper->given, struct kiw_stream, place.node);
		if (s)
			list_del(&s->place.node);
		spin_unlock_bh(&helper->lock);
		if (!s)
			break;
		serve(p, s);
		cond_resched_tasks_rcu_qs();
	}
}

void kiw_place_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kiw_helper_init(&per_cpu(placers, cpu).helper, cpu, "kiwarp_rx/%d", placer_run);
}

void kiw_place_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kiw_helper_exit(&per_cpu(placers, cpu).helper);
}
