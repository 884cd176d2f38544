// SPDX-License-Identifier: GPL-2.0
/*
 * Sender address, port and message number identify a message. A segment of a completed one is
 * dropped before it is placed: the program may use the memory by then. Completed messages are
 * remembered by sender, see struct kiw_past. Beyond KIW_UD_SENDERS, the longest silent sender is
 * forgotten. To forge so many, a stranger needs the Q_Key and an STag, and could then write there
 * anyway.
 */
#include "record.h"

#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/jhash.h>
#include <linux/list.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <linux/workqueue.h>
#include <net/ipv6.h>

#include "compat.h"
#include "cq.h"
#include "ud.h"
#include "place.h"
#include "proto/dgram.h"
#include "proto/record.h"

/*
 * Jiffies of silence after which a sender may be another process: the longest lifetime of a
 * datagram in a network (RFC 9293 section 3.4.2). Then the port may be reused.
 */
#define RECORD_SILENCE (120 * HZ)

/* Lists of senders; keeps struct kiw_ud_records just below 64 KB */
#define RECORD_LISTS 128

/* Slots of a completion: struct kiw_cqe and struct kiw_cqe_record */
#define RECORD_CQES 2

/**
 * struct record_key - identity of a message
 * @from: address of the sender; IPv4 as a mapped one
 * @port: its UDP port
 * @id: number of the message
 */
struct record_key {
	struct in6_addr	from;
	u32		port;
	u32		id;
};

/**
 * struct record_slot - an incomplete message
 * @key: identity
 * @deadline: jiffies
 * @record: its received parts
 */
struct record_slot {
	struct record_key	key;
	unsigned long		deadline;
	struct kiw_record	record;
};

/**
 * struct record_sender - a sender of completed messages
 * @link: in one of kiw_ud_records.senders
 * @age: in kiw_ud_records.ages
 * @from: address; IPv4 as a mapped one
 * @port: UDP port
 * @last: jiffies when the last of its messages completed
 * @past: its completed messages
 */
struct record_sender {
	struct hlist_node	link;
	struct list_head	age;
	struct in6_addr		from;
	u32			port;
	unsigned long		last;
	struct kiw_past		past;
};

/**
 * struct kiw_ud_records - a target
 * @ud: QP's part
 * @timeout: jiffies
 * @seed: of the hashes
 * @open: slots in use
 * @hash: of the key of each slot, never 0; 0: free slot
 * @senders: of completed messages, by address and port
 * @ages: all of @sender, longest silent one last
 * @late: work that checks deadlines; queued while there are any
 * @slot: incomplete messages
 * @sender: entries of @senders, and free ones
 */
struct kiw_ud_records {
	struct kiw_ud		*ud;
	unsigned long		timeout;
	u32			seed;
	u32			open;
	u32			hash[KIW_UD_RECORDS];
	struct hlist_head	senders[RECORD_LISTS];
	struct list_head	ages;
	struct delayed_work	late;
	struct record_slot	slot[KIW_UD_RECORDS];
	struct record_sender	sender[KIW_UD_SENDERS];
};

/* --- messages ------------------------------------------------------------------------------- */

static void record_key_init(struct record_key *key, const struct sk_buff *skb, u32 id)
{
	memset(key, 0, sizeof(*key));
	if (skb->protocol == htons(ETH_P_IPV6))
		key->from = ipv6_hdr(skb)->saddr;
	else
		ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, &key->from);
	key->port = ntohs(udp_hdr(skb)->source);
	key->id = id;
}

static u32 record_hash(const struct kiw_ud_records *rs, const struct record_key *key)
{
	BUILD_BUG_ON(sizeof(*key) % sizeof(u32));
	return jhash2((const u32 *)key, sizeof(*key) / sizeof(u32), rs->seed) ?: 1;
}

static struct record_slot *record_find(struct kiw_ud_records *rs, const struct record_key *key,
				       u32 hash)
{
	u32 i;

	for (i = 0; i < KIW_UD_RECORDS; i++) {
		if (rs->hash[i] == hash && !memcmp(&rs->slot[i].key, key, sizeof(*key)))
			return &rs->slot[i];
	}
	return NULL;
}

static struct hlist_head *record_senders(struct kiw_ud_records *rs, const struct record_key *key)
{
	BUILD_BUG_ON(offsetof(struct record_key, id) % sizeof(u32));
	return &rs->senders[jhash2((const u32 *)key,
				   offsetof(struct record_key, id) / sizeof(u32), rs->seed) %
			    RECORD_LISTS];
}

static bool record_is_from(const struct record_sender *sender, const struct record_key *key)
{
	return sender->port == key->port && ipv6_addr_equal(&sender->from, &key->from) &&
	       kiw_past_reaches(&sender->past, key->id) &&
	       time_before(jiffies, sender->last + RECORD_SILENCE);
}

/* Did the message complete before? */
static bool record_is_past(struct kiw_ud_records *rs, const struct record_key *key)
{
	const struct record_sender *sender;

	hlist_for_each_entry(sender, record_senders(rs, key), link) {
		if (record_is_from(sender, key) && kiw_past_has(&sender->past, key->id))
			return true;
	}
	return false;
}

/* A message completed: later segments are late. */
static void record_remember(struct kiw_ud_records *rs, const struct record_key *key)
{
	struct hlist_head *senders = record_senders(rs, key);
	struct record_sender *sender;

	hlist_for_each_entry(sender, senders, link) {
		if (record_is_from(sender, key)) {
			kiw_past_add(&sender->past, key->id);
			goto known;
		}
	}
	sender = list_last_entry(&rs->ages, struct record_sender, age);
	hlist_del_init(&sender->link);
	hlist_add_head(&sender->link, senders);
	sender->from = key->from;
	sender->port = key->port;
	kiw_past_begin(&sender->past, key->id);
known:
	sender->last = jiffies;
	list_move(&sender->age, &rs->ages);
}

/* Complete a message and free its slot. */
static void record_end(struct kiw_ud_records *rs, struct record_slot *slot)
{
	record_remember(rs, &slot->key);
	rs->hash[slot - rs->slot] = 0;
	rs->open--;
}

/* --- completions ---------------------------------------------------------------------------- */

static struct kiw_cq *record_cq(const struct kiw_ud *ud)
{
	return ud->core->rq.cq;
}

/* Room is reserved. Return: as kiw_cq_add(). */
static bool record_report(struct kiw_ud *ud, const struct record_key *key,
			  const struct kiw_record *r, enum ib_wc_status status)
{
	const struct kiw_owner *own = &ud->core->own;
	union {
		struct kiw_cqe		cqe[RECORD_CQES];
		struct {
			struct kiw_cqe		first;
			struct kiw_cqe_record	second;
		};
	} c = {};

	c.first.cookie = own->cookie;
	c.first.qp_num = own->num;
	c.first.byte_len = r->valid;
	c.first.wq_index = key->id;
	c.first.src_qp = key->port;
	c.first.opcode = KIW_WR_RECORD;
	c.first.status = status;
	/* A sender cannot know which events the target waits for. */
	c.first.flags = KIW_CQE_SOLICITED;
	c.second.addr = r->write.to;
	c.second.cookie = own->cookie;
	kiw_record_map(r, (u64 *)c.second.map);
	c.second.opcode = KIW_WR_RECORD;
	c.second.status = status;
	c.second.flags = KIW_CQE_VOID;
	c.second.seg_size = r->write.seg_size;
	memcpy(c.second.sgid, &key->from, sizeof(c.second.sgid));
	c.second.rkey = r->write.stag;
	c.second.length = r->write.length;
	return kiw_cq_add_held(record_cq(ud), c.cqe, RECORD_CQES);
}

/* Complete incomplete messages after their deadline; with @all, the others, too. */
static void record_report_late(struct kiw_ud_records *rs, bool all, enum ib_wc_status status)
{
	struct record_slot *slot;

	lockdep_assert_held(&rs->ud->lock);
	for (slot = rs->slot; rs->open && slot != rs->slot + KIW_UD_RECORDS; slot++) {
		if (!rs->hash[slot - rs->slot] ||
		    (!all && time_before(jiffies, slot->deadline)))
			continue;
		if (!all)
			kiw_stat_inc(&rs->ud->dev->stats, KIW_STAT_UD_RECORD_TIMEOUTS);
		/* A dead queue has reported that already. */
		record_report(rs->ud, &slot->key, &slot->record, status);
		record_end(rs, slot);
	}
}

static void record_late(struct work_struct *work)
{
	struct kiw_ud_records *rs = container_of(to_delayed_work(work), struct kiw_ud_records,
						 late);
	struct kiw_ud *ud = rs->ud;

	spin_lock_bh(&ud->lock);
	record_report_late(rs, false, IB_WC_SUCCESS);
	if (rs->open && ud->open)
		mod_delayed_work(system_percpu_wq, &rs->late, rs->timeout / 4 + 1);
	spin_unlock_bh(&ud->lock);
}

void kiw_ud_record_flush(struct kiw_ud *ud)
{
	lockdep_assert_held(&ud->lock);
	if (ud->records)
		record_report_late(ud->records, true, IB_WC_WR_FLUSH_ERR);
}

void kiw_ud_record_forget(struct kiw_ud *ud)
{
	struct kiw_ud_records *rs = ud->records;
	struct record_slot *slot;

	if (!rs)
		return;
	for (slot = rs->slot; slot != rs->slot + KIW_UD_RECORDS; slot++) {
		if (!rs->hash[slot - rs->slot])
			continue;
		kiw_cq_unhold(record_cq(ud), RECORD_CQES);
		record_end(rs, slot);
	}
}

/* --- segments ------------------------------------------------------------------------------- */

static bool record_drop(struct kiw_ud *ud, enum kiw_stat why)
{
	kiw_stat_inc(&ud->dev->stats, why);
	return true;
}

/* May the peer write the whole message? An empty one needs a region, too. */
static bool record_may_write(const struct kiw_ud *ud, const struct kiw_dgram_write *w)
{
	return !kiw_region_check(&ud->core->own, w->stag, IB_ACCESS_REMOTE_WRITE, w->to,
				 w->length);
}

static bool record_place(struct kiw_ud *ud, const struct kiw_ud_packet *packet,
			 const struct kiw_dgram *d)
{
	struct kiw_ud_source src;
	enum kiw_region_fault fault;

	if (!d->payload_len)
		return record_may_write(ud, &d->write);
	kiw_ud_source_open(&src, packet, d);
	fault = kiw_ud_place(&ud->core->own, &src, d->write.stag, IB_ACCESS_REMOTE_WRITE,
			     d->write.to + d->offset, d->payload_len);
	kiw_ud_source_close(&src);
	if (fault)
		return false;
	kiw_traffic_received(&ud->dev->stats, packet->len, 1);
	return true;
}

/* Begin a message at its first received segment. Return: its slot, or NULL: dropped. */
static struct record_slot *record_begin(struct kiw_ud_records *rs, const struct record_key *key,
					u32 hash, const struct kiw_dgram *d)
{
	struct kiw_ud *ud = rs->ud;
	struct record_slot *slot;
	u32 i;

	if (record_is_past(rs, key)) {
		record_drop(ud, KIW_STAT_UD_RECORD_LATE);
		return NULL;
	}
	for (i = 0; i < KIW_UD_RECORDS && rs->hash[i]; i++)
		;
	if (!record_may_write(ud, &d->write)) {
		record_drop(ud, KIW_STAT_UD_RECORD_REFUSED);
		return NULL;
	}
	if (i == KIW_UD_RECORDS || !kiw_cq_hold(record_cq(ud), RECORD_CQES)) {
		record_drop(ud, KIW_STAT_UD_RECORD_FULL);
		return NULL;
	}
	slot = &rs->slot[i];
	rs->hash[i] = hash;
	slot->key = *key;
	kiw_record_begin(&slot->record, &d->write);
	slot->deadline = jiffies + rs->timeout;
	if (!rs->open++)
		mod_delayed_work(system_percpu_wq, &rs->late, rs->timeout);
	return slot;
}

/* Handle a segment of several. */
static bool record_segment(struct kiw_ud_records *rs, const struct record_key *key,
			   const struct kiw_ud_packet *packet, const struct kiw_dgram *d)
{
	u32 hash = record_hash(rs, key);
	struct kiw_ud *ud = rs->ud;
	struct record_slot *slot;
	bool added;

	slot = record_find(rs, key, hash);
	if (!slot) {
		slot = record_begin(rs, key, hash, d);
		if (!slot)
			return true;
	} else if (!kiw_record_same(&slot->record, &d->write)) {
		return record_drop(ud, KIW_STAT_UD_RECORD_REFUSED);
	} else if (kiw_record_has(&slot->record, d->offset)) {
		return record_drop(ud, KIW_STAT_UD_RECORD_LATE);
	}
	/* If the region is gone by now, the message stays incomplete until its deadline. */
	if (!record_place(ud, packet, d))
		return record_drop(ud, KIW_STAT_UD_RECORD_REFUSED);
	slot->deadline = jiffies + rs->timeout;
	kiw_record_add(&slot->record, d->offset);
	if (slot->record.missing)
		return true;
	added = record_report(ud, key, &slot->record, IB_WC_SUCCESS);
	record_end(rs, slot);
	return added;
}

/* Handle a message of one segment. */
static bool record_whole(struct kiw_ud_records *rs, const struct record_key *key,
			 const struct kiw_ud_packet *packet, const struct kiw_dgram *d)
{
	struct kiw_ud *ud = rs->ud;
	struct kiw_record r;

	if (record_is_past(rs, key))
		return record_drop(ud, KIW_STAT_UD_RECORD_LATE);
	if (!kiw_cq_hold(record_cq(ud), RECORD_CQES))
		return record_drop(ud, KIW_STAT_UD_RECORD_FULL);
	if (!record_place(ud, packet, d)) {
		kiw_cq_unhold(record_cq(ud), RECORD_CQES);
		return record_drop(ud, KIW_STAT_UD_RECORD_REFUSED);
	}
	record_remember(rs, key);
	kiw_record_begin(&r, &d->write);
	kiw_record_add(&r, 0);
	return record_report(ud, key, &r, IB_WC_SUCCESS);
}

bool kiw_ud_record(struct kiw_ud *ud, const struct kiw_ud_packet *packet,
		   const struct kiw_dgram *d)
{
	struct record_key key;

	lockdep_assert_held(&ud->lock);
	/* Peers never write to groups. */
	if (!ud->records || !packet->own)
		return record_drop(ud, KIW_STAT_UD_RECORD_REFUSED);
	record_key_init(&key, packet->skb, d->write.id);
	if (kiw_dgram_segs(&d->write) == 1)
		return record_whole(ud->records, &key, packet, d);
	return record_segment(ud->records, &key, packet, d);
}

int kiw_ud_record_open(struct kiw_ud *ud, u32 timeout)
{
	struct kiw_ud_records *rs = kvzalloc(sizeof(*rs), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	u32 i;

	BUILD_BUG_ON(KIW_RECORD_MAX_SEGS != KIW_DGRAM_MAX_SEGS);
	BUILD_BUG_ON(KIW_RECORD_MAX_SEG_SIZE != KIW_DGRAM_MAX_SEG);
	if (!rs)
		return -ENOMEM;
	rs->ud = ud;
	rs->timeout = msecs_to_jiffies(timeout ?: KIW_RECORD_TIMEOUT);
	rs->seed = get_random_u32();
	INIT_LIST_HEAD(&rs->ages);
	for (i = 0; i < KIW_UD_SENDERS; i++)
		list_add(&rs->sender[i].age, &rs->ages);
	INIT_DELAYED_WORK(&rs->late, record_late);
	ud->records = rs;
	return 0;
}

/* Callbacks still running find the QP closed and do not come here. */
void kiw_ud_record_close(struct kiw_ud *ud)
{
	if (!ud->records)
		return;
	cancel_delayed_work_sync(&ud->records->late);
	kiw_ud_record_forget(ud);
	kvfree(ud->records);
	ud->records = NULL;
}
