// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Shared receive queues: one for the queue pairs of several connections.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"
#include "child.hpp"
#include "srq.hpp"

namespace vt {
namespace {

using namespace std::chrono_literals;

/// A connection; b takes its receives from the shared queue.
struct Connection {
	std::unique_ptr<Side> a;
	std::unique_ptr<Side> b;
};

class Shared : public testing::Test {
protected:
	static constexpr std::uint32_t depth = 64;
	static constexpr std::size_t slot = 4096;

	/// What the device had to tell before is no event of these tests.
	Shared()
	{
		ibv_async_event event{};

		while (readable(context->async_fd) && ibv_get_async_event(context, &event) == 0)
			ibv_ack_async_event(&event);
	}

	Connection connect() const
	{
		Options server;
		Connection made;

		server.srq = srq.get();
		made.a = start_connecting(listener.port(), {});
		made.b = accept(listener, server);
		made.a->events().wait(RDMA_CM_EVENT_ESTABLISHED, made.a->id());
		made.b->events().wait(RDMA_CM_EVENT_ESTABLISHED, made.b->id());
		return made;
	}

	int post(std::uint64_t id, const Sges &sges) const
	{
		ibv_recv_wr wr{};
		ibv_recv_wr *bad = nullptr;

		wr.wr_id = id;
		wr.sg_list = const_cast<ibv_sge *>(sges.data());
		wr.num_sge = static_cast<int>(sges.size());
		const int error = ibv_post_srq_recv(srq.get(), &wr, &bad);
		EXPECT_EQ(bad, error ? &wr : nullptr);
		return error;
	}
	/// A receive into the slot of its number.
	void post(std::uint64_t id) const { ASSERT_EQ(post(id, {memory.sge(id * slot, slot)}), 0); }

	ibv_srq_attr query() const
	{
		ibv_srq_attr attr{};

		EXPECT_EQ(ibv_query_srq(srq.get(), &attr), 0);
		return attr;
	}
	int arm(std::uint32_t limit) const
	{
		ibv_srq_attr attr{};

		attr.srq_limit = limit;
		return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT);
	}
	int resize(std::uint32_t requests) const
	{
		ibv_srq_attr attr{};

		attr.max_wr = requests;
		return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR);
	}
	void expect_event(ibv_event_type type) const
	{
		wait_async(context, [=, this](const ibv_async_event &event) {
			return event.event_type == type && event.element.srq == srq.get();
		});
	}
	void expect_last_request(const Side &side) const
	{
		wait_async(context, [&](const ibv_async_event &event) {
			return event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == side.qp();
		});
	}
	/// Messages of the connection are taken: one empty Send.
	void expect_works(const Connection &connection, std::uint64_t id = 60) const
	{
		post(id);
		ASSERT_EQ(connection.a->send({}, {.id = 7}), 0);
		EXPECT_WC(connection.a->sent(), 7, IBV_WC_SUCCESS);
		EXPECT_WC(connection.b->received(), id, IBV_WC_SUCCESS);
	}
	/// Takes messages until each connection brought so many. A message carries its number, and those of a
	/// connection come in order, into one of the requests that were posted; each request is posted again.
	void take_all(const std::vector<Connection> &connections, std::uint64_t messages, std::uint32_t octets,
		std::uint64_t requests) const
	{
		std::vector<std::uint64_t> next(connections.size(), 0);

		wait_until(
			[&] {
				for (std::size_t c = 0; c < connections.size(); c++) {
					for (const ibv_wc &wc : poll_all(connections[c].b->recv_cq())) {
						std::uint64_t n = 0;

						EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
						EXPECT_EQ(wc.qp_num, connections[c].b->qp()->qp_num);
						EXPECT_EQ(wc.byte_len, octets);
						EXPECT_LT(wc.wr_id, requests);
						std::memcpy(&n, memory.data() + wc.wr_id * slot, sizeof(n));
						EXPECT_EQ(n, next[c]++);
						post(wc.wr_id);
					}
				}
				return std::ranges::all_of(next, [=](std::uint64_t n) { return n == messages; });
			},
			"all messages");
	}
	kiw::WorkQueue &queue() const { return kiw::Srq::from(srq.get()).queue; }
	void wait_for_line() const
	{
		wait_until([&] { return queue().ring.flags() & KIW_RING_FLUSH; }, "a message that waits");
	}

	ibv_context *context = server_device();
	const Pd pd = make_pd(context);
	const Region memory{pd.get(), depth *slot};
	const Srq srq = make_srq(pd.get(), depth);
	const Listener listener;
};

TEST_F(Shared, MessagesOfSeveralConnectionsTakeItsRequests)
{
	constexpr std::uint64_t count = 20;
	std::array<Connection, 3> connections = {connect(), connect(), connect()};
	std::set<std::uint64_t> taken;

	for (std::uint64_t id = 0; id < connections.size() * count; id++)
		post(id);
	for (std::uint64_t n = 0; n < count; n++) {
		for (std::size_t c = 0; c < connections.size(); c++) {
			const Region from(connections[c].a->pd(), 1000 + n);
			from.fill_pattern(static_cast<std::uint32_t>(c * count + n));
			ASSERT_EQ(connections[c].a->send({from.sge()}), 0);
			EXPECT_EQ(connections[c].a->sent().status, IBV_WC_SUCCESS);
			const ibv_wc wc = connections[c].b->received();
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.opcode, IBV_WC_RECV);
			EXPECT_EQ(wc.qp_num, connections[c].b->qp()->qp_num);
			EXPECT_EQ(wc.byte_len, from.size());
			EXPECT_TRUE(taken.insert(wc.wr_id).second);
			EXPECT_TRUE(same(from.bytes(), memory.bytes(wc.wr_id * slot, from.size())));
		}
	}
	EXPECT_EQ(taken.size(), connections.size() * count);
}

TEST_F(Shared, RequestsAreTakenInOrder)
{
	const Connection connection = connect();

	for (std::uint64_t id = 0; id < depth; id++)
		post(id);
	for (std::uint64_t id = 0; id < depth; id++)
		ASSERT_EQ(connection.a->send(), 0);
	for (std::uint64_t id = 0; id < depth; id++)
		EXPECT_WC(connection.b->received(), id, IBV_WC_SUCCESS);
}

// The first message takes the first request and is still under way when the others come and go.
TEST_F(Shared, RequestsCompleteInAnyOrder)
{
	const Connection slow = connect(), fast = connect();
	const Region from(slow.a->pd(), 4 << 20);
	const Region to(pd.get(), from.size());

	from.fill_pattern(1);
	ASSERT_EQ(post(1000, {to.sge()}), 0);
	ASSERT_EQ(slow.a->send({from.sge()}), 0);
	wait_until([&] { return queue().ring.consumed() == 1; }, "the long message");
	// Each slot is used again and again meanwhile, also that of the first request.
	for (std::uint64_t n = 0; n < 3 * depth; n++)
		expect_works(fast, n % depth);
	EXPECT_WC(slow.b->received(), 1000, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
}

TEST_F(Shared, HoldsAsManyRequestsAsWereGranted)
{
	const Connection connection = connect();
	const std::uint32_t granted = query().max_wr;

	EXPECT_GE(granted, depth);
	for (std::uint32_t round = 0; round < 3; round++) {
		for (std::uint64_t id = 0; id < granted; id++)
			ASSERT_EQ(post(id, {}), 0);
		EXPECT_EQ(post(99, {}), ENOMEM);
		for (std::uint64_t id = 0; id < granted; id++) {
			ASSERT_EQ(connection.a->send(), 0);
			EXPECT_EQ(connection.a->sent().status, IBV_WC_SUCCESS);
			EXPECT_WC(connection.b->received(), id, IBV_WC_SUCCESS);
		}
	}
}

TEST_F(Shared, TooManyBuffersAreRefused)
{
	const std::uint32_t sges = query().max_sge;

	EXPECT_GE(sges, 1);
	EXPECT_EQ(post(1, Sges(sges + 1, memory.sge(0, 1))), EINVAL);
	EXPECT_EQ(post(1, Sges(sges, memory.sge(0, 1))), 0);
}

// --- the limit ------------------------------------------------------------------------------------

TEST_F(Shared, LimitIsToldOfOnce)
{
	const Connection connection = connect();

	for (std::uint64_t id = 0; id < 8; id++)
		post(id);
	ASSERT_EQ(arm(5), 0);
	EXPECT_EQ(query().srq_limit, 5);
	for (std::uint64_t id = 0; id < 3; id++) {
		ASSERT_EQ(connection.a->send(), 0);
		EXPECT_WC(connection.b->received(), id, IBV_WC_SUCCESS);
	}
	EXPECT_FALSE(readable(context->async_fd));
	ASSERT_EQ(connection.a->send(), 0);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
	EXPECT_EQ(query().srq_limit, 0);
	ASSERT_EQ(connection.a->send(), 0);
	for (std::uint64_t id = 3; id < 5; id++)
		EXPECT_WC(connection.b->received(), id, IBV_WC_SUCCESS);
	EXPECT_FALSE(readable(context->async_fd));
}

TEST_F(Shared, LimitThatIsReachedAlreadyIsToldOfAtOnce)
{
	for (std::uint64_t id = 0; id < 4; id++)
		post(id);
	ASSERT_EQ(arm(4), 0);
	EXPECT_FALSE(readable(context->async_fd));
	ASSERT_EQ(arm(5), 0);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
	EXPECT_EQ(query().srq_limit, 0);
}

TEST_F(Shared, LimitCanBeTakenBack)
{
	const Connection connection = connect();

	post(0);
	ASSERT_EQ(arm(1), 0);
	ASSERT_EQ(arm(0), 0);
	ASSERT_EQ(connection.a->send(), 0);
	EXPECT_WC(connection.b->received(), 0, IBV_WC_SUCCESS);
	EXPECT_FALSE(readable(context->async_fd));
}

// --- what waits -----------------------------------------------------------------------------------

// Each message that waits goes to the end of the line when the one before it has its request.
TEST_F(Shared, MessagesThatWaitTakeTurns)
{
	const std::array<Connection, 3> connections = {connect(), connect(), connect()};

	for (const Connection &connection : connections) {
		for (std::uint64_t n = 0; n < 3; n++)
			ASSERT_EQ(connection.a->send(), 0);
		wait_for_line();
		std::this_thread::sleep_for(200ms);
	}
	for (std::uint64_t id = 0; id < 3 * connections.size(); id++) {
		post(id);
		EXPECT_WC(connections.at(id % connections.size()).b->received(), id, IBV_WC_SUCCESS);
		// The next message of the stream is in line before the next request comes.
		std::this_thread::sleep_for(200ms);
		for (const Connection &connection : connections)
			EXPECT_TRUE(poll_all(connection.b->recv_cq()).empty());
	}
}

TEST_F(Shared, OnePostOfManyWakesAsMany)
{
	std::vector<Connection> connections;
	std::set<std::uint64_t> taken;

	for (int i = 0; i < 8; i++) {
		connections.push_back(connect());
		ASSERT_EQ(connections.back().a->send(), 0);
	}
	wait_for_line();
	std::this_thread::sleep_for(50ms);
	std::array<ibv_recv_wr, 8> list{};
	ibv_recv_wr *bad = nullptr;
	for (std::size_t i = 0; i < list.size(); i++) {
		list[i].wr_id = i;
		list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
	}
	ASSERT_EQ(ibv_post_srq_recv(srq.get(), list.data(), &bad), 0);
	for (const Connection &connection : connections) {
		const ibv_wc wc = connection.b->received();
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_TRUE(taken.insert(wc.wr_id).second);
	}
}

TEST_F(Shared, MessageThatGivesUpLeavesTheOthersInLine)
{
	const Connection first = connect(), second = connect();

	ASSERT_EQ(first.a->send(), 0);
	wait_for_line();
	std::this_thread::sleep_for(50ms);
	ASSERT_EQ(second.a->send(), 0);
	EXPECT_EQ(second.a->sent().status, IBV_WC_SUCCESS);
	std::this_thread::sleep_for(50ms);
	ASSERT_EQ(first.b->modify(IBV_QPS_ERR), 0);
	expect_last_request(*first.b);
	post(1);
	EXPECT_WC(second.b->received(), 1, IBV_WC_SUCCESS);
	EXPECT_TRUE(poll_all(first.b->recv_cq()).empty());
	expect_works(second);
}

TEST_F(Shared, QueuePairCanBeDestroyedWhileItsMessageWaits)
{
	Connection first = connect();
	const Connection second = connect();

	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(first.a->send(), 0);
		wait_for_line();
		first = {};
		first = connect();
		expect_works(second);
	}
}

TEST_F(Shared, WithoutARequestTheConnectionBreaksAndNoOther)
{
	const Connection first = connect(), second = connect();
	const Parameters wait("receive_wait", "1");

	ASSERT_EQ(first.a->send(), 0);
	first.a->wait_disconnected();
	first.b->wait_state(IBV_QPS_ERR);
	expect_last_request(*first.b);
	expect_works(second);
}

TEST_F(Shared, ProcessCanEndWhileMessagesWait)
{
	for (int round = 0; round < 3; round++) {
		Child child({"part-shared", std::to_string(listener.port())});
		const auto side = accept(listener, {});

		side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
		for (int i = 0; i < 4; i++)
			ASSERT_EQ(side->send(), 0);
		std::this_thread::sleep_for(50ms);
		child.kill();
		side->wait_disconnected();
	}
}

// --- how it ends ----------------------------------------------------------------------------------

TEST_F(Shared, ErrorOfAQueuePairLeavesTheRequests)
{
	const Connection first = connect(), second = connect();

	for (std::uint64_t id = 0; id < 4; id++)
		post(id);
	ASSERT_EQ(first.b->modify(IBV_QPS_ERR), 0);
	expect_last_request(*first.b);
	EXPECT_TRUE(poll_all(first.b->recv_cq()).empty());
	for (std::uint64_t id = 0; id < 4; id++) {
		ASSERT_EQ(second.a->send(), 0);
		EXPECT_WC(second.b->received(), id, IBV_WC_SUCCESS);
	}
	EXPECT_FALSE(readable(context->async_fd));
	ASSERT_EQ(first.b->modify(IBV_QPS_ERR), 0);
	EXPECT_FALSE(readable(context->async_fd));
}

TEST_F(Shared, RequestOfTheMessageUnderWayIsFlushed)
{
	const Connection first = connect(), second = connect();
	const HeldBack slow(client_end(), "netem delay 20ms rate 50mbit limit 100000");
	const Region from(first.a->pd(), 8 << 20);
	const Region to(pd.get(), from.size());

	ASSERT_EQ(post(5, {to.sge()}), 0);
	post(6);
	ASSERT_EQ(first.a->send({from.sge()}), 0);
	wait_until([&] { return queue().ring.consumed() == 1; }, "the long message");
	ASSERT_EQ(first.b->modify(IBV_QPS_ERR), 0);
	expect_last_request(*first.b);
	EXPECT_WC(first.b->received(), 5, IBV_WC_WR_FLUSH_ERR);
	ASSERT_EQ(second.a->send(), 0);
	EXPECT_WC(second.b->received(), 6, IBV_WC_SUCCESS);
}

TEST_F(Shared, LastRequestIsToldOfAfterAFaultOfThePeer)
{
	const Connection connection = connect();
	const Region from(connection.a->pd(), 8);

	expect_works(connection);
	ASSERT_EQ(connection.a->write({from.sge()}, {.remote = 4096, .rkey = 1}), 0);
	expect_last_request(*connection.b);
}

TEST_F(Shared, LastRequestIsToldOfOnceAfterAnOrderlyEnd)
{
	for (const bool by_peer : {false, true}) {
		const Connection connection = connect();
		const Side &first = by_peer ? *connection.a : *connection.b;

		expect_works(connection);
		ASSERT_EQ(rdma_disconnect(first.id()), 0);
		connection.b->wait_disconnected();
		expect_last_request(*connection.b);
		ASSERT_EQ(connection.b->modify(IBV_QPS_ERR), 0);
		pollfd more{context->async_fd, POLLIN, 0};
		EXPECT_EQ(poll(&more, 1, 100), 0);
	}
}

TEST_F(Shared, QueuePairWithoutAConnectionTellsOfTheLastRequest)
{
	const Cq cq = make_cq(context, 8);
	ibv_qp_init_attr attr{};
	ibv_qp_attr to{};

	attr.send_cq = attr.recv_cq = cq.get();
	attr.srq = srq.get();
	attr.cap = {.max_send_wr = 1, .max_send_sge = 1};
	attr.qp_type = IBV_QPT_RC;
	const Qp qp(ibv_create_qp(pd.get(), &attr));
	ASSERT_NE(qp, nullptr);
	for (int i = 0; i < 2; i++) {
		to.qp_state = IBV_QPS_ERR;
		ASSERT_EQ(ibv_modify_qp(qp.get(), &to, IBV_QP_STATE), 0);
		wait_async(context, [&](const ibv_async_event &event) {
			return event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp.get();
		});
		EXPECT_FALSE(readable(context->async_fd));
		to.qp_state = IBV_QPS_RESET;
		ASSERT_EQ(ibv_modify_qp(qp.get(), &to, IBV_QP_STATE), 0);
	}
}

TEST_F(Shared, UsedOnesCannotBeDestroyed)
{
	const Connection connection = connect();

	EXPECT_EQ(ibv_destroy_srq(srq.get()), EBUSY);
	EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
	expect_works(connection);
}

// --- what is refused ------------------------------------------------------------------------------

TEST_F(Shared, QueuePairsOfAnotherDomainAreRefused)
{
	const Pd other = make_pd(context);
	const Cq cq = make_cq(context, 8);
	ibv_qp_init_attr attr{};

	attr.send_cq = attr.recv_cq = cq.get();
	attr.srq = srq.get();
	attr.cap = {.max_send_wr = 1, .max_send_sge = 1};
	attr.qp_type = IBV_QPT_RC;
	errno = 0;
	EXPECT_EQ(ibv_create_qp(other.get(), &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(Shared, QueuePairHasNoReceivesOfItsOwn)
{
	const Connection connection = connect();
	ibv_qp_attr attr{};
	ibv_qp_init_attr init{};

	EXPECT_EQ(connection.b->receive(), EINVAL);
	ASSERT_EQ(ibv_query_qp(connection.b->qp(), &attr, IBV_QP_CAP, &init), 0);
	EXPECT_EQ(attr.cap.max_recv_wr, 0);
	EXPECT_EQ(init.srq, srq.get());
	expect_works(connection);
}

TEST_F(Shared, SizesOutsideTheLimitsAreRefused)
{
	ibv_device_attr limits{};

	ASSERT_EQ(ibv_query_device(context, &limits), 0);
	ASSERT_GT(limits.max_srq, 0);
	const auto wr = static_cast<std::uint32_t>(limits.max_srq_wr);
	const auto sge = static_cast<std::uint32_t>(limits.max_srq_sge);
	for (const auto &[requests, sges] :
		{std::pair(0U, 1U), {wr + 1, 1U}, {0x80000000U, 1U}, {1U, sge + 1}, {1U, 0x80000000U}}) {
		ibv_srq_init_attr attr{};

		attr.attr.max_wr = requests;
		attr.attr.max_sge = sges;
		errno = 0;
		EXPECT_EQ(ibv_create_srq(pd.get(), &attr), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
	EXPECT_NE(make_srq(pd.get(), wr, sge), nullptr);
}

TEST_F(Shared, ChangesThatCannotBeAreRefused)
{
	ibv_srq_attr attr{};

	EXPECT_EQ(arm(query().max_wr + 1), EINVAL);
	EXPECT_EQ(arm(query().max_wr), 0);
	attr.max_wr = 2 * depth;
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | 1 << 5), EINVAL);
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, 1 << 5), EINVAL);
	EXPECT_EQ(query().max_wr, depth);
}

// --- another size ---------------------------------------------------------------------------------

TEST_F(Shared, AnotherSizeKeepsWhatIsPosted)
{
	const Connection connection = connect();
	ibv_device_attr device{};
	std::uint64_t first = 0, posted = 0;

	ASSERT_EQ(ibv_query_device(context, &device), 0);
	EXPECT_TRUE(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	for (const std::uint32_t size : {64U, 1024U, 32U, 30U, 16384U, 64U}) {
		for (; posted < first + 30; posted++)
			ASSERT_EQ(post(posted, {memory.sge(posted % depth * slot, slot)}), 0);
		ASSERT_EQ(resize(size), 0);
		EXPECT_GE(query().max_wr, size);
		for (std::uint64_t end = first + 20; first < end; first++) {
			const Region from(connection.a->pd(), 100);
			from.fill_pattern(static_cast<std::uint32_t>(first));
			ASSERT_EQ(connection.a->send({from.sge()}), 0);
			EXPECT_EQ(connection.a->sent().status, IBV_WC_SUCCESS);
			EXPECT_WC(connection.b->received(), first, IBV_WC_SUCCESS);
			EXPECT_TRUE(same(from.bytes(), memory.bytes(first % depth * slot, from.size())));
		}
	}
}

TEST_F(Shared, GrownOneHoldsMoreAndShrunkOneLess)
{
	const Connection connection = connect();

	for (const std::uint32_t size : {256U, 16U, 1U, 64U}) {
		ASSERT_EQ(resize(size), 0);
		ASSERT_EQ(query().max_wr, size);
		for (std::uint64_t id = 0; id < size; id++)
			ASSERT_EQ(post(id, {}), 0);
		EXPECT_EQ(post(99, {}), ENOMEM);
		for (std::uint64_t id = 0; id < size; id++) {
			ASSERT_EQ(connection.a->send(), 0);
			EXPECT_EQ(connection.a->sent().status, IBV_WC_SUCCESS);
			EXPECT_WC(connection.b->received(), id, IBV_WC_SUCCESS);
		}
	}
}

TEST_F(Shared, CannotBeSmallerThanWhatIsPosted)
{
	const Connection connection = connect();

	for (std::uint64_t id = 0; id < 33; id++)
		post(id);
	EXPECT_EQ(resize(32), EINVAL);
	EXPECT_EQ(query().max_wr, depth);
	ASSERT_EQ(connection.a->send(), 0);
	EXPECT_WC(connection.b->received(), 0, IBV_WC_SUCCESS);
	EXPECT_EQ(resize(32), 0);
	for (std::uint64_t id = 1; id < 33; id++) {
		ASSERT_EQ(connection.a->send(), 0);
		EXPECT_WC(connection.b->received(), id, IBV_WC_SUCCESS);
	}
}

TEST_F(Shared, SizesOutsideTheLimitsAreRefusedLater)
{
	ibv_device_attr limits{};

	ASSERT_EQ(ibv_query_device(context, &limits), 0);
	const auto most = static_cast<std::uint32_t>(limits.max_srq_wr);
	for (const std::uint32_t size : {0U, most + 1, 0x80000000U, 0xffffffffU})
		EXPECT_EQ(resize(size), EINVAL) << size;
	EXPECT_EQ(query().max_wr, depth);
	EXPECT_EQ(resize(most), 0);
	EXPECT_EQ(query().max_wr, most);
}

TEST_F(Shared, LimitGoesWithTheSize)
{
	const Connection connection = connect();
	ibv_srq_attr attr{};

	for (std::uint64_t id = 0; id < 20; id++)
		post(id);
	ASSERT_EQ(arm(10), 0);
	attr.max_wr = 32;
	attr.srq_limit = 33;
	EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
	EXPECT_EQ(query().max_wr, depth);
	EXPECT_EQ(query().srq_limit, 10);
	ASSERT_EQ(resize(32), 0);
	EXPECT_EQ(query().srq_limit, 10);
	attr.max_wr = 256;
	attr.srq_limit = 20;
	ASSERT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	EXPECT_EQ(query().max_wr, 256);
	EXPECT_EQ(query().srq_limit, 20);
	EXPECT_FALSE(readable(context->async_fd));
	ASSERT_EQ(connection.a->send(), 0);
	expect_event(IBV_EVENT_SRQ_LIMIT_REACHED);
}

TEST_F(Shared, MessageThatWaitsTakesFromTheNewRing)
{
	const Connection first = connect(), second = connect();

	for (const std::uint32_t size : {256U, 2U}) {
		ASSERT_EQ(first.a->send(), 0);
		ASSERT_EQ(second.a->send(), 0);
		wait_for_line();
		ASSERT_EQ(resize(size), 0);
		post(1);
		post(2);
		const ibv_wc one = first.b->received(), other = second.b->received();
		EXPECT_EQ(one.status, IBV_WC_SUCCESS);
		EXPECT_EQ(other.status, IBV_WC_SUCCESS);
		EXPECT_EQ(one.wr_id + other.wr_id, 3);
	}
}

TEST_F(Shared, AnotherSizeGivesTheOldMemoryBack)
{
	ASSERT_EQ(resize(4096), 0);
	const std::size_t before = pinned();

	for (int i = 0; i < 50; i++) {
		ASSERT_EQ(resize(8192), 0);
		ASSERT_EQ(resize(4096), 0);
	}
	EXPECT_EQ(pinned(), before);
}

// Messages come and wait, threads post and resize.
TEST_F(Shared, NothingIsLostWhileTheSizeChanges)
{
	constexpr std::uint64_t messages = 3000;
	constexpr std::uint64_t posters = 2;
	const Connection connection = connect();
	std::atomic<std::uint64_t> received = 0;
	std::vector<int> times(messages, 0);
	std::vector<std::jthread> others;

	for (std::uint64_t t = 0; t < posters; t++)
		others.emplace_back([&, t] {
			for (std::uint64_t id = t; id < messages; id += posters) {
				wait_until([&] { return id < received + 8; }, "the messages before it");
				EXPECT_EQ(post(id, {memory.sge(0, 8)}), 0);
			}
		});
	others.emplace_back([&] {
		for (std::uint32_t n = 0; received < messages; n++) {
			EXPECT_EQ(resize(16U << n % 7), 0);
			std::this_thread::sleep_for(200us);
		}
	});
	others.emplace_back([&] {
		for (std::uint64_t n = 0; n < messages; n++) {
			wait_until([&] { return n < received + 32; }, "room for a message");
			EXPECT_EQ(connection.a->send(), 0);
			EXPECT_EQ(connection.a->sent().status, IBV_WC_SUCCESS);
		}
	});
	for (std::uint64_t n = 0; n < messages; n++) {
		const ibv_wc wc = connection.b->received();

		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		times.at(wc.wr_id)++;
		received = n + 1;
	}
	EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; }));
}

// --- processes that do what they like -------------------------------------------------------------

/// The command that resizes, with as much of a request behind it as that.
int raw_resize(const ibv_srq *srq, std::uint32_t requests, const void *response, std::size_t size = sizeof(void *))
{
	struct {
		ib_uverbs_cmd_hdr header;
		std::uint32_t handle, mask, max_wr, srq_limit;
		const void *response;
	} command{};
	const std::size_t octets = sizeof(command) - sizeof(void *) + size;

	command.header.command = IB_USER_VERBS_CMD_MODIFY_SRQ;
	command.header.in_words = static_cast<std::uint16_t>(octets / 4);
	command.handle = srq->handle;
	command.mask = IBV_SRQ_MAX_WR;
	command.max_wr = requests;
	command.response = response;
	return write(srq->context->cmd_fd, &command, octets) < 0 ? errno : 0;
}

TEST_F(Shared, SizeOfAQueueWithAnIndexThatCannotBeStays)
{
	const Connection connection = connect();

	for (const std::uint32_t wrong : {depth + 1, 3 * depth, 0x80000000U, ~0U}) {
		queue().ring.publish(queue().next + wrong);
		EXPECT_EQ(resize(1024), EINVAL);
	}
	EXPECT_EQ(query().max_wr, depth);
	queue().ring.publish(queue().next);
	EXPECT_EQ(resize(128), 0);
	expect_works(connection);
}

TEST_F(Shared, RingThatTheProcessIsNotToldOfIsNotTaken)
{
	const Connection connection = connect();

	EXPECT_EQ(raw_resize(srq.get(), 128, nullptr), EFAULT);
	// NOLINTNEXTLINE(performance-no-int-to-ptr)
	EXPECT_EQ(raw_resize(srq.get(), 128, reinterpret_cast<const void *>(~0UL << 12)), EFAULT);
	EXPECT_EQ(raw_resize(srq.get(), 128, nullptr, 4), EINVAL);
	EXPECT_EQ(raw_resize(srq.get(), 128, nullptr, 0), EINVAL);
	EXPECT_EQ(query().max_wr, depth);
	expect_works(connection);
}

// Where the process goes on with the old ring, nothing of it is taken.
TEST_F(Shared, OldRingIsNotLookedAtAnyMore)
{
	const Connection connection = connect();
	kiw_create_srq_resp response{};

	post(1);
	ASSERT_EQ(raw_resize(srq.get(), 128, &response), 0);
	EXPECT_EQ(response.ring.entries, 128);
	post(2);
	ASSERT_EQ(connection.a->send(), 0);
	EXPECT_WC(connection.b->received(), 1, IBV_WC_SUCCESS);
	ASSERT_EQ(connection.a->send(), 0);
	std::this_thread::sleep_for(50ms);
	EXPECT_TRUE(poll_all(connection.b->recv_cq()).empty());
}

TEST_F(Shared, IndexThatCannotBeEndsTheQueuePairsThatTake)
{
	const Connection first = connect(), second = connect();
	Pair bystander;

	queue().ring.publish(queue().next + 3 * depth);
	ASSERT_EQ(first.a->send(), 0);
	expect_event(IBV_EVENT_SRQ_ERR);
	first.b->wait_state(IBV_QPS_ERR);
	first.a->wait_disconnected();
	EXPECT_EQ(second.b->state(), IBV_QPS_RTS);
	ASSERT_EQ(second.a->send(), 0);
	second.b->wait_state(IBV_QPS_ERR);
	bystander.sync();
}

TEST_F(Shared, IndexThatCannotBeEndsWhatWaits)
{
	const Connection first = connect(), second = connect();

	ASSERT_EQ(first.a->send(), 0);
	ASSERT_EQ(second.a->send(), 0);
	wait_for_line();
	std::this_thread::sleep_for(50ms);
	queue().ring.publish(queue().next - 1);
	ring_shared_doorbell(srq.get());
	first.b->wait_state(IBV_QPS_ERR);
	second.b->wait_state(IBV_QPS_ERR);
}

/// Posts a slot as it is.
void post_raw(kiw::WorkQueue &queue, const kiw_rqe &rqe)
{
	std::memcpy(queue.ring.slot(queue.next), &rqe, sizeof(rqe));
	queue.ring.publish(++queue.next);
}

TEST_F(Shared, RequestThatIsWrongEndsTheQueuePairThatTakesIt)
{
	for (const kiw_rqe &wrong : {kiw_rqe{.wr_id = 9, .num_sge = 255, .reserved = {}},
		     kiw_rqe{.wr_id = 9, .num_sge = 0, .reserved = {0, 0, 1}}}) {
		const Connection first = connect(), second = connect();

		post_raw(queue(), wrong);
		post(1);
		ASSERT_EQ(first.a->send(), 0);
		EXPECT_WC(first.b->received(), 9, IBV_WC_LOC_QP_OP_ERR);
		first.b->wait_state(IBV_QPS_ERR);
		ASSERT_EQ(second.a->send(), 0);
		EXPECT_WC(second.b->received(), 1, IBV_WC_SUCCESS);
	}
}

TEST_F(Shared, BufferWithoutARightEndsTheQueuePairThatTakesIt)
{
	const Connection first = connect(), second = connect();
	const Region readable(pd.get(), slot, IBV_ACCESS_REMOTE_READ);
	const Region from(first.a->pd(), 8);

	ASSERT_EQ(post(3, {readable.sge()}), 0);
	post(4);
	ASSERT_EQ(first.a->send({from.sge()}), 0);
	EXPECT_WC(first.b->received(), 3, IBV_WC_LOC_PROT_ERR);
	ASSERT_EQ(second.a->send(), 0);
	EXPECT_WC(second.b->received(), 4, IBV_WC_SUCCESS);
}

TEST_F(Shared, DoorbellsForNothingDoNothing)
{
	const Connection connection = connect();

	for (int i = 0; i < 100; i++)
		ring_shared_doorbell(srq.get());
	expect_works(connection);
}

// --- under load -----------------------------------------------------------------------------------

// Few requests for many messages: streams wait and are woken all the time, while a thread posts what others have freed.
TEST_F(Shared, NothingIsLostWhereRequestsAreScarce)
{
	constexpr std::uint32_t requests = 4;
	constexpr std::uint64_t messages = 2000;
	std::vector<Connection> connections;
	std::vector<std::jthread> senders;

	for (int i = 0; i < 4; i++)
		connections.push_back(connect());
	for (std::uint64_t id = 0; id < requests; id++)
		post(id);
	for (const Connection &connection : connections)
		senders.emplace_back([&a = *connection.a] {
			const Region from(a.pd(), 8);
			for (std::uint64_t n = 0; n < messages; n++) {
				std::memcpy(from.data(), &n, sizeof(n));
				EXPECT_EQ(a.send({from.sge()}), 0);
				EXPECT_EQ(a.sent().status, IBV_WC_SUCCESS);
			}
		});
	take_all(connections, messages, 8, requests);
}

// As perftest does with --use-srq and several queue pairs, but with completions told apart by their queue pairs.
TEST_F(Shared, PipelinesOfManyConnectionsShareIt)
{
	constexpr std::uint64_t messages = 1000;
	constexpr std::uint64_t under_way = 32;
	std::vector<Connection> connections;
	std::vector<std::jthread> senders;

	for (int i = 0; i < 8; i++)
		connections.push_back(connect());
	for (std::uint64_t id = 0; id < depth; id++)
		post(id);
	for (const Connection &connection : connections)
		senders.emplace_back([&a = *connection.a] {
			const Region from(a.pd(), under_way * slot);
			std::uint64_t sent = 0, done = 0;

			while (done < messages) {
				for (; sent < messages && sent - done < under_way; sent++) {
					const std::size_t at = sent % under_way * slot;

					std::memcpy(from.data() + at, &sent, sizeof(sent));
					ASSERT_EQ(a.send({from.sge(at, slot)}), 0);
				}
				EXPECT_EQ(a.sent().status, IBV_WC_SUCCESS);
				done++;
			}
		});
	take_all(connections, messages, slot, depth);
}

} // namespace
} // namespace vt
