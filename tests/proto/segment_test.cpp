// SPDX-License-Identifier: GPL-2.0
#include "support.hpp"

namespace {

// A good segment of an opcode; fixed-length ones have their right length.
Bytes good(unsigned op, std::size_t payload = 0)
{
	const auto o = static_cast<kiw_op>(op);
	if (kiw_ops[op].flags & KIW_F_TAGGED)
		return tagged(o, 0x11223344, 0x5566778899aabbcc, counting(payload));
	const std::size_t fixed = kiw_ops[op].flags & KIW_F_SINGLE ? kiw_ops[op].hdr_len - KIW_UNTAGGED_LEN : payload;
	return untagged(o, kiw_ops[op].qn, 9, 0, counting(fixed), true, 0xcafe0001);
}

TEST(Segment, vectors_parse_into_what_they_were_made_from)
{
	for (const auto &v : vec_fpdus) {
		const Bytes ulpdu = ulpdu_of(Bytes(v.data, v.data + v.len));
		const Parsed p = parse(ulpdu);
		ASSERT_EQ(p.step, KIW_DONE) << v.name;
		EXPECT_EQ(p.seg.hdr_len + p.seg.payload_len, ulpdu.size()) << v.name;
	}

	kiw_seg s = parse(ulpdu_of(bytes(vec_write_seg1))).seg;
	EXPECT_EQ(s.op, KIW_OP_WRITE);
	EXPECT_EQ(s.flags, KIW_F_TAGGED);
	EXPECT_EQ(s.hdr_len, 14);
	EXPECT_EQ(s.payload_len, 16u);
	EXPECT_EQ(s.stag, 0x12345678u);
	EXPECT_EQ(s.to, 0x2000u);

	s = parse(ulpdu_of(bytes(vec_send_se_inv))).seg;
	EXPECT_EQ(s.op, KIW_OP_SEND_SE_INV);
	EXPECT_EQ(s.flags, KIW_F_RECV | KIW_F_SOLICITED | KIW_F_INVALIDATE | KIW_F_LAST);
	EXPECT_EQ(s.hdr_len, 18);
	EXPECT_EQ(s.payload_len, 3u);
	EXPECT_EQ(s.inv_stag, 0x12345678u);
	EXPECT_EQ(s.qn, 0u);
	EXPECT_EQ(s.msn, 3u);

	s = parse(ulpdu_of(bytes(vec_send_seg2))).seg;
	EXPECT_EQ(s.msn, 2u);
	EXPECT_EQ(s.mo, 12u);

	s = parse(ulpdu_of(bytes(vec_rreq))).seg;
	EXPECT_EQ(s.rreq.sink_stag, 0xab01u);
	EXPECT_EQ(s.rreq.sink_to, 0x1000u);
	EXPECT_EQ(s.rreq.size, 16u);
	EXPECT_EQ(s.rreq.src_stag, 0xcd02u);
	EXPECT_EQ(s.rreq.src_to, 0x7f0000004000u);
	EXPECT_EQ(s.payload_len, 0u);

	s = parse(ulpdu_of(bytes(vec_imm))).seg;
	EXPECT_EQ(Bytes(s.imm, s.imm + 8), (Bytes{0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0}));
	EXPECT_TRUE(s.flags & KIW_F_SOLICITED);

	s = parse(ulpdu_of(bytes(vec_cmpswap))).seg;
	EXPECT_EQ(s.atomic.op, KIW_ATOMIC_CMP_SWAP);
	EXPECT_EQ(s.atomic.req_id, 0x78u);
	EXPECT_EQ(s.atomic.stag, 0xcd02u);
	EXPECT_EQ(s.atomic.to, 0x7f0000004008u);
	EXPECT_EQ(s.atomic.data, 0x1111u);
	EXPECT_EQ(s.atomic.mask, UINT64_MAX);
	EXPECT_EQ(s.atomic.cmp, 0x2au);
	EXPECT_EQ(s.atomic.cmp_mask, UINT64_MAX);

	s = parse(ulpdu_of(bytes(vec_atomic_resp))).seg;
	EXPECT_EQ(s.qn, 3u);
	EXPECT_EQ(s.atomic_resp.req_id, 0x77u);
	EXPECT_EQ(s.atomic_resp.value, 0x25u);
}

// Whatever was in the output before, and whatever the verdict
TEST(Segment, output_holds_nothing_from_before)
{
	for (unsigned op = 0; op < KIW_OP_COUNT; op++) {
		const Bytes ulpdu = good(op, 3);
		const auto n = static_cast<std::uint32_t>(ulpdu.size());

		for (std::uint32_t have = 0; have <= n; have++) {
			kiw_seg before, zero;

			std::memset(&before, 0xee, sizeof(before));
			std::memset(&zero, 0, sizeof(zero));
			const auto step = kiw_seg_parse(ulpdu.data(), have, n, KIW_CAP_IMM | KIW_CAP_ATOMIC, &before);
			EXPECT_EQ(kiw_seg_parse(ulpdu.data(), have, n, KIW_CAP_IMM | KIW_CAP_ATOMIC, &zero), step);
			EXPECT_EQ(std::memcmp(&before, &zero, sizeof(zero)), 0) << op << " " << have;
			EXPECT_TRUE(step == KIW_DONE || before.payload_len == 0) << op << " " << have;
		}
	}
}

TEST(Segment, a_reserved_bit_of_a_send_is_immediate_data_only_where_that_was_agreed)
{
	Bytes ulpdu = good(KIW_OP_SEND, 5);
	kiw_seg seg;

	ulpdu[1] |= KIW_RDMAP_SEND_IMM;
	for (const std::uint32_t caps : {0U, std::uint32_t(KIW_CAP_ATOMIC), std::uint32_t(KIW_CAP_IMM)}) {
		ASSERT_EQ(kiw_seg_parse(ulpdu.data(), 23, 23, caps, &seg), KIW_DONE);
		EXPECT_EQ((seg.flags & KIW_F_SEND_IMM) != 0, caps == KIW_CAP_IMM) << caps;
	}
}

TEST(Segment, what_is_refused_has_no_payload)
{
	Bytes ulpdu = good(KIW_OP_SEND, 5);

	ulpdu[9] ^= 1; // its queue
	EXPECT_EQ(parse(ulpdu).seg.err, KIW_ERR_DDP_QN);
	EXPECT_EQ(parse(ulpdu).seg.payload_len, 0U);
}

TEST(Segment, reserved_bits_of_an_atomic_operation_are_ignored)
{
	Bytes ulpdu = ulpdu_of(bytes(vec_cmpswap));

	ulpdu[KIW_UNTAGGED_LEN + 3] |= 0xf0;
	EXPECT_EQ(parse(ulpdu).seg.atomic.op, KIW_ATOMIC_CMP_SWAP);
}

TEST(Segment, never_asks_for_more_than_its_header)
{
	for (unsigned op = 0; op < KIW_OP_COUNT; op++) {
		const Bytes ulpdu = good(op, 1000);
		const std::size_t header = op == KIW_OP_TERMINATE ? KIW_TERM_MAX_LEN : kiw_ops[op].hdr_len;
		for (std::size_t have = 0; have <= ulpdu.size(); have++) {
			const Parsed p = parse(ulpdu, have);
			if (have < header) {
				ASSERT_EQ(p.step, KIW_MORE) << op << " " << have;
				ASSERT_GT(p.seg.need, have);
				ASSERT_LE(p.seg.need, header);
			} else {
				ASSERT_EQ(p.step, KIW_DONE) << op << " " << have;
				ASSERT_EQ(p.seg.hdr_len, header);
			}
		}
	}
}

TEST(Segment, following_the_need_reaches_a_verdict)
{
	for (const auto &v : vec_fpdus) {
		const Bytes ulpdu = ulpdu_of(Bytes(v.data, v.data + v.len));
		std::size_t have = 0;
		Parsed p = parse(ulpdu, have);
		for (int rounds = 0; p.step == KIW_MORE; rounds++) {
			ASSERT_LT(rounds, 4) << v.name;
			ASSERT_LE(p.seg.need, ulpdu.size()) << v.name;
			have = p.seg.need;
			p = parse(ulpdu, have);
		}
		EXPECT_EQ(p.step, KIW_DONE) << v.name;
	}
}

TEST(Segment, every_length_of_every_opcode_gets_its_verdict)
{
	for (unsigned op = 0; op < KIW_OP_COUNT; op++) {
		const kiw_op_info &info = kiw_ops[op];
		const Bytes longest = good(op, 100) + Bytes(100);
		for (std::size_t n = 0; n < longest.size(); n++) {
			const bool is_tagged = info.flags & KIW_F_TAGGED;
			kiw_err expected = KIW_OK;
			if (n < (is_tagged ? 14 : 18))
				expected = KIW_ERR_DDP_CATASTROPHE;
			else if (info.flags & KIW_F_SINGLE)
				expected = n < info.hdr_len   ? KIW_ERR_RDMAP_CATASTROPHE
					   : n > info.hdr_len ? KIW_ERR_DDP_TOOLONG
							      : KIW_OK;
			ASSERT_EQ(verdict(first(longest, n)), expected) << op << " " << n;
		}
	}
}

TEST(Segment, length_at_the_protocol_limit_is_accepted)
{
	for (std::uint32_t len : {KIW_ULPDU_MAX, 0xffff}) {
		const Bytes head = good(KIW_OP_WRITE);
		kiw_seg seg;
		ASSERT_EQ(kiw_seg_parse(head.data(), 14, len, 0, &seg), KIW_DONE);
		EXPECT_EQ(seg.payload_len, len - 14);
	}
}

TEST(Segment, all_first_two_octets_get_their_verdict)
{
	// The full product: T, L, reserved, DV x RV, reserved, opcode, each with and without extensions
	for (std::uint32_t caps : {0u, all_caps}) {
		for (unsigned word = 0; word <= 0xffff; word++) {
			const auto ddp = static_cast<std::uint8_t>(word >> 8);
			const auto rdmap = static_cast<std::uint8_t>(word);
			const unsigned op = rdmap & 0xf;
			const bool is_tagged = ddp & 0x80;
			const bool known = op < (caps ? 12u : 8u);

			Bytes b = known ? good(op) : Bytes(18);
			if (is_tagged || b.size() < 18)
				b.resize(std::max<std::size_t>(b.size(), 18));
			b[0] = ddp;
			b[1] = rdmap;

			kiw_err expected = KIW_OK;
			if ((ddp & 3) != 1)
				expected = is_tagged ? KIW_ERR_DDP_TVERSION : KIW_ERR_DDP_UVERSION;
			else if ((rdmap & 0xc0) != 0x40)
				expected = KIW_ERR_RDMAP_VERSION;
			else if (!known || is_tagged != !!(kiw_ops[op].flags & KIW_F_TAGGED))
				expected = KIW_ERR_RDMAP_OPCODE;
			else if ((kiw_ops[op].flags & KIW_F_SINGLE) && !(ddp & 0x40))
				expected = KIW_ERR_RDMAP_CATASTROPHE;
			ASSERT_EQ(verdict(b, caps), expected) << std::hex << word;
		}
	}
}

TEST(Segment, extensions_are_recognised_one_by_one)
{
	EXPECT_EQ(verdict(good(KIW_OP_IMM), KIW_CAP_IMM), KIW_OK);
	EXPECT_EQ(verdict(good(KIW_OP_IMM_SE), KIW_CAP_ATOMIC), KIW_ERR_RDMAP_OPCODE);
	EXPECT_EQ(verdict(good(KIW_OP_ATOMIC_REQ), KIW_CAP_ATOMIC), KIW_OK);
	EXPECT_EQ(verdict(good(KIW_OP_ATOMIC_RESP), KIW_CAP_IMM), KIW_ERR_RDMAP_OPCODE);
}

TEST(Segment, opcode_on_a_foreign_queue_is_refused)
{
	for (unsigned op = 0; op < KIW_OP_COUNT; op++) {
		if (kiw_ops[op].flags & KIW_F_TAGGED)
			continue;
		for (std::uint32_t qn : {0u, 1u, 2u, 3u, 4u, 0x100u, 0x80000000u, 0xffffffffu}) {
			Bytes b = good(op);
			for (int i = 0; i < 4; i++)
				b[static_cast<std::size_t>(6 + i)] = static_cast<std::uint8_t>(qn >> (24 - 8 * i));
			EXPECT_EQ(verdict(b), qn == kiw_ops[op].qn ? KIW_OK : KIW_ERR_DDP_QN) << op << " " << qn;
		}
	}
}

TEST(Segment, first_of_two_mistakes_counts)
{
	Bytes b = good(KIW_OP_SEND);
	b[9] = 7;    // queue number
	b[1] = 0xf;  // RDMAP version and opcode
	b[0] = 0x42; // DDP version
	EXPECT_EQ(verdict(first(b, 17)), KIW_ERR_DDP_CATASTROPHE);
	EXPECT_EQ(verdict(b), KIW_ERR_DDP_UVERSION);
	b[0] = 0x41;
	EXPECT_EQ(verdict(b), KIW_ERR_RDMAP_VERSION);
	b[1] = 0x4f;
	EXPECT_EQ(verdict(b), KIW_ERR_RDMAP_OPCODE);
	b[1] = 0x43;
	EXPECT_EQ(verdict(b), KIW_ERR_DDP_QN);
}

TEST(Segment, whatever_is_wrong_the_whole_ddp_header_was_seen)
{
	for (const Bytes &control : {Bytes{0x42, 0x43}, Bytes{0x41, 0x83}, Bytes{0x41, 0x4f}, Bytes{0x41, 0x40}}) {
		const Bytes b = control + slice(good(KIW_OP_SEND, 30), 2, 46);
		for (std::size_t have = 14; have < 18; have++) {
			const Parsed p = parse(b, have);
			ASSERT_EQ(p.step, KIW_MORE);
			EXPECT_EQ(p.seg.need, 18);
		}
		EXPECT_EQ(parse(b, 18).step, KIW_BAD);
	}
}

TEST(Segment, terminate_of_any_length_is_passed_on)
{
	for (std::size_t n = 18; n < 200; n++) {
		const Bytes b = untagged(KIW_OP_TERMINATE, KIW_QN_TERM, 1, 0, Bytes(n - 18), n % 2);
		const Parsed p = parse(b);
		ASSERT_EQ(p.step, KIW_DONE);
		EXPECT_EQ(p.seg.hdr_len, std::min<std::size_t>(n, 70));
		EXPECT_EQ(p.seg.payload_len, n - p.seg.hdr_len);
	}
}

kiw_seg part(std::uint32_t msn, std::uint32_t mo, std::uint32_t len, bool last)
{
	kiw_seg s{};
	s.msn = msn;
	s.mo = mo;
	s.payload_len = len;
	s.flags = last ? KIW_F_LAST : 0;
	return s;
}

TEST(Sequence, messages_and_segments_are_counted)
{
	kiw_seq q;
	kiw_seq_init(&q);
	for (const kiw_seg &s : {part(1, 0, 0, true), part(2, 0, 12, false), part(2, 12, 8, false),
		     part(2, 20, 0, true), part(3, 0, 5, true)}) {
		ASSERT_EQ(kiw_seq_check_msn(&q, &s), KIW_OK);
		ASSERT_EQ(kiw_seq_check_mo(&q, &s, 20), KIW_OK);
		kiw_seq_advance(&q, &s);
	}
	EXPECT_EQ(q.msn, 4u);
	EXPECT_EQ(q.mo, 0u);
}

TEST(Sequence, number_wraps_to_zero)
{
	kiw_seq q{0xffffffff, 0};
	const kiw_seg s = part(0xffffffff, 0, 1, true);
	EXPECT_EQ(kiw_seq_check_msn(&q, &s), KIW_OK);
	kiw_seq_advance(&q, &s);
	EXPECT_EQ(q.msn, 0u);
}

TEST(Sequence, repeated_or_skipped_message_is_refused)
{
	const kiw_seq q{5, 0};
	for (std::uint32_t msn : {0u, 4u, 6u, 0xffffffffu}) {
		const kiw_seg s = part(msn, 0, 1, true);
		EXPECT_EQ(kiw_seq_check_msn(&q, &s), KIW_ERR_DDP_MSN);
	}
}

TEST(Sequence, gap_and_overlap_within_a_message_are_refused)
{
	const kiw_seq q{5, 100};
	for (std::uint32_t mo : {0u, 99u, 101u, 0xffffffffu}) {
		const kiw_seg s = part(5, mo, 1, true);
		EXPECT_EQ(kiw_seq_check_mo(&q, &s, 1000), KIW_ERR_DDP_MO);
	}
}

TEST(Sequence, message_longer_than_its_buffer_is_refused)
{
	const kiw_seq q{1, 100};
	for (std::uint32_t len = 0; len < 20; len++) {
		const kiw_seg s = part(1, 100, len, true);
		EXPECT_EQ(kiw_seq_check_mo(&q, &s, 110), len <= 10 ? KIW_OK : KIW_ERR_DDP_TOOLONG);
		EXPECT_EQ(kiw_seq_check_mo(&q, &s, 99), KIW_ERR_DDP_TOOLONG);
	}
	const kiw_seq far{1, 0xfffffff0};
	const kiw_seg s = part(1, 0xfffffff0, 0x20, true);
	EXPECT_EQ(kiw_seq_check_mo(&far, &s, 0xffffffff), KIW_ERR_DDP_TOOLONG);
}

} // namespace
