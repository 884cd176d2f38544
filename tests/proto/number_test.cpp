// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <algorithm>
#include <array>
#include <cstddef>
#include <gtest/gtest.h>

#include "proto/number.h"

namespace {

using Data = std::array<u8, KIW_NUMBER_LEN>;

constexpr kiw_number left{.from = 0x10001, .to = 0x20002, .sq_psn = 0xabcdef, .rq_psn = 0x123456, .ready = true};
constexpr kiw_number right{.from = 0x20002, .to = 0x10001, .sq_psn = 0x123456, .rq_psn = 0xabcdef, .ready = true};

Data built(const kiw_number &n)
{
	Data data;

	data.fill(0xee);
	kiw_number_build(data.data(), &n);
	return data;
}

kiw_number unready(kiw_number n)
{
	n.ready = false;
	n.sq_psn = 0;
	return n;
}

TEST(Number, IsWrittenAsDocumented)
{
	const Data expected{
		'k', 'i', 'w', 'N', 1, 1, 0, 0, 0, 1, 0, 1, 0, 2, 0, 2, 0, 0xab, 0xcd, 0xef, 0, 0x12, 0x34, 0x56};

	EXPECT_EQ(built(left), expected);
}

TEST(Number, ComesBackAsItWas)
{
	for (const kiw_number &n : {left, right, unready(left)}) {
		kiw_number back{};

		ASSERT_TRUE(kiw_number_parse(built(n).data(), KIW_NUMBER_LEN, &back));
		EXPECT_EQ(back.from, n.from);
		EXPECT_EQ(back.to, n.to);
		EXPECT_EQ(back.sq_psn, n.sq_psn);
		EXPECT_EQ(back.rq_psn, n.rq_psn);
		EXPECT_EQ(back.ready, n.ready);
	}
}

TEST(Number, APsnThatIsntValidIsntTold)
{
	kiw_number n = left;

	n.ready = false;
	EXPECT_EQ(built(n), built(unready(left)));
}

TEST(Number, OtherFormatsAreRefused)
{
	const Data good = built(left);
	kiw_number n;

	for (u32 len = 0; len < KIW_NUMBER_LEN; len++)
		EXPECT_FALSE(kiw_number_parse(good.data(), len, &n)) << len;
	std::array<u8, KIW_NUMBER_LEN + 1> longer{};
	std::copy(good.begin(), good.end(), longer.begin());
	EXPECT_FALSE(kiw_number_parse(longer.data(), longer.size(), &n));
	// Magic, version, flags, reserved, and what is above 24 bits
	for (const std::size_t at : {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20}) {
		Data bad = good;

		bad.at(at) ^= 0x80;
		EXPECT_FALSE(kiw_number_parse(bad.data(), bad.size(), &n)) << at;
	}
	Data bad = good;
	bad[5] = 0; // not ready, with a PSN
	EXPECT_FALSE(kiw_number_parse(bad.data(), bad.size(), &n));
}

TEST(Number, TwoThatNameEachOtherMeet)
{
	EXPECT_TRUE(kiw_number_meets(&left, &right));
	EXPECT_TRUE(kiw_number_meets(&right, &left));
}

TEST(Number, OneThatMaySendIsEnough)
{
	const kiw_number quiet = unready(left);

	EXPECT_TRUE(kiw_number_meets(&quiet, &right));
	EXPECT_TRUE(kiw_number_meets(&right, &quiet));
	const kiw_number both = unready(right);
	EXPECT_FALSE(kiw_number_meets(&quiet, &both));
	EXPECT_FALSE(kiw_number_meets(&both, &quiet));
}

TEST(Number, AStrangerDoesntMeet)
{
	for (u32 kiw_number::*field : {&kiw_number::from, &kiw_number::to, &kiw_number::sq_psn, &kiw_number::rq_psn}) {
		kiw_number stranger = left;

		stranger.*field ^= 1;
		EXPECT_FALSE(kiw_number_meets(&right, &stranger));
		EXPECT_FALSE(kiw_number_meets(&stranger, &right));
	}
	// What one that doesn't send yet says of its PSN doesn't count, and what it expects does.
	kiw_number quiet = unready(left);
	quiet.rq_psn ^= 1;
	EXPECT_FALSE(kiw_number_meets(&right, &quiet));
}

TEST(Number, ExactlyOneEndDials)
{
	std::array<u8, 16> low{}, high{};

	low[15] = 1;
	high[0] = 1;
	EXPECT_TRUE(kiw_number_dials(high.data(), 1, low.data(), 2));
	EXPECT_FALSE(kiw_number_dials(low.data(), 2, high.data(), 1));
	EXPECT_TRUE(kiw_number_dials(low.data(), 2, low.data(), 1));
	EXPECT_FALSE(kiw_number_dials(low.data(), 1, low.data(), 2));
	EXPECT_FALSE(kiw_number_dials(low.data(), 1, low.data(), 1)); // itself: neither
}

} // namespace
