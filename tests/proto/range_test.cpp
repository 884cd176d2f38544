// SPDX-License-Identifier: GPL-2.0
#include <utility>

#include "support.hpp"

namespace {

TEST(Range, octet_exact_at_both_ends)
{
	EXPECT_EQ(kiw_range_check(1000, 100, 1000, 100), KIW_RANGE_OK);
	EXPECT_EQ(kiw_range_check(1000, 100, 1099, 1), KIW_RANGE_OK);
	EXPECT_EQ(kiw_range_check(1000, 100, 999, 1), KIW_RANGE_BOUNDS);
	EXPECT_EQ(kiw_range_check(1000, 100, 1099, 2), KIW_RANGE_BOUNDS);
	EXPECT_EQ(kiw_range_check(1000, 100, 1100, 1), KIW_RANGE_BOUNDS);
	EXPECT_EQ(kiw_range_check(1000, 0, 1000, 1), KIW_RANGE_BOUNDS);
}

TEST(Range, empty_access_is_never_checked)
{
	for (std::uint64_t to : {std::uint64_t{0}, std::uint64_t{999}, UINT64_MAX})
		EXPECT_EQ(kiw_range_check(1000, 100, to, 0), KIW_RANGE_OK);
}

TEST(Range, wrapping_is_told_apart_from_bounds)
{
	EXPECT_EQ(kiw_range_check(0, 100, UINT64_MAX - 3, 8), KIW_RANGE_WRAP);
	EXPECT_EQ(kiw_range_check(0, 100, UINT64_MAX - 3, 4), KIW_RANGE_WRAP);
	EXPECT_EQ(kiw_range_check(0, 100, UINT64_MAX - 3, 3), KIW_RANGE_BOUNDS);
	EXPECT_EQ(kiw_range_check(0, UINT64_MAX, 1, UINT32_MAX), KIW_RANGE_OK);
	EXPECT_EQ(kiw_range_check(0, UINT64_MAX, UINT64_MAX, UINT32_MAX), KIW_RANGE_WRAP);
}

// A sum of 65 bits: whether it has the highest, and the others
std::pair<bool, std::uint64_t> sum(std::uint64_t a, std::uint64_t b)
{
	return {a + b < a, a + b};
}

TEST(Range, agrees_with_wide_arithmetic)
{
	const std::uint64_t marks[] = {
		0, 1, 2, 7, 8, 0x7fffffffffffffff, 0x8000000000000000, UINT64_MAX - 8, UINT64_MAX - 1, UINT64_MAX};
	const std::uint32_t sizes[] = {1, 2, 7, 8, 0x7fffffff, 0xffffffff};
	for (auto base : marks) {
		for (auto len : marks) {
			for (auto to : marks) {
				for (auto n : sizes) {
					const auto end = sum(to, n);
					kiw_range expected = KIW_RANGE_OK;
					if (end.first)
						expected = KIW_RANGE_WRAP;
					else if (to < base || end > sum(base, len))
						expected = KIW_RANGE_BOUNDS;
					EXPECT_EQ(kiw_range_check(base, len, to, n), expected)
						<< base << " " << len << " " << to << " " << n;
				}
			}
		}
	}
}

} // namespace
