// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// By number a request completes when the peer's TCP has acknowledged it, and kiwarp acknowledges what it has placed.
#include <chrono>
#include <cstdint>
#include <thread>

#include "../lib/by_number.hpp"
#include "../lib/link.hpp"

namespace {

using namespace number;
using namespace std::chrono_literals;

class Acknowledged : public testing::Test {
protected:
	Acknowledged()
	{
		left.connect(right.name());
		right.connect(left.name());
		exchange(left, right);
		from.fill(0x57);
	}

	int write(std::uint64_t id, std::uint32_t length, std::uint32_t offset = 0)
	{
		ibv_sge sge = from.sge(offset, length);
		ibv_send_wr wr{}, *bad = nullptr;

		wr.wr_id = id;
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = to.address(offset);
		wr.wr.rdma.rkey = to.rkey();
		return ibv_post_send(left.qp(), &wr, &bad);
	}
	/// Is all of a Write in the peer's memory?
	bool there(std::uint32_t length, std::uint32_t offset = 0) const
	{
		return vt::all_equal(to.bytes(offset, length), 0x57);
	}

	End left{"kiw0", ipv4.left}, right{"kiw1", ipv4.right};
	vt::Region from{left.pd(), 1 << 20}, to{right.pd(), 1 << 20};
};

// The second is sent as the pages are.
TEST_F(Acknowledged, AWriteIsThereWhenItCompletes)
{
	const vt::HeldBack path(vt::client_end(), "netem delay 300ms");

	for (const std::uint32_t length : {4096U, 1U << 20}) {
		to.fill(0);
		ASSERT_EQ(write(length, length), 0);
		EXPECT_WC(left.completion("the Write"), length, IBV_WC_SUCCESS);
		EXPECT_TRUE(there(length));
	}
}

// More than there are marks for: each waits for its own bytes, or longer, and none for ever.
TEST_F(Acknowledged, EachOfManyIsThereWhenItCompletes)
{
	constexpr std::uint32_t many = 60, length = 512;
	const vt::HeldBack path(vt::client_end(), "netem delay 100ms");

	to.fill(0);
	for (std::uint32_t i = 0; i < many; i++) {
		ASSERT_EQ(write(i, length, i * length), 0);
		if (i % 3 == 0)
			std::this_thread::sleep_for(2ms);
	}
	for (std::uint32_t i = 0; i < many; i++) {
		EXPECT_WC(left.completion("a Write"), i, IBV_WC_SUCCESS);
		EXPECT_TRUE(there(length, i * length)) << i;
	}
}

// A peer that has nothing to send acknowledges each message at once: TCP alone would wait 40 ms for more.
TEST_F(Acknowledged, APeerThatOnlyReceivesKeepsNobodyWaiting)
{
	constexpr int rounds = 200;
	int slow = 0;

	// TCP takes the connection for a conversation.
	for (int i = 0; i < 20; i++)
		exchange(left, right);
	for (int i = 0; i < rounds; i++) {
		const auto start = std::chrono::steady_clock::now();

		ASSERT_EQ(write(i, 64), 0);
		EXPECT_WC(left.completion("the Write"), i, IBV_WC_SUCCESS);
		slow += std::chrono::steady_clock::now() - start > 30ms;
	}
	EXPECT_LT(slow, rounds / 2);
}

TEST_F(Acknowledged, AWriteThatTheConnectionLosesFails)
{
	const vt::HeldBack path(vt::client_end(), "netem loss 100%");

	ASSERT_EQ(write(7, 4096), 0);
	std::this_thread::sleep_for(100ms);
	EXPECT_TRUE(vt::poll_all(left.cq()).empty());
	right.renew();
	EXPECT_WC(left.completion("the Write"), 7, IBV_WC_RETRY_EXC_ERR);
}

// As it does everywhere: what is posted behind a request waits for it, in order.
TEST_F(Acknowledged, AReadBehindAWriteCompletesBehindIt)
{
	const vt::HeldBack path(vt::server_end(), "netem delay 200ms");

	ASSERT_EQ(write(1, 64), 0);
	ASSERT_EQ(left.post(IBV_WR_RDMA_READ, 2, &right.memory()), 0);
	EXPECT_WC(left.completion("the Write"), 1, IBV_WC_SUCCESS);
	EXPECT_WC(left.completion("the Read"), 2, IBV_WC_SUCCESS);
}

} // namespace
