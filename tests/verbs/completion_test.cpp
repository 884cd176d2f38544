// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Completion channels, solicited events, and queues that overflow.
#include <atomic>
#include <cerrno>
#include <thread>

#include "../lib/connection.hpp"

namespace vt {
namespace {

const Options with_channel = {.completion_channel = true};

/// Waits for a completion as an application does that sleeps.
ibv_wc sleep_for_completion(const Side &side, ibv_cq *cq)
{
	ibv_wc wc{};

	for (;;) {
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			return wc;
		EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			return wc;
		take_event(side);
	}
}

TEST(CompletionChannel, ArmedQueueTellsOfTheNextCompletion)
{
	Pair pair(with_channel);

	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);
		pair.sync();
		EXPECT_EQ(take_event(pair.b()), pair.b().recv_cq());
	}
	EXPECT_FALSE(readable(pair.a().channel()->fd));
}

// 50 completions without a demand, then three with one: three events, not more.
TEST(CompletionChannel, QueueThatIsNotArmedIsSilent)
{
	Pair pair(with_channel);

	for (int i = 0; i < 50; i++)
		pair.sync();
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);
		pair.sync();
		take_event(pair.b());
	}
	pair.sync();
	EXPECT_FALSE(readable(pair.b().channel()->fd));
	EXPECT_FALSE(readable(pair.a().channel()->fd));
}

TEST(CompletionChannel, OneDemandIsOneEvent)
{
	Pair pair(with_channel);

	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);
	for (int i = 0; i < 20; i++)
		pair.sync();
	take_event(pair.b());
	EXPECT_FALSE(readable(pair.b().channel()->fd));
}

TEST(CompletionChannel, SolicitedDemandIgnoresPlainSends)
{
	Pair pair(with_channel);

	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 1), 0);
	for (int i = 0; i < 20; i++)
		pair.sync();
	EXPECT_FALSE(readable(pair.b().channel()->fd));
	ASSERT_EQ(pair.b().receive({}, 7), 0);
	ASSERT_EQ(pair.a().send({}, {.flags = IBV_SEND_SOLICITED}), 0);
	EXPECT_EQ(take_event(pair.b()), pair.b().recv_cq());
	EXPECT_WC(pair.b().received(), 7, IBV_WC_SUCCESS);
}

TEST(CompletionChannel, SolicitedDemandTellsOfErrors)
{
	Pair pair(with_channel);

	pair.b().receive_empty(1);
	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 1), 0);
	ASSERT_EQ(pair.b().modify(IBV_QPS_ERR), 0);
	take_event(pair.b());
	EXPECT_WC(pair.b().received(), 0, IBV_WC_WR_FLUSH_ERR);
}

TEST(CompletionChannel, SolicitedDemandDoesNotReplaceTheOther)
{
	Pair pair(with_channel);

	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 1), 0);
	pair.sync();
	take_event(pair.b());
}

TEST(CompletionChannel, PlainDemandTellsOfSolicitedSends)
{
	Pair pair(with_channel);

	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);
	ASSERT_EQ(pair.b().receive(), 0);
	ASSERT_EQ(pair.a().send({}, {.flags = IBV_SEND_SOLICITED}), 0);
	take_event(pair.b());
	EXPECT_EQ(pair.b().received().status, IBV_WC_SUCCESS);
}

TEST(CompletionChannel, SendQueueHasEventsToo)
{
	Pair pair(with_channel);
	const Region at_a(pair.a().pd(), 100000);
	const Region at_b(pair.b().pd(), 100000);

	for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		ASSERT_EQ(ibv_req_notify_cq(pair.a().send_cq(), 0), 0);
		ASSERT_EQ(pair.a().post(opcode, {at_a.sge()}, {.remote = at_b.address(), .rkey = at_b.rkey()}), 0);
		EXPECT_EQ(take_event(pair.a()), pair.a().send_cq());
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	}
}

TEST(CompletionChannel, ChannelSurvivesEventsThatNobodyRead)
{
	Pair pair(with_channel);

	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 0), 0);
		pair.sync();
	}
}

TEST(CompletionChannel, NoEventIsLostBetweenSleepers)
{
	constexpr int rounds = 1000;
	Pair pair(with_channel);
	const auto play = [](const Side &side, bool begins) {
		for (int i = 0; i < rounds; i++) {
			if (!begins) {
				EXPECT_EQ(sleep_for_completion(side, side.recv_cq()).status, IBV_WC_SUCCESS);
			}
			EXPECT_EQ(side.receive(), 0);
			EXPECT_EQ(side.send(), 0);
			EXPECT_EQ(sleep_for_completion(side, side.send_cq()).status, IBV_WC_SUCCESS);
			if (begins) {
				EXPECT_EQ(sleep_for_completion(side, side.recv_cq()).status, IBV_WC_SUCCESS);
			}
		}
	};

	pair.a().receive_empty(2);
	pair.b().receive_empty(2);
	std::thread other([&] { play(pair.b(), false); });
	play(pair.a(), true);
	other.join();
}

TEST(CompletionChannel, NoEventIsLostInAStream)
{
	constexpr int count = 5000;
	constexpr int window = 32;
	Pair pair(with_channel);

	pair.b().receive_empty(window);
	std::thread sender([&] {
		int credit = window;
		for (int i = 0; i < count; i++) {
			// The receiver answers every message; an answer is a credit.
			for (; credit == 0; credit++)
				EXPECT_EQ(poll_one(pair.a().recv_cq()).status, IBV_WC_SUCCESS);
			credit--;
			EXPECT_EQ(pair.a().receive(), 0);
			EXPECT_EQ(pair.a().send({}, {.flags = i % 16 == 15 ? unsigned{IBV_SEND_SIGNALED} : 0U}), 0);
			if (i % 16 == 15) {
				EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
			}
		}
	});
	for (int i = 0; i < count; i++) {
		EXPECT_EQ(sleep_for_completion(pair.b(), pair.b().recv_cq()).status, IBV_WC_SUCCESS);
		EXPECT_EQ(pair.b().receive(), 0);
		EXPECT_EQ(pair.b().send({}, {.flags = i % 16 == 15 ? unsigned{IBV_SEND_SIGNALED} : 0U}), 0);
		if (i % 16 == 15) {
			EXPECT_EQ(pair.b().sent().status, IBV_WC_SUCCESS);
		}
	}
	sender.join();
}

TEST(CompletionQueue, HoldsWhatItWasMadeFor)
{
	Options small;
	small.cq_entries = 16;
	Pair pair(small, {});
	const int entries = pair.a().send_cq()->cqe;
	ASSERT_LE(entries, static_cast<int>(pair.a().cap().max_send_wr));

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < entries; i++)
			ASSERT_EQ(pair.a().write({}, {.id = static_cast<std::uint64_t>(i)}), 0);
		for (int i = 0; i < entries; i++)
			EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
	}
	pair.sync();
}

TEST(CompletionQueue, OverflowOfTheSendQueueIsReportedAndFatal)
{
	Options small;
	small.cq_entries = 4;
	Pair pair(small, {});
	Pair bystander;
	const int entries = pair.a().send_cq()->cqe;
	ASSERT_LT(entries, static_cast<int>(pair.a().cap().max_send_wr));

	for (int i = 0; i <= entries; i++)
		(void)pair.a().write({}, {.id = static_cast<std::uint64_t>(i)});
	const ibv_cq *cq = pair.a().send_cq();
	wait_async(pair.a().context(), [=](const ibv_async_event &event) {
		return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
	});
	pair.a().wait_state(IBV_QPS_ERR);
	pair.b().wait_disconnected();
	bystander.sync();
}

// One list of requests completes together. What has room is there, in order, though the last has none.
TEST(CompletionQueue, WhatHasRoomIsThereWhenTheNextOverflows)
{
	Options small;
	small.cq_entries = 4;
	Pair pair(small, {});
	const int entries = pair.a().send_cq()->cqe;
	std::vector<ibv_send_wr> list(static_cast<std::size_t>(entries) + 1);
	ibv_send_wr *bad = nullptr;

	for (std::size_t i = 0; i < list.size(); i++) {
		list[i].wr_id = i;
		list[i].opcode = IBV_WR_RDMA_WRITE;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
	}
	ASSERT_EQ(ibv_post_send(pair.a().qp(), list.data(), &bad), 0);
	pair.a().wait_state(IBV_QPS_ERR);
	const std::vector<ibv_wc> found = poll_all(pair.a().send_cq());
	ASSERT_EQ(found.size(), static_cast<std::size_t>(entries));
	for (std::size_t i = 0; i < found.size(); i++)
		EXPECT_WC(found[i], i, IBV_WC_SUCCESS);
}

TEST(CompletionQueue, OverflowOfTheReceiveQueueIsReportedAndFatal)
{
	Options small;
	small.cq_entries = 4;
	Pair pair({}, small);
	Pair bystander;
	const int entries = pair.b().recv_cq()->cqe;
	ASSERT_LT(entries, static_cast<int>(pair.b().cap().max_recv_wr));

	pair.b().receive_empty(entries + 1);
	for (int i = 0; i <= entries; i++)
		(void)pair.a().send();
	const ibv_cq *cq = pair.b().recv_cq();
	wait_async(pair.b().context(), [=](const ibv_async_event &event) {
		return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
	});
	pair.b().wait_state(IBV_QPS_ERR);
	pair.a().wait_disconnected();
	bystander.sync();
}

} // namespace
} // namespace vt
