// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notice.hpp"

#include <gtest/gtest.h>
#include <vector>

namespace {

using kiws::Notice;

constexpr Notice example = {.kind = Notice::leave,
	.answer = true,
	.length = 3,
	.slots = 0x102,
	.written = 0x1122334455667788,
	.consumed = 0x8877665544332211,
	.argument = 0x0102030405060708};

std::vector<std::uint8_t> octets_of(const Notice &notice)
{
	std::vector<std::uint8_t> octets(Notice::header + notice.length);

	notice.write(octets.data());
	return octets;
}

TEST(Notices, AreReadAsTheyWereWritten)
{
	const std::vector<std::uint8_t> octets = octets_of(example);
	Notice read{};

	ASSERT_TRUE(read.read(octets.data(), octets.size()));
	EXPECT_EQ(read.kind, example.kind);
	EXPECT_EQ(read.answer, example.answer);
	EXPECT_EQ(read.length, example.length);
	EXPECT_EQ(read.slots, example.slots);
	EXPECT_EQ(read.written, example.written);
	EXPECT_EQ(read.consumed, example.consumed);
	EXPECT_EQ(read.argument, example.argument);
}

TEST(Notices, HaveTheirPlacesOnTheWire)
{
	const std::vector<std::uint8_t> octets = octets_of(example);
	const std::vector<std::uint8_t> expected = {2, 1, 0, 3, 1, 2, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
		0x88, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0};

	EXPECT_EQ(octets, expected);
}

TEST(Notices, OfAWrongSizeAreNone)
{
	const std::vector<std::uint8_t> octets = octets_of(example);
	Notice read{};

	for (std::size_t size = 0; size < octets.size(); size++)
		EXPECT_FALSE(read.read(octets.data(), size)) << size;
	std::vector<std::uint8_t> longer = octets;
	longer.push_back(0);
	EXPECT_FALSE(read.read(longer.data(), longer.size()));
}

TEST(Notices, AreNoLongerThanASlot)
{
	Notice notice = example, read{};

	notice.length = Notice::most;
	std::vector<std::uint8_t> octets = octets_of(notice);
	EXPECT_TRUE(read.read(octets.data(), octets.size()));
	notice.length = Notice::most + 1;
	octets = octets_of(notice);
	EXPECT_FALSE(read.read(octets.data(), octets.size()));
}

TEST(Notices, OfOtherKindsAreNone)
{
	std::vector<std::uint8_t> octets = octets_of(example);
	Notice read{};

	for (unsigned kind = 0; kind < 256; kind++) {
		octets[0] = static_cast<std::uint8_t>(kind);
		EXPECT_EQ(read.read(octets.data(), octets.size()), kind < Notice::kinds) << kind;
	}
	for (const std::size_t reserved : {1, 6, 7}) {
		octets = octets_of(example);
		octets[reserved] = 2;
		EXPECT_FALSE(read.read(octets.data(), octets.size())) << reserved;
	}
}

} // namespace
