// SPDX-License-Identifier: GPL-2.0
#include "support.hpp"

namespace {

std::uint64_t add(std::uint64_t old, std::uint64_t data, std::uint64_t mask)
{
	const kiw_atomic at{KIW_ATOMIC_FETCH_ADD, 0, 0, 0, data, mask, 0, 0};
	u64 now = 0;
	EXPECT_TRUE(kiw_atomic_apply(&at, old, &now));
	return now;
}

std::uint64_t swap(std::uint64_t old, std::uint64_t data, std::uint64_t mask, std::uint64_t cmp, std::uint64_t cmp_mask)
{
	const kiw_atomic at{KIW_ATOMIC_CMP_SWAP, 0, 0, 0, data, mask, cmp, cmp_mask};
	u64 now = 0;
	EXPECT_TRUE(kiw_atomic_apply(&at, old, &now));
	return now;
}

// Bit by bit, as the RFC describes it
std::uint64_t slow_add(std::uint64_t old, std::uint64_t data, std::uint64_t mask)
{
	std::uint64_t sum = 0;
	unsigned carry = 0;
	for (int i = 0; i < 64; i++) {
		const unsigned bits = (old >> i & 1) + (data >> i & 1) + carry;
		sum |= std::uint64_t{bits & 1} << i;
		carry = mask >> i & 1 ? 0 : bits >> 1;
	}
	return sum;
}

TEST(Atomic, add_without_mask_is_plain_addition)
{
	EXPECT_EQ(add(37, 5, 0), 42u);
	EXPECT_EQ(add(UINT64_MAX, 1, 0), 0u);
}

TEST(Atomic, mask_makes_independent_adders)
{
	const std::uint64_t halves = 0x8000000080000000;
	EXPECT_EQ(add(0x00000001ffffffff, 0x0000000100000001, halves), 0x0000000200000000u);
	EXPECT_EQ(add(0xffffffffffffffff, 0x0000000100000001, halves), 0u);
}

TEST(Atomic, add_agrees_with_the_bitwise_definition)
{
	std::uint64_t x = 88172645463325252;
	auto random = [&x] {
		x ^= x << 13;
		x ^= x >> 7;
		return x ^= x << 17;
	};
	for (int i = 0; i < 20000; i++) {
		const auto old = random(), data = random();
		auto mask = random();
		mask &= random();
		ASSERT_EQ(add(old, data, mask), slow_add(old, data, mask));
	}
	EXPECT_EQ(add(0x1234, 0xff, UINT64_MAX), 0x1234u ^ 0xff);
}

TEST(Atomic, swap_happens_only_on_a_match)
{
	EXPECT_EQ(swap(0x2a, 0x1111, UINT64_MAX, 0x2a, UINT64_MAX), 0x1111u);
	EXPECT_EQ(swap(0x2b, 0x1111, UINT64_MAX, 0x2a, UINT64_MAX), 0x2bu);
}

TEST(Atomic, masks_limit_what_is_compared_and_swapped)
{
	EXPECT_EQ(swap(0xaabbccdd, 0x11223344, 0xff00, 0x000000dd, 0xff), 0xaabb33ddu);
	EXPECT_EQ(swap(0xaabbccdd, 0x11223344, 0xff00, 0x000000de, 0xff), 0xaabbccddu);
	EXPECT_EQ(swap(0xaabbccdd, 0x11223344, UINT64_MAX, 0, 0), 0x11223344u);
}

TEST(Atomic, unknown_operation_is_refused)
{
	for (unsigned op = 0; op < 16; op++) {
		const kiw_atomic at{static_cast<std::uint8_t>(op), 0, 0, 0, 1, 0, 0, 0};
		u64 now = 77;
		const bool known = op == KIW_ATOMIC_FETCH_ADD || op == KIW_ATOMIC_CMP_SWAP;
		EXPECT_EQ(kiw_atomic_apply(&at, 5, &now), known);
		if (!known) {
			EXPECT_EQ(now, 77u);
		}
	}
}

} // namespace
