// SPDX-License-Identifier: GPL-2.0
/* Fast registration: side b has regions, and side a is the peer */
#include <linux/scatterlist.h>

#include "end.h"

#define ALL (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ)
#define LENGTH 20000

static void drop_mr(void *mr)
{
	ib_dereg_mr(mr);
}

static struct ib_mr *new_mr(struct kunit *test, struct ib_pd *pd, enum ib_mr_type type, u32 max)
{
	struct ib_mr *mr = ib_alloc_mr(pd, type, max);

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, drop_mr, mr), 0);
	return mr;
}

static int map_by(struct ib_mr *mr, void *at, u32 len, u32 page_size)
{
	struct scatterlist sg;

	sg_init_one(&sg, at, len);
	ib_dma_map_sg(mr->device, &sg, 1, DMA_BIDIRECTIONAL);
	return ib_map_mr_sg(mr, &sg, 1, NULL, page_size);
}

static int map(struct ib_mr *mr, void *at, u32 len)
{
	return map_by(mr, at, len, PAGE_SIZE);
}

static int reg_status(struct kunit *test, struct end *e, struct ib_mr *mr, int access)
{
	struct request *r = fresh(e, 60);

	KUNIT_EXPECT_EQ(test, post_reg(e, r, mr, mr->rkey, access), 0);
	return soon_done(e, r);
}

static int inv_status(struct kunit *test, struct end *e, u32 key)
{
	struct request *r = fresh(e, 61);

	KUNIT_EXPECT_EQ(test, post_inv(e, r, key), 0);
	return soon_done(e, r);
}

/* b's region of its memory from @at on */
static struct ib_mr *region_of(struct kunit *test, struct pair *p, u8 *at, u32 len, int access)
{
	struct ib_mr *mr = new_mr(test, p->b.pd, IB_MR_TYPE_MEM_REG, 64);

	KUNIT_ASSERT_EQ(test, map(mr, at, len), 1);
	KUNIT_ASSERT_EQ(test, reg_status(test, &p->b, mr, access), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, p->b.request[60].wc.opcode, IB_WC_REG_MR);
	return mr;
}

/* a writes to b; when it returns, b has the bytes. */
static void write_to(struct kunit *test, struct pair *p, u64 remote, u32 rkey, u32 len, u8 seed)
{
	struct request *written = fresh(&p->a, 50), *sent = fresh(&p->a, 51),
		       *told = fresh(&p->b, 50);

	fill(p->a.memory, len, seed);
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, told, p->b.memory, 0), 0);
	KUNIT_EXPECT_EQ(test,
			post_rdma(&p->a, written, IB_WR_RDMA_WRITE, sge_of(&p->a, p->a.memory, len),
				  remote, rkey),
			0);
	KUNIT_EXPECT_EQ(test, post_send(&p->a, sent, p->a.memory, 0), 0);
	EXPECT_STATUS(test, &p->a, written, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &p->b, told, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &p->a, sent, IB_WC_SUCCESS);
}

static int read_status(struct kunit *test, struct pair *p, u64 remote, u32 rkey, u32 len)
{
	struct request *r = fresh(&p->a, 52);

	memset(p->a.memory, 0, len);
	KUNIT_EXPECT_EQ(test,
			post_rdma(&p->a, r, IB_WR_RDMA_READ, sge_of(&p->a, p->a.memory, len),
				  remote, rkey),
			0);
	return soon_done(&p->a, r);
}

/* --- registration ----------------------------------------------------------------------------- */

static void a_region_is_written_and_read(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	u8 *at = p->b.memory + 4096 + 100;
	struct ib_mr *mr = region_of(test, p, at, LENGTH, ALL);

	KUNIT_EXPECT_EQ(test, mr->length, LENGTH);
	write_to(test, p, mr->iova, mr->rkey, LENGTH, 1);
	KUNIT_EXPECT_TRUE(test, holds(at, LENGTH, 1));
	KUNIT_EXPECT_EQ(test, at[-1], 0);
	KUNIT_EXPECT_EQ(test, at[LENGTH], 0);
	fill(at, LENGTH, 2);
	KUNIT_EXPECT_EQ(test, read_status(test, p, mr->iova, mr->rkey, LENGTH), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, p->a.request[52].wc.opcode, IB_WC_RDMA_READ);
	KUNIT_EXPECT_TRUE(test, holds(p->a.memory, LENGTH, 2));
	/* In the midst */
	write_to(test, p, mr->iova + 5000, mr->rkey, 3, 3);
	KUNIT_EXPECT_TRUE(test, holds(at + 5000, 3, 3));
}

/* NFS replaces the upper half of the address after the mapping; others count from 0. */
static void the_address_is_that_of_the_registration(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	u8 *at = p->b.memory + 4096 + 100;
	struct ib_mr *mr = new_mr(test, p->b.pd, IB_MR_TYPE_MEM_REG, 64);
	const u64 bases[] = { 0x1234567800000000ULL + 4196, 0, 99 };
	int i;

	for (i = 0; i < ARRAY_SIZE(bases); i++) {
		KUNIT_ASSERT_EQ(test, map(mr, at, LENGTH), 1);
		mr->iova = bases[i];
		ib_update_fast_reg_key(mr, i);
		KUNIT_ASSERT_EQ(test, reg_status(test, &p->b, mr, ALL), IB_WC_SUCCESS);
		write_to(test, p, bases[i] + 7, mr->rkey, 100, i);
		KUNIT_EXPECT_TRUE(test, holds(at + 7, 100, i));
		KUNIT_ASSERT_EQ(test, inv_status(test, &p->b, mr->rkey), IB_WC_SUCCESS);
	}
}

static void pages_may_be_large(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *mr = new_mr(test, p->b.pd, IB_MR_TYPE_MEM_REG, 2);
	u8 *at = p->b.memory + 40000;

	KUNIT_ASSERT_EQ(test, map_by(mr, at, 200000, 128 << 10), 1);
	KUNIT_ASSERT_EQ(test, reg_status(test, &p->b, mr, ALL), IB_WC_SUCCESS);
	write_to(test, p, mr->iova, mr->rkey, 200000, 4);
	KUNIT_EXPECT_TRUE(test, holds(at, 200000, 4));
	/* Two pages of the usual size are too few. */
	KUNIT_EXPECT_EQ(test, map(mr, at, 200000), 0);
}

/* iSER and SRP map before the withdrawal of the last use is even posted. */
static void a_mapping_waits_for_its_registration(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	u8 *first = p->b.memory, *second = p->b.memory + 65536;
	struct ib_mr *mr = region_of(test, p, first, LENGTH, ALL);
	u64 iova = mr->iova;
	u32 key = mr->rkey;

	KUNIT_ASSERT_EQ(test, map(mr, second, LENGTH), 1);
	ib_update_fast_reg_key(mr, key + 1);
	write_to(test, p, iova, key, LENGTH, 1);
	KUNIT_EXPECT_TRUE(test, holds(first, LENGTH, 1));
	KUNIT_ASSERT_EQ(test, inv_status(test, &p->b, key), IB_WC_SUCCESS);
	KUNIT_ASSERT_EQ(test, reg_status(test, &p->b, mr, ALL), IB_WC_SUCCESS);
	write_to(test, p, mr->iova, mr->rkey, LENGTH, 2);
	KUNIT_EXPECT_TRUE(test, holds(first, LENGTH, 1));
	KUNIT_EXPECT_TRUE(test, holds(second, LENGTH, 2));
}

/* rtrs' server registers anew for each I/O what it mapped once. */
static void without_a_mapping_the_last_one_stays(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	u8 *at = p->b.memory + 50;
	struct ib_mr *mr = region_of(test, p, at, LENGTH, ALL);
	int i;

	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, inv_status(test, &p->b, mr->rkey), IB_WC_SUCCESS);
		ib_update_fast_reg_key(mr, i);
		KUNIT_ASSERT_EQ(test, reg_status(test, &p->b, mr, ALL), IB_WC_SUCCESS);
		write_to(test, p, mr->iova, mr->rkey, LENGTH, i);
		KUNIT_EXPECT_TRUE(test, holds(at, LENGTH, i));
	}
}

static void an_invalidation_may_be_repeated(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *mr = region_of(test, p, p->b.memory, LENGTH, ALL);

	KUNIT_EXPECT_EQ(test, inv_status(test, &p->b, mr->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, p->b.request[61].wc.opcode, IB_WC_LOCAL_INV);
	KUNIT_EXPECT_EQ(test, inv_status(test, &p->b, mr->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, inv_status(test, &p->b, mr->rkey ^ 1), IB_WC_LOC_PROT_ERR);
}

struct bad {
	const char *name;
	int access;
	bool valid;
	bool foreign;
	bool gaps;
	u32 other; /* bits of the key that differ */
};

static const struct bad bads[] = {
	{ "a valid region", ALL, .valid = true },
	{ "a region of another domain", ALL, .foreign = true },
	{ "another index", ALL, .other = 0x100 },
	{ "remote writes without local ones", IB_ACCESS_REMOTE_WRITE },
	{ "an unknown right", ALL | IB_ACCESS_HUGETLB },
	{ "atomics with gaps", ALL | IB_ACCESS_REMOTE_ATOMIC, .gaps = true },
};

KUNIT_ARRAY_PARAM_DESC(bads, bads, name);

static void a_registration_is_refused_of(struct kunit *test)
{
	const struct bad *bad = test->param_value;
	struct pair *p = open_pair(test, NULL);
	struct ib_pd *pd = bad->foreign ? p->a.pd : p->b.pd;
	struct ib_mr *mr = new_mr(test, pd, bad->gaps ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG, 8);
	struct request *r = fresh(&p->b, 0);

	KUNIT_ASSERT_EQ(test, map(mr, p->b.memory, LENGTH), 1);
	if (bad->valid)
		KUNIT_ASSERT_EQ(test, reg_status(test, &p->b, mr, ALL), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, post_reg(&p->b, r, mr, mr->rkey ^ bad->other, bad->access), 0);
	EXPECT_STATUS(test, &p->b, r, IB_WC_MW_BIND_ERR);
	/* Which ends the connection. */
	r = fresh(&p->b, 1);
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, r, p->b.memory, 0), 0);
	EXPECT_STATUS(test, &p->b, r, IB_WC_WR_FLUSH_ERR);
}

static void regions_have_limits(struct kunit *test)
{
	struct pair *p = new_pair(test, NULL);
	struct ib_mr *mr = ib_alloc_mr(p->b.pd, IB_MR_TYPE_MEM_REG, 1025);

	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EINVAL);
	KUNIT_EXPECT_EQ(test, kverbs_device->attrs.max_fast_reg_page_list_len, 1024);
	KUNIT_EXPECT_TRUE(test,
			  kverbs_device->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS);
	KUNIT_EXPECT_TRUE(test, kverbs_device->attrs.kernel_cap_flags & IBK_LOCAL_DMA_LKEY);
	KUNIT_EXPECT_TRUE(test, kverbs_device->attrs.kernel_cap_flags & IBK_SG_GAPS_REG);
	KUNIT_EXPECT_EQ(test, p->b.pd->local_dma_lkey, 0);
	mr = new_mr(test, p->b.pd, IB_MR_TYPE_MEM_REG, 2);
	KUNIT_EXPECT_EQ(test, map(mr, p->b.memory + 10, 2 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, map(mr, p->b.memory, 2 * PAGE_SIZE), 1);
}

/* --- gaps ------------------------------------------------------------------------------------- */

/* Short and long runs, of which some follow each other; their last words cross runs. */
static const u32 runs[][2] = {
	{ 100, 1 },   { 101, 2 },	{ 5000, 5 },  { 9000, 3 },  { 20001, 4096 },
	{ 30000, 1 }, { 40000, 10007 }, { 60000, 2 }, { 60007, 1 }, { 60011, 1 },
};

static u32 set_runs(struct scatterlist *sg, u8 *memory)
{
	u32 total = 0;
	int i;

	sg_init_table(sg, ARRAY_SIZE(runs));
	for (i = 0; i < ARRAY_SIZE(runs); i++) {
		sg_set_buf(&sg[i], memory + runs[i][0], runs[i][1]);
		total += runs[i][1];
	}
	ib_dma_map_sg(kverbs_device, sg, ARRAY_SIZE(runs), DMA_BIDIRECTIONAL);
	return total;
}

static void runs_may_have_gaps(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *mr = new_mr(test, p->b.pd, IB_MR_TYPE_SG_GAPS, ARRAY_SIZE(runs));
	struct scatterlist sg[ARRAY_SIZE(runs)];
	u32 total = set_runs(sg, p->b.memory), at, n;
	u8 *image = p->a.memory + 131072;
	int i;

	KUNIT_ASSERT_EQ(test, ib_map_mr_sg(mr, sg, ARRAY_SIZE(runs), NULL, PAGE_SIZE),
			ARRAY_SIZE(runs));
	KUNIT_EXPECT_EQ(test, mr->length, total);
	KUNIT_ASSERT_EQ(test, reg_status(test, &p->b, mr, ALL), IB_WC_SUCCESS);
	write_to(test, p, mr->iova, mr->rkey, total, 8);
	fill(image, total, 8);
	for (i = 0, at = 0; i < ARRAY_SIZE(runs); at += n, i++) {
		n = runs[i][1];
		KUNIT_EXPECT_MEMEQ(test, p->b.memory + runs[i][0], image + at, n);
	}
	/* Nothing beside them */
	KUNIT_EXPECT_EQ(test, p->b.memory[99], 0);
	KUNIT_EXPECT_EQ(test, p->b.memory[103], 0);
	KUNIT_EXPECT_EQ(test, p->b.memory[60002], 0);
	KUNIT_EXPECT_EQ(test, p->b.memory[60012], 0);
	for (n = 1; n <= total; n = n * 3 + 1) {
		KUNIT_EXPECT_EQ(test, read_status(test, p, mr->iova + total - n, mr->rkey, n),
				IB_WC_SUCCESS);
		KUNIT_EXPECT_MEMEQ(test, p->a.memory, image + total - n, n);
	}
}

static void pages_have_no_gaps(struct kunit *test)
{
	struct pair *p = new_pair(test, NULL);
	struct scatterlist sg[ARRAY_SIZE(runs)];

	set_runs(sg, p->b.memory);
	/* The first two follow each other. */
	KUNIT_EXPECT_EQ(test,
			ib_map_mr_sg(new_mr(test, p->b.pd, IB_MR_TYPE_MEM_REG, 64), sg,
				     ARRAY_SIZE(runs), NULL, PAGE_SIZE),
			2);
	/* Room for three runs, of which the first consists of two entries */
	KUNIT_EXPECT_EQ(test,
			ib_map_mr_sg(new_mr(test, p->b.pd, IB_MR_TYPE_SG_GAPS, 3), sg,
				     ARRAY_SIZE(runs), NULL, PAGE_SIZE),
			4);
}

/* Buffers of regions and of no region in one request */
static void regions_are_local_buffers(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *mr = region_of(test, p, p->b.memory + 1000, LENGTH, IB_ACCESS_LOCAL_WRITE);
	struct request *send = fresh(&p->b, 0), *recv = fresh(&p->a, 0);
	struct ib_sge sge[3] = {
		sge_of(&p->b, p->b.memory, 100),
		{ .addr = mr->iova + 500, .length = 5000, .lkey = mr->lkey },
		sge_of(&p->b, p->b.memory + 100, 33),
	};
	struct ib_send_wr wr = {
		.wr_cqe = &send->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = 3,
	};

	/* A responder waits for its peer's first message. */
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, fresh(&p->b, 1), p->b.memory, 0), 0);
	KUNIT_EXPECT_EQ(test, post_send(&p->a, fresh(&p->a, 1), p->a.memory, 0), 0);
	EXPECT_STATUS(test, &p->b, &p->b.request[1], IB_WC_SUCCESS);
	fill(p->b.memory, 26000, 3);
	KUNIT_EXPECT_EQ(test, post_recv(&p->a, recv, p->a.memory, 6000), 0);
	KUNIT_EXPECT_EQ(test, post(&p->b, &wr), 0);
	EXPECT_STATUS(test, &p->b, send, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &p->a, recv, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, recv->wc.byte_len, 5133);
	KUNIT_EXPECT_MEMEQ(test, p->a.memory, p->b.memory, 100);
	KUNIT_EXPECT_MEMEQ(test, p->a.memory + 100, p->b.memory + 1500, 5000);
	KUNIT_EXPECT_MEMEQ(test, p->a.memory + 5100, p->b.memory + 100, 33);
}

static void atomics_reach_a_region(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	u64 *word = (u64 *)(p->b.memory + 64 + 4096), *before = (u64 *)p->a.memory;
	int access = ALL | IB_ACCESS_REMOTE_ATOMIC;
	struct ib_mr *mr = region_of(test, p, p->b.memory + 64, LENGTH, access);
	struct ib_sge sge = sge_of(&p->a, before, 8);
	struct request *r = fresh(&p->a, 0);
	struct ib_atomic_wr wr = {
		.wr = {
			.wr_cqe = &r->cqe,
			.opcode = IB_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = mr->iova + 4096,
		.rkey = mr->rkey,
		.compare_add = 5,
		.swap = 99,
	};

	*word = 1000;
	KUNIT_EXPECT_EQ(test, post(&p->a, &wr.wr), 0);
	EXPECT_STATUS(test, &p->a, r, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, r->wc.opcode, IB_WC_FETCH_ADD);
	KUNIT_EXPECT_EQ(test, *before, 1000);
	KUNIT_EXPECT_EQ(test, *word, 1005);
	r = fresh(&p->a, 0);
	wr.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	wr.compare_add = 1005;
	KUNIT_EXPECT_EQ(test, post(&p->a, &wr.wr), 0);
	EXPECT_STATUS(test, &p->a, r, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, r->wc.opcode, IB_WC_COMP_SWAP);
	KUNIT_EXPECT_EQ(test, *before, 1005);
	KUNIT_EXPECT_EQ(test, *word, 99);
}

/* --- invalidation with messages --------------------------------------------------------------- */

static int send_inv(struct pair *p, struct request *r, u32 key)
{
	struct ib_send_wr wr = {
		.wr_cqe = &r->cqe,
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = key,
	};

	return post(&p->a, &wr);
}

static void a_message_invalidates(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *mr = region_of(test, p, p->b.memory + 1000, LENGTH, ALL);
	struct request *recv = fresh(&p->b, 0);

	write_to(test, p, mr->iova, mr->rkey, 100, 1);
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, recv, p->b.memory, 0), 0);
	KUNIT_EXPECT_EQ(test, send_inv(p, fresh(&p->a, 0), mr->rkey), 0);
	EXPECT_STATUS(test, &p->b, recv, IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, recv->wc.wc_flags & IB_WC_WITH_INVALIDATE);
	KUNIT_EXPECT_EQ(test, recv->wc.ex.invalidate_rkey, mr->rkey);
	EXPECT_STATUS(test, &p->a, &p->a.request[0], IB_WC_SUCCESS);
	/* It is so already. */
	KUNIT_EXPECT_EQ(test, inv_status(test, &p->b, mr->rkey), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, read_status(test, p, mr->iova, mr->rkey, 8), IB_WC_REM_ACCESS_ERR);
}

static void a_peer_without_rights_invalidates_nothing(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *mr = region_of(test, p, p->b.memory + 1000, LENGTH, IB_ACCESS_LOCAL_WRITE);
	struct request *recv = fresh(&p->b, 0);

	KUNIT_EXPECT_EQ(test, post_recv(&p->b, recv, p->b.memory, 0), 0);
	KUNIT_EXPECT_EQ(test, send_inv(p, fresh(&p->a, 0), mr->rkey), 0);
	EXPECT_STATUS(test, &p->b, recv, IB_WC_REM_INV_REQ_ERR);
	EXPECT_STATUS(test, &p->a, &p->a.request[0], IB_WC_SUCCESS);
}

static void a_read_invalidates_its_sink(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *source = region_of(test, p, p->b.memory, LENGTH, ALL);
	struct ib_mr *sink = new_mr(test, p->a.pd, IB_MR_TYPE_MEM_REG, 8);
	const u32 lens[] = { LENGTH, 0 };
	struct ib_sge sge;
	int i;

	fill(p->b.memory, LENGTH, 6);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct request *r = fresh(&p->a, 0);

		KUNIT_ASSERT_EQ(test, map(sink, p->a.memory + 50, LENGTH), 1);
		ib_update_fast_reg_key(sink, i);
		KUNIT_ASSERT_EQ(test,
				reg_status(test, &p->a, sink,
					   IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE),
				IB_WC_SUCCESS);
		sge = (struct ib_sge){ .addr = sink->iova, .length = lens[i], .lkey = sink->lkey };
		KUNIT_EXPECT_EQ(test,
				post_rdma(&p->a, r, IB_WR_RDMA_READ_WITH_INV, sge, source->iova,
					  source->rkey),
				0);
		EXPECT_STATUS(test, &p->a, r, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, r->wc.opcode, IB_WC_RDMA_READ);
		KUNIT_EXPECT_TRUE(test, holds(p->a.memory + 50, LENGTH, 6));
	}
	/* It is no sink any more. */
	sge.length = 8;
	KUNIT_EXPECT_EQ(test,
			post_rdma(&p->a, fresh(&p->a, 1), IB_WR_RDMA_READ, sge, source->iova,
				  source->rkey),
			0);
	EXPECT_STATUS(test, &p->a, &p->a.request[1], IB_WC_LOC_PROT_ERR);
}

/* --- peers ------------------------------------------------------------------------------------ */

struct trespass {
	const char *name;
	enum ib_wr_opcode opcode;
	int access;
	bool invalidate;
	bool drop;
	bool zero; /* key 0 and an address of the kernel */
	u32 offset;
};

static const struct trespass trespasses[] = {
	{ "a Write after the invalidation", IB_WR_RDMA_WRITE, ALL, .invalidate = true },
	{ "a Read after the invalidation", IB_WR_RDMA_READ, ALL, .invalidate = true },
	{ "a Write after the deregistration", IB_WR_RDMA_WRITE, ALL, .drop = true },
	{ "a Write beyond the end", IB_WR_RDMA_WRITE, ALL, .offset = LENGTH - 4 },
	{ "a Read beyond the end", IB_WR_RDMA_READ, ALL, .offset = LENGTH - 4 },
	{ "a Write without the right", IB_WR_RDMA_WRITE,
	  IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ },
	{ "a Read without the right", IB_WR_RDMA_READ,
	  IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE },
	{ "a Write by the local key", IB_WR_RDMA_WRITE, ALL, .zero = true },
	{ "a Read by the local key", IB_WR_RDMA_READ, ALL, .zero = true },
};

KUNIT_ARRAY_PARAM_DESC(trespasses, trespasses, name);

static void nothing_is_touched_by(struct kunit *test)
{
	const struct trespass *t = test->param_value;
	struct pair *p = open_pair(test, NULL);
	struct ib_mr *mr = region_of(test, p, p->b.memory, LENGTH, t->access);
	u64 remote = t->zero ? (uintptr_t)p->b.memory : mr->iova + t->offset;
	u32 rkey = t->zero ? p->b.pd->local_dma_lkey : mr->rkey;
	struct request *recv = fresh(&p->b, 0), *r = fresh(&p->a, 0);
	bool read = t->opcode == IB_WR_RDMA_READ;

	fill(p->b.memory, LENGTH + 8, 7);
	memset(p->a.memory, 0, 16);
	if (t->invalidate)
		KUNIT_ASSERT_EQ(test, inv_status(test, &p->b, mr->rkey), IB_WC_SUCCESS);
	if (t->drop)
		kunit_release_action(test, drop_mr, mr);
	KUNIT_EXPECT_EQ(test, post_recv(&p->b, recv, p->b.memory, 0), 0);
	KUNIT_EXPECT_EQ(test,
			post_rdma(&p->a, r, t->opcode, sge_of(&p->a, p->a.memory, 8), remote, rkey),
			0);
	EXPECT_STATUS(test, &p->a, r, read ? IB_WC_REM_ACCESS_ERR : IB_WC_SUCCESS);
	/* The connection ends. */
	EXPECT_STATUS(test, &p->b, recv, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_TRUE(test, holds(p->b.memory, LENGTH + 8, 7));
	KUNIT_EXPECT_EQ(test, p->a.memory[0], 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_region_is_written_and_read),
	KUNIT_CASE(the_address_is_that_of_the_registration),
	KUNIT_CASE(pages_may_be_large),
	KUNIT_CASE(a_mapping_waits_for_its_registration),
	KUNIT_CASE(without_a_mapping_the_last_one_stays),
	KUNIT_CASE(an_invalidation_may_be_repeated),
	KUNIT_CASE_PARAM(a_registration_is_refused_of, bads_gen_params),
	KUNIT_CASE(regions_have_limits),
	KUNIT_CASE(runs_may_have_gaps),
	KUNIT_CASE(pages_have_no_gaps),
	KUNIT_CASE(regions_are_local_buffers),
	KUNIT_CASE(atomics_reach_a_region),
	KUNIT_CASE(a_message_invalidates),
	KUNIT_CASE(a_peer_without_rights_invalidates_nothing),
	KUNIT_CASE(a_read_invalidates_its_sink),
	KUNIT_CASE_PARAM(nothing_is_touched_by, trespasses_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kverbs_fast",
	.suite_init = suite_begin,
	.suite_exit = suite_end,
	.test_cases = cases,
};

kunit_test_suite(suite);
