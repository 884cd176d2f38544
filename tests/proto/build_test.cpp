// SPDX-License-Identifier: GPL-2.0
// Every message the library builds, compared with the vectors.
#include "support.hpp"

namespace {

const kiw_rreq sixteen{0x0000ab01, 0x1000, 16, 0x0000cd02, 0x7f0000004000};

kiw_atomic fetch_add()
{
	return {KIW_ATOMIC_FETCH_ADD, 0x77, 0xcd02, 0x7f0000004008, 5, 0, 0, UINT64_MAX};
}

kiw_atomic cmp_swap()
{
	return {KIW_ATOMIC_CMP_SWAP, 0x78, 0xcd02, 0x7f0000004008, 0x1111, UINT64_MAX, 0x2a, UINT64_MAX};
}

Bytes atomic(std::uint32_t msn, const kiw_atomic &at)
{
	Bytes b(KIW_ATOMIC_REQ_LEN);
	EXPECT_EQ(kiw_build_atomic(b.data(), msn, &at), b.size());
	return b;
}

TEST(Build, tagged_messages_match_the_vectors)
{
	EXPECT_EQ(fpdu(tagged(KIW_OP_WRITE, 1, 0)), bytes(vec_rtr_write));
	EXPECT_EQ(fpdu(tagged(KIW_OP_READ_RESP, 1, 0)), bytes(vec_rtr_rresp));
	EXPECT_EQ(fpdu(tagged(KIW_OP_WRITE, 0x12345678, 0x100002000, counting(8))), bytes(vec_write8));
	EXPECT_EQ(fpdu(tagged(KIW_OP_WRITE, 0x12345678, 0x2000, counting(16), false)), bytes(vec_write_seg1));
	EXPECT_EQ(fpdu(tagged(KIW_OP_WRITE, 0x12345678, 0x2010, counting(9, 16))), bytes(vec_write_seg2));
	EXPECT_EQ(fpdu(tagged(KIW_OP_READ_RESP, 0xab01, 0x1000, counting(16, 0xa0))), bytes(vec_rresp));
}

TEST(Build, sends_match_the_vectors)
{
	EXPECT_EQ(fpdu(untagged(KIW_OP_SEND, 0, 1)), bytes(vec_rtr_send));
	EXPECT_EQ(fpdu(untagged(KIW_OP_SEND, 0, 1, 0, bytes("hello"))), bytes(vec_send5));
	EXPECT_EQ(fpdu(untagged(KIW_OP_SEND, 0, 2, 0, counting(12), false)), bytes(vec_send_seg1));
	EXPECT_EQ(fpdu(untagged(KIW_OP_SEND, 0, 2, 12, counting(8, 12))), bytes(vec_send_seg2));
	EXPECT_EQ(fpdu(untagged(KIW_OP_SEND_SE_INV, 0, 3, 0, bytes("bye"), true, 0x12345678)), bytes(vec_send_se_inv));
}

TEST(Build, send_without_crc_differs_in_the_trailer_alone)
{
	Bytes b = fpdu(untagged(KIW_OP_SEND, 0, 1, 0, bytes("hello")));
	std::fill(b.end() - 4, b.end(), 0);
	EXPECT_EQ(b, bytes(vec_send5_nocrc));
}

TEST(Build, read_requests_match_the_vectors)
{
	EXPECT_EQ(fpdu(read_request(1, sixteen)), bytes(vec_rreq));
	EXPECT_EQ(fpdu(read_request(1, {1, 0, 0, 1, 0})), bytes(vec_rtr_read));
}

TEST(Build, immediate_and_atomics_match_the_vectors)
{
	const Bytes imm{0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0};
	Bytes b(KIW_IMM_LEN);
	EXPECT_EQ(kiw_build_imm(b.data(), true, 4, imm.data()), b.size());
	EXPECT_EQ(fpdu(b), bytes(vec_imm));
	EXPECT_EQ(kiw_build_imm(b.data(), false, 4, imm.data()), b.size());
	EXPECT_EQ(b[1], 0x48);

	EXPECT_EQ(fpdu(atomic(2, fetch_add())), bytes(vec_fetchadd));
	EXPECT_EQ(fpdu(atomic(3, cmp_swap())), bytes(vec_cmpswap));

	const kiw_atomic_resp resp{0x77, 0x25};
	b.resize(KIW_ATOMIC_RESP_LEN);
	EXPECT_EQ(kiw_build_atomic_resp(b.data(), 1, &resp), b.size());
	EXPECT_EQ(fpdu(b), bytes(vec_atomic_resp));
}

TEST(Build, terminates_match_the_vectors)
{
	EXPECT_EQ(fpdu(terminate(KIW_ERR_DDP_STAG, tagged(KIW_OP_WRITE, 0xdeadbe00, 0x10, Bytes(4)))),
		bytes(vec_term_stag));
	EXPECT_EQ(fpdu(terminate(KIW_ERR_RDMAP_ACCESS, read_request(2, sixteen))), bytes(vec_term_rreq));
	EXPECT_EQ(fpdu(terminate(KIW_ERR_LLP_CRC)), bytes(vec_term_crc));
	EXPECT_EQ(fpdu(terminate(KIW_ERR_DDP_NOBUF, untagged(KIW_OP_SEND, 0, 4, 0, Bytes(5)))), bytes(vec_term_nobuf));
}

TEST(Build, control_octets_are_right_for_every_opcode)
{
	for (unsigned op = 0; op < KIW_OP_COUNT; op++) {
		for (bool last : {false, true}) {
			const bool is_tagged = kiw_ops[op].flags & KIW_F_TAGGED;
			const auto o = static_cast<kiw_op>(op);
			const Bytes b = is_tagged ? tagged(o, 1, 2, {}, last) : untagged(o, 0, 1, 0, {}, last);
			EXPECT_EQ(b[0], (is_tagged ? 0x81 : 0x01) | (last ? 0x40 : 0));
			EXPECT_EQ(b[1], 0x40 | op);
		}
	}
}

TEST(Build, works_at_any_alignment)
{
	for (std::size_t shift = 0; shift < 8; shift++) {
		Bytes b(shift + KIW_RREQ_LEN);
		kiw_build_rreq(b.data() + shift, 1, &sixteen);
		EXPECT_EQ(fpdu(slice(b, shift, KIW_RREQ_LEN)), bytes(vec_rreq));
	}
}

TEST(Build, partly_answered_read_request_names_what_is_left)
{
	kiw_rreq rr = sixteen;
	kiw_rreq_advance(&rr, 6);
	EXPECT_EQ(rr.sink_stag, sixteen.sink_stag);
	EXPECT_EQ(rr.sink_to, 0x1006u);
	EXPECT_EQ(rr.size, 10u);
	EXPECT_EQ(rr.src_stag, sixteen.src_stag);
	EXPECT_EQ(rr.src_to, 0x7f0000004006u);
}

} // namespace
