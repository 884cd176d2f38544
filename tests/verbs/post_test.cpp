// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Posting on a connected QP: arguments, lists, full rings, signalling.
#include <cerrno>

#include "../lib/connection.hpp"

namespace vt {
namespace {

constexpr unsigned int no_signal = 0;
constexpr unsigned int signal = IBV_SEND_SIGNALED;

TEST(Post, OpcodesThatAreNotSupportedAreRefused)
{
	Pair pair;

	for (int opcode = 0; opcode < 32; opcode++) {
		// Atomics are, too, but not without a buffer, and binds, but not without a window.
		if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE ||
			opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_SEND_WITH_IMM ||
			opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_LOCAL_INV)
			continue;
		EXPECT_EQ(pair.a().post(static_cast<ibv_wr_opcode>(opcode), {}, {}), EINVAL) << opcode;
	}
	pair.sync();
}

TEST(Post, UnknownFlagsAreRefused)
{
	Pair pair;

	for (int bit = 4; bit < 32; bit++) // 4: IBV_SEND_IP_CSUM
		EXPECT_EQ(pair.a().send({}, {.flags = 1U << bit | IBV_SEND_SIGNALED}), EINVAL) << bit;
	pair.sync();
}

TEST(Post, EveryCombinationOfOpcodeAndFlagsWorks)
{
	Pair pair;
	const Region local(pair.a().pd(), 64);
	const Region remote(pair.b().pd(), 64);

	for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
		for (unsigned int flags = 0; flags < 16; flags++) {
			const bool inline_read = opcode == IBV_WR_RDMA_READ && (flags & IBV_SEND_INLINE);
			const bool receives = opcode == IBV_WR_SEND;

			if (receives) {
				ASSERT_EQ(pair.b().receive({remote.sge()}, flags), 0);
			}
			ASSERT_EQ(pair.a().post(opcode, {local.sge()},
					  {.id = flags,
						  .flags = flags,
						  .remote = remote.address(),
						  .rkey = remote.rkey()}),
				inline_read ? EINVAL : 0)
				<< opcode << " " << flags;
			if (inline_read)
				continue;
			if (flags & IBV_SEND_SIGNALED) {
				EXPECT_WC(pair.a().sent(), flags, IBV_WC_SUCCESS);
			}
			if (receives) {
				EXPECT_WC(pair.b().received(), flags, IBV_WC_SUCCESS);
			}
		}
	}
	pair.sync();
	EXPECT_TRUE(poll_all(pair.a().send_cq()).empty());
}

TEST(Post, MoreSgesThanGrantedAreRefused)
{
	Pair pair;
	const Region region(pair.a().pd(), 64);
	const Sges too_many(pair.a().cap().max_send_sge + 1, region.sge(0, 1));
	const Sges too_many_receives(pair.a().cap().max_recv_sge + 1, region.sge(0, 1));

	EXPECT_EQ(pair.a().send(too_many), EINVAL);
	EXPECT_EQ(pair.a().receive(too_many_receives), EINVAL);
	pair.sync();
}

TEST(Post, NegativeSgeCountIsRefused)
{
	Pair pair;
	ibv_send_wr send{};
	ibv_send_wr *bad_send = nullptr;
	ibv_recv_wr receive{};
	ibv_recv_wr *bad_receive = nullptr;

	send.opcode = IBV_WR_SEND;
	send.num_sge = receive.num_sge = -1;
	EXPECT_EQ(ibv_post_send(pair.a().qp(), &send, &bad_send), EINVAL);
	EXPECT_EQ(ibv_post_recv(pair.a().qp(), &receive, &bad_receive), EINVAL);
	pair.sync();
}

TEST(Post, InlineAboveTheGrantIsRefused)
{
	Pair pair;
	const std::vector<std::uint8_t> memory(4096);
	const std::uint32_t max = pair.a().cap().max_inline_data;
	const auto sge = [&](std::uint32_t length) {
		return ibv_sge{.addr = reinterpret_cast<std::uintptr_t>(memory.data()), .length = length, .lkey = 0};
	};

	EXPECT_EQ(pair.a().send({sge(max + 1)}, {.flags = IBV_SEND_INLINE}), EINVAL);
	EXPECT_EQ(pair.a().send({sge(max), sge(1)}, {.flags = IBV_SEND_INLINE}), EINVAL);
	pair.sync();
}

TEST(Post, MessageAboveTwoGigabytesIsRefused)
{
	Pair pair;
	const Region region(pair.a().pd(), 64);
	ibv_sge huge = region.sge();
	huge.length = 1U << 31;

	EXPECT_EQ(pair.a().send({huge, region.sge(0, 1)}), EINVAL);
	EXPECT_EQ(pair.a().send({huge, huge}), EINVAL); // 0 in 32 bits
	pair.sync();
}

TEST(Post, BadThirdOfAListLeavesTheFirstTwoPosted)
{
	Pair pair;
	std::array<ibv_send_wr, 4> list{};
	ibv_send_wr *bad = nullptr;

	for (std::size_t i = 0; i < list.size(); i++) {
		list[i].wr_id = i;
		list[i].opcode = i == 2 ? IBV_WR_DRIVER1 : IBV_WR_SEND;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
	}
	pair.b().receive_empty(2);
	EXPECT_EQ(ibv_post_send(pair.a().qp(), list.data(), &bad), EINVAL);
	EXPECT_EQ(bad, &list[2]);
	for (int i = 0; i < 2; i++) {
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
	}
	pair.sync();
}

TEST(Post, BadThirdOfAReceiveListLeavesTheFirstTwoPosted)
{
	Pair pair;
	std::array<ibv_recv_wr, 4> list{};
	ibv_recv_wr *bad = nullptr;

	for (std::size_t i = 0; i < list.size(); i++) {
		list[i].wr_id = i;
		list[i].num_sge = i == 2 ? 1000 : 0;
		list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
	}
	EXPECT_EQ(ibv_post_recv(pair.b().qp(), list.data(), &bad), EINVAL);
	EXPECT_EQ(bad, &list[2]);
	ASSERT_EQ(pair.b().receive({}, 77), 0);
	for (const std::uint64_t id : {0, 1, 77}) {
		ASSERT_EQ(pair.a().send(), 0);
		EXPECT_WC(pair.b().received(), id, IBV_WC_SUCCESS);
	}
}

TEST(Post, ListIsCarriedOutInOrder)
{
	Pair pair;
	std::array<ibv_send_wr, 32> list{};
	ibv_send_wr *bad = nullptr;

	for (std::size_t i = 0; i < list.size(); i++) {
		list[i].wr_id = i;
		list[i].opcode = IBV_WR_SEND;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
	}
	pair.b().receive_empty(32);
	ASSERT_EQ(ibv_post_send(pair.a().qp(), list.data(), &bad), 0);
	for (int i = 0; i < 32; i++) {
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
	}
}

// Zero-length Writes touch nothing at the other end, and need no receive there.
TEST(Post, FullSendRingIsRefusedUntilACompletionIsPolled)
{
	Pair pair;
	const std::uint32_t depth = pair.a().cap().max_send_wr;

	for (int round = 0; round < 3; round++) {
		for (std::uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(pair.a().write({}, {.id = i, .flags = i + 1 == depth ? signal : no_signal}), 0);
		EXPECT_EQ(pair.a().write({}, {}), ENOMEM);
		EXPECT_WC(pair.a().sent(), depth - 1, IBV_WC_SUCCESS);
	}
	pair.sync();
}

TEST(Post, FullReceiveRingIsRefused)
{
	Pair pair;
	const std::uint32_t depth = pair.b().cap().max_recv_wr;

	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(pair.b().receive({}, i), 0);
	EXPECT_EQ(pair.b().receive({}, depth), ENOMEM);
	ASSERT_EQ(pair.a().send(), 0);
	EXPECT_WC(pair.b().received(), 0, IBV_WC_SUCCESS);
	EXPECT_EQ(pair.b().receive({}, depth), 0);
	EXPECT_EQ(pair.b().receive({}, depth + 1), ENOMEM);
	for (std::uint32_t i = 1; i <= depth; i++) {
		ASSERT_EQ(pair.a().send(), 0);
		EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	}
}

TEST(Post, UnsignalledRequestsHaveNoCompletion)
{
	Pair pair;

	pair.b().receive_empty(10);
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(pair.a().send({}, {.id = 1, .flags = no_signal}), 0);
	for (int i = 0; i < 10; i++)
		EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
	pair.sync();
	EXPECT_TRUE(poll_all(pair.a().send_cq()).empty());
}

TEST(Post, SignalAllCompletesEverything)
{
	Pair pair({.signal_all = true});

	pair.b().receive_empty(10);
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(pair.a().send({}, {.id = static_cast<std::uint64_t>(i), .flags = no_signal}), 0);
	for (int i = 0; i < 10; i++)
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
}

TEST(Post, RingsWrapManyTimes)
{
	Pair pair({.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}});

	for (int i = 0; i < 2000; i++) {
		ASSERT_EQ(pair.b().receive({}, i), 0);
		ASSERT_EQ(pair.a().send({}, {.id = static_cast<std::uint64_t>(i)}), 0);
		EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
	}
}

} // namespace
} // namespace vt
