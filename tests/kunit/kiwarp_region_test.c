// SPDX-License-Identifier: GPL-2.0
/* The table of regions, with queue pairs and protection domains that only the table looks at */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/timer.h>
#include <rdma/ib_verbs.h>

#include "kiwarp-abi.h"
#include "region.h"
#include "types.h"

#define BASE 0x7f0000001000ULL

struct fixture {
	struct kiw_device	*dev;
	struct kiw_owner	*own, *other;
	struct kiw_pd		pd, other_pd;
	struct page		*page[2];
	struct kiw_region	region, second;
	struct kiw_window	window;
};

static int region_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->dev = kunit_kzalloc(test, sizeof(*f->dev), GFP_KERNEL);
	f->own = kunit_kzalloc(test, sizeof(*f->own), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->dev);
	f->other = kunit_kzalloc(test, sizeof(*f->own), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->own);
	KUNIT_ASSERT_NOT_NULL(test, f->other);
	for (int i = 0; i < ARRAY_SIZE(f->page); i++) {
		f->page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		KUNIT_ASSERT_NOT_NULL(test, f->page[i]);
	}
	xa_init(&f->dev->regions);
	f->own->pd = &f->pd.ibpd;
	f->own->regions = &f->dev->regions;
	*f->other = *f->own;
	spin_lock_init(&f->pd.lock);
	f->pd.windows = RB_ROOT;
	f->region = (struct kiw_region){
		.valid = true,
		.access = IB_ACCESS_REMOTE_READ,
		.pd = &f->pd.ibpd,
		.iova = BASE,
		.length = PAGE_SIZE,
		.offset = 16,
		.pages = f->page,
	};
	test->priv = f;
	return 0;
}

static void region_exit(struct kunit *test)
{
	struct fixture *f = test->priv;

	xa_destroy(&f->dev->regions);
	for (int i = 0; i < ARRAY_SIZE(f->page); i++)
		__free_page(f->page[i]);
}

/* A region, and a window of type 1 or 2B that isn't bound to it yet */
static struct fixture *with_window(struct kunit *test, bool of_qp)
{
	struct fixture *f = test->priv;

	f->region.kind = KIW_REGION_USER;
	f->region.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND;
	f->window = (struct kiw_window){
		.region.kind = KIW_REGION_WINDOW,
		.region.pd = &f->pd.ibpd,
		.of_qp = of_qp,
	};
	KUNIT_ASSERT_EQ(test, kiw_region_add(&f->dev->regions, &f->region), 0);
	KUNIT_ASSERT_EQ(test, kiw_region_add(&f->dev->regions, &f->window.region), 0);
	return f;
}

static void without_window(struct fixture *f)
{
	kiw_region_remove(&f->dev->regions, &f->window.region);
	kiw_region_unbind(&f->window);
	kiw_region_remove(&f->dev->regions, &f->region);
}

static enum kiw_region_fault bind(struct fixture *f, u32 stag, u64 addr, u64 len, u32 access)
{
	const struct kiw_bind_args args = {
		.addr = addr,
		.length = len,
		.lkey = f->region.stag,
		.access = access,
	};

	return kiw_region_bind(f->own, stag, &args);
}

static struct fixture *with_region(struct kunit *test, enum kiw_region_kind kind)
{
	struct fixture *f = test->priv;

	f->region.kind = kind;
	KUNIT_ASSERT_EQ(test, kiw_region_add(&f->dev->regions, &f->region), 0);
	return f;
}

static enum kiw_region_fault try(struct fixture *f, u32 stag, int access, u64 addr, u32 len)
{
	struct kiw_region_use use;
	enum kiw_region_fault fault = kiw_region_begin(f->own, stag, access, addr, len, &use);

	if (!fault)
		kiw_region_end(&use);
	/* One that could begin is told the same. */
	return kiw_region_check(f->own, stag, access, addr, len) == fault ? fault : -1;
}

static void checks_come_in_order(struct kunit *test)
{
	struct fixture *f = with_region(test, KIW_REGION_USER);
	u32 stag = f->region.stag;

	KUNIT_EXPECT_GT(test, stag >> 8, 0);
	KUNIT_EXPECT_EQ(test, try(f, stag, 0, BASE, PAGE_SIZE), KIW_REGION_OK);
	KUNIT_EXPECT_EQ(test, try(f, stag ^ 1, 0, BASE, 1), KIW_REGION_STAG);
	KUNIT_EXPECT_EQ(test, try(f, stag, IB_ACCESS_REMOTE_WRITE, BASE, 1), KIW_REGION_ACCESS);
	KUNIT_EXPECT_EQ(test, try(f, stag, IB_ACCESS_REMOTE_READ, BASE + 1, PAGE_SIZE),
			KIW_REGION_BOUNDS);
	KUNIT_EXPECT_EQ(test, try(f, stag, 0, U64_MAX, 2), KIW_REGION_WRAP);
	f->own->pd = &f->other_pd.ibpd;
	KUNIT_EXPECT_EQ(test, try(f, stag, IB_ACCESS_REMOTE_WRITE, U64_MAX, 2), KIW_REGION_PD);
	kiw_region_remove(&f->dev->regions, &f->region);
	KUNIT_EXPECT_EQ(test, try(f, stag, 0, BASE, 1), KIW_REGION_STAG);
}

static void chunks_end_with_their_page(struct kunit *test)
{
	struct fixture *f = with_region(test, KIW_REGION_USER);
	struct kiw_region_use use;
	u32 len = 64;
	void *p;

	KUNIT_ASSERT_EQ(test, kiw_region_begin(f->own, f->region.stag, 0, BASE + PAGE_SIZE - 32, 32,
					       &use), KIW_REGION_OK);
	p = kiw_region_chunk(use.region, BASE + PAGE_SIZE - 48, &len);
	KUNIT_EXPECT_EQ(test, len, 32);
	KUNIT_EXPECT_EQ(test, offset_in_page(p), PAGE_SIZE - 32);
	kunmap_local(p);
	kiw_region_end(&use);
	kiw_region_remove(&f->dev->regions, &f->region);
}

static void only_its_owner_removes_a_process_region(struct kunit *test)
{
	struct fixture *f = with_region(test, KIW_REGION_USER);

	KUNIT_EXPECT_EQ(test, kiw_region_invalidate(f->own, f->region.stag), KIW_REGION_ACCESS);
	KUNIT_EXPECT_EQ(test, try(f, f->region.stag, 0, BASE, 1), KIW_REGION_OK);
	KUNIT_EXPECT_EQ(test, kiw_region_invalidate(f->own, f->region.stag ^ 1), KIW_REGION_STAG);
	kiw_region_remove(&f->dev->regions, &f->region);
}

static void invalid_regions_are_not_found(struct kunit *test)
{
	struct fixture *f = with_region(test, KIW_REGION_FAST);
	u32 stag = f->region.stag;

	KUNIT_EXPECT_EQ(test, try(f, stag, 0, BASE, 1), KIW_REGION_OK);
	f->own->pd = &f->other_pd.ibpd;
	KUNIT_EXPECT_EQ(test, kiw_region_invalidate(f->own, stag), KIW_REGION_PD);
	f->own->pd = &f->pd.ibpd;
	KUNIT_EXPECT_EQ(test, kiw_region_invalidate(f->own, stag), KIW_REGION_OK);
	KUNIT_EXPECT_EQ(test, try(f, stag, 0, BASE, 1), KIW_REGION_STAG);
	KUNIT_EXPECT_EQ(test, kiw_region_invalidate(f->own, stag), KIW_REGION_STAG);
	kiw_region_remove(&f->dev->regions, &f->region);
}

static void windows_are_parts_of_their_region(struct kunit *test)
{
	struct fixture *f = with_window(test, false);
	u32 stag = f->window.region.stag ^ 1;
	struct kiw_region_use use;
	u32 len = 8;
	void *p;

	KUNIT_EXPECT_EQ(test, bind(f, stag, BASE + 100, 200, IB_ACCESS_REMOTE_READ),
			KIW_REGION_OK);
	KUNIT_EXPECT_EQ(test, try(f, stag ^ 1, IB_ACCESS_REMOTE_READ, BASE + 100, 1),
			KIW_REGION_STAG);
	KUNIT_EXPECT_EQ(test, try(f, stag, IB_ACCESS_REMOTE_WRITE, BASE + 100, 1),
			KIW_REGION_ACCESS);
	KUNIT_EXPECT_EQ(test, try(f, stag, 0, BASE + 100, 1), KIW_REGION_ACCESS);
	KUNIT_EXPECT_EQ(test, try(f, stag, IB_ACCESS_REMOTE_READ, BASE + 99, 2),
			KIW_REGION_BOUNDS);
	KUNIT_EXPECT_EQ(test, try(f, stag, IB_ACCESS_REMOTE_READ, BASE + 100, 201),
			KIW_REGION_BOUNDS);
	KUNIT_ASSERT_EQ(test, kiw_region_begin(f->own, stag, IB_ACCESS_REMOTE_READ, BASE + 100, 8,
					       &use), KIW_REGION_OK);
	p = kiw_region_chunk(use.region, BASE + 100, &len);
	KUNIT_EXPECT_EQ(test, offset_in_page(p), f->region.offset + 100);
	kunmap_local(p);
	kiw_region_end(&use);
	without_window(f);
}

static void windows_count_in_their_region(struct kunit *test)
{
	struct fixture *f = with_window(test, true);
	u32 stag = f->window.region.stag;

	KUNIT_EXPECT_EQ(test, bind(f, stag, BASE, 100, IB_ACCESS_REMOTE_READ), KIW_REGION_OK);
	KUNIT_EXPECT_FALSE(test, kiw_region_close(&f->region));
	KUNIT_EXPECT_EQ(test, kiw_region_invalidate(f->own, stag), KIW_REGION_OK);
	KUNIT_EXPECT_EQ(test, kiw_region_invalidate_own(f->own, stag), KIW_REGION_OK);
	KUNIT_EXPECT_TRUE(test, kiw_region_close(&f->region));
	KUNIT_EXPECT_EQ(test, bind(f, stag, BASE, 100, IB_ACCESS_REMOTE_READ), KIW_REGION_STAG);
	kiw_region_reopen(&f->region);
	KUNIT_EXPECT_EQ(test, bind(f, stag, BASE, 100, IB_ACCESS_REMOTE_READ), KIW_REGION_OK);
	/* Another QP that ends has no part in it. */
	kiw_region_unbind_all(f->other);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->region.windows), 1);
	kiw_region_unbind_all(f->own);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->region.windows), 0);
	KUNIT_EXPECT_EQ(test, bind(f, stag, BASE + 1, U64_MAX, IB_ACCESS_REMOTE_READ),
			KIW_REGION_WRAP);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->region.windows), 0);
	without_window(f);
}

/* What another thread does while a use is under way */
struct other {
	struct fixture		*f;
	struct completion	begun, ended;
	struct timer_list	timer;
	struct kiw_region	*remove;
	bool			rebind;
	struct kiw_owner	*forget;
};

static int other_thread(void *data)
{
	struct other *o = data;

	wait_for_completion(&o->begun);
	if (o->remove)
		kiw_region_remove(&o->f->dev->regions, o->remove);
	else if (o->forget)
		kiw_region_unbind_all(o->forget);
	else if (o->rebind)
		bind(o->f, o->f->window.region.stag ^ 1, BASE + 64, 64, IB_ACCESS_REMOTE_READ);
	else
		kiw_region_invalidate(o->f->own, o->f->region.stag);
	complete(&o->ended);
	return 0;
}

static unsigned int other_cpu(void)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());

	return cpu < nr_cpu_ids ? cpu : 0;
}

/* A mistake shows as an end that comes too early; a slow machine can only hide it. */
static void ends_after_the_use(struct kunit *test, enum kiw_region_kind kind, bool remove)
{
	struct fixture *f = with_region(test, kind);
	struct other o = { .f = f, .remove = remove ? &f->region : NULL };
	struct kiw_region_use use;
	u32 stag = f->region.stag;

	init_completion(&o.begun);
	init_completion(&o.ended);
	/* On the other CPU: a use of this kind holds a lock that spins. */
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(other_thread, &o, other_cpu(),
							   "kiw_other")));
	KUNIT_EXPECT_EQ(test, kiw_region_begin(f->own, stag, 0, BASE, 1, &use), KIW_REGION_OK);
	complete(&o.begun);
	for (int ms = 0; ms < 20 && !completion_done(&o.ended); ms++)
		mdelay(1);
	KUNIT_EXPECT_FALSE(test, completion_done(&o.ended));
	kiw_region_end(&use);
	wait_for_completion(&o.ended);
	KUNIT_EXPECT_EQ(test, try(f, stag, 0, BASE, 1), KIW_REGION_STAG);
	if (!remove)
		kiw_region_remove(&f->dev->regions, &f->region);
}

/* A use can't be interrupted: what waits for it needs another CPU. Guests have two. */
static void needs_another_cpu(struct kunit *test)
{
	if (num_online_cpus() < 2)
		kunit_skip(test, "one CPU can't both use a region and wait for the use");
}

static void invalidating_waits_for_the_use(struct kunit *test)
{
	needs_another_cpu(test);
	ends_after_the_use(test, KIW_REGION_FAST, false);
}

static void rebinding_waits_for_the_use(struct kunit *test)
{
	struct fixture *f = with_window(test, false);
	struct other o = { .f = f, .rebind = true };
	u32 stag = f->window.region.stag;
	struct kiw_region_use use;

	needs_another_cpu(test);
	KUNIT_ASSERT_EQ(test, bind(f, stag, BASE, 64, IB_ACCESS_REMOTE_READ), KIW_REGION_OK);
	init_completion(&o.begun);
	init_completion(&o.ended);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(other_thread, &o, other_cpu(),
							   "kiw_other")));
	KUNIT_EXPECT_EQ(test, kiw_region_begin(f->own, stag, IB_ACCESS_REMOTE_READ, BASE, 1, &use),
			KIW_REGION_OK);
	complete(&o.begun);
	for (int ms = 0; ms < 20 && !completion_done(&o.ended); ms++)
		mdelay(1);
	KUNIT_EXPECT_FALSE(test, completion_done(&o.ended));
	kiw_region_end(&use);
	wait_for_completion(&o.ended);
	KUNIT_EXPECT_EQ(test, try(f, stag, IB_ACCESS_REMOTE_READ, BASE, 1), KIW_REGION_STAG);
	KUNIT_EXPECT_EQ(test, try(f, stag ^ 1, IB_ACCESS_REMOTE_READ, BASE + 64, 1),
			KIW_REGION_OK);
	without_window(f);
}

static void removing_waits_for_the_use(struct kunit *test)
{
	ends_after_the_use(test, KIW_REGION_USER, true);
}

/* Users share the table. One whose thread doesn't get on keeps no other from deregistering. */
static void removing_waits_for_no_other_region(struct kunit *test)
{
	struct fixture *f = with_region(test, KIW_REGION_USER);
	struct other o = { .f = f, .remove = &f->second };
	struct kiw_region_use use;
	bool ended;

	f->second = f->region;
	KUNIT_ASSERT_EQ(test, kiw_region_add(&f->dev->regions, &f->second), 0);
	init_completion(&o.begun);
	init_completion(&o.ended);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(other_thread, &o, "kiw_other")));
	KUNIT_EXPECT_EQ(test, kiw_region_begin(f->own, f->region.stag, 0, BASE, 1, &use),
			KIW_REGION_OK);
	complete(&o.begun);
	ended = wait_for_completion_timeout(&o.ended, 20 * HZ);
	KUNIT_EXPECT_TRUE(test, ended);
	kiw_region_end(&use);
	if (!ended)
		wait_for_completion(&o.ended);
	KUNIT_EXPECT_EQ(test, try(f, f->region.stag, 0, BASE, 1), KIW_REGION_OK);
	KUNIT_EXPECT_EQ(test, try(f, f->second.stag, 0, BASE, 1), KIW_REGION_STAG);
	kiw_region_remove(&f->dev->regions, &f->region);
}

/* Else the end of many queue pairs takes as many steps for each as all have windows. */
static void queue_pairs_touch_no_windows_of_others(struct kunit *test)
{
	struct fixture *f = with_window(test, true);
	struct other o = { .f = f, .forget = f->other };
	struct kiw_region_use use;
	bool ended = false;

	needs_another_cpu(test);
	KUNIT_ASSERT_EQ(test, bind(f, f->window.region.stag, BASE, 64, IB_ACCESS_REMOTE_READ),
			KIW_REGION_OK);
	init_completion(&o.begun);
	init_completion(&o.ended);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run_on_cpu(other_thread, &o, other_cpu(),
							   "kiw_other")));
	/* The use has the window locked, with BH off: no sleep. */
	KUNIT_EXPECT_EQ(test, kiw_region_begin(f->own, f->window.region.stag, IB_ACCESS_REMOTE_READ,
					       BASE, 1, &use), KIW_REGION_OK);
	complete(&o.begun);
	for (int ms = 0; ms < 5000 && !ended; ms++) {
		mdelay(1);
		ended = completion_done(&o.ended);
	}
	KUNIT_EXPECT_TRUE(test, ended);
	kiw_region_end(&use);
	wait_for_completion(&o.ended);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->region.windows), 1);
	without_window(f);
}

static void interrupting_softirq(struct timer_list *timer)
{
	struct other *o = container_of(timer, struct other, timer);

	kiw_region_invalidate(o->f->own, o->f->region.stag);
	complete(&o->ended);
}

/* Else a softirq that invalidates would wait for the use that it has interrupted, for ever. */
static void no_softirq_interrupts_a_use(struct kunit *test)
{
	struct fixture *f = with_region(test, KIW_REGION_FAST);
	struct other *o = kunit_kzalloc(test, sizeof(*o), GFP_KERNEL);
	struct kiw_region_use use;

	KUNIT_ASSERT_NOT_NULL(test, o);
	o->f = f;
	init_completion(&o->ended);
	timer_setup(&o->timer, interrupting_softirq, TIMER_PINNED);
	KUNIT_ASSERT_EQ(test, kiw_region_begin(f->own, f->region.stag, 0, BASE, 1, &use),
			KIW_REGION_OK);
	if (in_softirq()) {
		mod_timer(&o->timer, jiffies + 1);
		mdelay(3 * MSEC_PER_SEC / HZ);
		KUNIT_EXPECT_FALSE(test, completion_done(&o->ended));
		kiw_region_end(&use);
		wait_for_completion(&o->ended);
		KUNIT_EXPECT_EQ(test, try(f, f->region.stag, 0, BASE, 1), KIW_REGION_STAG);
	} else {
		kiw_region_end(&use);
		KUNIT_FAIL(test, "softirqs run during a use");
	}
	timer_shutdown_sync(&o->timer);
	kiw_region_remove(&f->dev->regions, &f->region);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(checks_come_in_order),
	KUNIT_CASE(chunks_end_with_their_page),
	KUNIT_CASE(only_its_owner_removes_a_process_region),
	KUNIT_CASE(invalid_regions_are_not_found),
	KUNIT_CASE(windows_are_parts_of_their_region),
	KUNIT_CASE(windows_count_in_their_region),
	KUNIT_CASE(invalidating_waits_for_the_use),
	KUNIT_CASE(rebinding_waits_for_the_use),
	KUNIT_CASE(removing_waits_for_the_use),
	KUNIT_CASE(removing_waits_for_no_other_region),
	KUNIT_CASE(queue_pairs_touch_no_windows_of_others),
	KUNIT_CASE(no_softirq_interrupts_a_use),
	{}
};

static struct kunit_suite suite = {
	.name = "kiwarp_region",
	.init = region_init,
	.exit = region_exit,
	.test_cases = cases,
};

kunit_test_suite(suite);
