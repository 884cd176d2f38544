// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagrams of one length to one destination go to UDP together, in one call, and come from it together where no
// network had to take them apart. UDP itself counts calls.
#include <array>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "../lib/datagram.hpp"
#include "../lib/link.hpp"
#include "../lib/udp.hpp"

namespace ud {
namespace {

/// A message: how long, and to which of the peers
struct Message {
	std::size_t length;
	std::size_t peer = 0;
};

class Train : public testing::TestWithParam<Addresses> {
protected:
	/// Posts messages as one list, each from a place of its own, and waits for their completions.
	void send(const std::vector<Message> &messages)
	{
		std::vector<ibv_send_wr> list(messages.size());
		std::vector<ibv_sge> sges;
		ibv_send_wr *bad = nullptr;

		left.memory().fill_pattern(9);
		for (std::size_t i = 0; i < messages.size(); i++)
			sges.push_back(left.memory().sge(i * stride, messages[i].length));
		for (std::size_t i = 0; i < messages.size(); i++) {
			list[i].wr_id = i;
			list[i].next = i + 1 < messages.size() ? &list[i + 1] : nullptr;
			list[i].sg_list = &sges[i];
			list[i].num_sge = 1;
			list[i].opcode = IBV_WR_SEND;
			list[i].send_flags = IBV_SEND_SIGNALED;
			list[i].wr.ud = {to_right.get(), peer(messages[i]).number(), some_key};
		}
		ASSERT_EQ(ibv_post_send(left.qp(), list.data(), &bad), 0);
		for (std::size_t i = 0; i < messages.size(); i++)
			EXPECT_WC(left.sent(), i, IBV_WC_SUCCESS);
	}

	void receive(const std::vector<Message> &messages)
	{
		for (std::size_t i = 0; i < messages.size(); i++)
			peer(messages[i]).receive(i, i * stride, messages[i].length);
	}

	/// Each has come, in order, with the header of a datagram of its own length.
	void expect(const std::vector<Message> &messages)
	{
		for (std::size_t i = 0; i < messages.size(); i++) {
			const End &at = peer(messages[i]);
			const std::size_t length = messages[i].length;

			const ibv_wc wc = at.received();
			EXPECT_WC(wc, i, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.byte_len, grh + length);
			EXPECT_EQ(wc.src_qp, left.number());
			EXPECT_TRUE(vt::same(left.bytes(i * stride, length), at.bytes(i * stride + grh, length))) << i;
			const auto said = at.bytes(i * stride + 4, 2);
			EXPECT_EQ(said[0] << 8 | said[1], 8 + 24 + length);
		}
	}

	/// Sends messages, which all come, and which UDP gets and gives away in so many calls.
	void expect_calls(const std::vector<Message> &messages, std::uint64_t calls)
	{
		receive(messages);
		const std::uint64_t to = calls_to_udp("left"), of = calls_of_udp("right");
		send(messages);
		EXPECT_EQ(calls_to_udp("left") - to, calls);
		expect(messages);
		EXPECT_EQ(calls_of_udp("right") - of, calls);
	}

	End &peer(const Message &message) { return message.peer ? other : right; }

	static constexpr std::size_t stride = 8192;
	End left{"kiw0"};
	End right{"kiw1"};
	End other{"kiw1"};
	Ah to_right = left.ah(GetParam().left, right, GetParam().right);
};

INSTANTIATE_TEST_SUITE_P(
	, Train, testing::Values(ipv4, ipv6), [](const auto &each) { return std::string(each.param.name); });

TEST_P(Train, TakesMessagesOfOneLengthAndAShorterOne)
{
	std::vector<Message> messages(40, Message{.length = 1000});
	messages.push_back({.length = 10});

	expect_calls(messages, 1);
}

TEST_P(Train, EndsWithTheLongestThatUdpTakes)
{
	const std::vector<Message> messages(60, Message{.length = 1400});

	expect_calls(messages, 2);
}

TEST_P(Train, EndsWhereLengthsGrow)
{
	const std::vector<Message> messages = {{100}, {100}, {99}, {100}, {101}, {0}, {0}};

	expect_calls(messages, 4);
}

TEST_P(Train, EndsWhereTheDestinationChanges)
{
	const std::vector<Message> messages = {{100, 0}, {100, 0}, {100, 1}, {100, 1}, {100, 0}};

	expect_calls(messages, 3);
}

// What IP cuts goes by itself: half of a train must not be lost with a fragment.
TEST_P(Train, TakesNothingLongerThanThePacketsOfTheInterface)
{
	const std::vector<Message> messages(4, Message{.length = 4000});

	expect_calls(messages, 4);
}

TEST_P(Train, IsTakenApartWhereTheWayIsNarrower)
{
	const std::vector<Message> messages(20, Message{.length = 1400});
	const std::string to = GetParam().right;
	const std::string way = to.substr(to.rfind("f:") == std::string::npos ? 0 : to.rfind("f:") + 2) + " dev veth0";

	ASSERT_TRUE(vt::run("ip -n left route replace " + way + " mtu lock 1300"));
	expect_calls(messages, messages.size());
	EXPECT_TRUE(vt::run("ip -n left route delete " + way));
}

// A request that fails in the middle ends by itself.
TEST_P(Train, GoesOnBehindARequestThatFails)
{
	const std::vector<Message> messages(3, Message{.length = 500});
	std::array<ibv_send_wr, 4> list{};
	std::array<ibv_sge, 4> sges{};
	ibv_send_wr *bad = nullptr;

	receive(messages);
	left.memory().fill_pattern(9);
	for (std::size_t i = 0; i < list.size(); i++) {
		sges[i] = left.memory().sge((i < 1 ? 0 : i - 1) * stride, 500);
		list[i].wr_id = i;
		list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
		list[i].sg_list = &sges[i];
		list[i].num_sge = 1;
		list[i].opcode = IBV_WR_SEND;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].wr.ud = {to_right.get(), right.number(), some_key};
	}
	sges[1].lkey ^= 1;
	ASSERT_EQ(ibv_post_send(left.qp(), list.data(), &bad), 0);
	for (std::size_t i = 0; i < list.size(); i++)
		EXPECT_WC(left.sent(), i, i == 1 ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
	expect(messages);
}

} // namespace
} // namespace ud
