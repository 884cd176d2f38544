// SPDX-License-Identifier: GPL-2.0
#include "edge.hpp"
#include "errors.hpp"
#include "support.hpp"

namespace {

const kiw_rreq some_read{0xab01, 0x1000, 16, 0xcd02, 0x4000};

kiw_term_info info_of(const Bytes &ulpdu)
{
	kiw_term_info info;
	EXPECT_TRUE(kiw_term_parse(ulpdu.data(), static_cast<std::uint32_t>(ulpdu.size()), &info));
	return info;
}

TEST(Terminate, numbers_are_those_of_the_standards)
{
	struct {
		kiw_err err;
		kiw_term term;
	} const known[] = {
		{KIW_ERR_RDMAP_STAG, {0, 1, 0x00}},
		{KIW_ERR_RDMAP_INVAL, {0, 1, 0x09}},
		{KIW_ERR_RDMAP_VERSION, {0, 2, 0x05}},
		{KIW_ERR_RDMAP_OPCODE, {0, 2, 0x06}},
		{KIW_ERR_RDMAP_CATASTROPHE, {0, 2, 0x07}},
		{KIW_ERR_RDMAP_CANT_INVAL, {0, 2, 0x09}},
		{KIW_ERR_DDP_CATASTROPHE, {1, 0, 0x00}},
		{KIW_ERR_DDP_STAG, {1, 1, 0x00}},
		{KIW_ERR_DDP_TVERSION, {1, 1, 0x04}},
		{KIW_ERR_DDP_QN, {1, 2, 0x01}},
		{KIW_ERR_DDP_UVERSION, {1, 2, 0x06}},
		{KIW_ERR_LLP_CRC, {2, 0, 0x02}},
		{KIW_ERR_LLP_MARKER, {2, 0, 0x03}},
		{KIW_ERR_LLP_RTR, {2, 0, 0x07}},
	};
	for (const auto &row : known) {
		const kiw_term t = kiw_err_term(row.err);
		EXPECT_EQ(t.layer, row.term.layer);
		EXPECT_EQ(t.etype, row.term.etype);
		EXPECT_EQ(t.code, row.term.code);
	}
	for (kiw_err err : every_error)
		EXPECT_NE(err, KIW_OK);
}

TEST(Terminate, header_bits_follow_the_table)
{
	const Bytes write = tagged(KIW_OP_WRITE, 0x100, 0x200, Bytes(40));
	const Bytes send = untagged(KIW_OP_SEND_INV, 0, 3, 0, Bytes(40), true, 0x300);
	const Bytes read = read_request(7, some_read);
	for (kiw_err err : every_error) {
		const kiw_term t = kiw_err_term(err);
		const bool with_header = (t.layer == 0 && t.etype != 0) || (t.layer == 1 && t.etype != 0);
		const bool with_read = t.layer == 0 && t.etype == 1;

		for (const Bytes *offender : {&write, &send, &read}) {
			const Bytes b = terminate(err, *offender);
			const bool is_read = offender == &read;
			const std::size_t ddp = offender == &write ? 14 : 18;
			std::size_t expected = 22;
			std::uint8_t bits = 0;
			if (with_header) {
				expected += 2 + ddp;
				bits = 0xc0;
			}
			if (with_read && is_read) {
				expected += 28;
				bits = 0xe0;
			}
			ASSERT_EQ(b.size(), expected) << std::hex << err;
			EXPECT_EQ(first(b, 18), untagged(KIW_OP_TERMINATE, 2, 1));
			EXPECT_EQ(b[18], t.layer << 4 | t.etype);
			EXPECT_EQ(b[19], t.code);
			EXPECT_EQ(b[20], bits);
			EXPECT_EQ(b[21], 0);
			if (with_header) {
				EXPECT_EQ(std::size_t{b[22]} << 8 | b[23], offender->size());
				EXPECT_EQ(slice(b, 24, b.size() - 24), first(*offender, b.size() - 24));
			}
		}
	}
}

TEST(Terminate, headers_not_wholly_received_are_left_out)
{
	const Bytes read = read_request(7, some_read);
	for (std::size_t have = 0; have <= read.size(); have++) {
		const Bytes b = terminate(KIW_ERR_RDMAP_ACCESS, read, have);
		EXPECT_EQ(b.size(), have < 18 ? 22u : have < 46 ? 42u : 70u) << have;
		EXPECT_EQ(b[20], have < 18 ? 0 : have < 46 ? 0xc0 : 0xe0);
	}
	const Bytes write = tagged(KIW_OP_WRITE, 1, 2);
	for (std::size_t have = 0; have <= write.size(); have++)
		EXPECT_EQ(terminate(KIW_ERR_DDP_STAG, write, have).size(), have < 14 ? 22u : 38u);
	EXPECT_EQ(terminate(KIW_ERR_DDP_STAG).size(), 22u);
}

TEST(Terminate, has_a_reserved_octet_of_zero)
{
	EXPECT_EQ(terminate(KIW_ERR_DDP_STAG, {})[21], 0);
}

TEST(Terminate, cannot_be_sent_without_a_stream)
{
	for (kiw_err err : every_error)
		EXPECT_EQ(kiw_term_possible(err), err != KIW_ERR_LLP_LOST && err != KIW_ERR_LLP_FRAME);
}

TEST(Terminate, is_read_back_as_it_was_built)
{
	const Bytes read = read_request(7, some_read);
	kiw_term_info i = info_of(terminate(KIW_ERR_RDMAP_BOUNDS, read));
	EXPECT_EQ(i.err, KIW_ERR_RDMAP_BOUNDS);
	EXPECT_TRUE(i.has_seg);
	EXPECT_TRUE(i.has_rreq);
	EXPECT_FALSE(i.tagged);
	EXPECT_EQ(i.op, KIW_OP_READ_REQ);
	EXPECT_EQ(i.seg_len, 46);
	EXPECT_EQ(i.qn, 1u);
	EXPECT_EQ(i.msn, 7u);
	EXPECT_EQ(i.mo, 0u);
	EXPECT_EQ(i.rreq.sink_stag, some_read.sink_stag);
	EXPECT_EQ(i.rreq.sink_to, some_read.sink_to);
	EXPECT_EQ(i.rreq.size, some_read.size);
	EXPECT_EQ(i.rreq.src_stag, some_read.src_stag);
	EXPECT_EQ(i.rreq.src_to, some_read.src_to);

	i = info_of(terminate(KIW_ERR_DDP_WRAP, tagged(KIW_OP_WRITE, 0x100, 0x200, Bytes(9))));
	EXPECT_TRUE(i.has_seg);
	EXPECT_FALSE(i.has_rreq);
	EXPECT_TRUE(i.tagged);
	EXPECT_EQ(i.op, KIW_OP_WRITE);
	EXPECT_EQ(i.stag, 0x100u);
	EXPECT_EQ(i.to, 0x200u);
	EXPECT_EQ(i.seg_len, 23);

	i = info_of(terminate(KIW_ERR_DDP_MO, untagged(KIW_OP_SEND, KIW_QN_SEND, 5, 0x12345, Bytes(9))));
	EXPECT_EQ(i.msn, 5u);
	EXPECT_EQ(i.mo, 0x12345u);

	for (kiw_err err : every_error)
		EXPECT_EQ(info_of(terminate(err, read)).err, err);
}

TEST(Terminate, mpa_errors_with_the_hardware_error_type_are_understood)
{
	Bytes b = terminate(KIW_ERR_LLP_CRC);
	b[18] = 0x23;
	const kiw_term_info i = info_of(b);
	EXPECT_EQ(i.err, KIW_ERR_LLP_CRC);
	EXPECT_EQ(i.raw.etype, 3);
	// It is none of other layers.
	b[18] = 0x13;
	EXPECT_EQ(info_of(b).err, KIW_ERR(1, 3, 2));
}

TEST(Terminate, is_not_read_behind_its_end)
{
	const Bytes whole = terminate(KIW_ERR_RDMAP_ACCESS, read_request(1, some_read));

	for (std::uint32_t n = 0; n <= whole.size(); n++) {
		const Edge b(first(whole, n));
		kiw_term_info info;

		EXPECT_EQ(kiw_term_parse(b.data(), n, &info), n >= KIW_TERM_MIN_LEN) << n;
	}
}

TEST(Terminate, claimed_headers_that_are_missing_are_not_read)
{
	const Bytes whole = terminate(KIW_ERR_RDMAP_ACCESS, read_request(7, some_read));
	for (std::size_t n = 0; n <= whole.size(); n++) {
		const Bytes b = first(whole, n);
		for (unsigned bits = 0; bits < 8; bits++) {
			Bytes c = b;
			if (n >= 22)
				c[20] = static_cast<std::uint8_t>(bits << 5);
			kiw_term_info i;
			const bool ok = kiw_term_parse(c.data(), static_cast<std::uint32_t>(n), &i);
			ASSERT_EQ(ok, n >= 22);
			ASSERT_EQ(i.has_seg, (bits & 6) == 6 && n >= 42) << n << " " << bits;
			ASSERT_EQ(i.has_rreq, bits == 7 && n >= 70) << n << " " << bits;
		}
	}
}

TEST(Terminate, read_header_is_taken_from_read_requests_only)
{
	// Some peers set R for a Send with invalidate and send no such header
	const Bytes send = untagged(KIW_OP_SEND_INV, 0, 3, 0, Bytes(28));
	Bytes b = terminate(KIW_ERR_RDMAP_INVAL, send) + Bytes(28, 0xee);
	b[20] = 0xe0;
	const kiw_term_info i = info_of(b);
	EXPECT_TRUE(i.has_seg);
	EXPECT_EQ(i.msn, 3u);
	EXPECT_FALSE(i.has_rreq);
}

TEST(Terminate, misplaced_message_tells_nothing)
{
	const Bytes good = terminate(KIW_ERR_DDP_STAG);
	for (std::size_t octet : {9, 13, 17}) {
		Bytes b = good;
		b[octet] ^= 4;
		kiw_term_info i;
		EXPECT_FALSE(kiw_term_parse(b.data(), static_cast<std::uint32_t>(b.size()), &i));
	}
}

TEST(Terminate, reserved_bits_are_ignored)
{
	Bytes b = terminate(KIW_ERR_DDP_STAG, tagged(KIW_OP_WRITE, 5, 6));
	b[20] |= 0x1f;
	b[21] = 0xff;
	EXPECT_TRUE(info_of(b).has_seg);
}

} // namespace
