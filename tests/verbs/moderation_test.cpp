// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Events of completion queues that wait for further completions (ibv_modify_cq).
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "../lib/connection.hpp"

namespace vt {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

/// The longest that an event can wait
constexpr std::uint16_t longest = 65535;
const Options with_channel = {.cq_entries = 64, .completion_channel = true};

int moderate(ibv_cq *cq, std::uint16_t count, std::uint16_t period, std::uint32_t mask = IBV_CQ_ATTR_MODERATE)
{
	ibv_modify_cq_attr attr{.attr_mask = mask, .moderate = {.cq_count = count, .cq_period = period}};

	return ibv_modify_cq(cq, &attr);
}

class Moderated : public testing::Test {
protected:
	ibv_cq *queue() { return pair.b().recv_cq(); }
	bool told() { return readable(pair.b().channel()->fd); }
	void arm(bool solicited_only = false) { ASSERT_EQ(ibv_req_notify_cq(queue(), solicited_only), 0); }
	void sync(int count)
	{
		for (int i = 0; i < count; i++)
			pair.sync();
	}
	/// What is done has to bring an event, and that before the longest wait is over. A guest may be kept from
	/// running: one of several times will do.
	template <typename Deed>
	void expect_at_once(Deed deed)
	{
		Clock::duration fastest = Clock::duration::max();

		for (int i = 0; i < 20 && fastest >= Microseconds(longest); i++) {
			const auto before = Clock::now();

			deed();
			EXPECT_EQ(take_event(pair.b()), queue());
			fastest = std::min(fastest, Clock::now() - before);
		}
		EXPECT_LT(fastest, Microseconds(longest));
	}
	/// What is done may bring no event before the longest wait is over. Where it took longer, nothing can be said.
	template <typename Deed>
	void expect_none_yet(Deed deed)
	{
		bool soon = false;

		for (int i = 0; i < 20 && !soon; i++) {
			arm();
			const auto before = Clock::now();

			deed();
			const bool was_told = told();
			soon = Clock::now() - before < Microseconds(longest);
			if (soon) {
				EXPECT_FALSE(was_told);
			} else {
				take_event(pair.b());
			}
		}
		EXPECT_TRUE(soon);
	}

	Pair pair{with_channel};
};

TEST_F(Moderated, EventIsThatOfTheLastOfTheCount)
{
	ASSERT_EQ(moderate(queue(), 8, longest), 0);
	expect_none_yet([&] { sync(7); });
	sync(1);
	EXPECT_EQ(take_event(pair.b()), queue());
	EXPECT_FALSE(told());
	expect_at_once([&] {
		arm();
		sync(8);
	});
}

// The count begins anew with each event, and with the first completion behind it.
TEST_F(Moderated, EveryCountIsOneEvent)
{
	ASSERT_EQ(moderate(queue(), 4, longest), 0);
	for (int i = 0; i < 10; i++) {
		sync(3);
		EXPECT_FALSE(told());
		expect_none_yet([&] { sync(3); });
		sync(1);
		EXPECT_EQ(take_event(pair.b()), queue());
	}
}

TEST_F(Moderated, LastCompletionsComeByThePeriod)
{
	for (const std::uint16_t period : {1000, 20000, 60000}) {
		ASSERT_EQ(moderate(queue(), 1000, period), 0);
		arm();
		const auto before = Clock::now();
		sync(1);
		EXPECT_EQ(take_event(pair.b()), queue());
		EXPECT_GE(Clock::now() - before, Microseconds(period));
		sync(1);
		EXPECT_FALSE(told());
	}
}

// Further completions don't put the event off.
TEST_F(Moderated, PeriodBeginsWithTheFirstCompletion)
{
	// Half of the queue is more than comes before a test ends.
	ASSERT_EQ(ibv_resize_cq(queue(), 1 << 18), 0);
	ASSERT_EQ(moderate(queue(), longest, longest), 0);
	arm();
	wait_until(
		[&] {
			sync(1);
			return told();
		},
		"an event while completions come");
	EXPECT_EQ(take_event(pair.b()), queue());
}

TEST_F(Moderated, SolicitedEventDoesNotWait)
{
	ASSERT_EQ(moderate(queue(), 1000, longest), 0);
	for (const bool only : {false, true}) {
		for (const int before : {0, 2}) {
			expect_at_once([&] {
				arm(only);
				sync(before);
				ASSERT_EQ(pair.b().receive(), 0);
				ASSERT_EQ(pair.a().send({}, {.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED}), 0);
				EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
				EXPECT_EQ(pair.b().received().status, IBV_WC_SUCCESS);
			});
		}
	}
}

TEST_F(Moderated, ErrorDoesNotWait)
{
	Clock::duration fastest = Clock::duration::max();

	for (int i = 0; i < 20 && fastest >= Microseconds(longest); i++) {
		Pair other(with_channel);

		ASSERT_EQ(moderate(other.b().recv_cq(), 1000, longest), 0);
		ASSERT_EQ(ibv_req_notify_cq(other.b().recv_cq(), 0), 0);
		other.b().receive_empty(1);
		const auto before = Clock::now();
		ASSERT_EQ(other.b().modify(IBV_QPS_ERR), 0);
		take_event(other.b());
		fastest = Clock::now() - before;
	}
	EXPECT_LT(fastest, Microseconds(longest));
}

// Else the queue overflows while its process sleeps.
TEST_F(Moderated, EventDoesNotWaitForMoreThanHalfOfTheQueue)
{
	ASSERT_EQ(ibv_resize_cq(queue(), 16), 0);
	ASSERT_EQ(queue()->cqe, 16);
	ASSERT_EQ(moderate(queue(), 1000, longest), 0);
	expect_none_yet([&] { sync(7); });
	sync(1);
	EXPECT_EQ(take_event(pair.b()), queue());
	expect_at_once([&] {
		arm();
		sync(8);
	});
}

TEST_F(Moderated, EitherZeroTurnsItOff)
{
	for (const auto &[count, period] : {std::pair<std::uint16_t, std::uint16_t>{0, 0}, {0, longest}, {1000, 0}}) {
		ASSERT_EQ(moderate(queue(), 1000, longest), 0);
		ASSERT_EQ(moderate(queue(), count, period), 0);
		expect_at_once([&] {
			arm();
			sync(1);
		});
	}
}

TEST_F(Moderated, ChangeEndsAWait)
{
	for (const std::uint16_t count : {0, 1000}) {
		expect_at_once([&] {
			ASSERT_EQ(moderate(queue(), 1000, longest), 0);
			arm();
			sync(1);
			ASSERT_EQ(moderate(queue(), count, longest), 0);
		});
		// None is made up where none waits.
		arm();
		ASSERT_EQ(moderate(queue(), 1000, longest), 0);
		EXPECT_FALSE(told());
	}
}

TEST_F(Moderated, EventOutlivesTheRing)
{
	ASSERT_EQ(moderate(queue(), 1000, 20000), 0);
	for (const int entries : {256, 32, 2}) {
		arm();
		sync(1);
		ASSERT_EQ(ibv_resize_cq(queue(), entries), 0);
		EXPECT_EQ(take_event(pair.b()), queue());
	}
}

TEST_F(Moderated, LimitsAreThoseOfTheInterface)
{
	ibv_device_attr_ex attr{};

	ASSERT_EQ(ibv_query_device_ex(pair.b().context(), nullptr, &attr), 0);
	EXPECT_EQ(attr.cq_mod_caps.max_cq_count, UINT16_MAX);
	EXPECT_EQ(attr.cq_mod_caps.max_cq_period, UINT16_MAX);
	EXPECT_EQ(moderate(queue(), UINT16_MAX, UINT16_MAX), 0);
	EXPECT_EQ(moderate(queue(), 1, 1), 0);
	EXPECT_EQ(moderate(queue(), 1, 1, 0), EINVAL);
	EXPECT_EQ(moderate(queue(), 1, 1, IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED), EINVAL);
}

TEST_F(Moderated, QueueMayGoWhileItsEventWaits)
{
	for (std::uint16_t i = 0; i < 100; i++) {
		Pair other(with_channel);

		// From one that is over soon to one that would outlive the queue by far
		ASSERT_EQ(moderate(other.b().recv_cq(), 1000, static_cast<std::uint16_t>(i % 4 ? 50 * i : longest)), 0);
		ASSERT_EQ(ibv_req_notify_cq(other.b().recv_cq(), 0), 0);
		other.sync();
	}
	sync(1);
}

// The last messages of a burst come by the period, all others by the count; the settings change all the time.
TEST_F(Moderated, NothingIsLostBetweenCountPeriodAndChange)
{
	constexpr int count = 3000;
	constexpr int window = 32;
	std::atomic<int> received = 0;
	std::atomic<bool> over = false;
	std::jthread changer([&] {
		for (std::uint16_t i = 0; !over; i++) {
			EXPECT_EQ(moderate(queue(), i % 17, static_cast<std::uint16_t>(i % 5 * 100)), 0);
			std::this_thread::sleep_for(Microseconds(300));
		}
	});
	std::jthread sender([&] {
		for (int n = 0; n < count; n++) {
			wait_until([&] { return n - received < window; }, "room for a message");
			EXPECT_EQ(pair.a().send(), 0);
			EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		}
	});

	pair.b().receive_empty(window);
	while (received < count) {
		arm();
		const std::vector<ibv_wc> found = poll_all(queue());

		for (const ibv_wc &wc : found) {
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
			EXPECT_EQ(pair.b().receive(), 0);
			received++;
		}
		if (found.empty())
			take_event(pair.b());
	}
	over = true;
}

} // namespace
} // namespace vt
