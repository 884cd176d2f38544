// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// States of a QP, query and modify, and the flush: every request completes exactly once.
#include <cerrno>
#include <utility>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"

namespace vt {
namespace {

constexpr int state_and_rights = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;

ibv_qp_attr query(const ibv_qp *qp, ibv_qp_init_attr *init = nullptr)
{
	ibv_qp_attr attr{};
	ibv_qp_init_attr unused{};

	EXPECT_EQ(ibv_query_qp(const_cast<ibv_qp *>(qp), &attr,
			  IBV_QP_STATE | IBV_QP_CAP | IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC |
				  IBV_QP_MAX_DEST_RD_ATOMIC,
			  init ? init : &unused),
		0);
	return attr;
}

/// A QP that was never connected.
class Unconnected : public testing::Test {
protected:
	Unconnected() : pd(make_pd(server_device())) { use(64); }

	/// Makes all anew, with a CQ of so many entries.
	void use(int entries)
	{
		qp.reset();
		cq = make_cq(server_device(), entries);
		qp = new_qp();
	}

	Qp new_qp() const
	{
		ibv_qp_init_attr attr{};
		attr.send_cq = attr.recv_cq = cq.get();
		attr.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1};
		attr.qp_type = IBV_QPT_RC;
		Qp made(ibv_create_qp(pd.get(), &attr));
		if (!made)
			fail("ibv_create_qp", errno);
		return made;
	}

	int modify(ibv_qp_state state) const
	{
		ibv_qp_attr attr{};
		attr.qp_state = state;
		return ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE);
	}

	void receive(std::uint64_t id, int error = 0) const
	{
		ibv_recv_wr wr{};
		ibv_recv_wr *bad = nullptr;
		wr.wr_id = id;
		EXPECT_EQ(ibv_post_recv(qp.get(), &wr, &bad), error);
	}

	/// Eight completions, with the numbers from first on
	void flush(std::uint64_t first = 0) const
	{
		ASSERT_EQ(modify(IBV_QPS_INIT), 0);
		for (std::uint64_t i = 0; i < 8; i++)
			receive(first + i);
		ASSERT_EQ(modify(IBV_QPS_ERR), 0);
	}

	void expect_flushed(std::uint64_t first = 0) const
	{
		for (std::uint64_t i = 0; i < 8; i++)
			EXPECT_WC(poll_one(cq.get()), first + i, IBV_WC_WR_FLUSH_ERR);
	}

	int send(std::uint64_t id) const
	{
		ibv_send_wr wr{};
		ibv_send_wr *bad = nullptr;
		wr.wr_id = id;
		wr.opcode = IBV_WR_SEND;
		return ibv_post_send(qp.get(), &wr, &bad);
	}

	Pd pd;
	Cq cq;
	Qp qp;
};

// As those of RNICs do: consumers need not move them before they connect.
TEST_F(Unconnected, StartsInInit)
{
	EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_INIT);
}

TEST_F(Unconnected, GoesToInitAndBack)
{
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(modify(IBV_QPS_INIT), 0);
		EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_INIT);
		EXPECT_EQ(modify(IBV_QPS_INIT), 0);
		EXPECT_EQ(modify(IBV_QPS_RESET), 0);
		EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_RESET);
	}
}

TEST_F(Unconnected, CannotBeMadeReadyWithoutAConnection)
{
	for (const ibv_qp_state from : {IBV_QPS_RESET, IBV_QPS_INIT}) {
		ASSERT_EQ(modify(from), 0);
		for (const ibv_qp_state to : {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE}) {
			EXPECT_EQ(modify(to), EINVAL) << from << " to " << to;
			EXPECT_EQ(query(qp.get()).qp_state, from);
		}
		// librdmacm asks for it before it accepts; there is no such state.
		EXPECT_EQ(modify(IBV_QPS_RTR), 0);
		EXPECT_EQ(query(qp.get()).qp_state, from);
	}
}

TEST_F(Unconnected, ErrorIsLeftThroughResetOnly)
{
	ASSERT_EQ(modify(IBV_QPS_ERR), 0);
	EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_ERR);
	EXPECT_EQ(modify(IBV_QPS_ERR), 0);
	for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
		EXPECT_EQ(modify(to), EINVAL) << to;
		EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_ERR);
	}
	EXPECT_EQ(modify(IBV_QPS_RESET), 0);
	EXPECT_EQ(modify(IBV_QPS_INIT), 0);
}

TEST_F(Unconnected, StatesOutsideTheListAreRefused)
{
	for (int state : {7, 8, 100, 255})
		EXPECT_NE(modify(static_cast<ibv_qp_state>(state)), 0) << state;
	EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_INIT);
}

TEST_F(Unconnected, WrongCurrentStateIsRefused)
{
	ibv_qp_attr attr{};
	attr.qp_state = IBV_QPS_ERR;
	attr.cur_qp_state = IBV_QPS_RTS;
	EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	EXPECT_EQ(query(qp.get()).qp_state, IBV_QPS_INIT);
}

// What programs written for InfiniBand set on their way, in the words of an address they can't
TEST_F(Unconnected, AttributesWithoutMeaningAreIgnored)
{
	ibv_qp_attr attr{};
	const int mask = IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
			 IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
			 IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	attr.path_mtu = IBV_MTU_1024;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.min_rnr_timer = 12;
	attr.rq_psn = attr.sq_psn = 0x123456;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
	attr.port_num = 1;
	for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_ERR}) {
		ASSERT_EQ(modify(state), 0);
		EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, mask), 0) << state;
		attr.qp_state = state;
		EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, mask | IBV_QP_STATE), 0) << state;
		EXPECT_EQ(query(qp.get()).qp_state, state);
		ASSERT_EQ(modify(state == IBV_QPS_ERR ? IBV_QPS_RESET : state), 0);
	}
	for (const int meant : {IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_ALT_PATH, IBV_QP_QKEY})
		EXPECT_NE(ibv_modify_qp(qp.get(), &attr, meant), 0) << meant;
}

TEST_F(Unconnected, CapacitiesStayAsTheyAre)
{
	ibv_qp_attr attr = query(qp.get());

	EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_CAP), 0);
	attr.cap.max_send_wr *= 2;
	EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_CAP), EINVAL);
}

TEST_F(Unconnected, RightsOfARefusedChangeDontCome)
{
	ibv_qp_attr attr{};

	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_ACCESS_FLAGS), 0);
	attr.qp_state = IBV_QPS_RTS; // not without a connection
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), EINVAL);
	EXPECT_EQ(query(qp.get()).qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
}

TEST_F(Unconnected, RightsOfAtomicsAndWindowsAreTaken)
{
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING | 1U << 8 |
			       1U << 9; // flushes, which not every libibverbs names
	EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr.qp_access_flags = 1U << 30;
	EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_ACCESS_FLAGS), EINVAL);
}

TEST_F(Unconnected, RightsAreKept)
{
	const int both = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	const int all = both | IBV_ACCESS_REMOTE_ATOMIC;

	for (const int rights : {0, int{IBV_ACCESS_REMOTE_READ}, int{IBV_ACCESS_REMOTE_WRITE}, both, all}) {
		ibv_qp_attr attr{};
		attr.qp_state = IBV_QPS_INIT;
		attr.qp_access_flags = static_cast<unsigned int>(rights);
		ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_ACCESS_FLAGS), 0);
		EXPECT_EQ(query(qp.get()).qp_access_flags, static_cast<unsigned int>(rights));
		ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, state_and_rights), 0);
		// librdmacm asks for none, or for Reads and Writes, when it means that the regions decide.
		EXPECT_EQ(query(qp.get()).qp_access_flags,
			static_cast<unsigned int>(rights && rights != both ? rights : all));
	}
}

TEST_F(Unconnected, ErrorFlushesReceivesInOrder)
{
	for (std::uint64_t i = 0; i < 5; i++)
		receive(i);
	ASSERT_EQ(modify(IBV_QPS_ERR), 0);
	for (std::uint64_t i = 0; i < 5; i++)
		EXPECT_WC(poll_one(cq.get()), i, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(poll_all(cq.get()).empty());
}

TEST_F(Unconnected, PostsInErrorAreFlushedAtOnce)
{
	ASSERT_EQ(modify(IBV_QPS_ERR), 0);
	for (std::uint64_t i = 0; i < 100; i++) {
		ASSERT_EQ(send(i), 0);
		EXPECT_WC(poll_one(cq.get()), i, IBV_WC_WR_FLUSH_ERR);
		receive(i);
		EXPECT_WC(poll_one(cq.get()), i, IBV_WC_WR_FLUSH_ERR);
	}
	EXPECT_TRUE(poll_all(cq.get()).empty());
}

TEST_F(Unconnected, NothingIsPostedInReset)
{
	for (int round = 0; round < 2; round++) {
		ASSERT_EQ(modify(IBV_QPS_RESET), 0);
		receive(1, EINVAL);
		EXPECT_EQ(send(1), EINVAL);
		ASSERT_EQ(modify(IBV_QPS_INIT), 0);
		receive(2);
		ASSERT_EQ(modify(IBV_QPS_ERR), 0);
		EXPECT_WC(poll_one(cq.get()), 2, IBV_WC_WR_FLUSH_ERR);
	}
}

TEST_F(Unconnected, ResetForgetsCompletionsAndRequests)
{
	for (int round = 0; round < 5; round++) {
		flush();
		ASSERT_EQ(modify(IBV_QPS_RESET), 0);
		EXPECT_TRUE(poll_all(cq.get()).empty());
		EXPECT_EQ(send(1), EINVAL);
	}
}

// The CQ has room for one round, and nobody polls in between.
TEST_F(Unconnected, ResetFreesThePlacesOfCompletions)
{
	use(8);
	flush();
	for (int round = 0; round < 5; round++) {
		ASSERT_EQ(modify(IBV_QPS_RESET), 0);
		flush();
	}
	expect_flushed();
	EXPECT_TRUE(poll_all(cq.get()).empty());
}

// The same behind completions of another QP, which stay.
TEST_F(Unconnected, ResetAndDestroyFreePlacesBehindOthers)
{
	use(16);
	flush(100);
	const Qp other = std::exchange(qp, new_qp());
	flush();
	for (int round = 0; round < 5; round++) {
		ASSERT_EQ(modify(IBV_QPS_RESET), 0);
		flush();
		qp.reset();
		qp = new_qp();
		flush();
	}
	expect_flushed(100);
	expect_flushed();
	EXPECT_TRUE(poll_all(cq.get()).empty());
}

// A ring that was full of receives is empty, and all of it can be used again.
TEST_F(Unconnected, ResetDropsReceivesThatNobodyFlushed)
{
	for (int round = 0; round < 3; round++) {
		ibv_recv_wr wr{}, *bad = nullptr;
		std::uint32_t posted = 0;

		ASSERT_EQ(modify(IBV_QPS_INIT), 0);
		while (ibv_post_recv(qp.get(), &wr, &bad) == 0)
			posted++;
		EXPECT_EQ(posted, query(qp.get()).cap.max_recv_wr);
		ASSERT_EQ(modify(IBV_QPS_RESET), 0);
	}
	EXPECT_TRUE(poll_all(cq.get()).empty());
}

// Full rings, because every slot must be known to be free again after the flush.
TEST(Flush, ReadyToErrorCompletesEverythingOnce)
{
	Pair pair;
	const std::uint32_t depth = pair.b().cap().max_recv_wr;

	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(pair.b().receive({}, i), 0);
	ASSERT_EQ(pair.b().modify(IBV_QPS_ERR), 0);
	for (std::uint32_t i = 0; i < depth; i++)
		EXPECT_WC(pair.b().received(), i, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(poll_all(pair.b().recv_cq()).empty());
	pair.a().wait_disconnected();
	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(pair.b().receive({}, i), 0);
	for (std::uint32_t i = 0; i < depth; i++)
		EXPECT_WC(pair.b().received(), i, IBV_WC_WR_FLUSH_ERR);
}

/// Sends more than TCP takes at once, ends the connection in the middle, and expects what was signalled, and
/// all that was flushed, once and in order.
void flush_in_mid_stream(const std::function<void(Pair &)> &end)
{
	constexpr std::uint64_t count = 32;
	Pair pair;
	const Region from(pair.a().pd(), 4 << 20);
	const Region to(pair.b().pd(), 4 << 20);

	for (std::uint64_t i = 0; i < count; i++)
		ASSERT_EQ(pair.a().write({from.sge()}, {.id = i, .remote = to.address(), .rkey = to.rkey()}), 0);
	end(pair);
	bool flushed = false;
	for (std::uint64_t i = 0; i < count; i++) {
		const ibv_wc wc = pair.a().sent();
		EXPECT_EQ(wc.wr_id, i);
		EXPECT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR || (!flushed && wc.status == IBV_WC_SUCCESS));
		flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
	}
	// Where all had gone through before, the end may have been an orderly one.
	wait_until([&] { return pair.a().state() != IBV_QPS_RTS && pair.a().state() != IBV_QPS_SQD; }, "the end");
	EXPECT_TRUE(!flushed || pair.a().state() == IBV_QPS_ERR);
	ASSERT_EQ(pair.a().send({}, {.id = 99}), 0);
	EXPECT_WC(pair.a().sent(), 99, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(poll_all(pair.a().send_cq()).empty());
}

TEST(Flush, OwnErrorWhileSending)
{
	flush_in_mid_stream([](Pair &pair) { EXPECT_EQ(pair.a().modify(IBV_QPS_ERR), 0); });
}

TEST(Flush, PeerErrorWhileSending)
{
	flush_in_mid_stream([](Pair &pair) { EXPECT_EQ(pair.b().modify(IBV_QPS_ERR), 0); });
}

TEST(Flush, PeerGoneWhileSending)
{
	flush_in_mid_stream([](Pair &pair) { pair.b().destroy_qp(); });
}

TEST(Flush, DisconnectWhileSending)
{
	flush_in_mid_stream([](Pair &pair) { EXPECT_EQ(rdma_disconnect(pair.a().id()), 0); });
}

TEST(Flush, UnsignalledRequestsAreFlushedWithCompletions)
{
	Pair pair;

	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	for (std::uint64_t i = 0; i < 10; i++)
		ASSERT_EQ(pair.a().send({}, {.id = i, .flags = 0}), 0);
	for (std::uint64_t i = 0; i < 10; i++)
		EXPECT_WC(pair.a().sent(), i, IBV_WC_WR_FLUSH_ERR);
}

TEST(Flush, OutstandingReadsAreFlushed)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 2 << 20);
	const Region at_b(pair.b().pd(), 2 << 20);

	for (std::uint64_t i = 0; i < 40; i++)
		ASSERT_EQ(pair.a().read({at_a.sge()}, {.id = i, .remote = at_b.address(), .rkey = at_b.rkey()}), 0);
	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	bool flushed = false;
	for (std::uint64_t i = 0; i < 40; i++) {
		const ibv_wc wc = pair.a().sent();
		EXPECT_EQ(wc.wr_id, i);
		EXPECT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR || (!flushed && wc.status == IBV_WC_SUCCESS));
		flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
	}
	EXPECT_TRUE(poll_all(pair.a().send_cq()).empty());
}

TEST(Connected, QueryTellsWhatWasNegotiated)
{
	Options client;
	Options server;
	client.reads = 8;
	server.reads = 8;
	Pair pair(client, server);

	for (const Side *side : {&pair.a(), &pair.b()}) {
		ibv_qp_init_attr init{};
		const ibv_qp_attr attr = query(side->qp(), &init);
		EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
		EXPECT_EQ(attr.max_rd_atomic, 8);
		EXPECT_EQ(attr.max_dest_rd_atomic, 8);
		EXPECT_EQ(attr.cap.max_send_wr, side->cap().max_send_wr);
		EXPECT_EQ(attr.cap.max_recv_wr, side->cap().max_recv_wr);
		EXPECT_EQ(attr.cap.max_send_sge, side->cap().max_send_sge);
		EXPECT_EQ(attr.cap.max_recv_sge, side->cap().max_recv_sge);
		EXPECT_EQ(attr.cap.max_inline_data, side->cap().max_inline_data);
		EXPECT_EQ(init.cap.max_send_wr, side->cap().max_send_wr);
		EXPECT_EQ(init.qp_type, IBV_QPT_RC);
		EXPECT_EQ(init.sq_sig_all, 0);
	}
}

TEST(Connected, SignalAllIsReported)
{
	Pair pair({.signal_all = true});
	ibv_qp_init_attr init{};

	query(pair.a().qp(), &init);
	EXPECT_NE(init.sq_sig_all, 0);
}

TEST(Connected, DepthsThatDifferAreNotMixedUp)
{
	Listener listener;
	const Options options;
	auto a = [&] {
		Caller caller(listener.port());
		auto side = std::make_unique<Side>(std::move(caller.id), caller.events, options);
		rdma_conn_param param = parameters({}, 0);
		param.responder_resources = 3;
		param.initiator_depth = 7;
		EXPECT_EQ(rdma_connect(side->id(), &param), 0);
		return side;
	}();
	auto [id, event] = listener.request();
	Side b(std::move(id), listener.shared_events(), options);
	rdma_conn_param param = parameters({}, 0);
	param.responder_resources = 7;
	param.initiator_depth = 3;
	ASSERT_EQ(rdma_accept(b.id(), &param), 0);
	const Event for_a = a->events().wait(RDMA_CM_EVENT_ESTABLISHED, a->id());
	const Event for_b = b.events().wait(RDMA_CM_EVENT_ESTABLISHED, b.id());
	EXPECT_EQ(for_a.initiator_depth, 7);
	EXPECT_EQ(for_a.responder_resources, 3);
	EXPECT_EQ(for_b.initiator_depth, 3);
	EXPECT_EQ(for_b.responder_resources, 7);
	EXPECT_EQ(query(a->qp()).max_rd_atomic, 7);
	EXPECT_EQ(query(a->qp()).max_dest_rd_atomic, 3);
	EXPECT_EQ(query(b.qp()).max_rd_atomic, 3);
	EXPECT_EQ(query(b.qp()).max_dest_rd_atomic, 7);
}

TEST(Connected, ReadyStaysReady)
{
	Pair pair;

	EXPECT_EQ(pair.a().modify(IBV_QPS_RTS), 0);
	EXPECT_EQ(pair.a().modify(IBV_QPS_RESET), EINVAL);
	EXPECT_EQ(pair.a().state(), IBV_QPS_RTS);
	pair.sync();
}

// A program that changes the states by itself, as rping -q, asks what is due when iw_cm made the connection.
TEST(Connected, TakesWhatRdmaInitQpAttrGives)
{
	Pair pair;

	for (Side *side : {&pair.a(), &pair.b()})
		for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
			ibv_qp_attr attr{};
			int mask = 0;

			attr.qp_state = to;
			ASSERT_EQ(rdma_init_qp_attr(side->id(), &attr, &mask), 0);
			EXPECT_EQ(ibv_modify_qp(side->qp(), &attr, mask), 0) << to;
			EXPECT_EQ(side->modify(to), 0) << to;
			EXPECT_EQ(side->state(), IBV_QPS_RTS);
		}
	// Not with another peer.
	ibv_qp_attr attr{};
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = pair.b().qp()->qp_num;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	EXPECT_NE(ibv_modify_qp(pair.a().qp(), &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MTU),
		0);
	EXPECT_EQ(pair.a().state(), IBV_QPS_RTS);
	pair.sync();
}

TEST(Connected, DrainEndsInGoodOrder)
{
	Pair pair;

	pair.sync();
	EXPECT_EQ(pair.a().modify(IBV_QPS_SQD), 0);
	pair.b().wait_disconnected();
	pair.a().wait_disconnected();
	EXPECT_NE(pair.a().state(), IBV_QPS_RTS);
	EXPECT_NE(pair.b().state(), IBV_QPS_RTS);
}

// A program may be about to post when its peer goes. It learns of the end by what it has posted, as rping does.
TEST(Connected, PostsAfterTheEndAreFlushed)
{
	Pair pair;
	const Side &side = pair.b();
	const Region region(side.pd(), 64);

	pair.sync();
	ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
	pair.b().wait_disconnected();
	pair.a().wait_disconnected();
	wait_until([&] { return side.state() == IBV_QPS_INIT; }, "the end of the connection");
	for (std::uint64_t i = 0; i < 100; i++) {
		ASSERT_EQ(side.receive({region.sge()}, i), 0);
		EXPECT_WC(side.received(), i, IBV_WC_WR_FLUSH_ERR);
		ASSERT_EQ(side.send({region.sge()}, {.id = i}), 0);
		EXPECT_WC(side.sent(), i, IBV_WC_WR_FLUSH_ERR);
	}
	// From here on it is like a new one.
	ASSERT_EQ(side.modify(IBV_QPS_INIT), 0);
	ASSERT_EQ(side.receive({region.sge()}, 100), 0);
	EXPECT_TRUE(poll_all(side.recv_cq()).empty());
	EXPECT_EQ(side.send({region.sge()}), EINVAL);
	ASSERT_EQ(side.modify(IBV_QPS_ERR), 0);
	EXPECT_WC(side.received(), 100, IBV_WC_WR_FLUSH_ERR);
}

// The connection is over a moment before its stream has left the queue pair.
TEST(Connected, PostsAtTheVeryEndAreFlushed)
{
	for (std::uint64_t i = 0; i < 100; i++) {
		Pair pair;
		const Side &side = pair.b();

		pair.sync();
		ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
		while (side.state() != IBV_QPS_INIT)
			;
		ASSERT_EQ(side.send({}, {.id = i}), 0);
		ASSERT_EQ(side.receive({}, i), 0);
		EXPECT_WC(side.sent(), i, IBV_WC_WR_FLUSH_ERR);
		EXPECT_WC(side.received(), i, IBV_WC_WR_FLUSH_ERR);
	}
}

// Either side may close what the other has closed, as often as it likes; rdma_disconnect() asks for SQD first.
TEST(Connected, BothSidesMayDisconnectAnyNumberOfTimes)
{
	for (const bool server_first : {false, true}) {
		Pair pair;
		Side &first = server_first ? pair.b() : pair.a();
		Side &second = server_first ? pair.a() : pair.b();

		pair.sync();
		EXPECT_EQ(rdma_disconnect(first.id()), 0);
		second.wait_disconnected();
		first.wait_disconnected();
		for (int i = 0; i < 3; i++) {
			EXPECT_EQ(rdma_disconnect(second.id()), 0) << strerror(errno);
			EXPECT_EQ(rdma_disconnect(first.id()), 0) << strerror(errno);
		}
	}
}

// The peer is cut off, so that the connection can't end for a while. The request that failed is told of all the same.
TEST(Connected, AnOwnErrorIsToldAtOnce)
{
	Pair pair;
	Region region(pair.a().pd(), 4096);

	pair.sync();
	const HeldBack nothing(client_end(), "netem loss 100%");
	ibv_sge bad = region.sge();
	bad.lkey ^= 1;
	ASSERT_EQ(pair.a().send({region.sge()}, {.id = 1}), 0);
	ASSERT_EQ(pair.a().send({bad}, {.id = 2}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_LOC_PROT_ERR);
	EXPECT_EQ(pair.a().state(), IBV_QPS_SQE);
}

TEST(Connected, SqeTerminatesTheConnection)
{
	Pair pair;

	pair.b().receive_empty(1);
	EXPECT_EQ(pair.a().modify(IBV_QPS_SQE), 0);
	const ibv_qp *qp = pair.a().qp();
	wait_async(pair.a().context(), [=](const ibv_async_event &event) {
		return event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == qp;
	});
	EXPECT_WC(pair.b().received(), 0, IBV_WC_WR_FLUSH_ERR);
	pair.a().wait_state(IBV_QPS_ERR);
	pair.b().wait_state(IBV_QPS_ERR);
	pair.b().wait_disconnected();
}

TEST(Connected, DestroyedQpEndsTheConnection)
{
	Pair pair;

	pair.b().receive_empty(3);
	pair.a().destroy_qp();
	for (int i = 0; i < 3; i++)
		EXPECT_WC(pair.b().received(), i, IBV_WC_WR_FLUSH_ERR);
	pair.b().wait_disconnected();
}

TEST(Connected, QpCanGoWithCompletionsUnpolled)
{
	Pair pair;

	pair.b().receive_empty(20);
	for (int i = 0; i < 20; i++)
		ASSERT_EQ(pair.a().send(), 0);
	EXPECT_EQ(pair.b().received().status, IBV_WC_SUCCESS);
	pair.a().destroy_qp();
	pair.b().destroy_qp();
	EXPECT_TRUE(poll_all(pair.a().send_cq()).empty());
	EXPECT_TRUE(poll_all(pair.b().recv_cq()).empty());
}

TEST(Connected, RightsOfTheQpCount)
{
	for (const unsigned int rights : {0U, unsigned{IBV_ACCESS_REMOTE_READ}, unsigned{IBV_ACCESS_REMOTE_WRITE}}) {
		for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
			SCOPED_TRACE(testing::Message() << "rights " << rights << ", opcode " << opcode);
			const bool allowed = rights & (opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
										  : IBV_ACCESS_REMOTE_WRITE);
			Pair pair;
			const Region at_a(pair.a().pd(), 100);
			const Region at_b(pair.b().pd(), 100);
			ibv_qp_attr attr{};
			attr.qp_access_flags = rights;
			ASSERT_EQ(ibv_modify_qp(pair.b().qp(), &attr, IBV_QP_ACCESS_FLAGS), 0);
			at_a.fill(0xaa);
			at_b.fill(0xbb);
			ASSERT_EQ(pair.a().post(opcode, {at_a.sge()}, {.remote = at_b.address(), .rkey = at_b.rkey()}),
				0);
			if (allowed) {
				EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
				pair.sync();
				EXPECT_TRUE(same(at_a.bytes(), at_b.bytes()));
			} else {
				pair.b().wait_disconnected();
				pair.a().wait_disconnected();
				EXPECT_TRUE(all_equal(at_a.bytes(), 0xaa));
				EXPECT_TRUE(all_equal(at_b.bytes(), 0xbb));
			}
		}
	}
}

} // namespace
} // namespace vt
