// SPDX-License-Identifier: GPL-2.0
/*
 * Counts what a driver does. For a function f of the kernel's there is count_f() here, which
 * counts the call and makes it. tests/bench/counters.sh has drivers call these instead, by renaming
 * the symbols that their modules import; the names that are exported here say which. Each is
 * declared with the type of the function that it stands in for.
 *
 * /proc/bench_count has a line "CLASS CALLS OCTETS" for each class. Counts only grow: the
 * cost of something is the difference of two readings.
 */
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/tcp.h>

#include "bench_crc.h"

enum counted {
	COPIES,
	CRC,
	LOCKS,
	SENDS,
	ALLOCATIONS,
	WAKE_UPS,
	WORK_ITEMS,
	CLASSES,
};

static const char *const names[CLASSES] = {
	[COPIES] = "copies",
	[CRC] = "crc",
	[LOCKS] = "locks",
	[SENDS] = "sends",
	[ALLOCATIONS] = "allocations",
	[WAKE_UPS] = "wake-ups",
	[WORK_ITEMS] = "work-items",
};

struct tally {
	u64 calls, octets;
};

static DEFINE_PER_CPU(struct tally [CLASSES], tallies);

static void count(enum counted c, size_t octets)
{
	this_cpu_inc(tallies[c].calls);
	this_cpu_add(tallies[c].octets, octets);
}

/* What TCP does in a call counts, too, where it takes its lock or copies for the caller. */

/* --- copies ---------------------------------------------------------------------------------- */

typeof(memcpy) count_memcpy;
void *count_memcpy(void *to, const void *from, size_t n)
{
	count(COPIES, n);
	return memcpy(to, from, n);
}
EXPORT_SYMBOL_GPL(count_memcpy);

typeof(memmove) count_memmove;
void *count_memmove(void *to, const void *from, size_t n)
{
	count(COPIES, n);
	return memmove(to, from, n);
}
EXPORT_SYMBOL_GPL(count_memmove);

typeof(raw_copy_from_user) count_raw_copy_from_user;
unsigned long count_raw_copy_from_user(void *to, const void __user *from, unsigned long n)
{
	count(COPIES, n);
	return raw_copy_from_user(to, from, n);
}
EXPORT_SYMBOL_GPL(count_raw_copy_from_user);

typeof(raw_copy_to_user) count_raw_copy_to_user;
unsigned long count_raw_copy_to_user(void __user *to, const void *from, unsigned long n)
{
	count(COPIES, n);
	return raw_copy_to_user(to, from, n);
}
EXPORT_SYMBOL_GPL(count_raw_copy_to_user);

typeof(skb_copy_bits) count_skb_copy_bits;
int count_skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len)
{
	count(COPIES, len);
	return skb_copy_bits(skb, offset, to, len);
}
EXPORT_SYMBOL_GPL(count_skb_copy_bits);

typeof(kernel_recvmsg) count_kernel_recvmsg;
int count_kernel_recvmsg(struct socket *sock, struct msghdr *msg, struct kvec *vec, size_t num,
			 size_t size, int flags)
{
	int ret = kernel_recvmsg(sock, msg, vec, num, size, flags);

	count(LOCKS, 0);
	if (ret > 0)
		count(COPIES, ret);
	return ret;
}
EXPORT_SYMBOL_GPL(count_kernel_recvmsg);

/* --- CRC ------------------------------------------------------------------------------------- */

typeof(crc32c) count_crc32c;
u32 count_crc32c(u32 crc, const void *p, size_t n)
{
	count(CRC, n);
	return bench_crc32c(crc, p, n);
}
EXPORT_SYMBOL_GPL(count_crc32c);

typeof(skb_crc32c) count_skb_crc32c;
u32 count_skb_crc32c(const struct sk_buff *skb, int offset, int len, u32 crc)
{
	count(CRC, len);
	return bench_skb_crc32c(skb, offset, len, crc);
}
EXPORT_SYMBOL_GPL(count_skb_crc32c);

/* --- TCP ------------------------------------------------------------------------------------- */

typeof(lock_sock_nested) count_lock_sock_nested;
void count_lock_sock_nested(struct sock *sk, int subclass)
{
	count(LOCKS, 0);
	lock_sock_nested(sk, subclass);
}
EXPORT_SYMBOL_GPL(count_lock_sock_nested);

/* Pages that TCP is given aren't copied. */
static int sent(const struct msghdr *msg, int ret)
{
	size_t octets = max(ret, 0);

	count(SENDS, octets);
	if (octets && !(msg->msg_flags & MSG_SPLICE_PAGES) && !msg->msg_ubuf)
		count(COPIES, octets);
	return ret;
}

typeof(tcp_sendmsg_locked) count_tcp_sendmsg_locked;
int count_tcp_sendmsg_locked(struct sock *sk, struct msghdr *msg, size_t size)
{
	return sent(msg, tcp_sendmsg_locked(sk, msg, size));
}
EXPORT_SYMBOL_GPL(count_tcp_sendmsg_locked);

typeof(kernel_sendmsg) count_kernel_sendmsg;
int count_kernel_sendmsg(struct socket *sock, struct msghdr *msg, struct kvec *vec, size_t num,
			 size_t size)
{
	count(LOCKS, 0);
	return sent(msg, kernel_sendmsg(sock, msg, vec, num, size));
}
EXPORT_SYMBOL_GPL(count_kernel_sendmsg);

/* --- memory ---------------------------------------------------------------------------------- */

typeof(__kmalloc_cache_noprof) count___kmalloc_cache_noprof;
void *count___kmalloc_cache_noprof(struct kmem_cache *cache, gfp_t flags, size_t size)
{
	count(ALLOCATIONS, size);
	return __kmalloc_cache_noprof(cache, flags, size);
}
EXPORT_SYMBOL_GPL(count___kmalloc_cache_noprof);

typeof(__kmalloc_noprof) count___kmalloc_noprof;
void *count___kmalloc_noprof(size_t size, gfp_t flags)
{
	count(ALLOCATIONS, size);
	return __kmalloc_noprof(size, flags);
}
EXPORT_SYMBOL_GPL(count___kmalloc_noprof);

typeof(__alloc_pages_noprof) count___alloc_pages_noprof;
struct page *count___alloc_pages_noprof(gfp_t flags, unsigned int order, int node,
					nodemask_t *nodes)
{
	count(ALLOCATIONS, PAGE_SIZE << order);
	return __alloc_pages_noprof(flags, order, node, nodes);
}
EXPORT_SYMBOL_GPL(count___alloc_pages_noprof);

/* Only now and then does this take new pages. */
typeof(skb_page_frag_refill) count_skb_page_frag_refill;
bool count_skb_page_frag_refill(unsigned int size, struct page_frag *frag, gfp_t flags)
{
	const struct page *before = frag->page;
	bool ret = skb_page_frag_refill(size, frag, flags);

	if (frag->page != before)
		count(ALLOCATIONS, frag->size);
	return ret;
}
EXPORT_SYMBOL_GPL(count_skb_page_frag_refill);

/* --- others are to run ----------------------------------------------------------------------- */

typeof(__wake_up) count___wake_up;
int count___wake_up(struct wait_queue_head *head, unsigned int mode, int nr, void *key)
{
	count(WAKE_UPS, 0);
	return __wake_up(head, mode, nr, key);
}
EXPORT_SYMBOL_GPL(count___wake_up);

typeof(wake_up_process) count_wake_up_process;
int count_wake_up_process(struct task_struct *task)
{
	count(WAKE_UPS, 0);
	return wake_up_process(task);
}
EXPORT_SYMBOL_GPL(count_wake_up_process);

typeof(complete) count_complete;
void count_complete(struct completion *completion)
{
	count(WAKE_UPS, 0);
	complete(completion);
}
EXPORT_SYMBOL_GPL(count_complete);

/* What is queued already isn't queued again. */
static bool queued(bool ret)
{
	if (ret)
		count(WORK_ITEMS, 0);
	return ret;
}

typeof(queue_work_on) count_queue_work_on;
bool count_queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	return queued(queue_work_on(cpu, wq, work));
}
EXPORT_SYMBOL_GPL(count_queue_work_on);

typeof(queue_delayed_work_on) count_queue_delayed_work_on;
bool count_queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *work,
				 unsigned long delay)
{
	return queued(queue_delayed_work_on(cpu, wq, work, delay));
}
EXPORT_SYMBOL_GPL(count_queue_delayed_work_on);

/* --- /proc/bench_count ----------------------------------------------------------------------- */

static int show(struct seq_file *file, void *unused)
{
	unsigned int c;
	int cpu;

	for (c = 0; c < CLASSES; c++) {
		struct tally sum = {};

		for_each_possible_cpu(cpu) {
			sum.calls += per_cpu(tallies, cpu)[c].calls;
			sum.octets += per_cpu(tallies, cpu)[c].octets;
		}
		seq_printf(file, "%s %llu %llu\n", names[c], sum.calls, sum.octets);
	}
	return 0;
}

static int __init bench_count_init(void)
{
	return proc_create_single("bench_count", 0444, NULL, show) ? 0 : -ENOMEM;
}
module_init(bench_count_init);

static void __exit bench_count_exit(void)
{
	remove_proc_entry("bench_count", NULL);
}
module_exit(bench_count_exit);

MODULE_DESCRIPTION("Counts of what a driver calls, for measurements");
MODULE_LICENSE("GPL");
