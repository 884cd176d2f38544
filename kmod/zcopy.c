// SPDX-License-Identifier: GPL-2.0
#include "zcopy.h"

#include <linux/delay.h>
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "stream.h"

/*
 * All streams by their sequence numbers, who is whose peer, and who has lent. Taken under socket
 * locks, for a moment when a connection begins or ends or sends its first pages.
 */
static DEFINE_SPINLOCK(table_lock);
static DEFINE_HASHTABLE(table, 10);
static u64 num_lenders;

struct kiw_zcopy *kiw_zcopy_alloc(void)
{
	struct kiw_zcopy *z = kzalloc(sizeof(*z), GFP_KERNEL_ACCOUNT);

	if (!z)
		return NULL;
	kref_init(&z->ref);
	spin_lock_init(&z->owner_lock);
	INIT_LIST_HEAD(&z->lender);
	return z;
}

static void zcopy_free(struct kref *ref)
{
	kfree(container_of(ref, struct kiw_zcopy, ref));
}

void kiw_zcopy_put(struct kiw_zcopy *z)
{
	kref_put(&z->ref, zcopy_free);
}

static u32 table_key(const struct kiw_zcopy *z)
{
	return z->tx_start ^ z->rx_start;	/* the same for both */
}

void kiw_zcopy_join(struct kiw_stream *s, u32 tx_start, u32 rx_start)
{
	struct kiw_zcopy *z = s->zcopy, *other;

	z->owner = s;
	z->tx_start = tx_start;
	z->rx_start = rx_start;
	spin_lock_bh(&table_lock);
	hash_for_each_possible(table, other, node, table_key(z)) {
		if (other->tx_start != rx_start || other->rx_start != tx_start || other->peer)
			continue;
		kref_get(&z->ref);
		kref_get(&other->ref);
		z->peer = other;
		WRITE_ONCE(other->peer, z);
		break;
	}
	hash_add(table, &z->node, table_key(z));
	spin_unlock_bh(&table_lock);
}

static void tell(struct kiw_zcopy *peer)
{
	if (!READ_ONCE(peer->awaited))
		return;
	spin_lock_bh(&peer->owner_lock);
	if (peer->owner && xchg(&peer->awaited, false))
		kiw_stream_wake(peer->owner);
	spin_unlock_bh(&peer->owner_lock);
}

void kiw_zcopy_leave(struct kiw_stream *s)
{
	struct kiw_zcopy *z = s->zcopy, *peer;

	spin_lock_bh(&table_lock);
	hash_del(&z->node);
	list_del_init(&z->lender);
	peer = z->peer;
	WRITE_ONCE(z->peer, NULL);
	spin_unlock_bh(&table_lock);
	spin_lock_bh(&z->owner_lock);
	WRITE_ONCE(z->owner, NULL);
	spin_unlock_bh(&z->owner_lock);

	/* What we placed was placed before. */
	smp_store_release(&z->gone, true);
	if (!peer)
		return;
	smp_mb();	/* as in kiw_zcopy_placed() */
	tell(peer);
	kiw_zcopy_put(peer);
}

bool kiw_zcopy_near(const struct kiw_stream *s)
{
	return READ_ONCE(s->zcopy->peer);
}

const struct kiw_stream *kiw_zcopy_peer_stream(const struct kiw_stream *s)
{
	const struct kiw_zcopy *peer = READ_ONCE(s->zcopy->peer);

	return peer ? READ_ONCE(peer->owner) : NULL;
}

bool kiw_zcopy_elsewhere(const struct kiw_stream *s)
{
	const struct kiw_zcopy *peer = READ_ONCE(s->zcopy->peer);

	return peer && READ_ONCE(peer->elsewhere);
}

bool kiw_zcopy_possible(const struct kiw_stream *s)
{
	return kiw_zcopy_near(s) && !s->neg.crc && !s->neg.markers_tx;
}

bool kiw_zcopy_place(struct kiw_stream *s)
{
	const struct kiw_zcopy *peer = READ_ONCE(s->zcopy->peer);

	/* It says so before it sends such a thing, which was put into our queue after that. */
	if (!peer || !READ_ONCE(peer->lends))
		return true;
	WRITE_ONCE(s->zcopy->placing, true);
	smp_mb();	/* either we see that it revoked, or it sees that we are placing */
	return !READ_ONCE(peer->revoked);
}

void kiw_zcopy_placed(struct kiw_stream *s, u32 octets)
{
	struct kiw_zcopy *z = s->zcopy, *peer = READ_ONCE(z->peer);

	/* The peer's buffers were read before. */
	smp_store_release(&z->placed, octets);
	if (!peer || !READ_ONCE(peer->lends))
		return;
	smp_store_release(&z->placing, false);	/* for kiw_zcopy_revoke() */
	smp_mb();	/* either we see that it waits, or it sees what we placed */
	tell(peer);
}

static void add_lender(struct kiw_zcopy *z, struct kiw_pd *pd)
{
	WRITE_ONCE(z->lends, true);
	spin_lock_bh(&table_lock);
	z->number = ++num_lenders;
	list_add_tail(&z->lender, &pd->lenders);
	spin_unlock_bh(&table_lock);
}

void kiw_zcopy_lend(struct kiw_stream *s, u32 end)
{
	struct kiw_zcopy *z = s->zcopy;

	if (!z->lends)
		add_lender(z, to_kiw_pd(s->qp->ibqp.pd));
	WRITE_ONCE(z->lent, end);
	smp_store_release(&z->lending, true);	/* for next_lender() */
}

void kiw_zcopy_hold(struct kiw_stream *s, u32 index, u32 end)
{
	struct kiw_zcopy *z = s->zcopy;

	if (z->num_held < KIW_ZCOPY_HELD)
		z->num_held++;
	z->held[z->num_held - 1] = (struct kiw_held){ .index = index, .end = end };
}

/* Has @peer placed @end octets, or will it never? */
static bool placed_by(const struct kiw_zcopy *peer, u32 end)
{
	if (!peer || smp_load_acquire(&peer->gone))	/* in kiw_zcopy_leave() */
		return true;
	return (s32)(smp_load_acquire(&peer->placed) - end) >= 0;	/* in kiw_zcopy_placed() */
}

static bool placed(const struct kiw_zcopy *z, u32 end)
{
	return placed_by(READ_ONCE(z->peer), end);
}

bool kiw_zcopy_ready(struct kiw_stream *s, u32 *index)
{
	struct kiw_zcopy *z = s->zcopy;
	unsigned int n;

	/* Soon, because octets are counted modulo 2^32. */
	if (z->lending && placed(z, z->lent))
		WRITE_ONCE(z->lending, false);
	for (n = 0; n < z->num_held && placed(z, z->held[n].end); n++)
		*index = z->held[n].index;
	if (!n)
		return false;
	z->num_held -= n;
	memmove(z->held, z->held + n, z->num_held * sizeof(z->held[0]));
	return true;
}

bool kiw_zcopy_await(struct kiw_stream *s)
{
	struct kiw_zcopy *z = s->zcopy;

	if (!z->num_held)
		return false;
	WRITE_ONCE(z->awaited, true);
	smp_mb();	/* as in kiw_zcopy_placed() */
	return placed(z, z->held[0].end);
}

bool kiw_zcopy_returned(const struct kiw_stream *s)
{
	return !s->zcopy->lending || placed(s->zcopy, s->zcopy->lent);
}

static void revoke(struct kiw_zcopy *z, const struct kiw_zcopy *peer)
{
	WRITE_ONCE(z->revoked, true);
	smp_mb();	/* as in kiw_zcopy_place() */
	while (smp_load_acquire(&peer->placing))
		usleep_range(10, 100);
}

void kiw_zcopy_revoke(struct kiw_stream *s)
{
	struct kiw_zcopy *z = s->zcopy;

	z->num_held = 0;
	if (kiw_zcopy_returned(s))
		return;
	revoke(z, z->peer);
	WRITE_ONCE(z->lending, false);
}

/* Will @peer place nothing more of what @z sent? */
static bool revoked(const struct kiw_zcopy *z, const struct kiw_zcopy *peer)
{
	return smp_load_acquire(&z->revoked) &&		/* before it begins to place, in turn */
	       !smp_load_acquire(&peer->placing);	/* in kiw_zcopy_placed() */
}

/*
 * The first of @pd after @number whose peer has yet to place something, up to @end; with references
 * to both. Streams that lend later send nothing of the region.
 */
static struct kiw_zcopy *next_lender(const struct kiw_pd *pd, u64 number, struct kiw_zcopy **peer,
				     u32 *end)
{
	struct kiw_zcopy *z, *next = NULL;

	spin_lock_bh(&table_lock);
	list_for_each_entry(z, &pd->lenders, lender) {
		/* as in kiw_zcopy_lend() */
		if (z->number <= number || !smp_load_acquire(&z->lending))
			continue;
		*end = READ_ONCE(z->lent);
		if (placed(z, *end))
			continue;
		next = z;
		*peer = z->peer;
		kref_get(&next->ref);
		kref_get(&next->peer->ref);
		break;
	}
	spin_unlock_bh(&table_lock);
	return next;
}

void kiw_zcopy_recall(const struct kiw_pd *pd)
{
	unsigned long by = jiffies + KIW_ZCOPY_PATIENCE;
	struct kiw_zcopy *z, *peer;
	u64 number = 0;
	u32 end;

	while ((z = next_lender(pd, number, &peer, &end))) {
		number = z->number;
		while (!placed_by(peer, end) && !revoked(z, peer)) {
			if (time_after(jiffies, by)) {
				revoke(z, peer);
				break;
			}
			usleep_range(10, 100);
		}
		kiw_zcopy_put(peer);
		kiw_zcopy_put(z);
	}
}
