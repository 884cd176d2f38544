/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a session needs of the program that it is part of. The program defines these functions, and
 * the types that session_port.h, a header of the program, declares; all is bound when it is linked,
 * as the source of proto/receive.h is. The module's are in carrier.c, batch.c, region.c, lend.c,
 * cursor.c and cq.c.
 *
 * session_port.h also declares, each with the comment that the module's header has:
 *   struct kiw_batch and kiw_batch_*()		FPDUs on their way out
 *   struct kiw_region_use and kiw_region_*()	memory that an STag leads to
 *   struct kiw_loan and kiw_loan_*()		memory that is sent as it is
 *   struct kiw_cursor and kiw_cursor_*()	bytes that came in
 *   kiw_cq_add()				completions
 *   trace_kiw_*(), KIW_STAT_*			what can be watched
 *   enum ib_wc_status, enum ib_event_type, IB_ACCESS_*, IB_QPS_RTR: the words of verbs
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

/** kiw_carrier_assert_held() - the caller holds the lock of the session */
void kiw_carrier_assert_held(const struct kiw_session *s);

/** kiw_carrier_now() - the time, in %KIW_CARRIER_SECOND parts of a second */
unsigned long kiw_carrier_now(void);

/** kiw_carrier_kick() - have kiw_tx_run() called soon, and @s->todo done; any context */
void kiw_carrier_kick(struct kiw_session *s);

/** kiw_carrier_late() - the same after a time in units of kiw_carrier_now(), or earlier */
void kiw_carrier_late(struct kiw_session *s, unsigned long delay);

/** kiw_carrier_established() - the peer's first FPDU was good; a responder is told */
void kiw_carrier_established(struct kiw_session *s);

/** kiw_carrier_closing() - the connection has begun to end; the program is told */
void kiw_carrier_closing(struct kiw_session *s);

/** kiw_carrier_begun() - a message begins while the QP is shown as RTR, which may be news */
void kiw_carrier_begun(struct kiw_session *s);

/**
 * kiw_carrier_starve() - a message finds no receive request
 * @s: session, with @starving set just now
 */
void kiw_carrier_starve(struct kiw_session *s);

/** kiw_carrier_waits() - may the message that found none wait longer; it is looked at again */
bool kiw_carrier_waits(struct kiw_session *s);

/** kiw_carrier_shares() - does the QP take receive requests from a shared queue */
bool kiw_carrier_shares(const struct kiw_session *s);

/** kiw_carrier_take_shared() - take one there; as kiw_rq_take() */
enum kiw_take kiw_carrier_take_shared(struct kiw_session *s, struct kiw_recv_req *req);

/** kiw_carrier_leave_shared() - none will be taken there any more */
void kiw_carrier_leave_shared(struct kiw_session *s);

/** kiw_carrier_gfp() - how memory may be allocated now */
gfp_t kiw_carrier_gfp(const struct kiw_session *s);

/** kiw_carrier_mss() - bytes of a segment of TCP's */
u32 kiw_carrier_mss(const struct kiw_session *s);

/** kiw_carrier_sent() - TCP's number of the byte behind all that it was given */
u32 kiw_carrier_sent(const struct kiw_session *s);

/** kiw_carrier_acked() - TCP's number of the oldest byte that the peer hasn't acknowledged */
u32 kiw_carrier_acked(const struct kiw_session *s);

/**
 * kiw_carrier_begin() - the batch is about to be added to and pushed; kiw_carrier_end() follows
 * @s: session; its tx.batch
 *
 * Return: false when there is no memory.
 */
bool kiw_carrier_begin(struct kiw_session *s);

/** kiw_carrier_end() - it stays as it is for now; with @watch, each ACK is to be told */
void kiw_carrier_end(struct kiw_session *s, bool watch);

/** kiw_carrier_takes() - has TCP room and memory for more than @s->tx.batch holds */
bool kiw_carrier_takes(struct kiw_session *s);

/**
 * kiw_carrier_push() - hand TCP what is left of @s->tx.batch
 * @s: session
 * @more: another batch follows at once
 *
 * Return: 0 when TCP has all of it; -EINTR when it took a part; -EAGAIN when it has no room, and
 * -ENOMEM when it has no memory; another error when the connection is gone.
 */
int kiw_carrier_push(struct kiw_session *s, bool more);

/** kiw_carrier_drop() - the batch is empty, and has no loan */
void kiw_carrier_drop(struct kiw_session *s);

/** kiw_carrier_lend() - the loan for a message of @len bytes, or NULL: copy */
struct kiw_loan *kiw_carrier_lend(struct kiw_session *s, u32 len);

/** kiw_carrier_lends() - are there loans that were not taken back */
bool kiw_carrier_lends(const struct kiw_session *s);

/** kiw_carrier_hold() - send requests before @end complete with the youngest loan */
void kiw_carrier_hold(struct kiw_session *s, u32 end);

/** kiw_carrier_take_back() - nobody needs the buffers of requests before @end any more */
void kiw_carrier_take_back(struct kiw_session *s, u32 *end);

/** kiw_carrier_count() - count a rare event */
void kiw_carrier_count(struct kiw_session *s, enum kiw_stat which);

/** kiw_carrier_count_sent() - count what TCP has taken: bytes, those of them lent, and FPDUs */
void kiw_carrier_count_sent(struct kiw_session *s, u32 bytes, u32 lent, u32 fpdus);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_PORT_H */
