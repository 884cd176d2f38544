/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sending without a copy, to a stream of ours in the same kernel.
 *
 * TCP can be given the pages of a buffer. Whoever posted it may write to it again when the request
 * completes, so that has to wait until nobody will read those pages any more. An ACK doesn't say
 * so: between two hosts of one kernel the receiver's queue holds the sender's pages themselves,
 * acknowledged or not. But there the receiver can be asked. Streams find each other by the sequence
 * numbers that they started with, which nobody else can know; addresses may be the same in other
 * network namespaces.
 *
 * Each stream publishes how far it has placed what it receives, and its peer completes requests by
 * that. A request that fails before takes its buffer back: the peer may not place it any more. So
 * does a region that is deregistered while its pages are under way.
 *
 * What a stream tells its peer stands in an object of its own, which outlives the stream and its
 * socket as long as the peer looks at it. References: the stream, and the peer from the moment they
 * find each other until it leaves.
 */
#ifndef KIWARP_ZCOPY_H
#define KIWARP_ZCOPY_H

#include <linux/cache.h>
#include <linux/jiffies.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct kiw_pd;
struct kiw_stream;

/* Octets of a buffer in one run, below which a copy costs less than a page's way through TCP. */
#define KIW_ZCOPY_MIN	4096
/* Batches that are waited for one by one; what is beyond is waited for together. */
#define KIW_ZCOPY_HELD	8
/* How long the peer has to place something before it is taken back. */
#define KIW_ZCOPY_PATIENCE	(HZ / 2)

/**
 * struct kiw_held - send requests whose octets TCP has, but that may still be read
 * @index: all before this one
 * @end: stops when the peer has placed this much
 */
struct kiw_held {
	u32	index;
	u32	end;
};

/**
 * struct kiw_zcopy - see above; the socket lock, except where it says otherwise. Octets are counted
 * from the start of the stream, modulo 2^32.
 * @ref: references
 * @owner_lock: protects @owner; innermost, in any context
 * @owner: the stream, until it leaves; it isn't freed before an RCU grace period has passed
 * @node: in the table of all streams; the table's lock
 * @tx_start: TCP sequence number of our first octet
 * @rx_start: that of the peer's
 * @peer: that of the other end, or NULL; changed under the table's lock, read under the socket's
 * @lends: something was sent without a copy once; the peer reads it
 * @gone: nothing will be placed any more; the peer reads it
 * @elsewhere: a placer places; the peer reads it
 * @revoked: the peer may not place what we sent; it reads it
 * @awaited: we want to hear when the peer has placed something; it reads and clears it
 * @lending: something was sent without a copy that was neither placed nor taken back;
 *	kiw_zcopy_recall() reads it
 * @lent: octets up to the last of that; it reads that, too
 * @num_held: so many of @held
 * @placed: octets that were placed, or dropped; the peer reads it
 * @placing: the pump runs; the peer reads it
 * @lender: in the list of the protection domain once it has lent; filled and emptied under the
 *	table's and the socket's lock
 * @number: of all that lent, the list's order
 * @held: requests to complete, oldest first
 *
 * What changes with all that is received stands in a cache line of its own. The peer, on another
 * processor, looks at it only if it lends, but at what is before that each time.
 */
struct kiw_zcopy {
	struct kref		ref;
	spinlock_t		owner_lock;
	struct kiw_stream	*owner;
	struct hlist_node	node;
	u32			tx_start;
	u32			rx_start;
	struct kiw_zcopy	*peer;
	bool			lends;
	bool			gone;
	bool			elsewhere;
	bool			revoked;
	bool			awaited;
	bool			lending;
	u32			lent;
	unsigned int		num_held;

	u32			placed ____cacheline_aligned_in_smp;
	bool			placing;
	struct list_head	lender;
	u64			number;

	struct kiw_held		held[KIW_ZCOPY_HELD] ____cacheline_aligned_in_smp;
};

/** kiw_zcopy_alloc() - what a new stream needs. Return: with one reference, or NULL. */
struct kiw_zcopy *kiw_zcopy_alloc(void);

void kiw_zcopy_put(struct kiw_zcopy *z);

/**
 * kiw_zcopy_join() - look for the peer, and be found by it
 * @s: stream that starts; socket lock held
 * @tx_start: TCP sequence number of the first octet it will send
 * @rx_start: that of the first octet it will receive
 */
void kiw_zcopy_join(struct kiw_stream *s, u32 tx_start, u32 rx_start);

/** kiw_zcopy_leave() - @s will place nothing any more; socket lock held */
void kiw_zcopy_leave(struct kiw_stream *s);

/** kiw_zcopy_near() - is the peer in this kernel; socket lock held */
bool kiw_zcopy_near(const struct kiw_stream *s);

/**
 * kiw_zcopy_peer_stream() - the peer in this kernel, as a hint
 * @s: stream; socket lock held, in an RCU read-side section
 *
 * Return: NULL, or the peer, which may have ended: its socket may be freed.
 */
const struct kiw_stream *kiw_zcopy_peer_stream(const struct kiw_stream *s);

/** kiw_zcopy_elsewhere() - is it, and does a placer place there; socket lock held */
bool kiw_zcopy_elsewhere(const struct kiw_stream *s);

/** kiw_zcopy_possible() - may @s send pages as they are; socket lock held */
bool kiw_zcopy_possible(const struct kiw_stream *s);

/**
 * kiw_zcopy_place() - the receive pump of @s begins; socket lock held
 *
 * Return: false when the peer took back what it sent: nothing of it may be placed.
 */
bool kiw_zcopy_place(struct kiw_stream *s);

/** kiw_zcopy_placed() - the pump ends, having taken @octets of the stream so far */
void kiw_zcopy_placed(struct kiw_stream *s, u32 octets);

/**
 * kiw_zcopy_lend() - pages that aren't ours are sent
 * @s: stream; socket lock held
 * @end: octets up to their last
 *
 * In the RCU read-side section of the region's look-up.
 */
void kiw_zcopy_lend(struct kiw_stream *s, u32 end);

/** kiw_zcopy_hold() - complete the requests before @index when the peer has placed @end octets */
void kiw_zcopy_hold(struct kiw_stream *s, u32 index, u32 end);

/**
 * kiw_zcopy_ready() - which requests needn't be held any more
 * @s: stream; socket lock held
 * @index: set to the one behind the last of them
 *
 * Return: whether there are any.
 */
bool kiw_zcopy_ready(struct kiw_stream *s, u32 *index);

/**
 * kiw_zcopy_await() - have the peer tell us when it has placed something
 *
 * Return: whether it has, just now.
 */
bool kiw_zcopy_await(struct kiw_stream *s);

/** kiw_zcopy_returned() - will nobody read any more what @s sent without a copy? */
bool kiw_zcopy_returned(const struct kiw_stream *s);

/**
 * kiw_zcopy_revoke() - take back what the peer has not placed; it loses the connection
 * @s: stream; socket lock held as owner, process context
 *
 * Waits until the peer's pump has ended, if it runs.
 */
void kiw_zcopy_revoke(struct kiw_stream *s);

/**
 * kiw_zcopy_recall() - have nobody read any more what was sent of a region without a copy
 * @pd: the region's; nobody finds it any more, and an RCU grace period has passed
 *
 * Peers get KIW_ZCOPY_PATIENCE to place what is under way in the whole protection domain; those
 * that don't lose their connection. May sleep.
 */
void kiw_zcopy_recall(const struct kiw_pd *pd);

#endif /* KIWARP_ZCOPY_H */
