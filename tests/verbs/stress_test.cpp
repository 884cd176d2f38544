// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Much at once: threads on one QP, all operations mixed, many pairs.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "../lib/connection.hpp"

namespace vt {
namespace {

/// Runs a body in several threads. What it throws, fails the test.
void in_threads(int count, const std::function<void(int)> &body)
{
	std::vector<std::thread> threads;

	for (int t = 0; t < count; t++)
		threads.emplace_back([&, t] {
			try {
				body(t);
			} catch (const std::exception &error) {
				ADD_FAILURE() << error.what();
			}
		});
	for (auto &thread : threads)
		thread.join();
}

/// Tells other threads to stop when its scope ends, however it does.
class StopAtEnd {
public:
	explicit StopAtEnd(std::atomic<bool> &stop) : stop_(stop) {}
	~StopAtEnd() { stop_ = true; }
	StopAtEnd(const StopAtEnd &) = delete;
	StopAtEnd &operator=(const StopAtEnd &) = delete;

private:
	std::atomic<bool> &stop_;
};

TEST(Stress, ThreadsShareAQp)
{
	constexpr int threads = 4;
	constexpr std::uint32_t each = 2000;
	Pair pair;
	const Region to(pair.b().pd(), 64 * 8);
	std::array<std::uint32_t, threads> expected{};
	std::atomic<bool> done = false;

	for (std::size_t i = 0; i < 64; i++)
		ASSERT_EQ(pair.b().receive({to.sge(i * 8, 8)}, i), 0);
	// The window is the receive ring: a token for each receive that is there.
	std::atomic<int> tokens = 64;
	in_threads(threads + 1, [&](int t) {
		if (t == threads) {
			for (std::uint32_t n = 0; n < threads * each; n++) {
				const ibv_wc wc = pair.b().received();
				ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
				std::array<std::uint32_t, 2> message{};
				std::memcpy(message.data(), to.data() + wc.wr_id * 8, 8);
				ASSERT_LT(message[0], threads);
				EXPECT_EQ(message[1], expected.at(message[0])++);
				ASSERT_EQ(pair.b().receive({to.sge(wc.wr_id * 8, 8)}, wc.wr_id), 0);
				tokens++;
			}
			done = true;
			return;
		}
		for (std::uint32_t i = 0; i < each; i++) {
			const std::array<std::uint32_t, 2> message = {static_cast<std::uint32_t>(t), i};
			wait_until(
				[&] {
					int have = tokens;
					return have > 0 && tokens.compare_exchange_strong(have, have - 1);
				},
				"a token");
			wait_until(
				[&] {
					const int error = pair.a().send(
						{{.addr = reinterpret_cast<std::uintptr_t>(message.data()),
							.length = 8,
							.lkey = 0}},
						{.flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED});
					if (error && error != ENOMEM)
						fail("ibv_post_send", error);
					for (const ibv_wc &wc : poll_all(pair.a().send_cq()))
						EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
					return error == 0;
				},
				"room in the send ring");
		}
	});
	EXPECT_TRUE(done);
}

/// Random operations of one side on memory of the other, checked against a model of it.
class Mixer {
public:
	Mixer(Side &self, Side &peer, std::uint32_t seed)
		: self_(self),
		  local_(self.pd(), area),
		  remote_(peer.pd(), area),
		  model_(area),
		  random_(seed)
	{
		remote_.fill(0);
	}

	void play(int operations)
	{
		for (int i = 0; i < operations; i++) {
			const std::size_t length = number(number(4) ? 5000 : 200000);
			const std::size_t offset = number(static_cast<std::uint32_t>(area - length));
			const std::size_t cut = number(static_cast<std::uint32_t>(length + 1));

			std::generate_n(local_.data(), length, [&] { return static_cast<std::uint8_t>(random_()); });
			const Sges pieces = {local_.sge(0, cut), local_.sge(cut, length - cut)};
			const Work work = {.id = static_cast<std::uint64_t>(i),
				.remote = remote_.address(offset),
				.rkey = remote_.rkey()};
			if (number(2)) {
				std::copy_n(local_.data(), length, model_.data() + offset);
				ASSERT_EQ(self_.write(pieces, work), 0);
				EXPECT_WC(self_.sent(), i, IBV_WC_SUCCESS);
			} else {
				ASSERT_EQ(self_.read(pieces, work), 0);
				EXPECT_WC(self_.sent(), i, IBV_WC_SUCCESS);
				ASSERT_TRUE(same(local_.bytes(0, length), std::span(model_).subspan(offset, length)))
					<< i;
			}
		}
		// A Write is done before it is placed. What answers this has placed all of them, and the region may go.
		ASSERT_EQ(self_.read({local_.sge(0, 1)}, {.remote = remote_.address(), .rkey = remote_.rkey()}), 0);
		EXPECT_WC(self_.sent(), 0, IBV_WC_SUCCESS);
	}

private:
	static constexpr std::size_t area = 300000;

	std::uint32_t number(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }

	Side &self_;
	Region local_;
	Region remote_;
	std::vector<std::uint8_t> model_;
	std::mt19937 random_;
};

TEST(Stress, MixedOperationsInBothDirections)
{
	Pair pair;

	in_threads(2, [&](int t) {
		Mixer(t ? pair.b() : pair.a(), t ? pair.a() : pair.b(), static_cast<std::uint32_t>(t + 1)).play(500);
	});
}

TEST(Stress, MixedOperationsOnManyPairs)
{
	std::vector<std::unique_ptr<Pair>> pairs;

	for (int i = 0; i < 8; i++)
		pairs.push_back(std::make_unique<Pair>());
	in_threads(16, [&](int t) {
		Pair &pair = *pairs.at(t / 2);
		Mixer(t % 2 ? pair.b() : pair.a(), t % 2 ? pair.a() : pair.b(), static_cast<std::uint32_t>(t + 100))
			.play(60);
	});
}

TEST(Stress, PairsComeAndGoBesideTraffic)
{
	Pair steady;
	std::atomic<bool> stop = false;

	in_threads(3, [&](int t) {
		if (t == 0) {
			const StopAtEnd end(stop);
			Mixer(steady.a(), steady.b(), 7).play(300);
			return;
		}
		while (!stop) {
			Pair pair;
			pair.sync();
			if (t == 1) {
				EXPECT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
			}
		}
	});
}

// What a checksum covers must be what is sent and what has arrived, not what stands in the memory of a process at
// some time before or after.
TEST(WithCrc, MemoryMayChangeWhileItIsSentAndPlaced)
{
	constexpr std::size_t area = 300000;
	const Parameters crc("crc", "Y");
	Pair pair;
	const Region at_a(pair.a().pd(), area);
	const Region at_b(pair.b().pd(), area);
	std::atomic<bool> stop = false;

	in_threads(3, [&](int t) {
		std::mt19937 random(static_cast<std::uint32_t>(t));
		if (t) {
			const Region &mine = t == 1 ? at_a : at_b;
			while (!stop) {
				const std::size_t start = random() % (area - 4096);
				std::memset(mine.data() + start, static_cast<int>(random()), random() % 4096);
			}
			return;
		}
		const StopAtEnd end(stop);
		for (std::uint64_t i = 0; i < 60; i++) {
			const Work work = {.id = i, .remote = at_b.address(), .rkey = at_b.rkey()};
			EXPECT_EQ(i % 2 ? pair.a().read({at_a.sge()}, work) : pair.a().write({at_a.sge()}, work), 0);
			EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		}
	});
	pair.sync();
}

} // namespace
} // namespace vt
