// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Streams whose data a placer places: a thread on another processor than packets arrive on. Nothing else may be
// different.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

#include "poster.hpp"

namespace vt {
namespace {

constexpr std::size_t slot = 64 << 10;
/// So long that a system call for each is little beside its placing, which has to take a part of the processor's time.
constexpr std::size_t long_slot = 256 << 10;

/// Long Writes into slots of a region, one after the other. Each carries its number in front, and at its end.
class Place : public Slots<long_slot> {
protected:
	int write(std::uint64_t n) override
	{
		const std::size_t at = n % slots * long_slot;

		for (const std::size_t offset : {std::size_t{0}, long_slot - sizeof(n)})
			std::copy_n(reinterpret_cast<const std::uint8_t *>(&n), sizeof(n), from_.data() + at + offset);
		return pair_.a().write({from_.sge(at, long_slot)}, {.id = n, .remote = to_.address(at), .rkey = rkey_});
	}

	/// Writes until they are placed elsewhere.
	void until_steered() { poster_.until(pair_.b().context(), "steers", write_); }

	std::uint64_t steers() { return counter(pair_.b().context(), "steers"); }

	void expect_arrived()
	{
		poster_.finish();
		pair_.sync();
		EXPECT_TRUE(same(from_.bytes(), to_.bytes()));
	}
};

TEST_F(Place, ElsewhereWhereMuchArrives)
{
	from_.fill_pattern(1);
	until_steered();
	expect_arrived();
}

// What comes after a pause is placed, whoever does it, and then again elsewhere.
TEST_F(Place, AgainAfterAPause)
{
	for (int i = 0; i < 3; i++) {
		from_.fill_pattern(2 + i);
		until_steered();
		expect_arrived();
	}
}

// Requests of the peer arrive at this end meanwhile, and it answers.
TEST_F(Place, WhileTheOtherDirectionIsInUse)
{
	Region back(pair_.a().pd(), long_slot);
	const std::uint32_t back_key = back.rkey();
	std::uint64_t sent = 0, done = 0;
	const auto both = [&](std::uint64_t n) {
		for (; sent - done < 8; sent++) {
			EXPECT_EQ(pair_.b().write({to_.sge(long_slot, long_slot)},
					  {.id = sent, .remote = back.address(), .rkey = back_key}),
				0);
		}
		for (const ibv_wc &wc : poll_all(pair_.b().send_cq()))
			EXPECT_WC(wc, done++, IBV_WC_SUCCESS);
		return write(n);
	};

	from_.fill_pattern(5);
	until_steered();
	for (int i = 0; i < 1000; i++)
		poster_.post(both);
	while (done < sent)
		EXPECT_WC(pair_.b().sent(), done++, IBV_WC_SUCCESS);
	expect_arrived();
	// All but the numbers, which were changing.
	EXPECT_TRUE(same(back.bytes().subspan(8, long_slot - 16), to_.bytes().subspan(long_slot + 8, long_slot - 16)));
}

// What was being tried is over then, and single messages later are placed where they arrive.
TEST_F(Place, NotAfterAPause)
{
	from_.fill_pattern(8);
	until_steered();
	poster_.finish();
	std::this_thread::sleep_for(std::chrono::milliseconds(1200)); // nothing is decided for longer
	const std::uint64_t before = steers();
	for (int i = 0; i < 20; i++) {
		poster_.post(write_);
		poster_.finish();
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
	}
	EXPECT_LE(steers(), before + 1); // who finds out
	expect_arrived();
}

// A connection that begins has received nothing, wherever its sequence numbers do.
TEST_F(Place, NotAConnectionThatBegins)
{
	until_steered();
	expect_arrived();
	const std::uint64_t before = steers();
	for (int i = 0; i < 16; i++)
		Pair().sync();
	EXPECT_EQ(steers(), before);
}

TEST_F(Place, AnErrorFlushesEachRequestOnce)
{
	until_steered();
	ASSERT_EQ(pair_.b().modify(IBV_QPS_ERR), 0);
	expect_flushed();
	EXPECT_TRUE(poll_all(pair_.a().send_cq()).empty());
}

// As soon as it is deregistered, nothing of it changes any more.
TEST_F(Place, ADeregisteredRegionStaysAsItIs)
{
	until_steered();
	to_.deregister();
	const std::vector<std::uint8_t> then(to_.bytes().begin(), to_.bytes().end());
	// The Terminate comes at some time; until then Writes are taken.
	wait_until([&] { return write(0) != 0 || pair_.a().state() == IBV_QPS_ERR; }, "the error state");
	pair_.a().wait_disconnected();
	EXPECT_TRUE(same(then, to_.bytes()));
}

TEST_F(Place, TheQueuePairMayGoAtAnyTime)
{
	until_steered();
	pair_.b().destroy_qp();
	wait_until(
		[&] {
			poll_all(pair_.a().send_cq());
			return pair_.a().state() == IBV_QPS_ERR;
		},
		"the error state");
}

TEST_F(Place, ThePeerMayGoAtAnyTime)
{
	until_steered();
	pair_.a().destroy_qp();
	pair_.b().wait_disconnected();
}

TEST_F(Place, CanBeSwitchedOff)
{
	until_steered();
	const Parameters off(std::map<std::string, std::string>{{"drain", "N"}});
	std::uint64_t before = 0;
	for (int i = 0; i < 4000; i++) {
		poster_.post(write_);
		if (i == 1000) // what had been given has been placed by then
			before = steers();
	}
	EXPECT_EQ(steers(), before);
	expect_arrived();
}

// With a CRC, which has to be verified before anything is placed, and in messages that receive requests take.
TEST(Placed, SendsWithCrc)
{
	Options options;
	options.parameters = {{"crc", "Y"}};
	Pair pair(options);
	Region from(pair.a().pd(), slots * slot), to(pair.b().pd(), slots * slot);
	Poster poster(pair.a());
	std::uint64_t received = 0, posted = 0;
	const auto receive = [&] {
		for (; posted - received < 32; posted++)
			EXPECT_EQ(pair.b().receive({to.sge(posted % slots * slot, slot)}, posted), 0);
	};
	const auto take = [&] {
		for (const ibv_wc &wc : poll_all(pair.b().recv_cq())) {
			EXPECT_WC(wc, received++, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.byte_len, slot);
		}
	};

	from.fill_pattern(6);
	poster.until(pair.b().context(), "steers", [&](std::uint64_t n) {
		receive();
		// Never more than have been received: each has its receive request.
		if (n == received + 32)
			wait_until([&] { return take(), n < received + 32; }, "messages");
		receive();
		return pair.a().send({from.sge(n % slots * slot, slot)}, {.id = n});
	});
	poster.finish();
	wait_until([&] { return take(), received == poster.posted(); }, "the last message");
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

// Doorbells of messages as long as these don't ask for a drainer: a placer has one beside it, and data that an owner of
// the socket places are measured as well.
TEST(Placed, LongMessagesHaveADrainerToo)
{
	constexpr std::size_t length = 8 << 20;
	Options options;
	options.parameters = {{"crc", "Y"}};
	Pair pair(options);
	Region from(pair.a().pd(), length), to(pair.b().pd(), length);
	Poster poster(pair.a());
	const std::uint64_t steers = counter(pair.b().context(), "steers"),
			    drains = counter(pair.a().context(), "drains");
	const auto helped = [&] {
		return counter(pair.b().context(), "steers") > steers && counter(pair.a().context(), "drains") > drains;
	};

	from.fill_pattern(7);
	wait_until(
		[&] {
			for (int i = 0; i < 8; i++)
				poster.post([&](std::uint64_t n) {
					return pair.a().write(
						{from.sge()}, {.id = n, .remote = to.address(), .rkey = to.rkey()});
				});
			return helped();
		},
		"a placer and a drainer");
	poster.finish();
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

// As many octets of Read Requests as are much when they are data don't make a placer answer, where it would keep
// whoever places the answers from its processor.
TEST(Placed, NotReadRequests)
{
	Options options;
	options.parameters = {{"crc", "Y"}};
	options.cap.max_send_wr = 256;
	options.reads = 128;
	Pair pair(options);
	// On lo both ends are one device's, whose counter can't tell the responder from the requester, which a placer
	// has.
	if (std::string(pair.a().context()->device->name) == pair.b().context()->device->name)
		GTEST_SKIP() << "one device counts for both ends";
	Region from(pair.b().pd(), slots * slot), to(pair.a().pd(), slots * slot);
	Poster poster(pair.a());
	const auto read = [&](std::uint64_t n) {
		const std::size_t at = n % slots * slot;
		return pair.a().read({to.sge(at, slot)}, {.id = n, .remote = from.address(at), .rkey = from.rkey()});
	};

	const std::uint64_t before = counter(pair.b().context(), "steers");
	from.fill_pattern(9);
	for (int i = 0; i < 4; i++)
		poster.until(pair.a().context(), "steers", read);
	poster.finish();
	EXPECT_EQ(counter(pair.b().context(), "steers"), before);
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

/// A connection with CRC whose client's process writes and writes.
class Flooded : public testing::Test {
protected:
	Flooded()
	{
		flood_ = std::thread([this] {
			Poster poster(pair_.a());

			while (!enough_) {
				poster.post([&](std::uint64_t n) {
					const std::size_t at = n % slots * slot;
					return pair_.a().write({from_.sge(at, slot)},
						{.id = n, .remote = to_.address(at), .rkey = to_.rkey()});
				});
				sent_ = poster.polled();
			}
			poster.finish();
		});
	}

	~Flooded() override
	{
		enough_ = true;
		flood_.join();
	}

	void until_steered()
	{
		// Asleep: whoever shares a processor with the others is no peer for a measurement.
		wait_until(
			[&] {
				std::this_thread::sleep_for(std::chrono::milliseconds(1));
				return counter(pair_.b().context(), "steers") > steers_;
			},
			"a placer");
	}

	Options options_{.parameters = {{"crc", "Y"}}};
	Pair pair_{options_};
	Region from_{pair_.a().pd(), slots *slot};
	Region to_{pair_.b().pd(), slots *slot};
	std::atomic<std::uint64_t> sent_ = 0;

private:
	std::uint64_t steers_ = counter(pair_.b().context(), "steers");
	std::atomic<bool> enough_ = false;
	std::thread flood_;
};

// The socket's lock isn't a fair one, and its backlog may never end. Whoever rings at a flooded stream comes back all
// the same, before hundreds of messages have been placed.
TEST_F(Flooded, ADoorbellOfTheOtherDirectionReturns)
{
	constexpr std::uint64_t rings = 200, patience = 400;
	std::uint64_t meanwhile = 0;

	until_steered();
	for (std::uint64_t i = 0; i < rings && meanwhile < rings * patience; i++) {
		const std::uint64_t before = sent_;

		EXPECT_EQ(pair_.b().write({to_.sge(0, 8)}, {.id = i, .remote = from_.address(), .rkey = from_.rkey()}),
			0);
		EXPECT_WC(pair_.b().sent(), i, IBV_WC_SUCCESS);
		meanwhile += sent_ - before;
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	EXPECT_LT(meanwhile, rings * patience);
}

/// The most that TCP holds for a connection of this thread's network namespace, octets.
std::size_t tcp_holds()
{
	std::ifstream table("/proc/thread-self/net/tcp");
	std::string line, skip, queues;
	std::size_t most = 0;

	std::getline(table, line); // the heading
	while (std::getline(table, line)) {
		std::istringstream fields(line);

		if (!(fields >> skip >> skip >> skip >> skip >> queues))
			fail("/proc/net/tcp");
		most = std::max<std::size_t>(most, std::stoul(queues, nullptr, 16)); // up to the colon: to be sent
	}
	return most;
}

// Copies for a peer in the same kernel stay few enough for the processors' caches, though TCP would take megabytes.
TEST_F(Flooded, FewCopiesAreUnderWayToAPeerNearby)
{
	std::size_t most = 0;

	until_steered();
	const InNamespace inside(client_end().netns);
	for (int i = 0; i < 300; i++) {
		most = std::max(most, tcp_holds());
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	EXPECT_GT(most, 0U);
	EXPECT_LE(most, 1536U << 10);
}

} // namespace
} // namespace vt
