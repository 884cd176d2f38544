// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What records say of their message, and of memory; without a device.
#include <cerrno>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "../lib/record.hpp"

extern "C" std::uint64_t missing_in_c(const kiwarpdv_record *record);

namespace record {
namespace {

kiwarpdv_record made(std::uint32_t segs, std::uint32_t seg_size, std::uint32_t length, std::uint64_t map0,
	std::uint64_t map1 = 0, std::uint64_t addr = 1000)
{
	kiwarpdv_record record{};

	record.addr = addr;
	record.length = length;
	record.seg_size = seg_size;
	record.segs = segs;
	record.unit = (segs + 127) / 128;
	record.map[0] = map0;
	record.map[1] = map1;
	return record;
}

TEST(Holes, AreRunsOfMissingSegments)
{
	EXPECT_EQ(holes(made(5, 10, 45, 0b10101)), Ranges({{10, 10}, {30, 10}}));
	EXPECT_EQ(valid(made(5, 10, 45, 0b10101)), Ranges({{0, 10}, {20, 10}, {40, 5}}));
	EXPECT_EQ(holes(made(5, 10, 45, 0)), Ranges({{0, 45}}));
	EXPECT_EQ(holes(made(5, 10, 45, 0b11111)), Ranges());
	EXPECT_EQ(valid(made(5, 10, 45, ~0ULL)), Ranges({{0, 45}})); // bits behind the last mean nothing
	EXPECT_EQ(holes(made(1, 10, 0, 0)), Ranges());
}

TEST(Holes, GoFromOneWordOfTheMapToTheNext)
{
	EXPECT_EQ(holes(made(128, 10, 1280, ~(1ULL << 63), ~1ULL)), Ranges({{630, 20}}));
	EXPECT_EQ(holes(made(128, 10, 1275, ~0ULL, ~(1ULL << 63))), Ranges({{1270, 5}}));
}

TEST(Holes, CoverSeveralSegmentsOfALongMessage)
{
	const kiwarpdv_record record = made(1000, 10, 9995, ~0ULL, ~(1ULL << 60));

	EXPECT_EQ(record.unit, 8);
	EXPECT_EQ(holes(record), Ranges({{9920, 75}})); // bit 124 is the last
}

TEST(Holes, AreToldInCAsWell)
{
	const kiwarpdv_record record = made(5, 10, 45, 0b10101);

	EXPECT_EQ(missing_in_c(&record), 20);
}

TEST(Holes, TellingEndsWhereTheFunctionSaysSo)
{
	const kiwarpdv_record record = made(5, 10, 45, 0b10101);
	int calls = 0;

	EXPECT_EQ(kiwarpdv_for_each_hole(
			  &record,
			  [](void *argument, std::uint64_t, std::uint32_t) {
				  ++*static_cast<int *>(argument);
				  return 42;
			  },
			  &calls),
		42);
	EXPECT_EQ(calls, 1);
}

struct Destroy {
	void operator()(kiwarpdv_validity *validity) const { kiwarpdv_destroy_validity(validity); }
};
using Validity = std::unique_ptr<kiwarpdv_validity, Destroy>;

TEST(Validity, IsOfWholeGranules)
{
	const Validity all(kiwarpdv_create_validity(1000, 100, 8));
	const kiwarpdv_record record = made(3, 20, 60, 0b011, 0, 1010); // bytes 10 to 50

	ASSERT_NE(all, nullptr);
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1016, 1));
	kiwarpdv_add_record(all.get(), &record);
	EXPECT_TRUE(kiwarpdv_is_valid(all.get(), 1016, 32));
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1015, 2));
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1047, 2));
	kiwarpdv_invalidate(all.get(), 1025, 1);
	EXPECT_TRUE(kiwarpdv_is_valid(all.get(), 1016, 8));
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1024, 1));
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1031, 1));
	EXPECT_TRUE(kiwarpdv_is_valid(all.get(), 1032, 16));
}

TEST(Validity, EndsWhereTheMemoryDoes)
{
	const Validity all(kiwarpdv_create_validity(1000, 100, 8));
	const kiwarpdv_record before = made(1, 20, 20, 1, 0, 985);
	const kiwarpdv_record behind = made(1, 50, 50, 1, 0, 1090);
	const kiwarpdv_record outside = made(1, 50, 50, 1, 0, 1100);

	kiwarpdv_add_record(all.get(), &before);
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1000, 1)); // 5 of 8 bytes
	kiwarpdv_add_record(all.get(), &behind);
	EXPECT_TRUE(kiwarpdv_is_valid(all.get(), 1096, 4)); // the last granule has no more
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1095, 5));
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1096, 5));
	kiwarpdv_add_record(all.get(), &outside);
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1100, 1));
	EXPECT_TRUE(kiwarpdv_is_valid(all.get(), 5, 0));
	kiwarpdv_invalidate(all.get(), 0, UINT64_MAX);
	EXPECT_FALSE(kiwarpdv_is_valid(all.get(), 1096, 1));
}

// Any message against any range, byte by byte
TEST(Validity, AgreesWithCounting)
{
	for (const std::uint32_t granule : {1u, 3u, 8u})
		for (std::uint64_t addr = 90; addr < 125; addr++)
			for (std::uint32_t length = 1; length < 30; length += 4) {
				const Validity all(kiwarpdv_create_validity(100, 20, granule));
				const kiwarpdv_record record = made(1, length, length, 1, 0, addr);

				kiwarpdv_add_record(all.get(), &record);
				for (std::uint64_t byte = 100; byte < 120; byte++) {
					const std::uint64_t first = 100 + (byte - 100) / granule * granule;
					const std::uint64_t end = std::min<std::uint64_t>(first + granule, 120);
					const bool whole = addr <= first && addr + length >= end;

					EXPECT_EQ(kiwarpdv_is_valid(all.get(), byte, 1), whole)
						<< granule << " " << addr << " " << length << " " << byte;
				}
			}
}

// The last granule would end behind them.
TEST(Validity, MayReachTheEndOfAllAddresses)
{
	constexpr std::uint64_t granules = std::uint64_t{1} << 32;
	const Validity all(kiwarpdv_create_validity(0, UINT64_MAX, UINT32_MAX));
	const kiwarpdv_record record = made(1, 4096, 4096, 1, 0, UINT64_MAX - 8192);

	ASSERT_NE(all, nullptr);
	kiwarpdv_add_record(all.get(), &record);
	for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, granules / 2, granules - 1, granules})
		EXPECT_FALSE(kiwarpdv_is_valid(all.get(), n * UINT32_MAX, 1)) << n;
}

TEST(Validity, NonsenseIsRefused)
{
	errno = 0;
	EXPECT_EQ(kiwarpdv_create_validity(0, 0, 1), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(kiwarpdv_create_validity(0, 1, 0), nullptr);
	EXPECT_EQ(kiwarpdv_create_validity(UINT64_MAX, 2, 1), nullptr);
	const Validity last(kiwarpdv_create_validity(UINT64_MAX, 1, 1));
	EXPECT_NE(last, nullptr);
	kiwarpdv_destroy_validity(nullptr);
}

} // namespace
} // namespace record
