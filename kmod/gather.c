// SPDX-License-Identifier: GPL-2.0
#include "gather.h"

#include <net/busy_poll.h>
#include <net/tcp.h>

#include "stream.h"

/* Longest wait of a request, microseconds */
#define GATHER_US 50
/* Gatherings to leave out after one that delayed a single request; doubles to the last */
#define GATHER_LEAVE_OUT_MIN 8
#define GATHER_LEAVE_OUT_MAX 256

void kiw_gather_again(struct kiw_gather *g)
{
	hrtimer_start(&g->timer, ns_to_ktime(GATHER_US * NSEC_PER_USEC), HRTIMER_MODE_REL_SOFT);
}

/* Did a NIC bring the peer's packets? PREEMPT_RT cannot tell, and treats all as of this host. */
static bool gather_is_remote(const struct sock *sk)
{
#ifdef CONFIG_NET_RX_BUSY_POLL
	return READ_ONCE(sk->sk_napi_id) >= MIN_NAPI_ID;
#else
	return false;
#endif
}

/* Consumers in the kernel post without a system call. */
static bool gather_may(const struct kiw_stream *s)
{
	const struct tcp_sock *tp = tcp_sk(s->sk);

	return !s->kernel && s->sk->sk_state == TCP_ESTABLISHED &&
	       s->ss.core->state == KIW_QP_RTS &&
	       (tp->snd_una != tp->write_seq || kiw_reads_out_len(&s->ss.tx.reads_out));
}

/*
 * Within a host the poster sends what is long faster than TCP's callback, which runs on the
 * receiver's CPU. A short request costs less than its doorbell, and is mostly followed by others.
 */
static u32 gather_what(const struct kiw_stream *s)
{
	const struct kiw_sq *sq = &s->ss.core->sq;

	if (gather_is_remote(s->sk))
		return KIW_RING_DRAINING;
	return kiw_swr(sq, sq->next - 1)->byte_len <= KIW_RING_SMALL_MAX ? KIW_RING_SMALL : 0;
}

/* A gathering is over, and brought so many requests; @in_vain: none is too few. Return: go on? */
static bool gather_was_worth(struct kiw_gather *g, u32 got, bool in_vain)
{
	if (got > 1) {
		g->more = 0;
	} else if (got || in_vain) {
		g->more = clamp(2 * g->more, GATHER_LEAVE_OUT_MIN, GATHER_LEAVE_OUT_MAX);
		g->left_out = g->more;
	}
	return got > 1;
}

/* Lists need few doorbells: within a host only a single request makes a stream gather. */
static bool gather_begins(struct kiw_gather *g, u32 next, u32 what)
{
	bool single = next - g->seen == 1;

	g->seen = next;
	if (what == KIW_RING_SMALL && !single)
		return false;
	if (!g->left_out)
		return true;
	g->left_out--;
	return false;
}

u32 kiw_gather(struct kiw_stream *s)
{
	struct kiw_gather *g = &s->gather;
	u32 next = s->ss.core->sq.next;
	u32 what = gather_may(s) ? gather_what(s) : 0;
	bool gathers = s->ss.tx.gathers, within = s->ss.tx.gathers == KIW_RING_SMALL;
	bool over = gathers && (g->over || (within && !what));
	/* Within a host a timer costs as much as a message. */
	bool in_vain = within && (g->over || kiw_stream_received(s) != g->received);

	kiw_stream_assert_held(s);
	g->over = false;
	if (over && !gather_was_worth(g, next - g->mark, in_vain))
		return 0;
	if (!what || (!gathers && !gather_begins(g, next, what)))
		return 0;
	if (!gathers || !hrtimer_is_queued(&g->timer)) {
		g->mark = next;
		g->received = kiw_stream_received(s);
		kiw_gather_again(g);
	}
	/* Acknowledgments call back, see pump.c. */
	set_bit(SOCK_NOSPACE, &s->sk->sk_socket->flags);
	return what;
}
