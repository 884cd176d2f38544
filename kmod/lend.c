// SPDX-License-Identifier: GPL-2.0
#include "lend.h"

#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <net/tcp.h>

#include "compat.h"
#include "region.h"
#include "stream.h"

/* Interval of notes that the module waits for loans, jiffies */
#define LEND_NOTE (10 * HZ)

/* All loans that are not over, and their waiters */
static atomic_t lend_all;
static DECLARE_WAIT_QUEUE_HEAD(lend_waiters);

/* --- pages of a region that TCP holds ------------------------------------------------------- */

static void lent_work(struct work_struct *work)
{
	struct kiw_lent *lent = container_of(work, struct kiw_lent, work);

	mmdrop(lent->mm);
	kfree(lent);
}

static struct kiw_lent *lent_new(gfp_t gfp)
{
	struct kiw_lent *lent = kzalloc(sizeof(*lent), gfp | __GFP_NOWARN);

	if (!lent)
		return NULL;
	kref_init(&lent->ref);
	spin_lock_init(&lent->lock);
	INIT_LIST_HEAD(&lent->parts);
	INIT_WORK(&lent->work, lent_work);
	return lent;
}

/* Any context: only a work may drop a process's memory. */
static void lent_free(struct kref *ref)
{
	struct kiw_lent *lent = container_of(ref, struct kiw_lent, ref);

	if (lent->mm)
		kiw_stream_later(&lent->work);
	else
		kfree(lent);
}

/* That of a region in use; made with its first loan */
static struct kiw_lent *lent_of(struct kiw_region *region, gfp_t gfp)
{
	struct kiw_lent *lent = READ_ONCE(region->lent), *other;

	if (lent)
		return lent;
	lent = lent_new(gfp);
	if (!lent)
		return NULL;
	other = cmpxchg(&region->lent, NULL, lent);	/* several streams may begin at once */
	if (!other)
		return lent;
	kfree(lent);
	return other;
}

static void lent_add(struct kiw_lent *lent, struct kiw_loan_part *part)
{
	unsigned long flags;

	kref_get(&lent->ref);
	part->lent = lent;
	spin_lock_irqsave(&lent->lock, flags);
	list_add_tail(&part->link, &lent->parts);
	atomic_inc(&lent->loans);
	spin_unlock_irqrestore(&lent->lock, flags);
}

static void lent_remove(struct kiw_loan_part *part)
{
	struct kiw_lent *lent = part->lent;
	unsigned long flags;

	spin_lock_irqsave(&lent->lock, flags);
	list_del(&part->link);
	if (lent->mm)
		atomic64_sub(part->pages, &lent->mm->pinned_vm);
	smp_mb__before_atomic();	/* for kiw_lend_wait() */
	atomic_dec(&lent->loans);
	spin_unlock_irqrestore(&lent->lock, flags);
	kref_put(&lent->ref, lent_free);
}

u32 kiw_lent_loans(const struct kiw_region *region)
{
	const struct kiw_lent *lent = READ_ONCE(region->lent);

	return lent ? atomic_read(&lent->loans) : 0;
}

struct kiw_stream *kiw_lent_next(struct kiw_lent *lent)
{
	struct kiw_stream *s = NULL;
	struct kiw_loan_part *part;
	unsigned long flags;

	spin_lock_irqsave(&lent->lock, flags);
	list_for_each_entry(part, &lent->parts, link) {
		if (!s && !part->asked) {
			s = part->loan->s;
			kref_get(&s->ref);
		}
		part->asked |= s == part->loan->s;
	}
	spin_unlock_irqrestore(&lent->lock, flags);
	return s;
}

u64 kiw_lent_leave(struct kiw_lent *lent, struct mm_struct *mm)
{
	struct kiw_loan_part *part;
	unsigned long flags;
	u64 pages = 0;

	spin_lock_irqsave(&lent->lock, flags);
	list_for_each_entry(part, &lent->parts, link)
		pages += part->pages;
	if (pages) {
		mmgrab(mm);
		lent->mm = mm;
		atomic64_add(pages, &mm->pinned_vm);
	}
	spin_unlock_irqrestore(&lent->lock, flags);
	kref_put(&lent->ref, lent_free);
	return pages;
}

/* --- loans ---------------------------------------------------------------------------------- */

static void loan_free(struct kref *ref)
{
	struct kiw_loan *loan = container_of(ref, struct kiw_loan, ref);

	kiw_stream_put(loan->s);
	kfree(loan);
}

/*
 * Any context, socket locked or not. A stream that abandoned the loan is stopped: do not ring its
 * bell.
 */
static void loan_end(struct kiw_loan *loan)
{
	struct kiw_lend *lend = &loan->s->lend;
	unsigned long flags;
	unsigned int i;

	rcu_read_lock();	/* for kiw_lend_exit() */
	for (i = 0; i < loan->num_parts; i++)
		lent_remove(&loan->part[i]);
	spin_lock_irqsave(&lend->lock, flags);
	smp_store_release(&loan->over, true);	/* for kiw_lend_over() */
	if (!loan->left)
		kiw_stream_ring(loan->s);
	smp_mb__before_atomic();	/* for kiw_lend_wait() */
	atomic_dec(&lend->count);
	spin_unlock_irqrestore(&lend->lock, flags);
	kref_put(&loan->ref, loan_free);
	atomic_dec(&lend_all);
	wake_up(&lend_waiters);
	rcu_read_unlock();
}

static void loan_complete(struct sk_buff *skb, struct ubuf_info *ubuf, bool success)
{
	struct kiw_loan *loan = container_of(ubuf, struct kiw_loan, ubuf);

	if (!success)
		WRITE_ONCE(loan->copied, true);
	if (refcount_dec_and_test(&ubuf->refcnt))
		loan_end(loan);
}

static struct kiw_loan *loan_new(struct kiw_stream *s)
{
	struct kiw_loan *loan = kzalloc(sizeof(*loan), s->sk->sk_allocation | __GFP_NOWARN);

	if (!loan)
		return NULL;
	kiw_ubuf_complete_by(&loan->ubuf, loan_complete);
	/*
	 * As MSG_ZEROCOPY. Without SKBFL_DONT_ORPHAN TCP copies the pages for a retransmission,
	 * outside of its memory accounting.
	 */
	loan->ubuf.flags = SKBFL_ZEROCOPY_FRAG | SKBFL_DONT_ORPHAN;
	refcount_set(&loan->ubuf.refcnt, 1);
	kref_init(&loan->ref);
	kref_get(&loan->ref);
	loan->s = s;
	loan->end = s->ss.tx.sent_index;
	kref_get(&s->ref);
	list_add_tail(&loan->link, &s->lend.loans);
	atomic_inc(&s->lend.count);
	atomic_inc(&lend_all);
	return loan;
}

void kiw_lend_init(struct kiw_lend *lend)
{
	INIT_LIST_HEAD(&lend->loans);
	spin_lock_init(&lend->lock);
}

/*
 * TCP builds a probe from pages of several buffers and frees these, so the probe does not count in
 * a loan. Kernels before 6.5 copy for probes.
 */
static bool lend_is_probing(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_mtu_probing) ||
	       inet_csk(sk)->icsk_mtup.enabled;
}

/* Are others posted behind this message, or is it a Read Response, which has no completion? */
static bool lend_is_of_many(const struct kiw_session *s)
{
	return s->tx.message == KIW_MESSAGE_RESPONSE || s->tx.gathers == KIW_RING_DRAINING ||
	       kiw_sq_posted(&s->core->sq);
}

struct kiw_loan *kiw_lend_for(struct kiw_stream *s, u32 len)
{
	const struct kiw_reads_in *in = &s->ss.tx.reads_in;
	struct kiw_batch *b = &s->ss.tx.batch;

	kiw_stream_assert_held(s);
	/* Memory of the kernel is copied: its users withdraw it at any time, and wait for nothing. */
	if (s->kernel)
		return NULL;
	/* An atomic waits until there are no loans; later loans would starve it. */
	if (kiw_reads_in_len(in) && kiw_read_in_oldest(in)->atomic)
		return NULL;
	/* The first loan is one FPDU, this batch's or an earlier one's. */
	if (!s->lend.proved && !list_empty(&s->lend.loans))
		return NULL;
	if (len < KIW_LEND_MIN_MANY || (len < KIW_LEND_MIN && !lend_is_of_many(&s->ss)))
		return NULL;
	if (s->ss.neg.crc || s->ss.neg.markers_tx || s->lend.off ||
	    !(s->sk->sk_route_caps & NETIF_F_SG) || lend_is_probing(s->sk))
		return NULL;
	if (!b->loan) {
		kiw_region_leave(&b->use);	/* as in kiw_batch_room() */
		b->loan = loan_new(s);
	}
	return b->loan;
}

bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region, u64 addr, u32 n)
{
	u32 in_page = kiw_region_offset(region, addr) & ~PAGE_MASK;
	u32 pages = DIV_ROUND_UP(in_page + n, PAGE_SIZE);
	struct kiw_loan_part *part;
	struct kiw_lent *lent;
	unsigned int i;

	kiw_stream_assert_held(loan->s);
	if (region->kind != KIW_REGION_USER)
		return false;
	lent = lent_of(region, loan->s->sk->sk_allocation);
	if (!lent)
		return false;
	for (i = 0; i < loan->num_parts; i++) {
		part = &loan->part[i];
		if (part->lent == lent) {
			part->pages += pages;
			return true;
		}
	}
	if (i == KIW_LOAN_REGIONS)
		return false;
	part = &loan->part[loan->num_parts++];
	part->loan = loan;
	part->pages = pages;
	lent_add(lent, part);
	return true;
}

bool kiw_loan_charge(struct kiw_loan *loan, u32 copied)
{
	struct sock *sk = loan->s->sk;
	int more = copied - loan->charged;

	if (!sk_wmem_schedule(sk, more))
		return false;
	sk_mem_charge(sk, more);
	loan->charged = copied;
	return true;
}

void kiw_loan_put(struct kiw_loan *loan, bool any)
{
	if (!loan)
		return;
	kiw_stream_assert_held(loan->s);
	loan->seq = tcp_sk(loan->s->sk)->write_seq;
	loan->called |= !any;
	loan_complete(NULL, &loan->ubuf, true);
}

void kiw_lend_hold(struct kiw_stream *s, u32 end)
{
	kiw_stream_assert_held(s);
	list_last_entry(&s->lend.loans, struct kiw_loan, link)->end = end;
}

/* May TCP resend bytes of a loan that is over and was not copied? */
static bool loan_is_unacked(const struct kiw_loan *loan)
{
	return loan->num_parts && before(tcp_sk(loan->s->sk)->snd_una, loan->seq);
}

void kiw_lend_over(struct kiw_stream *s, u32 *end)
{
	bool gone = s->sk->sk_state == TCP_CLOSE, copied;
	struct kiw_loan *loan, *next;

	kiw_stream_assert_held(s);
	list_for_each_entry_safe(loan, next, &s->lend.loans, link) {
		if (!smp_load_acquire(&loan->over))	/* in loan_end() */
			break;
		copied = loan->copied || loan->called;
		if (!gone && !copied && loan_is_unacked(loan))
			break;
		s->lend.lost |= gone && loan_is_unacked(loan);
		if (!s->lend.lost)
			*end = loan->end;
		s->lend.off |= loan->copied && !loan->called;
		s->lend.proved |= loan->num_parts && !copied;
		list_del(&loan->link);
		sk_mem_uncharge(s->sk, loan->charged);
		kref_put(&loan->ref, loan_free);
	}
}

/* --- calling back --------------------------------------------------------------------------- */

/*
 * Replace the pages of a TCP buffer by copies. Its clones on their way keep the pages. TCP charges
 * nothing for buffers of lent pages alone: charge them now, as TCP does for copied bytes. A new
 * head, for one shared with a clone, would change the charged truesize: restore that.
 */
static bool lend_copy_buffer(struct sock *sk, struct sk_buff *skb)
{
	unsigned int truesize = skb->truesize, extra;
	int err;

	if (!skb_zcopy(skb))
		return true;
	if (skb_zcopy_pure(skb)) {
		extra = truesize - SKB_TRUESIZE(skb_end_offset(skb));
		if (!sk_wmem_schedule(sk, extra))
			return false;
		sk_mem_charge(sk, extra);
		skb_shinfo(skb)->flags &= ~SKBFL_PURE_ZEROCOPY;
	}
	err = skb_copy_ubufs(skb, sk->sk_allocation | __GFP_NOWARN);
	skb->truesize = truesize;
	return !err;
}

bool kiw_lend_copy(struct kiw_stream *s)
{
	struct sock *sk = s->sk;
	struct kiw_loan *loan;
	struct sk_buff *skb;

	kiw_stream_assert_held(s);
	list_for_each_entry(loan, &s->lend.loans, link) {
		/* A probe holds the pages: MTU probing was just turned on. */
		if (smp_load_acquire(&loan->over) && !loan->copied && !loan->called &&
		    sk->sk_state != TCP_CLOSE && loan_is_unacked(loan))
			return false;
		loan->called = true;
	}
	for (skb = tcp_rtx_queue_head(sk); skb; skb = skb_rb_next(skb)) {
		if (!lend_copy_buffer(sk, skb))
			return false;
	}
	skb_queue_walk(&sk->sk_write_queue, skb) {
		if (!lend_copy_buffer(sk, skb))
			return false;
	}
	return true;
}

void kiw_lend_leave(struct kiw_stream *s)
{
	struct kiw_loan *loan, *next;
	unsigned long flags;
	LIST_HEAD(left);

	kiw_stream_assert_held(s);
	/* Even without loans: the end of one may be about to ring, under the lock. */
	spin_lock_irqsave(&s->lend.lock, flags);
	list_for_each_entry(loan, &s->lend.loans, link)
		loan->left = true;
	list_splice_init(&s->lend.loans, &left);
	spin_unlock_irqrestore(&s->lend.lock, flags);
	list_for_each_entry_safe(loan, next, &left, link) {
		list_del(&loan->link);
		sk_mem_uncharge(s->sk, loan->charged);
		kref_put(&loan->ref, loan_free);
	}
}

void kiw_lend_wait(atomic_t *count, unsigned long timeout)
{
	wait_event_killable_timeout(lend_waiters, !atomic_read(count), timeout);
}

void kiw_lend_exit(void)
{
	while (!wait_event_timeout(lend_waiters, !atomic_read(&lend_all), LEND_NOTE))
		pr_info("packets in queues of this machine still have registered pages\n");
	synchronize_rcu();
}
