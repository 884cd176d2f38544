/* SPDX-License-Identifier: GPL-2.0 */
/* Runs a stream: socket lock, socket callbacks, pending actions. */
#ifndef KIWARP_PUMP_H
#define KIWARP_PUMP_H

#include <linux/hrtimer.h>
#include <linux/types.h>

#include "compat.h"

struct kiw_stream;
struct work_struct;

/** kiw_pump_lock() - take the socket lock as owner; process context */
void kiw_pump_lock(struct kiw_stream *s);

/** kiw_pump_settle() - carry out pending work; kiw_pump_lock(). Return: work is left over */
bool kiw_pump_settle(struct kiw_stream *s);

/** kiw_pump_unlock() - settle, also for packets that arrived meanwhile, and unlock */
void kiw_pump_unlock(struct kiw_stream *s);

/**
 * kiw_pump_doorbell() - process posted requests; may sleep
 * @s: stream
 * @send: in the send ring, else in the receive ring
 *
 * Return: false if the stream left its QP.
 */
bool kiw_pump_doorbell(struct kiw_stream *s, bool send);

/** kiw_pump_own() - take the socket lock as owner; nothing settles */
void kiw_pump_own(struct kiw_stream *s);

/** kiw_pump_disown() - drop the socket lock of kiw_pump_own() */
void kiw_pump_disown(struct kiw_stream *s);

/** kiw_pump_hook() - install the stream's callbacks; locked by kiw_pump_lock() */
void kiw_pump_hook(struct kiw_stream *s);

/** kiw_pump_unhook() - restore the socket's callbacks; owner */
void kiw_pump_unhook(struct kiw_stream *s);

/** kiw_pump_start() - receive bytes that came before kiw_pump_hook(); kiw_pump_lock() */
void kiw_pump_start(struct kiw_stream *s);

/** kiw_pump_act() - carry out actions; owner. A FIN waits until TCP took all bytes before it */
void kiw_pump_act(struct kiw_stream *s);

/**
 * kiw_pump_call_back() - take the process's pages back from TCP
 * @s: stream with a QP, owned
 *
 * TCP gets copies; packets on their way keep the pages (lend.h). Without memory for copies the
 * connection is reset, unless the process exits: it won't change the pages.
 */
void kiw_pump_call_back(struct kiw_stream *s);

/** kiw_pump_bell() - run by kiw_stream_ring(); softirq */
void kiw_pump_bell(struct kiw_bh_work *work);

/** kiw_pump_gathered() - send what was gathered; callback of &struct kiw_gather.timer, softirq */
enum hrtimer_restart kiw_pump_gathered(struct hrtimer *timer);

/** kiw_pump_send_gathered() - send it before the state changes; kiw_pump_lock() */
void kiw_pump_send_gathered(struct kiw_stream *s);

void kiw_pump_work(struct work_struct *work);

#endif /* KIWARP_PUMP_H */
