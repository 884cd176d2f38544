// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <array>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>

#include "proto/acks.h"

namespace {

struct Acks : kiw_acks {
	Acks() : kiw_acks{} { mark = marks.data(); }
	Acks(const Acks &) = delete;
	Acks &operator=(const Acks &) = delete;
	std::array<kiw_acks_mark, KIW_ACKS_MARKS> marks{};
};

/// The index that is acknowledged when all before a byte is, or 0 if there is no news
u32 taken(kiw_acks &acks, u32 una)
{
	u32 index = 0;
	const bool any = kiw_acks_any(&acks, una);

	kiw_acks_take(&acks, una, &index);
	EXPECT_EQ(any, index != 0);
	return index;
}

TEST(Acks, AreTakenInOrder)
{
	Acks acks;

	EXPECT_EQ(taken(acks, 1000), 0U);
	kiw_acks_add(&acks, 1, 100);
	kiw_acks_add(&acks, 3, 300);
	kiw_acks_add(&acks, 4, 400);
	EXPECT_EQ(taken(acks, 99), 0U);
	EXPECT_EQ(taken(acks, 100), 1U);
	EXPECT_EQ(taken(acks, 100), 0U);
	EXPECT_EQ(taken(acks, 399), 3U);
	EXPECT_EQ(taken(acks, 401), 4U);
	EXPECT_EQ(acks.num, 0);
}

TEST(Acks, OfRequestsWithoutBytesComeAtOnce)
{
	Acks acks;

	kiw_acks_add(&acks, 1, 100);
	kiw_acks_add(&acks, 2, 100);
	EXPECT_EQ(taken(acks, 100), 2U);
}

TEST(Acks, AreComparedAcrossTheWrap)
{
	Acks acks;

	kiw_acks_add(&acks, 0xffffffff, 0xfffffff0);
	kiw_acks_add(&acks, 1, 0x10);
	EXPECT_EQ(taken(acks, 0xffffffef), 0U);
	EXPECT_EQ(taken(acks, 0xfffffff0), 0xffffffff);
	EXPECT_EQ(taken(acks, 0xf), 0U);
	EXPECT_EQ(taken(acks, 0x10), 1U);
}

TEST(Acks, TheLastMarkStandsForLaterOnes)
{
	Acks acks;

	for (u32 i = 1; i <= KIW_ACKS_MARKS + 3; i++)
		kiw_acks_add(&acks, i, 10 * i);
	EXPECT_EQ(acks.num, KIW_ACKS_MARKS);
	for (u32 i = 1; i < KIW_ACKS_MARKS; i++)
		EXPECT_EQ(taken(acks, 10 * i), i);
	EXPECT_EQ(taken(acks, 10 * (KIW_ACKS_MARKS + 2)), 0U);
	EXPECT_EQ(taken(acks, 10 * (KIW_ACKS_MARKS + 3)), std::uint32_t(KIW_ACKS_MARKS + 3));
}

// No request completes before its own bytes are acknowledged, and none waits once all are.
TEST(Acks, OfMoreThanThereAreMarksComeWithLaterOnes)
{
	constexpr u32 many = 5 * KIW_ACKS_MARKS;
	Acks acks;
	u32 done = 0;

	for (u32 i = 1; i <= many; i++) {
		kiw_acks_add(&acks, i, 10 * i);
		if (i % 4 == 0) {
			const u32 una = 5 * i;

			kiw_acks_take(&acks, una, &done);
			EXPECT_LE(10 * done, una);
		}
	}
	EXPECT_LT(done, many);
	EXPECT_NE(taken(acks, 10 * many - 1), many);
	EXPECT_EQ(taken(acks, 10 * many), many);
	EXPECT_EQ(acks.num, 0);
}

} // namespace
