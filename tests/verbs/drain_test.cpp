// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Send queues that a drainer has taken over: whoever posts without a pause need not ring any more, and nothing else
// may be different.
#include <algorithm>

#include "poster.hpp"

namespace vt {
namespace {

/// How often a drainer took over a send queue of the device.
std::uint64_t drains(ibv_context *context)
{
	return counter(context, "drains");
}

constexpr std::size_t slot = 4096;

/// Writes of a number each into slots of a region, one after the other.
class Drain : public Slots<slot> {
protected:
	int write(std::uint64_t n) override
	{
		const std::size_t at = n % slots * slot;

		std::copy_n(reinterpret_cast<const std::uint8_t *>(&n), sizeof(n), from_.data() + at);
		return pair_.a().write({from_.sge(at, sizeof(n))}, {.id = n, .remote = to_.address(at), .rkey = rkey_});
	}

	/// The last number that arrived in each slot is the last that was written there.
	void expect_arrived(std::uint64_t count)
	{
		for (std::uint64_t n = count - slots; n < count; n++) {
			std::uint64_t found = 0;
			std::copy_n(
				to_.data() + n % slots * slot, sizeof(found), reinterpret_cast<std::uint8_t *>(&found));
			EXPECT_EQ(found, n);
		}
	}
};

TEST_F(Drain, TakesOverFromWhoPostsWithoutAPause)
{
	poster_.until_drained(write_);
	poster_.finish();
	pair_.sync();
	expect_arrived(poster_.posted());
}

TEST_F(Drain, ReadsWhatIsThere)
{
	from_.fill(0);
	to_.fill_pattern(1);
	poster_.until_drained([&](std::uint64_t n) {
		const std::size_t at = n % slots * slot;
		return pair_.a().read({from_.sge(at, slot)}, {.id = n, .remote = to_.address(at), .rkey = rkey_});
	});
	poster_.finish();
	EXPECT_TRUE(same(from_.bytes(), to_.bytes()));
}

// A drainer takes over once more only after it has let go, and the process has rung.
TEST_F(Drain, LetsGoAfterAPause)
{
	for (int i = 0; i < 3; i++) {
		poster_.until_drained(write_);
		poster_.finish();
		poster_.post(write_);
		poster_.finish();
	}
	pair_.sync();
	expect_arrived(poster_.posted());
}

// Whoever disconnects after posting needn't have waited for completions, as with a doorbell for each request, if TCP
// has room for all: long messages make it find much.
TEST_F(Drain, WhatWasPostedGoesOutBeforeTheEnd)
{
	const auto post_long = [&](std::size_t count, std::size_t octets) {
		for (std::size_t i = 0; i < count; i++) {
			poster_.post([&](std::uint64_t n) {
				return pair_.a().write(
					{from_.sge(0, octets)}, {.id = n, .remote = to_.address(), .rkey = rkey_});
			});
		}
	};

	from_.fill_pattern(2);
	post_long(500, from_.size());
	poster_.finish();
	poster_.until_drained(write_);
	from_.data()[0] ^= 1;
	post_long(slots, 32 << 10);
	ASSERT_EQ(pair_.a().modify(IBV_QPS_SQD), 0);
	pair_.b().wait_disconnected();
	pair_.a().wait_disconnected();
	poster_.finish();
	EXPECT_TRUE(same(from_.bytes(), to_.bytes()));
}

TEST_F(Drain, AnErrorFlushesEachRequestOnce)
{
	poster_.until_drained(write_);
	ASSERT_EQ(pair_.a().modify(IBV_QPS_ERR), 0);
	expect_flushed();
	ASSERT_EQ(write(poster_.posted()), 0);
	EXPECT_WC(pair_.a().sent(), poster_.posted(), IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(poll_all(pair_.a().send_cq()).empty());
}

TEST_F(Drain, APeersRefusalEndsIt)
{
	poster_.until_drained(write_);
	to_.deregister();
	// The Terminate comes at some time; until then Writes are taken.
	wait_until([&] { return write(0) != 0 || pair_.a().state() == IBV_QPS_ERR; }, "the error state");
	pair_.a().wait_disconnected();
}

TEST_F(Drain, TheQueuePairMayGoAtAnyTime)
{
	poster_.until_drained(write_);
	pair_.a().destroy_qp();
}

// The other end goes under a drainer.
TEST_F(Drain, ThePeerMayGoAtAnyTime)
{
	poster_.until_drained(write_);
	pair_.b().destroy_qp();
	wait_until(
		[&] {
			poll_all(pair_.a().send_cq());
			return pair_.a().state() == IBV_QPS_ERR;
		},
		"the error state");
}

TEST_F(Drain, CanBeSwitchedOff)
{
	poster_.until_drained(write_);
	const Parameters off(std::map<std::string, std::string>{{"drain", "N"}});
	std::uint64_t before = 0;
	for (int i = 0; i < 20000; i++) {
		poster_.post(write_);
		if (i == 2000) // what is being drained has been let go by then
			before = drains(pair_.a().context());
	}
	poster_.finish();
	EXPECT_EQ(drains(pair_.a().context()), before);
	pair_.sync();
	expect_arrived(poster_.posted());
}

// A word of the peer now and then, as that it has room again, isn't taking turns.
TEST_F(Drain, TakesOverFromWhoHearsLittle)
{
	const auto hear = [this](std::uint64_t n) {
		if (n % 256 == 0) {
			pair_.a().receive_empty(1);
			EXPECT_EQ(pair_.b().send(), 0);
			EXPECT_EQ(pair_.a().received().status, IBV_WC_SUCCESS);
			EXPECT_EQ(pair_.b().sent().status, IBV_WC_SUCCESS);
		}
		return write(n);
	};

	poster_.until_drained(hear);
	poster_.finish();
	pair_.sync();
	expect_arrived(poster_.posted());
}

TEST(Drained, WakesWhoSleeps)
{
	Options options;
	options.completion_channel = true;
	Pair pair(options);
	const Region from(pair.a().pd(), slot);
	const Region to(pair.b().pd(), slot);
	const std::uint64_t before = drains(pair.a().context());
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	wait_until(
		[&] {
			EXPECT_EQ(ibv_req_notify_cq(pair.a().send_cq(), 0), 0);
			for (int n = 0; n < 60; n++) {
				const Work work = {.flags = n == 59 ? unsigned{IBV_SEND_SIGNALED} : 0,
					.remote = to.address(),
					.rkey = to.rkey()};
				EXPECT_EQ(pair.a().write({from.sge()}, work), 0);
			}
			wait_readable(pair.a().channel()->fd, "the event of the last Write");
			EXPECT_EQ(ibv_get_cq_event(pair.a().channel(), &cq, &context), 0);
			ibv_ack_cq_events(cq, 1);
			EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
			return drains(pair.a().context()) > before + 2;
		},
		"drainers");
}

TEST(Drained, NotForWhoTakesTurns)
{
	Pair pair;
	const auto both = [&] {
		return drains(pair.a().context()) + drains(pair.b().context());
	};
	const std::uint64_t before = both();
	// Without the pauses of those that wait longer
	const auto spin = [](ibv_cq *cq) {
		for (int i = 0; i < 1000; i++) {
			if (!poll_all(cq).empty())
				return true;
		}
		return false;
	};

	pair.a().receive_empty(1);
	pair.b().receive_empty(1);
	for (int i = 0; i < 20000; i++) {
		Side &self = i % 2 ? pair.b() : pair.a();
		Side &peer = i % 2 ? pair.a() : pair.b();
		ASSERT_EQ(self.send(), 0);
		if (!spin(peer.recv_cq()))
			peer.received();
		if (!spin(self.send_cq()))
			self.sent();
		ASSERT_EQ(peer.receive(), 0);
	}
	EXPECT_EQ(both(), before);
}

} // namespace
} // namespace vt
