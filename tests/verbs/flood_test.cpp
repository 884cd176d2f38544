// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Processes that post without a pause: the kernel drains a ring while the process fills it, and most requests
// need no doorbell.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "poster.hpp"

namespace vt {
namespace {

constexpr std::size_t slot = 4096;
constexpr std::size_t long_slot = 256 << 10;
constexpr std::uint64_t many = 20000;	  // requests of a few bytes
constexpr std::uint64_t many_long = 1500; // requests of 256 KB

/// Writes of a number each into slots of a region, one after the other.
class Flood : public Slots<slot> {
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

TEST_F(Flood, WritesArriveInOrder)
{
	poster_.flood(many, write_);
	poster_.finish();
	pair_.sync();
	expect_arrived(poster_.posted());
}

TEST_F(Flood, ReadsWhatIsThere)
{
	from_.fill(0);
	to_.fill_pattern(1);
	poster_.flood(many, [&](std::uint64_t n) {
		const std::size_t at = n % slots * slot;
		return pair_.a().read({from_.sge(at, slot)}, {.id = n, .remote = to_.address(at), .rkey = rkey_});
	});
	poster_.finish();
	EXPECT_TRUE(same(from_.bytes(), to_.bytes()));
}

// A process that disconnects after posting needn't have waited for completions, if TCP has room for all: long messages
// make it find much.
TEST_F(Flood, WhatWasPostedGoesOutBeforeTheEnd)
{
	const auto post_long = [&](std::size_t count, std::size_t octets) {
		poster_.flood(count, [&](std::uint64_t n) {
			return pair_.a().write(
				{from_.sge(0, octets)}, {.id = n, .remote = to_.address(), .rkey = rkey_});
		});
	};

	from_.fill_pattern(2);
	post_long(500, from_.size());
	poster_.finish();
	poster_.flood(many, write_);
	from_.data()[0] ^= 1;
	post_long(slots, 32 << 10);
	ASSERT_EQ(pair_.a().modify(IBV_QPS_SQD), 0);
	pair_.b().wait_disconnected();
	pair_.a().wait_disconnected();
	poster_.finish();
	EXPECT_TRUE(same(from_.bytes(), to_.bytes()));
}

TEST_F(Flood, AnErrorFlushesEachRequestOnce)
{
	poster_.flood(many, write_);
	ASSERT_EQ(pair_.a().modify(IBV_QPS_ERR), 0);
	expect_flushed();
	ASSERT_EQ(write(poster_.posted()), 0);
	EXPECT_WC(pair_.a().sent(), poster_.posted(), IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(poll_all(pair_.a().send_cq()).empty());
}

TEST_F(Flood, APeersRefusalEndsIt)
{
	poster_.flood(many, write_);
	to_.deregister();
	// The Terminate comes at some time; until then Writes are taken.
	wait_until([&] { return write(0) != 0 || pair_.a().state() == IBV_QPS_ERR; }, "the error state");
	pair_.a().wait_disconnected();
}

TEST_F(Flood, TheQueuePairMayGoAtAnyTime)
{
	poster_.flood(many, write_);
	pair_.a().destroy_qp();
}

TEST_F(Flood, ThePeerMayGoAtAnyTime)
{
	poster_.flood(many, write_);
	pair_.b().destroy_qp();
	// An orderly end, if all that was posted is with TCP by then
	wait_until(
		[&] {
			poll_all(pair_.a().send_cq());
			return pair_.a().state() != IBV_QPS_RTS && pair_.a().state() != IBV_QPS_SQD;
		},
		"the end");
}

// A process that posts many requests and sleeps until the last is done is woken each time.
TEST(Flooded, WakesASleeper)
{
	Pair pair(Options{.completion_channel = true});
	const Region from(pair.a().pd(), slot);
	const Region to(pair.b().pd(), slot);
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	for (int round = 0; round < 200; round++) {
		ASSERT_EQ(ibv_req_notify_cq(pair.a().send_cq(), 0), 0);
		for (int n = 0; n < 60; n++) {
			const Work work = {.flags = n == 59 ? unsigned{IBV_SEND_SIGNALED} : 0,
				.remote = to.address(),
				.rkey = to.rkey()};
			ASSERT_EQ(pair.a().write({from.sge()}, work), 0);
		}
		wait_readable(pair.a().channel()->fd, "the event of the last Write");
		ASSERT_EQ(ibv_get_cq_event(pair.a().channel(), &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		ASSERT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	}
}

/// Long Writes into slots of a region, one after the other. Each carries its number in front, and at its end.
class LongFlood : public Slots<long_slot> {
protected:
	int write(std::uint64_t n) override
	{
		const std::size_t at = n % slots * long_slot;

		for (const std::size_t offset : {std::size_t{0}, long_slot - sizeof(n)})
			std::copy_n(reinterpret_cast<const std::uint8_t *>(&n), sizeof(n), from_.data() + at + offset);
		return pair_.a().write({from_.sge(at, long_slot)}, {.id = n, .remote = to_.address(at), .rkey = rkey_});
	}

	void expect_arrived()
	{
		poster_.finish();
		pair_.sync();
		EXPECT_TRUE(same(from_.bytes(), to_.bytes()));
	}
};

// Requests of the peer arrive at this end meanwhile, and it answers.
TEST_F(LongFlood, WhileTheOtherDirectionIsInUse)
{
	Region back(pair_.a().pd(), long_slot);
	const std::uint32_t back_key = back.rkey();
	std::uint64_t sent = 0, done = 0;

	from_.fill_pattern(5);
	poster_.flood(many_long, [&](std::uint64_t n) {
		for (; sent - done < 8; sent++) {
			EXPECT_EQ(pair_.b().write({to_.sge(long_slot, long_slot)},
					  {.id = sent, .remote = back.address(), .rkey = back_key}),
				0);
		}
		for (const ibv_wc &wc : poll_all(pair_.b().send_cq()))
			EXPECT_WC(wc, done++, IBV_WC_SUCCESS);
		return write(n);
	});
	while (done < sent)
		EXPECT_WC(pair_.b().sent(), done++, IBV_WC_SUCCESS);
	expect_arrived();
	// All but the numbers, which were changing.
	EXPECT_TRUE(same(back.bytes().subspan(8, long_slot - 16), to_.bytes().subspan(long_slot + 8, long_slot - 16)));
}

TEST_F(LongFlood, AnErrorOfThePeerFlushesEachRequestOnce)
{
	poster_.flood(many_long, write_);
	ASSERT_EQ(pair_.b().modify(IBV_QPS_ERR), 0);
	expect_flushed();
	EXPECT_TRUE(poll_all(pair_.a().send_cq()).empty());
}

// As soon as it is deregistered, nothing of it changes any more.
TEST_F(LongFlood, ADeregisteredRegionStaysAsItIs)
{
	poster_.flood(many_long, write_);
	to_.deregister();
	const std::vector<std::uint8_t> then(to_.bytes().begin(), to_.bytes().end());
	// The Terminate comes at some time; until then Writes are taken.
	wait_until([&] { return write(0) != 0 || pair_.a().state() == IBV_QPS_ERR; }, "the error state");
	pair_.a().wait_disconnected();
	EXPECT_TRUE(same(then, to_.bytes()));
}

TEST_F(LongFlood, TheReceiversQueuePairMayGoAtAnyTime)
{
	poster_.flood(many_long, write_);
	pair_.b().destroy_qp();
	// An orderly end, if all that was posted is with TCP by then
	wait_until(
		[&] {
			poll_all(pair_.a().send_cq());
			return pair_.a().state() != IBV_QPS_RTS && pair_.a().state() != IBV_QPS_SQD;
		},
		"the end");
}

TEST_F(LongFlood, TheSendersQueuePairMayGoAtAnyTime)
{
	poster_.flood(many_long, write_);
	pair_.a().destroy_qp();
	pair_.b().wait_disconnected();
}

// With a CRC, which has to be verified before anything is placed, and in messages that receive requests take.
TEST(Flooded, SendsWithCrc)
{
	constexpr std::size_t length = 64 << 10;
	Options options;
	options.parameters = {{"crc", "Y"}};
	Pair pair(options);
	Region from(pair.a().pd(), slots * length), to(pair.b().pd(), slots * length);
	Poster poster(pair.a());
	std::uint64_t received = 0, posted = 0;
	const auto receive = [&] {
		for (; posted - received < 32; posted++)
			EXPECT_EQ(pair.b().receive({to.sge(posted % slots * length, length)}, posted), 0);
	};
	const auto take = [&] {
		for (const ibv_wc &wc : poll_all(pair.b().recv_cq())) {
			EXPECT_WC(wc, received++, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.byte_len, length);
		}
	};

	from.fill_pattern(6);
	poster.flood(many_long, [&](std::uint64_t n) {
		receive();
		// Never more than have been received: each has its receive request.
		if (n == received + 32)
			wait_until([&] { return take(), n < received + 32; }, "messages");
		receive();
		return pair.a().send({from.sge(n % slots * length, length)}, {.id = n});
	});
	poster.finish();
	wait_until([&] { return take(), received == poster.posted(); }, "the last message");
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

TEST(Flooded, LongMessagesWithCrc)
{
	constexpr std::size_t length = 8 << 20;
	Options options;
	options.parameters = {{"crc", "Y"}};
	Pair pair(options);
	Region from(pair.a().pd(), length), to(pair.b().pd(), length);
	Poster poster(pair.a());

	from.fill_pattern(7);
	poster.flood(32, [&](std::uint64_t n) {
		return pair.a().write({from.sge()}, {.id = n, .remote = to.address(), .rkey = to.rkey()});
	});
	poster.finish();
	pair.sync();
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

// As many Reads as may be outstanding, and more posted
TEST(Flooded, ReadsWithCrc)
{
	constexpr std::size_t length = 64 << 10;
	Options options;
	options.parameters = {{"crc", "Y"}};
	options.cap.max_send_wr = 256;
	options.reads = 128;
	Pair pair(options);
	Region from(pair.b().pd(), slots * length), to(pair.a().pd(), slots * length);
	Poster poster(pair.a());

	from.fill_pattern(9);
	poster.flood(many_long, [&](std::uint64_t n) {
		const std::size_t at = n % slots * length;
		return pair.a().read({to.sge(at, length)}, {.id = n, .remote = from.address(at), .rkey = from.rkey()});
	});
	poster.finish();
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

// Work for a user is done by its own threads and in TCP's callbacks. A thread of the driver's that served several users
// would wait for one user's lock while others wait for it.
TEST(Flooded, NoThreadOfTheDriverSendsOrPlaces)
{
	Pair pair;
	const Region from(pair.a().pd(), long_slot), to(pair.b().pd(), long_slot);
	Poster poster(pair.a());

	poster.flood(many, [&](std::uint64_t n) {
		return pair.a().write({from.sge(0, slot)}, {.id = n, .remote = to.address(), .rkey = to.rkey()});
	});
	poster.flood(many_long, [&](std::uint64_t n) {
		return pair.a().write({from.sge()}, {.id = n, .remote = to.address(), .rkey = to.rkey()});
	});
	for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
		std::string name;
		std::ifstream comm(entry.path() / "comm");
		std::error_code none;

		// Threads of the kernel have no program. Those of the host's other programs don't count.
		(void)std::filesystem::read_symlink(entry.path() / "exe", none);
		if (!none)
			continue;
		std::getline(comm, name);
		EXPECT_NE(name.substr(0, 6), "kiwarp") << name;
	}
	poster.finish();
}

// The socket's lock isn't a fair one, and its backlog may never end. A doorbell at a flooded stream comes back all the
// same, before hundreds of messages have been placed.
TEST(Flooded, ADoorbellOfTheOtherDirectionReturns)
{
	constexpr std::uint64_t rings = 200, patience = 400;
	constexpr std::size_t length = 64 << 10;
	Options options;
	options.parameters = {{"crc", "Y"}};
	Pair pair(options);
	Region from(pair.a().pd(), slots * length), to(pair.b().pd(), slots * length);
	std::atomic<std::uint64_t> sent = 0;
	std::atomic<bool> enough = false;
	std::uint64_t meanwhile = 0;
	std::thread flood([&] {
		Poster poster(pair.a());

		while (!enough) {
			poster.post([&](std::uint64_t n) {
				const std::size_t at = n % slots * length;
				return pair.a().write(
					{from.sge(at, length)}, {.id = n, .remote = to.address(at), .rkey = to.rkey()});
			});
			sent = poster.polled();
		}
		poster.finish();
	});

	wait_until([&] { return sent > 100; }, "a flood");
	for (std::uint64_t i = 0; i < rings && meanwhile < rings * patience; i++) {
		const std::uint64_t before = sent;

		EXPECT_EQ(pair.b().write({to.sge(0, 8)}, {.id = i, .remote = from.address(), .rkey = from.rkey()}), 0);
		EXPECT_WC(pair.b().sent(), i, IBV_WC_SUCCESS);
		meanwhile += sent - before;
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	enough = true;
	flood.join();
	EXPECT_LT(meanwhile, rings * patience);
}

} // namespace
} // namespace vt
