// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The provider's rings, queues and doorbells against a fake kernel. Runs anywhere.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "mw.hpp"
#include "provider_fixture.hpp"

namespace {

TEST_F(Provider, DoorbellIsAnEmptyPostSend)
{
	EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(kernel.doorbells, 1);
	const FakeDoorbell &bell = kernel.last_doorbell;
	EXPECT_EQ(bell.command, IB_USER_VERBS_CMD_POST_SEND);
	EXPECT_FALSE(bell.by_ioctl);
	EXPECT_EQ(bell.in_octets, sizeof(ib_uverbs_post_send));
	EXPECT_EQ(bell.out_octets, sizeof(ib_uverbs_post_send_resp));
	EXPECT_NE(bell.response, 0);
	EXPECT_EQ(bell.qp_handle, qp->handle);
	EXPECT_EQ(bell.wr_count, 0);
	EXPECT_EQ(bell.sge_count, 0);
	EXPECT_EQ(bell.wqe_size, sizeof(ib_uverbs_send_wr));
}

TEST_F(Provider, SendWithGatherListReachesTheRing)
{
	std::array<ibv_sge, 3> list{{{0x1000, 10, 1}, {0x2000, 20, 2}, {0x3000, 0, 3}}};
	ibv_send_wr wr = send_wr(77, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE);
	wr.sg_list = list.data();
	wr.num_sge = 3;
	ASSERT_EQ(post(wr), 0);
	ASSERT_EQ(sq().produced(), 1);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.opcode, KIW_WR_SEND);
	EXPECT_EQ(wqe.flags, KIW_WQE_SIGNALED | KIW_WQE_SOLICITED | KIW_WQE_FENCE);
	EXPECT_EQ(wqe.num_sge, 3);
	EXPECT_EQ(wqe.inline_len, 0);
	EXPECT_EQ(wqe.wr_id, 77);
	for (int i = 0; i < 3; i++) {
		const kiw_sge &sge = sq().sge(0, sizeof(kiw_wqe), i);
		EXPECT_EQ(sge.addr, list.at(i).addr);
		EXPECT_EQ(sge.length, list.at(i).length);
		EXPECT_EQ(sge.lkey, list.at(i).lkey);
	}
}

TEST_F(Provider, WriteAndReadCarryTheRemoteAddress)
{
	for (const auto &[opcode, code] :
		{std::pair(IBV_WR_RDMA_WRITE, KIW_WR_WRITE), {IBV_WR_RDMA_READ, KIW_WR_READ}}) {
		ibv_send_wr wr = send_wr(1, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
		wr.opcode = opcode;
		wr.wr.rdma.remote_addr = 0x123456789abc;
		wr.wr.rdma.rkey = 0x55667788;
		const std::uint32_t index = sq().produced();
		ASSERT_EQ(post(wr), 0);
		const auto &wqe = sq().entry<kiw_wqe>(index);
		EXPECT_EQ(wqe.opcode, code);
		EXPECT_EQ(wqe.flags, KIW_WQE_SIGNALED);
		EXPECT_EQ(wqe.remote_addr, 0x123456789abc);
		EXPECT_EQ(wqe.rkey, 0x55667788);
	}
}

TEST_F(Provider, SendWithInvalidateCarriesItsStag)
{
	ibv_send_wr wr = send_wr();
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = 0xabcdef01;
	wr.wr.rdma.rkey = 1;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).opcode, KIW_WR_SEND_INV);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).rkey, 0xabcdef01);
}

TEST_F(Provider, InlineDataIsGatheredIntoTheSlot)
{
	std::array<char, 100> text{};
	std::generate(text.begin(), text.end(), [c = 'A']() mutable { return c++; });
	std::array<ibv_sge, 4> list{{{reinterpret_cast<std::uintptr_t>(text.data()), 30, 0}, {0, 0, 0},
		{reinterpret_cast<std::uintptr_t>(&text[30]), 1, 0},
		{reinterpret_cast<std::uintptr_t>(&text[31]), 69, 0}}};
	ibv_send_wr wr = send_wr(0, IBV_SEND_INLINE);
	wr.sg_list = list.data();
	wr.num_sge = 4;
	ASSERT_EQ(post(wr), 0);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.flags, KIW_WQE_INLINE);
	EXPECT_EQ(wqe.num_sge, 0);
	EXPECT_EQ(wqe.inline_len, 100);
	EXPECT_EQ(std::memcmp(sq().slot(0) + sizeof(kiw_wqe), text.data(), 100), 0);

	list[3].length++;
	EXPECT_EQ(post(wr), EINVAL);
	list[3].length--;
	wr.opcode = IBV_WR_RDMA_READ;
	EXPECT_EQ(post(wr), EINVAL);
}

TEST_F(Provider, ImmediateDataAreInTheSlot)
{
	kernel.features() = KIW_FEATURES;
	kiw::destroy_qp(qp);
	qp = new_qp();
	connect();
	ibv_send_wr wr = send_wr();
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = 0x12345678;
	wr.wr.rdma = {.remote_addr = 0x1000, .rkey = 7};
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).opcode, KIW_WR_WRITE_IMM);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).imm, 0x12345678U);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).remote_addr, 0x1000U);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).rkey, 7U);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).opcode, KIW_WR_SEND_IMM);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).imm, 0x12345678U);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).rkey, 0U);
	// What lies in the union is of no interest to others.
	wr.opcode = IBV_WR_SEND;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(2).imm, 0U);
}

TEST_F(Provider, BindsAndInvalidationsAreInTheSlot)
{
	kernel.features() = KIW_FEATURES;
	kiw::destroy_qp(qp);
	qp = new_qp();
	connect();
	ibv_mr mr{};
	mr.lkey = 0x11223344;
	ibv_mw *one = kiw::alloc_mw(kernel.pd(), IBV_MW_TYPE_1), *two = kiw::alloc_mw(kernel.pd(), IBV_MW_TYPE_2);
	ASSERT_TRUE(one && two);
	ibv_mw_bind bind = {
		1, IBV_SEND_SIGNALED | IBV_SEND_FENCE, {&mr, 0x123456789a, 0x123456789, IBV_ACCESS_REMOTE_READ}};
	ASSERT_EQ(kiw::bind_mw(qp, one, &bind), 0);
	EXPECT_EQ(one->rkey, 0xabcdef00); // the key wraps, the index stays
	ibv_send_wr wr = send_wr();
	wr.opcode = IBV_WR_BIND_MW;
	wr.bind_mw = {two, 0xabcdef77, bind.bind_info};
	ASSERT_EQ(post(wr), 0);
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.invalidate_rkey = 0x1234;
	ASSERT_EQ(post(wr), 0);
	for (const std::uint32_t index : {0, 1}) {
		const auto &wqe = sq().entry<kiw_wqe>(index);
		const auto &args = *reinterpret_cast<const kiw_bind_args *>(sq().slot(index) + sizeof(kiw_wqe));
		EXPECT_EQ(wqe.opcode, KIW_WR_BIND_MW);
		EXPECT_EQ(wqe.flags, index ? KIW_WQE_SIGNALED : KIW_WQE_SIGNALED | KIW_WQE_FENCE);
		EXPECT_EQ(wqe.rkey, index ? 0xabcdef77 : 0xabcdef00);
		EXPECT_EQ(wqe.num_sge, 0);
		EXPECT_EQ(args.addr, 0x123456789aU);
		EXPECT_EQ(args.length, 0x123456789U);
		EXPECT_EQ(args.lkey, 0x11223344U);
		EXPECT_EQ(args.access, std::uint32_t{IBV_ACCESS_REMOTE_READ});
	}
	EXPECT_EQ(sq().entry<kiw_wqe>(2).opcode, KIW_WR_LOCAL_INV);
	EXPECT_EQ(sq().entry<kiw_wqe>(2).rkey, 0x1234U);
	EXPECT_EQ(kiw::dealloc_mw(one), 0);
	EXPECT_EQ(kiw::dealloc_mw(two), 0);
}

TEST_F(Provider, ABindThatIsNotPostedLeavesTheKeyAlone)
{
	kernel.features() = KIW_FEATURES;
	kiw::destroy_qp(qp);
	qp = new_qp();
	connect();
	ibv_mr mr{};
	ibv_mw *mw = kiw::alloc_mw(kernel.pd(), IBV_MW_TYPE_1);
	ASSERT_TRUE(mw);
	ibv_mw_bind bind = {1, 0, {&mr, 0, 1, 0}};
	kernel.on_doorbell = [](const FakeDoorbell &) {
		return ENOTCONN;
	};
	EXPECT_EQ(kiw::bind_mw(qp, mw, &bind), ENOTCONN);
	kernel.on_doorbell = nullptr;
	connect();
	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(post(send_wr()), 0);
	EXPECT_EQ(kiw::bind_mw(qp, mw, &bind), ENOMEM);
	EXPECT_EQ(mw->rkey, 0xabcdefff);
	EXPECT_EQ(kiw::dealloc_mw(mw), 0);
}

TEST_F(Provider, AnOlderModuleHasNoWindows)
{
	kernel.features() = KIW_FEATURES & ~KIW_FEATURE_MW;
	kiw::destroy_qp(qp);
	qp = new_qp();
	connect();
	const int commands = kernel.commands;
	errno = 0;
	EXPECT_EQ(kiw::alloc_mw(kernel.pd(), IBV_MW_TYPE_1), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(kernel.commands, commands);
	ibv_send_wr wr = send_wr();
	wr.opcode = IBV_WR_LOCAL_INV;
	EXPECT_EQ(post(wr), EINVAL);
}

TEST_F(Provider, OperandsOfAtomicsStandBehindTheirBuffer)
{
	kernel.features() = KIW_FEATURES;
	kiw::destroy_qp(qp);
	qp = new_qp();
	connect();
	ibv_sge sge{.addr = 0x2000, .length = 8, .lkey = 3};
	ibv_send_wr wr = send_wr();
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.atomic = {.remote_addr = 0x1000, .compare_add = 11, .swap = 12, .rkey = 7};
	ASSERT_EQ(post(wr), 0);
	const auto &wqe = sq().entry<kiw_wqe>(0);
	EXPECT_EQ(wqe.opcode, KIW_WR_CMP_SWAP);
	EXPECT_EQ(wqe.num_sge, 1);
	EXPECT_EQ(wqe.remote_addr, 0x1000U);
	EXPECT_EQ(wqe.rkey, 7U);
	EXPECT_EQ(sq().sge(0, sizeof(kiw_wqe), 0).addr, 0x2000U);
	const auto &args = *reinterpret_cast<const kiw_atomic_args *>(sq().slot(0) + sizeof(kiw_wqe) + sizeof(kiw_sge));
	EXPECT_EQ(args.compare_add, 11U);
	EXPECT_EQ(args.swap, 12U);
	sge.length = 4;
	EXPECT_EQ(post(wr), EINVAL);
	sge.length = 8;
	wr.send_flags |= IBV_SEND_INLINE;
	EXPECT_EQ(post(wr), EINVAL);
	EXPECT_EQ(sq().produced(), 1U);
}

TEST_F(Provider, CompletionsTellImmediateData)
{
	kiw_cqe cqe{};
	ibv_wc wc{};

	cqe.opcode = KIW_WR_RECV_IMM;
	cqe.flags = KIW_CQE_WITH_IMM;
	cqe.imm = 0x9abcdef0;
	cqe.inv_stag = 5;
	cqe.byte_len = 100;
	ASSERT_EQ(post_receive(1), 0);
	kernel.complete(cq, qp, cqe);
	ASSERT_EQ(poll(&wc), 1);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
	EXPECT_EQ(wc.imm_data, 0x9abcdef0U);
	EXPECT_EQ(wc.byte_len, 100U);
}

// Without the module's features, too: an earlier one has no more than these.
TEST_F(Provider, OpcodesOutsideTheFourAreRefused)
{
	for (int opcode = 0; opcode < 40; opcode++) {
		const bool known = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_INV ||
				   opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ;
		ibv_send_wr wr = send_wr();
		wr.opcode = static_cast<ibv_wr_opcode>(opcode);
		EXPECT_EQ(post(wr), known ? 0 : EINVAL) << opcode;
	}
	EXPECT_EQ(sq().produced(), 4);
}

// They aren't even values of the enums, which the compiler may rely on: see the Makefile.
TEST_F(Provider, NumbersOutsideTheEnumsAreRefused)
{
	using AllocMw = ibv_mw *(*)(ibv_pd *, std::uint32_t type);
	const auto alloc_mw = reinterpret_cast<AllocMw>(kiw::alloc_mw);

	kernel.features() = KIW_FEATURE_MW;

	for (const std::uint32_t number : {16U, 255U, 256U, 0x7fffffffU, UINT32_MAX}) {
		ibv_send_wr wr = send_wr();
		std::memcpy(&wr.opcode, &number, sizeof(wr.opcode));
		EXPECT_EQ(post(wr), EINVAL) << number;
		errno = 0;
		EXPECT_EQ(alloc_mw(kernel.pd(), number), nullptr) << number;
		EXPECT_EQ(errno, EINVAL) << number;
	}
	EXPECT_EQ(sq().produced(), 0);
}

TEST_F(Provider, StatesAndTypesMayBeAnyNumber)
{
	for (const std::uint32_t number : {8U, 255U, 256U, UINT32_MAX}) {
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq;
		init.cap = {depth, depth, 4, 3, 100};
		std::memcpy(&init.qp_type, &number, sizeof(number));
		kernel.refuse_create = EINVAL; // the kernel knows them
		EXPECT_EQ(kiw::create_qp(kernel.pd(), &init), nullptr) << number;
		kernel.refuse_modify = EINVAL;
		ibv_qp_attr attr{};
		std::memcpy(&attr.qp_state, &number, sizeof(number));
		EXPECT_EQ(kiw::modify_qp(qp, &attr, IBV_QP_STATE), EINVAL) << number;
		kernel.refuse_create = kernel.refuse_modify = 0;
		EXPECT_EQ(kiw::modify_qp(qp, &attr, IBV_QP_STATE), 0) << number;
	}
	kiw_cqe cqe = send_cqe(0);
	ibv_wc wc{};
	cqe.status = 32;
	kernel.complete(cq, qp, cqe);
	ASSERT_EQ(poll(&wc), 1);
	EXPECT_EQ(wc.status, IBV_WC_GENERAL_ERR);
}

TEST_F(Provider, FlagsOutsideTheFourAreRefused)
{
	for (int bit = 4; bit < 32; bit++)
		EXPECT_EQ(post(send_wr(0, 1U << bit)), EINVAL) << bit;
	EXPECT_EQ(sq().produced(), 0);
	EXPECT_EQ(kernel.doorbells, 0);
}

TEST_F(Provider, SgeCountsOutsideTheGrantAreRefused)
{
	std::array<ibv_sge, 5> list{};
	ibv_send_wr wr = send_wr();
	wr.sg_list = list.data();
	for (int count : {-1, 5, INT32_MAX, INT32_MIN}) {
		wr.num_sge = count;
		EXPECT_EQ(post(wr), EINVAL) << count;
		EXPECT_EQ(post_receive(0, count), EINVAL) << count;
	}
	wr.num_sge = 4;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(post_receive(0, 4), EINVAL);
	EXPECT_EQ(post_receive(0, 3), 0);
}

TEST_F(Provider, MessagesAboveTwoGigabytesAreRefused)
{
	std::array<ibv_sge, 2> list{{{0, 1U << 31, 0}, {0, 0, 0}}};
	ibv_send_wr wr = send_wr();
	wr.sg_list = list.data();
	wr.num_sge = 2;
	EXPECT_EQ(post(wr), 0);
	list[1].length = 1;
	EXPECT_EQ(post(wr), EINVAL);
	list[1].length = 1U << 31; // the 32-bit sum would be 0
	EXPECT_EQ(post(wr), EINVAL);
}

TEST_F(Provider, OneDoorbellForAList)
{
	std::array<ibv_send_wr, 5> list;
	for (std::size_t i = 0; i < list.size(); i++) {
		list.at(i) = send_wr(i);
		list.at(i).next = i + 1 < list.size() ? &list.at(i + 1) : nullptr;
	}
	ibv_send_wr *bad = nullptr;
	EXPECT_EQ(kiw::post_send(qp, list.data(), &bad), 0);
	EXPECT_EQ(sq().produced(), 5);
	EXPECT_EQ(kernel.doorbells, 1);
}

TEST_F(Provider, BadThirdOfAListLeavesTheFirstTwoPosted)
{
	std::array<ibv_send_wr, 4> list;
	for (std::size_t i = 0; i < list.size(); i++) {
		list.at(i) = send_wr(i);
		list.at(i).next = i + 1 < list.size() ? &list.at(i + 1) : nullptr;
	}
	list[2].num_sge = 9;
	ibv_send_wr *bad = nullptr;
	EXPECT_EQ(kiw::post_send(qp, list.data(), &bad), EINVAL);
	EXPECT_EQ(bad, &list[2]);
	EXPECT_EQ(sq().produced(), 2);
	EXPECT_EQ(kernel.doorbells, 1);
}

TEST_F(Provider, NoDoorbellWhileTheKernelDrains)
{
	sq().set_flags(KIW_RING_DRAINING);
	EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(kernel.doorbells, 0);
	EXPECT_EQ(sq().produced(), 1);
	sq().set_flags(KIW_RING_DRAINING | KIW_RING_FLUSH);
	EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(kernel.doorbells, 1);
	sq().set_flags(KIW_RING_FLUSH);
	EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(kernel.doorbells, 2);
}

TEST_F(Provider, WithASmallFlagListsAndLongerMessagesRing)
{
	ibv_sge halves[2]{};
	ibv_send_wr wr = send_wr();

	sq().set_flags(KIW_RING_SMALL);
	wr.sg_list = halves;
	wr.num_sge = 2;
	halves[0].length = halves[1].length = KIW_RING_SMALL_MAX / 2;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(kernel.doorbells, 0);
	halves[1].length++;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(kernel.doorbells, 1);
	ibv_send_wr second = send_wr(), small = send_wr();
	ibv_send_wr *bad = nullptr;
	small.next = &second;
	EXPECT_EQ(kiw::post_send(qp, &small, &bad), 0);
	EXPECT_EQ(kernel.doorbells, 2);
	sq().set_flags(KIW_RING_SMALL | KIW_RING_FLUSH);
	EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(kernel.doorbells, 3);
}

TEST_F(Provider, ReceivesRingOnlyWhileFlushing)
{
	EXPECT_EQ(post_receive(5, 2), 0);
	EXPECT_EQ(kernel.doorbells, 0);
	EXPECT_EQ(rq().entry<kiw_rqe>(0).wr_id, 5);
	EXPECT_EQ(rq().entry<kiw_rqe>(0).num_sge, 2);
	rq().set_flags(KIW_RING_FLUSH);
	EXPECT_EQ(post_receive(6), 0);
	EXPECT_EQ(kernel.doorbells, 1);
	EXPECT_EQ(kernel.last_doorbell.command, IB_USER_VERBS_CMD_POST_RECV);
	EXPECT_EQ(kernel.last_doorbell.wqe_size, sizeof(ib_uverbs_recv_wr));
	EXPECT_EQ(rq().produced(), 2);
}

TEST_F(Provider, FullRingSaysEnomemUntilACompletionIsPolled)
{
	ibv_wc wc;
	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(post(send_wr(i, 0)), 0);
	EXPECT_EQ(post(send_wr()), ENOMEM);
	kernel.complete(cq, qp, send_cqe(4)); // the fifth was signalled: five are over
	EXPECT_EQ(post(send_wr()), ENOMEM);
	ASSERT_EQ(poll(&wc), 1);
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(post(send_wr()), ENOMEM);
	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(post_receive(i), 0);
	EXPECT_EQ(post_receive(0), ENOMEM);
}

TEST_F(Provider, SignalAllSignalsEverything)
{
	kiw::destroy_qp(qp);
	qp = new_qp(nullptr, 1);
	connect();
	ASSERT_EQ(post(send_wr(0, 0)), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).flags, KIW_WQE_SIGNALED);
}

TEST_F(Provider, CompletionsAreTranslated)
{
	std::array<ibv_wc, 8> wc{};
	const std::array<std::pair<int, ibv_wc_opcode>, 5> opcodes{
		{{KIW_WR_SEND, IBV_WC_SEND}, {KIW_WR_SEND_INV, IBV_WC_SEND}, {KIW_WR_WRITE, IBV_WC_RDMA_WRITE},
			{KIW_WR_READ, IBV_WC_RDMA_READ}, {KIW_WR_RECV, IBV_WC_RECV}}};
	for (const auto &[opcode, unused] : opcodes) {
		kiw_cqe cqe = send_cqe(0, 1000 + static_cast<std::uint64_t>(opcode));
		cqe.opcode = static_cast<std::uint8_t>(opcode);
		cqe.status = static_cast<std::uint8_t>(IBV_WC_WR_FLUSH_ERR);
		cqe.byte_len = 123;
		kernel.complete(cq, qp, cqe);
	}
	kiw_cqe invalidated = send_cqe(0);
	invalidated.opcode = KIW_WR_RECV;
	invalidated.flags = KIW_CQE_WITH_INV | KIW_CQE_SOLICITED;
	invalidated.inv_stag = 0x1234;
	kernel.complete(cq, qp, invalidated);

	ASSERT_EQ(poll(wc.data(), 3), 3);
	ASSERT_EQ(poll(wc.data() + 3, 5), 3);
	EXPECT_EQ(poll(wc.data(), 0), 0);
	for (std::size_t i = 0; i < opcodes.size(); i++) {
		EXPECT_EQ(wc.at(i).opcode, opcodes.at(i).second);
		EXPECT_EQ(wc.at(i).wr_id, 1000 + i);
		EXPECT_EQ(wc.at(i).status, IBV_WC_WR_FLUSH_ERR);
		EXPECT_EQ(wc.at(i).byte_len, 123);
		EXPECT_EQ(wc.at(i).qp_num, qp->qp_num);
		EXPECT_EQ(wc.at(i).wc_flags, 0);
		EXPECT_EQ(wc.at(i).vendor_err, 0);
	}
	EXPECT_EQ(wc[5].wc_flags, IBV_WC_WITH_INV);
	EXPECT_EQ(wc[5].invalidated_rkey, 0x1234);
	EXPECT_EQ(kernel.cq(cq).header().cons, 6);
}

TEST_F(Provider, WhoeverPollsInVainLetsOthersRun)
{
	ibv_wc wc{};
	const auto polls_until_yield = [&] {
		const int yields = kernel.yields;
		for (int polls = 1; polls <= 1 << 20; polls++) {
			EXPECT_EQ(poll(&wc), 0);
			if (kernel.yields != yields)
				return polls;
		}
		return 0;
	};
	const int patience = polls_until_yield();

	ASSERT_GE(patience, 1000); // or a ping-pong would pay for it
	EXPECT_EQ(polls_until_yield(), patience);
	// What is found counts anew.
	ASSERT_EQ(post(send_wr()), 0);
	EXPECT_EQ(poll(&wc), 0);
	kernel.complete(cq, qp, send_cqe(0));
	EXPECT_EQ(poll(&wc), 1);
	EXPECT_EQ(polls_until_yield(), patience);
}

TEST_F(Provider, ImpossibleProducerIndexIsAnError)
{
	ibv_wc wc;
	kernel.cq(cq).header().prod = 65;
	EXPECT_LT(poll(&wc), 0);
	kernel.cq(cq).header().prod = 0xffffffff;
	EXPECT_LT(poll(&wc), 0);
}

TEST_F(Provider, DestroyedQpLeavesNothingBehindInItsCqs)
{
	ibv_cq *other_cq = kiw::create_cq(kernel.context(), 8, nullptr, 0);
	ibv_qp *other = new_qp(other_cq);
	std::array<ibv_wc, 8> wc{};
	kernel.complete(cq, qp, send_cqe(0, 1));
	kernel.complete(cq, other, send_cqe(0, 2));
	kernel.complete(cq, qp, send_cqe(1, 3));
	kiw_cqe received = send_cqe(0, 4);
	received.opcode = KIW_WR_RECV;
	kernel.complete(other_cq, other, received);

	kernel.refuse_destroy = EBUSY;
	EXPECT_EQ(kiw::destroy_qp(other), EBUSY);
	kernel.refuse_destroy = 0;
	EXPECT_EQ(kiw::destroy_qp(other), 0);
	EXPECT_EQ(kiw::poll_cq(other_cq, 8, wc.data()), 0);
	EXPECT_EQ(kiw::destroy_cq(other_cq), 0);
	ASSERT_EQ(poll(wc.data(), 8), 2);
	EXPECT_EQ(wc[0].wr_id, 1);
	EXPECT_EQ(wc[1].wr_id, 3);
	EXPECT_EQ(kernel.cq(cq).header().cons, 3);
}

TEST_F(Provider, ResetTakesCompletionsAwayAndFreesTheRings)
{
	std::array<ibv_wc, 8> wc{};
	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(post(send_wr()), 0);
	kernel.complete(cq, qp, send_cqe(depth - 1));
	sq().header().cons = depth;
	ibv_qp_attr attr{};
	attr.qp_state = IBV_QPS_RESET;
	kernel.refuse_modify = EINVAL;
	EXPECT_EQ(kiw::modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	EXPECT_EQ(post(send_wr()), ENOMEM);
	kernel.refuse_modify = 0;
	EXPECT_EQ(kiw::modify_qp(qp, &attr, IBV_QP_STATE), 0);
	EXPECT_EQ(poll(wc.data(), 8), 0);
	for (std::uint32_t i = 0; i < depth; i++)
		EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(post(send_wr()), ENOMEM);
	EXPECT_EQ(kernel.doorbells, static_cast<int>(2 * depth + 1)); // one more, whether it is connected
}

TEST_F(Provider, ArmingForTheNextIsNotWeakened)
{
	FakeCompletionRing &ring = kernel.cq(cq);
	EXPECT_EQ(ring.notify(), KIW_ARM_NONE);
	EXPECT_EQ(kiw::req_notify_cq(cq, 1), 0);
	EXPECT_EQ(ring.header().arm, KIW_ARM_SOLICITED);
	EXPECT_EQ(kiw::req_notify_cq(cq, 0), 0);
	EXPECT_EQ(ring.header().arm, KIW_ARM_NEXT);
	EXPECT_EQ(kiw::req_notify_cq(cq, 1), 0);
	EXPECT_EQ(ring.notify(), KIW_ARM_NEXT);
	EXPECT_EQ(ring.notify(), KIW_ARM_NONE);
}

TEST_F(Provider, ImpossibleGeometryIsRefusedAndUndone)
{
	const std::array<std::function<void(kiw_ring_geometry &)>, 10> distortions{
		[](kiw_ring_geometry &g) { g.entries = 0; },
		[](kiw_ring_geometry &g) { g.entries += 1; },
		[](kiw_ring_geometry &g) { g.entries /= 2; },
		[](kiw_ring_geometry &g) { g.stride -= 8; },
		[](kiw_ring_geometry &g) { g.stride += 1; },
		[](kiw_ring_geometry &g) { g.mmap_size = g.offset + std::uint64_t{g.entries} * g.stride; },
		[](kiw_ring_geometry &g) { g.mmap_size += 4096; }, // of a mapping that is known
		[](kiw_ring_geometry &g) { g.mapping += 100, g.mmap_offset += 1; },
		[](kiw_ring_geometry &g) { g.offset += 8; },
		[](kiw_ring_geometry &g) { g.offset = std::uint32_t(g.mmap_size); },
	};
	ibv_qp_init_attr attr{};
	attr.send_cq = attr.recv_cq = cq;
	attr.cap = {depth, depth, 6, 3, 64}; // no slack in the strides
	for (const auto &distortion : distortions) {
		kernel.distort = distortion;
		errno = 0;
		EXPECT_EQ(kiw::create_cq(kernel.context(), 16, nullptr, 0), nullptr);
		EXPECT_NE(errno, 0);
		errno = 0;
		EXPECT_EQ(kiw::create_qp(kernel.pd(), &attr), nullptr);
		EXPECT_NE(errno, 0);
	}
	EXPECT_EQ(kernel.cqs.size(), 1);
	EXPECT_EQ(kernel.qps.size(), 1);
}

TEST_F(Provider, ErrnoOfTheKernelComesThrough)
{
	kernel.refuse_create = EMFILE;
	EXPECT_EQ(kiw::create_cq(kernel.context(), 16, nullptr, 0), nullptr);
	EXPECT_EQ(errno, EMFILE);
	EXPECT_EQ(new_qp(), nullptr);
	EXPECT_EQ(errno, EMFILE);
	kernel.refuse_destroy = EBUSY;
	EXPECT_EQ(kiw::destroy_cq(cq), EBUSY);
}

/// Whether the page of an address is mapped
bool is_mapped(const void *address)
{
	const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
	const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(address) & ~(size - 1);

	return msync(reinterpret_cast<void *>(page), size, MS_ASYNC) == 0; // NOLINT(performance-no-int-to-ptr)
}

TEST_F(Provider, ChildrenDoNotGetTheRings)
{
	const void *ring = kiw::Qp::from(qp).sq.ring.slot(0);
	const pid_t child = fork();
	if (child == 0)
		_exit(is_mapped(ring) ? 1 : 0);
	int status = -1;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_TRUE(is_mapped(ring));
}

TEST_F(Provider, RingsShareAMappingAsLongAsThereIsOne)
{
	// The fake kernel puts these into the mapping of the first ones, and further ones into others.
	ibv_qp *const neighbour = new_qp();
	ASSERT_NE(neighbour, nullptr);
	ASSERT_EQ(kernel.qp(neighbour).sq.geometry.mapping, sq().geometry.mapping);
	const auto *const slot = kiw::Qp::from(qp).sq.ring.slot(0);
	EXPECT_EQ(kiw::Qp::from(neighbour).sq.ring.slot(0) - slot,
		std::ptrdiff_t{kernel.qp(neighbour).sq.geometry.offset} - std::ptrdiff_t{sq().geometry.offset});
	std::vector<ibv_qp *> others;
	do {
		others.push_back(new_qp());
		ASSERT_NE(others.back(), nullptr);
	} while (kernel.qp(others.back()).rq.geometry.mapping == sq().geometry.mapping);

	EXPECT_EQ(kiw::destroy_qp(neighbour), 0);
	EXPECT_TRUE(is_mapped(slot));
	EXPECT_EQ(post(send_wr(5)), 0);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).wr_id, 5);

	const auto *const alone = kiw::Qp::from(others.back()).rq.ring.slot(0);
	EXPECT_TRUE(is_mapped(alone));
	EXPECT_EQ(kiw::destroy_qp(others.back()), 0);
	EXPECT_FALSE(is_mapped(alone));
	others.pop_back();
	for (ibv_qp *other : others)
		EXPECT_EQ(kiw::destroy_qp(other), 0);
	EXPECT_EQ(kiw::destroy_qp(qp), 0);
	qp = nullptr;
	EXPECT_TRUE(is_mapped(slot)); // by the CQ
	EXPECT_EQ(kiw::destroy_cq(cq), 0);
	EXPECT_FALSE(is_mapped(slot));
	cq = nullptr;
}

// The kernel's half of the handshake in kiwarp-abi.h, with several threads posting, one polling, and
// doorbells that run in the posters' threads.
TEST_F(Provider, NoRequestIsLostBetweenPostersAndADrainingKernel)
{
	constexpr int threads = 3, each = 20000;
	std::mutex drainer;
	std::uint64_t taken = 0;
	std::array<std::uint64_t, threads> expected{};
	bool in_order = true;

	kernel.on_doorbell = [&](const FakeDoorbell &) {
		const std::lock_guard lock(drainer);
		FakeWorkRing &ring = sq();
		for (;;) {
			ring.set_flags(KIW_RING_DRAINING);
			while (ring.next != ring.produced()) {
				const kiw_wqe wqe = ring.entry<kiw_wqe>(ring.next);
				in_order = in_order && expected.at(wqe.wr_id >> 32)++ == (wqe.wr_id & 0xffffffff);
				while (!kernel.cq(cq).has_room())
					std::this_thread::yield();
				if (ring.next % 4 == 3)
					kernel.complete(cq, qp, send_cqe(ring.next));
				ring.next++;
				taken++;
			}
			ring.set_flags(0);
			if (ring.next == ring.produced())
				return 0;
		}
	};

	std::atomic<bool> done = false;
	std::thread poller([&] {
		std::array<ibv_wc, 16> wc;
		while (!done || poll(wc.data(), 16) > 0)
			if (poll(wc.data(), 16) == 0)
				std::this_thread::yield();
	});
	std::vector<std::thread> posters;
	for (std::uint64_t t = 0; t < threads; t++)
		posters.emplace_back([&, t] {
			for (std::uint64_t i = 0; i < each; i++)
				while (post(send_wr(t << 32 | i)) == ENOMEM)
					std::this_thread::yield();
		});
	for (auto &poster : posters)
		poster.join();
	done = true;
	poller.join();
	EXPECT_EQ(taken, std::uint64_t{threads} * each);
	EXPECT_TRUE(in_order);
	EXPECT_EQ(sq().next, sq().produced());
}

// A consumer that arms, polls once more, and only then sleeps.
TEST_F(Provider, NoEventIsLostBetweenTheKernelAndASleeper)
{
	constexpr int count = 50000;
	std::atomic<std::uint32_t> events = 0;
	std::thread producer([&] {
		FakeCompletionRing &ring = kernel.cq(cq);
		for (int i = 0; i < count; i++) {
			while (!ring.has_room())
				std::this_thread::yield();
			kernel.complete(cq, qp, send_cqe(static_cast<std::uint32_t>(i)));
			if (ring.notify()) {
				events++;
				events.notify_one();
			}
		}
	});

	std::array<ibv_wc, 4> wc;
	std::uint32_t seen = 0;
	for (int polled = 0; polled < count;) {
		kiw::req_notify_cq(cq, 0);
		int found = poll(wc.data(), 4);
		if (found == 0) {
			events.wait(seen); // hangs if the event is lost
			seen = events;
		}
		polled += found;
	}
	producer.join();
}

} // namespace
