// SPDX-License-Identifier: GPL-2.0
#include "support.hpp"

namespace {

std::uint32_t crc(const Bytes &b)
{
	return le32_to_cpu(kiw_crc_wire(kiw_crc_update(kiw_crc_init(), b.data(), b.size())));
}

TEST(Crc, matches_published_values)
{
	const Bytes up = counting(32);
	EXPECT_EQ(crc(bytes("123456789")), 0xe3069283);
	EXPECT_EQ(crc(Bytes(32, 0x00)), 0x8a9136aa);
	EXPECT_EQ(crc(Bytes(32, 0xff)), 0x62a8ab43);
	EXPECT_EQ(crc(up), 0x46dd794e);
	EXPECT_EQ(crc(Bytes(up.rbegin(), up.rend())), 0x113fdb5c);
	EXPECT_EQ(crc({}), 0u);
}

TEST(Crc, goes_out_least_significant_octet_first)
{
	// The trailer printed in RFC 5044 figure 5: a marker, then a Send of 24 zeros
	const Bytes covered = Bytes(4) + Bytes{0x00, 0x2a} + untagged(KIW_OP_SEND, 0, 1, 0, Bytes(24));
	const __le32 wire = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), covered.data(), covered.size()));
	const Bytes expected{0x52, 0x23, 0x99, 0x83};
	EXPECT_EQ(std::memcmp(&wire, expected.data(), 4), 0);
}

TEST(Crc, does_not_depend_on_how_octets_are_split)
{
	const Bytes b = counting(100);
	for (std::size_t cut = 0; cut <= b.size(); cut++) {
		const auto head = kiw_crc_update(kiw_crc_init(), b.data(), cut);
		const auto both = kiw_crc_update(head, b.data() + cut, b.size() - cut);
		EXPECT_EQ(le32_to_cpu(kiw_crc_wire(both)), crc(b));
	}
}

TEST(Crc, has_the_instruction_where_the_processor_has_it)
{
	ASSERT_NE(kiw_crc_way_get(0), nullptr);
#if defined(__x86_64__)
	EXPECT_EQ(kiw_crc_way_get(1) != nullptr, __builtin_cpu_supports("sse4.2") != 0);
#endif
	EXPECT_EQ(kiw_crc_way_get(2), nullptr);
	for (std::size_t i = 0; const kiw_crc_way *way = kiw_crc_way_get(i); i++)
		EXPECT_NE(way->name, nullptr);
}

TEST(Crc, is_the_same_in_every_way)
{
	constexpr std::size_t longest = 300, alignments = 16;

	for (std::size_t i = 0; const kiw_crc_way *way = kiw_crc_way_get(i); i++)
		for (std::size_t n = 0; n <= longest; n++)
			for (std::size_t skip = 0; skip < alignments; skip++) {
				// Ends where the memory does
				const Bytes b = counting(skip + n, static_cast<std::uint8_t>(17 * n + skip));
				const std::uint32_t start = static_cast<std::uint32_t>(n * 0x9e3779b9);
				const auto expected = kiw_crc_way_get(0)->update(start, b.data() + skip, n);

				ASSERT_EQ(way->update(start, b.data() + skip, n), expected)
					<< way->name << " " << n << " " << skip;
				ASSERT_EQ(kiw_crc_update(start, b.data() + skip, n), expected) << n << " " << skip;
			}
}

TEST(Crc, copy_equals_copy_and_update)
{
	const Bytes src = counting(5000, 7);
	for (std::size_t n : {0, 1, 4, 1023, 1024, 1025, 4095, 4096, 4097, 5000}) {
		Bytes dst(n);
		const auto got = kiw_crc_copy(kiw_crc_init(), dst.data(), src.data(), n);
		EXPECT_EQ(got, kiw_crc_update(kiw_crc_init(), src.data(), n));
		EXPECT_EQ(dst, first(src, n));
	}
}

TEST(Crc, notices_every_single_bit_flip)
{
	Bytes b = bytes(vec_send5);
	const auto good = crc(first(b, b.size() - 4));
	for (std::size_t bit = 0; bit < 8 * (b.size() - 4); bit++) {
		b[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
		EXPECT_NE(crc(first(b, b.size() - 4)), good);
		b[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
	}
}

} // namespace
