// SPDX-License-Identifier: GPL-2.0
#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <tuple>
#include <vector>

#include "requests.hpp"

namespace {

using namespace session;

/// With and without CRC, markers and FPDUs beyond a segment, over a wide socket and a narrow one
class Terminal : public testing::TestWithParam<std::tuple<bool, bool, bool, int>> {
protected:
	static Terms terms()
	{
		Terms t;

		t.crc = std::get<0>(GetParam());
		t.markers = std::get<1>(GetParam());
		t.large = std::get<2>(GetParam());
		return t;
	}

	Pair p{terms(), Pair::by_cm, std::get<3>(GetParam())};
	Side &a = *p.a, &b = *p.b;
};

TEST_P(Terminal, SendsOfAllLengthsArrive)
{
	// The peer that answers may send once it has heard of this side.
	for (const std::uint32_t length : {0U, 1U, 3U, 4U, 1400U, 1448U, 4097U, 65536U, Side::memory_size}) {
		const kiw_sge from = a.sge(0, length), to = b.sge(0, Side::memory_size);

		fill(a.bytes(), static_cast<std::uint8_t>(length));
		std::ranges::fill(b.bytes(), 0);
		b.receive(length, {&to, 1});
		a.post(request(KIW_WR_SEND, length), {&from, 1});
		p.run();
		EXPECT_COMPLETES(a, length, IB_WC_SUCCESS);
		ASSERT_FALSE(b.completions().empty());
		EXPECT_EQ(b.completions().front().byte_len, length);
		EXPECT_EQ(b.completions().front().opcode, KIW_WR_RECV);
		EXPECT_COMPLETES(b, length, IB_WC_SUCCESS);
		EXPECT_TRUE(same(a.bytes().first(length), b.bytes().first(length)));
		EXPECT_TRUE(length == Side::memory_size || b.bytes()[length] == 0);
	}
	EXPECT_TRUE(b.established);
}

TEST_P(Terminal, GathersAndScatters)
{
	const std::array from{a.sge(10, 5000), a.sge(9000, 1), a.sge(20000, 0), a.sge(30000, 3000)};
	const std::array to{b.sge(0, 7), b.sge(100, 4000), b.sge(8192, 4000), b.sge(50000, 9)};

	fill(a.bytes(), 1);
	b.receive(2, to);
	a.post(request(KIW_WR_SEND, 1), from);
	p.run();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_COMPLETES(b, 2, IB_WC_SUCCESS);
	std::vector<std::uint8_t> sent, got;
	for (const kiw_sge &sge : from)
		sent.insert(sent.end(), a.bytes().begin() + (sge.addr - Side::address),
			a.bytes().begin() + (sge.addr - Side::address) + sge.length);
	for (const kiw_sge &sge : to)
		got.insert(got.end(), b.bytes().begin() + (sge.addr - Side::address),
			b.bytes().begin() + (sge.addr - Side::address) + sge.length);
	got.resize(sent.size());
	EXPECT_EQ(sent, got);
}

TEST_P(Terminal, WritesAndReadsOfAllLengths)
{
	for (const std::uint32_t length : {0U, 1U, 8U, 1434U, 40000U, Side::memory_size - 5}) {
		const kiw_sge from = a.sge(0, length), into = a.sge(0, length, 1);

		fill(a.bytes(), static_cast<std::uint8_t>(length + 3));
		a.post(remote(KIW_WR_WRITE, 1, b, 5), {&from, 1});
		a.post(remote(KIW_WR_READ, 2, b, 5), {&into, 1});
		p.run();
		EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
		EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
		EXPECT_TRUE(same(a.bytes().first(length), b.bytes().subspan(5, length)));
		EXPECT_TRUE(same(a.bytes().first(length), a.bytes(1).first(length)));
	}
	EXPECT_TRUE(b.completions().empty());
}

TEST_P(Terminal, ImmediateDataAndInvalidationAreTold)
{
	const kiw_sge from = a.sge(0, 6000), to = b.sge(0, 6000);
	kiw_wqe wqe = request(KIW_WR_SEND_IMM, 1);

	for (int i = 0; i < 3; i++)
		b.receive(i, {&to, 1});
	wqe.imm = htobe32(0x12345678);
	a.post(wqe, {&from, 1});
	wqe = remote(KIW_WR_WRITE_IMM, 2, b, 0);
	wqe.imm = htobe32(0x9abcdef0);
	a.post(wqe, {&from, 1});
	wqe = request(KIW_WR_SEND_INV, 3);
	wqe.rkey = b.region(1).stag;
	a.post(wqe, {&from, 1});
	p.run();
	ASSERT_EQ(b.completions().size(), 3U);
	kiw_cqe cqe = b.completion();
	EXPECT_EQ(cqe.flags & KIW_CQE_WITH_IMM, KIW_CQE_WITH_IMM);
	EXPECT_EQ(be32toh(cqe.imm), 0x12345678U);
	cqe = b.completion();
	EXPECT_EQ(cqe.opcode, KIW_WR_RECV_IMM);
	EXPECT_EQ(cqe.byte_len, 6000U);
	EXPECT_EQ(be32toh(cqe.imm), 0x9abcdef0U);
	cqe = b.completion();
	EXPECT_EQ(cqe.flags & KIW_CQE_WITH_INV, KIW_CQE_WITH_INV);
	EXPECT_EQ(cqe.inv_stag, b.region(1).stag);
	EXPECT_FALSE(b.region(1).valid);
	for (int id = 1; id <= 3; id++)
		EXPECT_COMPLETES(a, id, IB_WC_SUCCESS);
}

TEST_P(Terminal, AtomicsReturnWhatWasThere)
{
	const kiw_sge into = a.sge(64, 8);
	kiw_atomic_args args{.compare_add = 5, .swap = 0};
	std::uint64_t value = 100, old;

	std::memcpy(b.bytes().data() + 16, &value, 8);
	a.post(remote(KIW_WR_FETCH_ADD, 1, b, 16), {&into, 1}, &args);
	p.run();
	std::memcpy(&old, a.bytes().data() + 64, 8);
	EXPECT_EQ(old, 100U);
	for (const std::uint64_t compare : {104U, 105U}) {
		args = {.compare_add = compare, .swap = 7};
		a.post(remote(KIW_WR_CMP_SWAP, 2, b, 16), {&into, 1}, &args);
		p.run();
		std::memcpy(&old, a.bytes().data() + 64, 8);
		std::memcpy(&value, b.bytes().data() + 16, 8);
		EXPECT_EQ(old, 105U);
		EXPECT_EQ(value, compare == 105 ? 7U : 105U);
	}
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
}

TEST_P(Terminal, BothSidesSendAtOnce)
{
	const kiw_sge from_a = a.sge(0, 20000), from_b = b.sge(0, 20000), at_a = a.sge(100000, 20000),
		      at_b = b.sge(100000, 20000);

	fill(a.bytes().first(20000), 1);
	fill(b.bytes().first(20000), 2);
	for (int i = 0; i < 20; i++) {
		a.receive(100 + i, {&at_a, 1});
		b.receive(100 + i, {&at_b, 1});
		a.post(request(KIW_WR_SEND, i), {&from_a, 1});
		b.post(request(KIW_WR_SEND, i), {&from_b, 1});
	}
	p.run();
	EXPECT_EQ(a.completions().size(), 40U);
	EXPECT_EQ(b.completions().size(), 40U);
	for (const kiw_cqe &cqe : a.completions())
		EXPECT_EQ(cqe.status, IB_WC_SUCCESS);
	EXPECT_TRUE(same(a.bytes().first(20000), b.bytes().subspan(100000, 20000)));
	EXPECT_TRUE(same(b.bytes().first(20000), a.bytes().subspan(100000, 20000)));
}

INSTANTIATE_TEST_SUITE_P(
	Terms, Terminal, testing::Combine(testing::Bool(), testing::Bool(), testing::Bool(), testing::Values(0, 4608)));

class Connected : public testing::Test {
protected:
	/// The peer says by a Terminate what is wrong, and both queue pairs end in error.
	void terminated(Side &victim, Side &told)
	{
		p.run();
		EXPECT_EQ(victim.counts[KIW_STAT_TERM_SENT], 1U);
		EXPECT_EQ(told.counts[KIW_STAT_TERM_RECEIVED], 1U);
		EXPECT_EQ(victim.core.state, KIW_QP_ERROR);
		EXPECT_EQ(told.core.state, KIW_QP_ERROR);
		EXPECT_EQ(victim.events.size(), 1U);
	}

	Pair p;
	Side &a = *p.a, &b = *p.b;
};

TEST_F(Connected, AResponderWaitsForItsPeer)
{
	const kiw_sge from = b.sge(0, 10), to = a.sge(0, 10), empty = a.sge(0, 0);

	a.receive(1, {&to, 1});
	b.post(request(KIW_WR_SEND, 2), {&from, 1});
	p.run();
	EXPECT_TRUE(a.completions().empty());
	a.post(remote(KIW_WR_WRITE, 3, b, 0), {&empty, 1});
	p.run();
	EXPECT_COMPLETES(a, 3, IB_WC_SUCCESS);
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_COMPLETES(b, 2, IB_WC_SUCCESS);
}

TEST_F(Connected, AMessageWaitsForItsReceive)
{
	const kiw_sge from = a.sge(0, 100), to = b.sge(0, 100);

	a.post(request(KIW_WR_SEND, 1), {&from, 1});
	a.post(remote(KIW_WR_WRITE, 2, b, 5000), {&from, 1});
	fill(a.bytes(), 9);
	p.run();
	EXPECT_TRUE(b.starves_);
	EXPECT_FALSE(same(a.bytes().first(100), b.bytes().subspan(5000, 100)));
	b.receive(3, {&to, 1});
	p.run();
	EXPECT_COMPLETES(b, 3, IB_WC_SUCCESS);
	EXPECT_TRUE(same(a.bytes().first(100), b.bytes().subspan(5000, 100)));
}

TEST_F(Connected, AMessageThatWaitedTooLongEndsTheConnection)
{
	const kiw_sge from = a.sge(0, 100);

	a.post(request(KIW_WR_SEND, 1), {&from, 1});
	p.run();
	b.advance(9999);
	p.run();
	EXPECT_EQ(b.core.state, KIW_QP_RTS);
	b.advance(1);
	terminated(b, a);
}

TEST_F(Connected, AWriteWithoutTheRightTouchesNothing)
{
	const kiw_sge from = a.sge(0, 100);

	fill(a.bytes(), 1);
	a.post(remote(KIW_WR_WRITE, 1, b, 0, 2), {&from, 1});
	a.post(remote(KIW_WR_WRITE, 2, b, 0, 0), {&from, 1});
	terminated(b, a);
	EXPECT_TRUE(std::ranges::all_of(b.bytes(2), [](auto byte) { return !byte; }));
	EXPECT_TRUE(std::ranges::all_of(b.bytes(0), [](auto byte) { return !byte; }));
}

TEST_F(Connected, AWriteBeyondTheEndTouchesNothing)
{
	const kiw_sge from = a.sge(0, 100);

	fill(a.bytes(), 1);
	a.post(remote(KIW_WR_WRITE, 1, b, Side::memory_size - 99), {&from, 1});
	terminated(b, a);
	EXPECT_TRUE(std::ranges::all_of(b.bytes(0), [](auto byte) { return !byte; }));
}

TEST_F(Connected, AReadThatIsRefusedSaysSo)
{
	const kiw_sge into = a.sge(0, 100);

	a.post(remote(KIW_WR_READ, 1, b, 0, 2), {&into, 1});
	a.post(remote(KIW_WR_READ, 2, b, 0, 0), {&into, 1});
	terminated(b, a);
	EXPECT_COMPLETES(a, 1, IB_WC_REM_ACCESS_ERR);
	EXPECT_COMPLETES(a, 2, IB_WC_WR_FLUSH_ERR);
}

TEST_F(Connected, AnInvalidatedRegionIsNotFound)
{
	const kiw_sge from = a.sge(0, 100), to = b.sge(0, 100);
	kiw_wqe wqe = request(KIW_WR_SEND_INV, 1);

	wqe.rkey = b.region(1).stag;
	b.receive(1, {&to, 1});
	a.post(wqe, {&from, 1});
	a.post(remote(KIW_WR_WRITE, 2, b, 0, 1), {&from, 1});
	terminated(b, a);
	EXPECT_COMPLETES(b, 1, IB_WC_SUCCESS);
}

TEST_F(Connected, ABadRequestOfItsOwnEndsIt)
{
	kiw_sge from = a.sge(Side::memory_size - 10, 11);

	a.post(request(KIW_WR_SEND, 1), {&from, 1});
	p.run();
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
	EXPECT_EQ(a.core.state, KIW_QP_ERROR);
	EXPECT_EQ(b.core.state, KIW_QP_ERROR);
}

TEST_F(Connected, MoreReadsThanThePeerHoldsWait)
{
	const kiw_sge into = a.sge(0, 3000);

	for (int i = 0; i < 20; i++)
		a.post(remote(KIW_WR_READ, i, b, 100 * i), {&into, 1});
	p.run();
	for (int i = 0; i < 20; i++)
		EXPECT_COMPLETES(a, i, IB_WC_SUCCESS);
}

TEST_F(Connected, AFencedRequestWaitsForReads)
{
	const kiw_sge into = a.sge(0, 100), from = a.sge(0, 100);

	fill(b.bytes(), 5);
	b.hold = true;
	a.post(remote(KIW_WR_READ, 1, b, 0), {&into, 1});
	a.post(remote(KIW_WR_WRITE, 2, b, 1000, 0, KIW_WQE_SIGNALED | KIW_WQE_FENCE), {&from, 1});
	p.run();
	EXPECT_TRUE(a.completions().empty());
	b.hold = false;
	p.run();
	EXPECT_TRUE(same(b.bytes().first(100), b.bytes().subspan(1000, 100)));
}

TEST_F(Connected, UnsignaledRequestsFreeTheirSlots)
{
	const kiw_sge from = a.sge(0, 10);

	for (int i = 0; i < 1000; i++) {
		a.post(remote(KIW_WR_WRITE, i, b, 0, 0, 0), {&from, 1});
		p.run();
	}
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(a.core.state, KIW_QP_RTS);
}

TEST_F(Connected, InlineDataIsInTheSlot)
{
	std::vector<std::uint8_t> slot(sizeof(kiw_wqe) + 64);
	kiw_wqe wqe = remote(KIW_WR_WRITE, 1, b, 8, 0, KIW_WQE_SIGNALED | KIW_WQE_INLINE);

	wqe.inline_len = 64;
	std::memcpy(slot.data(), &wqe, sizeof(wqe));
	fill(std::span(slot).subspan(sizeof(wqe)), 3);
	a.scribble(slot, 1);
	p.run();
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(same(std::span(slot).subspan(sizeof(wqe)), b.bytes().subspan(8, 64)));
}

TEST_F(Connected, AnIndexThatCannotBeEndsIt)
{
	a.scribble({}, 65);
	p.run();
	EXPECT_EQ(a.counts[KIW_STAT_RING_ERRORS], 1U);
	EXPECT_EQ(a.core.state, KIW_QP_ERROR);
}

TEST_F(Connected, AnOrderlyCloseLeavesBothIdle)
{
	const kiw_sge from = a.sge(0, 100), to = b.sge(0, 100);

	b.receive(1, {&to, 1});
	b.receive(2, {&to, 1});
	a.post(request(KIW_WR_SEND, 3), {&from, 1});
	p.run();
	EXPECT_TRUE(a.event(KIW_EV_CLOSE));
	p.run();
	EXPECT_EQ(a.core.state, KIW_QP_IDLE);
	EXPECT_EQ(b.core.state, KIW_QP_IDLE);
	EXPECT_TRUE(b.closing);
	EXPECT_COMPLETES(b, 1, IB_WC_SUCCESS);
	EXPECT_COMPLETES(b, 2, IB_WC_WR_FLUSH_ERR);
}

TEST_F(Connected, ALossFlushesAllThatIsUndone)
{
	const kiw_sge into = a.sge(0, 100), to = a.sge(200, 100);

	b.hold = true;
	a.receive(1, {&to, 1});
	for (int i = 0; i < 3; i++)
		a.post(remote(KIW_WR_READ, 10 + i, b, 0), {&into, 1});
	p.run();
	a.reset();
	EXPECT_EQ(a.core.state, KIW_QP_ERROR);
	EXPECT_COMPLETES(a, 1, IB_WC_WR_FLUSH_ERR);
	for (int i = 0; i < 3; i++)
		EXPECT_COMPLETES(a, 10 + i, IB_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.counts[KIW_STAT_LLP_LOST], 1U);
}

TEST_F(Connected, AFullCompletionQueueEndsIt)
{
	const kiw_sge from = a.sge(0, 10);

	a.core.sq.cq->room = 3;
	for (int i = 0; i < 5; i++)
		a.post(remote(KIW_WR_WRITE, i, b, 0), {&from, 1});
	p.run();
	EXPECT_EQ(a.completions().size(), 3U);
	EXPECT_EQ(a.core.state, KIW_QP_ERROR);
}

class ByNumber : public testing::Test {
protected:
	Pair p{Terms{}, Pair::by_number};
	Side &a = *p.a, &b = *p.b;
};

TEST_F(ByNumber, ACompletionIsAnAcknowledgement)
{
	const kiw_sge from = a.sge(0, 100);

	b.hold = true;
	for (int i = 0; i < 40; i++) {
		a.post(remote(KIW_WR_WRITE, i, b, 0), {&from, 1});
		p.run();
	}
	EXPECT_TRUE(a.completions().empty());
	b.hold = false;
	p.run();
	for (int i = 0; i < 40; i++)
		EXPECT_COMPLETES(a, i, IB_WC_SUCCESS);
}

TEST_F(ByNumber, TheOldestTellsThatThePeerIsLost)
{
	const kiw_sge from = a.sge(0, 100);

	b.hold = true;
	for (int i = 0; i < 3; i++)
		a.post(remote(KIW_WR_WRITE, i, b, 0), {&from, 1});
	p.run();
	a.reset();
	EXPECT_COMPLETES(a, 0, IB_WC_RETRY_EXC_ERR);
	EXPECT_COMPLETES(a, 1, IB_WC_WR_FLUSH_ERR);
	EXPECT_COMPLETES(a, 2, IB_WC_WR_FLUSH_ERR);
}

} // namespace
