// SPDX-License-Identifier: GPL-2.0
#include "helper.h"

#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/topology.h>

static bool drain = true;
module_param(drain, bool, 0644);
MODULE_PARM_DESC(drain,
		 "Send and place on other processors, for who moves much, where that moves more (default: Y)");

bool kiw_helper_wanted(void)
{
	return READ_ONCE(drain) && num_online_cpus() > 1;
}

static bool helper_place(const struct kiw_helper *helper)
{
	cpumask_var_t mask;
	bool placed;

	if (!alloc_cpumask_var(&mask, GFP_KERNEL))
		return false;
	cpumask_and(mask, cpumask_of_node(cpu_to_node(helper->cpu)),
		    housekeeping_cpumask(HK_TYPE_KTHREAD));
	cpumask_clear_cpu(helper->cpu, mask);
	placed = !set_cpus_allowed_ptr(current, mask);
	free_cpumask_var(mask);
	return placed;
}

static int helper_thread(void *data)
{
	struct kiw_helper *helper = data;

	smp_store_release(&helper->ready, helper_place(helper));	/* in kiw_helper_ready() */
	for (;;) {
		set_current_state(TASK_IDLE);
		if (list_empty(&helper->given)) {
			if (kthread_should_stop())
				break;
			schedule();
		}
		__set_current_state(TASK_RUNNING);
		helper->run(helper);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static void helper_hire(struct work_struct *work)
{
	struct kiw_helper *helper = container_of(work, struct kiw_helper, hire);
	struct task_struct *thread;

	if (helper->thread)
		return;
	thread = kthread_create(helper_thread, helper, helper->name, helper->cpu);
	if (IS_ERR(thread))
		return;
	helper->thread = thread;
	wake_up_process(thread);
}

void kiw_helper_init(struct kiw_helper *helper, int cpu, const char *name,
		     void (*run)(struct kiw_helper *helper))
{
	spin_lock_init(&helper->lock);
	INIT_LIST_HEAD(&helper->given);
	INIT_WORK(&helper->hire, helper_hire);
	helper->run = run;
	helper->name = name;
	helper->cpu = cpu;
}

bool kiw_helper_ready(struct kiw_helper *helper)
{
	if (likely(smp_load_acquire(&helper->ready)))	/* in helper_thread() */
		return true;
	schedule_work(&helper->hire);
	return false;
}

void kiw_helper_wake(struct kiw_helper *helper)
{
	wake_up_process(helper->thread);
}

void kiw_helper_exit(struct kiw_helper *helper)
{
	cancel_work_sync(&helper->hire);
	if (helper->thread)
		kthread_stop(helper->thread);
}
