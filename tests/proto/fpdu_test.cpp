// SPDX-License-Identifier: GPL-2.0
#include "support.hpp"

namespace {

// What a stream with markers looks like, one octet at a time and without any
// arithmetic on distances. Payload octets are tagged with their kind.
struct Model {
	std::uint32_t offset;
	std::uint32_t start;
	std::uint32_t length = 0;
	std::vector<std::uint32_t> pointers{};

	explicit Model(std::uint32_t at) : offset(at), start(at) {}

	void octet()
	{
		if (offset % KIW_MARKER_SPACING == 0) {
			const bool in_front = length == 0;
			pointers.push_back(in_front ? 0 : offset - start);
			advance(KIW_MARKER_SIZE);
			if (in_front)
				start = offset;
		}
		advance(1);
	}

	void fpdu(std::uint32_t ulpdu_len)
	{
		std::uint32_t body = KIW_FPDU_LEN_SIZE + ulpdu_len;
		while (body % 4)
			body++;
		for (std::uint32_t i = 0; i < body + KIW_FPDU_CRC_SIZE; i++)
			octet();
	}

private:
	void advance(std::uint32_t n)
	{
		offset += n;
		length += n;
	}
};

// Sends an FPDU the way the library's users are told to.
Bytes marked_fpdu(const Bytes &ulpdu, std::uint32_t offset, bool on = true)
{
	const Bytes plain = fpdu(ulpdu);
	Bytes out;
	kiw_marker mk;
	auto marker = [&] {
		Bytes m(KIW_MARKER_SIZE);
		kiw_marker_put(&mk, m.data());
		out = out + m;
	};

	kiw_marker_begin(&mk, offset, on);
	const std::size_t body = plain.size() - KIW_FPDU_CRC_SIZE;
	for (std::size_t at = 0; at < body;) {
		if (kiw_marker_due(&mk))
			marker();
		const auto n = kiw_marker_run(&mk, static_cast<std::uint32_t>(body - at));
		EXPECT_GT(n, 0u);
		out = out + slice(plain, at, n);
		at += n;
	}
	if (kiw_marker_due(&mk))
		marker();
	const __le32 crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), out.data(), out.size()));
	Bytes trailer(sizeof(crc));
	std::memcpy(trailer.data(), &crc, sizeof(crc));
	return out + trailer;
}

// Receives it; returns the FPDU without markers, or nothing if a marker is wrong.
Bytes unmarked_fpdu(const Bytes &wire, std::uint32_t ulpdu_len, std::uint32_t offset)
{
	Bytes out;
	std::size_t at = 0;
	bool good = true;
	kiw_marker mk;
	auto marker = [&] {
		const Bytes m = slice(wire, at, KIW_MARKER_SIZE);
		good &= kiw_marker_take(&mk, m.data());
		at += KIW_MARKER_SIZE;
	};

	kiw_marker_begin(&mk, offset, true);
	for (std::uint32_t left = kiw_fpdu_len(ulpdu_len); left;) {
		if (kiw_marker_due(&mk))
			marker();
		const auto n = kiw_marker_run(&mk, left);
		out = out + slice(wire, at, n);
		at += n;
		left -= n;
	}
	EXPECT_EQ(at, wire.size());
	return good ? out : Bytes{};
}

TEST(Fpdu, is_padded_to_a_multiple_of_four)
{
	for (std::uint32_t n = 0; n <= 0xffff; n++) {
		ASSERT_EQ(kiw_fpdu_len(n) % 4, 0u);
		ASSERT_LE(kiw_fpdu_pad(n), 3u);
		ASSERT_EQ(kiw_fpdu_len(n), 2 + n + kiw_fpdu_pad(n) + 4);
	}
	EXPECT_EQ(kiw_fpdu_len(14), 20u);
	EXPECT_EQ(kiw_fpdu_len(23), 32u);
}

TEST(Fpdu, largest_ulpdu_fits_one_segment)
{
	struct {
		std::uint32_t emss, plain, marked;
	} const known[] = {
		{536, 530, 522},
		{1448, 1442, 1430},
		{1460, 1454, 1442},
		{8948, 8942, 8870},
		{65483, 64768, 64768},
	};
	for (const auto &row : known) {
		EXPECT_EQ(kiw_mulpdu(row.emss, false), row.plain);
		EXPECT_EQ(kiw_mulpdu(row.emss, true), row.marked);
	}
	for (std::uint32_t emss = 0; emss < 70000; emss++) {
		for (bool markers : {false, true}) {
			const auto n = kiw_mulpdu(emss, markers);
			ASSERT_GE(n, 128u);
			ASSERT_LE(n, 64768u);
			if (emss < 160)
				continue;
			for (std::uint32_t offset : {0, 4, 508})
				ASSERT_LE(kiw_fpdu_wire_len(offset, n, markers), emss) << emss;
		}
	}
}

TEST(Marker, has_a_reserved_field_of_zero)
{
	Bytes b(KIW_MARKER_SIZE, 0xff);
	kiw_marker mk;

	kiw_marker_begin(&mk, 0, true);
	kiw_marker_put(&mk, b.data());
	EXPECT_EQ(b, Bytes(KIW_MARKER_SIZE));
}

// A marker for each 512 octets that are begun
TEST(Fpdu, has_room_for_as_many_markers_as_there_may_be)
{
	EXPECT_EQ(kiw_mulpdu(1023, true), 1023u - 6 - 3 - 8);
	EXPECT_EQ(kiw_mulpdu(1024, true), 1024u - 6 - 8);
	EXPECT_EQ(kiw_mulpdu(1025, true), 1025u - 6 - 1 - 12);
}

TEST(Fpdu, largest_ulpdu_survives_absurd_segment_sizes)
{
	for (bool markers : {false, true}) {
		EXPECT_EQ(kiw_mulpdu(0, markers), 128u);
		EXPECT_EQ(kiw_mulpdu(127, markers), 128u);
		EXPECT_EQ(kiw_mulpdu(1 << 20, markers), 64768u);
		EXPECT_EQ(kiw_mulpdu(UINT32_MAX, markers), 64768u);
	}
}

TEST(Marker, arithmetic_agrees_with_a_slow_model)
{
	for (std::uint32_t offset = 0; offset < 2 * KIW_MARKER_SPACING; offset += 4) {
		for (std::uint32_t n = 0; n < 1200; n++) {
			Model model(offset);
			model.fpdu(n);
			ASSERT_EQ(kiw_fpdu_markers(offset, n), model.pointers.size()) << offset << " " << n;
			ASSERT_EQ(kiw_fpdu_wire_len(offset, n, true), model.length) << offset << " " << n;
		}
	}
}

TEST(Marker, arithmetic_holds_for_the_largest_fpdus)
{
	for (std::uint32_t offset = 0; offset < KIW_MARKER_SPACING; offset += 4) {
		for (std::uint32_t n : {KIW_ULPDU_MAX - 1, KIW_ULPDU_MAX, 0xffff}) {
			Model model(offset);
			model.fpdu(n);
			ASSERT_EQ(kiw_fpdu_wire_len(offset, n, true), model.length);
		}
	}
}

TEST(Marker, pointers_agree_with_a_slow_model)
{
	for (std::uint32_t offset = 0; offset < KIW_MARKER_SPACING; offset += 4) {
		for (std::uint32_t n = 14; n < 1100; n += 7) {
			Model model(offset);
			model.fpdu(n);

			kiw_marker mk;
			std::vector<std::uint32_t> pointers;
			kiw_marker_begin(&mk, offset, true);
			for (std::uint32_t left = kiw_fpdu_len(n); left; left -= kiw_marker_run(&mk, left)) {
				if (!kiw_marker_due(&mk))
					continue;
				Bytes m(KIW_MARKER_SIZE);
				kiw_marker_put(&mk, m.data());
				ASSERT_EQ(m[0] | m[1], 0);
				pointers.push_back(std::uint32_t{m[2]} << 8 | m[3]);
			}
			ASSERT_EQ(pointers, model.pointers) << offset << " " << n;
		}
	}
}

TEST(Marker, those_still_to_come_are_counted)
{
	for (std::uint32_t offset = 0; offset < KIW_MARKER_SPACING; offset += 4) {
		for (std::uint32_t n = 14; n < 1700; n += 11) {
			Model model(offset);
			model.fpdu(n);

			kiw_marker mk;
			kiw_marker_begin(&mk, offset, true);
			std::size_t ahead = model.pointers.size();
			for (std::uint32_t left = kiw_fpdu_len(n) - KIW_FPDU_CRC_SIZE; left;
				left -= kiw_marker_run(&mk, std::min(left, 100u))) {
				ASSERT_EQ(kiw_marker_count(&mk, left), ahead) << offset << " " << n << " " << left;
				if (!kiw_marker_due(&mk))
					continue;
				Bytes m(KIW_MARKER_SIZE);
				kiw_marker_put(&mk, m.data());
				ahead--;
			}
			ASSERT_EQ(kiw_marker_count(&mk, 0), ahead);
		}
	}
	kiw_marker off;
	kiw_marker_begin(&off, 0, false);
	EXPECT_EQ(kiw_marker_count(&off, 0xffff), 0u);
}

TEST(Marker, streams_match_the_vectors)
{
	for (const auto &v : vec_marked) {
		const Bytes payload = v.payload_len == 5 ? bytes("hello") : counting(v.payload_len);
		const Bytes ulpdu = untagged(KIW_OP_SEND, KIW_QN_SEND, v.msn, 0, payload);
		const Bytes wire = marked_fpdu(ulpdu, v.offset);

		ASSERT_EQ(wire.size(), v.wire_len);
		EXPECT_EQ(kiw_fpdu_wire_len(v.offset, static_cast<std::uint32_t>(ulpdu.size()), true), v.wire_len);
		EXPECT_EQ(kiw_fpdu_markers(v.offset, static_cast<std::uint32_t>(ulpdu.size())), v.markers);
		for (unsigned i = 0; i < v.markers; i++) {
			const Bytes expected{0, 0, static_cast<std::uint8_t>(v.marker[i].ptr >> 8),
				static_cast<std::uint8_t>(v.marker[i].ptr)};
			EXPECT_EQ(slice(wire, v.marker[i].offset - v.offset, 4), expected);
		}
		EXPECT_EQ(slice(wire, wire.size() - 4, 4), bytes(v.crc));
		EXPECT_EQ(ulpdu_of(unmarked_fpdu(wire, static_cast<std::uint32_t>(ulpdu.size()), v.offset)), ulpdu);
	}
}

TEST(Marker, grid_holds_across_a_wrap_of_the_offset)
{
	// 3 GB into the second turn of a 32-bit counter everything still lines up
	std::uint32_t offset = 0xffffff00;
	const Bytes ulpdu = untagged(KIW_OP_SEND, 0, 1, 0, counting(1000));
	for (int i = 0; i < 10; i++) {
		const Bytes wire = marked_fpdu(ulpdu, offset);
		const auto n = static_cast<std::uint32_t>(ulpdu.size());
		EXPECT_EQ(ulpdu_of(unmarked_fpdu(wire, n, offset)), ulpdu);
		Model model(offset % KIW_MARKER_SPACING);
		model.fpdu(n);
		EXPECT_EQ(wire.size(), model.length);
		offset += static_cast<std::uint32_t>(wire.size());
		EXPECT_EQ(offset % 4, 0u);
	}
	EXPECT_LT(offset, 0x10000u);
}

TEST(Marker, never_comes_when_switched_off)
{
	const Bytes ulpdu = untagged(KIW_OP_SEND, 0, 1, 0, counting(5000));
	EXPECT_EQ(marked_fpdu(ulpdu, 0, false), fpdu(ulpdu));
	EXPECT_EQ(kiw_fpdu_wire_len(0, 5018, false), kiw_fpdu_len(5018));
}

TEST(Marker, wrong_pointer_is_found_in_every_bit_that_counts)
{
	const Bytes ulpdu = untagged(KIW_OP_SEND, 0, 1, 0, counting(468));
	const auto n = static_cast<std::uint32_t>(ulpdu.size());
	Bytes wire = marked_fpdu(ulpdu, 300);
	const std::size_t marker = 512 - 300;
	for (unsigned bit = 0; bit < 32; bit++) {
		wire[marker + 3 - bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
		const bool counts = bit >= 2 && bit < 16;
		EXPECT_EQ(unmarked_fpdu(wire, n, 300).empty(), counts) << bit;
		wire[marker + 3 - bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
	}
}

TEST(Marker, wrong_pointer_does_not_disturb_the_framing)
{
	kiw_marker mk;
	const Bytes wrong{0, 0, 0x12, 0x34};
	kiw_marker_begin(&mk, 0, true);
	EXPECT_FALSE(kiw_marker_take(&mk, wrong.data()));
	EXPECT_EQ(kiw_marker_run(&mk, 1000), 508u);
	EXPECT_TRUE(kiw_marker_due(&mk));
}

} // namespace
