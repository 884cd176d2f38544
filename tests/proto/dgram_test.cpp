// SPDX-License-Identifier: GPL-2.0
#include "edge.hpp"
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
	const Bytes hdr = first(datagram, std::min<std::size_t>(datagram.size(), KIW_DGRAM_HDR_MAX));
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

// The output may hold what an earlier datagram of another kind has left.
TEST(Dgram, output_tells_each_kind_apart)
{
	for (const int before : {0, 1}) {
		kiw_dgram d;
		const auto parse_into = [&](const Bytes &b) {
			std::memset(&d, before, sizeof(d));
			return kiw_dgram_parse(b.data(), static_cast<std::uint32_t>(b.size()), &d);
		};

		EXPECT_EQ(parse_into(bytes(vec_dgram_write_first)), KIW_DGRAM_OK);
		EXPECT_TRUE(d.is_write);
		EXPECT_FALSE(d.solicited);
		EXPECT_FALSE(d.has_imm);
		EXPECT_EQ(d.msn, 0U);
		EXPECT_EQ(parse_into(bytes(vec_dgram_send) + Bytes(8, 7)), KIW_DGRAM_OK);
		EXPECT_FALSE(d.is_write);
		EXPECT_FALSE(d.solicited);
		EXPECT_FALSE(d.has_imm);
		EXPECT_EQ(d.imm, 0U);
	}
}

TEST(Dgram, is_not_read_behind_its_end)
{
	for (const Bytes &whole : {bytes(vec_dgram_send), bytes(vec_dgram_imm), bytes(vec_dgram_write_first)}) {
		for (std::uint32_t n = 0; n < std::min<std::uint32_t>(whole.size(), KIW_DGRAM_HDR_MAX); n++) {
			const Edge b(first(whole, n));
			kiw_dgram d;

			kiw_dgram_parse(b.data(), n, &d);
		}
	}
}

TEST(Dgram, built_ones_with_immediate_data_match_the_vectors)
{
	Bytes b(KIW_DGRAM_IMM_LEN, 0xee);

	EXPECT_EQ(kiw_dgram_build_imm(b.data(), false, 0x11223344, 7, cpu_to_be32(0xaabbccdd)), b.size());
	EXPECT_EQ(with_crc(b + bytes("ping")), bytes(vec_dgram_imm));
	kiw_dgram_build_imm(b.data(), true, 0x80000001, 0xffffffff, cpu_to_be32(1));
	EXPECT_EQ(with_crc(b), bytes(vec_dgram_imm_se));
}

TEST(Dgram, immediate_data_parse_into_what_they_were_made_from)
{
	Outcome o = parse(bytes(vec_dgram_imm));
	EXPECT_EQ(o.verdict, KIW_DGRAM_OK);
	EXPECT_TRUE(o.dgram.has_imm);
	EXPECT_FALSE(o.dgram.is_write);
	EXPECT_FALSE(o.dgram.solicited);
	EXPECT_EQ(o.dgram.hdr_len, KIW_DGRAM_IMM_LEN);
	EXPECT_EQ(be32_to_cpu(o.dgram.imm), 0xaabbccddu);
	EXPECT_EQ(o.dgram.qkey, 0x11223344u);
	EXPECT_EQ(o.dgram.msn, 7u);
	EXPECT_EQ(o.dgram.payload_len, 4u);
	o = parse(bytes(vec_dgram_imm_se));
	EXPECT_EQ(o.verdict, KIW_DGRAM_OK);
	EXPECT_TRUE(o.dgram.solicited);
	EXPECT_EQ(be32_to_cpu(o.dgram.imm), 1u);
	EXPECT_EQ(o.dgram.qkey, 0x80000001u);
	EXPECT_EQ(o.dgram.payload_len, 0u);
	for (const Bytes &other : {bytes(vec_dgram_send), bytes(vec_dgram_write_first)}) {
		o.dgram.has_imm = true;
		EXPECT_EQ(parse(other).verdict, KIW_DGRAM_OK);
		EXPECT_FALSE(parse(other).dgram.has_imm);
	}
}

TEST(Dgram, immediate_data_are_there_in_full)
{
	const Bytes b = bytes(vec_dgram_imm_se);

	EXPECT_EQ(b.size(), KIW_DGRAM_IMM_LEN + KIW_DGRAM_CRC_SIZE);
	for (std::size_t n = 0; n < b.size(); n++)
		EXPECT_EQ(parse(first(b, n)).verdict, KIW_DGRAM_MALFORMED) << n;
}

TEST(Dgram, octets_behind_immediate_data_are_ignored)
{
	for (std::size_t at = 24; at < 28; at++) {
		Bytes b = bytes(vec_dgram_imm);

		b[at] = 0xff;
		EXPECT_EQ(parse(b).verdict, KIW_DGRAM_OK);
		EXPECT_EQ(be32_to_cpu(parse(b).dgram.imm), 0xaabbccddu);
	}
}

TEST(Dgram, longest_with_immediate_data_fills_a_datagram_of_ipv4)
{
	const Bytes head = first(bytes(vec_dgram_imm), KIW_DGRAM_IMM_LEN);
	const Outcome o = parse(head + counting(KIW_DGRAM_MAX_IMM_MSG + KIW_DGRAM_CRC_SIZE));

	EXPECT_EQ(KIW_DGRAM_MAX_IMM_MSG, 65535 - 20 - 8 - 28 - 4);
	EXPECT_EQ(o.verdict, KIW_DGRAM_OK);
	EXPECT_EQ(o.dgram.payload_len, KIW_DGRAM_MAX_IMM_MSG);
	EXPECT_EQ(parse(head + counting(KIW_DGRAM_MAX_IMM_MSG + 1 + KIW_DGRAM_CRC_SIZE)).verdict, KIW_DGRAM_MALFORMED);
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

// All values of both control octets: Send and Send with Solicited Event, the same two with immediate data, untagged,
// the last segment, of versions 1. Reserved bits don't matter.
TEST(Dgram, nothing_but_whole_sends)
{
	for (unsigned ddp = 0; ddp < 256; ddp++) {
		for (unsigned rdmap = 0; rdmap < 256; rdmap++) {
			Bytes b = changed(2, std::uint8_t(ddp));
			b[3] = std::uint8_t(rdmap);
			const unsigned op = rdmap & 0xf;
			const bool is_send = op == 3 || op == 5 || op == 8 || op == 9;
			const bool is_good = (ddp & 0xc3) == 0x41 && (rdmap & 0xc0) == 0x40 && is_send;

			ASSERT_EQ(parse(b).verdict, is_good ? KIW_DGRAM_OK : KIW_DGRAM_MALFORMED)
				<< ddp << " " << rdmap;
		}
	}
}

TEST(Dgram, queue_and_offset_are_zero)
{
	for (const std::size_t at : {8, 9, 10, 11, 16, 17, 18, 19})
		for (unsigned bit = 0; bit < 8; bit++) {
			Bytes with_imm = bytes(vec_dgram_imm);

			with_imm[at] = std::uint8_t(1 << bit);
			EXPECT_EQ(parse(with_imm).verdict, KIW_DGRAM_MALFORMED);
			EXPECT_EQ(parse(changed(at, std::uint8_t(1 << bit))).verdict, KIW_DGRAM_MALFORMED);
		}
}

const kiw_dgram_write some_write = {.stag = 0xaabbccdd, .to = 0x7f0000001000, .id = 9, .length = 20, .seg_size = 8};

Bytes segment(const kiw_dgram_write &w, std::uint32_t offset)
{
	Bytes b(KIW_DGRAM_WRITE_LEN);

	EXPECT_EQ(kiw_dgram_build_write(b.data(), &w, offset, 0x11223344), b.size());
	return b + counting(kiw_dgram_seg_len(&w, offset) + KIW_DGRAM_CRC_SIZE);
}

TEST(DgramWrite, built_ones_match_the_vectors)
{
	Bytes b(KIW_DGRAM_WRITE_LEN);

	kiw_dgram_build_write(b.data(), &some_write, 0, 0x11223344);
	EXPECT_EQ(with_crc(b + bytes("headhead")), bytes(vec_dgram_write_first));
	kiw_dgram_build_write(b.data(), &some_write, 16, 0x11223344);
	EXPECT_EQ(with_crc(b + bytes("tail")), bytes(vec_dgram_write_last));
}

TEST(DgramWrite, vectors_parse_into_what_they_were_made_from)
{
	for (const auto &[vector, offset, length] :
		{std::tuple(bytes(vec_dgram_write_first), 0u, 8u), {bytes(vec_dgram_write_last), 16u, 4u}}) {
		const Outcome o = parse(vector);

		EXPECT_EQ(o.verdict, KIW_DGRAM_OK);
		EXPECT_TRUE(o.dgram.is_write);
		EXPECT_EQ(o.dgram.hdr_len, KIW_DGRAM_WRITE_LEN);
		EXPECT_EQ(o.dgram.qkey, 0x11223344u);
		EXPECT_EQ(o.dgram.offset, offset);
		EXPECT_EQ(o.dgram.payload_len, length);
		EXPECT_EQ(o.dgram.write.stag, some_write.stag);
		EXPECT_EQ(o.dgram.write.to, some_write.to);
		EXPECT_EQ(o.dgram.write.id, some_write.id);
		EXPECT_EQ(o.dgram.write.length, some_write.length);
		EXPECT_EQ(o.dgram.write.seg_size, some_write.seg_size);
	}
	EXPECT_FALSE(parse(bytes(vec_dgram_send)).dgram.is_write);
}

TEST(DgramWrite, shorter_ones_are_malformed)
{
	const Bytes b = segment({.stag = 1, .to = 2, .id = 3, .length = 0, .seg_size = 8}, 0);

	EXPECT_EQ(parse(b).verdict, KIW_DGRAM_OK);
	for (std::size_t n = 0; n < b.size(); n++)
		EXPECT_EQ(parse(first(b, n)).verdict, KIW_DGRAM_MALFORMED) << n;
}

TEST(DgramWrite, nothing_but_writes_is_tagged)
{
	for (unsigned ddp = 0x80; ddp < 256; ddp++) {
		for (unsigned rdmap = 0; rdmap < 256; rdmap++) {
			Bytes b = segment(some_write, 16);
			b[2] = std::uint8_t(ddp);
			b[3] = std::uint8_t(rdmap);
			const bool is_good = (ddp & 0xc3) == 0xc1 && (rdmap & 0xc0) == 0x40 && (rdmap & 0xf) == 0;

			ASSERT_EQ(parse(b).verdict, is_good ? KIW_DGRAM_OK : KIW_DGRAM_MALFORMED)
				<< ddp << " " << rdmap;
		}
	}
}

// Every segment size and length up to some; every offset and payload length, and L or not, around it
TEST(DgramWrite, segments_of_a_message_are_the_same_or_apart)
{
	for (std::uint32_t seg_size = 0; seg_size < 6; seg_size++)
		for (std::uint32_t length = 0; length < 14; length++)
			for (std::uint32_t offset = 0; offset < 16; offset++)
				for (std::uint32_t payload = 0; payload < 8; payload++)
					for (const bool last : {false, true}) {
						const kiw_dgram_write w = {
							.stag = 1, .to = 1000, .id = 0, .length = 40, .seg_size = 8};
						Bytes b = first(segment(w, 0), KIW_DGRAM_WRITE_LEN) +
							  counting(payload + KIW_DGRAM_CRC_SIZE);
						b[2] = last ? 0xc1 : 0x81;
						b[27] = std::uint8_t(length);
						b[31] = std::uint8_t(offset);
						b[35] = std::uint8_t(seg_size);
						const bool there = seg_size && offset % seg_size == 0 &&
								   (offset < length || (offset == 0 && length == 0));
						const bool good = there &&
								  payload == std::min(seg_size, length - offset) &&
								  last == (offset + payload == length);

						ASSERT_EQ(parse(b).verdict, good ? KIW_DGRAM_OK : KIW_DGRAM_MALFORMED)
							<< seg_size << " " << length << " " << offset << " " << payload;
					}
}

TEST(DgramWrite, longest_message_has_so_many_of_the_longest_segments)
{
	kiw_dgram_write w = some_write;

	EXPECT_EQ(KIW_DGRAM_MAX_SEG, 65535 - 20 - 8 - 36 - 4);
	w.seg_size = KIW_DGRAM_MAX_SEG;
	w.length = w.seg_size * KIW_DGRAM_MAX_SEGS;
	EXPECT_EQ(kiw_dgram_segs(&w), KIW_DGRAM_MAX_SEGS);
	EXPECT_EQ(parse(segment(w, w.length - w.seg_size)).verdict, KIW_DGRAM_OK);
	EXPECT_EQ(parse(segment(w, 0)).verdict, KIW_DGRAM_OK);
	w.length++;
	EXPECT_EQ(parse(segment(w, 0)).verdict, KIW_DGRAM_MALFORMED);
	w.length = w.seg_size += 1;
	EXPECT_EQ(parse(segment(w, 0)).verdict, KIW_DGRAM_MALFORMED);
}

TEST(DgramWrite, no_segment_lies_in_front_of_its_message)
{
	Bytes b = segment(some_write, 16);

	std::fill_n(b.begin() + 8, 8, std::uint8_t(0));
	b[15] = 16;
	EXPECT_EQ(parse(b).verdict, KIW_DGRAM_OK);
	EXPECT_EQ(parse(b).dgram.write.to, 0u);
	b[15] = 15;
	EXPECT_EQ(parse(b).verdict, KIW_DGRAM_MALFORMED);
}

} // namespace
