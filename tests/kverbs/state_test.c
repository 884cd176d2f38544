// SPDX-License-Identifier: GPL-2.0
/* Posts and drains in every state, and connections that are not a queue pair's own */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/umh.h>

#include "end.h"

static int fail(struct end *e)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return ib_modify_qp(e->qp, &attr, IB_QP_STATE);
}

static void nothing_is_sent_before_a_connection(struct kunit *test)
{
	struct pair *p = new_pair(test, NULL);
	const struct ib_recv_wr *bad_recv;
	const struct ib_send_wr *bad;
	struct ib_send_wr wr = { .wr_cqe = &fresh(&p->a, 0)->cqe, .opcode = IB_WR_SEND };
	struct ib_recv_wr recv = { .wr_cqe = &fresh(&p->a, 1)->cqe };

	KUNIT_EXPECT_EQ(test, ib_post_send(p->a.qp, &wr, &bad), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr);
	KUNIT_EXPECT_EQ(test, ib_post_recv(p->a.qp, &recv, &bad_recv), 0);
	connect_pair(test, p);
	KUNIT_EXPECT_EQ(test, post_send(&p->b, fresh(&p->b, 0), p->b.memory, 0), 0);
	/* A responder waits for its peer's first message. */
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, fresh(&p->b, 1), p->b.memory, 0), 0);
	KUNIT_EXPECT_EQ(test, post(&p->a, &wr), 0);
	EXPECT_STATUS(test, &p->b, &p->b.request[0], IB_WC_SUCCESS);
	EXPECT_STATUS(test, &p->b, &p->b.request[1], IB_WC_SUCCESS);
	EXPECT_STATUS(test, &p->a, &p->a.request[1], IB_WC_SUCCESS);
}

static void expect_flushed(struct kunit *test, struct end *e, int from, int n)
{
	int i;

	for (i = from; i < from + n; i++) {
		EXPECT_STATUS(test, e, &e->request[i], IB_WC_WR_FLUSH_ERR);
		KUNIT_EXPECT_EQ(test, atomic_read(&e->request[i].count), 1);
		if (i > from)
			KUNIT_EXPECT_GT(test, e->request[i].order, e->request[i - 1].order);
	}
}

/* Also those that are posted later, with and without a stream */
static void errors_flush_in_order(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	int i;

	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_EQ(test, post_recv(&p->a, fresh(&p->a, i), p->a.memory, 8), 0);
	KUNIT_EXPECT_EQ(test, fail(&p->a), 0);
	for (i = 8; i < 16; i++)
		KUNIT_EXPECT_EQ(test, post_recv(&p->a, fresh(&p->a, i), p->a.memory, 8), 0);
	for (i = 16; i < 32; i++)
		KUNIT_EXPECT_EQ(test, post_send(&p->a, fresh(&p->a, i), p->a.memory, 8), 0);
	expect_flushed(test, &p->a, 0, 16);
	expect_flushed(test, &p->a, 16, 16);
	KUNIT_EXPECT_TRUE(test, soon_seen(&p->a, RDMA_CM_EVENT_DISCONNECTED));
	/* The stream has gone. */
	for (i = 32; i < 40; i++)
		KUNIT_EXPECT_EQ(test, post_send(&p->a, fresh(&p->a, i), p->a.memory, 8), 0);
	for (i = 40; i < 48; i++)
		KUNIT_EXPECT_EQ(test, post_recv(&p->a, fresh(&p->a, i), p->a.memory, 8), 0);
	expect_flushed(test, &p->a, 32, 8);
	expect_flushed(test, &p->a, 40, 8);
}

/* --- drains ----------------------------------------------------------------------------------- */

static void unconnected(struct kunit *test, struct pair *p)
{
}

static void idle(struct kunit *test, struct pair *p)
{
	connect_pair(test, p);
}

static void busy(struct kunit *test, struct pair *p)
{
	int i;

	connect_pair(test, p);
	/* Nobody receives them. */
	for (i = 0; i < 16; i++)
		KUNIT_EXPECT_EQ(test, post_send(&p->a, fresh(&p->a, i), p->a.memory, 100000), 0);
	for (i = 16; i < 32; i++)
		KUNIT_EXPECT_EQ(test, post_recv(&p->a, fresh(&p->a, i), p->a.memory, 8), 0);
}

static void disconnecting(struct kunit *test, struct pair *p)
{
	busy(test, p);
	KUNIT_EXPECT_EQ(test, rdma_disconnect(p->a.id), 0);
}

static void disconnected(struct kunit *test, struct pair *p)
{
	connect_pair(test, p);
	KUNIT_EXPECT_EQ(test, rdma_disconnect(p->a.id), 0);
	KUNIT_EXPECT_TRUE(test, soon_seen(&p->a, RDMA_CM_EVENT_DISCONNECTED));
	KUNIT_EXPECT_TRUE(test, soon_seen(&p->b, RDMA_CM_EVENT_DISCONNECTED));
	msleep(50); /* the stream goes as well */
}

static void left_by_the_peer(struct kunit *test, struct pair *p)
{
	busy(test, p);
	close_end(&p->b);
}

static void failed(struct kunit *test, struct pair *p)
{
	busy(test, p);
	KUNIT_EXPECT_EQ(test, fail(&p->a), 0);
}

static void failed_unconnected(struct kunit *test, struct pair *p)
{
	KUNIT_EXPECT_EQ(test, post_recv(&p->a, fresh(&p->a, 0), p->a.memory, 8), 0);
	KUNIT_EXPECT_EQ(test, fail(&p->a), 0);
}

static void terminated(struct kunit *test, struct pair *p)
{
	busy(test, p);
	post_inv(&p->a, fresh(&p->a, 40), 0x12345600);
}

struct drain {
	const char *name;
	void (*reach)(struct kunit *test, struct pair *p);
};

static const struct drain drains[] = {
	{ "unconnected", unconnected },
	{ "idle", idle },
	{ "busy", busy },
	{ "disconnecting", disconnecting },
	{ "disconnected", disconnected },
	{ "left by the peer", left_by_the_peer },
	{ "failed", failed },
	{ "failed without a connection", failed_unconnected },
	{ "terminated", terminated },
};

KUNIT_ARRAY_PARAM_DESC(drains, drains, name);

/* Everything that was posted before has completed by then, once. */
static void drain_in(struct kunit *test, bool polled)
{
	const struct drain *drain = test->param_value;
	const struct setup setup = { .polled = polled };
	struct pair *p = new_pair(test, &setup);
	int i;

	drain->reach(test, p);
	ib_drain_qp(p->a.qp);
	for (i = 0; i < REQUESTS; i++)
		if (p->a.request[i].cqe.done)
			KUNIT_EXPECT_EQ(test, atomic_read(&p->a.request[i].count), 1);
	/* Again, and alone */
	ib_drain_rq(p->a.qp);
	ib_drain_sq(p->a.qp);
}

static void a_queue_pair_drains(struct kunit *test)
{
	drain_in(test, false);
}

static void a_polled_queue_pair_drains(struct kunit *test)
{
	drain_in(test, true);
}

/* --- posts while a connection ends ------------------------------------------------------------ */

#define ENDS 30

struct poster {
	struct end *e;
	bool stop;
	int posted;
	int err;
};

static int post_on(void *data)
{
	struct poster *poster = data;
	struct ib_send_wr wr = {
		.wr_cqe = &poster->e->request[0].cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	while (!READ_ONCE(poster->stop)) {
		poster->err = post(poster->e, &wr);
		if (!poster->err)
			poster->posted++;
		else if (poster->err != -ENOMEM)
			break;
		cond_resched();
	}
	while (!kthread_should_stop())
		usleep_range(500, 1000);
	return 0;
}

/* Each post is completed, whenever it comes, also by the drain that comes behind it. */
static void posts_during_the_end_are_flushed(struct kunit *test)
{
	int i, how;

	for (i = 0; i < ENDS; i++) {
		struct pair *p = open_pair(test, NULL);
		struct poster poster = { .e = &p->a };
		struct task_struct *task;

		fresh(&p->a, 0);
		task = kthread_run(post_on, &poster, "kverbs_poster");
		KUNIT_ASSERT_FALSE(test, IS_ERR(task));
		usleep_range(i * 50, i * 50 + 50);
		how = i % 3;
		if (how == 0)
			rdma_disconnect(p->a.id);
		else if (how == 1)
			fail(&p->a);
		else
			close_end(&p->b);
		usleep_range(2000, 4000);
		if (how == 1)
			soon_seen(&p->a, RDMA_CM_EVENT_DISCONNECTED);
		usleep_range(2000, 4000);
		WRITE_ONCE(poster.stop, true);
		kthread_stop(task);
		ib_drain_qp(p->a.qp);
		KUNIT_EXPECT_GT(test, poster.posted, 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&p->a.request[0].count), poster.posted);
		KUNIT_EXPECT_TRUE(test, !poster.err || poster.err == -ENOMEM);
		kunit_release_action(test, free_pair, p);
	}
}

/* Without drains: completions that nobody polled go with the queue pair. */
static void a_queue_pair_goes_while_it_is_busy(struct kunit *test)
{
	int i;

	for (i = 0; i < ENDS; i++) {
		const struct setup setup = { .polled = i % 2 };
		struct pair *p = new_pair(test, &setup);

		busy(test, p);
		usleep_range(i * 20, i * 20 + 20);
		kunit_release_action(test, free_pair, p);
	}
}

/* A post under way: what the queue pair had when the post began stays until it has ended. */
struct under_way {
	struct completion begun;
	bool gone, gone_before_the_end;
};

static int be_under_way(void *data)
{
	struct under_way *post = data;
	unsigned long end = jiffies + HZ / 2;

	rcu_read_lock();
	complete(&post->begun);
	while (time_before(jiffies, end) && !READ_ONCE(post->gone))
		cpu_relax();
	post->gone_before_the_end = READ_ONCE(post->gone);
	rcu_read_unlock();
	while (!kthread_should_stop())
		usleep_range(500, 1000);
	return 0;
}

static void a_queue_pair_outlasts_posts_under_way(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct under_way post = {};
	struct task_struct *task;

	/* On a single one nothing else runs until the post has ended. */
	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two processors");
	init_completion(&post.begun);
	task = kthread_run(be_under_way, &post, "kverbs_post");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	wait_for_completion(&post.begun);
	close_end(&p->a);
	WRITE_ONCE(post.gone, true);
	kthread_stop(task);
	KUNIT_EXPECT_FALSE(test, post.gone_before_the_end);
}

/* --- who may connect -------------------------------------------------------------------------- */

/* An id without a queue pair, and a number */
static void nobody_else_connects_it(struct kunit *test)
{
	struct pair *p = new_pair(test, NULL);
	struct end *stranger = kunit_kzalloc(test, sizeof(*stranger), GFP_KERNEL);
	int err;

	KUNIT_ASSERT_NOT_NULL(test, stranger);
	init_waitqueue_head(&stranger->wait);
	err = resolve(stranger);
	KUNIT_EXPECT_EQ(test, err, 0);
	if (!err)
		KUNIT_EXPECT_EQ(test, dial(stranger, p->a.qp->qp_num), -EINVAL);
	if (stranger->id)
		rdma_destroy_id(stranger->id);
	/* Its own id does. */
	connect_pair(test, p);
}

static void no_process_connects_it(struct kunit *test)
{
	struct pair *p = new_pair(test, NULL);
	char address[16], port[8], number[16];
	char *argv[] = { "/usr/lib/kiwarp/tests/kverbs_stranger", address, port, number, NULL };
	char *envp[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	__be32 to = htonl(ADDRESS);

	snprintf(address, sizeof(address), "%pI4", &to);
	snprintf(port, sizeof(port), "%d", PORT);
	snprintf(number, sizeof(number), "%u", p->a.qp->qp_num);
	KUNIT_EXPECT_EQ(test, call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC), 0);
	connect_pair(test, p);
}

static void it_does_not_connect_by_number(struct kunit *test)
{
	const int mask = IB_QP_STATE | IB_QP_DEST_QPN | IB_QP_AV;
	struct pair *p = new_pair(test, NULL);
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.dest_qp_num = p->a.qp->qp_num,
		.path_mtu = IB_MTU_1024,
		.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE,
		.ah_attr.port_num = 1,
	};
	int err;

	/* Not by ib_modify_qp(), which asks for more. */
	err = kverbs_device->ops.modify_qp(p->a.qp, &attr, mask, NULL);
	KUNIT_EXPECT_EQ(test, err, -EOPNOTSUPP);
	connect_pair(test, p);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(nothing_is_sent_before_a_connection),
	KUNIT_CASE(errors_flush_in_order),
	KUNIT_CASE_PARAM(a_queue_pair_drains, drains_gen_params),
	KUNIT_CASE_PARAM(a_polled_queue_pair_drains, drains_gen_params),
	KUNIT_CASE(posts_during_the_end_are_flushed),
	KUNIT_CASE(a_queue_pair_goes_while_it_is_busy),
	KUNIT_CASE(a_queue_pair_outlasts_posts_under_way),
	KUNIT_CASE(nobody_else_connects_it),
	KUNIT_CASE(no_process_connects_it),
	KUNIT_CASE(it_does_not_connect_by_number),
	{}
};

static struct kunit_suite suite = {
	.name = "kverbs_state",
	.suite_init = suite_begin,
	.suite_exit = suite_end,
	.test_cases = cases,
};

kunit_test_suite(suite);
