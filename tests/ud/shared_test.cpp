// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagram queue pairs that take their receives from a shared queue.
#include <gtest/gtest.h>

#include "../lib/datagram.hpp"

namespace ud {
namespace {

class Shared : public testing::Test {
protected:
	To right_end() const { return {ah.get(), right.number()}; }

	End left{"kiw0"};
	End right{"kiw1", {.shared = true}};
	Ah ah = left.ah(ipv4.left, right, ipv4.right);
};

TEST_F(Shared, DatagramsTakeItsRequests)
{
	left.memory().fill_pattern(1);
	for (std::uint64_t id = 0; id < 8; id++)
		right.receive(id, id * 1000, 500);
	for (std::uint64_t id = 0; id < 8; id++) {
		left.send(right_end(), id * 100, 100 + id);
		const ibv_wc wc = right.received();
		EXPECT_WC(wc, id, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.qp_num, right.number());
		EXPECT_EQ(wc.src_qp, left.number());
		EXPECT_EQ(wc.byte_len, grh + 100 + id);
		EXPECT_TRUE(vt::same(left.bytes(id * 100, 100 + id), right.bytes(id * 1000 + grh, 100 + id)));
	}
}

TEST_F(Shared, WithoutARequestTheyAreDropped)
{
	const std::uint64_t before = right.counter("ud_no_receives");

	left.send(right_end(), 0, 10);
	right.expect_counter("ud_no_receives", before + 1);
	right.receive(1, 0, 100);
	left.send(right_end(), 0, 20);
	const ibv_wc wc = right.received();
	EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, grh + 20);
}

TEST_F(Shared, LimitIsToldOf)
{
	ibv_srq_attr attr{};

	right.receive(1, 0, 100);
	right.receive(2, 0, 100);
	attr.srq_limit = 2;
	ASSERT_EQ(ibv_modify_srq(right.srq(), &attr, IBV_SRQ_LIMIT), 0);
	left.send(right_end(), 0, 10);
	vt::wait_async(right.context(), [&](const ibv_async_event &event) {
		return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == right.srq();
	});
}

TEST_F(Shared, ErrorLeavesTheRequestsAndIsToldOfOnce)
{
	const auto last = [&](const ibv_async_event &event) {
		return event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == right.qp();
	};

	right.receive(1, 0, 100);
	ASSERT_EQ(right.modify(IBV_QPS_ERR), 0);
	vt::wait_async(right.context(), last);
	EXPECT_TRUE(vt::poll_all(right.recv_cq()).empty());
	ASSERT_EQ(right.modify(IBV_QPS_ERR), 0);
	ASSERT_EQ(right.modify(IBV_QPS_RESET), 0);
	right.go_to(IBV_QPS_RTS);
	EXPECT_FALSE(vt::readable(right.context()->async_fd));
	left.send(right_end(), 0, 10);
	EXPECT_WC(right.received(), 1, IBV_WC_SUCCESS);
}

TEST_F(Shared, RequestThatIsTooSmallCompletesWithAnError)
{
	right.receive(1, 0, 9);
	right.receive(2, 0, 10);
	left.send(right_end(), 0, 10);
	EXPECT_WC(right.received(), 1, IBV_WC_LOC_LEN_ERR);
	left.send(right_end(), 0, 10);
	EXPECT_WC(right.received(), 2, IBV_WC_SUCCESS);
}

} // namespace
} // namespace ud
