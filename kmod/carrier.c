// SPDX-License-Identifier: GPL-2.0
/*
 * The module's carrier of sessions (session/port.h): TCP's socket and its stream. The socket lock
 * is the session's lock.
 */
#include <linux/moduleparam.h>
#include <net/tcp.h>

#include "lend.h"
#include "qp.h"
#include "srq.h"
#include "stream.h"

static int carrier_set_wait(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 0, 300);
}

static const struct kernel_param_ops wait_ops = {
	.set = carrier_set_wait,
	.get = param_get_uint,
};

static unsigned int receive_wait = 10;
module_param_cb(receive_wait, &wait_ops, &receive_wait, 0644);
MODULE_PARM_DESC(receive_wait,
		 "Seconds that a message waits for a receive request; 0: none, as in RFC 5041 (default: 10)");

void kiw_carrier_assert_held(const struct kiw_session *s)
{
	kiw_stream_assert_held(kiw_stream_of_session_const(s));
}

unsigned long kiw_carrier_now(void)
{
	return jiffies;
}

void kiw_carrier_kick(struct kiw_session *s)
{
	kiw_stream_kick(kiw_stream_of_session(s));
}

void kiw_carrier_late(struct kiw_session *s, unsigned long delay)
{
	kiw_stream_queue_late(kiw_stream_of_session(s), delay);
}

void kiw_carrier_established(struct kiw_session *session)
{
	struct kiw_stream *s = kiw_stream_of_session(session);

	if (s->inbox)
		kiw_inbox_post(s->inbox, KIW_INBOX_ESTABLISHED);
}

void kiw_carrier_closing(struct kiw_session *session)
{
	struct kiw_stream *s = kiw_stream_of_session(session);

	if (s->inbox)
		kiw_inbox_post(s->inbox, KIW_INBOX_CLOSING);
}

/* A program in RTR may wait for its peer's first message before it changes to RTS. */
void kiw_carrier_begun(struct kiw_session *session)
{
	struct kiw_qp *qp = to_kiw_qp(kiw_stream_of_session(session)->ibqp);

	if (qp->peer->begun)
		return;
	qp->peer->begun = true;
	kiw_qp_raise(&qp->ibqp, IB_EVENT_COMM_EST);
}

/* --- receive requests ----------------------------------------------------------------------- */

void kiw_carrier_starve(struct kiw_session *session)
{
	struct kiw_stream *s = kiw_stream_of_session(session);

	s->starve_end = jiffies + READ_ONCE(receive_wait) * HZ;
}

bool kiw_carrier_waits(struct kiw_session *session)
{
	struct kiw_stream *s = kiw_stream_of_session(session);
	const struct kiw_qp *qp = to_kiw_qp(s->ibqp);
	bool limited = !READ_ONCE(qp->by_number) || qp->peer->limited;
	unsigned long now = jiffies;

	if (!limited)
		return true;
	if (time_after_eq(now, s->starve_end))
		return false;
	kiw_stream_queue_late(s, s->starve_end - now);
	return true;
}

static struct kiw_srq *carrier_srq(const struct kiw_stream *s)
{
	struct ib_srq *srq = s->ibqp->srq;

	return srq ? to_kiw_srq(srq) : NULL;
}

bool kiw_carrier_shares(const struct kiw_session *s)
{
	return carrier_srq(kiw_stream_of_session_const(s));
}

enum kiw_take kiw_carrier_take_shared(struct kiw_session *session, struct kiw_recv_req *req)
{
	struct kiw_stream *s = kiw_stream_of_session(session);

	return kiw_srq_take(carrier_srq(s), &s->srq_wait, req);
}

void kiw_carrier_leave_shared(struct kiw_session *session)
{
	struct kiw_stream *s = kiw_stream_of_session(session);

	if (carrier_srq(s))
		kiw_srq_leave(carrier_srq(s), &s->srq_wait);
}

/* --- TCP ------------------------------------------------------------------------------------ */

gfp_t kiw_carrier_gfp(const struct kiw_session *s)
{
	return kiw_stream_of_session_const(s)->sk->sk_allocation;
}

u32 kiw_carrier_mss(const struct kiw_session *s)
{
	return READ_ONCE(tcp_sk(kiw_stream_of_session_const(s)->sk)->mss_cache);
}

u32 kiw_carrier_sent(const struct kiw_session *s)
{
	return tcp_sk(kiw_stream_of_session_const(s)->sk)->write_seq;
}

u32 kiw_carrier_acked(const struct kiw_session *s)
{
	return tcp_sk(kiw_stream_of_session_const(s)->sk)->snd_una;
}

bool kiw_carrier_begin(struct kiw_session *s)
{
	struct sock *sk = kiw_stream_of_session(s)->sk;

	kiw_batch_uncharge(&s->tx.batch, sk);
	return kiw_batch_begin(&s->tx.batch, sk->sk_allocation);
}

void kiw_carrier_end(struct kiw_session *s, bool watch)
{
	struct sock *sk = kiw_stream_of_session(s)->sk;

	kiw_batch_end(&s->tx.batch);
	kiw_batch_charge(&s->tx.batch, sk);
	/* Acknowledgments call back, see pump.c. */
	if (watch)
		set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
}

/*
 * Does a packet of TCP hold the batch and another FPDU of one segment, with pages of header and
 * trailer? A packet without room for all pages ends with a short segment, within an FPDU.
 */
static bool carrier_fits(const struct kiw_session *s)
{
	u32 pages = kiw_carrier_mss(s) / PAGE_SIZE + 3;

	return s->neg.large || kiw_batch_pages(&s->tx.batch) + pages <= MAX_SKB_FRAGS;
}

bool kiw_carrier_takes(struct kiw_session *s)
{
	struct sock *sk = kiw_stream_of_session(s)->sk;
	struct kiw_batch *b = &s->tx.batch;

	return (int)b->len < sk_stream_wspace(sk) && carrier_fits(s) && kiw_batch_afford(b, sk);
}

int kiw_carrier_push(struct kiw_session *s, bool more)
{
	struct sock *sk = kiw_stream_of_session(s)->sk;
	struct kiw_batch *b = &s->tx.batch;
	int flags = (more ? MSG_MORE : 0) | (s->neg.large ? 0 : MSG_EOR);
	int err = -EAGAIN;

	kiw_region_leave(&b->use);
	if (!b->loan || kiw_loan_charge(b->loan, b->len - b->lent))
		err = kiw_batch_push(b, sk, b->loan ? &b->loan->ubuf : NULL, flags);
	return err == -EAGAIN && sk_stream_memory_free(sk) ? -ENOMEM : err;
}

void kiw_carrier_drop(struct kiw_session *s)
{
	kiw_batch_uncharge(&s->tx.batch, kiw_stream_of_session(s)->sk);
	kiw_batch_clear(&s->tx.batch);
}

u32 kiw_carrier_gathers(struct kiw_session *s)
{
	return kiw_gather(kiw_stream_of_session(s));
}

/* --- loans ---------------------------------------------------------------------------------- */

struct kiw_loan *kiw_carrier_lend(struct kiw_session *s, u32 len)
{
	return kiw_lend_for(kiw_stream_of_session(s), len);
}

bool kiw_carrier_lends(const struct kiw_session *s)
{
	return kiw_stream_lends(kiw_stream_of_session_const(s));
}

void kiw_carrier_hold(struct kiw_session *s, u32 end)
{
	kiw_lend_hold(kiw_stream_of_session(s), end);
}

void kiw_carrier_take_back(struct kiw_session *s, u32 *end)
{
	kiw_lend_over(kiw_stream_of_session(s), end);
}

/* --- counters ------------------------------------------------------------------------------- */

void kiw_carrier_count(struct kiw_session *s, enum kiw_stat which)
{
	kiw_stat_inc(&kiw_stream_of_session(s)->dev->stats, which);
}

void kiw_carrier_count_sent(struct kiw_session *s, u32 bytes, u32 lent, u32 fpdus)
{
	kiw_traffic_sent(&kiw_stream_of_session(s)->dev->stats, bytes, lent, fpdus);
}
