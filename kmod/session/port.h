/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Functions and types that the program around a session defines, bound at link time as the source
 * of proto/receive.h is. The module's are in carrier.c, batch.c, region.c, lend.c, cursor.c and
 * cq.c.
 *
 * The program's session_port.h also declares:
 *   struct kiw_batch and kiw_batch_*()		outgoing FPDUs
 *   struct kiw_region_use and kiw_region_*()	memory of an STag
 *   struct kiw_loan and kiw_loan_*()		memory sent without a copy
 *   struct kiw_cursor and kiw_cursor_*()	incoming bytes
 *   kiw_cq_add()				completions
 *   trace_kiw_*(), KIW_STAT_*			events and counters
 *   enum ib_wc_status, enum ib_event_type, IB_ACCESS_*, IB_QPS_RTR: names of verbs
 */
#ifndef KIW_SESSION_PORT_H
#define KIW_SESSION_PORT_H

#include "session_port.h"
#include "ring.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_recv_req;
struct kiw_session;

/** kiw_carrier_assert_held() - assert that the caller holds the session's lock */
void kiw_carrier_assert_held(const struct kiw_session *s);

/** kiw_carrier_now() - the time, in 1/%KIW_CARRIER_SECOND s */
unsigned long kiw_carrier_now(void);

/** kiw_carrier_kick() - have kiw_tx_run() called and @s->todo done soon; any context */
void kiw_carrier_kick(struct kiw_session *s);

/** kiw_carrier_late() - kick after @delay, in units of kiw_carrier_now(), or earlier */
void kiw_carrier_late(struct kiw_session *s, unsigned long delay);

/** kiw_carrier_established() - the peer's first FPDU was good: tell a responder */
void kiw_carrier_established(struct kiw_session *s);

/** kiw_carrier_closing() - the connection begins to end: tell the program */
void kiw_carrier_closing(struct kiw_session *s);

/** kiw_carrier_begun() - a message begins while the QP is shown as RTR */
void kiw_carrier_begun(struct kiw_session *s);

/** kiw_carrier_starve() - a message found no receive request; @s->starving was just set */
void kiw_carrier_starve(struct kiw_session *s);

/** kiw_carrier_waits() - may that message wait longer; asked again */
bool kiw_carrier_waits(struct kiw_session *s);

/** kiw_carrier_shares() - does the QP use a shared receive queue */
bool kiw_carrier_shares(const struct kiw_session *s);

/** kiw_carrier_take_shared() - take a request from it; as kiw_rq_take() */
enum kiw_take kiw_carrier_take_shared(struct kiw_session *s, struct kiw_recv_req *req);

/** kiw_carrier_leave_shared() - take none from it any more */
void kiw_carrier_leave_shared(struct kiw_session *s);

/** kiw_carrier_gfp() - flags for allocations now */
gfp_t kiw_carrier_gfp(const struct kiw_session *s);

/** kiw_carrier_mss() - bytes of a TCP segment */
u32 kiw_carrier_mss(const struct kiw_session *s);

/** kiw_carrier_sent() - TCP sequence number after the last byte given to TCP */
u32 kiw_carrier_sent(const struct kiw_session *s);

/** kiw_carrier_acked() - TCP sequence number of the first unacknowledged byte */
u32 kiw_carrier_acked(const struct kiw_session *s);

/** kiw_carrier_begin() - before adding to @s->tx.batch. Return: false without memory */
bool kiw_carrier_begin(struct kiw_session *s);

/** kiw_carrier_end() - after it; @watch: report each ACK */
void kiw_carrier_end(struct kiw_session *s, bool watch);

/**
 * kiw_carrier_takes() - has TCP room and memory for more than @s->tx.batch; unless @s->neg.large,
 * in the same packet
 */
bool kiw_carrier_takes(struct kiw_session *s);

/**
 * kiw_carrier_push() - hand the rest of @s->tx.batch to TCP
 * @s: session
 * @more: another batch follows at once
 *
 * Unless @s->neg.large the batch ends a record: TCP begins a segment with the next one.
 *
 * Return: 0: TCP took all; -EINTR: a part; -EAGAIN: no room; -ENOMEM: no memory; another error: the
 * connection is gone.
 */
int kiw_carrier_push(struct kiw_session *s, bool more);

/**
 * kiw_carrier_gathers() - may requests that the process posts from now on wait for others
 * @s: session without a request to send
 *
 * Return: KIW_RING_DRAINING: they may, KIW_RING_SMALL: small ones may, and kiw_tx_run() will be
 * called again soon; 0.
 */
u32 kiw_carrier_gathers(struct kiw_session *s);

/** kiw_carrier_drop() - empty the batch; it has no loan then */
void kiw_carrier_drop(struct kiw_session *s);

/** kiw_carrier_lend() - a loan for a message of @len bytes, or NULL: copy */
struct kiw_loan *kiw_carrier_lend(struct kiw_session *s, u32 len);

/** kiw_carrier_lends() - are loans outstanding */
bool kiw_carrier_lends(const struct kiw_session *s);

/** kiw_carrier_hold() - send requests before @end wait for the youngest loan */
void kiw_carrier_hold(struct kiw_session *s, u32 end);

/** kiw_carrier_take_back() - buffers of requests before @end are free */
void kiw_carrier_take_back(struct kiw_session *s, u32 *end);

/** kiw_carrier_count() - count a rare event */
void kiw_carrier_count(struct kiw_session *s, enum kiw_stat which);

/** kiw_carrier_count_sent() - count bytes, lent bytes and FPDUs that TCP took */
void kiw_carrier_count_sent(struct kiw_session *s, u32 bytes, u32 lent, u32 fpdus);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_PORT_H */
