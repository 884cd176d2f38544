// SPDX-License-Identifier: GPL-2.0
#include "support.hpp"

namespace {

struct Frame {
	kiw_step step;
	kiw_mpa_frame f;
	Bytes pd;
};

Frame parse(const Bytes &b, kiw_mpa_kind kind, std::size_t have = SIZE_MAX)
{
	const Bytes seen = first(b, std::min(have, b.size()));
	// Never a null pointer, even with nothing in it
	Bytes room(seen);
	room.reserve(1);
	Frame r{};
	r.step = kiw_mpa_parse(room.data(), seen.size(), kind, &r.f);
	if (r.step == KIW_DONE)
		r.pd.assign(r.f.pd, r.f.pd + r.f.pd_len);
	return r;
}

Bytes build(kiw_mpa_frame f, const Bytes &pd = {})
{
	Bytes b(KIW_MPA_FRAME_MAX);
	f.pd = pd.data();
	f.pd_len = static_cast<std::uint16_t>(pd.size());
	b.resize(kiw_mpa_build(b.data(), &f));
	return b;
}

kiw_mpa_frame frame(kiw_mpa_kind kind, std::uint8_t rev, bool crc)
{
	kiw_mpa_frame f{};
	f.kind = kind;
	f.rev = rev;
	f.crc = crc;
	return f;
}

kiw_mpa_frame enhanced(kiw_mpa_kind kind, std::uint8_t rtr, std::uint16_t ird, std::uint16_t ord)
{
	kiw_mpa_frame f = frame(kind, 2, true);
	f.enhanced = true;
	f.p2p = true;
	f.rtr = rtr;
	f.ird = ird;
	f.ord = ord;
	return f;
}

TEST(Frame, builds_the_vectors)
{
	EXPECT_EQ(build(frame(KIW_MPA_REQUEST, 1, true), bytes("ping")), bytes(vec_req1));
	EXPECT_EQ(build(frame(KIW_MPA_REPLY, 1, true)), bytes(vec_rep1));
	EXPECT_EQ(build(frame(KIW_MPA_REQUEST, 1, false)), bytes(vec_req1_nocrc));
	EXPECT_EQ(build(frame(KIW_MPA_REPLY, 1, false)), bytes(vec_rep1_nocrc));
	kiw_mpa_frame f = frame(KIW_MPA_REQUEST, 1, true);
	f.markers = true;
	EXPECT_EQ(build(f), bytes(vec_req1_mk));
	f.kind = KIW_MPA_REPLY;
	EXPECT_EQ(build(f), bytes(vec_rep1_mk));

	f = enhanced(KIW_MPA_REQUEST, KIW_RTR_WRITE | KIW_RTR_READ, 16, 8);
	EXPECT_EQ(build(f, bytes("ping")), bytes(vec_req2));
	f = enhanced(KIW_MPA_REPLY, KIW_RTR_WRITE, 8, 16);
	EXPECT_EQ(build(f), bytes(vec_rep2));
	f.reject = true;
	EXPECT_EQ(build(f, bytes("no")), bytes(vec_rej2));
}

TEST(Frame, parses_the_vectors)
{
	Frame r = parse(bytes(vec_req2), KIW_MPA_REQUEST);
	ASSERT_EQ(r.step, KIW_DONE);
	EXPECT_EQ(r.f.rev, 2);
	EXPECT_TRUE(r.f.crc);
	EXPECT_FALSE(r.f.markers);
	EXPECT_FALSE(r.f.large);
	EXPECT_TRUE(r.f.enhanced);
	EXPECT_TRUE(r.f.p2p);
	EXPECT_EQ(r.f.rtr, KIW_RTR_WRITE | KIW_RTR_READ);
	EXPECT_EQ(r.f.ird, 16);
	EXPECT_EQ(r.f.ord, 8);
	EXPECT_EQ(r.f.len, sizeof(vec_req2));
	EXPECT_EQ(r.pd, bytes("ping"));

	r = parse(bytes(vec_rej2), KIW_MPA_REPLY);
	ASSERT_EQ(r.step, KIW_DONE);
	EXPECT_TRUE(r.f.reject);
	EXPECT_EQ(r.f.ird, 8);
	EXPECT_EQ(r.f.ord, 16);
	EXPECT_EQ(r.pd, bytes("no"));

	r = parse(bytes(vec_req1_mk), KIW_MPA_REQUEST);
	ASSERT_EQ(r.step, KIW_DONE);
	EXPECT_TRUE(r.f.markers);
	EXPECT_FALSE(r.f.enhanced);
	EXPECT_EQ(r.f.pd_len, 0);
}

TEST(Frame, every_vector_survives_parsing_and_building)
{
	for (const auto &v : vec_frames) {
		const Bytes b(v.data, v.data + v.len);
		const Frame r = parse(b, v.is_reply ? KIW_MPA_REPLY : KIW_MPA_REQUEST);
		ASSERT_EQ(r.step, KIW_DONE) << v.name;
		EXPECT_EQ(build(r.f, r.pd), b) << v.name;
	}
}

TEST(Frame, rtr_send_bit_sits_in_the_ird_half)
{
	const Bytes b = build(enhanced(KIW_MPA_REQUEST, KIW_RTR_SEND, 0x3fff, 0));
	EXPECT_EQ(slice(b, 20, 4), (Bytes{0xff, 0xff, 0, 0}));
	EXPECT_EQ(parse(b, KIW_MPA_REQUEST).f.rtr, KIW_RTR_SEND);
}

TEST(Frame, private_data_of_every_length_survives)
{
	for (kiw_mpa_kind kind : {KIW_MPA_REQUEST, KIW_MPA_REPLY}) {
		for (bool v2 : {false, true}) {
			const kiw_mpa_frame f = v2 ? enhanced(kind, KIW_RTR_WRITE, 1, 2) : frame(kind, 1, false);
			ASSERT_EQ(kiw_mpa_pd_max(&f), v2 ? 508 : 512);
			for (std::size_t n = 0; n <= kiw_mpa_pd_max(&f); n++) {
				const Bytes pd = counting(n);
				const Bytes b = build(f, pd);
				ASSERT_EQ(b.size(), 20 + n + (v2 ? 4 : 0));
				const Frame r = parse(b, kind);
				ASSERT_EQ(r.step, KIW_DONE);
				ASSERT_EQ(r.pd, pd);
				ASSERT_EQ(r.f.len, b.size());
			}
		}
	}
}

TEST(Frame, too_much_private_data_is_malformed_at_once)
{
	for (unsigned n = 0; n <= 0xffff; n++) {
		Bytes b = first(bytes(vec_req1), 20);
		b[18] = static_cast<std::uint8_t>(n >> 8);
		b[19] = static_cast<std::uint8_t>(n);
		const Frame r = parse(b, KIW_MPA_REQUEST);
		if (n == 0) {
			ASSERT_EQ(r.step, KIW_DONE);
		} else if (n <= 512) {
			ASSERT_EQ(r.step, KIW_MORE);
			ASSERT_EQ(r.f.need, 20 + n);
		} else {
			ASSERT_EQ(r.step, KIW_BAD);
			ASSERT_EQ(r.f.bad, KIW_MPA_BAD_PD_LEN);
		}
	}
}

TEST(Frame, arriving_octet_by_octet_is_fine)
{
	const Bytes b = bytes(vec_req2);
	for (std::size_t have = 0; have <= b.size(); have++) {
		const Frame r = parse(b, KIW_MPA_REQUEST, have);
		if (have == b.size()) {
			ASSERT_EQ(r.step, KIW_DONE);
		} else {
			ASSERT_EQ(r.step, KIW_MORE);
			ASSERT_EQ(r.f.need, have < 20 ? 20 : b.size());
		}
	}
}

TEST(Frame, octets_behind_it_are_not_part_of_it)
{
	const Frame r = parse(bytes(vec_rep1) + bytes(vec_send5), KIW_MPA_REPLY);
	ASSERT_EQ(r.step, KIW_DONE);
	EXPECT_EQ(r.f.len, sizeof(vec_rep1));
	EXPECT_TRUE(r.pd.empty());
}

TEST(Frame, wrong_key_octet_is_noticed_when_it_arrives)
{
	for (std::size_t i = 0; i < 16; i++) {
		Bytes b = bytes(vec_req1);
		b[i] ^= 0x20;
		EXPECT_EQ(parse(b, KIW_MPA_REQUEST, i).step, KIW_MORE);
		const Frame r = parse(b, KIW_MPA_REQUEST, i + 1);
		EXPECT_EQ(r.step, KIW_BAD);
		EXPECT_EQ(r.f.bad, KIW_MPA_BAD_KEY);
	}
}

TEST(Frame, request_is_no_reply)
{
	EXPECT_EQ(parse(bytes(vec_req1), KIW_MPA_REPLY).f.bad, KIW_MPA_BAD_KEY);
	EXPECT_EQ(parse(bytes(vec_rep1), KIW_MPA_REQUEST).f.bad, KIW_MPA_BAD_KEY);
}

TEST(Frame, only_two_revisions_are_usable)
{
	for (unsigned rev = 0; rev < 256; rev++) {
		Bytes b = bytes(vec_rep1);
		b[17] = static_cast<std::uint8_t>(rev);
		const Frame r = parse(b, KIW_MPA_REPLY);
		EXPECT_EQ(r.step, rev == 1 || rev == 2 ? KIW_DONE : KIW_BAD);
		if (r.step == KIW_BAD) {
			EXPECT_EQ(r.f.bad, KIW_MPA_BAD_REV);
		}
	}
}

TEST(Frame, enhanced_without_room_for_its_word_is_malformed)
{
	for (kiw_mpa_kind kind : {KIW_MPA_REQUEST, KIW_MPA_REPLY}) {
		for (std::uint8_t n = 0; n < 8; n++) {
			Bytes b = first(kind == KIW_MPA_REPLY ? bytes(vec_rep2) : bytes(vec_req2), 20) + Bytes(n);
			b[19] = n;
			const Frame r = parse(b, kind);
			EXPECT_EQ(r.step, n < 4 ? KIW_BAD : KIW_DONE);
			EXPECT_EQ(r.f.bad, n < 4 ? KIW_MPA_BAD_V2 : KIW_MPA_BAD_NONE);
		}
	}
}

TEST(Frame, flags_mean_what_they_should_in_every_combination)
{
	for (kiw_mpa_kind kind : {KIW_MPA_REQUEST, KIW_MPA_REPLY}) {
		for (std::uint8_t rev : {1, 2}) {
			for (unsigned flags = 0; flags < 256; flags++) {
				Bytes b = first(kind == KIW_MPA_REPLY ? bytes(vec_rep2) : bytes(vec_req2), 24);
				b[16] = static_cast<std::uint8_t>(flags);
				b[17] = rev;
				b[19] = 4;
				const Frame r = parse(b, kind);
				const bool v2 = rev == 2 && (flags & 0x10);
				ASSERT_EQ(r.step, KIW_DONE);
				ASSERT_EQ(r.f.markers, !!(flags & 0x80));
				ASSERT_EQ(r.f.crc, !!(flags & 0x40));
				ASSERT_EQ(r.f.reject, kind == KIW_MPA_REPLY && (flags & 0x20));
				ASSERT_EQ(r.f.enhanced, v2);
				ASSERT_EQ(r.f.large, !!(flags & (kind == KIW_MPA_REPLY ? 0x02 : 0x04)));
				ASSERT_EQ(r.f.ext, !!(flags & (kind == KIW_MPA_REPLY ? 0x01 : 0x08)));
				ASSERT_EQ(r.f.pd_len, v2 ? 0 : 4);
			}
		}
	}
}

TEST(Frame, all_flags_round_trip_and_reserved_bits_stay_zero)
{
	for (unsigned bits = 0; bits < 64; bits++) {
		for (kiw_mpa_kind kind : {KIW_MPA_REQUEST, KIW_MPA_REPLY}) {
			kiw_mpa_frame f = frame(kind, 2, bits & 1);
			f.markers = bits & 2;
			f.large = bits & 4;
			f.enhanced = bits & 8;
			f.reject = kind == KIW_MPA_REPLY && (bits & 16);
			f.ext = bits & 32;
			const Bytes b = build(f);
			const unsigned large = kind == KIW_MPA_REPLY ? 0x02 : 0x04;
			const unsigned ext = kind == KIW_MPA_REPLY ? 0x01 : 0x08;
			EXPECT_EQ(b[16] & 0x0f, (f.large ? large : 0u) | (f.ext ? ext : 0u));
			const Frame r = parse(b, kind);
			EXPECT_EQ(r.f.crc, f.crc);
			EXPECT_EQ(r.f.markers, f.markers);
			EXPECT_EQ(r.f.large, f.large);
			EXPECT_EQ(r.f.ext, f.ext);
			EXPECT_EQ(r.f.enhanced, f.enhanced);
			EXPECT_EQ(r.f.reject, f.reject);
		}
	}
}

TEST(Frame, rtr_bits_count_only_in_the_peer_to_peer_model)
{
	Bytes b = bytes(vec_req2);
	b[20] = 0x40;
	b[22] = 0xc0;
	const Frame r = parse(b, KIW_MPA_REQUEST);
	EXPECT_FALSE(r.f.p2p);
	EXPECT_EQ(r.f.rtr, 0);

	kiw_mpa_frame f = enhanced(KIW_MPA_REQUEST, 7, 3, 4);
	f.p2p = false;
	EXPECT_EQ(slice(build(f), 20, 4), (Bytes{0, 3, 0, 4}));
}

} // namespace
