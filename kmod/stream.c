// SPDX-License-Identifier: GPL-2.0
/* State and references of a stream. Nothing here sends, receives or waits. */
#include "stream.h"

static struct workqueue_struct *stream_wq;
/* kmalloc() would round a stream of 1.1 KB up to 2. */
static struct kmem_cache *stream_cache;

/* Drop the queue's reference if the work is queued; the caller holds one. */
static void stream_unqueue(struct kiw_stream *s)
{
	if (cancel_delayed_work(&s->work))
		kiw_stream_put(s);
}

void kiw_stream_queue(struct kiw_stream *s, unsigned long delay)
{
	bool queued;

	kref_get(&s->ref);
	queued = queue_delayed_work(stream_wq, &s->work, delay);
	if (!queued && READ_ONCE(s->late)) {
		WRITE_ONCE(s->late, false);
		stream_unqueue(s);
		queued = queue_delayed_work(stream_wq, &s->work, delay);
	}
	if (!queued)
		kiw_stream_put(s);	/* not the last: the caller holds one */
}

void kiw_stream_queue_late(struct kiw_stream *s, unsigned long delay)
{
	unsigned long end = jiffies + delay;

	kiw_stream_assert_held(s);
	kref_get(&s->ref);
	if (READ_ONCE(s->late) && time_before(end, s->late_end))
		stream_unqueue(s);
	/* Before queueing: a caller that finds it queued must see this. */
	WRITE_ONCE(s->late, true);
	if (queue_delayed_work(stream_wq, &s->work, delay))
		s->late_end = end;
	else
		kiw_stream_put(s);
}

void kiw_stream_later(struct work_struct *work)
{
	queue_work(stream_wq, work);
}

void kiw_stream_ring_now(struct kiw_stream *s)
{
	bool bh = !in_hardirq() && !irqs_disabled();

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "a stream may go before its bell rings");
	if (bh)
		local_bh_disable();
	kiw_stream_ring(s);
	if (bh)
		local_bh_enable();
}

/* The QP's reference exists until the stream has left the line. */
void kiw_stream_wake(struct kiw_srq_wait *wait)
{
	kiw_stream_queue(container_of(wait, struct kiw_stream, srq_wait), 0);
}

void kiw_stream_kick(struct kiw_stream *s)
{
	kiw_stream_assert_held(s);
	s->due = true;
	if (!s->busy)
		kiw_stream_queue(s, 0);
}

void kiw_stream_count_retransmits(struct kiw_stream *s, bool last)
{
	struct kiw_stats *stats = &s->dev->stats;

	spin_lock(&stats->retransmits);
	if (!s->counted) {
		s->retransmits += kiw_stat_retransmits(stats, s->sk, s->retransmits);
		s->counted = last;
	}
	spin_unlock(&stats->retransmits);
}

/* --- references ---------------------------------------------------------------------------- */

struct kiw_stream *kiw_stream_alloc(void)
{
	return kmem_cache_zalloc(stream_cache, GFP_KERNEL);
}

void kiw_stream_free(struct kiw_stream *s)
{
	kmem_cache_free(stream_cache, s);
}

static void stream_free_rcu(struct rcu_head *rcu)
{
	kiw_stream_free(container_of(rcu, struct kiw_stream, rcu));
}

static void stream_free(struct kref *ref)
{
	struct kiw_stream *s = container_of(ref, struct kiw_stream, ref);

	kiw_batch_free(&s->ss.tx.batch);
	kiw_reads_free(&s->ss.tx.reads_out, &s->ss.tx.reads_in);
	sock_put(s->sk);
	call_rcu(&s->rcu, stream_free_rcu);
}

struct kiw_stream *kiw_stream_find(struct kiw_stream __rcu **where)
{
	struct kiw_stream *s;

	rcu_read_lock();
	s = rcu_dereference(*where);
	if (s && !kref_get_unless_zero(&s->ref))
		s = NULL;
	rcu_read_unlock();
	return s;
}

void kiw_stream_put(struct kiw_stream *s)
{
	kref_put(&s->ref, stream_free);
}

int kiw_stream_init(void)
{
	stream_cache = kmem_cache_create("kiwarp_stream", sizeof(struct kiw_stream), 0,
					 SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT, NULL);
	if (!stream_cache)
		return -ENOMEM;
	stream_wq = alloc_workqueue("kiwarp_stream", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!stream_wq)
		kmem_cache_destroy(stream_cache);
	return stream_wq ? 0 : -ENOMEM;
}

void kiw_stream_exit(void)
{
	destroy_workqueue(stream_wq);
	/* For stream_free_rcu() */
	rcu_barrier();
	kmem_cache_destroy(stream_cache);
	kiw_batch_exit();
}
