// SPDX-License-Identifier: GPL-2.0
#include "end.h"

#include <linux/in.h>
#include <linux/slab.h>

struct ib_device *kverbs_device;

static atomic_t orders;

/* --- the device ------------------------------------------------------------------------------- */

static int client_add(struct ib_device *dev)
{
	if (strcmp(dev_name(&dev->dev), "kverbs0"))
		return -EOPNOTSUPP;
	kverbs_device = dev;
	return 0;
}

static void client_remove(struct ib_device *dev, void *data)
{
	kverbs_device = NULL;
}

static struct ib_client client = { .name = "kverbs", .add = client_add, .remove = client_remove };

int suite_begin(struct kunit_suite *suite)
{
	int err = ib_register_client(&client);

	if (!err && !kverbs_device) {
		ib_unregister_client(&client);
		err = -ENODEV;
	}
	return err;
}

void suite_end(struct kunit_suite *suite)
{
	ib_unregister_client(&client);
}

/* --- requests --------------------------------------------------------------------------------- */

static void request_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *r = container_of(wc->wr_cqe, struct request, cqe);

	r->wc = *wc;
	r->order = atomic_inc_return(&orders);
	atomic_inc(&r->count);
	complete(&r->done);
}

struct request *fresh(struct end *e, int i)
{
	struct request *r = &e->request[i];

	memset(r, 0, sizeof(*r));
	r->cqe.done = request_done;
	init_completion(&r->done);
	return r;
}

void poll_all(struct end *e)
{
	ib_process_cq_direct(e->send_cq, -1);
	ib_process_cq_direct(e->recv_cq, -1);
}

/* Its status, or -ETIMEDOUT */
int soon_done(struct end *e, struct request *r)
{
	int i;

	for (i = 0; e->setup->polled && i < SECONDS * 100; i++) {
		poll_all(e);
		if (wait_for_completion_timeout(&r->done, 1))
			break;
	}
	if (!e->setup->polled)
		wait_for_completion_timeout(&r->done, SECONDS * HZ);
	if (!atomic_read(&r->count))
		return -ETIMEDOUT;
	KUNIT_EXPECT_PTR_EQ(e->test, r->wc.qp, e->qp);
	return r->wc.status;
}

struct ib_sge sge_of(struct end *e, void *at, u32 len)
{
	return (struct ib_sge){ .addr = (uintptr_t)at,
				.length = len,
				.lkey = e->pd->local_dma_lkey };
}

int post(struct end *e, struct ib_send_wr *wr)
{
	return ib_post_send(e->qp, wr, NULL);
}

int post_send(struct end *e, struct request *r, void *from, u32 len)
{
	struct ib_sge sge = sge_of(e, from, len);
	struct ib_send_wr wr = {
		.wr_cqe = &r->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return post(e, &wr);
}

int post_recv(struct end *e, struct request *r, void *to, u32 len)
{
	struct ib_sge sge = sge_of(e, to, len);
	struct ib_recv_wr wr = { .wr_cqe = &r->cqe, .sg_list = &sge, .num_sge = 1 };

	if (e->srq)
		return ib_post_srq_recv(e->srq, &wr, NULL);
	return ib_post_recv(e->qp, &wr, NULL);
}

int post_rdma(struct end *e, struct request *r, enum ib_wr_opcode opcode, struct ib_sge sge,
	      u64 remote, u32 rkey)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &r->cqe,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			/* rdma_rw changes the sink's key after it has written it here. */
			.ex.invalidate_rkey = (sge.lkey & ~0xff) | ((sge.lkey - 1) & 0xff),
		},
		.remote_addr = remote,
		.rkey = rkey,
	};

	return post(e, &wr.wr);
}

int post_reg(struct end *e, struct request *r, struct ib_mr *mr, u32 key, int access)
{
	struct ib_reg_wr wr = {
		.wr = { .wr_cqe = &r->cqe, .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED },
		.mr = mr,
		.key = key,
		.access = access,
	};

	return post(e, &wr.wr);
}

int post_inv(struct end *e, struct request *r, u32 key)
{
	struct ib_send_wr wr = {
		.wr_cqe = &r->cqe,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = key,
	};

	return post(e, &wr);
}

void fill(u8 *at, u32 len, u8 seed)
{
	u32 i;

	for (i = 0; i < len; i++)
		at[i] = seed + i * 7 + i / 251;
}

bool holds(const u8 *at, u32 len, u8 seed)
{
	u32 i;

	for (i = 0; i < len; i++)
		if (at[i] != (u8)(seed + i * 7 + i / 251))
			return false;
	return true;
}

/* --- ends ------------------------------------------------------------------------------------- */

static int make_qp(struct end *e)
{
	const struct setup *s = e->setup;
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.send_cq = e->send_cq,
		.recv_cq = e->recv_cq,
		.srq = e->srq,
		.sq_sig_type = s->sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = s->send_wr ?: 64,
			.max_recv_wr = s->recv_wr ?: 64,
			.max_send_sge = 4,
			.max_recv_sge = 4,
		},
	};
	int err = rdma_create_qp(e->id, e->pd, &attr);

	if (!err)
		e->qp = e->id->qp;
	return err;
}

static int accept(struct end *e, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	int err;

	e->id = id;
	err = make_qp(e);
	if (!err)
		err = rdma_accept(id, &param);
	if (!err)
		return 0;
	if (e->qp)
		rdma_destroy_qp(id);
	e->qp = NULL;
	e->id = NULL;
	return err;
}

/* The listener's context is the end that accepts. */
static int cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct end *e = id->context;
	int err = 0;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		err = e->id ? -EBUSY : accept(e, id);
	e->status = event->status;
	set_bit(event->event, &e->seen);
	wake_up_all(&e->wait);
	return err;
}

bool soon_seen(struct end *e, enum rdma_cm_event_type event)
{
	return wait_event_timeout(e->wait, test_bit(event, &e->seen), SECONDS * HZ);
}

static int make_end(struct end *e, const struct setup *s)
{
	enum ib_poll_context context = s->polled ? IB_POLL_DIRECT : IB_POLL_SOFTIRQ;
	struct ib_cq_init_attr attr = { .cqe = 4096 };
	struct ib_srq_init_attr srq_attr = { .attr.max_wr = s->srq_wr, .attr.max_sge = 2 };

	e->setup = s;
	init_waitqueue_head(&e->wait);
	e->memory = (u8 *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, MEMORY_ORDER);
	e->pd = ib_alloc_pd(kverbs_device, 0);
	e->send_cq = ib_alloc_cq(kverbs_device, NULL, 4096, 0, context);
	if (s->event)
		e->recv_cq = ib_create_cq(kverbs_device, s->event, NULL, e, &attr);
	else
		e->recv_cq = ib_alloc_cq(kverbs_device, NULL, 4096, 0, context);
	if (s->srq_wr && !IS_ERR(e->pd))
		e->srq = ib_create_srq(e->pd, &srq_attr);
	return IS_ERR(e->pd) || IS_ERR(e->srq) || IS_ERR(e->send_cq) || IS_ERR(e->recv_cq) ||
			       !e->memory ?
		       -ENOMEM :
		       0;
}

void close_end(struct end *e)
{
	if (e->id && e->qp) {
		rdma_disconnect(e->id);
		rdma_destroy_qp(e->id);
	}
	e->qp = NULL;
	if (e->id)
		rdma_destroy_id(e->id);
	e->id = NULL;
}

static void free_end(struct end *e)
{
	close_end(e);
	if (!IS_ERR_OR_NULL(e->send_cq))
		ib_free_cq(e->send_cq);
	if (!IS_ERR_OR_NULL(e->recv_cq) && e->setup->event)
		ib_destroy_cq(e->recv_cq);
	else if (!IS_ERR_OR_NULL(e->recv_cq))
		ib_free_cq(e->recv_cq);
	if (!IS_ERR_OR_NULL(e->srq))
		ib_destroy_srq(e->srq);
	if (!IS_ERR_OR_NULL(e->pd))
		ib_dealloc_pd(e->pd);
	free_pages((unsigned long)e->memory, MEMORY_ORDER);
}

void free_pair(void *data)
{
	struct pair *p = data;

	if (p->listener)
		rdma_destroy_id(p->listener);
	free_end(&p->a);
	free_end(&p->b);
	kvfree(p);
}

static int listen(struct pair *p)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(ADDRESS),
	};
	struct rdma_cm_id *id = rdma_create_id(&init_net, cm_event, &p->b, RDMA_PS_TCP, IB_QPT_RC);
	int err;

	if (IS_ERR(id))
		return PTR_ERR(id);
	p->listener = id;
	err = rdma_bind_addr(id, (struct sockaddr *)&at);
	return err ?: rdma_listen(id, 4);
}

int resolve(struct end *e)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(ADDRESS),
	};
	int err;

	e->id = rdma_create_id(&init_net, cm_event, e, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(e->id)) {
		err = PTR_ERR(e->id);
		e->id = NULL;
		return err;
	}
	err = rdma_resolve_addr(e->id, NULL, (struct sockaddr *)&to, SECONDS * 1000);
	if (!err && !soon_seen(e, RDMA_CM_EVENT_ADDR_RESOLVED))
		err = -ETIMEDOUT;
	if (!err)
		err = rdma_resolve_route(e->id, SECONDS * 1000);
	if (!err && !soon_seen(e, RDMA_CM_EVENT_ROUTE_RESOLVED))
		err = -ETIMEDOUT;
	return err;
}

int dial(struct end *e, u32 qpn)
{
	struct rdma_conn_param param = { .responder_resources = 4,
					 .initiator_depth = 4,
					 .qp_num = qpn };

	return rdma_connect(e->id, &param);
}

struct pair *new_pair(struct kunit *test, const struct setup *setup)
{
	struct pair *p = kvzalloc(sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	if (setup)
		p->setup = *setup;
	p->a.test = test;
	p->b.test = test;
	p->a.setup = &p->setup;
	p->b.setup = &p->setup;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_pair, p), 0);
	KUNIT_ASSERT_EQ(test, make_end(&p->a, &p->setup), 0);
	KUNIT_ASSERT_EQ(test, make_end(&p->b, &p->setup), 0);
	KUNIT_ASSERT_EQ(test, listen(p), 0);
	KUNIT_ASSERT_EQ(test, resolve(&p->a), 0);
	KUNIT_ASSERT_EQ(test, make_qp(&p->a), 0);
	return p;
}

void connect_pair(struct kunit *test, struct pair *p)
{
	KUNIT_ASSERT_EQ(test, dial(&p->a, 0), 0);
	KUNIT_ASSERT_TRUE(test, soon_seen(&p->a, RDMA_CM_EVENT_ESTABLISHED));
	KUNIT_ASSERT_TRUE(test, soon_seen(&p->b, RDMA_CM_EVENT_ESTABLISHED));
}

struct pair *open_pair(struct kunit *test, const struct setup *setup)
{
	struct pair *p = new_pair(test, setup);

	connect_pair(test, p);
	return p;
}
