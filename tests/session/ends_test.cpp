// SPDX-License-Identifier: GPL-2.0
// How a session begins and ends, and what is told of it.
#include <gtest/gtest.h>
#include <utility>

#include "fpdus.hpp"
#include "requests.hpp"

namespace {

using namespace session;

kiw_wq_ring &ring(const kiw_ring_map &map)
{
	return *static_cast<kiw_wq_ring *>(map.mem);
}

class Ends : public testing::Test {
protected:
	explicit Ends(const kiw_manner &manner = Pair::by_cm) : p(Terms{}, manner) { traced().clear(); }

	/// A further session on the queue pair of a, which is idle
	void begin_again(u32 caps, bool first)
	{
		ASSERT_EQ(a.core.state, KIW_QP_IDLE);
		a.s.rx.stopped = a.s.tx.stopped = a.s.terminated = false;
		a.s.tx.rtr = 0;
		a.core.caps = static_cast<u8>(caps);
		kiw_session_start(&a.s, 0, first);
	}

	void close()
	{
		EXPECT_TRUE(a.event(KIW_EV_CLOSE));
		p.run();
	}

	void fail(Side &side, kiw_err err) { kiw_session_fail(&side.s, err, nullptr, 0, 0); }

	Pair p;
	Side &a = *p.a, &b = *p.b;
};

class Patient : public Ends {
protected:
	Patient() : Ends(Pair::patient) {}
};

class Numbered : public Ends {
protected:
	Numbered() : Ends(Pair::by_number) {}
};

TEST_F(Ends, ASessionBeginsWhereItsQueueIs)
{
	const kiw_sge from = a.sge(0, 10);

	for (int i = 0; i < 3; i++)
		a.post(remote(KIW_WR_WRITE, i, b, 0), {&from, 1});
	p.run();
	close();
	a.core.flush = IB_WC_RETRY_EXC_ERR;
	a.core.ird = a.core.ord = 0;
	a.s.tx.msn_send = a.s.tx.msn_read = a.s.tx.msn_atomic = 77;
	a.s.tx.batch_index = a.s.tx.sent_index = a.s.tx.free_index = a.s.tx.acked_index = a.s.tx.done_index = 0;
	a.s.async = IB_EVENT_QP_ACCESS_ERR;
	a.s.tx.gate = false;
	ring(a.core.sq.map).flags = ring(a.core.rq.map).flags = KIW_RING_FLUSH;
	begin_again(0, true);
	EXPECT_EQ(a.core.state, KIW_QP_RTS);
	EXPECT_EQ(a.core.flush, IB_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.core.ird, 4U);
	EXPECT_EQ(a.core.ord, 4U);
	EXPECT_EQ(a.s.tx.msn_send, 1U);
	EXPECT_EQ(a.s.tx.msn_read, 1U);
	EXPECT_EQ(a.s.tx.msn_atomic, 1U);
	EXPECT_EQ(a.s.tx.batch_index, 3U);
	EXPECT_EQ(a.s.tx.sent_index, 3U);
	EXPECT_EQ(a.s.tx.free_index, 3U);
	EXPECT_EQ(a.s.tx.acked_index, 3U);
	EXPECT_EQ(a.s.tx.done_index, 3U);
	EXPECT_EQ(a.s.async, IB_EVENT_QP_FATAL);
	EXPECT_TRUE(a.s.tx.gate);
	EXPECT_TRUE(a.s.rx_first);
	EXPECT_EQ(ring(a.core.sq.map).flags, 0U);
	EXPECT_EQ(ring(a.core.rq.map).flags, 0U);
}

TEST_F(Ends, ASessionTakesWhatBothSidesKnow)
{
	EXPECT_EQ(a.s.rx.caps, KIW_CAP_IMM | KIW_CAP_ATOMIC);
	close();
	begin_again(KIW_CAP_IMM, true);
	EXPECT_EQ(a.s.rx.caps, KIW_CAP_IMM);
	EXPECT_TRUE(a.event(KIW_EV_CLOSE));
	EXPECT_TRUE(a.event(KIW_EV_CLOSE_DONE));
	begin_again(0xff, true);
	EXPECT_EQ(a.s.rx.caps, KIW_CAP_IMM | KIW_CAP_ATOMIC);
	EXPECT_TRUE(a.event(KIW_EV_CLOSE));
	EXPECT_TRUE(a.event(KIW_EV_CLOSE_DONE));
	a.s.neg.ext = false;
	begin_again(0xff, true);
	EXPECT_EQ(a.s.rx.caps, 0);
}

TEST_F(Ends, TheInitiatorSaysThatItIsReady)
{
	for (const auto &[first, p2p, rtr] :
		{std::tuple{true, true, KIW_RTR_WRITE}, {true, false, 0}, {false, true, 0}}) {
		Pair pair;

		EXPECT_TRUE(pair.a->event(KIW_EV_CLOSE));
		EXPECT_TRUE(pair.a->event(KIW_EV_CLOSE_DONE));
		pair.a->s.neg.p2p = p2p;
		pair.a->s.neg.rtr = KIW_RTR_WRITE;
		kiw_session_start(&pair.a->s, 0, first);
		EXPECT_EQ(pair.a->s.tx.rtr, rtr);
		EXPECT_EQ(pair.a->s.tx.gate, first);
	}
}

TEST_F(Ends, AStateThatStaysDoesNothing)
{
	EXPECT_TRUE(a.event(KIW_EV_ACTIVITY));
	EXPECT_FALSE(a.event(KIW_EV_CLOSE_DONE));
	EXPECT_FALSE(a.event(KIW_EV_CONNECTED));
	EXPECT_TRUE(traced().empty());
	EXPECT_FALSE(a.s.terminated);
	EXPECT_EQ(a.s.todo, 0U);
	EXPECT_TRUE(a.event(KIW_EV_CLOSE));
	EXPECT_EQ(traced().back(), (Traced{"state", 1, {KIW_EV_CLOSE, KIW_QP_RTS, KIW_QP_CLOSING}}));
	EXPECT_FALSE(a.closing);
	EXPECT_TRUE(a.s.tx.stopped);
	EXPECT_FALSE(a.s.rx.stopped);
}

TEST_F(Ends, ThePeersLeaveIsTold)
{
	EXPECT_TRUE(a.event(KIW_EV_PEER_FIN));
	EXPECT_TRUE(a.closing);
	EXPECT_FALSE(a.s.terminated);
}

TEST_F(Ends, ATerminateIsSentOnce)
{
	fail(a, KIW_ERR_RDMAP_OPCODE);
	EXPECT_TRUE(a.s.terminated);
	EXPECT_TRUE(a.kicked);
	EXPECT_TRUE(a.closing);
	EXPECT_EQ(a.s.tx.term_len, std::uint32_t(KIW_TERM_MIN_LEN));
	EXPECT_EQ(a.s.async, IB_EVENT_QP_FATAL);
	EXPECT_EQ(a.counts[KIW_STAT_STREAM_ERRORS], 1U);
	EXPECT_EQ(a.counts[KIW_STAT_CRC_ERRORS], 0U);
	EXPECT_EQ(traced().back(), (Traced{"fail", 1, {0, 2, 6}}));
	EXPECT_EQ(a.left_shared, 1U);
	a.kicked = false;
	fail(a, KIW_ERR_RDMAP_ACCESS);
	EXPECT_EQ(a.s.async, IB_EVENT_QP_FATAL);
	EXPECT_EQ(a.counts[KIW_STAT_STREAM_ERRORS], 1U);
	EXPECT_TRUE(a.kicked);
	p.run();
	EXPECT_EQ(a.counts[KIW_STAT_TERM_SENT], 1U);
	EXPECT_EQ(a.s.tx.term_len, 0U);
}

TEST_F(Ends, ATerminateReturnsTheHeader)
{
	const Bytes request = read_request({.sink_stag = 1, .sink_to = 2, .size = 3, .src_stag = 4, .src_to = 5});

	kiw_session_fail(&a.s, KIW_ERR_RDMAP_ACCESS, request.data() + 2, KIW_RREQ_LEN, KIW_RREQ_LEN);
	EXPECT_EQ(a.s.tx.term_len, 22U + 2 + KIW_RREQ_LEN);
	EXPECT_EQ(std::memcmp(a.s.rx.hdr + 24, request.data() + 2, KIW_RREQ_LEN), 0);
	EXPECT_EQ(a.s.rx.hdr[23], KIW_RREQ_LEN);
}

TEST_F(Ends, WhereNothingCanBeSentThereIsNoTerminate)
{
	fail(a, KIW_ERR_LLP_FRAME);
	EXPECT_EQ(a.s.tx.term_len, 0U);
	EXPECT_TRUE(a.s.terminated);
}

TEST_F(Ends, AWrongCrcIsCounted)
{
	fail(a, KIW_ERR_LLP_CRC);
	EXPECT_EQ(a.counts[KIW_STAT_CRC_ERRORS], 1U);
	EXPECT_EQ(a.counts[KIW_STAT_STREAM_ERRORS], 1U);
}

TEST_F(Ends, ARequestThatFailedIsToldOfAtOnce)
{
	const kiw_sge from = a.sge(0, 10);

	a.post(remote(KIW_WR_WRITE, 5, b, 0), {&from, 1});
	ASSERT_EQ(kiw_sq_take(&a.core.sq, &a.s.tx.req), KIW_TAKE_ONE);
	kiw_sq_done(&a.core.sq, 0, IB_WC_LOC_PROT_ERR);
	fail(a, KIW_ERR_LOCAL_CATASTROPHE);
	EXPECT_COMPLETES(a, 5, IB_WC_LOC_PROT_ERR);
}

TEST_F(Ends, ViolationsHaveAnEventOfTheirOwn)
{
	for (const auto &[err, event] : {std::pair{KIW_ERR_RDMAP_STAG, IB_EVENT_QP_ACCESS_ERR},
		     {KIW_ERR_RDMAP_WRAP, IB_EVENT_QP_ACCESS_ERR}, {KIW_ERR_RDMAP_OPCODE, IB_EVENT_QP_FATAL},
		     {KIW_ERR_LOCAL_CATASTROPHE, IB_EVENT_QP_FATAL}, {KIW_ERR_DDP_STAG, IB_EVENT_QP_ACCESS_ERR},
		     {KIW_ERR_DDP_WRAP, IB_EVENT_QP_ACCESS_ERR}, {KIW_ERR_DDP_TVERSION, IB_EVENT_QP_FATAL},
		     {KIW_ERR_DDP_CATASTROPHE, IB_EVENT_QP_FATAL}, {KIW_ERR_DDP_MSN, IB_EVENT_QP_FATAL},
		     {static_cast<kiw_err>(KIW_ERR(2, 1, 0)), IB_EVENT_QP_FATAL},
		     {KIW_ERR_LLP_CRC, IB_EVENT_QP_FATAL}}) {
		Pair pair;

		fail(*pair.a, err);
		EXPECT_EQ(pair.a->s.async, event) << err;
		pair.a->work();
		EXPECT_EQ(pair.a->events, std::vector{event});
	}
}

TEST_F(Ends, ALossIsCountedOnce)
{
	a.kicked = false;
	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	EXPECT_TRUE(a.kicked);
	EXPECT_FALSE(a.s.gone);
	EXPECT_EQ(a.late, 0U);
	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	EXPECT_EQ(a.counts[KIW_STAT_LLP_LOST], 1U);
	EXPECT_EQ(a.core.state, KIW_QP_ERROR);
}

TEST_F(Ends, ALossWhileItClosesCounts)
{
	EXPECT_TRUE(a.event(KIW_EV_CLOSE));
	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	EXPECT_EQ(a.counts[KIW_STAT_LLP_LOST], 1U);
}

TEST_F(Ends, ALossBehindATerminateIsNoNews)
{
	fail(a, KIW_ERR_RDMAP_OPCODE);
	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	EXPECT_EQ(a.counts[KIW_STAT_LLP_LOST], 0U);
	EXPECT_EQ(a.core.state, KIW_QP_ERROR);
}

TEST_F(Numbered, TheCauseIsTheLossOfThePeer)
{
	EXPECT_TRUE(a.event(KIW_EV_LLP_LOST));
	EXPECT_EQ(a.core.flush, IB_WC_RETRY_EXC_ERR);
	EXPECT_TRUE(b.event(KIW_EV_PEER_FIN_BUSY));
	EXPECT_EQ(b.core.flush, IB_WC_RETRY_EXC_ERR);
	kiw_core_flush_sq(&b.core);
	EXPECT_EQ(b.core.flush, IB_WC_RETRY_EXC_ERR);
	b.post(request(KIW_WR_SEND, 1), {});
	kiw_core_flush_sq(&b.core);
	EXPECT_EQ(b.core.flush, IB_WC_WR_FLUSH_ERR);
}

TEST_F(Numbered, ItsOwnEndHasNoOtherCause)
{
	EXPECT_TRUE(a.event(KIW_EV_MODIFY_ERR));
	EXPECT_EQ(a.core.flush, IB_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(b.event(KIW_EV_CLOSE));
	EXPECT_EQ(b.core.flush, IB_WC_WR_FLUSH_ERR);
}

TEST_F(Patient, WhatIsUnderWayFailsWhenTheGraceIsOver)
{
	const kiw_sge from = a.sge(0, 100);
	const unsigned long start = Side::now;

	b.hold = true;
	a.post(remote(KIW_WR_WRITE, 1, b, 0), {&from, 1});
	p.run();
	a.reset();
	EXPECT_TRUE(a.s.gone);
	EXPECT_TRUE(a.s.tx.stopped);
	EXPECT_EQ(a.late, start + 2 * KIW_CARRIER_SECOND);
	EXPECT_EQ(a.s.gone_end, start + 2 * KIW_CARRIER_SECOND);
	EXPECT_EQ(a.core.state, KIW_QP_RTS);
	EXPECT_EQ(a.counts[KIW_STAT_LLP_LOST], 0U);
	a.advance(2 * KIW_CARRIER_SECOND - 1);
	// A second cause prolongs nothing.
	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	EXPECT_EQ(a.s.gone_end, start + 2 * KIW_CARRIER_SECOND);
	EXPECT_TRUE(a.completions().empty());
	a.advance(1);
	a.work();
	EXPECT_EQ(a.core.state, KIW_QP_ERROR);
	EXPECT_FALSE(a.s.gone);
	EXPECT_EQ(a.counts[KIW_STAT_LLP_LOST], 1U);
	EXPECT_COMPLETES(a, 1, IB_WC_RETRY_EXC_ERR);
}

TEST_F(Patient, NothingIsSentMeanwhile)
{
	const kiw_sge from = a.sge(0, 100);

	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	a.post(remote(KIW_WR_WRITE, 1, b, 0), {&from, 1});
	a.s.tx.stopped = false;
	EXPECT_FALSE(kiw_tx_run(&a.s, 4));
	EXPECT_EQ(a.s.tx.batch.len, 0U);
	EXPECT_EQ(a.core.sq.next, 0U);
}

TEST_F(Patient, WhatHasEndedHasNoGrace)
{
	EXPECT_TRUE(a.event(KIW_EV_MODIFY_ERR));
	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	EXPECT_FALSE(a.s.gone);
	EXPECT_EQ(a.late, 0U);
}

TEST_F(Ends, ItsCallsAreMadeUnderItsLock)
{
	const auto counted = [this](auto call) {
		a.unheld = 0;
		a.held = false;
		call();
		a.held = true;
		return a.unheld;
	};
	kiw_source none{};

	EXPECT_GE(counted([this] { a.event(KIW_EV_ACTIVITY); }), 1U);
	EXPECT_GE(counted([&] { kiw_session_feed(&a.s, &none, 1); }), 1U);
	EXPECT_GE(counted([this] { kiw_tx_run(&a.s, 1); }), 1U);
	EXPECT_GE(counted([this] { kiw_tx_pending(&a.s); }), 1U);
	EXPECT_GE(counted([this] { kiw_tx_acked(&a.s); }), 1U);
	EXPECT_GE(counted([this] { kiw_tx_drop(&a.s); }), 1U);
	// Once for itself, and once for the event
	EXPECT_GE(counted([this] { kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST); }), 2U);
}

TEST_F(Patient, AGraceBeginsUnderTheLock)
{
	a.held = false;
	kiw_session_broken_off(&a.s, KIW_EV_LLP_LOST);
	EXPECT_EQ(a.unheld, 1U);
}

} // namespace
