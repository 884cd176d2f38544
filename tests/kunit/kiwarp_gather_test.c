// SPDX-License-Identifier: GPL-2.0
/* When a stream gathers, and which gatherings it leaves out */
#include <kunit/test.h>
#include <net/busy_poll.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "stream.h"

/* What the decision reads of a connection; the socket is never connected */
struct fixture {
	struct socket *sock;
	struct kiw_stream *s;
	struct kiw_core core;
	struct kiw_swr swr;	/* of the last request */
	bool rang;
};

static enum hrtimer_restart ring(struct hrtimer *timer)
{
	struct kiw_stream *s = container_of(timer, struct kiw_stream, gather.timer);

	container_of(s->ss.core, struct fixture, core)->rang = true;
	return HRTIMER_NORESTART;
}

static bool timer_was_started(struct fixture *f)
{
	return hrtimer_cancel(&f->s->gather.timer) || f->rang;
}

/* A stream for which nothing speaks against gathering */
static int fixture_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->s = kunit_kzalloc(test, sizeof(*f->s), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->s);
	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_INET, SOCK_STREAM, 0, &f->sock), 0);
	test->priv = f;

	f->s->sk = f->sock->sk;
	f->s->ss.core = &f->core;
	f->core.state = KIW_QP_RTS;
	f->core.sq.entries = 1;
	f->core.sq.swr = &f->swr;
	hrtimer_setup(&f->s->gather.timer, ring, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);

	f->s->sk->sk_state = TCP_ESTABLISHED;
	tcp_sk(f->s->sk)->write_seq = tcp_sk(f->s->sk)->snd_una + 1;
	return 0;
}

/* A NIC brings the packets */
static void from_a_nic(struct kunit *test)
{
#ifdef CONFIG_NET_RX_BUSY_POLL
	struct fixture *f = test->priv;

	f->s->sk->sk_napi_id = MIN_NAPI_ID;
#else
	/* CONFIG_PREEMPT_RT has none. The cases within a host run. */
	kunit_skip(test, "this kernel does not tell which packets a NIC brings");
#endif
}

/* They come from within the host, with the number of some CPU */
static void from_this_host(struct kunit *test)
{
#ifdef CONFIG_NET_RX_BUSY_POLL
	struct fixture *f = test->priv;

	f->s->sk->sk_napi_id = MIN_NAPI_ID - 1;
#endif
}

static void fixture_exit(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (!f)
		return;
	f->s->sk->sk_state = TCP_CLOSE;
	tcp_sk(f->s->sk)->write_seq = tcp_sk(f->s->sk)->snd_una;
	hrtimer_cancel(&f->s->gather.timer);
	sock_release(f->sock);
}

static u32 gathers(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 what;

	lock_sock(f->s->sk);
	what = kiw_gather(f->s);
	release_sock(f->s->sk);
	return what;
}

static void bytes_under_way_gather(struct kunit *test)
{
	struct fixture *f = test->priv;

	from_a_nic(test);
	KUNIT_EXPECT_EQ(test, gathers(test), KIW_RING_DRAINING);
	KUNIT_EXPECT_TRUE(test, timer_was_started(f));
	KUNIT_EXPECT_TRUE(test, test_bit(SOCK_NOSPACE, &f->sock->flags));
}

static void reads_under_way_gather(struct kunit *test)
{
	struct fixture *f = test->priv;

	from_a_nic(test);
	tcp_sk(f->s->sk)->write_seq = tcp_sk(f->s->sk)->snd_una;
	KUNIT_EXPECT_FALSE(test, gathers(test));
	f->s->ss.tx.reads_out.tail++;
	KUNIT_EXPECT_TRUE(test, gathers(test));
}

static void hosts_gather_small_ones_within(struct kunit *test)
{
	struct fixture *f = test->priv;

	from_this_host(test);
	f->core.sq.next = 1;
	f->swr.byte_len = KIW_RING_SMALL_MAX + 1;
	KUNIT_EXPECT_EQ(test, gathers(test), 0);
	KUNIT_EXPECT_FALSE(test, timer_was_started(f));
	f->swr.byte_len = KIW_RING_SMALL_MAX;
	KUNIT_EXPECT_EQ(test, gathers(test), KIW_RING_SMALL);
	KUNIT_EXPECT_TRUE(test, timer_was_started(f));
}

static void lists_do_not_gather_within_a_host(struct kunit *test)
{
	struct fixture *f = test->priv;

	from_this_host(test);
	f->core.sq.next = 2;
	KUNIT_EXPECT_EQ(test, gathers(test), 0);
	KUNIT_EXPECT_EQ(test, gathers(test), 0);	/* nor does an acknowledgment */
	f->core.sq.next = 3;
	KUNIT_EXPECT_EQ(test, gathers(test), KIW_RING_SMALL);
}

static void the_kernel_does_not_gather(struct kunit *test)
{
	struct fixture *f = test->priv;

	from_a_nic(test);
	f->s->kernel = true;
	KUNIT_EXPECT_FALSE(test, gathers(test));
}

static void ends_do_not_gather(struct kunit *test)
{
	struct fixture *f = test->priv;

	from_a_nic(test);
	f->core.state = KIW_QP_CLOSING;
	KUNIT_EXPECT_FALSE(test, gathers(test));
	f->core.state = KIW_QP_RTS;
	f->s->sk->sk_state = TCP_CLOSE_WAIT;
	KUNIT_EXPECT_FALSE(test, gathers(test));
}

/* A gathering whose time passes, and brings so many requests. Return: goes it on? */
static bool passes(struct kunit *test, u32 requests)
{
	struct fixture *f = test->priv;

	hrtimer_cancel(&f->s->gather.timer);
	f->core.sq.next += requests;
	f->s->gather.over = true;
	f->s->ss.tx.gathers = gathers(test);
	return f->s->ss.tx.gathers;
}

/* How many are left out before the next, each behind a request */
static u32 left_out(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 n = 0;

	for (;; n++) {
		f->core.sq.next++;
		f->s->ss.tx.gathers = gathers(test);
		if (f->s->ss.tx.gathers)
			return n;
	}
}

static void empty_time_ends_a_gathering(struct kunit *test)
{
	from_a_nic(test);
	KUNIT_EXPECT_EQ(test, left_out(test), 0);
	KUNIT_EXPECT_FALSE(test, passes(test, 0));
	KUNIT_EXPECT_EQ(test, left_out(test), 0);
}

/* Return: how many are left out behind a gathering that an acknowledgment has ended */
static u32 left_out_when_acked(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, f->s->ss.tx.gathers, KIW_RING_SMALL);
	tcp_sk(f->s->sk)->snd_una++;
	f->s->ss.tx.gathers = gathers(test);
	KUNIT_EXPECT_EQ(test, f->s->ss.tx.gathers, 0);
	tcp_sk(f->s->sk)->snd_una--;
	return left_out(test);
}

static void answers_within_a_host_leave_the_next_out(struct kunit *test)
{
	struct fixture *f = test->priv;

	from_this_host(test);
	KUNIT_EXPECT_EQ(test, left_out(test), 0);
	KUNIT_EXPECT_EQ(test, left_out_when_acked(test), 0);
	for (u32 expected = 8; expected <= 16; expected *= 2) {
		f->s->rx_taken++;
		KUNIT_EXPECT_EQ(test, left_out_when_acked(test), expected);
	}
	KUNIT_EXPECT_FALSE(test, passes(test, 0));
	KUNIT_EXPECT_EQ(test, left_out(test), 32);
}

static void lone_requests_leave_the_next_out(struct kunit *test)
{
	static const u32 expected[] = { 8, 16, 32, 64, 128, 256, 256 };

	from_a_nic(test);
	KUNIT_EXPECT_EQ(test, left_out(test), 0);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		KUNIT_EXPECT_FALSE(test, passes(test, 1));
		KUNIT_EXPECT_EQ(test, left_out(test), expected[i]);
	}
}

static void two_requests_are_worth_it(struct kunit *test)
{
	from_a_nic(test);
	KUNIT_EXPECT_EQ(test, left_out(test), 0);
	KUNIT_EXPECT_FALSE(test, passes(test, 1));
	KUNIT_EXPECT_EQ(test, left_out(test), 8);
	KUNIT_EXPECT_TRUE(test, passes(test, 2));
	/* They are also counted from when the time began anew. */
	KUNIT_EXPECT_FALSE(test, passes(test, 1));
	KUNIT_EXPECT_EQ(test, left_out(test), 8);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(bytes_under_way_gather),
	KUNIT_CASE(reads_under_way_gather),
	KUNIT_CASE(hosts_gather_small_ones_within),
	KUNIT_CASE(lists_do_not_gather_within_a_host),
	KUNIT_CASE(the_kernel_does_not_gather),
	KUNIT_CASE(ends_do_not_gather),
	KUNIT_CASE(empty_time_ends_a_gathering),
	KUNIT_CASE(answers_within_a_host_leave_the_next_out),
	KUNIT_CASE(lone_requests_leave_the_next_out),
	KUNIT_CASE(two_requests_are_worth_it),
	{}
};

static struct kunit_suite suite = {
	.name = "kiwarp_gather",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = cases,
};

kunit_test_suite(suite);
