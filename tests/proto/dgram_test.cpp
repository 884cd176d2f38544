// SPDX-License-Identifier: GPL-2.0
#include "proto/dgram.h"
#include "support.hpp"

namespace {

struct Outcome {
	kiw_dgram_verdict verdict;
	kiw_dgram dgram;
};

// As the receiver does: the header alone, or what there is of it
Outcome parse(const Bytes &datagram)
{
	const Bytes hdr = first(datagram, std::min<std::size_t>(datagram.size(), KIW_DGRAM_HDR_LEN));
	Outcome o{};

	o.verdict = kiw_dgram_parse(hdr.data(), static_cast<std::uint32_t>(datagram.size()), &o.dgram);
	return o;
}

Bytes good(std::size_t payload = 10)
{
	Bytes b(KIW_DGRAM_HDR_LEN);

	EXPECT_EQ(kiw_dgram_build(b.data(), false, 0xaabbccdd, 5), b.size());
	return b + counting(payload + KIW_DGRAM_CRC_SIZE);
}

Bytes changed(std::size_t at, std::uint8_t value)
{
	Bytes b = good();

	b[at] = value;
	return b;
}

Bytes with_crc(const Bytes &b)
{
	const __le32 crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), b.data(), b.size()));
	Bytes end(sizeof(crc));

	std::memcpy(end.data(), &crc, sizeof(crc));
	return b + end;
}

TEST(Dgram, built_ones_match_the_vectors)
{
	Bytes b(KIW_DGRAM_HDR_LEN);

	kiw_dgram_build(b.data(), false, 0x11223344, 7);
	EXPECT_EQ(with_crc(b + bytes("ping")), bytes(vec_dgram_send));
	kiw_dgram_build(b.data(), true, 0x80000001, 0xffffffff);
	EXPECT_EQ(with_crc(b), bytes(vec_dgram_send_se));
}

TEST(Dgram, vectors_parse_into_what_they_were_made_from)
{
	Outcome o = parse(bytes(vec_dgram_send));
	EXPECT_EQ(o.verdict, KIW_DGRAM_OK);
	EXPECT_FALSE(o.dgram.solicited);
	EXPECT_EQ(o.dgram.qkey, 0x11223344u);
	EXPECT_EQ(o.dgram.msn, 7u);
	EXPECT_EQ(o.dgram.payload_len, 4u);
	o = parse(bytes(vec_dgram_send_se));
	EXPECT_EQ(o.verdict, KIW_DGRAM_OK);
	EXPECT_TRUE(o.dgram.solicited);
	EXPECT_EQ(o.dgram.qkey, 0x80000001u);
	EXPECT_EQ(o.dgram.msn, 0xffffffffu);
	EXPECT_EQ(o.dgram.payload_len, 0u);
}

TEST(Dgram, length_is_that_of_a_header_and_a_crc_at_least)
{
	const Bytes b = good(0);

	for (std::size_t n = 0; n < KIW_DGRAM_MIN; n++)
		EXPECT_EQ(parse(first(b, n)).verdict, KIW_DGRAM_MALFORMED) << n;
	EXPECT_EQ(parse(b).verdict, KIW_DGRAM_OK);
}

TEST(Dgram, longest_fills_a_datagram_of_ipv4)
{
	const Outcome o = parse(good(KIW_DGRAM_MAX_MSG));

	EXPECT_EQ(KIW_DGRAM_MAX, 65535 - 20 - 8);
	EXPECT_EQ(o.verdict, KIW_DGRAM_OK);
	EXPECT_EQ(o.dgram.payload_len, KIW_DGRAM_MAX_MSG);
	EXPECT_EQ(parse(good(KIW_DGRAM_MAX_MSG + 1)).verdict, KIW_DGRAM_MALFORMED);
	EXPECT_EQ(parse(good(65535 - KIW_DGRAM_MIN)).verdict, KIW_DGRAM_MALFORMED);
}

TEST(Dgram, first_octet_tells_it_from_other_traffic)
{
	for (unsigned mark = 0; mark < 256; mark++)
		EXPECT_EQ(parse(changed(0, std::uint8_t(mark))).verdict,
			mark == 0x0d ? KIW_DGRAM_OK : KIW_DGRAM_MALFORMED);
}

TEST(Dgram, other_versions_are_known_as_such)
{
	for (unsigned version = 0; version < 256; version++)
		EXPECT_EQ(parse(changed(1, std::uint8_t(version))).verdict,
			version == 0x10 ? KIW_DGRAM_OK : KIW_DGRAM_OTHER_VERSION);
}

// All values of both control octets: Send and Send with Solicited Event, untagged, the last segment, of versions 1.
// Reserved bits don't matter.
TEST(Dgram, nothing_but_whole_sends)
{
	for (unsigned ddp = 0; ddp < 256; ddp++) {
		for (unsigned rdmap = 0; rdmap < 256; rdmap++) {
			Bytes b = changed(2, std::uint8_t(ddp));
			b[3] = std::uint8_t(rdmap);
			const unsigned op = rdmap & 0xf;
			const bool is_good = (ddp & 0xc3) == 0x41 && (rdmap & 0xc0) == 0x40 && (op == 3 || op == 5);

			ASSERT_EQ(parse(b).verdict, is_good ? KIW_DGRAM_OK : KIW_DGRAM_MALFORMED)
				<< ddp << " " << rdmap;
		}
	}
}

TEST(Dgram, queue_and_offset_are_zero)
{
	for (const std::size_t at : {8, 9, 10, 11, 16, 17, 18, 19})
		for (unsigned bit = 0; bit < 8; bit++)
			EXPECT_EQ(parse(changed(at, std::uint8_t(1 << bit))).verdict, KIW_DGRAM_MALFORMED);
}

} // namespace
