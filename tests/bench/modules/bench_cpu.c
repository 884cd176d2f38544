// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/bench_cpu: microseconds of processor time that a User-Mode Linux guest has
 * used, as its host counts them. The guest itself counts ticks, also those at which the
 * host ran something else.
 *
 * The guest's kernel is one process of the host, in which interrupts and softirqs
 * run as well; every address space of the guest is another, a child of it.
 */
#include <linux/mm_types.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>

#define HOST_GETRUSAGE 98
#define HOST_CLOCK_GETTIME 228
#define HOST_RUSAGE_CHILDREN (-1)
#define HOST_CLOCK_PROCESS_CPUTIME_ID 2

struct host_timeval {
	s64 s, us;
};

struct host_rusage {
	struct host_timeval user, system;
	s64 rest[14];
};

struct host_timespec {
	s64 s, ns;
};

static long host_call(long nr, long arg, void *result)
{
	asm volatile("syscall" : "+a" (nr) : "D" (arg), "S" (result) : "rcx", "r11", "memory");
	return nr;
}

/* As clock_getcpuclockid(3) has it */
static int clock_of(int pid)
{
	return ~(unsigned int)pid << 3 | HOST_CLOCK_PROCESS_CPUTIME_ID;
}

static u64 clock_us(long clock)
{
	struct host_timespec t = {};

	/* A process that has just ended counts among the children. */
	return host_call(HOST_CLOCK_GETTIME, clock, &t) ? 0 : t.s * 1000000 + t.ns / 1000;
}

static int show(struct seq_file *file, void *unused)
{
	struct host_rusage children = {};
	struct task_struct *task;
	u64 us;

	if (host_call(HOST_GETRUSAGE, HOST_RUSAGE_CHILDREN, &children))
		return -EIO;
	us = clock_us(HOST_CLOCK_PROCESS_CPUTIME_ID);
	us += (children.user.s + children.system.s) * 1000000;
	us += children.user.us + children.system.us;
	rcu_read_lock();
	for_each_process(task) {
		int pid = 0;

		task_lock(task);
		if (task->mm)
			pid = task->mm->context.id.pid;
		task_unlock(task);
		if (pid > 0)
			us += clock_us(clock_of(pid));
	}
	rcu_read_unlock();
	seq_printf(file, "%llu\n", us);
	return 0;
}

static int __init bench_cpu_init(void)
{
	return proc_create_single("bench_cpu", 0444, NULL, show) ? 0 : -ENOMEM;
}
module_init(bench_cpu_init);

static void __exit bench_cpu_exit(void)
{
	remove_proc_entry("bench_cpu", NULL);
}
module_exit(bench_cpu_exit);

MODULE_DESCRIPTION("Processor time of a User-Mode Linux guest, by its host's clock");
MODULE_LICENSE("GPL");
