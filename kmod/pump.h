/* SPDX-License-Identifier: GPL-2.0 */
/* Running a stream: the socket lock, the socket's callbacks, and what has to be done. */
#ifndef KIWARP_PUMP_H
#define KIWARP_PUMP_H

#include <linux/types.h>

#include "compat.h"

struct kiw_stream;
struct work_struct;

/** kiw_pump_lock() - take the socket lock as owner; process context */
void kiw_pump_lock(struct kiw_stream *s);

/**
 * kiw_pump_settle() - do all that is due
 * @s: stream locked by kiw_pump_lock()
 *
 * Return: whether there is more than one may do without letting others run.
 */
bool kiw_pump_settle(struct kiw_stream *s);

/**
 * kiw_pump_unlock() - do all that is due, then drop the socket lock
 * @s: stream locked by kiw_pump_lock()
 *
 * Sends what may be sent, flushes and closes as due, also what packets that came in meanwhile ask
 * for.
 */
void kiw_pump_unlock(struct kiw_stream *s);

/**
 * kiw_pump_doorbell() - do what the process has posted
 * @s: stream
 * @send: posted to the send ring, else to the receive ring
 *
 * The requests are in the ring. May sleep.
 *
 * Return: false if the stream has left its QP.
 */
bool kiw_pump_doorbell(struct kiw_stream *s, bool send);

/** kiw_pump_own() - take the socket lock as owner; release_sock() gives it back, nothing settles */
void kiw_pump_own(struct kiw_stream *s);

/** kiw_pump_hook() - the socket's callbacks become the stream's; locked by kiw_pump_lock() */
void kiw_pump_hook(struct kiw_stream *s);

/** kiw_pump_unhook() - the socket gets its own callbacks back; owner */
void kiw_pump_unhook(struct kiw_stream *s);

/** kiw_pump_start() - take what came in before the callbacks were hooked; kiw_pump_lock() */
void kiw_pump_start(struct kiw_stream *s);

/**
 * kiw_pump_act() - carry out the actions of the state table that were put off to process context
 * @s: stream, owned
 *
 * A FIN waits until TCP has all that comes before it.
 */
void kiw_pump_act(struct kiw_stream *s);

/**
 * kiw_pump_call_back() - TCP is not to have pages of a process any more
 * @s: stream with a QP, owned
 *
 * It gets copies; packets that are on their way keep the pages, see lend.h. Without memory for
 * copies the connection is lost, but not if the process ends: it won't change the pages.
 */
void kiw_pump_call_back(struct kiw_stream *s);

/** kiw_pump_bell() - what kiw_stream_ring() has run; softirq */
void kiw_pump_bell(struct kiw_bh_work *work);

/** kiw_pump_work() - the stream's work */
void kiw_pump_work(struct work_struct *work);

#endif /* KIWARP_PUMP_H */
