// SPDX-License-Identifier: GPL-2.0
/* Posting from every context, what is refused, and completions */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/vmalloc.h>

#include "end.h"

#define LENGTH 1000

/* --- contexts --------------------------------------------------------------------------------- */

/* A message that is posted somewhere, and whether its queues are polled and armed there */
struct errand {
	struct end *from;
	struct request *r;
	struct hrtimer timer;
	struct tasklet_struct tasklet;
	struct completion done;
	int err;
	int polled;
	int armed;
};

static void run_errand(struct errand *e)
{
	struct ib_wc wc;

	e->err = post_send(e->from, e->r, e->from->memory, LENGTH);
	e->polled = ib_poll_cq(e->from->recv_cq, 1, &wc);
	e->armed = ib_req_notify_cq(e->from->recv_cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
	complete(&e->done);
}

static enum hrtimer_restart run_in_timer(struct hrtimer *timer)
{
	WARN_ON(!in_hardirq());
	run_errand(container_of(timer, struct errand, timer));
	return HRTIMER_NORESTART;
}

static void run_in_tasklet(struct tasklet_struct *tasklet)
{
	WARN_ON(!in_serving_softirq());
	run_errand(container_of(tasklet, struct errand, tasklet));
}

static void run_here(struct errand *e)
{
	run_errand(e);
}

static void run_under_locks(struct errand *e)
{
	static DEFINE_SPINLOCK(lock);

	rcu_read_lock();
	spin_lock(&lock);
	run_errand(e);
	spin_unlock(&lock);
	rcu_read_unlock();
}

static void run_without_bh(struct errand *e)
{
	static DEFINE_SPINLOCK(lock);

	spin_lock_bh(&lock);
	run_errand(e);
	spin_unlock_bh(&lock);
}

static void run_without_interrupts(struct errand *e)
{
	static DEFINE_SPINLOCK(lock);
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	run_errand(e);
	spin_unlock_irqrestore(&lock, flags);
}

static void run_by_tasklet(struct errand *e)
{
	tasklet_setup(&e->tasklet, run_in_tasklet);
	tasklet_schedule(&e->tasklet);
}

static void run_by_timer(struct errand *e)
{
	hrtimer_setup(&e->timer, run_in_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&e->timer, 1000, HRTIMER_MODE_REL_HARD);
}

struct context {
	const char *name;
	void (*run)(struct errand *e);
};

static const struct context contexts[] = {
	{ "process", run_here },
	{ "RCU and a spinlock", run_under_locks },
	{ "a spinlock without BH", run_without_bh },
	{ "a spinlock without interrupts", run_without_interrupts },
	{ "softirq", run_by_tasklet },
	{ "hard interrupt", run_by_timer },
};

KUNIT_ARRAY_PARAM_DESC(contexts, contexts, name);

static void a_message_is_posted_in(struct kunit *test)
{
	const struct context *context = test->param_value;
	struct errand *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);
	struct pair *p = open_pair(test, NULL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, e);
	e->from = &p->a;
	for (i = 0; i < 20; i++) {
		struct request *recv = fresh(&p->b, 0);

		e->r = fresh(&p->a, 0);
		init_completion(&e->done);
		fill(p->a.memory, LENGTH, i);
		KUNIT_ASSERT_EQ(test, post_recv(&p->b, recv, p->b.memory, LENGTH), 0);
		context->run(e);
		wait_for_completion(&e->done);
		KUNIT_EXPECT_EQ(test, e->err, 0);
		KUNIT_EXPECT_EQ(test, e->polled, 0);
		KUNIT_EXPECT_EQ(test, e->armed, 0);
		ASSERT_STATUS(test, &p->b, recv, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, recv->wc.opcode, IB_WC_RECV);
		KUNIT_EXPECT_EQ(test, recv->wc.byte_len, LENGTH);
		KUNIT_EXPECT_TRUE(test, holds(p->b.memory, LENGTH, i));
		ASSERT_STATUS(test, &p->a, e->r, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, e->r->wc.opcode, IB_WC_SEND);
	}
	/* The context ends before its memory goes. */
	if (context->run == run_by_timer)
		hrtimer_cancel(&e->timer);
	if (context->run == run_by_tasklet)
		tasklet_kill(&e->tasklet);
}

/* --- memory that needs no registration -------------------------------------------------------- */

static void the_local_key_names_any_memory(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct request *send = fresh(&p->a, 0), *recv = fresh(&p->b, 0);
	u8 *from = vmalloc(3 * PAGE_SIZE), *to = vmalloc(3 * PAGE_SIZE);
	const u32 len = 2 * PAGE_SIZE + 13;

	if (from && to) {
		fill(from + 7, len, 1);
		KUNIT_EXPECT_EQ(test, post_recv(&p->b, recv, to + 3, len), 0);
		KUNIT_EXPECT_EQ(test, post_send(&p->a, send, from + 7, len), 0);
		EXPECT_STATUS(test, &p->b, recv, IB_WC_SUCCESS);
		EXPECT_STATUS(test, &p->a, send, IB_WC_SUCCESS);
		KUNIT_EXPECT_TRUE(test, holds(to + 3, len, 1));
	}
	close_end(&p->a);
	close_end(&p->b);
	vfree(from);
	vfree(to);
}

static void long_messages_and_many_buffers(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct request *send = fresh(&p->a, 0), *recv = fresh(&p->b, 0);
	struct ib_sge from[3] = {
		sge_of(&p->a, p->a.memory, 1),
		sge_of(&p->a, p->a.memory + 1, 99999),
		sge_of(&p->a, p->a.memory + 100000, 50001),
	};
	struct ib_sge to[2] = {
		sge_of(&p->b, p->b.memory, 70003),
		sge_of(&p->b, p->b.memory + 70003, 80000),
	};
	struct ib_send_wr wr = {
		.wr_cqe = &send->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = from,
		.num_sge = 3,
	};
	struct ib_recv_wr recv_wr = { .wr_cqe = &recv->cqe, .sg_list = to, .num_sge = 2 };

	fill(p->a.memory, 150001, 9);
	KUNIT_ASSERT_EQ(test, ib_post_recv(p->b.qp, &recv_wr, NULL), 0);
	KUNIT_ASSERT_EQ(test, post(&p->a, &wr), 0);
	ASSERT_STATUS(test, &p->b, recv, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, recv->wc.byte_len, 150001);
	KUNIT_EXPECT_TRUE(test, holds(p->b.memory, 150001, 9));
	ASSERT_STATUS(test, &p->a, send, IB_WC_SUCCESS);
}

static void inline_data_are_copied_at_once(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct request *send = fresh(&p->a, 0), *recv = fresh(&p->b, 0);
	struct ib_sge sge = { .addr = (uintptr_t)p->a.memory, .length = 48 };
	struct ib_send_wr wr = {
		.wr_cqe = &send->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED | IB_SEND_INLINE,
		.sg_list = &sge,
		.num_sge = 1,
	};

	fill(p->a.memory, 48, 5);
	KUNIT_ASSERT_EQ(test, post_recv(&p->b, recv, p->b.memory, 48), 0);
	local_bh_disable(); /* it is not sent before */
	KUNIT_EXPECT_EQ(test, post(&p->a, &wr), 0);
	memset(p->a.memory, 0, 48);
	local_bh_enable();
	ASSERT_STATUS(test, &p->b, recv, IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, holds(p->b.memory, 48, 5));
	ASSERT_STATUS(test, &p->a, send, IB_WC_SUCCESS);
	sge.length = 4096;
	KUNIT_EXPECT_EQ(test, post(&p->a, &wr), -EINVAL);
}

static void immediate_data_arrive(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct request *r = fresh(&p->a, 0), *recv = fresh(&p->b, 0);
	struct ib_sge sge = sge_of(&p->a, p->a.memory, 16);
	struct ib_send_wr wr = {
		.wr_cqe = &r->cqe,
		.opcode = IB_WR_SEND_WITH_IMM,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.ex.imm_data = cpu_to_be32(0x12345678),
	};

	KUNIT_ASSERT_EQ(test, post_recv(&p->b, recv, p->b.memory, 16), 0);
	KUNIT_ASSERT_EQ(test, post(&p->a, &wr), 0);
	ASSERT_STATUS(test, &p->b, recv, IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, recv->wc.wc_flags & IB_WC_WITH_IMM);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(recv->wc.ex.imm_data), 0x12345678);
	ASSERT_STATUS(test, &p->a, r, IB_WC_SUCCESS);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void a_full_ring_refuses_the_first_request_too_many(struct kunit *test)
{
	const struct setup setup = { .send_wr = 16, .recv_wr = 16 };
	struct pair *p = open_pair(test, &setup);
	struct ib_rdma_wr wr[20] = {};
	struct ib_recv_wr recv[20] = {};
	const struct ib_send_wr *bad = NULL;
	const struct ib_recv_wr *bad_recv = NULL;
	int i, err;

	for (i = 0; i < ARRAY_SIZE(wr); i++) {
		wr[i].wr.wr_cqe = &fresh(&p->a, i)->cqe;
		wr[i].wr.opcode = IB_WR_RDMA_WRITE;
		wr[i].wr.send_flags = IB_SEND_SIGNALED;
		wr[i].wr.next = i + 1 < ARRAY_SIZE(wr) ? &wr[i + 1].wr : NULL;
		recv[i].wr_cqe = &fresh(&p->b, i)->cqe;
		recv[i].next = i + 1 < ARRAY_SIZE(recv) ? &recv[i + 1] : NULL;
	}
	err = ib_post_recv(p->b.qp, recv, &bad_recv);
	KUNIT_EXPECT_EQ(test, err, -ENOMEM);
	KUNIT_EXPECT_PTR_EQ(test, bad_recv, &recv[16]);
	err = ib_post_send(p->a.qp, &wr[0].wr, &bad);
	KUNIT_EXPECT_EQ(test, err, -ENOMEM);
	KUNIT_ASSERT_PTR_EQ(test, bad, &wr[16].wr);
	for (i = 0; i < 16; i++)
		EXPECT_STATUS(test, &p->a, &p->a.request[i], IB_WC_SUCCESS);
	/* There is room again. */
	KUNIT_EXPECT_EQ(test, ib_post_send(p->a.qp, &wr[16].wr, &bad), 0);
	for (i = 16; i < 20; i++) {
		EXPECT_STATUS(test, &p->a, &p->a.request[i], IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, atomic_read(&p->a.request[i].count), 1);
	}
}

struct refusal {
	const char *name;
	enum ib_wr_opcode opcode;
	int flags;
	int num_sge;
};

static const struct refusal refusals[] = {
	{ "too many buffers", IB_WR_SEND, 0, 5 },
	{ "fewer than no buffers", IB_WR_SEND, 0, -1 },
	{ "an opcode of InfiniBand's", IB_WR_LSO, 0, 1 },
	{ "an opcode of nobody's", 99, 0, 1 },
	{ "a flag that does not apply", IB_WR_SEND, IB_SEND_IP_CSUM, 1 },
	{ "inline data of a Read", IB_WR_RDMA_READ, IB_SEND_INLINE, 1 },
	{ "a solicited invalidation", IB_WR_LOCAL_INV, IB_SEND_SOLICITED, 0 },
	{ "two buffers to invalidate", IB_WR_RDMA_READ_WITH_INV, 0, 2 },
};

KUNIT_ARRAY_PARAM_DESC(refusals, refusals, name);

/* What is before a bad request is posted, and nothing behind it. */
static void a_bad_request_is_named(struct kunit *test)
{
	const struct refusal *refusal = test->param_value;
	struct pair *p = open_pair(test, NULL);
	struct ib_sge sge[5] = {};
	struct ib_rdma_wr wr[3] = {};
	const struct ib_send_wr *bad = NULL;
	int i;

	for (i = 0; i < ARRAY_SIZE(wr); i++) {
		wr[i].wr.wr_cqe = &fresh(&p->a, i)->cqe;
		wr[i].wr.opcode = IB_WR_RDMA_WRITE;
		wr[i].wr.send_flags = IB_SEND_SIGNALED;
		wr[i].wr.next = i < 2 ? &wr[i + 1].wr : NULL;
	}
	wr[1].wr.opcode = refusal->opcode;
	wr[1].wr.send_flags |= refusal->flags;
	wr[1].wr.sg_list = sge;
	wr[1].wr.num_sge = refusal->num_sge;
	KUNIT_EXPECT_EQ(test, ib_post_send(p->a.qp, &wr[0].wr, &bad), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr[1].wr);
	EXPECT_STATUS(test, &p->a, &p->a.request[0], IB_WC_SUCCESS);
	/* The connection lives on. */
	KUNIT_EXPECT_EQ(test, ib_post_send(p->a.qp, &wr[2].wr, &bad), 0);
	EXPECT_STATUS(test, &p->a, &p->a.request[2], IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->a.request[1].count), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->a.request[2].count), 1);
}

/* Messages that wait get the next requests, in order. */
static void messages_share_a_receive_queue(struct kunit *test)
{
	const struct setup setup = { .srq_wr = 8 };
	struct pair *p = open_pair(test, &setup);
	struct ib_sge sge[3] = {};
	struct ib_recv_wr wr = { .sg_list = sge, .num_sge = 3 };
	unsigned long flags;
	int i;

	for (i = 0; i < 4; i++) {
		fill(p->a.memory + i * LENGTH, LENGTH, i);
		KUNIT_EXPECT_EQ(test,
				post_send(&p->a, fresh(&p->a, i), p->a.memory + i * LENGTH, LENGTH),
				0);
	}
	for (i = 0; i < 4; i++)
		EXPECT_STATUS(test, &p->a, &p->a.request[i], IB_WC_SUCCESS);
	msleep(50);
	for (i = 0; i < 4; i++) {
		local_irq_save(flags);
		KUNIT_EXPECT_EQ(test,
				post_recv(&p->b, fresh(&p->b, i), p->b.memory + i * LENGTH, LENGTH),
				0);
		local_irq_restore(flags);
	}
	for (i = 0; i < 4; i++) {
		EXPECT_STATUS(test, &p->b, &p->b.request[i], IB_WC_SUCCESS);
		KUNIT_EXPECT_TRUE(test, holds(p->b.memory + i * LENGTH, LENGTH, i));
	}
	KUNIT_EXPECT_EQ(test, ib_post_srq_recv(p->b.srq, &wr, NULL), -EINVAL);
	for (i = 8; i < 16; i++)
		KUNIT_EXPECT_EQ(test, post_recv(&p->b, fresh(&p->b, i), p->b.memory, LENGTH), 0);
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, fresh(&p->b, 16), p->b.memory, LENGTH), -ENOMEM);
	/* They stay. */
	ib_drain_qp(p->b.qp);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->b.request[8].count), 0);
}

static void a_bad_receive_is_named(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_sge sge[5] = {};
	struct ib_recv_wr wr[2] = {
		{ .wr_cqe = &fresh(&p->b, 0)->cqe, .next = &wr[1] },
		{ .wr_cqe = &fresh(&p->b, 1)->cqe, .sg_list = sge, .num_sge = 5 },
	};
	const struct ib_recv_wr *bad = NULL;

	KUNIT_EXPECT_EQ(test, ib_post_recv(p->b.qp, wr, &bad), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr[1]);
	KUNIT_EXPECT_EQ(test, post_send(&p->a, fresh(&p->a, 0), p->a.memory, 0), 0);
	EXPECT_STATUS(test, &p->b, &p->b.request[0], IB_WC_SUCCESS);
	EXPECT_STATUS(test, &p->a, &p->a.request[0], IB_WC_SUCCESS);
}

/* --- completions ------------------------------------------------------------------------------ */

static void signalling_follows_the_queue_pair(struct kunit *test, bool all)
{
	const struct setup setup = { .sig_all = all };
	struct pair *p = open_pair(test, &setup);
	struct ib_rdma_wr wr = { .wr.opcode = IB_WR_RDMA_WRITE };
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	wr.wr.wr_cqe = &fresh(&p->a, 0)->cqe;
	KUNIT_ASSERT_EQ(test, post(&p->a, &wr.wr), 0);
	wr.wr.wr_cqe = &fresh(&p->a, 1)->cqe;
	wr.wr.send_flags = IB_SEND_SIGNALED;
	KUNIT_ASSERT_EQ(test, post(&p->a, &wr.wr), 0);
	ASSERT_STATUS(test, &p->a, &p->a.request[1], IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->a.request[0].count), all);
	KUNIT_EXPECT_EQ(test, ib_query_qp(p->a.qp, &attr, 0, &init), 0);
	KUNIT_EXPECT_EQ(test, init.sq_sig_type, all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR);
}

static void all_requests_are_signalled(struct kunit *test)
{
	signalling_follows_the_queue_pair(test, true);
}

static void asked_requests_are_signalled(struct kunit *test)
{
	signalling_follows_the_queue_pair(test, false);
}

/* What of a queue pair was not polled goes with it, and what is another's stays. */
static void destruction_purges_completions(struct kunit *test)
{
	const struct setup setup = { .polled = true };
	struct pair *p = open_pair(test, &setup);
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.send_cq = p->a.send_cq,
		.recv_cq = p->a.recv_cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ib_qp_attr error = { .qp_state = IB_QPS_ERR };
	struct ib_recv_wr wr = { .wr_cqe = &fresh(&p->a, 1)->cqe };
	struct ib_qp *other = ib_create_qp(p->a.pd, &attr);
	struct ib_wc wc[4];

	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	KUNIT_EXPECT_EQ(test, post_recv(&p->a, fresh(&p->a, 0), p->a.memory, 8), 0);
	KUNIT_EXPECT_EQ(test, ib_post_recv(other, &wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, ib_modify_qp(p->a.qp, &error, IB_QP_STATE), 0);
	KUNIT_EXPECT_EQ(test, ib_modify_qp(other, &error, IB_QP_STATE), 0);
	ib_destroy_qp(other);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(p->a.recv_cq, 4, wc), 1);
	KUNIT_EXPECT_PTR_EQ(test, wc[0].wr_cqe, &p->a.request[0].cqe);
	KUNIT_EXPECT_PTR_EQ(test, wc[0].qp, p->a.qp);
	KUNIT_EXPECT_EQ(test, wc[0].status, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(p->a.recv_cq, 4, wc), 0);
}

/* Nobody could poll meanwhile. Since 7.2 RDMA core does not ask for a consumer in the kernel. */
static void a_queue_keeps_its_size(struct kunit *test)
{
	struct pair *p = new_pair(test, NULL);
	int err = kverbs_device->ops.resize_user_cq(p->a.send_cq, 8192, NULL);

	KUNIT_EXPECT_EQ(test, err, -EOPNOTSUPP);
}

/* --- the race of arming and completions ------------------------------------------------------- */

#define RACES 20000

struct race {
	struct pair *p;
	wait_queue_head_t wait;
	atomic_t events;
	int posted;
	int err;
};

static void race_event(struct ib_cq *cq, void *context)
{
	struct end *e = context;
	struct race *race = e->raw;

	if (!race)
		return;
	atomic_inc(&race->events);
	wake_up(&race->wait);
}

/* Unsignalled Sends to a peer that may be slower; the ring of receives always has some. */
static int race_post(void *data)
{
	struct race *race = data;
	struct ib_send_wr wr = { .wr_cqe = &race->p->a.request[0].cqe, .opcode = IB_WR_SEND };

	while (race->posted < RACES && !kthread_should_stop()) {
		race->err = post(&race->p->a, &wr);
		if (race->err && race->err != -ENOMEM)
			break;
		if (race->err)
			cond_resched();
		else
			race->posted++;
		/* Now and then the poller finds nothing and sleeps. */
		if (race->posted % 16 == 0)
			udelay(5);
	}
	while (!kthread_should_stop())
		usleep_range(500, 1000);
	return 0;
}

static void an_armed_queue_misses_no_completion(struct kunit *test)
{
	const struct setup setup = { .event = race_event };
	struct pair *p = open_pair(test, &setup);
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	struct ib_recv_wr wr = { .wr_cqe = &fresh(&p->b, 0)->cqe };
	struct task_struct *poster;
	int got = 0, i, n, seen, waits = 0;
	struct ib_wc wc[8];

	KUNIT_ASSERT_NOT_NULL(test, race);
	fresh(&p->a, 0);
	race->p = p;
	init_waitqueue_head(&race->wait);
	p->b.raw = race;
	for (i = 0; i < 60; i++)
		KUNIT_ASSERT_EQ(test, ib_post_recv(p->b.qp, &wr, NULL), 0);
	poster = kthread_create(race_post, race, "kverbs_poster");
	KUNIT_ASSERT_FALSE(test, IS_ERR(poster));
	if (num_online_cpus() > 1)
		kthread_bind(poster,
			     cpumask_next(raw_smp_processor_id(), cpu_online_mask) % nr_cpu_ids);
	wake_up_process(poster);
	while (got < RACES) {
		n = ib_poll_cq(p->b.recv_cq, ARRAY_SIZE(wc), wc);
		for (i = 0; i < n; i++) {
			KUNIT_EXPECT_EQ(test, wc[i].status, IB_WC_SUCCESS);
			ib_post_recv(p->b.qp, &wr, NULL);
		}
		got += n;
		if (n)
			continue;
		seen = atomic_read(&race->events);
		if (ib_req_notify_cq(p->b.recv_cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) >
		    0)
			continue;
		waits++;
		if (!wait_event_timeout(race->wait, atomic_read(&race->events) != seen,
					SECONDS * HZ))
			break;
	}
	kthread_stop(poster);
	KUNIT_EXPECT_EQ(test, got, RACES);
	KUNIT_EXPECT_EQ(test, race->posted, RACES);
	KUNIT_EXPECT_GT(test, waits, 0);
	kunit_info(test, "%d completions, %d waits\n", got, waits);
	p->b.raw = NULL;
}

/* A demand for solicited completions does not replace one for any. */
static void a_stronger_demand_stays(struct kunit *test)
{
	const int any = IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS;
	const struct setup setup = { .event = race_event };
	struct pair *p = open_pair(test, &setup);
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, race);
	init_waitqueue_head(&race->wait);
	p->b.raw = race;
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(p->b.recv_cq, IB_CQ_SOLICITED), 0);
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, fresh(&p->b, 0), p->b.memory, 8), 0);
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, fresh(&p->b, 1), p->b.memory, 8), 0);
	KUNIT_EXPECT_EQ(test, post_send(&p->a, fresh(&p->a, 0), p->a.memory, 8), 0);
	EXPECT_STATUS(test, &p->a, &p->a.request[0], IB_WC_SUCCESS);
	msleep(50);
	KUNIT_EXPECT_EQ(test, atomic_read(&race->events), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(p->b.recv_cq, any), 1);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(p->b.recv_cq, IB_CQ_SOLICITED), 0);
	KUNIT_EXPECT_EQ(test, post_send(&p->a, fresh(&p->a, 1), p->a.memory, 8), 0);
	KUNIT_EXPECT_TRUE(test,
			  wait_event_timeout(race->wait, atomic_read(&race->events), SECONDS * HZ));
	EXPECT_STATUS(test, &p->a, &p->a.request[1], IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&race->events), 1);
	p->b.raw = NULL;
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(a_message_is_posted_in, contexts_gen_params),
	KUNIT_CASE(the_local_key_names_any_memory),
	KUNIT_CASE(long_messages_and_many_buffers),
	KUNIT_CASE(inline_data_are_copied_at_once),
	KUNIT_CASE(immediate_data_arrive),
	KUNIT_CASE(a_full_ring_refuses_the_first_request_too_many),
	KUNIT_CASE_PARAM(a_bad_request_is_named, refusals_gen_params),
	KUNIT_CASE(a_bad_receive_is_named),
	KUNIT_CASE(messages_share_a_receive_queue),
	KUNIT_CASE(all_requests_are_signalled),
	KUNIT_CASE(asked_requests_are_signalled),
	KUNIT_CASE(destruction_purges_completions),
	KUNIT_CASE(a_queue_keeps_its_size),
	KUNIT_CASE(an_armed_queue_misses_no_completion),
	KUNIT_CASE(a_stronger_demand_stays),
	{}
};

static struct kunit_suite suite = {
	.name = "kverbs_post",
	.suite_init = suite_begin,
	.suite_exit = suite_end,
	.test_cases = cases,
};

kunit_test_suite(suite);
