// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Messages between two datagram queue pairs, and what a receiver learns of them.
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "../lib/datagram.hpp"
#include "../lib/link.hpp"
#include "../lib/udp.hpp"

namespace ud {
namespace {

class Send : public testing::TestWithParam<Addresses> {
protected:
	End left{"kiw0"};
	End right{"kiw1"};
	Ah to_right = left.ah(GetParam().left, right, GetParam().right);
	Ah to_left = right.ah(GetParam().right, left, GetParam().left);
};

TEST_P(Send, ArrivesWithItsSender)
{
	left.memory().fill_pattern(1);
	right.receive(7, 0, 1000);
	left.send({to_right.get(), right.number()}, 0, 1000);
	const ibv_wc wc = right.received();
	EXPECT_WC(wc, 7, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, grh + 1000);
	EXPECT_EQ(wc.wc_flags, IBV_WC_GRH);
	EXPECT_EQ(wc.src_qp, left.number());
	EXPECT_EQ(wc.qp_num, right.number());
	EXPECT_TRUE(vt::same(left.bytes(0, 1000), right.bytes(grh, 1000)));
}

TEST_P(Send, AnAnswerFindsTheSender)
{
	left.receive(1, 0, 100);
	right.receive(2, 0, 100);
	left.send({to_right.get(), right.number()}, 0, 100);
	const ibv_wc wc = right.received();
	right.send({to_left.get(), wc.src_qp}, 0, 10);
	EXPECT_EQ(left.received().src_qp, right.number());
}

// By the means of verbs for servers that don't know their clients
TEST_P(Send, AnAnswerGoesWhereTheMessageSays)
{
	left.receive(1, 0, 100);
	right.receive(2, 0, 100);
	left.send({to_right.get(), right.number()}, 0, 100);
	ibv_wc wc = right.received();
	auto *header = reinterpret_cast<ibv_grh *>(right.memory().data());
	ibv_ah_attr attr{};
	ASSERT_EQ(ibv_init_ah_from_wc(right.context(), 1, &wc, header, &attr), 0);
	EXPECT_EQ(attr.is_global, 1);
	// Its own slot, or slot 0, which repeats it.
	ibv_gid from{};
	ASSERT_EQ(ibv_query_gid(right.context(), 1, attr.grh.sgid_index, &from), 0);
	EXPECT_EQ(std::memcmp(from.raw, right.gid(GetParam().right).gid.raw, 16), 0);
	EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, left.gid(GetParam().left).gid.raw, 16), 0);
	const Ah answer(ibv_create_ah_from_wc(right.pd(), &wc, header, 1));
	ASSERT_TRUE(answer);
	right.send({answer.get(), wc.src_qp}, 0, 10);
	EXPECT_EQ(left.received().src_qp, right.number());
}

// Up to the longest datagram, and around where IP cuts it
TEST_P(Send, EverySizeArrives)
{
	left.memory().fill_pattern(2);
	for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{1400},
		     std::size_t{1428}, std::size_t{1429}, std::size_t{1448}, std::size_t{1449}, std::size_t{4096},
		     std::size_t{8999}, std::size_t{40000}, longest}) {
		right.memory().fill(0xee);
		right.receive(size, 8, longest);
		left.send({to_right.get(), right.number()}, 5, size);
		const ibv_wc wc = right.received();
		EXPECT_WC(wc, size, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.byte_len, grh + size);
		EXPECT_TRUE(vt::same(left.bytes(5, size), right.bytes(8 + grh, size))) << size;
		EXPECT_TRUE(vt::all_equal(right.bytes(8 + grh + size, 1000), 0xee)) << size;
		EXPECT_TRUE(vt::all_equal(right.bytes(0, 8), 0xee)) << size;
	}
}

TEST_P(Send, ManyArriveInOrderWhereNothingIsLost)
{
	constexpr int window = 32;
	constexpr int count = 3000;
	int posted = 0;

	for (int i = 0; i < window; i++)
		right.receive(i, i * 256, 128);
	for (int done = 0; done < count; done++) {
		for (; posted < count && posted < done + window; posted++) {
			const std::size_t at = posted % window * 256;

			std::memcpy(left.memory().data() + at, &posted, sizeof(posted));
			ASSERT_EQ(left.try_send({to_right.get(), right.number()}, {left.memory().sge(at, 100)}, posted),
				0);
		}
		const ibv_wc wc = right.received();
		int value = -1;
		std::memcpy(&value, right.memory().data() + wc.wr_id * 256 + grh, sizeof(value));
		ASSERT_EQ(value, done);
		right.receive(wc.wr_id, wc.wr_id * 256, 128);
		ASSERT_EQ(left.sent().wr_id, done);
	}
}

INSTANTIATE_TEST_SUITE_P(
	, Send, testing::Values(ipv4, ipv6, link_local), [](const auto &each) { return std::string(each.param.name); });

class Grh : public testing::TestWithParam<Addresses> {};

TEST_P(Grh, HasTheFieldsOfIp)
{
	const End left("kiw0");
	const End right("kiw1");
	const Gid from = left.gid(GetParam().left);
	const Gid to = right.gid(GetParam().right);
	const Ah ah = left.make_ah(from, to.gid, 33, 0x48);

	// Also where IP has cut it
	for (const std::size_t size : {100, 5000}) {
		right.memory().fill(0xee);
		right.receive(0, 0, size);
		left.send({ah.get(), right.number()}, 0, size);
		ASSERT_EQ(right.received().status, IBV_WC_SUCCESS);
		const auto header = right.bytes(0, grh);
		EXPECT_EQ(header[0] >> 4, 6);
		EXPECT_EQ((header[0] & 0xf) << 4 | header[1] >> 4, 0x48);
		EXPECT_EQ(header[4] << 8 | header[5], 8 + 24 + size);
		EXPECT_EQ(header[6], 0x1b);
		EXPECT_EQ(header[7], 33);
		EXPECT_EQ(std::memcmp(&header[8], from.gid.raw, 16), 0);
		EXPECT_EQ(std::memcmp(&header[24], to.gid.raw, 16), 0);
	}
}

INSTANTIATE_TEST_SUITE_P(
	, Grh, testing::Values(ipv4, ipv6, link_local), [](const auto &each) { return std::string(each.param.name); });

/// Left sends to right, over IPv4.
class Exchange : public testing::Test {
protected:
	To right_end() const { return {ah.get(), right.number()}; }

	End left{"kiw0"};
	End right{"kiw1"};
	Ah ah = left.ah(ipv4.left, right, ipv4.right);
};

TEST_F(Exchange, GatherAndScatter)
{
	left.memory().fill_pattern(3);
	// The header of IP ends in the first buffer, the message in the third.
	std::vector<ibv_sge> list{right.memory().sge(0, 39), right.memory().sge(100, 5), right.memory().sge(200, 0),
		right.memory().sge(300, 100)};
	ibv_recv_wr wr{};
	ibv_recv_wr *bad = nullptr;
	wr.sg_list = list.data();
	wr.num_sge = 4;
	ASSERT_EQ(ibv_post_recv(right.qp(), &wr, &bad), 0);
	ASSERT_EQ(left.try_send(
			  right_end(), {left.memory().sge(0, 3), left.memory().sge(10, 0), left.memory().sge(10, 40)}),
		0);
	EXPECT_EQ(right.received().byte_len, grh + 43);
	std::vector<std::uint8_t> sent(left.memory().data(), left.memory().data() + 3);
	sent.insert(sent.end(), left.memory().data() + 10, left.memory().data() + 50);
	std::vector<std::uint8_t> got(right.memory().data() + 101, right.memory().data() + 105);
	got.insert(got.end(), right.memory().data() + 300, right.memory().data() + 339);
	EXPECT_EQ(sent, got);
}

TEST_F(Exchange, InlineDataNeedNoRegion)
{
	std::string text = "no region";
	right.receive(0, 0, 100);
	ASSERT_EQ(left.try_send(right_end(),
			  {{reinterpret_cast<std::uintptr_t>(text.data()), std::uint32_t(text.size()), 0}}, 0,
			  IBV_SEND_INLINE | IBV_SEND_SIGNALED),
		0);
	text.assign(text.size(), 'x');
	EXPECT_EQ(right.received().byte_len, grh + text.size());
	EXPECT_EQ(std::memcmp(right.memory().data() + grh, "no region", 9), 0);
}

TEST_F(Exchange, UnsignalledSendsFreeTheirSlots)
{
	for (int i = 0; i < 1000; i++) {
		right.receive(0, 0, 100);
		const bool last = i % 64 == 63;
		ASSERT_EQ(left.try_send(right_end(), {left.memory().sge(0, 100)}, i, last ? IBV_SEND_SIGNALED : 0), 0)
			<< i;
		if (last) {
			EXPECT_EQ(left.sent().wr_id, i);
		}
		ASSERT_EQ(right.received().status, IBV_WC_SUCCESS);
	}
	EXPECT_TRUE(vt::poll_all(left.send_cq()).empty());
}

TEST_F(Exchange, ToItself)
{
	const Ah own = left.ah(ipv4.left, left, ipv4.left);

	left.memory().fill_pattern(4);
	left.receive(5, 5000, 100);
	left.send({own.get(), left.number()}, 0, 100);
	const ibv_wc wc = left.received();
	EXPECT_EQ(wc.src_qp, left.number());
	EXPECT_TRUE(vt::same(left.bytes(0, 100), left.bytes(5000 + grh, 100)));
}

TEST_F(Exchange, OnlySolicitedOnesWakeWhereOnlyThoseAreAwaited)
{
	right.receive(0, 0, 100);
	right.receive(1, 0, 100);
	ASSERT_EQ(ibv_req_notify_cq(right.recv_cq(), 1), 0);
	left.send(right_end(), 0, 10);
	right.received();
	EXPECT_FALSE(vt::readable(right.channel()->fd));
	ASSERT_EQ(left.try_send(right_end(), {left.memory().sge(0, 10)}, 0, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
	vt::wait_readable(right.channel()->fd, "the event");
	ibv_cq *cq = nullptr;
	void *of = nullptr;
	ASSERT_EQ(ibv_get_cq_event(right.channel(), &cq, &of), 0);
	ibv_ack_cq_events(cq, 1);
	right.received();
}

// While the interface holds packets back, UDP has no more room: requests wait, and go on when it has.
TEST_F(Exchange, RequestsWaitForRoom)
{
	constexpr int count = 60;
	constexpr std::size_t size = 60000;

	for (int i = 0; i < count; i++)
		right.receive(i, 0, size);
	{
		const vt::HeldBack slow(vt::client_end(), "tbf rate 20mbit burst 64kb limit 100mb");

		for (int i = 0; i < count; i++)
			ASSERT_EQ(left.try_send(right_end(), {left.memory().sge(0, size)}, i), 0);
		// net.core.wmem_default is far less than 3.6 MB.
		EXPECT_LT(vt::poll_all(left.send_cq()).size(), count);
		for (int i = 0; i < count; i++)
			ASSERT_EQ(right.received().status, IBV_WC_SUCCESS) << i;
	}
}

TEST_F(Exchange, NumbersArePortsOfUdp)
{
	EXPECT_LT(left.number(), 65536);
	EXPECT_THROW(Socket("left", "10.77.0.1", static_cast<std::uint16_t>(left.number())), std::runtime_error);
	End other("kiw0");
	EXPECT_NE(other.number(), left.number());
}

} // namespace
} // namespace ud
