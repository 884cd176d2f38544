// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Immediate data: RDMA Writes that the peer's program is told of, and Sends that carry four octets more.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "../lib/connection.hpp"

namespace vt {
namespace {

using namespace std::chrono_literals;

constexpr std::uint8_t untouched = 0xee;
const std::vector<std::size_t> sizes = {0, 1, 3, 8, 256, 1460, 4097, 65536, 300000, 1000000};

class Immediate : public testing::Test {
protected:
	static constexpr std::size_t space = 1000000 + 4096;

	Work to_b(std::uint64_t id, std::uint32_t imm, unsigned int flags = IBV_SEND_SIGNALED) const
	{
		return {.id = id, .flags = flags, .remote = at_b.address(), .rkey = at_b.rkey(), .imm = htonl(imm)};
	}
	void write(std::size_t size, std::uint64_t id, std::uint32_t imm, unsigned int flags = IBV_SEND_SIGNALED)
	{
		ASSERT_EQ(pair.a().post(IBV_WR_RDMA_WRITE_WITH_IMM, {at_a.sge(0, size)}, to_b(id, imm, flags)), 0);
	}
	void send(std::size_t size, std::uint64_t id, std::uint32_t imm, unsigned int flags = IBV_SEND_SIGNALED)
	{
		ASSERT_EQ(pair.a().post(IBV_WR_SEND_WITH_IMM, {at_a.sge(0, size)}, to_b(id, imm, flags)), 0);
	}
	/// Expects the completion of a receive that a Write has taken.
	static void expect_written(const ibv_wc &wc, std::uint64_t id, std::size_t size, std::uint32_t imm)
	{
		EXPECT_WC(wc, id, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
		EXPECT_EQ(ntohl(wc.imm_data), imm);
		EXPECT_EQ(wc.byte_len, size);
	}
	static void expect_sent(const ibv_wc &wc, std::uint64_t id, std::size_t size, std::uint32_t imm)
	{
		EXPECT_WC(wc, id, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, IBV_WC_RECV);
		EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
		EXPECT_EQ(ntohl(wc.imm_data), imm);
		EXPECT_EQ(wc.byte_len, size);
	}

	Pair pair;
	Region at_a{pair.a().pd(), space};
	Region at_b{pair.b().pd(), space};
	Region receive{pair.b().pd(), space};
};

TEST_F(Immediate, AWriteIsThereWhenItsValueIs)
{
	receive.fill(untouched);
	for (const std::size_t size : sizes) {
		SCOPED_TRACE(size);
		at_a.fill_pattern(static_cast<std::uint32_t>(size));
		at_b.fill(untouched);
		ASSERT_EQ(pair.b().receive({receive.sge()}, 7), 0);
		write(size, 8, 0xfeedf00d);
		expect_written(pair.b().received(), 7, size, 0xfeedf00d);
		EXPECT_TRUE(same(at_a.bytes(0, size), at_b.bytes(0, size)));
		EXPECT_TRUE(all_equal(at_b.bytes(size, 4096), untouched));
		const ibv_wc sent = pair.a().sent();
		EXPECT_WC(sent, 8, IBV_WC_SUCCESS);
		EXPECT_EQ(sent.opcode, IBV_WC_RDMA_WRITE);
	}
	EXPECT_TRUE(all_equal(receive.bytes(), untouched));
}

TEST_F(Immediate, ASendCarriesItBesideItsPayload)
{
	for (const std::size_t size : sizes) {
		SCOPED_TRACE(size);
		at_a.fill_pattern(static_cast<std::uint32_t>(size + 1));
		receive.fill(untouched);
		ASSERT_EQ(pair.b().receive({receive.sge()}, 5), 0);
		send(size, 6, 1);
		expect_sent(pair.b().received(), 5, size, 1);
		EXPECT_TRUE(same(at_a.bytes(0, size), receive.bytes(0, size)));
		EXPECT_TRUE(all_equal(receive.bytes(size, 4096), untouched));
		const ibv_wc sent = pair.a().sent();
		EXPECT_WC(sent, 6, IBV_WC_SUCCESS);
		EXPECT_EQ(sent.opcode, IBV_WC_SEND);
	}
}

TEST_F(Immediate, InlineData)
{
	at_a.fill_pattern(3);
	pair.b().receive_empty(1);
	ASSERT_EQ(pair.b().receive({receive.sge()}, 1), 0);
	write(100, 1, 2, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	send(50, 2, 3, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	expect_written(pair.b().received(), 0, 100, 2);
	expect_sent(pair.b().received(), 1, 50, 3);
	EXPECT_TRUE(same(at_a.bytes(0, 100), at_b.bytes(0, 100)));
	EXPECT_TRUE(same(at_a.bytes(0, 50), receive.bytes(0, 50)));
}

// All values of 32 bits are values, 0 too.
TEST_F(Immediate, AnyValueIsOne)
{
	for (const std::uint32_t value : {0U, 1U, 0x80000000U, 0xffffffffU, 0x01020304U}) {
		pair.b().receive_empty(2);
		write(1, 0, value);
		send(0, 0, value);
		expect_written(pair.b().received(), 0, 1, value);
		expect_sent(pair.b().received(), 1, 0, value);
	}
}

// The length that is told is that of the Write which the value belongs to.
TEST_F(Immediate, LengthsAreThoseOfTheirOwnWrites)
{
	pair.b().receive_empty(4);
	ASSERT_EQ(pair.a().write({at_a.sge(0, 5000)}, to_b(1, 0)), 0);
	write(0, 2, 10);
	write(70000, 3, 11);
	ASSERT_EQ(pair.a().send({}, {.id = 4}), 0);
	write(9, 5, 12);
	expect_written(pair.b().received(), 0, 0, 10);
	expect_written(pair.b().received(), 1, 70000, 11);
	const ibv_wc plain = pair.b().received();
	EXPECT_WC(plain, 2, IBV_WC_SUCCESS);
	EXPECT_EQ(plain.opcode, IBV_WC_RECV);
	EXPECT_EQ(plain.wc_flags, 0U);
	expect_written(pair.b().received(), 3, 9, 12);
}

TEST_F(Immediate, OrderIsThatOfPosting)
{
	constexpr std::uint32_t rounds = 3000, window = 16;

	for (std::uint32_t i = 0; i < 4 * window; i++)
		ASSERT_EQ(pair.b().receive({receive.sge(0, 64)}, i), 0);
	std::uint32_t taken = 0;
	for (std::uint32_t i = 0; i < rounds; i++) {
		at_a.data()[0] = static_cast<std::uint8_t>(i);
		if (i % 3 == 0)
			write(i % 64, i, i, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
		else
			send(i % 64, i, i, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
		ASSERT_EQ(pair.a().sent().wr_id, i);
		for (; taken + window < i || (i + 1 == rounds && taken < rounds); taken++) {
			const ibv_wc wc = pair.b().received();
			if (taken % 3 == 0)
				expect_written(wc, taken % (4 * window), taken % 64, taken);
			else
				expect_sent(wc, taken % (4 * window), taken % 64, taken);
			ASSERT_EQ(pair.b().receive({receive.sge(0, 64)}, wc.wr_id), 0);
		}
	}
}

// Both ways at once: each side's values have their own order.
TEST_F(Immediate, BothWays)
{
	for (std::uint32_t i = 0; i < 500; i++) {
		pair.a().receive_empty(1);
		pair.b().receive_empty(1);
		write(i, i, i);
		ASSERT_EQ(pair.b().post(IBV_WR_RDMA_WRITE_WITH_IMM, {at_b.sge(4096, 2 * i)},
				  {.id = i, .remote = at_a.address(8192), .rkey = at_a.rkey(), .imm = htonl(~i)}),
			0);
		expect_written(pair.b().received(), 0, i, i);
		expect_written(pair.a().received(), 0, std::size_t{2} * i, ~i);
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		EXPECT_WC(pair.b().sent(), i, IBV_WC_SUCCESS);
	}
}

TEST_F(Immediate, AWriteWaitsForAReceive)
{
	at_a.fill_pattern(9);
	write(1000, 1, 77);
	std::this_thread::sleep_for(100ms);
	EXPECT_TRUE(poll_all(pair.b().recv_cq()).empty());
	EXPECT_TRUE(same(at_a.bytes(0, 1000), at_b.bytes(0, 1000)));
	pair.b().receive_empty(1);
	expect_written(pair.b().received(), 0, 1000, 77);
	EXPECT_EQ(pair.b().state(), IBV_QPS_RTS);
}

TEST_F(Immediate, AWriteWithoutRightsTellsNothing)
{
	pair.b().receive_empty(1);
	Work work = to_b(1, 5);
	work.rkey ^= 0x80;
	ASSERT_EQ(pair.a().post(IBV_WR_RDMA_WRITE_WITH_IMM, {at_a.sge(0, 10)}, work), 0);
	EXPECT_WC(pair.b().received(), 0, IBV_WC_WR_FLUSH_ERR);
	pair.b().wait_state(IBV_QPS_ERR);
	pair.a().wait_state(IBV_QPS_ERR);
}

TEST_F(Immediate, InErrorBothAreFlushed)
{
	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	write(10, 1, 1, 0);
	send(10, 2, 2, 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_WR_FLUSH_ERR);
}

TEST(ImmediateEvents, OnlyThatOfASolicitedOneWakes)
{
	Pair pair(Options{.completion_channel = true});
	const Region near(pair.a().pd(), 4096), far(pair.b().pd(), 4096);
	const auto write = [&](unsigned int flags) {
		return pair.a().post(IBV_WR_RDMA_WRITE_WITH_IMM, {near.sge(0, 8)},
			{.id = 1, .flags = flags, .remote = far.address(), .rkey = far.rkey(), .imm = 1});
	};

	pair.b().receive_empty(2);
	ASSERT_EQ(ibv_req_notify_cq(pair.b().recv_cq(), 1), 0);
	ASSERT_EQ(write(IBV_SEND_SIGNALED), 0);
	EXPECT_EQ(pair.b().received().opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_FALSE(readable(pair.b().channel()->fd));
	ASSERT_EQ(write(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
	wait_readable(pair.b().channel()->fd, "the event");
	ibv_cq *cq = nullptr;
	void *context = nullptr;
	ASSERT_EQ(ibv_get_cq_event(pair.b().channel(), &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	EXPECT_EQ(pair.b().received().opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

TEST(ImmediateShared, AWriteTakesFromTheSharedQueue)
{
	const Listener listener;
	const Pd pd = make_pd(server_device());
	const Srq srq = make_srq(pd.get(), 16);
	Options server;

	server.srq = srq.get();
	const auto a = start_connecting(listener.port(), {});
	const auto b = accept(listener, server);
	a->events().wait(RDMA_CM_EVENT_ESTABLISHED, a->id());
	const Region near(a->pd(), 4096), far(pd.get(), 4096);
	near.fill_pattern(1);
	ibv_recv_wr wr{};
	ibv_recv_wr *bad = nullptr;
	wr.wr_id = 42;
	ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
	ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE_WITH_IMM, {near.sge(0, 8)},
			  {.id = 1, .remote = far.address(), .rkey = far.rkey(), .imm = htonl(3)}),
		0);
	const ibv_wc wc = b->received();
	EXPECT_WC(wc, 42, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(ntohl(wc.imm_data), 3U);
	EXPECT_TRUE(same(near.bytes(0, 8), far.bytes(0, 8)));
}

TEST(ImmediateExtended, BuildersAndReaders)
{
	Options client;

	client.send_ops = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_IMM;
	Pair pair(client, {});
	const Region near(pair.a().pd(), 4096), far(pair.b().pd(), 4096), receive(pair.b().pd(), 4096);
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair.a().qp());

	ASSERT_NE(ex, nullptr);
	near.fill_pattern(2);
	pair.b().receive_empty(1);
	ASSERT_EQ(pair.b().receive({receive.sge()}, 1), 0);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write_imm(ex, far.rkey(), far.address(), htonl(8));
	ibv_wr_set_sge(ex, near.mr()->lkey, near.address(), 100);
	ex->wr_id = 2;
	ibv_wr_send_imm(ex, htonl(9));
	ibv_wr_set_inline_data(ex, near.data(), 30);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_SUCCESS);
	const ibv_wc written = pair.b().received(), sent = pair.b().received();
	EXPECT_EQ(written.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(ntohl(written.imm_data), 8U);
	EXPECT_EQ(sent.opcode, IBV_WC_RECV);
	EXPECT_EQ(ntohl(sent.imm_data), 9U);
	EXPECT_TRUE(same(near.bytes(0, 100), far.bytes(0, 100)));
	EXPECT_TRUE(same(near.bytes(0, 30), receive.bytes(0, 30)));
}

} // namespace
} // namespace vt
