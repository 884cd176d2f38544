// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What was posted without a doorbell, while bytes were unacknowledged, leaves whatever the process does next.
// Connections gather only where a NIC brings their packets, see ../../Documentation/design.md; `run` makes such a link.
#include <functional>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"

namespace vt {
namespace {

constexpr std::size_t count = 20;
constexpr std::size_t message = 64;

/// Two ends that gather, and memory of both
class Ends {
public:
	Ends() : from_(pair_.a().pd(), count * message), to_(pair_.b().pd(), count * message)
	{
		from_.fill_pattern(7);
		// Packets of both ends have come: a NIC brings them.
		pair_.sync();
	}

	Pair &pair() { return pair_; }

	/// Writes, one by one
	void post()
	{
		for (std::size_t i = 0; i < count; i++)
			EXPECT_EQ(pair_.a().write({from_.sge(i * message, message)},
					  {.id = i, .remote = to_.address(i * message), .rkey = to_.rkey()}),
				0);
	}

	/// They are in the peer's memory, where nobody waits for them by a call.
	void expect_placed() const
	{
		wait_until([this] { return same(from_.bytes(), to_.bytes()); }, "the bytes");
	}

private:
	Pair pair_;
	const Region from_;
	const Region to_;
};

/// Does something right behind the posts, some times, as it races with a timer.
void placed_though(const std::function<void(Pair &)> &next)
{
	const HeldBack slow(client_end(), "netem delay 1ms limit 100000");

	for (int round = 0; round < 30; round++) {
		Ends ends;

		ends.post();
		next(ends.pair());
		ends.expect_placed();
	}
}

// The timer alone sends: the peer acknowledges nothing, and the process makes no call.
TEST(Gather, SendsThoughNobodyCallsOrAcknowledges)
{
	// What is held back in lo is also what was posted.
	if (client_end().netns == server_end().netns)
		GTEST_SKIP() << "needs two hosts; the suite runs it there";
	Ends ends;
	const HeldBack silent(server_end(), "netem loss 100%");

	ends.post();
	ends.expect_placed();
}

TEST(Gather, SendsBeforeTheQueuePairIsDestroyed)
{
	placed_though([](Pair &pair) { pair.a().destroy_qp(); });
}

TEST(Gather, SendsBeforeAnError)
{
	placed_though([](Pair &pair) { EXPECT_EQ(pair.a().modify(IBV_QPS_ERR), 0); });
}

TEST(Gather, SendsBeforeATerminate)
{
	placed_though([](Pair &pair) { EXPECT_EQ(pair.a().modify(IBV_QPS_SQE), 0); });
}

TEST(Gather, SendsBeforeADisconnect)
{
	placed_though([](Pair &pair) { EXPECT_EQ(rdma_disconnect(pair.a().id()), 0); });
}

} // namespace
} // namespace vt
