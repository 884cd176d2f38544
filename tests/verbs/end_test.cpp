// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// How connections end: what a completion reported as sent arrives, whatever ends the connection afterwards, and the
// peer doesn't take it for an orderly end where something was lost.
#include <algorithm>
#include <arpa/inet.h>
#include <array>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"
#include "child.hpp"

namespace vt {
namespace {

constexpr int count = 64;
constexpr std::size_t message = 2048;

Options many()
{
	Options options;

	options.cap = {.max_send_wr = 1024, .max_recv_wr = 1024, .max_send_sge = 1, .max_recv_sge = 1};
	options.cq_entries = 2048;
	return options;
}

/// Two ends; a has sent messages, knows them as sent, and none has arrived yet.
class Sent : public testing::Test {
protected:
	Sent() : pair(many()), from(pair.a().pd(), count * message), to(pair.b().pd(), count * message)
	{
		from.fill_pattern(7);
		for (std::uint64_t i = 0; i < count; i++)
			EXPECT_EQ(pair.b().receive({to.sge(i * message, message)}, i), 0);
		pair.a().receive_empty(2);
		slow.set("netem delay 200ms limit 100000");
		for (std::uint64_t i = 0; i < count; i++)
			EXPECT_EQ(pair.a().send({from.sge(i * message, message)}, {.id = i}), 0);
		for (std::uint64_t i = 0; i < count; i++)
			EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
	}

	void expect_all_received()
	{
		for (std::uint64_t i = 0; i < count; i++)
			EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
		EXPECT_TRUE(same(from.bytes(), to.bytes()));
	}

	const HeldBack slow{client_end(), "netem delay 1ms limit 100000"};
	Pair pair;
	const Region from;
	const Region to;
};

TEST_F(Sent, ArrivesAfterTheQueuePairIsDestroyed)
{
	pair.a().destroy_qp();
	expect_all_received();
	pair.b().wait_disconnected();
}

TEST_F(Sent, ArrivesAfterAnError)
{
	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	expect_all_received();
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
}

TEST_F(Sent, ArrivesAfterAnEndThatNobodyWaitsFor)
{
	ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
	pair.a().destroy_qp();
	expect_all_received();
}

TEST_F(Sent, ArrivesThoughThePeerSaysOneThingMore)
{
	ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
	EXPECT_EQ(pair.b().send({}, {.id = 99}), 0);
	expect_all_received();
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
}

TEST_F(Sent, ArrivesThoughThePeerGoesOnTalking)
{
	const Region words(pair.b().pd(), 65536);
	std::uint64_t said = 0;

	pair.a().destroy_qp();
	// The peer can't know yet: what it sends meets a socket without an owner.
	for (int i = 0; i < 32; i++)
		said += pair.b().send({words.sge()}, {.id = 99}) == 0;
	EXPECT_GT(said, 0);
	expect_all_received();
}

TEST_F(Sent, ArrivesAfterAPostInTheMidstOfTheEnd)
{
	ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
	(void)pair.a().send({}, {.id = 99});
	expect_all_received();
}

/// A process that has sent and knows it, and then gives us a sign and waits to be killed.
TEST(SentByAProcess, ArrivesAfterItWasKilled)
{
	const HeldBack slow(client_end(), "netem delay 100ms limit 100000");
	Listener listener;
	Child child({"part-sent", std::to_string(listener.port())});
	std::unique_ptr<Region> to;
	const auto side = accept(listener, many(), [&](const Side &ready) {
		to = std::make_unique<Region>(ready.pd(), message);
		for (std::uint64_t i = 0; i < count + 1; i++)
			EXPECT_EQ(ready.receive({to->sge()}, i), 0);
	});

	side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
	// It stops itself when it has seen its completions.
	child.wait_stopped();
	slow.set("netem delay 1s limit 100000");
	child.go_on();
	child.wait_stopped();
	child.kill();
	for (std::uint64_t i = 0; i < count + 1; i++)
		EXPECT_WC(side->received(), i, IBV_WC_SUCCESS);
	side->wait_disconnected();
	to.reset(); // before its protection domain
}

/// More than TCP takes: what was taken arrives, and the peer sees that there was more.
void break_off(const std::function<void(Pair &)> &end, bool slow_link)
{
	constexpr std::size_t large = 65536;
	constexpr std::uint64_t posted = 512;
	const HeldBack slow(client_end(), "netem delay 1ms limit 100000");
	Pair pair(many());
	const Region from(pair.a().pd(), large);
	const Region to(pair.b().pd(), large);
	std::uint64_t completed = 0;

	from.fill_pattern(3);
	for (std::uint64_t i = 0; i < posted; i++)
		ASSERT_EQ(pair.b().receive({to.sge()}, i), 0);
	slow.set(slow_link ? "netem delay 200ms limit 100000" : "netem delay 2ms limit 100000");
	for (std::uint64_t i = 0; i < posted; i++)
		ASSERT_EQ(pair.a().send({from.sge()}, {.id = i}), 0);
	EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	completed++;
	for (const ibv_wc &wc : poll_all(pair.a().send_cq()))
		completed += wc.status == IBV_WC_SUCCESS;
	end(pair);
	for (const ibv_wc &wc : poll_all(pair.a().send_cq()))
		completed += wc.status == IBV_WC_SUCCESS;
	std::uint64_t received = 0;
	bool flushed = false;
	for (std::uint64_t i = 0; i < posted; i++) {
		const ibv_wc wc = pair.b().received();
		EXPECT_EQ(wc.wr_id, i);
		EXPECT_FALSE(flushed && wc.status == IBV_WC_SUCCESS);
		flushed = wc.status != IBV_WC_SUCCESS;
		received += !flushed;
	}
	EXPECT_GE(received, completed);
	if (slow_link) {
		EXPECT_LT(received, posted);
	}
	if (received < posted)
		pair.b().wait_state(IBV_QPS_ERR);
	EXPECT_TRUE(same(from.bytes(), to.bytes()));
	pair.b().wait_disconnected();
}

class BrokenOff : public testing::TestWithParam<bool> {};

TEST_P(BrokenOff, ByDestruction)
{
	break_off([](Pair &pair) { pair.a().destroy_qp(); }, GetParam());
}

TEST_P(BrokenOff, ByAnError)
{
	break_off([](Pair &pair) { EXPECT_EQ(pair.a().modify(IBV_QPS_ERR), 0); }, GetParam());
}

TEST_P(BrokenOff, ByADisconnectTooEarly)
{
	break_off([](Pair &pair) { EXPECT_EQ(rdma_disconnect(pair.a().id()), 0); }, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
	Link, BrokenOff, testing::Bool(), [](const auto &test) { return std::string(test.param ? "Slow" : "Fast"); });

// Both ends that there are, each with more than the link carries in the time that a peer has that acknowledges nothing.
TEST(End, LastsAsLongAsThePeerAcknowledges)
{
	constexpr std::size_t octets = 32768;
	constexpr std::size_t part = 4096;

	// A segment of lo is longer than what the slow link lets through at once, so all of them would be dropped. Two
	// hosts have shorter ones, and the suite runs the test there.
	if (client_end().netns == server_end().netns)
		GTEST_SKIP() << "needs an interface with segments of less than 4 KB, which lo has not";
	const HeldBack slow(client_end(), "netem delay 1ms limit 100000");
	Pair closed(many());
	Pair destroyed(many());
	const std::array<Pair *, 2> pairs = {&closed, &destroyed};
	std::vector<std::unique_ptr<Region>> from;
	std::vector<std::unique_ptr<Region>> to;

	for (Pair *pair : pairs) {
		from.push_back(std::make_unique<Region>(pair->a().pd(), octets));
		to.push_back(std::make_unique<Region>(pair->b().pd(), octets));
		from.back()->fill_pattern(5);
		to.back()->fill(0);
		pair->b().receive_empty(1);
	}
	slow.set("tbf rate 32kbit burst 4k limit 1m");
	for (std::size_t i = 0; i < pairs.size(); i++) {
		Side &a = pairs.at(i)->a();
		for (std::size_t at = 0; at < octets; at += part)
			ASSERT_EQ(a.write({from[i]->sge(at, part)},
					  {.remote = to[i]->address(at), .rkey = to[i]->rkey()}),
				0);
		for (std::size_t at = 0; at < octets; at += part)
			EXPECT_EQ(a.sent().status, IBV_WC_SUCCESS);
	}
	const auto begin = std::chrono::steady_clock::now();
	ASSERT_EQ(rdma_disconnect(closed.a().id()), 0);
	destroyed.a().destroy_qp();
	for (std::size_t i = 0; i < pairs.size(); i++) {
		// Each step has its own patience.
		for (const std::size_t at : {octets / 4, octets / 2, octets * 3 / 4}) {
			const volatile std::uint8_t *some = to[i]->data() + at;
			wait_until(
				[=] { return std::any_of(some, some + 16, [](std::uint8_t octet) { return octet; }); },
				"a part of the Writes");
		}
		EXPECT_WC(pairs.at(i)->b().received(), 0, IBV_WC_WR_FLUSH_ERR);
		pairs.at(i)->b().wait_disconnected();
		EXPECT_TRUE(same(from[i]->bytes(), to[i]->bytes()));
	}
	// Else this has tested nothing.
	EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(11));
	closed.a().wait_disconnected();
}

TEST_F(Sent, IsGivenUpWhenNothingIsAcknowledged)
{
	const std::uint16_t port = ntohs(rdma_get_dst_port(pair.a().id()));

	slow.set("netem loss 100%");
	pair.a().destroy_qp();
	EXPECT_EQ(tcp_state(client_end(), port), tcp_fin_wait1);
	wait_until([&] { return tcp_state(client_end(), port) == 0; }, "the socket to go");
	// The peer hears nothing of it.
	EXPECT_EQ(pair.b().state(), IBV_QPS_RTS);
}

} // namespace
} // namespace vt
