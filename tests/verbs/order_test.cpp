// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The order in which placed octets appear to a program that polls memory instead of a completion queue.
#include <algorithm>
#include <atomic>
#include <thread>

#include "../lib/connection.hpp"

namespace vt {
namespace {

class LastOctet : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Polled, LastOctet, testing::Values(2, 63, 64, 256, 1000, 1448, 4000, 20000));

// A thread that sees the last octet of a Write sees all octets before it, wherever in a word source and sink begin.
TEST_P(LastOctet, ComesLast)
{
	constexpr std::size_t most = 32 << 10;
	const std::size_t size = GetParam();
	Pair pair;
	const Region from(pair.a().pd(), most);
	const Region to(pair.b().pd(), most);
	std::atomic<bool> stop = false;
	std::atomic<std::size_t> at = 0;
	std::atomic<std::uint32_t> armed = 0, seen = 0, wrong = 0;
	std::uint8_t value = 0;
	std::uint32_t rounds = 0;
	const auto spin_until = [&](const auto &condition) {
		for (std::uint32_t looks = 1; !condition() && !stop; looks++) {
			// On one CPU, and while the others are busy
			if (looks % 100000 == 0)
				std::this_thread::yield();
		}
	};
	std::thread poller([&] {
		for (std::uint8_t want = 1; !stop; want = want == 255 ? 1 : want + 1) {
			spin_until([&] { return armed != seen; });
			const std::uint8_t *sink = to.data() + at;
			spin_until([&] { return __atomic_load_n(sink + size - 1, __ATOMIC_ACQUIRE) == want; });
			if (stop)
				return;
			for (std::size_t i = 0; i < size - 1; i++)
				wrong += __atomic_load_n(sink + i, __ATOMIC_RELAXED) != want;
			seen++;
		}
	});
	const auto round = [&](std::size_t source, std::size_t sink) {
		value = value == 255 ? 1 : value + 1;
		std::fill_n(from.data() + source, size, value);
		at = sink;
		armed++;
		if (pair.a().write(
			    {from.sge(source, size)}, {.id = rounds, .remote = to.address(sink), .rkey = to.rkey()}))
			fail("posting a Write");
		rounds++;
		wait_until([&] { return seen == rounds; }, "the last octet");
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	};

	to.fill(0);
	for (std::size_t source = 0; source < 8; source++) {
		for (std::size_t sink = 0; sink < 8; sink++) {
			round(source, 64 + sink);
		}
	}
	stop = true;
	poller.join();
	EXPECT_EQ(wrong, 0U);
}

// Messages that were posted in one list are placed one after the other: the number of the last one that arrived is
// never below that of an earlier one.
TEST(Polled, MessagesAppearInOrder)
{
	constexpr std::uint32_t count = 4096, batch = 32;
	Pair pair;
	const Region from(pair.a().pd(), 4096);
	const Region to(pair.b().pd(), 4096);
	std::atomic<bool> stop = false;
	std::atomic<std::uint32_t> wrong = 0;
	const auto *words = reinterpret_cast<const std::uint32_t *>(to.data());

	to.fill(0);
	// Each round writes the same number to word 0 and then to word 512.
	std::thread poller([&] {
		while (!stop) {
			const std::uint32_t later = __atomic_load_n(words + 512, __ATOMIC_ACQUIRE);
			const std::uint32_t earlier = __atomic_load_n(words, __ATOMIC_RELAXED);
			wrong += static_cast<std::int32_t>(earlier - later) < 0;
		}
	});
	auto *numbers = reinterpret_cast<std::uint32_t *>(from.data());
	for (std::uint32_t n = 1; n <= count; n++) {
		numbers[n % batch] = n;
		for (const std::size_t sink : {0, 2048}) {
			ASSERT_EQ(pair.a().write({from.sge(n % batch * 4, 4)},
					  {.id = n,
						  .flags = sink ? unsigned{IBV_SEND_SIGNALED} : 0,
						  .remote = to.address(sink),
						  .rkey = to.rkey()}),
				0);
		}
		if (n % (batch / 2) == 0) {
			for (std::uint32_t i = 0; i < batch / 2; i++)
				EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		}
	}
	pair.sync();
	stop = true;
	poller.join();
	EXPECT_EQ(wrong, 0U);
	EXPECT_EQ(words[512], count);
}

// That the last octet comes last, and messages in order, says nothing of the octets between: each segment is copied in
// whatever order memcpy() takes. A program that asks may not rely on more. 1 asks for what is promised of parts.
TEST(Polled, NothingElseIsPromised)
{
	Pair pair;

	for (const Side *side : {&pair.a(), &pair.b()})
		for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ})
			for (const std::uint32_t flags : {0U, 1U})
				EXPECT_EQ(ibv_query_qp_data_in_order(side->qp(), opcode, flags), 0);
}

} // namespace
} // namespace vt
