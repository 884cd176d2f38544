// SPDX-License-Identifier: GPL-2.0
// What a peer may send, made byte by byte, and how it is told of what it may not.
#include <gtest/gtest.h>

#include "fpdus.hpp"
#include "requests.hpp"
#include "sockets.hpp"

namespace {

using namespace session;

class Arriving : public testing::Test {
protected:
	explicit Arriving(const Terms &terms = {}) : p(terms)
	{
		traced().clear();
		// Nothing of what b answers reaches a.
		a.hold = true;
	}

	/// The last error that a side found: layer, type and code
	static int fault_of(const Side &side)
	{
		int fault = KIW_OK;

		for (const Traced &t : traced()) {
			if (t.event == "fail" && t.num == side.core.own.num)
				fault = KIW_ERR(t.said[0], t.said[1], t.said[2]);
		}
		return fault;
	}

	void expect_refused(Side &side, const Bytes &bytes, int error)
	{
		side.feed(bytes);
		EXPECT_EQ(fault_of(side), error);
		EXPECT_EQ(side.core.state, KIW_QP_TERMINATE);
		EXPECT_TRUE(side.s.rx.stopped);
	}

	void expect_taken(Side &side, const Bytes &bytes)
	{
		side.feed(bytes);
		EXPECT_EQ(fault_of(side), KIW_OK);
		EXPECT_EQ(side.core.state, KIW_QP_RTS);
		EXPECT_TRUE(side.s.rx.between);
	}

	/// a asks for a Read or an atomic, and what b would say comes from the test.
	void ask(kiw_wr_op opcode, std::span<const kiw_sge> into, std::uint64_t id = 1)
	{
		a.post(remote(opcode, id, b, 0), into, opcode == KIW_WR_READ ? nullptr : &args);
		a.work();
	}

	kiw_region &region(Side &side, std::size_t i) { return side.core.own.region[i]; }
	std::uint32_t stag(std::size_t i) { return b.region(i).stag; }
	kiw_rreq read(std::uint32_t size = 8, std::size_t i = 0)
	{
		return {.sink_stag = 1, .sink_to = 0, .size = size, .src_stag = stag(i), .src_to = b.region(i).iova};
	}
	kiw_atomic atomic(std::uint32_t offset = 0, std::size_t i = 0)
	{
		return {.op = KIW_ATOMIC_FETCH_ADD,
			.req_id = 1,
			.stag = stag(i),
			.to = b.region(i).iova + offset,
			.data = 1,
			.mask = 0,
			.cmp = 0,
			.cmp_mask = 0};
	}

	kiw_atomic_args args{.compare_add = 1, .swap = 2};
	Pair p;
	Side &a = *p.a, &b = *p.b;
};

class Write : public Arriving {};
class Send : public Arriving {};
class Request : public Arriving {};
class Response : public Arriving {};
class Terminate : public Arriving {};

TEST_F(Write, EachSegmentIsCheckedByItself)
{
	expect_taken(b, tagged(KIW_OP_WRITE, false, stag(0), Side::address, {1, 2, 3}));
	EXPECT_EQ(b.bytes()[2], 3);
	expect_refused(b, tagged(KIW_OP_WRITE, true, stag(2), b.region(2).iova, {4}), KIW_ERR_RDMAP_ACCESS);
	EXPECT_EQ(b.bytes(2)[0], 0);
}

TEST_F(Write, WithoutARegionIsRefused)
{
	expect_refused(b, tagged(KIW_OP_WRITE, true, 1, Side::address, {1}), KIW_ERR_DDP_STAG);
}

TEST_F(Write, OfNothingNeedsNoRegion)
{
	expect_taken(b, tagged(KIW_OP_WRITE, true, 1, Side::address, {}));
	EXPECT_TRUE(b.s.rx_ended);
}

TEST_F(Write, BeyondTheEndIsRefused)
{
	expect_taken(b, tagged(KIW_OP_WRITE, true, stag(0), Side::address + Side::memory_size - 2, {1, 2}));
	expect_refused(b, tagged(KIW_OP_WRITE, true, stag(0), Side::address + Side::memory_size - 2, {1, 2, 3}),
		KIW_ERR_DDP_BOUNDS);
}

TEST_F(Write, TakesItsPayloadFromASocket)
{
	constexpr std::uint32_t before = KIW_FPDU_LEN_SIZE + KIW_TAGGED_LEN, n = 5000;
	Bytes bytes = tagged(KIW_OP_WRITE, true, stag(0), Side::address + 3, Bytes(n, 7)) +
		      tagged(KIW_OP_WRITE, true, stag(0), Side::address + 3 + n, {8});
	const std::uint32_t end = b.consumed() + before + n;
	const Sockets sockets;
	const Bytes wanted = Bytes(3) + Bytes(n, 7) + Bytes{8};

	b.feed(std::span(bytes).first(100));
	sockets.write(std::span(bytes).subspan(100, 1000));
	sockets.write(std::span(bytes).subspan(1100, 1500));
	sockets.write(std::span(bytes).subspan(2600));
	// A part of it, then all up to its end in two calls, and what is behind that
	b.feed_from(sockets.fd(), 1000);
	EXPECT_GT(b.bytes()[1099 - before], 0);
	EXPECT_EQ(b.bytes()[n + 2], 0);
	b.feed_from(sockets.fd(), end - b.consumed());
	expect_taken(b, sockets.rest());
	EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), b.bytes().begin()));
}

TEST_F(Write, EndsWhereMemoryHasGone)
{
	// Fewer bytes come than are there, since the socket can't store them: none, and all but two of the last word.
	for (const std::uint32_t come : {0U, 2998U}) {
		Pair pair;
		Side &side = *pair.b;
		Bytes bytes = tagged(KIW_OP_WRITE, true, side.region(0).stag, Side::address, Bytes(5000, 7));
		const Sockets sockets;

		pair.a->hold = true;
		side.feed(std::span(bytes).first(100));
		if (come)
			sockets.write(std::span(bytes).subspan(100, come));
		side.feed_from(sockets.fd(), 3000);
		EXPECT_EQ(fault_of(side), KIW_ERR_DDP_BOUNDS) << come;
		EXPECT_EQ(side.core.state, KIW_QP_TERMINATE);
		EXPECT_EQ(Side::uses, 0);
		traced().clear();
	}
}

TEST_F(Write, NeedsTheRightOfTheQueuePairAsWell)
{
	b.core.own.access = Side::all & ~IB_ACCESS_REMOTE_WRITE;
	expect_refused(b, tagged(KIW_OP_WRITE, true, stag(0), Side::address, {1}), KIW_ERR_RDMAP_ACCESS);
	EXPECT_EQ(b.bytes()[0], 0);
}

TEST_F(Write, ThatGoesWhileItComesIsRefused)
{
	const Bytes write = tagged(KIW_OP_WRITE, true, stag(0), Side::address, Bytes(40, 7));

	b.feed(std::span(write).first(30));
	EXPECT_EQ(b.bytes()[0], 7);
	region(b, 0).valid = false;
	expect_refused(b, Bytes(write.begin() + 30, write.end()), KIW_ERR_DDP_STAG);
	EXPECT_EQ(b.bytes()[30], 0);
}

TEST_F(Write, ThatLosesItsRightWhileItComesIsRefused)
{
	const Bytes write = tagged(KIW_OP_WRITE, true, stag(0), Side::address, Bytes(40, 7));

	b.feed(std::span(write).first(30));
	region(b, 0).access = IB_ACCESS_LOCAL_WRITE;
	expect_refused(b, Bytes(write.begin() + 30, write.end()), KIW_ERR_RDMAP_ACCESS);
}

TEST_F(Write, EndsWithItsLastSegment)
{
	expect_taken(b, tagged(KIW_OP_WRITE, false, stag(0), Side::address, {1}));
	EXPECT_FALSE(b.s.rx_ended);
	expect_taken(b, tagged(KIW_OP_WRITE, true, stag(0), Side::address, {1}));
	EXPECT_TRUE(b.s.rx_ended);
	expect_taken(b, tagged(KIW_OP_WRITE, false, stag(0), Side::address, {1}));
	EXPECT_TRUE(b.s.rx_ended);
}

TEST_F(Write, ImmediateDataTellsItsLength)
{
	for (int i = 0; i < 4; i++)
		b.receive(i, {});
	// Two Writes, of which the second has two segments
	expect_taken(b, tagged(KIW_OP_WRITE, true, stag(0), Side::address, Bytes(10)));
	expect_taken(b, tagged(KIW_OP_WRITE, false, stag(0), Side::address, Bytes(20)));
	expect_taken(b, tagged(KIW_OP_WRITE, true, stag(0), Side::address, Bytes(5)));
	expect_taken(b, immediate({1, 2, 3, 4, 0, 0, 0, 0}, 1, true));
	kiw_cqe cqe = b.completion();
	EXPECT_EQ(cqe.wr_id, 0U);
	EXPECT_EQ(cqe.byte_len, 25U);
	EXPECT_EQ(cqe.flags, KIW_CQE_WITH_IMM | KIW_CQE_SOLICITED);
	EXPECT_EQ(cqe.opcode, KIW_WR_RECV_IMM);
	EXPECT_EQ(be32toh(cqe.imm), 0x01020304U);
	EXPECT_TRUE(b.s.rx_ended);
	// No Write is told of twice, ...
	b.s.rx_ended = false;
	expect_taken(b, immediate({1, 2, 3, 4, 0, 0, 0, 0}, 2));
	cqe = b.completion();
	EXPECT_EQ(cqe.byte_len, 0U);
	EXPECT_EQ(cqe.flags, KIW_CQE_WITH_IMM);
	EXPECT_TRUE(b.s.rx_ended);
	// ... and none before a Send is told of behind it.
	expect_taken(b, tagged(KIW_OP_WRITE, true, stag(0), Side::address, Bytes(10)));
	expect_taken(b, untagged({.msn = 3}, {}));
	EXPECT_EQ(b.completion().byte_len, 0U);
	expect_taken(b, immediate({1, 2, 3, 4, 0, 0, 0, 0}, 4));
	EXPECT_EQ(b.completion().byte_len, 0U);
}

TEST_F(Send, SegmentsFollowEachOther)
{
	const std::array to{b.sge(0, 4), b.sge(100, 6)};

	b.receive(5, to);
	b.receive(6, to);
	expect_taken(b, untagged({.last = false}, {1, 2, 3}));
	EXPECT_TRUE(b.completions().empty());
	EXPECT_FALSE(b.s.rx_ended);
	EXPECT_TRUE(b.s.recv.taken);
	expect_taken(b, untagged({.op = KIW_OP_SEND, .mo = 3}, {4, 5, 6, 7}));
	const kiw_cqe cqe = b.completion();
	EXPECT_EQ(cqe.wr_id, 5U);
	EXPECT_EQ(cqe.byte_len, 7U);
	EXPECT_EQ(cqe.flags, 0);
	EXPECT_EQ(cqe.imm, 0U);
	EXPECT_TRUE(b.s.rx_ended);
	EXPECT_TRUE(same(b.bytes().first(5), Bytes{1, 2, 3, 4, 0}));
	EXPECT_TRUE(same(b.bytes().subspan(100, 4), Bytes{5, 6, 7, 0}));
	expect_refused(b, untagged({.msn = 3}, {}), KIW_ERR_DDP_MSN);
}

TEST_F(Send, ABufferThatIsFullIsLeftAlone)
{
	const std::array to{b.sge(0, 3), b.sge(0, 5, 2)};

	b.receive(1, to);
	expect_taken(b, untagged({.last = false}, {1, 2, 3}));
	region(b, 0).valid = false;
	expect_taken(b, untagged({.mo = 3}, {4}));
	EXPECT_EQ(b.bytes(2)[0], 4);
}

TEST_F(Send, AReceiveThatIsPostedAtTheLastMomentIsFound)
{
	b.on_starve = [this] {
		b.receive(7, {});
	};
	expect_taken(b, untagged({}, {}));
	EXPECT_COMPLETES(b, 7, IB_WC_SUCCESS);
	EXPECT_FALSE(b.s.starving);
}

TEST_F(Send, ASolicitedEventIsTold)
{
	b.receive(1, {});
	expect_taken(b, untagged({.op = KIW_OP_SEND_SE}, {}));
	EXPECT_EQ(b.completion().flags, KIW_CQE_SOLICITED);
}

TEST_F(Send, AWrongOffsetIsRefused)
{
	const kiw_sge to = b.sge(0, 100);

	b.receive(1, {&to, 1});
	expect_taken(b, untagged({.last = false}, {1, 2, 3}));
	expect_refused(b, untagged({.mo = 4}, {1}), KIW_ERR_DDP_MO);
}

TEST_F(Send, OneThatIsTooLongFailsItsReceive)
{
	const kiw_sge to = b.sge(0, 3);

	b.receive(1, {&to, 1});
	expect_refused(b, untagged({}, {1, 2, 3, 4}), KIW_ERR_DDP_TOOLONG);
	EXPECT_COMPLETES(b, 1, IB_WC_LOC_LEN_ERR);
	EXPECT_EQ(b.bytes()[0], 0);
	EXPECT_FALSE(b.s.recv.taken);
}

TEST_F(Send, AWrongOffsetDoesNotFailItsReceive)
{
	const kiw_sge to = b.sge(0, 3);

	b.receive(1, {&to, 1});
	expect_refused(b, untagged({.mo = 1}, {1}), KIW_ERR_DDP_MO);
	EXPECT_TRUE(b.completions().empty());
	EXPECT_TRUE(b.s.recv.taken);
}

TEST_F(Send, ABadReceiveIsTheOwnersFault)
{
	const std::array<kiw_sge, 5> five{};

	b.receive(1, five);
	expect_refused(b, untagged({}, {}), KIW_ERR_LOCAL_CATASTROPHE);
	EXPECT_COMPLETES(b, 1, IB_WC_LOC_QP_OP_ERR);
}

TEST_F(Send, AnIndexThatCannotBeIsTheOwnersFault)
{
	static_cast<kiw_wq_ring *>(b.core.rq.map.mem)->prod = 1000;
	expect_refused(b, untagged({}, {}), KIW_ERR_LOCAL_CATASTROPHE);
	EXPECT_EQ(b.counts[KIW_STAT_RING_ERRORS], 1U);
}

TEST_F(Send, IntoMemoryThatMayNotBeWrittenFailsItsReceive)
{
	const kiw_sge to = b.sge(0, 10);

	region(b, 0).access = IB_ACCESS_REMOTE_WRITE;
	b.receive(1, {&to, 1});
	expect_refused(b, untagged({}, {1, 2}), KIW_ERR_LOCAL_CATASTROPHE);
	EXPECT_COMPLETES(b, 1, IB_WC_LOC_PROT_ERR);
	EXPECT_EQ(b.bytes()[0], 0);
}

TEST_F(Send, WithoutARoomInTheCompletionQueueEndsIt)
{
	b.receive(1, {});
	b.core.rq.cq->room = 0;
	expect_refused(b, untagged({}, {}), KIW_ERR_LOCAL_CATASTROPHE);
}

TEST_F(Send, AnInvalidationIsTold)
{
	b.receive(1, {});
	expect_taken(b, untagged({.op = KIW_OP_SEND_SE_INV, .stag = stag(1)}, {}));
	const kiw_cqe cqe = b.completion();
	EXPECT_EQ(cqe.flags, KIW_CQE_WITH_INV | KIW_CQE_SOLICITED);
	EXPECT_EQ(cqe.inv_stag, stag(1));
	EXPECT_FALSE(b.region(1).valid);
}

TEST_F(Send, InvalidationComesWithTheLastSegment)
{
	const kiw_sge to = b.sge(0, 10);

	b.receive(1, {&to, 1});
	expect_taken(b, untagged({.op = KIW_OP_SEND_INV, .last = false, .stag = stag(1)}, {1}));
	EXPECT_TRUE(b.region(1).valid);
	expect_taken(b, untagged({.op = KIW_OP_SEND_INV, .stag = stag(1), .mo = 1}, {1}));
	EXPECT_FALSE(b.region(1).valid);
}

TEST_F(Send, AnInvalidationThatCannotBeFailsItsReceive)
{
	b.receive(1, {});
	expect_refused(b, untagged({.op = KIW_OP_SEND_INV, .stag = stag(0)}, {}), KIW_ERR_RDMAP_CANT_INVAL);
	EXPECT_COMPLETES(b, 1, IB_WC_REM_INV_REQ_ERR);
}

TEST_F(Send, AnInvalidationOfWhatIsNotThePeersIsRefused)
{
	region(b, 1).foreign = true;
	b.receive(1, {});
	expect_refused(b, untagged({.op = KIW_OP_SEND_INV, .stag = stag(1)}, {}), KIW_ERR_RDMAP_INVAL);
	EXPECT_TRUE(b.region(1).valid);
}

TEST_F(Send, AMessageWaitsForASharedReceive)
{
	const kiw_sge to = b.sge(0, 10);

	b.share();
	expect_taken(b, tagged(KIW_OP_WRITE, true, 1, 0, {}));
	b.feed(untagged({}, {1, 2}));
	EXPECT_EQ(b.core.state, KIW_QP_RTS);
	EXPECT_TRUE(b.starves_);
	EXPECT_TRUE(b.s.starving);
	b.receive_shared(4, {&to, 1});
	b.feed({});
	EXPECT_FALSE(b.s.starving);
	EXPECT_COMPLETES(b, 4, IB_WC_SUCCESS);
	EXPECT_EQ(b.bytes()[1], 2);
}

TEST_F(Send, AQueuePairWithoutReceivesRefuses)
{
	b.core.rq.entries = 0;
	expect_refused(b, untagged({}, {}), KIW_ERR_DDP_NOBUF);
	EXPECT_FALSE(b.starves_);
}

TEST_F(Send, AProcessRingsWhileAMessageWaits)
{
	const auto flags = [this] {
		return static_cast<kiw_wq_ring *>(b.core.rq.map.mem)->flags;
	};
	const kiw_sge to = b.sge(0, 10);

	EXPECT_EQ(flags(), 0U);
	b.feed(untagged({}, {1, 2}));
	EXPECT_EQ(flags(), std::uint32_t(KIW_RING_FLUSH));
	EXPECT_TRUE(b.s.rx.held);
	b.receive(4, {&to, 1});
	b.feed({});
	EXPECT_EQ(flags(), 0U);
	EXPECT_FALSE(b.s.rx.held);
	EXPECT_COMPLETES(b, 4, IB_WC_SUCCESS);
	// The next one waits anew.
	b.starves_ = false;
	b.feed(untagged({.msn = 2}, {1, 2}));
	EXPECT_TRUE(b.starves_);
}

TEST_F(Send, AMessageWaitsOnce)
{
	b.feed(untagged({}, {1, 2}));
	b.starves_ = false;
	b.feed({});
	EXPECT_FALSE(b.starves_);
	b.advance(10 * KIW_CARRIER_SECOND);
	expect_refused(b, {}, KIW_ERR_DDP_NOBUF);
}

TEST_F(Send, TheFirstIsNewsWhileTheQueuePairIsNotReady)
{
	b.core.shown = IB_QPS_RTR;
	expect_taken(b, tagged(KIW_OP_WRITE, true, 1, 0, {}));
	// That one opened the gate.
	EXPECT_EQ(b.begun, 0U);
	expect_taken(b, tagged(KIW_OP_WRITE, true, 1, 0, {}));
	EXPECT_EQ(b.begun, 1U);
	b.core.shown = IB_QPS_RTS;
	expect_taken(b, tagged(KIW_OP_WRITE, true, 1, 0, {}));
	EXPECT_EQ(b.begun, 1U);
}

TEST_F(Send, InClosingIsTooLate)
{
	b.s.tx.gate = true;
	EXPECT_TRUE(b.event(KIW_EV_CLOSE));
	b.receive(1, {});
	b.feed(tagged(KIW_OP_WRITE, true, stag(0), Side::address, {1}));
	EXPECT_EQ(b.core.state, KIW_QP_ERROR);
	EXPECT_EQ(b.bytes()[0], 0);
}

TEST_F(Send, EachSegmentIsTraced)
{
	b.receive(1, {});
	b.feed(tagged(KIW_OP_WRITE, false, stag(0), Side::address, {1, 2}));
	b.feed(untagged({.op = KIW_OP_SEND_SE}, {}));
	EXPECT_EQ(traced().at(traced().size() - 2), (Traced{"in", 2, {KIW_OP_WRITE, false, 2}}));
	EXPECT_EQ(traced().back(), (Traced{"in", 2, {KIW_OP_SEND_SE, true, 0}}));
}

TEST_F(Request, NumbersFollowEachOther)
{
	expect_taken(b, read_request(read(), 1));
	b.kicked = false;
	expect_taken(b, atomic_request(atomic(), 2));
	EXPECT_TRUE(b.kicked);
	b.kicked = false;
	expect_taken(b, read_request(read(), 3));
	EXPECT_TRUE(b.kicked);
	EXPECT_EQ(kiw_reads_in_len(&b.s.tx.reads_in), 3U);
	expect_refused(b, read_request(read(), 5), KIW_ERR_DDP_MSN);
}

TEST_F(Request, AtomicsHaveTheirPlaceInThatOrder)
{
	expect_refused(b, atomic_request(atomic(), 2), KIW_ERR_DDP_MSN);
}

TEST_F(Request, AnOffsetIsRefused)
{
	expect_refused(b, read_request(read(), 1, 4), KIW_ERR_DDP_MO);
}

TEST_F(Request, AnOffsetOfAnAtomicIsRefused)
{
	expect_refused(b, atomic_request(atomic(), 1, 4), KIW_ERR_DDP_MO);
}

TEST_F(Request, MoreThanAgreedAreRefused)
{
	for (unsigned i = 1; i <= 4; i++)
		b.feed(read_request(read(), i));
	EXPECT_EQ(fault_of(b), KIW_OK);
	expect_refused(b, read_request(read(), 5), KIW_ERR_DDP_NOBUF);
}

TEST_F(Request, OfNothingNeedsNoRegion)
{
	kiw_rreq rr = read(0);

	rr.src_stag = 1;
	expect_taken(b, read_request(rr));
}

TEST_F(Request, NeedsTheRightToRead)
{
	expect_refused(b, read_request(read(8, 2)), KIW_ERR_RDMAP_ACCESS);
}

TEST_F(Request, NeedsTheRightOfTheQueuePairAsWell)
{
	b.core.own.access = Side::all & ~IB_ACCESS_REMOTE_READ;
	expect_refused(b, read_request(read()), KIW_ERR_RDMAP_ACCESS);
}

TEST_F(Request, BeyondTheEndIsRefused)
{
	expect_taken(b, read_request(read(Side::memory_size)));
	expect_refused(b, read_request(read(Side::memory_size + 1), 2), KIW_ERR_RDMAP_BOUNDS);
}

TEST_F(Request, AnAtomicNeedsTheRight)
{
	expect_refused(b, atomic_request(atomic(0, 2)), KIW_ERR_RDMAP_ACCESS);
}

TEST_F(Request, AnAtomicNeedsTheRightOfTheQueuePairAsWell)
{
	b.core.own.access = Side::all & ~IB_ACCESS_REMOTE_ATOMIC;
	expect_refused(b, atomic_request(atomic()), KIW_ERR_RDMAP_ACCESS);
}

TEST_F(Request, AnAtomicNeedsARegion)
{
	kiw_atomic at = atomic();

	at.stag = 1;
	expect_refused(b, atomic_request(at), KIW_ERR_RDMAP_STAG);
}

TEST_F(Request, AnAtomicIsAligned)
{
	for (std::uint32_t offset = 1; offset < 8; offset++) {
		Pair pair;

		traced().clear();
		expect_refused(*pair.b, atomic_request(atomic(offset)), KIW_ERR_RDMAP_CATASTROPHE);
	}
}

TEST_F(Request, TheMemoryOfAnAtomicIsAligned)
{
	region(b, 0).iova += 4;
	expect_refused(b, atomic_request(atomic(4)), KIW_ERR_RDMAP_CATASTROPHE);
}

TEST_F(Request, AnAtomicThatNobodyKnowsIsRefused)
{
	for (const std::uint8_t op : {1, 3, 15}) {
		Pair pair;
		kiw_atomic at = atomic();

		traced().clear();
		at.op = op;
		expect_refused(*pair.b, atomic_request(at), KIW_ERR_RDMAP_CATASTROPHE);
	}
}

TEST_F(Request, ARegionThatGoesBeforeTheAnswerIsTold)
{
	expect_taken(b, read_request(read()));
	region(b, 0).valid = false;
	b.work();
	EXPECT_EQ(fault_of(b), KIW_ERR_RDMAP_STAG);
	const auto sent = segments(p.a->raw());
	ASSERT_EQ(sent.size(), 1U);
	EXPECT_EQ(sent[0].seg.op, KIW_OP_TERMINATE);
}

TEST_F(Request, ARegionThatGoesBeforeAnAtomicIsTold)
{
	const Bytes request = atomic_request(atomic());

	expect_taken(b, request);
	region(b, 0).valid = false;
	b.work();
	EXPECT_EQ(fault_of(b), KIW_ERR_RDMAP_STAG);
	EXPECT_EQ(b.core.state, KIW_QP_TERMINATE);
	// The Terminate brings the request back.
	const auto raw = p.a->raw();
	EXPECT_NE(std::search(raw.begin(), raw.end(), request.begin() + 2, request.begin() + 20), raw.end());
}

class FirstRequest : public Arriving {
protected:
	FirstRequest() : Arriving({.ird = 0}) {}
};

TEST_F(FirstRequest, OpensTheConnectionAlsoWhereNoneIsAgreed)
{
	expect_taken(b, read_request(read(0)));
	expect_refused(b, read_request(read(0), 2), KIW_ERR_DDP_NOBUF);
}

TEST_F(FirstRequest, BehindAWriteIsRefused)
{
	expect_taken(b, tagged(KIW_OP_WRITE, true, 1, 0, {}));
	expect_refused(b, read_request(read(0), 1), KIW_ERR_DDP_NOBUF);
}

TEST_F(Response, ThatNobodyAskedForIsRefused)
{
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, 1, 0, {}), KIW_ERR_RDMAP_OPCODE);
	expect_refused(b, atomic_response(0, 0), KIW_ERR_RDMAP_OPCODE);
}

TEST_F(Response, ToAnAtomicIsNoneToARead)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_FETCH_ADD, {&into, 1});
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(8)), KIW_ERR_RDMAP_OPCODE);
}

TEST_F(Response, ToAReadIsNoneToAnAtomic)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_READ, {&into, 1});
	expect_refused(a, atomic_response(0, 0), KIW_ERR_RDMAP_OPCODE);
}

TEST_F(Response, ComesInSegments)
{
	const std::array into{a.sge(0, 4), a.sge(100, 4)};

	ask(KIW_WR_READ, into);
	expect_taken(a, tagged(KIW_OP_READ_RESP, false, into[0].lkey, 0, {1, 2, 3}));
	EXPECT_TRUE(a.completions().empty());
	expect_taken(a, tagged(KIW_OP_READ_RESP, true, into[0].lkey, 3, {4, 5, 6, 7, 8}));
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	EXPECT_TRUE(same(a.bytes().first(5), Bytes{1, 2, 3, 4, 0}));
	EXPECT_TRUE(same(a.bytes().subspan(100, 5), Bytes{5, 6, 7, 8, 0}));
	// The next one begins anew.
	ask(KIW_WR_READ, std::span(into).first(1), 2);
	expect_taken(a, tagged(KIW_OP_READ_RESP, true, into[0].lkey, into[0].addr, {1, 2, 3, 4}));
	EXPECT_COMPLETES(a, 2, IB_WC_SUCCESS);
}

TEST_F(Response, IsNoLongerThanWhatIsLeft)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	expect_taken(a, tagged(KIW_OP_READ_RESP, false, into.lkey, into.addr, Bytes(3)));
	expect_refused(a, tagged(KIW_OP_READ_RESP, false, into.lkey, into.addr + 3, Bytes(6)), KIW_ERR_DDP_BOUNDS);
}

TEST_F(Response, OfAnAtomicComesOnce)
{
	const kiw_sge into = a.sge(0, 8);

	// The slot of the first is that of the fifth.
	for (unsigned i = 0; i < 4; i++) {
		ask(KIW_WR_FETCH_ADD, {&into, 1}, i);
		expect_taken(a, atomic_response(i, 0, 1 + i));
	}
	expect_refused(a, atomic_response(0, 0, 5), KIW_ERR_RDMAP_OPCODE);
}

TEST_F(Response, NamesTheSink)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, into.lkey + 1, into.addr, Bytes(8)), KIW_ERR_DDP_STAG);
}

TEST_F(Response, NamesThePlace)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr + 1, Bytes(8)), KIW_ERR_DDP_BOUNDS);
}

TEST_F(Response, IsNoLongerThanAsked)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	expect_refused(a, tagged(KIW_OP_READ_RESP, false, into.lkey, into.addr, Bytes(9)), KIW_ERR_DDP_BOUNDS);
}

TEST_F(Response, IsNoShorterThanAsked)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(7)), KIW_ERR_DDP_BOUNDS);
}

TEST_F(Response, OfNothingIsTooShort)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, 1, 0, {}), KIW_ERR_DDP_BOUNDS);
}

TEST_F(Response, IntoMemoryThatHasGoneFailsTheRead)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	region(a, 0).valid = false;
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(8)), KIW_ERR_LOCAL_CATASTROPHE);
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
}

TEST_F(Response, OfAReadThatCannotInvalidateFailsIt)
{
	const kiw_sge into = a.sge(8, 8);

	a.core.sq.kernel = true;
	// A region that can't be withdrawn
	ask(static_cast<kiw_wr_op>(KIW_WR_READ_INV), {&into, 1});
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(8)), KIW_ERR_LOCAL_CATASTROPHE);
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
}

TEST_F(Response, WithoutRoomInTheCompletionQueueEndsIt)
{
	const kiw_sge into = a.sge(8, 8);

	ask(KIW_WR_READ, {&into, 1});
	a.core.sq.cq->room = 0;
	expect_refused(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(8)), KIW_ERR_LOCAL_CATASTROPHE);
}

TEST_F(Response, OfAnAtomicNamesItsRequest)
{
	const kiw_sge into = a.sge(4094, 8);
	std::uint64_t value;

	std::ranges::fill(a.bytes(), std::uint8_t{0xee});
	ask(KIW_WR_FETCH_ADD, {&into, 1}, 1);
	ask(KIW_WR_FETCH_ADD, {&into, 1}, 2);
	expect_taken(a, atomic_response(0, 0x1122334455667788));
	EXPECT_COMPLETES(a, 1, IB_WC_SUCCESS);
	std::memcpy(&value, a.bytes().data() + 4094, 8);
	EXPECT_EQ(value, 0x1122334455667788U);
	EXPECT_EQ(a.bytes()[4093], 0xee);
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(a.bytes()[4102 + i], 0xee);
	expect_refused(a, atomic_response(0, 0, 2), KIW_ERR_RDMAP_CATASTROPHE);
}

TEST_F(Response, OfAnAtomicHasItsNumber)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_FETCH_ADD, {&into, 1});
	expect_refused(a, atomic_response(0, 0, 2), KIW_ERR_DDP_MSN);
}

TEST_F(Response, OfAnAtomicHasNoOffset)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_FETCH_ADD, {&into, 1});
	expect_refused(a, atomic_response(0, 0, 1, 1), KIW_ERR_DDP_MO);
}

TEST_F(Response, OfAnAtomicIntoMemoryThatHasGoneFailsIt)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_FETCH_ADD, {&into, 1});
	region(a, 0).valid = false;
	expect_refused(a, atomic_response(0, 0), KIW_ERR_LOCAL_CATASTROPHE);
	EXPECT_COMPLETES(a, 1, IB_WC_LOC_PROT_ERR);
}

TEST_F(Response, LetsARequestGoOnThatWaitedForIt)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_READ, {&into, 1});
	a.kicked = false;
	expect_taken(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(8)));
	EXPECT_FALSE(a.kicked);
	ask(KIW_WR_READ, {&into, 1}, 2);
	a.post(remote(KIW_WR_WRITE, 3, b, 0, 0, KIW_WQE_FENCE), {&into, 1});
	a.work();
	EXPECT_TRUE(a.s.tx.taken);
	a.kicked = false;
	expect_taken(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(8)));
	EXPECT_TRUE(a.kicked);
}

TEST_F(Response, SendsWhatWasGathered)
{
	const kiw_sge into = a.sge(0, 8);

	a.gathers = KIW_RING_DRAINING;
	ask(KIW_WR_READ, {&into, 1});
	EXPECT_TRUE(a.s.tx.gathers);
	a.kicked = false;
	expect_taken(a, tagged(KIW_OP_READ_RESP, true, into.lkey, into.addr, Bytes(8)));
	EXPECT_TRUE(a.kicked);
}

/// The Terminate that a peer sends for a segment that begins like this
Bytes terminate_for(kiw_err err, const Bytes &offending)
{
	Bytes out(KIW_TERM_MAX_LEN);

	out.resize(kiw_term_build(out.data(), err, offending.data() + 2, static_cast<u32>(offending.size() - 2),
		static_cast<u32>(offending[0] << 8 | offending[1])));
	return fpdu(out);
}

TEST_F(Terminate, TellsWhichReadFailed)
{
	const kiw_sge into = a.sge(0, 8);

	for (unsigned i = 1; i <= 4; i++)
		ask(KIW_WR_READ, {&into, 1}, i);
	traced().clear();
	a.feed(terminate_for(KIW_ERR_RDMAP_ACCESS, read_request(read(), 3)));
	EXPECT_EQ(a.counts[KIW_STAT_TERM_RECEIVED], 1U);
	EXPECT_EQ(traced().at(1), (Traced{"term", 1, {0, 1, 2}}));
	EXPECT_TRUE(a.s.terminated);
	EXPECT_EQ(a.events, std::vector{IB_EVENT_QP_FATAL});
	EXPECT_TRUE(a.closing);
	a.reset();
	EXPECT_COMPLETES(a, 1, IB_WC_WR_FLUSH_ERR);
	EXPECT_COMPLETES(a, 2, IB_WC_WR_FLUSH_ERR);
	EXPECT_COMPLETES(a, 3, IB_WC_REM_ACCESS_ERR);
	EXPECT_COMPLETES(a, 4, IB_WC_WR_FLUSH_ERR);
}

TEST_F(Terminate, NamesTheSecondOfThree)
{
	const kiw_sge into = a.sge(0, 8);

	for (unsigned i = 1; i <= 3; i++)
		ask(KIW_WR_READ, {&into, 1}, i);
	a.s.async = IB_EVENT_QP_ACCESS_ERR;
	a.feed(terminate_for(KIW_ERR_RDMAP_ACCESS, read_request(read(), 2)));
	EXPECT_EQ(a.events, std::vector{IB_EVENT_QP_FATAL});
	a.reset();
	EXPECT_COMPLETES(a, 1, IB_WC_WR_FLUSH_ERR);
	EXPECT_COMPLETES(a, 2, IB_WC_REM_ACCESS_ERR);
	EXPECT_COMPLETES(a, 3, IB_WC_WR_FLUSH_ERR);
}

TEST_F(Terminate, OfTheOldestIsToldAtOnce)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_READ, {&into, 1});
	a.kicked = false;
	a.feed(terminate_for(KIW_ERR_RDMAP_STAG, read_request(read(), 1)));
	EXPECT_COMPLETES(a, 1, IB_WC_REM_ACCESS_ERR);
	EXPECT_TRUE(a.kicked);
}

TEST_F(Terminate, TellsWhichAtomicFailed)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_FETCH_ADD, {&into, 1}, 1);
	a.feed(terminate_for(KIW_ERR_DDP_NOBUF, atomic_request(atomic(), 1)));
	EXPECT_COMPLETES(a, 1, IB_WC_REM_OP_ERR);
}

TEST_F(Terminate, OfWhatIsNoRequestNamesNone)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_READ, {&into, 1});
	a.feed(terminate_for(KIW_ERR_DDP_NOBUF, untagged({.msn = 1}, {1})));
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(a.core.state, KIW_QP_TERMINATE);
}

TEST_F(Terminate, OfAnAtomicOnAnotherQueueNamesNone)
{
	const kiw_sge into = a.sge(0, 8);
	Bytes request = atomic_request(atomic(), 1);

	ask(KIW_WR_FETCH_ADD, {&into, 1});
	request[2 + 9] = KIW_QN_ATOMIC;
	a.feed(terminate_for(KIW_ERR_DDP_QN, request));
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(Terminate, OfATaggedSegmentNamesNone)
{
	const kiw_sge into = a.sge(0, 8);

	ask(KIW_WR_READ, {&into, 1});
	a.feed(terminate_for(KIW_ERR_DDP_STAG, tagged(KIW_OP_WRITE, true, 1, 1, {1})));
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(Terminate, OfAReadThatIsNotUnderWayNamesNone)
{
	for (const unsigned msn : {0U, 3U, 4U, 100U}) {
		Pair pair;
		const kiw_sge into = pair.a->sge(0, 8);

		pair.a->hold = true;
		for (unsigned i = 0; i < 2; i++)
			pair.a->post(remote(KIW_WR_READ, i, *pair.b, 0), {&into, 1});
		pair.a->work();
		pair.a->feed(terminate_for(KIW_ERR_RDMAP_ACCESS, read_request(read(), msn)));
		EXPECT_TRUE(pair.a->completions().empty());
		pair.a->reset();
		EXPECT_COMPLETES(*pair.a, 0, IB_WC_WR_FLUSH_ERR);
		EXPECT_COMPLETES(*pair.a, 1, IB_WC_WR_FLUSH_ERR);
	}
}

TEST_F(Terminate, MayBeLongerThanItCanSay)
{
	Bytes long_one = Bytes(KIW_UNTAGGED_LEN) + Bytes(200);

	kiw_build_untagged(long_one.data(), KIW_OP_TERMINATE, true, 0, KIW_QN_TERM, 1, 0);
	a.feed(fpdu(long_one));
	EXPECT_EQ(a.core.state, KIW_QP_TERMINATE);
	EXPECT_EQ(a.counts[KIW_STAT_TERM_RECEIVED], 1U);
	EXPECT_EQ(fault_of(a), KIW_OK);
}

TEST_F(Terminate, NothingIsTakenBehindIt)
{
	b.feed(terminate_for(KIW_ERR_DDP_STAG, tagged(KIW_OP_WRITE, true, 1, 1, {1})) +
		tagged(KIW_OP_WRITE, true, stag(0), Side::address, {1}));
	EXPECT_EQ(b.bytes()[0], 0);
	EXPECT_EQ(b.left_shared, 1U);
}

TEST_F(Arriving, TheFirstFpduOpensTheGate)
{
	const Bytes first = tagged(KIW_OP_WRITE, true, 1, 0, {});

	b.feed(std::span(first).first(10));
	EXPECT_FALSE(b.s.tx.gate);
	b.kicked = false;
	b.feed(std::span(first).subspan(10));
	EXPECT_TRUE(b.s.tx.gate);
	EXPECT_TRUE(b.established);
	EXPECT_TRUE(b.kicked);
	b.established = b.kicked = false;
	b.feed(tagged(KIW_OP_WRITE, true, 1, 0, {}));
	EXPECT_FALSE(b.established);
	EXPECT_FALSE(b.kicked);
	a.feed(tagged(KIW_OP_WRITE, true, 1, 0, {}));
	EXPECT_FALSE(a.established);
	EXPECT_FALSE(a.s.rx_first);
}

TEST_F(Arriving, AnErrorOpensNoGate)
{
	b.feed(tagged(KIW_OP_WRITE, true, 1, 0, {1}));
	EXPECT_FALSE(b.s.tx.gate);
	EXPECT_FALSE(b.established);
}

TEST_F(Arriving, ATerminateOpensNoGate)
{
	b.feed(terminate_for(KIW_ERR_DDP_STAG, tagged(KIW_OP_WRITE, true, 1, 1, {1})));
	EXPECT_FALSE(b.established);
}

/// Feeds a session with all of @bytes, and tells how many bytes it took of them.
std::pair<u32, u32> feed_some(Side &side, const Bytes &bytes, u32 budget)
{
	kiw_cursor cursor{}, ahead{};

	cursor.source = {0, static_cast<u32>(bytes.size())};
	cursor.p = bytes.data();
	cursor.n = cursor.staged = static_cast<u32>(bytes.size());
	cursor.ahead = &ahead;
	const u32 fpdus = kiw_session_feed(&side.s, &cursor.source, budget);

	return {fpdus, cursor.source.seq};
}

TEST_F(Arriving, ABudgetEndsARun)
{
	const Bytes one = tagged(KIW_OP_WRITE, true, 1, 0, {});
	const u32 length = static_cast<u32>(one.size());

	EXPECT_EQ(feed_some(b, one + one + one + one, length), (std::pair{2U, 2 * length}));
}

TEST_F(Arriving, InClosingNoReceiveIsTaken)
{
	b.s.tx.gate = true;
	EXPECT_TRUE(b.event(KIW_EV_CLOSE));
	b.receive(1, {});
	feed_some(b, untagged({}, {}), 1 << 20);
	EXPECT_EQ(b.core.state, KIW_QP_ERROR);
	EXPECT_FALSE(b.s.recv.taken);
	EXPECT_EQ(b.core.rq.next, 0U);
	EXPECT_EQ(b.s.rx.err, KIW_OK);
}

TEST_F(Arriving, ATerminateCounts)
{
	const Bytes last = terminate_for(KIW_ERR_DDP_STAG, tagged(KIW_OP_WRITE, true, 1, 1, {1}));

	EXPECT_EQ(feed_some(b, last, 1 << 20), (std::pair{1U, static_cast<u32>(last.size())}));
}

TEST_F(Arriving, ARunEndsWithTheBytes)
{
	const Bytes one = tagged(KIW_OP_WRITE, true, 1, 0, {});

	EXPECT_EQ(feed_some(b, one + one + Bytes(1), 1 << 20), (std::pair{2U, static_cast<u32>(2 * one.size() + 1)}));
}

TEST_F(Arriving, ExtensionsThatWereNotAgreedAreRefused)
{
	Pair pair({.ext = false});

	b.receive(1, {});
	pair.b->receive(1, {});
	expect_taken(b, immediate(Bytes(8)));
	expect_refused(*pair.b, immediate(Bytes(8)), KIW_ERR_RDMAP_OPCODE);
}

} // namespace
