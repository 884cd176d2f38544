// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The extended calls between two QPs: builders in place of ibv_post_send(), and completions one by one.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>

#include "../lib/connection.hpp"
#include "../lib/raw.hpp"

namespace vt {
namespace {

const Options with_builders = {.send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
					   IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ};

class Extended : public testing::Test {
protected:
	/// A Send of nothing, not signalled. Returns what ibv_wr_complete() says.
	int send_by_builder(std::uint64_t id) const
	{
		ibv_wr_start(ex_);
		ex_->wr_id = id;
		ex_->wr_flags = 0;
		ibv_wr_send(ex_);
		return ibv_wr_complete(ex_);
	}

	Pair pair_{with_builders};
	Region near_{pair_.a().pd(), 65536};
	Region far_{pair_.b().pd(), 65536};
	ibv_qp_ex *ex_ = ibv_qp_to_qp_ex(pair_.a().qp());
};

TEST_F(Extended, EveryBuilderDoesItsWork)
{
	std::string text = "inline";

	ASSERT_NE(ex_, nullptr);
	near_.fill_pattern(1);
	ASSERT_EQ(pair_.b().receive({far_.sge(40000, 100)}, 50), 0);
	ASSERT_EQ(pair_.b().receive({far_.sge(50000, 100)}, 51), 0);
	ibv_wr_start(ex_);
	ex_->wr_flags = IBV_SEND_SIGNALED;
	ex_->wr_id = 1;
	ibv_wr_rdma_write(ex_, far_.rkey(), far_.address());
	ibv_wr_set_sge(ex_, near_.mr()->lkey, near_.address(), 20000);
	ex_->wr_id = 2;
	ibv_wr_rdma_write(ex_, far_.rkey(), far_.address(20000));
	std::array<ibv_sge, 2> list{near_.sge(0, 7), near_.sge(100, 9)};
	ibv_wr_set_sge_list(ex_, list.size(), list.data());
	ex_->wr_id = 3;
	ibv_wr_send(ex_);
	ibv_wr_set_inline_data(ex_, text.data(), text.size());
	ex_->wr_id = 4;
	std::array<ibv_data_buf, 2> parts{{{text.data(), 2}, {text.data() + 4, 2}}};
	ibv_wr_send(ex_);
	ibv_wr_set_inline_data_list(ex_, parts.size(), parts.data());
	ex_->wr_id = 5;
	ibv_wr_rdma_read(ex_, far_.rkey(), far_.address());
	ibv_wr_set_sge(ex_, near_.mr()->lkey, near_.address(30000), 20000);
	text.assign(text.size(), 'x');
	ASSERT_EQ(ibv_wr_complete(ex_), 0);

	std::uint64_t id = 0;
	for (const ibv_wc_opcode opcode :
		{IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_READ}) {
		const ibv_wc wc = pair_.a().sent();

		EXPECT_WC(wc, ++id, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, opcode);
	}
	EXPECT_EQ(pair_.b().received().byte_len, 6);
	EXPECT_EQ(pair_.b().received().byte_len, 4);
	EXPECT_TRUE(same(near_.bytes(0, 20000), far_.bytes(0, 20000)));
	EXPECT_TRUE(same(near_.bytes(0, 7), far_.bytes(20000, 7)));
	EXPECT_TRUE(same(near_.bytes(100, 9), far_.bytes(20007, 9)));
	EXPECT_EQ(std::memcmp(far_.data() + 40000, "inline", 6), 0);
	EXPECT_EQ(std::memcmp(far_.data() + 50000, "inne", 4), 0);
	EXPECT_TRUE(same(near_.bytes(0, 20000), near_.bytes(30000, 20000)));
}

TEST_F(Extended, NothingLeavesBeforeItIsComplete)
{
	ibv_wr_start(ex_);
	ex_->wr_id = 1;
	ex_->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex_, far_.rkey(), far_.address());
	ibv_wr_set_sge(ex_, near_.mr()->lkey, near_.address(), 100);
	ibv_wr_abort(ex_);
	ibv_wr_start(ex_);
	ibv_wr_rdma_write(ex_, far_.rkey(), far_.address());
	ibv_wr_set_sge(ex_, near_.mr()->lkey, near_.address(), 100);
	ibv_wr_send_imm(ex_, 1);
	EXPECT_EQ(ibv_wr_complete(ex_), EOPNOTSUPP);
	pair_.sync();
	EXPECT_TRUE(poll_all(pair_.a().send_cq()).empty());
	EXPECT_TRUE(all_equal(far_.bytes(0, 100), 0));
}

TEST_F(Extended, ManyBatches)
{
	constexpr std::uint64_t batch = 16, batches = 2000;

	ex_->wr_flags = 0;
	for (std::uint64_t i = 0; i < batches; i++) {
		ibv_wr_start(ex_);
		for (std::uint64_t n = 0; n < batch; n++) {
			ex_->wr_id = i;
			ex_->wr_flags = n == batch - 1 ? IBV_SEND_SIGNALED : 0;
			ibv_wr_rdma_write(ex_, far_.rkey(), far_.address(n * 64));
			ibv_wr_set_inline_data(ex_, &i, sizeof(i));
		}
		ASSERT_EQ(ibv_wr_complete(ex_), 0);
		ASSERT_EQ(pair_.a().sent().wr_id, i);
	}
	pair_.sync();
	for (std::uint64_t n = 0; n < batch; n++)
		EXPECT_EQ(*reinterpret_cast<std::uint64_t *>(far_.data() + n * 64), batches - 1);
}

TEST_F(Extended, AfterTheEndRequestsAreFlushed)
{
	ASSERT_EQ(rdma_disconnect(pair_.b().id()), 0);
	pair_.a().wait_disconnected();
	pair_.b().wait_disconnected();
	EXPECT_EQ(send_by_builder(8), 0);
	EXPECT_WC(pair_.a().sent(), 8, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Extended, AnIdleQueuePairRefusesAsOtherPostsAreRefused)
{
	ASSERT_EQ(pair_.a().modify(IBV_QPS_ERR), 0);
	pair_.a().wait_disconnected();
	ASSERT_EQ(pair_.a().modify(IBV_QPS_RESET), 0);
	const int error = pair_.a().send();
	EXPECT_NE(error, 0);
	EXPECT_EQ(send_by_builder(8), error);
	EXPECT_TRUE(poll_all(pair_.a().send_cq()).empty());
}

TEST_F(Extended, InTheErrorStateRequestsAreFlushed)
{
	ASSERT_EQ(pair_.a().modify(IBV_QPS_ERR), 0);
	EXPECT_EQ(send_by_builder(9), 0);
	EXPECT_WC(pair_.a().sent(), 9, IBV_WC_WR_FLUSH_ERR);
}

TEST(ExtendedCreation, OtherQpsHaveNoBuilders)
{
	Pair pair;

	EXPECT_EQ(ibv_qp_to_qp_ex(pair.a().qp()), nullptr);
}

TEST(ExtendedCreation, UnknownOpsAreRefused)
{
	ibv_context *device = server_device();
	const Pd pd = make_pd(device);
	const Cq cq = make_cq(device, 16);
	ibv_qp_init_attr_ex attr{};

	attr.send_cq = attr.recv_cq = cq.get();
	attr.cap = {4, 4, 1, 1, 0};
	attr.qp_type = IBV_QPT_RC;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.pd = pd.get();
	for (const std::uint64_t op : {std::uint64_t{IBV_QP_EX_WITH_TSO}, std::uint64_t{1} << 40}) {
		attr.send_ops_flags = op;
		errno = 0;
		EXPECT_EQ(ibv_create_qp_ex(device, &attr), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	const Qp qp(ibv_create_qp_ex(device, &attr));
	EXPECT_NE(qp, nullptr);
}

struct CqExCloser {
	void operator()(ibv_cq_ex *cq) const { EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0); }
};

/// A QP in error, which flushes what is posted: completions without a connection.
class Iteration : public testing::TestWithParam<std::uint32_t> {
protected:
	Iteration()
	{
		ibv_cq_init_attr_ex attr{};

		attr.cqe = 64;
		attr.channel = channel_.get();
		attr.cq_context = this;
		attr.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		attr.flags = GetParam();
		cq_.reset(ibv_create_cq_ex(device_, &attr));
		if (!cq_)
			fail("ibv_create_cq_ex", errno);

		ibv_qp_init_attr qp_attr{};
		qp_attr.send_cq = qp_attr.recv_cq = ibv_cq_ex_to_cq(cq_.get());
		qp_attr.cap = {16, 16, 1, 1, 0};
		qp_attr.qp_type = IBV_QPT_RC;
		qp_.reset(ibv_create_qp(pd_.get(), &qp_attr));
		if (!qp_)
			fail("ibv_create_qp", errno);
		ibv_qp_attr error{};
		error.qp_state = IBV_QPS_ERR;
		if (ibv_modify_qp(qp_.get(), &error, IBV_QP_STATE))
			fail("ibv_modify_qp");
	}

	void receive(std::uint64_t id) const
	{
		ibv_recv_wr wr{}, *bad = nullptr;

		wr.wr_id = id;
		ASSERT_EQ(ibv_post_recv(qp_.get(), &wr, &bad), 0);
	}

	int start() const
	{
		ibv_poll_cq_attr attr{};

		return ibv_start_poll(cq_.get(), &attr);
	}

	ibv_context *device_ = server_device();
	CompletionChannel channel_{ibv_create_comp_channel(device_)};
	Pd pd_ = make_pd(device_);
	std::unique_ptr<ibv_cq_ex, CqExCloser> cq_;
	Qp qp_;
};

INSTANTIATE_TEST_SUITE_P(, Iteration, testing::Values(0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED));

TEST_P(Iteration, ReadsOneAfterTheOther)
{
	EXPECT_EQ(start(), ENOENT);
	for (std::uint64_t id = 0; id < 5; id++)
		receive(id);
	ASSERT_EQ(start(), 0);
	for (std::uint64_t id = 0;; id++) {
		EXPECT_EQ(cq_->wr_id, id);
		EXPECT_EQ(cq_->status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(ibv_wc_read_opcode(cq_.get()), IBV_WC_RECV);
		EXPECT_EQ(ibv_wc_read_qp_num(cq_.get()), qp_->qp_num);
		if (id == 4)
			break;
		ASSERT_EQ(ibv_next_poll(cq_.get()), 0);
	}
	EXPECT_EQ(ibv_next_poll(cq_.get()), ENOENT);
	ibv_end_poll(cq_.get());
}

std::uint64_t now()
{
	using namespace std::chrono;

	return static_cast<std::uint64_t>(duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count());
}

// When it was added, not when it is read.
TEST_P(Iteration, TellsWhenACompletionCame)
{
	std::array<std::uint64_t, 4> before{};

	for (std::uint64_t id = 0; id < before.size(); id++) {
		before.at(id) = now();
		receive(id);
	}
	const std::uint64_t after = now();
	std::this_thread::sleep_for(std::chrono::milliseconds(2));
	ASSERT_EQ(start(), 0);
	for (std::uint64_t id = 0; id < before.size(); id++) {
		const std::uint64_t time = ibv_wc_read_completion_wallclock_ns(cq_.get());

		EXPECT_EQ(cq_->wr_id, id);
		EXPECT_GE(time, before.at(id));
		EXPECT_LE(time, id + 1 < before.size() ? before.at(id + 1) : after);
		EXPECT_EQ(ibv_next_poll(cq_.get()), id + 1 < before.size() ? 0 : ENOENT);
	}
	ibv_end_poll(cq_.get());
}

TEST_P(Iteration, WakesASleeper)
{
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	ASSERT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq_.get()), 0), 0);
	receive(1);
	wait_readable(channel_->fd, "a completion event");
	ASSERT_EQ(ibv_get_cq_event(channel_.get(), &cq, &context), 0);
	EXPECT_EQ(cq, ibv_cq_ex_to_cq(cq_.get()));
	EXPECT_EQ(context, this);
	ibv_ack_cq_events(cq, 1);
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(cq_->wr_id, 1);
	ibv_end_poll(cq_.get());
}

// An earlier provider has no request of its own, a later one may ask for more than there is.
TEST(IterationCreation, RequestsOfAllProviders)
{
	const int fd = open_uverbs(server_device()->device);
	kiw_get_context_resp told{};

	ASSERT_EQ(get_context(fd, {KIW_FEATURES, 0}, told), 0);
	EXPECT_EQ(make_cq(fd, {}), 0);
	EXPECT_EQ(make_cq(fd, {0, 0}), 0);
	EXPECT_EQ(make_cq(fd, {KIW_CQ_TIME, 0}), 0);
	EXPECT_EQ(make_cq(fd, {KIW_CQ_TIME << 1, 0}), EINVAL);
	EXPECT_EQ(make_cq(fd, {KIW_CQ_TIME | 1U << 31, 0}), EINVAL);
	EXPECT_EQ(make_cq(fd, {0, 1}), EINVAL);
	close(fd);
}

TEST(IterationCreation, WhatThereIsNotIsRefused)
{
	ibv_cq_init_attr_ex attr{};

	attr.cqe = 16;
	for (const std::uint64_t flag :
		{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG}) {
		attr.wc_flags = flag;
		errno = 0;
		EXPECT_EQ(ibv_create_cq_ex(server_device(), &attr), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	attr.wc_flags = 0;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	EXPECT_EQ(ibv_create_cq_ex(server_device(), &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
}

} // namespace
} // namespace vt
