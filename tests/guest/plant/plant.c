// SPDX-License-Identifier: GPL-2.0
/*
 * Plants one fault in the kernel, so that the tests can see whether the guest's log check and
 * detectors find it. Loading always fails: there is nothing to unload afterwards.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/ref_tracker.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>

static char *what = "warning";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "warning, panic, use_after_free, overrun, leak, active_timer, reference, namespace, deprecated_queue, lock_order, sleep_atomic, shift, race or race_elsewhere");

static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);

static void plant_warning(void)
{
	WARN(1, "planted\n");
}

static void plant_panic(void)
{
	panic("planted");
}

static void plant_use_after_free(void)
{
	char *p = kmalloc(64, GFP_KERNEL);

	kfree(p);
	pr_info("read %d\n", READ_ONCE(p[3]));
}

static void plant_overrun(void)
{
	char *p = kmalloc(40, GFP_KERNEL);
	char *end = p + 40;

	OPTIMIZER_HIDE_VAR(end);
	if (p)
		WRITE_ONCE(*end, 1);
	kfree(p);
}

/* Several: the address of the last may stand for some time in a stack that isn't used any more. */
static void plant_leak(void)
{
	int i;

	for (i = 0; i < 8; i++) {
		void *p = kmalloc(4242, GFP_KERNEL);

		OPTIMIZER_HIDE_VAR(p);
	}
}

static void nothing(struct work_struct *work)
{
}

/* Where this is noticed, the timer is stopped as well. */
static void plant_active_timer(void)
{
	struct delayed_work *work = kmalloc(sizeof(*work), GFP_KERNEL);

	if (!work)
		return;
	INIT_DELAYED_WORK(work, nothing);
	schedule_delayed_work(work, 3600 * HZ);
	kfree(work);
}

static void plant_reference(void)
{
#ifdef CONFIG_REF_TRACKER	/* elsewhere nothing notices it */
	static struct ref_tracker_dir dir;
	struct ref_tracker *tracker;

	ref_tracker_dir_init(&dir, 4, "planted");
	ref_tracker_alloc(&dir, &tracker, GFP_KERNEL);
	ref_tracker_dir_exit(&dir);
#endif
}

static void plant_namespace(void)
{
	get_net(current->nsproxy->net_ns);
}

/* Since 6.17 its name is another one, and Linux 7.2 complains of this one. */
static void plant_deprecated_queue(void)
{
	static DECLARE_WORK(work, nothing);

	queue_work(system_wq, &work);
	flush_work(&work);
}

static void plant_lock_order(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);

	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

static void plant_sleep_atomic(void)
{
	spin_lock(&first);
	might_sleep();
	spin_unlock(&first);
}

static void plant_shift(void)
{
	unsigned int by = 35;

	OPTIMIZER_HIDE_VAR(by);
	pr_info("shifted %u\n", 1U << by);
}

static unsigned long word;

static void count_up(void *unused)
{
	int i;

	for (i = 0; i < 1000000; i++) {
		word++;
		barrier();
	}
}

static void plant_race(void)
{
	on_each_cpu(count_up, NULL, 1);
	pr_info("counted %lu\n", word);
}

static void put_and_trim(void *skb)
{
	int i;

	for (i = 0; i < 1000000; i++) {
		skb_put(skb, 1);
		skb_trim(skb, 0);
	}
}

/* Both are in functions of the kernel. A skb_trim() undoes each skb_put(), however they mix. */
static void plant_race_elsewhere(void)
{
	struct sk_buff *skb = alloc_skb(1024, GFP_KERNEL);

	if (!skb)
		return;
	on_each_cpu(put_and_trim, skb, 1);
	kfree_skb(skb);
}

static const struct {
	const char *name;
	void (*plant)(void);
} faults[] = {
	{ "warning", plant_warning },
	{ "panic", plant_panic },
	{ "use_after_free", plant_use_after_free },
	{ "overrun", plant_overrun },
	{ "leak", plant_leak },
	{ "active_timer", plant_active_timer },
	{ "reference", plant_reference },
	{ "namespace", plant_namespace },
	{ "deprecated_queue", plant_deprecated_queue },
	{ "lock_order", plant_lock_order },
	{ "sleep_atomic", plant_sleep_atomic },
	{ "shift", plant_shift },
	{ "race", plant_race },
	{ "race_elsewhere", plant_race_elsewhere },
};

static int __init plant_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (!strcmp(what, faults[i].name)) {
			faults[i].plant();
			return -ECANCELED;
		}
	}
	return -EINVAL;
}
module_init(plant_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Plants a fault for the self-tests of the guests");
