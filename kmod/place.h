/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Placing what arrives on another processor.
 *
 * TCP's callback places what has arrived, and so all of a fast stream's work is one processor's:
 * that of the sender, if it is in the same kernel, or of the network device's interrupts. Where
 * that takes a good part of it, the callback can do no more than wake a thread elsewhere, which
 * then owns the socket, so that most of TCP's receiving is that processor's, too. It is tried, and
 * kept where it moves more.
 *
 * Each processor has a placer for those whose packets arrive there.
 *
 * It never keeps a stream from ending: one that was stopped has no QP any more, which it finds
 * under the socket lock. Locks and references: helper.h.
 */
#ifndef KIWARP_PLACE_H
#define KIWARP_PLACE_H

#include <linux/list.h>
#include <linux/types.h>

struct kiw_stream;
struct placer;

/**
 * struct kiw_place - what a stream has to do with placers; socket lock, but for @node
 * @node: in a placer's list; the helper's lock, then its thread's own
 * @queued: it will place what has arrived
 * @served: it does
 * @gave_way: the placer that has to be given it back, with the reference that it has, by whoever
 *	waited for the socket; @queued is true then
 * @bulk: much was placed the last time
 * @requests: octets of Read Requests in this turn: they are received, but nothing is placed
 * @began: when a callback or an owner began to place, ns; 0 if that isn't measured
 */
struct kiw_place {
	struct list_head	node;
	bool			queued;
	bool			served;
	bool			bulk;
	u32			requests;
	struct placer		*gave_way;
	u64			began;
};

/**
 * kiw_place_elsewhere() - leave what has arrived to a placer, if that seems good
 * @s: stream; socket lock held, in TCP's callback
 *
 * Return: whether it will be placed.
 */
bool kiw_place_elsewhere(struct kiw_stream *s);

/**
 * kiw_place_rest() - leave to a placer what an owner hasn't placed, if that seems good
 * @s: stream; the lock held by kiw_stream_lock()
 *
 * Return: whether it will be placed.
 */
bool kiw_place_rest(struct kiw_stream *s);

/**
 * kiw_place_pending() - is placing left to a placer, which waits for the socket or a processor
 * @place: of a stream; socket lock held
 *
 * Return: whether others shouldn't place.
 */
static inline bool kiw_place_pending(const struct kiw_place *place)
{
	return place->queued && !place->served;
}

/**
 * kiw_place_resume() - give it back to a placer that gave way
 * @s: stream; socket lock held by who may have waited for it, and now lets go of it
 */
void kiw_place_resume(struct kiw_stream *s);

/**
 * kiw_place_begin() - the owner of the socket, or a callback, begins to place itself
 * @s: stream; socket lock held, @turn just set
 */
void kiw_place_begin(struct kiw_stream *s);

/** kiw_place_end() - it has */
void kiw_place_end(struct kiw_stream *s);

void kiw_place_init(void);
void kiw_place_exit(void);

#endif /* KIWARP_PLACE_H */
