/* SPDX-License-Identifier: GPL-2.0 */
/* Two connected queue pairs of the kernel, on one device, and what is posted to them */
#ifndef KVERBS_END_H
#define KVERBS_END_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/mm.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define ADDRESS 0x0a580001 /* 10.88.0.1, see run */
#define PORT 7700
#define SECONDS 20 /* for anything to happen */
#define MEMORY_ORDER 6
#define MEMORY (PAGE_SIZE << MEMORY_ORDER)
#define REQUESTS 64

/* A request, and what came of it */
struct request {
	struct ib_cqe cqe;
	struct completion done;
	struct ib_wc wc;
	int order; /* of completions of all requests; 0: none */
	atomic_t count;
};

/* What an end is made of; all 0 for the usual */
struct setup {
	u32 send_wr;
	u32 recv_wr;
	bool sig_all;
	bool polled; /* nobody polls but the test */
	u32 srq_wr; /* receives come from a shared queue of so many */
	void (*event)(struct ib_cq *cq, void *context); /* raw completion queue for receives */
};

struct end {
	struct kunit *test;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *send_cq, *recv_cq;
	struct ib_srq *srq;
	struct ib_qp *qp;
	const struct setup *setup;
	wait_queue_head_t wait;
	unsigned long seen; /* events of rdma_cm */
	int status; /* of the last one */
	void *raw; /* for setup->event */
	u8 *memory;
	struct request request[REQUESTS];
};

struct pair {
	struct rdma_cm_id *listener;
	struct end a, b;
	struct setup setup;
};

/* The device, while a test runs */
extern struct ib_device *kverbs_device;
int suite_begin(struct kunit_suite *suite);
void suite_end(struct kunit_suite *suite);

/* Connected ends, or with connect_pair() those to come; they go with the test */
struct pair *new_pair(struct kunit *test, const struct setup *setup);
void connect_pair(struct kunit *test, struct pair *p);
struct pair *open_pair(struct kunit *test, const struct setup *setup);
void free_pair(void *pair);
void close_end(struct end *e);
bool soon_seen(struct end *e, enum rdma_cm_event_type event);
int resolve(struct end *e);
int dial(struct end *e, u32 qpn);

/* All request of an end begin anew by this. */
struct request *fresh(struct end *e, int i);
int soon_done(struct end *e, struct request *r);
void poll_all(struct end *e);

struct ib_sge sge_of(struct end *e, void *at, u32 len);
int post(struct end *e, struct ib_send_wr *wr);
int post_send(struct end *e, struct request *r, void *from, u32 len);
int post_recv(struct end *e, struct request *r, void *to, u32 len);
int post_rdma(struct end *e, struct request *r, enum ib_wr_opcode opcode, struct ib_sge sge,
	      u64 remote, u32 rkey);
int post_reg(struct end *e, struct request *r, struct ib_mr *mr, u32 key, int access);
int post_inv(struct end *e, struct request *r, u32 key);

/* Expect that a request completes so. */
#define EXPECT_STATUS(test, e, r, expected) \
	KUNIT_EXPECT_EQ(test, soon_done(e, r), (int)(expected))
#define ASSERT_STATUS(test, e, r, expected) \
	KUNIT_ASSERT_EQ(test, soon_done(e, r), (int)(expected))

void fill(u8 *at, u32 len, u8 seed);
bool holds(const u8 *at, u32 len, u8 seed);

#endif /* KVERBS_END_H */
