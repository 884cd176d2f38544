// SPDX-License-Identifier: GPL-2.0
#include "lend.h"

#include <linux/slab.h>
#include <linux/wait.h>
#include <net/tcp.h>

#include "compat.h"
#include "region.h"
#include "stream.h"

/* All loans that are not over, and all that wait for some */
static atomic_t lend_all;
static DECLARE_WAIT_QUEUE_HEAD(lend_waiters);

/*
 * Any context, with the socket locked or not. Once the loan is over the stream may free it, and a
 * count that has become 0 lets go of what it belongs to.
 */
static void loan_end(struct kiw_loan *loan)
{
	struct kiw_stream *s = loan->s;
	unsigned int i;

	rcu_read_lock();	/* for kiw_lend_exit() */
	smp_mb__before_atomic();	/* for kiw_lend_wait() */
	for (i = 0; i < loan->num_regions; i++)
		atomic_dec(&loan->region[i]->loans);
	smp_store_release(&loan->over, true);	/* for kiw_lend_over() */
	kiw_stream_ring(s);
	smp_mb__before_atomic();	/* for kiw_lend_wait() */
	atomic_dec(&s->lend.count);
	kiw_stream_put(s);
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

static void lend_note_acked(struct kiw_stream *s)
{
	s->lend.acked = tcp_sk(s->sk)->snd_una;
	s->lend.since = jiffies;
}

static struct kiw_loan *loan_new(struct kiw_stream *s)
{
	struct kiw_loan *loan = kzalloc(sizeof(*loan), s->sk->sk_allocation | __GFP_NOWARN);

	if (!loan)
		return NULL;
	kiw_ubuf_complete_by(&loan->ubuf, loan_complete);
	/*
	 * As MSG_ZEROCOPY has them. Without the second, TCP copies the pages when it sends a packet
	 * anew, behind the back of its own account of memory.
	 */
	loan->ubuf.flags = SKBFL_ZEROCOPY_FRAG | SKBFL_DONT_ORPHAN;
	refcount_set(&loan->ubuf.refcnt, 1);
	loan->s = s;
	loan->end = s->tx.sent_index;
	kref_get(&s->ref);
	if (list_empty(&s->lend.loans))
		lend_note_acked(s);
	list_add_tail(&loan->link, &s->lend.loans);
	atomic_inc(&s->lend.count);
	atomic_inc(&lend_all);
	return loan;
}

/*
 * TCP builds a probe from the pages of several buffers, and frees these: the probe doesn't count in
 * a loan. Kernels before 6.5 copy what they probe with.
 */
static bool lend_is_probing(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_mtu_probing) ||
	       inet_csk(sk)->icsk_mtup.enabled;
}

struct kiw_loan *kiw_lend_for(struct kiw_stream *s, u32 len)
{
	const struct kiw_reads_in *in = &s->tx.reads_in;
	struct kiw_batch *b = &s->tx.batch;

	kiw_stream_assert_held(s);
	/* An atomic waits until there are no loans, and would wait for ever for those to come. */
	if (kiw_reads_in_len(in) && kiw_read_in_oldest(in)->atomic)
		return NULL;
	/* The batch has had its FPDU, or an earlier one has. */
	if (!s->lend.proved && !list_empty(&s->lend.loans))
		return NULL;
	if (len < KIW_LEND_MIN || s->neg.crc || s->neg.markers_tx || s->lend.off ||
	    !(s->sk->sk_route_caps & NETIF_F_SG) || lend_is_probing(s->sk))
		return NULL;
	if (!b->loan) {
		kiw_region_leave(&b->use);	/* as in kiw_batch_room() */
		b->loan = loan_new(s);
	}
	return b->loan;
}

bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region)
{
	unsigned int i;

	if (region->kind != KIW_REGION_USER)
		return false;
	for (i = 0; i < loan->num_regions; i++) {
		if (loan->region[i] == region)
			return true;
	}
	if (i == KIW_LOAN_REGIONS)
		return false;
	atomic_inc(&region->loans);
	loan->region[loan->num_regions++] = region;
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

void kiw_loan_put(struct kiw_loan *loan)
{
	if (loan)
		loan_complete(NULL, &loan->ubuf, true);
}

bool kiw_lend_stalled(struct kiw_stream *s, unsigned long time)
{
	kiw_stream_assert_held(s);
	if (s->lend.acked != tcp_sk(s->sk)->snd_una)
		lend_note_acked(s);
	return time_after_eq(jiffies, s->lend.since + time);
}

bool kiw_lend_has(const struct kiw_stream *s, const struct kiw_region *region)
{
	const struct kiw_loan *loan;
	unsigned int i;

	kiw_stream_assert_held(s);
	list_for_each_entry(loan, &s->lend.loans, link) {
		for (i = 0; i < loan->num_regions; i++) {
			if (loan->region[i] == region)
				return true;
		}
	}
	return false;
}

void kiw_lend_hold(struct kiw_stream *s, u32 end)
{
	kiw_stream_assert_held(s);
	list_last_entry(&s->lend.loans, struct kiw_loan, link)->end = end;
}

/* While there is a connection, pages come back when the peer has acknowledged them, or copied. */
static bool lend_is_lost(const struct kiw_stream *s, const struct kiw_loan *loan)
{
	return loan->num_regions && s->sk->sk_state == TCP_CLOSE &&
	       before(tcp_sk(s->sk)->snd_una, loan->seq);
}

bool kiw_lend_over(struct kiw_stream *s, u32 *end)
{
	struct kiw_loan *loan, *next;
	bool any = false;

	kiw_stream_assert_held(s);
	list_for_each_entry_safe(loan, next, &s->lend.loans, link) {
		if (!smp_load_acquire(&loan->over))	/* in loan_end() */
			break;
		s->lend.lost |= lend_is_lost(s, loan);
		if (!s->lend.lost) {
			*end = loan->end;
			any = true;
		}
		s->lend.off |= loan->copied;
		s->lend.proved |= loan->num_regions && !loan->copied;
		list_del(&loan->link);
		sk_mem_uncharge(s->sk, loan->charged);
		kfree(loan);
	}
	return any;
}

bool kiw_lend_wait(atomic_t *count, unsigned long timeout)
{
	return wait_event_timeout(lend_waiters, !atomic_read(count), timeout);
}

void kiw_lend_exit(void)
{
	wait_event(lend_waiters, !atomic_read(&lend_all));
	synchronize_rcu();
}
