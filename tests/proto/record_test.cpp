// SPDX-License-Identifier: GPL-2.0
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>

#include "proto/record.h"
#include "support.hpp"

namespace {

constexpr std::uint32_t seg_size = 100;

kiw_dgram_write message(std::uint32_t segs, std::uint32_t last = seg_size)
{
	return {.stag = 1, .to = 2, .id = 3, .length = (segs - 1) * seg_size + last, .seg_size = seg_size};
}

kiw_record begun(const kiw_dgram_write &w)
{
	kiw_record r;

	std::memset(&r, 0xee, sizeof(r));
	kiw_record_begin(&r, &w);
	return r;
}

bool bit(const u64 *map, std::uint32_t n)
{
	return map[n / 64] >> n % 64 & 1;
}

TEST(Record, begins_with_everything_missing)
{
	for (const std::uint32_t segs : {1u, 2u, 64u, 65u, 1024u}) {
		const kiw_record r = begun(message(segs, 7));
		u64 map[2] = {1, 1};

		EXPECT_EQ(r.missing, segs);
		EXPECT_EQ(r.valid, 0u);
		for (std::uint32_t n = 0; n < segs; n++)
			EXPECT_FALSE(kiw_record_has(&r, n * seg_size));
		kiw_record_map(&r, map);
		EXPECT_EQ(map[0] | map[1], 0u);
	}
}

TEST(Record, counts_in_whatever_order)
{
	std::mt19937 random(1); // NOLINT(cert-msc32-c,cert-msc51-cpp)

	for (const std::uint32_t segs : {1u, 2u, 63u, 64u, 65u, 128u, 129u, 1000u, 1024u}) {
		kiw_record r = begun(message(segs, 7));
		std::vector<std::uint32_t> order(segs);
		std::uint32_t valid = 0;

		std::iota(order.begin(), order.end(), 0);
		std::shuffle(order.begin(), order.end(), random);
		for (std::uint32_t done = 0; done < segs; done++) {
			const std::uint32_t n = order[done];
			EXPECT_FALSE(kiw_record_has(&r, n * seg_size));
			kiw_record_add(&r, n * seg_size);
			EXPECT_TRUE(kiw_record_has(&r, n * seg_size));
			valid += n == segs - 1 ? 7 : seg_size;
			EXPECT_EQ(r.valid, valid);
			EXPECT_EQ(r.missing, segs - 1 - done);
		}
		EXPECT_EQ(r.valid, r.write.length);
	}
}

TEST(Record, an_empty_message_is_one_segment)
{
	kiw_record r = begun({.stag = 1, .to = 2, .id = 3, .length = 0, .seg_size = 5});

	EXPECT_EQ(r.missing, 1u);
	kiw_record_add(&r, 0);
	EXPECT_EQ(r.missing, 0u);
	EXPECT_EQ(r.valid, 0u);
}

TEST(Record, map_has_a_bit_for_each_segment_of_up_to_128)
{
	for (const std::uint32_t segs : {1u, 64u, 65u, 128u}) {
		kiw_record r = begun(message(segs));
		u64 map[2];

		EXPECT_EQ(kiw_record_map_unit(segs), 1u);
		for (std::uint32_t n = 0; n < segs; n += 3)
			kiw_record_add(&r, n * seg_size);
		kiw_record_map(&r, map);
		for (std::uint32_t n = 0; n < 128; n++)
			EXPECT_EQ(bit(map, n), n < segs && n % 3 == 0) << segs << " " << n;
	}
}

// A bit of a longer message is set only when nothing is missing of what it stands for.
TEST(Record, map_of_a_longer_message_tells_less)
{
	for (const std::uint32_t segs : {129u, 256u, 300u, 1023u, 1024u}) {
		const std::uint32_t unit = kiw_record_map_unit(segs);
		u64 map[2];

		EXPECT_EQ(unit, (segs + 127) / 128);
		for (const std::uint32_t lost : {0u, 1u, unit - 1, unit, segs / 2, segs - 1}) {
			kiw_record r = begun(message(segs));
			for (std::uint32_t n = 0; n < segs; n++)
				if (n != lost)
					kiw_record_add(&r, n * seg_size);
			kiw_record_map(&r, map);
			for (std::uint32_t n = 0; n < 128; n++)
				EXPECT_EQ(bit(map, n), n * unit < segs && n != lost / unit) << segs << " " << n;
		}
	}
}

TEST(Record, a_segment_must_say_the_same_as_the_first)
{
	const kiw_dgram_write w = message(3);
	const kiw_record r = begun(w);
	kiw_dgram_write other = w;

	EXPECT_TRUE(kiw_record_same(&r, &w));
	other.stag++;
	EXPECT_FALSE(kiw_record_same(&r, &other));
	other = w;
	other.to++;
	EXPECT_FALSE(kiw_record_same(&r, &other));
	other = w;
	other.length++;
	EXPECT_FALSE(kiw_record_same(&r, &other));
	other = w;
	other.seg_size--;
	EXPECT_FALSE(kiw_record_same(&r, &other));
	other = w;
	other.id++;
	EXPECT_FALSE(kiw_record_same(&r, &other));
}

// --- messages of a sender ------------------------------------------------------------------------

kiw_past past(std::uint32_t id)
{
	kiw_past p;

	std::memset(&p, 0xee, sizeof(p));
	kiw_past_begin(&p, id);
	return p;
}

// Numbers around 0 as well as others
constexpr std::uint32_t starts[] = {0, 1, 1023, 5000, 0x7fffffff, 0x80000000, 0xfffffc00, 0xffffffff};

TEST(Past, begins_with_one_number)
{
	for (const std::uint32_t id : starts) {
		const kiw_past p = past(id);

		EXPECT_TRUE(kiw_past_has(&p, id));
		for (std::uint32_t n = 1; n < KIW_PAST_NUMBERS; n++)
			EXPECT_FALSE(kiw_past_has(&p, id - n)) << n;
		for (std::uint32_t n = 1; n < 3 * KIW_PAST_NUMBERS; n++)
			EXPECT_FALSE(kiw_past_has(&p, id + n)) << n;
	}
}

TEST(Past, what_is_far_behind_is_over)
{
	for (const std::uint32_t id : starts) {
		const kiw_past p = past(id);

		EXPECT_FALSE(kiw_past_has(&p, id - KIW_PAST_NUMBERS + 1));
		for (const std::uint32_t behind :
			{std::uint32_t{KIW_PAST_NUMBERS}, std::uint32_t{KIW_PAST_NUMBERS} + 1, KIW_PAST_REACH})
			EXPECT_TRUE(kiw_past_has(&p, id - behind)) << behind;
		EXPECT_FALSE(kiw_past_has(&p, id + KIW_PAST_REACH));
	}
}

TEST(Past, goes_ahead_as_far_as_it_reaches)
{
	for (const std::uint32_t id : starts) {
		kiw_past p = past(id);

		kiw_past_add(&p, id + KIW_PAST_REACH);
		EXPECT_EQ(p.highest, id + KIW_PAST_REACH);
		EXPECT_TRUE(kiw_past_has(&p, id + KIW_PAST_REACH));
	}
}

TEST(Past, what_is_far_behind_takes_no_place)
{
	for (const std::uint32_t id : starts) {
		kiw_past p = past(id);

		kiw_past_add(&p, id - 2 * KIW_PAST_NUMBERS + 3);
		kiw_past_add(&p, id - KIW_PAST_NUMBERS - 5);
		for (std::uint32_t n = 1; n < KIW_PAST_NUMBERS; n++)
			EXPECT_FALSE(kiw_past_has(&p, id - n)) << n;
	}
}

TEST(Past, reaches_as_far_in_both_directions)
{
	for (const std::uint32_t id : starts) {
		const kiw_past p = past(id);

		for (const std::uint32_t n : {0U, 1U, KIW_PAST_REACH - 1, KIW_PAST_REACH}) {
			EXPECT_TRUE(kiw_past_reaches(&p, id + n)) << n;
			EXPECT_TRUE(kiw_past_reaches(&p, id - n)) << n;
		}
		for (const std::uint32_t n : {KIW_PAST_REACH + 1, 0x7fffffffU, 0x80000000U}) {
			EXPECT_FALSE(kiw_past_reaches(&p, id + n)) << n;
			EXPECT_FALSE(kiw_past_reaches(&p, id - n)) << n;
		}
	}
}

// Any order, beside a set of all numbers
TEST(Past, agrees_with_a_set)
{
	std::mt19937 random(1); // NOLINT(cert-msc32-c,cert-msc51-cpp)

	for (const std::uint32_t start : starts) {
		kiw_past p = past(start);
		std::set<std::int64_t> over{0}; // from the start on
		std::int64_t highest = 0;

		for (int i = 0; i < 3000; i++) {
			const std::int64_t step = random() % 200 ? random() % 60 : random() % 3000;
			const std::int64_t n = highest + step - 30;
			const auto id = static_cast<std::uint32_t>(start + n);
			const bool is_over = n <= highest - KIW_PAST_NUMBERS || over.contains(n);

			ASSERT_EQ(kiw_past_has(&p, id), is_over) << start << " " << n << " " << highest;
			kiw_past_add(&p, id);
			ASSERT_TRUE(kiw_past_has(&p, id));
			over.insert(n);
			highest = std::max(highest, n);
			EXPECT_EQ(p.highest, static_cast<std::uint32_t>(start + highest));
		}
	}
}

} // namespace
