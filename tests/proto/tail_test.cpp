// SPDX-License-Identifier: GPL-2.0
#include <atomic>
#include <thread>
#include <vector>

#include "proto/tail.h"
#include "support.hpp"

namespace {

constexpr std::size_t room = 64;

struct alignas(8) Memory {
	std::uint8_t octets[room];
};

TEST(Tail, is_the_rest_of_the_last_aligned_word)
{
	EXPECT_EQ(kiw_tail_len(16, 100), 8U);
	EXPECT_EQ(kiw_tail_len(17, 100), 1U);
	EXPECT_EQ(kiw_tail_len(20, 100), 4U);
	EXPECT_EQ(kiw_tail_len(23, 100), 7U);
	EXPECT_EQ(kiw_tail_len(23, 2), 2U);
	EXPECT_EQ(kiw_tail_len(0, 100), 8U);
	EXPECT_EQ(kiw_tail_len(23, 0), 0U);
}

// Every place and length: the octets asked for are stored, and no other.
TEST(Tail, is_stored_to_the_octet)
{
	for (std::size_t end = 9; end <= 24; end++) {
		for (std::uint32_t n = 1; n <= kiw_tail_len(end, KIW_TAIL_MAX); n++) {
			Memory to{};
			std::vector<std::uint8_t> from(n);

			for (std::uint32_t i = 0; i < n; i++)
				from[i] = static_cast<std::uint8_t>(0xa0 + i);
			kiw_tail_store(to.octets + end - n, from.data(), n);
			for (std::size_t at = 0; at < room; at++) {
				const bool within = at >= end - n && at < end;
				EXPECT_EQ(to.octets[at], within ? from[at - (end - n)] : 0)
					<< end << " " << n << " " << at;
			}
		}
	}
}

// Another thread that sees the last octet sees all octets before it.
TEST(Tail, shows_the_last_octet_last)
{
	for (std::size_t end = 9; end <= 16; end++) {
		Memory to{};
		std::atomic<bool> stop = false;
		std::atomic<std::uint32_t> seen = 0, wrong = 0;
		const std::uint32_t n = kiw_tail_len(end, KIW_TAIL_MAX);
		std::thread poller([&] {
			for (std::uint8_t want = 1; !stop; want = want == 255 ? 1 : want + 1) {
				// Where there are fewer CPUs than threads, the other one needs this one.
				for (unsigned spins = 1; __atomic_load_n(&to.octets[end - 1], __ATOMIC_ACQUIRE) != want;
					spins++) {
					if (stop)
						return;
					if (spins % 1024 == 0)
						std::this_thread::yield();
				}
				for (std::size_t at = end - n; at < end; at++)
					wrong += __atomic_load_n(&to.octets[at], __ATOMIC_RELAXED) != want;
				seen++;
			}
		});
		std::uint8_t value = 1;

		for (std::uint32_t round = 0; round < 300; round++) {
			const std::vector<std::uint8_t> from(n, value);

			kiw_tail_store(to.octets + end - n, from.data(), n);
			while (seen != round + 1)
				std::this_thread::yield();
			value = value == 255 ? 1 : value + 1;
		}
		stop = true;
		poller.join();
		EXPECT_EQ(wrong, 0U) << end;
	}
}

} // namespace
