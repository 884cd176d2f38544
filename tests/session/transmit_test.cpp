// SPDX-License-Identifier: GPL-2.0
// What is sent, in which order, and what TCP may answer.
#include <cerrno>
#include <gtest/gtest.h>
#include <utility>

#include "fpdus.hpp"
#include "proto/crc.h"
#include "requests.hpp"
#include "session/builder.h"
#include "session/message.h"

namespace {

using namespace session;

class Sending : public testing::Test {
protected:
	explicit Sending(const Terms &terms = {}, const kiw_manner &manner = Pair::by_cm) : p(terms, manner)
	{
		traced().clear();
	}
	~Sending() override { Side::rooms = -1; }
	Sending(const Sending &) = delete;
	Sending &operator=(const Sending &) = delete;

	void write(std::uint64_t id, std::uint32_t length, std::uint8_t flags = KIW_WQE_SIGNALED)
	{
		const kiw_sge from = a.sge(0, length);

		a.post(remote(KIW_WR_WRITE, id, b, 0, 0, flags), {&from, 1});
	}

	void read(std::uint64_t id, std::uint32_t length, std::uint8_t flags = KIW_WQE_SIGNALED)
	{
		const kiw_sge into = a.sge(0, length, 1);

		a.post(remote(KIW_WR_READ, id, b, 0, 0, flags), {&into, 1});
	}

	void add(std::uint64_t id)
	{
		const kiw_sge into = a.sge(0, 8, 1);

		a.post(remote(KIW_WR_FETCH_ADD, id, b, 0), {&into, 1}, &args);
	}

	/// A request that sends nothing, and can be repeated
	void bind(std::uint64_t id)
	{
		const kiw_bind_args bound{.addr = 5, .length = 6, .lkey = 0, .access = 0};
		kiw_wqe wqe = request(KIW_WR_BIND_MW, id);
		Bytes slot(sizeof(wqe) + sizeof(bound));

		wqe.rkey = a.region(1).stag;
		std::memcpy(slot.data(), &wqe, sizeof(wqe));
		std::memcpy(slot.data() + sizeof(wqe), &bound, sizeof(bound));
		a.scribble(slot, static_cast<kiw_wq_ring *>(a.core.sq.map.mem)->prod + 1);
	}

	/// Of a consumer in the kernel: a region gets another name.
	void register_region(std::uint64_t id, std::uint32_t before, std::uint32_t stag)
	{
		const kiw_bind_args args{.addr = 7, .length = 0, .lkey = before, .access = IB_ACCESS_REMOTE_READ};
		kiw_wqe wqe = request(static_cast<kiw_wr_op>(KIW_WR_REG_MR), id);
		Bytes slot(sizeof(wqe) + sizeof(args));

		wqe.rkey = stag;
		std::memcpy(slot.data(), &wqe, sizeof(wqe));
		std::memcpy(slot.data() + sizeof(wqe), &args, sizeof(args));
		a.scribble(slot, static_cast<kiw_wq_ring *>(a.core.sq.map.mem)->prod + 1);
	}

	std::uint32_t flags() { return static_cast<kiw_wq_ring *>(a.core.sq.map.mem)->flags; }

	/// What a sends of all that is posted
	std::vector<Sent> sent()
	{
		a.work();
		return segments(b.raw());
	}

	kiw_atomic_args args{.compare_add = 0x1122334455667788, .swap = 3};
	Pair p;
	Side &a = *p.a, &b = *p.b;
};

class ManySends : public Sending {
protected:
	ManySends() : Sending({.entries = 1024}) {}
};

class SmallSegments : public Sending {
protected:
	SmallSegments() : Sending({.large = false}) {}
};

class AckedSends : public Sending {
protected:
	AckedSends() : Sending({}, Pair::by_number) {}
};

class Lending : public Sending {
protected:
	Lending() { a.lends_from = b.lends_from = 5000; }
};

// --- headers --------------------------------------------------------------------------------------

TEST_F(Sending, WithoutACrcItsFieldIsZero)
{
	const kiw_sge from = a.sge(0, 2);

	fill(a.bytes(), 1);
	a.post(remote(KIW_WR_WRITE, 1, b, 0), {&from, 1});
	a.work();
	const auto raw = b.raw();
	ASSERT_EQ(raw.size(), 24U);
	EXPECT_TRUE(zero(std::span(raw).subspan(18)));
}

TEST_F(Sending, ASendIsUntagged)
{
	const kiw_sge from = a.sge(0, 5);

	fill(a.bytes(), 1);
	a.post(request(KIW_WR_SEND, 1), {&from, 1});
	a.post(request(KIW_WR_SEND, 2, KIW_WQE_SOLICITED), {&from, 1});
	const auto all = sent();
	ASSERT_EQ(all.size(), 2U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_SEND);
	EXPECT_TRUE(all[0].seg.flags & KIW_F_LAST);
	EXPECT_EQ(all[0].seg.qn, std::uint32_t(KIW_QN_SEND));
	EXPECT_EQ(all[0].seg.msn, 1U);
	EXPECT_EQ(all[0].seg.mo, 0U);
	EXPECT_EQ(all[0].seg.inv_stag, 0U);
	EXPECT_TRUE(same(all[0].payload, a.bytes().first(5)));
	EXPECT_EQ(all[1].seg.op, KIW_OP_SEND_SE);
	EXPECT_EQ(all[1].seg.msn, 2U);
	EXPECT_EQ(traced().back(), (Traced{"out", 1, {KIW_OP_SEND_SE, true, 5}}));
}

TEST_F(Sending, ASendNamesWhatItInvalidatesOrItsImmediateData)
{
	kiw_wqe wqe = request(KIW_WR_SEND_INV, 1);

	wqe.rkey = 0x12345678;
	a.post(wqe, {});
	wqe.flags = KIW_WQE_SOLICITED;
	a.post(wqe, {});
	wqe = request(KIW_WR_SEND_IMM, 2);
	wqe.imm = htobe32(0x9abcdef0);
	a.post(wqe, {});
	wqe.flags = KIW_WQE_SOLICITED;
	a.post(wqe, {});
	wqe = request(KIW_WR_SEND, 3);
	wqe.rkey = 7;
	a.post(wqe, {});
	const auto all = sent();
	ASSERT_EQ(all.size(), 5U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_SEND_INV);
	EXPECT_EQ(all[0].seg.inv_stag, 0x12345678U);
	EXPECT_EQ(all[1].seg.op, KIW_OP_SEND_SE_INV);
	EXPECT_EQ(all[2].seg.op, KIW_OP_SEND);
	EXPECT_TRUE(all[2].seg.flags & KIW_F_SEND_IMM);
	EXPECT_EQ(all[2].seg.inv_stag, 0x9abcdef0U);
	EXPECT_EQ(all[3].seg.op, KIW_OP_SEND_SE);
	EXPECT_TRUE(all[3].seg.flags & KIW_F_SEND_IMM);
	EXPECT_EQ(all[4].seg.inv_stag, 0U);
}

TEST_F(Sending, AWriteWithImmediateDataIsTwoMessages)
{
	const kiw_sge from = a.sge(0, 40000);
	kiw_wqe wqe = remote(KIW_WR_WRITE_IMM, 1, b, 9);

	wqe.imm = htobe32(0x01020304);
	a.post(wqe, {&from, 1});
	wqe.flags = KIW_WQE_SOLICITED;
	a.post(wqe, {});
	const auto all = sent();
	ASSERT_EQ(all.size(), 5U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_WRITE);
	EXPECT_FALSE(all[0].seg.flags & KIW_F_LAST);
	EXPECT_EQ(all[0].payload.size(), 32768U);
	EXPECT_EQ(all[1].seg.op, KIW_OP_WRITE);
	EXPECT_TRUE(all[1].seg.flags & KIW_F_LAST);
	EXPECT_EQ(traced()[0], (Traced{"out", 1, {KIW_OP_WRITE, false, 32768}}));
	EXPECT_EQ(traced()[1], (Traced{"out", 1, {KIW_OP_WRITE, true, 40000 - 32768}}));
	EXPECT_EQ(all[1].seg.to, Side::address + 9 + 32768);
	EXPECT_EQ(all[2].seg.op, KIW_OP_IMM);
	EXPECT_EQ(all[2].seg.msn, 1U);
	EXPECT_TRUE(same(all[2].seg.imm, Bytes{1, 2, 3, 4, 0, 0, 0, 0}));
	EXPECT_EQ(all[3].payload.size(), 0U);
	EXPECT_EQ(all[4].seg.op, KIW_OP_IMM_SE);
	EXPECT_EQ(all[4].seg.msn, 2U);
}

TEST_F(SmallSegments, FillOneOfTcp)
{
	const std::uint32_t room = kiw_mulpdu(1448, false);

	write(1, 3000);
	const kiw_sge from = a.sge(0, 3000);
	a.post(request(KIW_WR_SEND, 2), {&from, 1});
	const auto all = sent();
	ASSERT_EQ(all.size(), 6U);
	EXPECT_EQ(all[0].payload.size(), room - KIW_TAGGED_LEN);
	EXPECT_EQ(all[1].seg.to, Side::address + room - KIW_TAGGED_LEN);
	EXPECT_FALSE(all[1].seg.flags & KIW_F_LAST);
	EXPECT_TRUE(all[2].seg.flags & KIW_F_LAST);
	EXPECT_EQ(all[3].payload.size(), room - KIW_UNTAGGED_LEN);
	EXPECT_EQ(all[4].seg.mo, room - KIW_UNTAGGED_LEN);
	EXPECT_EQ(all[4].seg.msn, 1U);
	EXPECT_FALSE(all[4].seg.flags & KIW_F_LAST);
	EXPECT_TRUE(all[5].seg.flags & KIW_F_LAST);
}

TEST_F(Sending, AReadNamesItsSink)
{
	const std::array into{a.sge(10, 20), a.sge(40, 5, 1)};

	// What an earlier one has left there
	for (unsigned i = 0; i < 4; i++)
		kiw_read_out(&a.s.tx.reads_out, i)->sge[0].lkey = 99;

	a.post(remote(KIW_WR_READ, 1, b, 7), std::span(into).first(1));
	a.post(remote(KIW_WR_READ, 2, b, 7), into);
	a.post(remote(KIW_WR_READ, 3, b, 7), {});
	const auto all = sent();
	ASSERT_EQ(all.size(), 3U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_READ_REQ);
	EXPECT_EQ(all[0].seg.qn, std::uint32_t(KIW_QN_READ));
	EXPECT_EQ(all[0].seg.msn, 1U);
	EXPECT_EQ(all[0].seg.rreq.sink_stag, into[0].lkey);
	EXPECT_EQ(all[0].seg.rreq.sink_to, into[0].addr);
	EXPECT_EQ(all[0].seg.rreq.size, 20U);
	EXPECT_EQ(all[0].seg.rreq.src_stag, b.region(0).stag);
	EXPECT_EQ(all[0].seg.rreq.src_to, Side::address + 7);
	EXPECT_EQ(all[1].seg.msn, 2U);
	EXPECT_EQ(all[1].seg.rreq.sink_stag, into[0].lkey);
	EXPECT_EQ(all[1].seg.rreq.sink_to, 0U);
	EXPECT_EQ(all[1].seg.rreq.size, 25U);
	EXPECT_EQ(all[2].seg.rreq.sink_stag, 0U);
	EXPECT_EQ(all[2].seg.rreq.size, 0U);
}

TEST_F(Sending, AnAtomicSaysWhatToDo)
{
	const kiw_sge into = a.sge(0, 8);

	add(1);
	a.post(remote(KIW_WR_CMP_SWAP, 2, b, 8), {&into, 1}, &args);
	const auto all = sent();
	ASSERT_EQ(all.size(), 2U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_ATOMIC_REQ);
	EXPECT_EQ(all[0].seg.msn, 1U);
	EXPECT_EQ(all[0].seg.atomic.op, KIW_ATOMIC_FETCH_ADD);
	EXPECT_EQ(all[0].seg.atomic.req_id, 0U);
	EXPECT_EQ(all[0].seg.atomic.stag, b.region(0).stag);
	EXPECT_EQ(all[0].seg.atomic.to, Side::address);
	EXPECT_EQ(all[0].seg.atomic.data, args.compare_add);
	EXPECT_EQ(all[0].seg.atomic.mask, 0U);
	EXPECT_EQ(all[1].seg.msn, 2U);
	EXPECT_EQ(all[1].seg.atomic.op, KIW_ATOMIC_CMP_SWAP);
	EXPECT_EQ(all[1].seg.atomic.req_id, 1U);
	EXPECT_EQ(all[1].seg.atomic.to, Side::address + 8);
	EXPECT_EQ(all[1].seg.atomic.data, args.swap);
	EXPECT_EQ(all[1].seg.atomic.mask, UINT64_MAX);
	EXPECT_EQ(all[1].seg.atomic.cmp, args.compare_add);
	EXPECT_EQ(all[1].seg.atomic.cmp_mask, UINT64_MAX);
}

TEST_F(SmallSegments, InlineDataMayTakeSeveral)
{
	std::vector<std::uint8_t> slot(sizeof(kiw_wqe) + 200);
	kiw_wqe wqe = remote(KIW_WR_WRITE, 1, b, 0, 0, KIW_WQE_INLINE);

	a.mss = 150;
	a.core.sq.max_inline = 200;
	wqe.inline_len = 200;
	fill(slot, 5);
	std::memcpy(slot.data(), &wqe, sizeof(wqe));
	a.scribble(slot, 1);
	p.run();
	EXPECT_EQ(a.sent_fpdus, 2U);
	EXPECT_TRUE(same(std::span(slot).subspan(sizeof(wqe)), b.bytes().subspan(0, 200)));
}

// An FPDU of a Write of 8 octets has 28: 51 of them fit.
TEST_F(SmallSegments, HoldAsManyFpdusAsFit)
{
	const kiw_sge from = a.sge(0, 8), rest = a.sge(0, 1000);

	for (unsigned i = 0; i < 60; i++)
		a.post(remote(KIW_WR_WRITE, i, b, 0), {&from, 1});
	a.post(remote(KIW_WR_WRITE, 60, b, 0), {&rest, 1});
	a.work();
	EXPECT_EQ(a.more, (std::vector{true, false}));
	EXPECT_EQ(a.straddled, 0U);
	a.post(remote(KIW_WR_WRITE, 61, b, 0), {&rest, 1});
	a.post(remote(KIW_WR_WRITE, 62, b, 0), {&rest, 1});
	a.work();
	EXPECT_EQ(a.more, (std::vector{true, false, true, false}));
}

// Only what is left of a message at its end begins a new batch.
TEST_F(SmallSegments, OfALongMessageAreOneBatch)
{
	const kiw_sge from = a.sge(0, 3 * (kiw_mulpdu(1448, false) - KIW_TAGGED_LEN) + 100);

	a.post(remote(KIW_WR_WRITE, 1, b, 0), {&from, 1});
	a.post(remote(KIW_WR_WRITE, 2, b, 0), {&from, 1});
	a.work();
	EXPECT_EQ(a.more, (std::vector{true, false}));
	EXPECT_EQ(a.straddled, 0U);
}

TEST_F(SmallSegments, HoldAnswersAsWell)
{
	read(1, 1400);
	add(2);
	add(3);
	a.work();
	b.work();
	b.work();
	EXPECT_EQ(b.sent_fpdus, 3U);
	EXPECT_EQ(b.straddled, 0U);
}

TEST_F(Sending, MemoryThatIsSentNeedsNoRight)
{
	const kiw_sge from = a.sge(0, 10, 2);

	a.core.own.region[2].access = 0;
	a.post(remote(KIW_WR_WRITE, 1, b, 0), {&from, 1});
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
}

TEST_F(Sending, ASendThatFailsHasNoNumber)
{
	const kiw_sge from = a.sge(Side::memory_size, 1);

	a.post(request(KIW_WR_SEND, 1), {&from, 1});
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
	EXPECT_EQ(a.s.tx.msn_send, 1U);
	EXPECT_EQ(a.s.tx.batch_index, 0U);
}

TEST_F(Sending, AnswersNameWhatTheyAnswer)
{
	read(1, 40000);
	add(2);
	add(3);
	a.work();
	a.hold = true;
	b.work();
	b.work();
	const auto all = segments(a.raw());
	ASSERT_EQ(all.size(), 4U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_READ_RESP);
	EXPECT_EQ(all[0].seg.stag, a.region(1).stag);
	EXPECT_EQ(all[0].seg.to, a.region(1).iova);
	EXPECT_FALSE(all[0].seg.flags & KIW_F_LAST);
	EXPECT_EQ(all[1].seg.to, a.region(1).iova + 32768);
	EXPECT_TRUE(all[1].seg.flags & KIW_F_LAST);
	EXPECT_EQ(all[2].seg.op, KIW_OP_ATOMIC_RESP);
	EXPECT_EQ(all[2].seg.msn, 1U);
	EXPECT_EQ(all[2].seg.atomic_resp.req_id, 1U);
	EXPECT_EQ(all[3].seg.msn, 2U);
	EXPECT_EQ(all[3].seg.atomic_resp.value, args.compare_add);
}

TEST_F(SmallSegments, AReadThatFailsInItsMiddleSaysWhere)
{
	const std::uint32_t room = kiw_mulpdu(1448, false) - KIW_TAGGED_LEN;

	read(1, 3000);
	a.work();
	// The first segment goes out, then the region does.
	b.has_room = false;
	a.hold = true;
	ASSERT_TRUE(b.s.rx_first);
	b.feed(b.raw());
	kiw_tx_run(&b.s, 1);
	ASSERT_EQ(b.s.tx.off, room);
	b.core.own.region[0].valid = false;
	b.work();
	const auto all = segments(a.raw());
	ASSERT_EQ(all.size(), 2U);
	EXPECT_EQ(all[0].payload.size(), room);
	ASSERT_EQ(all[1].seg.op, KIW_OP_TERMINATE);
	const auto &term = b.s.rx.hdr;
	kiw_term_info info;
	ASSERT_TRUE(kiw_term_parse(term, sizeof(term), &info));
	EXPECT_EQ(info.err, KIW_ERR_RDMAP_STAG);
	EXPECT_TRUE(info.has_rreq);
	EXPECT_EQ(info.msn, 1U);
	EXPECT_EQ(info.rreq.size, 3000 - room);
	EXPECT_EQ(info.rreq.sink_to, a.region(1).iova + room);
	EXPECT_EQ(info.rreq.src_to, Side::address + room);
	EXPECT_EQ(info.seg_len, KIW_RREQ_LEN);
	EXPECT_FALSE(b.more.back());
}

// --- ready to receive -----------------------------------------------------------------------------

TEST(Ready, IsSaidByAWrite)
{
	Pair p({.rtr = KIW_RTR_WRITE});

	p.a->work();
	const auto all = segments(p.b->raw());
	ASSERT_EQ(all.size(), 1U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_WRITE);
	EXPECT_TRUE(all[0].seg.flags & KIW_F_LAST);
	EXPECT_EQ(all[0].seg.stag, 1U);
	EXPECT_EQ(all[0].seg.to, 0U);
	EXPECT_EQ(all[0].payload.size(), 0U);
	EXPECT_EQ(p.a->s.tx.msn_send, 1U);
	EXPECT_EQ(p.a->s.tx.rtr, 0);
}

TEST(Ready, IsSaidByASend)
{
	Pair p({.rtr = KIW_RTR_SEND});

	p.a->post(request(KIW_WR_SEND, 1), {});
	p.a->work();
	const auto all = segments(p.b->raw());
	ASSERT_EQ(all.size(), 2U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_SEND);
	EXPECT_TRUE(all[0].seg.flags & KIW_F_LAST);
	EXPECT_EQ(all[0].seg.msn, 1U);
	EXPECT_EQ(all[0].seg.mo, 0U);
	EXPECT_EQ(all[0].seg.inv_stag, 0U);
	EXPECT_EQ(all[1].seg.msn, 2U);
	EXPECT_COMPLETES(*p.a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(p.a->completions().empty());
}

TEST(Ready, IsSaidByARead)
{
	Pair p({.ord = 1, .rtr = KIW_RTR_READ});
	const kiw_sge into = p.a->sge(0, 10);

	p.a->post(remote(KIW_WR_READ, 1, *p.b, 0), {&into, 1});
	p.a->work();
	EXPECT_EQ(kiw_reads_out_len(&p.a->s.tx.reads_out), 1U);
	EXPECT_TRUE(kiw_read_out_oldest(&p.a->s.tx.reads_out)->internal);
	EXPECT_TRUE(kiw_tx_begun(&p.a->s));
	p.run();
	EXPECT_COMPLETES(*p.a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(p.a->completions().empty());
	EXPECT_TRUE(p.b->established);
	EXPECT_EQ(p.a->s.tx.msn_read, 3U);
}

TEST(Ready, TheAnswerToThatReadCompletesNothing)
{
	Pair p({.rtr = KIW_RTR_READ});
	const kiw_sge into = p.a->sge(0, 10);

	p.b->hold = true;
	p.a->post(remote(KIW_WR_READ, 1, *p.b, 0), {&into, 1});
	p.a->work();
	const auto all = segments(p.b->raw());
	ASSERT_EQ(all.size(), 2U);
	EXPECT_EQ(all[0].seg.rreq.sink_stag, 1U);
	EXPECT_EQ(all[0].seg.rreq.size, 0U);
	p.a->feed(tagged(KIW_OP_READ_RESP, true, 1, 0, {}));
	EXPECT_TRUE(p.a->completions().empty());
	EXPECT_EQ(kiw_reads_out_len(&p.a->s.tx.reads_out), 1U);
}

TEST(Ready, AnAtomicMayFollowThatRead)
{
	Pair p({.ird = 1, .ord = 1, .rtr = KIW_RTR_READ});
	const kiw_sge into = p.a->sge(0, 8);
	const kiw_atomic_args args{};

	p.a->post(remote(KIW_WR_FETCH_ADD, 1, *p.b, 0), {&into, 1}, &args);
	p.run();
	EXPECT_COMPLETES(*p.a, 1, IB_WC_SUCCESS);
}

TEST(Ready, ATerminateForThatReadCompletesNothing)
{
	Pair p({.rtr = KIW_RTR_READ});
	const kiw_sge into = p.a->sge(0, 10);
	Bytes term(KIW_TERM_MAX_LEN);
	const Bytes request = read_request({.sink_stag = 1, .sink_to = 0, .size = 0, .src_stag = 0, .src_to = 0});

	p.a->post(remote(KIW_WR_READ, 1, *p.b, 0), {&into, 1});
	p.b->hold = true;
	p.a->work();
	term.resize(kiw_term_build(term.data(), KIW_ERR_RDMAP_STAG, request.data() + 2, KIW_RREQ_LEN, KIW_RREQ_LEN));
	p.a->feed(fpdu(term));
	EXPECT_TRUE(p.a->completions().empty());
}

TEST(Ready, IsSaidBeforeAllElse)
{
	Pair p({.rtr = KIW_RTR_WRITE});
	const kiw_sge from = p.a->sge(0, 100);

	Side::rooms = 0;
	p.a->post(request(KIW_WR_SEND, 1), {&from, 1});
	EXPECT_TRUE(kiw_tx_run(&p.a->s, 1));
	EXPECT_EQ(p.a->s.tx.rtr, KIW_RTR_WRITE);
	Side::rooms = -1;
	p.a->work();
	const auto all = segments(p.b->raw());
	ASSERT_EQ(all.size(), 2U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_WRITE);
	EXPECT_EQ(all[1].seg.op, KIW_OP_SEND);
}

// --- what cannot be sent --------------------------------------------------------------------------

TEST(Impossible, ExtensionsThatThePeerDoesNotKnow)
{
	for (const auto opcode : {KIW_WR_SEND_IMM, KIW_WR_WRITE_IMM, KIW_WR_FETCH_ADD, KIW_WR_CMP_SWAP, KIW_WR_SEND}) {
		Pair p({.ext = false});
		const kiw_sge sge = p.a->sge(0, 8);
		const kiw_atomic_args args{};

		p.a->post(remote(opcode, 1, *p.b, 0), {&sge, 1}, &args);
		p.a->work();
		EXPECT_COMPLETES(*p.a, 1, opcode == KIW_WR_SEND ? IB_WC_SUCCESS : IB_WC_LOC_QP_OP_ERR);
		EXPECT_EQ(p.a->core.state, opcode == KIW_WR_SEND ? KIW_QP_RTS : KIW_QP_TERMINATE);
	}
}

TEST(Impossible, RequestsWhereNoneIsAgreed)
{
	for (const auto opcode : {KIW_WR_READ, KIW_WR_FETCH_ADD, KIW_WR_WRITE}) {
		Pair p({.ird = 0, .ord = 0});
		const kiw_sge sge = p.a->sge(0, 8);
		const kiw_atomic_args args{};

		p.a->post(remote(opcode, 1, *p.b, 0), {&sge, 1}, opcode == KIW_WR_FETCH_ADD ? &args : nullptr);
		p.a->work();
		EXPECT_COMPLETES(*p.a, 1, opcode == KIW_WR_WRITE ? IB_WC_SUCCESS : IB_WC_LOC_QP_OP_ERR);
	}
}

TEST_F(Sending, ABadRequestEndsTheSession)
{
	write(1, 10);
	a.post(request(static_cast<kiw_wr_op>(99), 2), {});
	write(3, 10);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 2, IB_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(a.core.state, KIW_QP_TERMINATE);
	// The Terminate goes out in the same run.
	const auto all = segments(b.raw());
	ASSERT_EQ(all.size(), 2U);
	EXPECT_EQ(all[1].seg.op, KIW_OP_TERMINATE);
	EXPECT_FALSE(a.s.tx.taken);
}

TEST_F(Sending, AnIndexThatCannotBeEndsTheSession)
{
	write(1, 10);
	a.scribble({}, 1000);
	a.work();
	EXPECT_EQ(a.counts[KIW_STAT_RING_ERRORS], 1U);
	EXPECT_EQ(a.counts[KIW_STAT_TERM_SENT], 1U);
	const auto all = segments(b.raw());
	ASSERT_EQ(all.size(), 1U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_TERMINATE);
}

TEST_F(Sending, LocalRequestsSendNothing)
{
	kiw_wqe wqe = request(KIW_WR_LOCAL_INV, 2);

	bind(1);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_EQ(a.region(1).iova, 5U);
	EXPECT_EQ(a.region(1).length, 6U);
	wqe.rkey = a.region(1).stag;
	a.post(wqe, {});
	a.work();
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
	EXPECT_FALSE(a.region(1).valid);
	EXPECT_TRUE(b.raw().empty());
	EXPECT_EQ(a.sent_bytes, 0U);
	// A second time there is no such region.
	a.post(wqe, {});
	a.work();
	EXPECT_COMPLETES(a, 2, IB_WC_LOC_PROT_ERR);
	EXPECT_EQ(a.core.state, KIW_QP_TERMINATE);
}

TEST_F(Sending, ABindThatCannotBeEndsTheSession)
{
	a.core.own.region[1].may_be_invalidated = false;
	bind(1);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_MW_BIND_ERR);
	EXPECT_EQ(a.core.state, KIW_QP_TERMINATE);
}

TEST_F(Sending, ARegistrationSendsNothing)
{
	kiw_region &region = a.core.own.region[1];
	const std::uint32_t before = region.stag;

	a.core.sq.kernel = true;
	region.valid = false;
	register_region(1, before, before ^ 1);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(region.valid);
	EXPECT_EQ(region.stag, before ^ 1);
	EXPECT_EQ(region.iova, 7U);
	EXPECT_EQ(region.access, int(IB_ACCESS_REMOTE_READ));
	EXPECT_EQ(a.sent_bytes, 0U);
	// It is valid by now.
	register_region(2, before ^ 1, before);
	a.work();
	EXPECT_EQ(int(a.completions().front().opcode), KIW_WR_REG_MR);
	EXPECT_COMPLETES(a, 2, IB_WC_MW_BIND_ERR);
	EXPECT_EQ(a.core.state, KIW_QP_TERMINATE);
}

TEST_F(Sending, AProcessRegistersNothing)
{
	kiw_region &region = a.core.own.region[1];

	region.valid = false;
	register_region(1, region.stag, region.stag ^ 1);
	a.work();
	// To a process it is an opcode that it doesn't have.
	EXPECT_EQ(int(a.completions().front().opcode), KIW_WR_LOCAL_INV);
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_QP_OP_ERR);
	EXPECT_FALSE(region.valid);
}

TEST_F(Sending, AProcessLetsNoReadInvalidate)
{
	const kiw_sge to = a.sge(0, 8, 1);

	a.post(remote(static_cast<kiw_wr_op>(KIW_WR_READ_INV), 1, b, 0), {&to, 1});
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(a.region(1).valid);
}

TEST_F(Sending, AnOpcodeBehindThoseOfTheKernelIsRefused)
{
	a.core.sq.kernel = true;
	a.post(request(static_cast<kiw_wr_op>(KIW_SEND_OPS), 1), {});
	a.work();
	EXPECT_EQ(int(a.completions().front().opcode), KIW_SEND_OPS - 1);
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_QP_OP_ERR);
}

TEST_F(Sending, AReadInvalidatesItsBufferWithTheAnswer)
{
	const kiw_sge to = a.sge(0, 8, 1);

	a.core.sq.kernel = true;
	a.post(remote(static_cast<kiw_wr_op>(KIW_WR_READ_INV), 1, b, 0), {&to, 1});
	a.work();
	EXPECT_TRUE(a.region(1).valid);
	fill(b.bytes(), 3);
	p.run();
	EXPECT_EQ(int(a.completions().front().opcode), KIW_WR_READ_INV);
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(same(a.bytes(1).first(8), b.bytes().first(8)));
	EXPECT_FALSE(a.region(1).valid);
}

TEST_F(Sending, AReadOfNothingInvalidatesAsWell)
{
	const kiw_sge to = a.sge(0, 0, 1);

	a.core.sq.kernel = true;
	a.post(remote(static_cast<kiw_wr_op>(KIW_WR_READ_INV), 1, b, 0), {&to, 1});
	p.run();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_FALSE(a.region(1).valid);
}

TEST_F(Sending, AReadThatInvalidatesHasOneBuffer)
{
	const std::array to{a.sge(0, 8, 1), a.sge(8, 8, 1)};

	a.core.sq.kernel = true;
	a.post(remote(static_cast<kiw_wr_op>(KIW_WR_READ_INV), 1, b, 0), to);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(a.region(1).valid);
}

TEST_F(Sending, AReadThatCannotInvalidateFails)
{
	const kiw_sge to = a.sge(0, 8);

	a.core.sq.kernel = true;
	a.post(remote(static_cast<kiw_wr_op>(KIW_WR_READ_INV), 1, b, 0), {&to, 1});
	a.post(remote(KIW_WR_READ, 2, b, 0), {&to, 1});
	p.run();
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
	EXPECT_COMPLETES(a, 2, IB_WC_WR_FLUSH_ERR);
}

TEST_F(Sending, OtherReadsInvalidateNothing)
{
	const kiw_sge to = a.sge(0, 8, 1);

	a.core.sq.kernel = true;
	// Another request had the same place.
	for (int i = 0; i < 4; i++)
		kiw_read_out(&a.s.tx.reads_out, KIW_READS_START + i)->invalidates = true;
	a.post(remote(KIW_WR_READ, 1, b, 0), {&to, 1});
	a.post(remote(KIW_WR_FETCH_ADD, 2, b, 0), {&to, 1}, &args);
	p.run();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
	EXPECT_TRUE(a.region(1).valid);
}

// Addresses of the kernel are no peer's business.
TEST_F(Sending, AReadIntoNoRegionCountsFromNothing)
{
	const kiw_sge to{.addr = 0x1234, .length = 8, .lkey = 0};

	a.post(remote(KIW_WR_READ, 1, b, 0), {&to, 1});
	a.work();
	EXPECT_EQ(kiw_read_out_oldest(&a.s.tx.reads_out)->sink_stag, 0U);
	EXPECT_EQ(kiw_read_out_oldest(&a.s.tx.reads_out)->sink_to, 0U);
}

TEST_F(Sending, ARequestBehindOneThatFailedIsNotSent)
{
	const std::array from{a.sge(0, 10), a.sge(Side::memory_size, 1)};

	a.post(remote(KIW_WR_WRITE, 1, b, 0), from);
	write(2, 10);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
	EXPECT_TRUE(a.completions().empty());
	const auto all = segments(b.raw());
	ASSERT_EQ(all.size(), 1U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_TERMINATE);
	EXPECT_EQ(a.s.tx.message, KIW_MESSAGE_NONE);
	EXPECT_FALSE(a.s.tx.taken);
}

// --- the order ------------------------------------------------------------------------------------

TEST_F(Sending, RequestsAndResponsesTakeTurns)
{
	b.established = true;
	for (int i = 0; i < 3; i++)
		read(i, 10);
	a.work();
	for (int i = 0; i < 4; i++) {
		const kiw_sge from = b.sge(0, 1);

		b.post(remote(KIW_WR_WRITE, i, a, 0), {&from, 1});
	}
	b.work();
	std::vector<int> ops;
	for (const Sent &s : segments(a.raw()))
		ops.push_back(s.seg.op);
	EXPECT_EQ(ops, (std::vector<int>{KIW_OP_WRITE, KIW_OP_READ_RESP, KIW_OP_WRITE, KIW_OP_READ_RESP, KIW_OP_WRITE,
			       KIW_OP_READ_RESP, KIW_OP_WRITE}));
}

TEST_F(Sending, ReadsAreLimited)
{
	for (int i = 0; i < 6; i++)
		read(i, 10);
	write(6, 10);
	a.work();
	EXPECT_EQ(kiw_reads_out_len(&a.s.tx.reads_out), 4U);
	EXPECT_TRUE(a.s.tx.taken);
	EXPECT_TRUE(kiw_tx_begun(&a.s));
	EXPECT_EQ(segments(b.raw()).size(), 4U);
}

TEST_F(Sending, AFenceWaitsForReadsOnly)
{
	write(1, 10, KIW_WQE_SIGNALED | KIW_WQE_FENCE);
	read(2, 10);
	write(3, 10, KIW_WQE_SIGNALED | KIW_WQE_SOLICITED);
	write(4, 10, KIW_WQE_SIGNALED | KIW_WQE_FENCE);
	a.work();
	EXPECT_EQ(segments(b.raw()).size(), 3U);
}

TEST_F(Sending, AResponseNeedsNoSecondRun)
{
	const kiw_sge from = b.sge(0, 1);

	b.feed(tagged(KIW_OP_WRITE, true, 1, 0, {}));
	b.post(remote(KIW_WR_WRITE, 1, a, 0), {&from, 1});
	b.work();
	b.feed(read_request({.sink_stag = 1, .sink_to = 0, .size = 0, .src_stag = 0, .src_to = 0}));
	EXPECT_TRUE(b.s.tx.response_turn);
	EXPECT_FALSE(kiw_tx_run(&b.s, 4));
	EXPECT_EQ(segments(a.raw()).size(), 2U);
}

TEST_F(Sending, NothingIsSentBeforeTheGateOpens)
{
	const kiw_sge from = b.sge(0, 1);

	b.post(remote(KIW_WR_WRITE, 1, a, 0), {&from, 1});
	EXPECT_FALSE(kiw_tx_run(&b.s, 4));
	EXPECT_EQ(b.core.sq.next, 0U);
	EXPECT_TRUE(b.completions().empty());
}

TEST_F(Sending, ATerminateNeedsNoGate)
{
	b.post(remote(KIW_WR_WRITE, 1, a, 0), {});
	kiw_session_fail(&b.s, KIW_ERR_RDMAP_OPCODE, nullptr, 0, 0);
	EXPECT_TRUE(kiw_tx_begun(&b.s));
	b.s.tx.stopped = false;
	kiw_tx_run(&b.s, 4);
	EXPECT_EQ(b.counts[KIW_STAT_TERM_SENT], 1U);
	EXPECT_EQ(segments(a.raw()).size(), 1U);
	EXPECT_EQ(b.core.sq.next, 0U);
	EXPECT_EQ(b.more, std::vector<bool>{false});
}

TEST_F(Sending, ATerminateGoesBehindTheMessageInTheBatch)
{
	write(1, 10);
	kiw_session_fail(&a.s, KIW_ERR_RDMAP_OPCODE, nullptr, 0, 0);
	EXPECT_TRUE(kiw_tx_pending(&a.s));
	a.work();
	const auto all = segments(b.raw());
	ASSERT_EQ(all.size(), 1U);
	EXPECT_EQ(all[0].seg.op, KIW_OP_TERMINATE);
	EXPECT_FALSE(kiw_tx_pending(&a.s));
}

TEST_F(Sending, MoreIsAnnouncedWhereMoreFollows)
{
	for (int i = 0; i < 3; i++)
		write(i, 100'000);
	while (a.work())
		b.raw();
	ASSERT_GE(a.more.size(), 3U);
	// The socket may take that batch in parts.
	EXPECT_EQ(a.finals.size(), 1U);
	EXPECT_FALSE(a.more.back());
	EXPECT_TRUE(a.more.front());
}

TEST_F(Sending, ALocalRequestIsNothingThatFollows)
{
	a.has_room = false;
	write(1, 10);
	write(2, 10);
	bind(3);
	write(4, 10);
	kiw_tx_run(&a.s, 8);
	EXPECT_EQ(a.more, (std::vector<bool>{true, false, false}));
	EXPECT_EQ(a.completions().size(), 4U);
}

TEST_F(Sending, AResponseIsSomethingThatFollows)
{
	read(1, 10);
	read(2, 10);
	a.work();
	b.feed(b.raw());
	b.has_room = false;
	kiw_tx_run(&b.s, 8);
	EXPECT_EQ(b.more, (std::vector<bool>{true, false}));
}

TEST_F(Sending, NothingFollowsATerminate)
{
	a.has_room = false;
	write(1, 10);
	a.post(request(static_cast<kiw_wr_op>(99), 2), {});
	write(3, 10);
	kiw_tx_run(&a.s, 8);
	EXPECT_EQ(a.more, (std::vector<bool>{false, false}));
	EXPECT_EQ(segments(b.raw()).size(), 2U);
}

TEST_F(Sending, NothingFollowsWhereTheStreamHasStopped)
{
	a.has_room = false;
	write(1, 10);
	write(2, 10);
	ASSERT_TRUE(kiw_tx_run(&a.s, 1));
	EXPECT_EQ(a.more, std::vector<bool>{true});
	// The second is started, but isn't sent any more.
	a.s.tx.stopped = true;
	EXPECT_FALSE(kiw_tx_run(&a.s, 1));
	EXPECT_EQ(a.more.size(), 1U);
}

// --- what TCP answers -----------------------------------------------------------------------------

TEST_F(Sending, WithoutRoomForMoreEachFpduGoesAlone)
{
	a.has_room = false;
	for (int i = 0; i < 3; i++)
		write(i, 10);
	EXPECT_FALSE(kiw_tx_run(&a.s, 8));
	EXPECT_EQ(a.more, (std::vector<bool>{true, true, false}));
}

TEST_F(Sending, ABudgetEndsARun)
{
	a.has_room = false;
	for (int i = 0; i < 3; i++)
		write(i, 10);
	EXPECT_TRUE(kiw_tx_run(&a.s, 2));
	EXPECT_EQ(a.completions().size(), 2U);
	EXPECT_EQ(flags(), std::uint32_t(KIW_RING_DRAINING));
	EXPECT_FALSE(kiw_tx_run(&a.s, 2));
	EXPECT_EQ(a.completions().size(), 3U);
	EXPECT_EQ(flags(), 0U);
}

TEST_F(ManySends, ARunTakesAShareOfShortFpdus)
{
	for (int i = 0; i < 300; i++)
		write(i, 0);
	EXPECT_TRUE(kiw_tx_run(&a.s, 1));
	EXPECT_EQ(a.sent_fpdus, 256U);
	EXPECT_EQ(a.completions().size(), 256U);
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(a.sent_fpdus, 300U);
}

TEST_F(ManySends, ARunThatIsThroughSaysSo)
{
	for (int i = 0; i < 510; i++)
		write(i, 0);
	EXPECT_FALSE(kiw_tx_run(&a.s, 2));
	EXPECT_EQ(a.completions().size(), 510U);
}

TEST_F(ManySends, ARunThatHasHadItsShareSaysSo)
{
	for (int i = 0; i < 512; i++)
		bind(i);
	EXPECT_TRUE(kiw_tx_run(&a.s, 2));
	EXPECT_EQ(a.completions().size(), 512U);
	EXPECT_FALSE(kiw_tx_run(&a.s, 2));
}

TEST_F(Sending, WhatIsPostedAtTheLastMomentIsFound)
{
	a.core.sq.cq->on_add = [this] {
		a.core.sq.cq->on_add = nullptr;
		bind(2);
	};
	bind(1);
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(a.completions().size(), 2U);
	EXPECT_EQ(flags(), 0U);
	a.core.sq.cq->on_add = [this] {
		a.core.sq.cq->on_add = nullptr;
		bind(4);
	};
	bind(3);
	EXPECT_TRUE(kiw_tx_run(&a.s, 1));
	EXPECT_EQ(a.completions().size(), 3U);
	EXPECT_EQ(flags(), std::uint32_t(KIW_RING_DRAINING));
}

TEST_F(Sending, WhileTheCarrierGathersNoDoorbellIsWanted)
{
	a.gathers = KIW_RING_DRAINING;
	write(1, 10);
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.s.tx.gathers);
	EXPECT_EQ(flags(), std::uint32_t(KIW_RING_DRAINING));
	EXPECT_EQ(a.completions().size(), 1U);
	write(2, 10);
	write(3, 10);
	a.gathers = 0;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_FALSE(a.s.tx.gathers);
	EXPECT_EQ(flags(), 0U);
	EXPECT_EQ(a.completions().size(), 3U);
}

TEST_F(Sending, WhileTheCarrierGathersSmallOnesTheOthersRing)
{
	a.gathers = KIW_RING_SMALL;
	write(1, 10);
	// Behind the last look at the ring, without a doorbell
	a.core.sq.cq->on_add = [this] {
		a.core.sq.cq->on_add = nullptr;
		write(2, 10);
	};
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(a.completions().size(), 2U);
	EXPECT_EQ(a.s.tx.gathers, KIW_RING_SMALL);
	EXPECT_EQ(flags(), std::uint32_t(KIW_RING_SMALL));
	a.gathers = 0;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(flags(), 0U);
}

TEST_F(Sending, NothingIsGatheredBehindARequestThatWaits)
{
	a.gathers = KIW_RING_DRAINING;
	a.core.ord = 1;
	read(1, 10);
	read(2, 10);
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.s.tx.taken);
	EXPECT_FALSE(a.s.tx.gathers);
}

TEST_F(Sending, AStreamThatHasStoppedDrainsNothing)
{
	a.s.tx.stopped = true;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(flags(), 0U);
}

TEST_F(ManySends, ARunTakesAShareOfLocalRequests)
{
	for (int i = 0; i < 1000; i++)
		bind(i);
	EXPECT_TRUE(kiw_tx_run(&a.s, 2));
	EXPECT_EQ(a.completions().size(), 512U);
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(a.completions().size(), 1000U);
}

TEST_F(Sending, WithoutRoomARunWaits)
{
	write(1, 10);
	a.refuses = -EAGAIN;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.s.tx.stuck);
	EXPECT_FALSE(a.s.tx.starved);
	EXPECT_FALSE(a.s.tx.lost);
	EXPECT_TRUE(a.completions().empty());
	EXPECT_TRUE(kiw_tx_pending(&a.s));
	EXPECT_TRUE(kiw_tx_begun(&a.s));
	EXPECT_EQ(flags(), std::uint32_t(KIW_RING_DRAINING));
	EXPECT_EQ(a.more.size(), 1U);
	a.refuses = 0;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_FALSE(a.s.tx.stuck);
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
}

TEST_F(Sending, WithoutMemoryOfTcpARunIsCalledAgain)
{
	write(1, 10);
	a.refuses = -ENOMEM;
	EXPECT_TRUE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.s.tx.stuck);
	EXPECT_TRUE(a.s.tx.starved);
	EXPECT_FALSE(a.s.tx.lost);
	a.refuses = 0;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_FALSE(a.s.tx.starved);
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
}

TEST_F(Sending, AConnectionThatHasGoneIsTold)
{
	write(1, 10);
	a.refuses = -EPIPE;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.s.tx.lost);
	EXPECT_FALSE(a.s.tx.stuck);
	EXPECT_EQ(a.more.size(), 1U);
}

TEST_F(Sending, ABatchThatTcpTookAPartOfGoesOn)
{
	write(1, 10);
	write(2, 10);
	a.refuses = -EINTR;
	EXPECT_TRUE(kiw_tx_run(&a.s, 3));
	EXPECT_EQ(a.more.size(), 3U);
	EXPECT_FALSE(a.s.tx.lost);
	EXPECT_TRUE(a.completions().empty());
	a.refuses = 0;
	EXPECT_FALSE(kiw_tx_run(&a.s, 3));
	EXPECT_EQ(a.completions().size(), 2U);
}

TEST_F(Sending, WithoutMemoryToBuildInARunIsCalledAgain)
{
	write(1, 10);
	a.has_memory = false;
	EXPECT_TRUE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.s.tx.starved);
	EXPECT_EQ(a.core.sq.next, 0U);
	a.has_memory = true;
	Side::rooms = 0;
	EXPECT_TRUE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.s.tx.starved);
	EXPECT_TRUE(a.more.empty());
	Side::rooms = -1;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_FALSE(a.s.tx.starved);
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
}

TEST_F(Sending, WhatWasBuiltGoesOutBeforeMemoryRanShort)
{
	write(1, 10);
	write(2, 10);
	Side::rooms = 3;
	EXPECT_TRUE(kiw_tx_run(&a.s, 4));
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(a.completions().empty());
}

/// Runs a side, and expects it to say so where memory is short.
void run_short(Side &side)
{
	Side::refused = false;
	side.take_some();
	const bool more = kiw_tx_run(&side.s, 16);

	// Where it was short for a moment, another try in the same run has succeeded.
	if (!Side::rooms_once) {
		EXPECT_EQ(side.s.tx.starved, Side::refused);
		EXPECT_TRUE(more || !Side::refused);
	}
	kiw_tx_take_back(&side.s);
}

/// With each kind of message, memory runs short at each point, for a moment or longer: what arrives is the same.
class Memory : public testing::TestWithParam<std::tuple<bool, bool>> {
protected:
	~Memory() override
	{
		Side::rooms = -1;
		Side::rooms_once = false;
	}
};

TEST_P(Memory, MayRunShortAnywhere)
{
	const bool markers = std::get<0>(GetParam());
	bool was_short = true;

	for (int rooms = 0; was_short; rooms++) {
		SCOPED_TRACE(rooms);
		Pair p({.crc = markers, .markers = markers, .large = false, .rtr = KIW_RTR_WRITE});
		Side &a = *p.a, &b = *p.b;
		const kiw_sge from = a.sge(0, 3000), to = b.sge(0, 3000, 1), into = a.sge(0, 3000, 1),
			      word = a.sge(0, 8, 2);
		const kiw_atomic_args args{.compare_add = 5, .swap = 0};
		kiw_wqe imm = remote(KIW_WR_WRITE_IMM, 2, b, 5000), inv = request(KIW_WR_SEND_INV, 3);
		std::uint64_t value;

		fill(a.bytes(), 1);
		imm.imm = 7;
		inv.rkey = b.region(1).stag;
		for (int i = 0; i < 3; i++)
			b.receive(10 + i, {&to, 1});
		a.post(remote(KIW_WR_WRITE, 0, b, 0), {&from, 1});
		a.post(request(KIW_WR_SEND, 1), {&from, 1});
		a.post(imm, {&from, 1});
		a.post(inv, {});
		a.post(remote(KIW_WR_READ, 4, b, 0), {&into, 1});
		a.post(remote(KIW_WR_FETCH_ADD, 5, b, 8192), {&word, 1}, &args);
		a.post(remote(KIW_WR_FETCH_ADD, 6, b, 8192), {&word, 1}, &args);
		traced().clear();
		Side::rooms = rooms;
		Side::rooms_once = std::get<1>(GetParam());
		was_short = false;
		for (int i = 0; i < 5; i++) {
			for (Side *side : {&a, &b}) {
				run_short(*side);
				was_short |= Side::refused;
			}
		}
		Side::rooms = -1;
		a.kicked = b.kicked = true;
		p.run();
		for (int i = 0; i < 7; i++)
			EXPECT_COMPLETES(a, i, IB_WC_SUCCESS);
		for (int i = 0; i < 3; i++)
			EXPECT_COMPLETES(b, 10 + i, IB_WC_SUCCESS);
		EXPECT_TRUE(same(a.bytes().first(3000), b.bytes().first(3000)));
		EXPECT_TRUE(same(a.bytes().first(3000), b.bytes().subspan(5000, 3000)));
		EXPECT_TRUE(same(a.bytes().first(3000), b.bytes(1).first(3000)));
		EXPECT_TRUE(same(a.bytes().first(3000), a.bytes(1).first(3000)));
		std::memcpy(&value, b.bytes().data() + 8192, 8);
		EXPECT_EQ(value, 10U);
		std::memcpy(&value, a.bytes(2).data(), 8);
		EXPECT_EQ(value, 5U);
		EXPECT_EQ(a.core.state, KIW_QP_RTS);
		EXPECT_FALSE(kiw_tx_unfinished(&a.s));
		EXPECT_FALSE(kiw_tx_unfinished(&b.s));
		// Each FPDU is traced once, and was sent once.
		EXPECT_EQ(
			std::ranges::count(traced(), std::string("out"), &Traced::event), a.sent_fpdus + b.sent_fpdus);
	}
}

INSTANTIATE_TEST_SUITE_P(MarkersAndMoments, Memory, testing::Combine(testing::Bool(), testing::Bool()));

TEST(Starved, ATerminateIsSentLater)
{
	Pair p;

	Side::rooms = 0;
	kiw_session_fail(&p.a->s, KIW_ERR_RDMAP_OPCODE, nullptr, 0, 0);
	EXPECT_TRUE(kiw_tx_run(&p.a->s, 1));
	EXPECT_EQ(p.a->counts[KIW_STAT_TERM_SENT], 0U);
	Side::rooms = -1;
	EXPECT_FALSE(kiw_tx_run(&p.a->s, 4));
	EXPECT_EQ(p.a->counts[KIW_STAT_TERM_SENT], 1U);
}

// --- what is under way ----------------------------------------------------------------------------

TEST_F(Sending, WhatIsUnderWayIsUnfinished)
{
	EXPECT_FALSE(kiw_tx_unfinished(&a.s));
	write(1, 10);
	EXPECT_FALSE(kiw_tx_begun(&a.s));
	EXPECT_TRUE(kiw_tx_unfinished(&a.s));
	a.work();
	EXPECT_FALSE(kiw_tx_unfinished(&a.s));
	read(2, 10);
	a.work();
	EXPECT_FALSE(kiw_tx_pending(&a.s));
	EXPECT_TRUE(kiw_tx_begun(&a.s));
	b.feed(b.raw());
	EXPECT_TRUE(kiw_tx_begun(&b.s));
	b.work();
	EXPECT_FALSE(kiw_tx_begun(&b.s));
	a.work();
	EXPECT_FALSE(kiw_tx_begun(&a.s));
}

TEST_F(Sending, WhatWasTakenOutOfTheRingIsBegun)
{
	read(1, 10);
	a.work();
	p.run();
	ASSERT_FALSE(kiw_tx_begun(&a.s));
	a.core.ord = 0;
	a.core.sq.next++;
	EXPECT_TRUE(kiw_tx_begun(&a.s));
}

TEST_F(Sending, WhatTcpHasTakenIsCounted)
{
	write(1, 10);
	write(2, 0);
	a.work();
	// 2 + 14 + 10 + 2 of PAD + 4, and 2 + 14 + 0 + 0 + 4
	EXPECT_EQ(a.sent_bytes, 52U);
	EXPECT_EQ(a.sent_fpdus, 2U);
	EXPECT_EQ(a.lent_bytes, 0U);
	EXPECT_EQ(a.s.tx.sent_bytes, 52U);
	EXPECT_EQ(a.s.tx.sent_fpdus, 2U);
	kiw_tx_count(&a.s, 1, 2, 3);
	EXPECT_EQ(a.s.tx.sent_bytes, 53U);
	EXPECT_EQ(a.s.tx.lent_bytes, 2U);
	EXPECT_EQ(a.s.tx.sent_fpdus, 5U);
	EXPECT_EQ(a.lent_bytes, 2U);
}

TEST_F(Sending, AFullCompletionQueueEndsTheSession)
{
	a.core.sq.cq->room = 0;
	write(1, 10);
	a.work();
	EXPECT_EQ(a.core.state, KIW_QP_TERMINATE);
	EXPECT_EQ(traced().back(), (Traced{"out", 1, {KIW_OP_TERMINATE, true, 0}}));
}

TEST_F(AckedSends, CompleteWhenThePeerHasThem)
{
	b.hold = true;
	write(1, 10);
	EXPECT_FALSE(kiw_tx_awaits(&a.s));
	a.work();
	EXPECT_TRUE(a.completions().empty());
	EXPECT_TRUE(kiw_tx_awaits(&a.s));
	EXPECT_TRUE(a.watched);
	EXPECT_FALSE(kiw_tx_acked(&a.s));
	EXPECT_FALSE(kiw_tx_begun(&a.s));
	b.hold = false;
	b.work();
	EXPECT_TRUE(kiw_tx_acked(&a.s));
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_FALSE(kiw_tx_acked(&a.s));
	EXPECT_FALSE(kiw_tx_awaits(&a.s));
	EXPECT_FALSE(a.watched);
}

TEST_F(AckedSends, AreMarkedOnce)
{
	b.hold = true;
	write(1, 10);
	a.work();
	a.work();
	EXPECT_EQ(a.s.tx.acks.num, 1);
}

TEST_F(AckedSends, ThoseThatSendNothingWaitForNothing)
{
	bind(1);
	kiw_tx_run(&a.s, 4);
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
}

TEST_F(AckedSends, AnErrorTellsNothingMoreOfThem)
{
	b.hold = true;
	write(1, 10);
	a.work();
	b.hold = false;
	b.work();
	EXPECT_TRUE(a.event(KIW_EV_MODIFY_ERR));
	kiw_tx_take_back(&a.s);
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(a.core.sq.done, 0U);
}

TEST_F(Sending, AnAnswerMayComeBeforeTheRequestIsMarkedDone)
{
	// Slots are used again while the older requests wait for their marks.
	for (int i = 0; i < 200; i++) {
		read(i, 10);
		write(1000 + i, 10);
		p.run();
		EXPECT_COMPLETES(a, i, IB_WC_SUCCESS);
		EXPECT_COMPLETES(a, 1000 + i, IB_WC_SUCCESS);
	}
}

// --- loans ----------------------------------------------------------------------------------------

TEST_F(Lending, ARequestCompletesWhenItsLoanIsOver)
{
	fill(a.bytes(), 1);
	write(1, 5000);
	write(2, 100);
	write(3, 4999);
	p.run();
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(a.lent_bytes, 5000U);
	EXPECT_EQ(a.s.tx.lent_bytes, 5000U);
	EXPECT_EQ(a.loans.size(), 1U);
	EXPECT_TRUE(kiw_tx_awaits(&a.s));
	EXPECT_TRUE(a.watched);
	EXPECT_FALSE(kiw_tx_begun(&a.s));
	EXPECT_TRUE(same(a.bytes().first(5000), b.bytes().first(5000)));
	a.end_loans();
	p.run();
	for (int i = 1; i <= 3; i++)
		EXPECT_COMPLETES(a, i, IB_WC_SUCCESS);
	EXPECT_FALSE(kiw_tx_awaits(&a.s));
	EXPECT_FALSE(a.watched);
}

TEST_F(Lending, TheOlderLoanCountsFirst)
{
	write(1, 5000);
	a.work();
	write(2, 5000);
	a.work();
	ASSERT_EQ(a.loans.size(), 2U);
	a.loans.back().over = true;
	a.work();
	EXPECT_TRUE(a.completions().empty());
	a.loans.front().over = true;
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
}

TEST_F(Lending, AnEarlierLoanDoesNotHoldItsPredecessors)
{
	write(1, 100);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	write(2, 5000);
	a.work();
	write(3, 100);
	a.work();
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(a.loans.back().end, 3U);
	a.end_loans();
	a.work();
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 3, IB_WC_SUCCESS);
}

TEST_F(Lending, WhatALoanDoesNotTakeIsCopied)
{
	a.loan_is_full = true;
	fill(a.bytes(), 1);
	write(1, 5000);
	p.run();
	EXPECT_EQ(a.lent_bytes, 0U);
	EXPECT_TRUE(same(a.bytes().first(5000), b.bytes().first(5000)));
}

TEST_F(Lending, AResponseIsLentAsWell)
{
	fill(b.bytes(), 1);
	read(1, 5000);
	p.run();
	EXPECT_EQ(b.lent_bytes, 5000U);
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(same(b.bytes().first(5000), a.bytes(1).first(5000)));
}

TEST_F(Lending, AnAtomicWaitsForTheLoansBeforeIt)
{
	read(1, 5000);
	add(2);
	p.run();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(a.completions().empty());
	EXPECT_TRUE(zero(b.bytes().first(8)));
	// A Read doesn't.
	b.end_loans();
	p.run();
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
	read(3, 5000);
	read(4, 100);
	p.run();
	EXPECT_COMPLETES(a, 3, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 4, IB_WC_SUCCESS);
}

TEST_F(Lending, ABatchThatIsUndoneHasNoLoan)
{
	write(1, 5000);
	Side::rooms = 0;
	EXPECT_TRUE(kiw_tx_run(&a.s, 4));
	EXPECT_TRUE(a.drops);
	EXPECT_TRUE(a.loans.empty());
	EXPECT_EQ(a.s.tx.batch.loan, nullptr);
	Side::rooms = -1;
	a.drops = false;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_FALSE(a.drops);
	EXPECT_EQ(a.lent_bytes, 5000U);
	EXPECT_EQ(a.loans.size(), 1U);
}

TEST_F(Lending, AResponseThatIsUndoneHasNoLoan)
{
	read(1, 5000);
	a.work();
	b.feed(b.raw());
	Side::rooms = 0;
	EXPECT_TRUE(kiw_tx_run(&b.s, 4));
	EXPECT_TRUE(b.loans.empty());
	EXPECT_EQ(b.s.tx.batch.len, 0U);
}

TEST_F(Lending, WhatTcpHasApartOfStaysLent)
{
	write(1, 5000);
	a.refuses = -EAGAIN;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	ASSERT_EQ(a.loans.size(), 1U);
	EXPECT_FALSE(a.drops);
	a.s.tx.batch.sent = 10;
	kiw_tx_drop(&a.s);
	EXPECT_EQ(a.loans.size(), 1U);
	EXPECT_EQ(a.s.tx.batch.len, 0U);
}

TEST_F(Lending, WhatTcpHasNothingOfIsDropped)
{
	write(1, 5000);
	a.refuses = -EAGAIN;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	kiw_tx_drop(&a.s);
	EXPECT_TRUE(a.loans.empty());
}

TEST_F(Lending, ABufferThatIsSentIsLeftAlone)
{
	const std::array from{a.sge(0, 32768), a.sge(0, 5000, 2)};

	a.has_room = false;
	a.post(remote(KIW_WR_WRITE, 1, b, 0), from);
	EXPECT_TRUE(kiw_tx_run(&a.s, 1));
	a.core.own.region[0].valid = false;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(a.lent_bytes, 37768U);
	EXPECT_EQ(a.core.state, KIW_QP_RTS);
}

TEST_F(Lending, ARegionThatMayNotBeReadIsNotLent)
{
	const std::array from{a.sge(0, 5000), a.sge(Side::memory_size, 1)};

	a.post(remote(KIW_WR_WRITE, 1, b, 0), from);
	a.work();
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
	EXPECT_EQ(a.lent_bytes, 0U);
	EXPECT_TRUE(zero(b.bytes().first(5000)));
}

// --- message by message ---------------------------------------------------------------------------

/// Each function adds an FPDU and returns 0, or returns -ENOMEM and adds nothing.
class Message : public Sending {
protected:
	/// Takes the request that is posted, and adds one FPDU of it.
	int add_request()
	{
		EXPECT_EQ(kiw_sq_take(&a.core.sq, &a.s.tx.req), KIW_TAKE_ONE);
		a.s.tx.message = KIW_MESSAGE_REQUEST;
		a.s.tx.off = 0;
		a.s.tx.written = false;
		return expect_both([this] { return kiw_message_request(&a.s); }, a);
	}

	static int expect_both(const std::function<int()> &add, Side &side)
	{
		Side::rooms = 0;
		Side::refused = false;
		traced().clear();
		const int first = add();

		Side::rooms = -1;
		EXPECT_EQ(side.s.tx.batch.len, 0U);
		EXPECT_EQ(std::ranges::count(traced(), std::string("out"), &Traced::event), 0);
		EXPECT_EQ(first, Side::refused ? -ENOMEM : 0);
		return Side::refused ? add() : first;
	}
};

TEST_F(Message, OfEachKindOfRequest)
{
	write(1, 10);
	EXPECT_EQ(add_request(), 0);
	EXPECT_EQ(a.s.tx.batch_index, 1U);
}

TEST_F(Message, OfASend)
{
	const kiw_sge from = a.sge(0, 10);

	a.post(request(KIW_WR_SEND, 1), {&from, 1});
	EXPECT_EQ(add_request(), 0);
	EXPECT_EQ(a.s.tx.msn_send, 2U);
}

TEST_F(Message, OfARead)
{
	read(1, 10);
	EXPECT_EQ(add_request(), 0);
	EXPECT_EQ(kiw_reads_out_len(&a.s.tx.reads_out), 1U);
}

TEST_F(Message, OfAnAtomic)
{
	add(1);
	EXPECT_EQ(add_request(), 0);
	EXPECT_EQ(kiw_reads_out_len(&a.s.tx.reads_out), 1U);
}

TEST_F(Message, OfAWriteWithImmediateData)
{
	a.post(remote(KIW_WR_WRITE_IMM, 1, b, 0), {});
	EXPECT_EQ(add_request(), 0);
	EXPECT_TRUE(a.s.tx.written);
	EXPECT_EQ(a.s.tx.batch_index, 0U);
	kiw_batch_clear(&a.s.tx.batch);
	EXPECT_EQ(expect_both([this] { return kiw_message_request(&a.s); }, a), 0);
	EXPECT_EQ(a.s.tx.batch_index, 1U);
}

TEST_F(Message, OfALocalRequest)
{
	bind(1);
	EXPECT_EQ(add_request(), 0);
	EXPECT_EQ(a.s.tx.batch_index, 1U);
}

TEST_F(Message, ThatCannotBeIsNoLackOfMemory)
{
	kiw_wqe wqe = request(KIW_WR_LOCAL_INV, 1);
	const kiw_sge from = a.sge(Side::memory_size, 1);

	wqe.rkey = 1;
	a.post(wqe, {});
	EXPECT_EQ(add_request(), 0);
	EXPECT_EQ(a.s.tx.batch_index, 0U);
	a.core.own.region[1].may_be_invalidated = false;
	bind(2);
	EXPECT_EQ(add_request(), 0);
	a.post(remote(KIW_WR_WRITE, 3, b, 0), {&from, 1});
	EXPECT_EQ(add_request(), 0);
	EXPECT_EQ(a.s.tx.batch_index, 0U);
}

TEST_F(Message, OfAnswers)
{
	const std::array requests{read_request({.sink_stag = 1,
					  .sink_to = 0,
					  .size = 8,
					  .src_stag = b.region(0).stag,
					  .src_to = Side::address}),
		atomic_request({.op = 0,
				       .req_id = 1,
				       .stag = b.region(0).stag,
				       .to = Side::address,
				       .data = 1,
				       .mask = 0,
				       .cmp = 0,
				       .cmp_mask = 0},
			2)};

	for (const Bytes &request : requests) {
		b.feed(request);
		b.s.tx.off = 0;
		EXPECT_EQ(expect_both([this] { return kiw_message_response(&b.s); }, b), 0);
		EXPECT_EQ(kiw_reads_in_len(&b.s.tx.reads_in), 0U);
		kiw_batch_clear(&b.s.tx.batch);
	}
	// The regions go before the answer.
	b.feed(read_request(
		{.sink_stag = 1, .sink_to = 0, .size = 8, .src_stag = b.region(0).stag, .src_to = Side::address}, 3));
	b.core.own.region[0].valid = false;
	b.s.tx.off = 0;
	b.s.tx.message = KIW_MESSAGE_RESPONSE;
	EXPECT_EQ(kiw_message_response(&b.s), 0);
	EXPECT_EQ(b.core.state, KIW_QP_TERMINATE);
	EXPECT_EQ(b.s.tx.message, KIW_MESSAGE_NONE);
}

TEST_F(Message, OfAnAtomicThatFails)
{
	b.feed(atomic_request({.op = 0,
		.req_id = 1,
		.stag = b.region(0).stag,
		.to = Side::address,
		.data = 1,
		.mask = 0,
		.cmp = 0,
		.cmp_mask = 0}));
	b.core.own.region[0].valid = false;
	b.s.tx.message = KIW_MESSAGE_RESPONSE;
	EXPECT_EQ(kiw_message_response(&b.s), 0);
	EXPECT_EQ(b.core.state, KIW_QP_TERMINATE);
	EXPECT_EQ(b.s.tx.message, KIW_MESSAGE_NONE);
}

TEST_F(Message, ThatSaysReady)
{
	for (const std::uint8_t rtr : {KIW_RTR_WRITE, KIW_RTR_SEND, KIW_RTR_READ}) {
		a.s.tx.rtr = rtr;
		EXPECT_EQ(expect_both([this] { return kiw_message_rtr(&a.s); }, a), 0);
		EXPECT_EQ(a.s.tx.rtr, 0);
		kiw_batch_clear(&a.s.tx.batch);
	}
	EXPECT_EQ(kiw_reads_out_len(&a.s.tx.reads_out), 1U);
	EXPECT_EQ(a.s.tx.msn_read, 2U);
	EXPECT_EQ(a.s.tx.msn_send, 2U);
}

TEST_F(Message, ThatTerminates)
{
	kiw_session_fail(&a.s, KIW_ERR_RDMAP_OPCODE, nullptr, 0, 0);
	EXPECT_EQ(expect_both([this] { return kiw_message_terminate(&a.s); }, a), 0);
	EXPECT_EQ(a.counts[KIW_STAT_TERM_SENT], 1U);
	EXPECT_EQ(a.s.tx.term_len, 0U);
}

TEST_F(Message, IsAddedUnderTheLock)
{
	a.held = false;
	a.s.tx.rtr = KIW_RTR_WRITE;
	kiw_message_rtr(&a.s);
	EXPECT_EQ(a.unheld, 1U);
	a.unheld = 0;
	kiw_message_failed(&a.s, IB_WC_LOC_PROT_ERR);
	// Once for itself, and once for the end of the session
	EXPECT_EQ(a.unheld, 2U);
}

// --- datagrams ------------------------------------------------------------------------------------

TEST_F(Sending, ADatagramIsWhatItHoldsAndItsCrc)
{
	const Bytes header(24, 0x11);
	kiw_builder f{};
	kiw_region_fault fault = KIW_REGION_OK;

	fill(a.bytes(), 1);
	f.batch = &a.s.tx.batch;
	f.owner = &a.core.own;
	f.gfp = kiw_carrier_gfp(&a.s);
	f.loan = reinterpret_cast<kiw_loan *>(&f);
	ASSERT_EQ(kiw_builder_begin_datagram(&f, header.data(), 24), 0);
	ASSERT_EQ(kiw_builder_put_region(&f, a.region(0).stag, 0, Side::address, 2000, &fault), 0);
	ASSERT_EQ(kiw_builder_end_datagram(&f), 0);
	const kiw_batch &batch = a.s.tx.batch;
	ASSERT_EQ(batch.len, 24U + 2000 + 4);
	const __le32 crc = kiw_crc_wire(kiw_crc_update(kiw_crc_init(), batch.bytes, 2024));
	EXPECT_EQ(std::memcmp(batch.bytes + 2024, &crc, 4), 0);
	EXPECT_TRUE(same({batch.bytes, 24}, header));
	EXPECT_TRUE(same({batch.bytes + 24, 2000}, a.bytes().first(2000)));
	EXPECT_EQ(batch.fpdus, 0U);
	// It is undone as a whole.
	f.before = {};
	ASSERT_EQ(kiw_builder_begin_datagram(&f, header.data(), 24), 0);
	EXPECT_EQ(f.before.len, 2028U);
	kiw_builder_undo(&f);
	EXPECT_EQ(batch.len, 2028U);
	Side::rooms = 0;
	EXPECT_EQ(kiw_builder_begin_datagram(&f, header.data(), 24), -ENOMEM);
	EXPECT_EQ(kiw_builder_end_datagram(&f), -ENOMEM);
}

} // namespace
