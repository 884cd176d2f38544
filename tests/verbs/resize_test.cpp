// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Completion queues that are resized, also while completions come and other threads poll.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "../lib/connection.hpp"

namespace vt {
namespace {

class ResizedQueue : public testing::Test {
protected:
	/// Has so many completions wait in b's receive queue, with ids 0..count-1.
	void collect(int count)
	{
		ASSERT_LE(count, queue()->cqe);
		pair.b().receive_empty(count);
		for (int i = 0; i < count; i++)
			ASSERT_EQ(pair.a().send(), 0);
		for (int i = 0; i < count; i++)
			EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		// What a Read brings has come behind all of them.
		const Region to(pair.a().pd(), 8);
		const Region from(pair.b().pd(), 8);
		ASSERT_EQ(pair.a().read({to.sge()}, {.remote = from.address(), .rkey = from.rkey()}), 0);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	}
	void expect_collected(int count)
	{
		for (int i = 0; i < count; i++)
			EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
		EXPECT_TRUE(poll_all(queue()).empty());
	}
	ibv_cq *queue() { return pair.b().recv_cq(); }

	Pair pair{Options{.cq_entries = 64, .completion_channel = true}};
};

TEST_F(ResizedQueue, HasAtLeastTheEntriesAskedFor)
{
	for (const int entries : {1, 2, 1000, 65, 64, 4096, 3}) {
		ASSERT_EQ(ibv_resize_cq(queue(), entries), 0);
		EXPECT_GE(queue()->cqe, entries);
		pair.sync();
	}
}

TEST_F(ResizedQueue, KeepsWhatItHolds)
{
	for (const int entries : {64, 1000, 40, 32768, 40}) {
		collect(40);
		ASSERT_EQ(ibv_resize_cq(queue(), entries), 0);
		expect_collected(40);
		pair.sync();
	}
}

TEST_F(ResizedQueue, CannotBeSmallerThanWhatItHolds)
{
	collect(40);
	EXPECT_EQ(ibv_resize_cq(queue(), 32), EINVAL);
	EXPECT_EQ(queue()->cqe, 64);
	expect_collected(40);
	ASSERT_EQ(ibv_resize_cq(queue(), 32), 0);
	EXPECT_EQ(queue()->cqe, 32);
	pair.sync();
}

TEST_F(ResizedQueue, SizesOutsideTheLimitsAreRefused)
{
	ibv_device_attr limits{};

	ASSERT_EQ(ibv_query_device(pair.b().context(), &limits), 0);
	for (const int entries : {0, -1, limits.max_cqe + 1, INT32_MAX, INT32_MIN})
		EXPECT_EQ(ibv_resize_cq(queue(), entries), EINVAL) << entries;
	EXPECT_EQ(ibv_resize_cq(queue(), limits.max_cqe), 0);
	pair.sync();
}

TEST_F(ResizedQueue, GrownOneHoldsMore)
{
	ASSERT_EQ(ibv_resize_cq(queue(), 4), 0);
	ASSERT_EQ(ibv_resize_cq(queue(), 64), 0);
	collect(64);
	expect_collected(64);
}

TEST_F(ResizedQueue, ShrunkOneOverflowsEarlier)
{
	const ibv_cq *cq = queue();

	ASSERT_EQ(ibv_resize_cq(queue(), 4), 0);
	pair.b().receive_empty(5);
	for (int i = 0; i < 5; i++)
		(void)pair.a().send();
	wait_async(pair.b().context(), [=](const ibv_async_event &event) {
		return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
	});
	pair.b().wait_state(IBV_QPS_ERR);
}

TEST_F(ResizedQueue, StaysArmed)
{
	for (const int entries : {128, 32}) {
		ASSERT_EQ(ibv_req_notify_cq(queue(), 0), 0);
		ASSERT_EQ(ibv_resize_cq(queue(), entries), 0);
		pair.sync();
		EXPECT_EQ(take_event(pair.b()), queue());
	}
}

TEST_F(ResizedQueue, GivesTheOldMemoryBack)
{
	ASSERT_EQ(ibv_resize_cq(queue(), 4096), 0);
	const std::size_t before = pinned();

	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(ibv_resize_cq(queue(), 8192), 0);
		ASSERT_EQ(ibv_resize_cq(queue(), 4096), 0);
	}
	EXPECT_EQ(pinned(), before);
}

// Two threads resize, one sends, one polls and one arms. They leave the lock to each other, which isn't a fair one.
TEST_F(ResizedQueue, LosesNothingWhileCompletionsCome)
{
	constexpr std::uint64_t messages = 5000;
	constexpr std::uint64_t window = 32;
	std::atomic<std::uint64_t> received = 0;
	std::atomic<bool> over = false;
	std::vector<std::jthread> others;
	const auto repeat = [&](const std::function<void(int)> &work) {
		for (int n = 0; !over; n++) {
			work(n);
			std::this_thread::sleep_for(std::chrono::microseconds(100));
		}
	};

	for (int i = 0; i < 2; i++)
		others.emplace_back(
			[&, i] { repeat([&](int n) { EXPECT_EQ(ibv_resize_cq(queue(), 64 << (n + i) % 7), 0); }); });
	others.emplace_back([&] { repeat([&](int) { EXPECT_EQ(ibv_req_notify_cq(queue(), 0), 0); }); });
	pair.b().receive_empty(window);
	others.emplace_back([&] {
		for (std::uint64_t n = 0; n < messages; n++) {
			wait_until([&] { return n - received < window; }, "room for a message");
			EXPECT_EQ(pair.a().send(), 0);
			EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		}
	});
	for (std::uint64_t n = 0; n < messages; n++) {
		EXPECT_WC(pair.b().received(), n < window ? n : n - window, IBV_WC_SUCCESS);
		EXPECT_EQ(pair.b().receive({}, n), 0);
		received = n + 1;
	}
	over = true;
}

} // namespace
} // namespace vt
