// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol library on the kernel's own CRC, byte order and alignment: it
 * makes and reads the vectors. Rules and malformed input don't depend on these;
 * tests/proto has them, in user space.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "proto/crc.h"
#include "proto/ddp.h"
#include "proto/dgram.h"
#include "proto/fpdu.h"
#include "proto/mpa.h"
#include "proto/number.h"
#include "proto/term.h"
#include "vectors.h"

#define ALL_CAPS (KIW_CAP_IMM | KIW_CAP_ATOMIC)

static const struct kiw_rreq some_read = {
	.sink_stag = 0xab01, .sink_to = 0x1000, .size = 16,
	.src_stag = 0xcd02, .src_to = 0x7f0000004000,
};

/* A buffer of exactly @n bytes, so that KASAN sees each access outside */
static u8 *exact(struct kunit *test, const void *src, size_t n)
{
	u8 *p = kunit_kmalloc(test, max_t(size_t, n, 1), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	if (src)
		memcpy(p, src, n);
	return p;
}

/* Puts length field, padding and CRC around a ULPDU already at @p + 2 */
static u32 close_fpdu(u8 *p, u32 ulpdu_len)
{
	u32 body = kiw_fpdu_len(ulpdu_len) - KIW_FPDU_CRC_SIZE;
	__le32 crc;

	put_unaligned_be16(ulpdu_len, p);
	memset(p + KIW_FPDU_LEN_SIZE + ulpdu_len, 0, kiw_fpdu_pad(ulpdu_len));
	crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), p, body));
	memcpy(p + body, &crc, sizeof(crc));
	return body + KIW_FPDU_CRC_SIZE;
}

static void expect_vector(struct kunit *test, const u8 *p, u32 n, const u8 *vec, u32 vec_len)
{
	KUNIT_ASSERT_EQ(test, n, vec_len);
	KUNIT_EXPECT_MEMEQ(test, p, vec, vec_len);
}

static void crc_matches_published_values(struct kunit *test)
{
	u8 b[32];
	u32 crc;

	crc = kiw_crc_update(kiw_crc_init(), "123456789", 9);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(kiw_crc_wire(crc)), 0xe3069283);
	memset(b, 0, sizeof(b));
	crc = kiw_crc_update(kiw_crc_init(), b, sizeof(b));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(kiw_crc_wire(crc)), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	crc = kiw_crc_update(kiw_crc_init(), b, sizeof(b));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(kiw_crc_wire(crc)), 0x62a8ab43);
}

static void crc_of_every_vector_is_right(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(vec_fpdus); i++) {
		u32 body = vec_fpdus[i].len - KIW_FPDU_CRC_SIZE;
		__le32 crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), vec_fpdus[i].data, body));

		KUNIT_EXPECT_EQ_MSG(test, memcmp(&crc, vec_fpdus[i].data + body, sizeof(crc)), 0,
				    "%s", vec_fpdus[i].name);
	}
}

static void crc_copy_equals_copy_and_update(struct kunit *test)
{
	static const size_t sizes[] = { 0, 1, 1023, 1024, 1025, 4095, 4096, 4097, 5000 };
	u8 *src = exact(test, NULL, 5000);
	int i;

	for (i = 0; i < 5000; i++)
		src[i] = i;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u8 *dst = exact(test, NULL, sizes[i]);

		KUNIT_EXPECT_EQ(test, kiw_crc_copy(kiw_crc_init(), dst, src, sizes[i]),
				kiw_crc_update(kiw_crc_init(), src, sizes[i]));
		KUNIT_EXPECT_MEMEQ(test, dst, src, sizes[i]);
	}
}

static void built_messages_match_the_vectors(struct kunit *test)
{
	struct kiw_atomic at = {
		.op = KIW_ATOMIC_FETCH_ADD, .req_id = 0x77, .stag = 0xcd02,
		.to = 0x7f0000004008, .data = 5, .cmp_mask = ~0ull,
	};
	struct kiw_atomic_resp ar = { .req_id = 0x77, .value = 0x25 };
	static const u8 imm[KIW_IMM_SIZE] = { 0x11, 0x22, 0x33, 0x44 };
	u8 *p = exact(test, NULL, 128);
	u8 *ulpdu = p + KIW_FPDU_LEN_SIZE;
	u32 n;

	n = kiw_build_tagged(ulpdu, KIW_OP_WRITE, true, 1, 0);
	expect_vector(test, p, close_fpdu(p, n), vec_rtr_write, sizeof(vec_rtr_write));

	n = kiw_build_untagged(ulpdu, KIW_OP_SEND, true, 0, KIW_QN_SEND, 1, 0);
	memcpy(ulpdu + n, "hello", 5);
	expect_vector(test, p, close_fpdu(p, n + 5), vec_send5, sizeof(vec_send5));

	memset(p + sizeof(vec_send5) - KIW_FPDU_CRC_SIZE, 0, KIW_FPDU_CRC_SIZE);
	expect_vector(test, p, sizeof(vec_send5), vec_send5_nocrc, sizeof(vec_send5_nocrc));

	n = kiw_build_untagged(ulpdu, KIW_OP_SEND_SE_INV, true, 0x12345678, KIW_QN_SEND, 3, 0);
	memcpy(ulpdu + n, "bye", 3);
	expect_vector(test, p, close_fpdu(p, n + 3), vec_send_se_inv, sizeof(vec_send_se_inv));

	n = kiw_build_rreq(ulpdu, 1, &some_read);
	expect_vector(test, p, close_fpdu(p, n), vec_rreq, sizeof(vec_rreq));

	n = kiw_build_imm(ulpdu, true, 4, imm);
	expect_vector(test, p, close_fpdu(p, n), vec_imm, sizeof(vec_imm));

	n = kiw_build_atomic(ulpdu, 2, &at);
	expect_vector(test, p, close_fpdu(p, n), vec_fetchadd, sizeof(vec_fetchadd));

	n = kiw_build_atomic_resp(ulpdu, 1, &ar);
	expect_vector(test, p, close_fpdu(p, n), vec_atomic_resp, sizeof(vec_atomic_resp));
}

static void vectors_parse_into_what_they_were_made_from(struct kunit *test)
{
	struct kiw_seg seg;
	int i;

	for (i = 0; i < ARRAY_SIZE(vec_fpdus); i++) {
		u32 len = get_unaligned_be16(vec_fpdus[i].data);
		u8 *ulpdu = exact(test, vec_fpdus[i].data + KIW_FPDU_LEN_SIZE, len);

		KUNIT_EXPECT_EQ_MSG(test, kiw_seg_parse(ulpdu, len, len, ALL_CAPS, &seg),
				    KIW_DONE, "%s", vec_fpdus[i].name);
		KUNIT_EXPECT_EQ(test, seg.hdr_len + seg.payload_len, len);
	}

	KUNIT_ASSERT_EQ(test, kiw_seg_parse(vec_rreq + 2, 46, 46, 0, &seg), KIW_DONE);
	KUNIT_EXPECT_EQ(test, seg.op, KIW_OP_READ_REQ);
	KUNIT_EXPECT_EQ(test, seg.qn, KIW_QN_READ);
	KUNIT_EXPECT_EQ(test, seg.msn, 1);
	KUNIT_EXPECT_EQ(test, seg.rreq.sink_stag, some_read.sink_stag);
	KUNIT_EXPECT_EQ(test, seg.rreq.sink_to, some_read.sink_to);
	KUNIT_EXPECT_EQ(test, seg.rreq.size, some_read.size);
	KUNIT_EXPECT_EQ(test, seg.rreq.src_stag, some_read.src_stag);
	KUNIT_EXPECT_EQ(test, seg.rreq.src_to, some_read.src_to);

	KUNIT_ASSERT_EQ(test, kiw_seg_parse(vec_write8 + 2, 14, 22, 0, &seg), KIW_DONE);
	KUNIT_EXPECT_EQ(test, seg.stag, 0x12345678);
	KUNIT_EXPECT_EQ(test, seg.to, 0x100002000ull);
	KUNIT_EXPECT_EQ(test, seg.payload_len, 8);
}

static void datagrams_match_the_vectors(struct kunit *test)
{
	u8 b[sizeof(vec_dgram_send)];
	struct kiw_dgram d = {};
	__le32 crc;
	u32 n;

	n = kiw_dgram_build(b, false, 0x11223344, 7);
	KUNIT_ASSERT_EQ(test, n, KIW_DGRAM_HDR_LEN);
	memcpy(b + n, "ping", 4);
	crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), b, n + 4));
	memcpy(b + n + 4, &crc, sizeof(crc));
	expect_vector(test, b, sizeof(b), vec_dgram_send, sizeof(vec_dgram_send));

	KUNIT_EXPECT_EQ(test, kiw_dgram_parse(exact(test, vec_dgram_send_se, KIW_DGRAM_HDR_LEN),
					      sizeof(vec_dgram_send_se), &d), KIW_DGRAM_OK);
	KUNIT_EXPECT_TRUE(test, d.solicited);
	KUNIT_EXPECT_EQ(test, d.qkey, 0x80000001);
	KUNIT_EXPECT_EQ(test, d.msn, 0xffffffff);
	KUNIT_EXPECT_EQ(test, d.payload_len, 0);
}

static void datagrams_with_immediate_data_match_the_vectors(struct kunit *test)
{
	u8 b[sizeof(vec_dgram_imm)];
	struct kiw_dgram d = {};
	__le32 crc;
	u32 n;

	n = kiw_dgram_build_imm(b, false, 0x11223344, 7, cpu_to_be32(0xaabbccdd));
	KUNIT_ASSERT_EQ(test, n, KIW_DGRAM_IMM_LEN);
	memcpy(b + n, "ping", 4);
	crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), b, n + 4));
	memcpy(b + n + 4, &crc, sizeof(crc));
	expect_vector(test, b, sizeof(b), vec_dgram_imm, sizeof(vec_dgram_imm));

	KUNIT_EXPECT_EQ(test, kiw_dgram_parse(exact(test, vec_dgram_imm_se, KIW_DGRAM_IMM_LEN),
					      sizeof(vec_dgram_imm_se), &d), KIW_DGRAM_OK);
	KUNIT_EXPECT_TRUE(test, d.has_imm);
	KUNIT_EXPECT_TRUE(test, d.solicited);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(d.imm), 1);
	KUNIT_EXPECT_EQ(test, d.payload_len, 0);
	for (n = 0; n < sizeof(vec_dgram_imm_se); n++)
		KUNIT_EXPECT_EQ(test, kiw_dgram_parse(exact(test, vec_dgram_imm_se,
							    min_t(u32, n, KIW_DGRAM_IMM_LEN)),
						      n, &d), KIW_DGRAM_MALFORMED);
}

static void write_records_match_the_vectors(struct kunit *test)
{
	const struct kiw_dgram_write w = {
		.stag = 0xaabbccdd, .to = 0x7f0000001000, .id = 9, .length = 20, .seg_size = 8,
	};
	u8 b[sizeof(vec_dgram_write_last)];
	struct kiw_dgram d = {};
	__le32 crc;
	u32 n;

	n = kiw_dgram_build_write(b, &w, 16, 0x11223344);
	KUNIT_ASSERT_EQ(test, n, KIW_DGRAM_WRITE_LEN);
	memcpy(b + n, "tail", 4);
	crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), b, n + 4));
	memcpy(b + n + 4, &crc, sizeof(crc));
	expect_vector(test, b, sizeof(b), vec_dgram_write_last, sizeof(vec_dgram_write_last));

	KUNIT_EXPECT_EQ(test, kiw_dgram_parse(exact(test, vec_dgram_write_first, KIW_DGRAM_HDR_MAX),
					      sizeof(vec_dgram_write_first), &d), KIW_DGRAM_OK);
	KUNIT_EXPECT_TRUE(test, d.is_write);
	KUNIT_EXPECT_EQ(test, d.payload_len, 8);
	KUNIT_EXPECT_EQ(test, d.write.length, 20);
	for (n = 0; n < KIW_DGRAM_WRITE_LEN + KIW_DGRAM_CRC_SIZE; n++)
		KUNIT_EXPECT_EQ(test, kiw_dgram_parse(exact(test, vec_dgram_write_first,
							    min_t(u32, n, KIW_DGRAM_HDR_MAX)),
						      n, &d), KIW_DGRAM_MALFORMED);
}

static u32 build_marked(struct kunit *test, int i, u8 *out)
{
	u32 n = vec_marked[i].payload_len, body, at = 0, len = 0, run;
	u8 *plain = exact(test, NULL, 1300);
	struct kiw_marker mk;
	__le32 crc;
	u32 k;

	kiw_build_untagged(plain + 2, KIW_OP_SEND, true, 0, KIW_QN_SEND, vec_marked[i].msn, 0);
	for (k = 0; k < n; k++)
		plain[20 + k] = n == 5 ? "hello"[k] : k;
	body = close_fpdu(plain, 18 + n) - KIW_FPDU_CRC_SIZE;

	kiw_marker_begin(&mk, vec_marked[i].offset, true);
	for (;;) {
		if (kiw_marker_due(&mk)) {
			kiw_marker_put(&mk, out + len);
			len += KIW_MARKER_SIZE;
		}
		if (at == body)
			break;
		run = kiw_marker_run(&mk, body - at);
		memcpy(out + len, plain + at, run);
		at += run;
		len += run;
	}
	crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), out, len));
	memcpy(out + len, &crc, sizeof(crc));
	return len + sizeof(crc);
}

static void marked_streams_match_the_vectors(struct kunit *test)
{
	u8 *out = exact(test, NULL, 1300);
	int i, k;

	for (i = 0; i < ARRAY_SIZE(vec_marked); i++) {
		u32 ulpdu_len = 18 + vec_marked[i].payload_len;
		u32 len = build_marked(test, i, out);

		KUNIT_ASSERT_EQ(test, len, vec_marked[i].wire_len);
		KUNIT_EXPECT_EQ(test, kiw_fpdu_wire_len(vec_marked[i].offset, ulpdu_len, true),
				len);
		KUNIT_EXPECT_EQ(test, kiw_fpdu_markers(vec_marked[i].offset, ulpdu_len),
				vec_marked[i].markers);
		KUNIT_EXPECT_MEMEQ(test, out + len - 4, vec_marked[i].crc, 4);
		for (k = 0; k < vec_marked[i].markers; k++) {
			u32 at = vec_marked[i].marker[k].offset - vec_marked[i].offset;

			KUNIT_EXPECT_EQ(test, get_unaligned_be16(out + at), 0);
			KUNIT_EXPECT_EQ(test, get_unaligned_be16(out + at + 2),
					vec_marked[i].marker[k].ptr);
		}
	}
}

static void terminates_match_the_vectors(struct kunit *test)
{
	u8 *p = exact(test, NULL, 128);
	struct kiw_term_info info;
	u8 offender[64];
	u32 n;

	n = kiw_build_tagged(offender, KIW_OP_WRITE, true, 0xdeadbe00, 0x10) + 4;
	n = kiw_term_build(p + 2, KIW_ERR_DDP_STAG, offender, KIW_TAGGED_LEN, n);
	expect_vector(test, p, close_fpdu(p, n), vec_term_stag, sizeof(vec_term_stag));

	n = kiw_build_rreq(offender, 2, &some_read);
	n = kiw_term_build(p + 2, KIW_ERR_RDMAP_ACCESS, offender, n, n);
	expect_vector(test, p, close_fpdu(p, n), vec_term_rreq, sizeof(vec_term_rreq));
	KUNIT_ASSERT_TRUE(test, kiw_term_parse(p + 2, n, &info));
	KUNIT_EXPECT_EQ(test, info.err, KIW_ERR_RDMAP_ACCESS);
	KUNIT_EXPECT_EQ(test, info.msn, 2);
	KUNIT_EXPECT_TRUE(test, info.has_rreq);
	KUNIT_EXPECT_EQ(test, info.rreq.src_to, some_read.src_to);

	n = kiw_term_build(p + 2, KIW_ERR_LLP_CRC, NULL, 0, 0);
	expect_vector(test, p, close_fpdu(p, n), vec_term_crc, sizeof(vec_term_crc));
}

static void start_up_frames_match_the_vectors(struct kunit *test)
{
	struct kiw_mpa_frame f = {
		.kind = KIW_MPA_REQUEST, .rev = 2, .crc = true, .enhanced = true, .p2p = true,
		.rtr = KIW_RTR_WRITE | KIW_RTR_READ, .ird = 16, .ord = 8,
		.pd = "ping", .pd_len = 4,
	};
	u8 *p = exact(test, NULL, KIW_MPA_FRAME_MAX);
	struct kiw_mpa_frame got;
	u32 have;

	expect_vector(test, p, kiw_mpa_build(p, &f), vec_req2, sizeof(vec_req2));
	for (have = 0; have < sizeof(vec_req2); have++) {
		KUNIT_EXPECT_EQ(test, kiw_mpa_parse(exact(test, vec_req2, have), have,
						    KIW_MPA_REQUEST, &got), KIW_MORE);
		KUNIT_EXPECT_GT(test, got.need, have);
	}
	KUNIT_ASSERT_EQ(test, kiw_mpa_parse(vec_req2, have, KIW_MPA_REQUEST, &got), KIW_DONE);
	KUNIT_EXPECT_EQ(test, got.rtr, f.rtr);
	KUNIT_EXPECT_EQ(test, got.ird, 16);
	KUNIT_EXPECT_EQ(test, got.ord, 8);
	KUNIT_EXPECT_EQ(test, got.pd_len, 4);
	KUNIT_EXPECT_MEMEQ(test, got.pd, "ping", 4);

	f.kind = KIW_MPA_REPLY;
	f.reject = true;
	f.rtr = KIW_RTR_WRITE;
	f.ird = 8;
	f.ord = 16;
	f.pd = "no";
	f.pd_len = 2;
	expect_vector(test, p, kiw_mpa_build(p, &f), vec_rej2, sizeof(vec_rej2));
}

static void numbers_are_proved_by_psns(struct kunit *test)
{
	const struct kiw_number a = { .from = 1, .to = 2, .sq_psn = 3, .rq_psn = 4, .ready = true };
	const struct kiw_number b = { .from = 2, .to = 1, .sq_psn = 4, .rq_psn = 3, .ready = true };
	struct kiw_number_said said, req, rep;
	u8 data[KIW_NUMBER_LEN];

	kiw_number_request(data, &a, 5, &said);
	KUNIT_ASSERT_EQ(test, kiw_number_parse(data, sizeof(data), &req), KIW_NUMBER_GOOD);
	KUNIT_EXPECT_TRUE(test, kiw_number_answers(&b, &req));
	kiw_number_reply(data, &b, &req);
	KUNIT_ASSERT_EQ(test, kiw_number_parse(data, sizeof(data), &rep), KIW_NUMBER_GOOD);
	KUNIT_EXPECT_EQ(test, kiw_number_proves(&a, &said, &rep), KIW_NUMBER_PROVED);
	rep.psn++;
	KUNIT_EXPECT_EQ(test, kiw_number_proves(&a, &said, &rep), KIW_NUMBER_WRONG);
	req.psn++;
	KUNIT_EXPECT_FALSE(test, kiw_number_answers(&b, &req));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(crc_matches_published_values),
	KUNIT_CASE(crc_of_every_vector_is_right),
	KUNIT_CASE(crc_copy_equals_copy_and_update),
	KUNIT_CASE(built_messages_match_the_vectors),
	KUNIT_CASE(vectors_parse_into_what_they_were_made_from),
	KUNIT_CASE(datagrams_match_the_vectors),
	KUNIT_CASE(datagrams_with_immediate_data_match_the_vectors),
	KUNIT_CASE(write_records_match_the_vectors),
	KUNIT_CASE(marked_streams_match_the_vectors),
	KUNIT_CASE(terminates_match_the_vectors),
	KUNIT_CASE(start_up_frames_match_the_vectors),
	KUNIT_CASE(numbers_are_proved_by_psns),
	{}
};

static struct kunit_suite suite = {
	.name = "kiwarp_proto",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of kiwarp's protocol library");
