// SPDX-License-Identifier: GPL-2.0
// The rings of a process: what is taken out of them, and what comes of it, without a connection.
#include <array>
#include <gtest/gtest.h>
#include <malloc.h>
#include <vector>

#include "requests.hpp"

namespace {

using namespace session;

class Queue : public testing::Test {
protected:
	static kiw_wq_ring &ring(const kiw_ring_map &map) { return *static_cast<kiw_wq_ring *>(map.mem); }
	kiw_wq_ring &sends() { return ring(a.core.sq.map); }
	kiw_wq_ring &receives() { return ring(a.core.rq.map); }

	/// Takes the one request that is posted.
	kiw_take take(const kiw_wqe &wqe, std::span<const kiw_sge> sges, const kiw_atomic_args *args = nullptr)
	{
		a.post(wqe, sges, args);
		return kiw_sq_take(&sq, &req);
	}

	/// An opcode with one buffer of so many bytes
	kiw_take take(int opcode, std::uint32_t length, std::uint8_t flags = 0)
	{
		const kiw_sge sge{.addr = 1, .length = length, .lkey = 2};

		return take(request(static_cast<kiw_wr_op>(opcode), 1, flags), {&sge, 1});
	}

	void expect_completion(std::uint64_t id, int status, std::uint32_t index, std::uint8_t opcode)
	{
		ASSERT_FALSE(a.completions().empty());
		const kiw_cqe cqe = a.completion();

		EXPECT_EQ(cqe.wr_id, id);
		EXPECT_EQ(int(cqe.status), status);
		EXPECT_EQ(cqe.wq_index, index);
		EXPECT_EQ(cqe.opcode, opcode);
	}

	Queue()
	{
		req.sge = room_a.data();
		recv.sge = room_b.data();
	}

	Pair p;
	Side &a = *p.a;
	kiw_sq &sq = a.core.sq;
	kiw_rq &rq = a.core.rq;
	std::array<kiw_sge, 16> room_a{}, room_b{};
	kiw_send_req req{};
	kiw_recv_req recv{};
};

class SendQueue : public Queue {};
class ReceiveQueue : public Queue {};

TEST_F(SendQueue, ARequestIsTakenAsItIs)
{
	const std::array sges{a.sge(1, 2), a.sge(3, 4), a.sge(5, 6), a.sge(7, 8)};
	kiw_wqe wqe = request(KIW_WR_SEND_IMM, 77, KIW_WQE_FLAGS & ~KIW_WQE_INLINE);

	EXPECT_FALSE(kiw_sq_posted(&sq));
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_NONE);
	wqe.imm = htobe32(5);
	a.post(request(KIW_WR_SEND, 1), {});
	a.post(wqe, sges);
	EXPECT_TRUE(kiw_sq_posted(&sq));
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_ONE);
	EXPECT_EQ(req.index, 0U);
	EXPECT_EQ(req.len, 0U);
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_ONE);
	EXPECT_EQ(req.index, 1U);
	EXPECT_EQ(req.len, 20U);
	EXPECT_EQ(req.wqe.wr_id, 77U);
	EXPECT_EQ(req.wqe.imm, htobe32(5));
	EXPECT_EQ(std::memcmp(req.sge, sges.data(), sizeof(sges)), 0);
	EXPECT_FALSE(kiw_sq_posted(&sq));
	EXPECT_EQ(sq.next, 2U);
	EXPECT_EQ(sq.done, 0U);

	const struct kiw_swr &swr = *kiw_swr(&sq, 1);
	EXPECT_EQ(swr.wr_id, 77U);
	EXPECT_EQ(swr.byte_len, 20U);
	EXPECT_EQ(swr.op, KIW_WR_SEND_IMM);
	EXPECT_EQ(swr.flags, KIW_WQE_FLAGS & ~KIW_WQE_INLINE);
	EXPECT_EQ(swr.status, IB_WC_SUCCESS);
	EXPECT_FALSE(swr.done);
}

TEST_F(SendQueue, ASlotIsAsNewForEachRequest)
{
	for (unsigned i = 0; i < 2 * sq.entries; i++) {
		ASSERT_EQ(take(KIW_WR_SEND, 1), KIW_TAKE_ONE);
		EXPECT_EQ(kiw_swr(&sq, i)->status, IB_WC_SUCCESS);
		EXPECT_FALSE(kiw_swr(&sq, i)->done);
		kiw_sq_done(&sq, i, IB_WC_LOC_PROT_ERR);
		EXPECT_TRUE(kiw_sq_complete(&sq));
		expect_completion(1, IB_WC_LOC_PROT_ERR, i, KIW_WR_SEND);
	}
}

TEST_F(SendQueue, ARefusedRequestIsNamedInItsCompletion)
{
	kiw_wqe wqe = request(static_cast<kiw_wr_op>(200), 9, 0);
	const kiw_sge sge = a.sge(0, 10);

	EXPECT_EQ(take(wqe, {&sge, 1}), KIW_TAKE_BAD);
	EXPECT_EQ(req.index, 0U);
	EXPECT_EQ(kiw_swr(&sq, 0)->byte_len, 0U);
	EXPECT_EQ(kiw_swr(&sq, 0)->op, KIW_WR_LOCAL_INV);
	kiw_sq_done(&sq, 0, IB_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(kiw_sq_complete(&sq));
	expect_completion(9, IB_WC_LOC_QP_OP_ERR, 0, KIW_WR_LOCAL_INV);
	EXPECT_EQ(sends().cons, 1U);
}

TEST_F(SendQueue, OpcodesThatCannotBeSentAreRefused)
{
	for (int opcode = 0; opcode < 256; opcode++) {
		const bool local = opcode == KIW_WR_BIND_MW || opcode == KIW_WR_LOCAL_INV;
		const bool atomic = opcode == KIW_WR_CMP_SWAP || opcode == KIW_WR_FETCH_ADD;
		const bool completed = opcode == KIW_WR_RECV || opcode == KIW_WR_RECORD || opcode == KIW_WR_RECV_IMM;
		const bool good = opcode < KIW_SEND_OPS_PROCESS && !completed;

		a.post(request(static_cast<kiw_wr_op>(opcode), 1, 0), {});
		EXPECT_EQ(kiw_sq_take(&sq, &req), good && !atomic ? KIW_TAKE_ONE : KIW_TAKE_BAD) << opcode;
		EXPECT_EQ(take(opcode, 8), good && !local ? KIW_TAKE_ONE : KIW_TAKE_BAD) << opcode;
		EXPECT_EQ(take(opcode, 7), good && !local && !atomic ? KIW_TAKE_ONE : KIW_TAKE_BAD) << opcode;
		kiw_sq_forget(&sq);
	}
}

TEST_F(SendQueue, FlagsThatAnOpcodeDoesNotTakeAreRefused)
{
	sq.kernel = true;
	for (const auto &[opcode, flags] : std::array<std::pair<int, int>, 12>{{
		     {KIW_WR_SEND, 0x0f},
		     {KIW_WR_SEND_INV, 0x0f},
		     {KIW_WR_WRITE, 0x0f},
		     {KIW_WR_READ, 0x07},
		     {KIW_WR_SEND_IMM, 0x0f},
		     {KIW_WR_WRITE_IMM, 0x0f},
		     {KIW_WR_CMP_SWAP, 0x07},
		     {KIW_WR_FETCH_ADD, 0x07},
		     {KIW_WR_BIND_MW, 0x05},
		     {KIW_WR_LOCAL_INV, 0x05},
		     {KIW_WR_REG_MR, 0x05},
		     {KIW_WR_READ_INV, 0x07},
	     }}) {
		for (int flag = 1; flag < 256; flag *= 2) {
			const bool local = kiw_send_is_local(&kiw_send_ops[opcode]);
			const kiw_sge sge = a.sge(0, 8);
			const kiw_wqe wqe = request(static_cast<kiw_wr_op>(opcode), 1, static_cast<std::uint8_t>(flag));

			EXPECT_EQ(take(wqe, {&sge, local || flag == KIW_WQE_INLINE ? 0U : 1U}),
				(flags & flag) ? KIW_TAKE_ONE : KIW_TAKE_BAD)
				<< opcode << " " << flag;
			EXPECT_EQ(kiw_swr(&sq, sq.next - 1)->flags, flag);
		}
		kiw_sq_forget(&sq);
	}
}

TEST_F(SendQueue, ImmediateDataOfOthersIsRefused)
{
	for (int opcode = 0; opcode < KIW_SEND_OPS; opcode++) {
		kiw_wqe wqe = request(static_cast<kiw_wr_op>(opcode), 1, 0);
		const kiw_sge sge = a.sge(0, 8);

		wqe.imm = 1;
		EXPECT_EQ(take(wqe, {&sge, 1}),
			opcode == KIW_WR_SEND_IMM || opcode == KIW_WR_WRITE_IMM ? KIW_TAKE_ONE : KIW_TAKE_BAD);
	}
}

TEST_F(SendQueue, ReservedFieldsAreZero)
{
	kiw_wqe wqe = request(KIW_WR_SEND, 1);

	wqe.reserved = 1;
	EXPECT_EQ(take(wqe, {}), KIW_TAKE_BAD);
}

TEST_F(SendQueue, BuffersHaveALimit)
{
	const std::array<kiw_sge, 5> sges{a.sge(0, 1), a.sge(0, 1), a.sge(0, 1), a.sge(0, 1), a.sge(0, 1)};

	EXPECT_EQ(take(request(KIW_WR_SEND, 1), std::span(sges).first(4)), KIW_TAKE_ONE);
	EXPECT_EQ(take(request(KIW_WR_SEND, 1), sges), KIW_TAKE_BAD);
	EXPECT_EQ(kiw_swr(&sq, 1)->byte_len, 0U);
	// There is no room for the last one.
	EXPECT_EQ(room_a[4].length, 0U);
}

TEST_F(SendQueue, MessagesHaveALimit)
{
	const std::array sges{kiw_sge{.addr = 0, .length = 1U << 31, .lkey = 1},
		kiw_sge{.addr = 0, .length = 1, .lkey = 1}, kiw_sge{.addr = 0, .length = UINT32_MAX, .lkey = 1}};

	EXPECT_EQ(kiw_sge_total(sges.data(), 0), 0);
	EXPECT_EQ(kiw_sge_total(sges.data(), 1), 1LL << 31);
	EXPECT_EQ(kiw_sge_total(sges.data(), 2), -1);
	EXPECT_EQ(kiw_sge_total(sges.data() + 1, 2), -1);
	EXPECT_EQ(take(request(KIW_WR_SEND, 1), std::span(sges).first(1)), KIW_TAKE_ONE);
	EXPECT_EQ(req.len, 1U << 31);
	EXPECT_EQ(take(request(KIW_WR_SEND, 1), std::span(sges).first(2)), KIW_TAKE_BAD);
}

TEST_F(SendQueue, InlineDataHasALimit)
{
	for (const std::uint32_t length : {0U, 64U, 65U, UINT32_MAX}) {
		kiw_wqe wqe = request(KIW_WR_SEND, 1, KIW_WQE_INLINE);

		wqe.inline_len = length;
		EXPECT_EQ(take(wqe, {}), length <= 64 ? KIW_TAKE_ONE : KIW_TAKE_BAD);
		if (length > 64)
			continue;
		EXPECT_EQ(req.len, length);
		EXPECT_EQ(static_cast<const std::uint8_t *>(req.inline_data) - static_cast<std::uint8_t *>(sq.map.mem),
			KIW_RING_HEADER + req.index * sq.map.stride + 32);
	}
}

TEST_F(SendQueue, AnAtomicHasOneBufferAndItsArguments)
{
	const std::array sges{a.sge(0, 8), a.sge(8, 0)};
	const kiw_atomic_args args{.compare_add = 0x1122334455667788, .swap = 99};

	for (const auto opcode : {KIW_WR_CMP_SWAP, KIW_WR_FETCH_ADD}) {
		req.atomic = {};
		EXPECT_EQ(take(request(opcode, 1, 0), std::span(sges).first(1), &args), KIW_TAKE_ONE);
		EXPECT_EQ(req.atomic.compare_add, args.compare_add);
		EXPECT_EQ(req.atomic.swap, args.swap);
		EXPECT_EQ(take(request(opcode, 1, 0), sges), KIW_TAKE_BAD);
	}
}

TEST_F(SendQueue, ABindHasItsArguments)
{
	const kiw_bind_args args{.addr = 1, .length = 2, .lkey = 3, .access = 4};
	std::vector<std::uint8_t> slot(sizeof(kiw_wqe) + sizeof(args));
	const kiw_wqe wqe = request(KIW_WR_BIND_MW, 1);

	std::memcpy(slot.data(), &wqe, sizeof(wqe));
	std::memcpy(slot.data() + sizeof(wqe), &args, sizeof(args));
	a.scribble(slot, 1);
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_ONE);
	EXPECT_EQ(std::memcmp(&req.bind, &args, sizeof(args)), 0);
}

TEST_F(SendQueue, ADestinationLiesBeforeTheBuffers)
{
	std::vector<std::uint8_t> slot(KIW_SQ_HEAD_UD + sizeof(kiw_sge));
	kiw_wqe wqe = request(KIW_WR_SEND, 1);
	const kiw_sge sge = a.sge(5, 6);

	wqe.num_sge = 1;
	fill(slot, 1);
	std::memcpy(slot.data(), &wqe, sizeof(wqe));
	std::memcpy(slot.data() + KIW_SQ_HEAD_UD, &sge, sizeof(sge));
	sq.head = KIW_SQ_HEAD_UD;
	a.scribble(slot, 1);
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_ONE);
	EXPECT_EQ(std::memcmp(&req.dest, slot.data() + sizeof(wqe), sizeof(req.dest)), 0);
	EXPECT_EQ(std::memcmp(req.sge, &sge, sizeof(sge)), 0);
	EXPECT_EQ(req.len, 6U);
}

TEST_F(SendQueue, AnIndexBeyondTheFreeSlotsIsNonsense)
{
	sends().prod = sq.entries + 1;
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_RING);
	EXPECT_EQ(sq.next, 0U);
	sends().prod = sq.entries;
	for (unsigned i = 0; i < 10; i++)
		EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_ONE);
	// Ten are under way, and one of them is done: 65 slots behind the first is too far, 64 behind the second is
	// not.
	sends().prod = sq.entries + 1;
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_RING);
	kiw_sq_done(&sq, 0, IB_WC_SUCCESS);
	kiw_sq_complete(&sq);
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_ONE);
	sends().prod = 5;
	EXPECT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_RING);
}

TEST_F(SendQueue, CompletionsComeInOrder)
{
	for (unsigned i = 0; i < 20; i++)
		ASSERT_EQ(take(request(KIW_WR_WRITE, 100 + i, i % 2 ? KIW_WQE_SIGNALED : 0), {}), KIW_TAKE_ONE);
	for (unsigned i = 1; i < 20; i++)
		kiw_sq_done(&sq, i, i == 4 ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS);
	EXPECT_TRUE(kiw_sq_complete(&sq));
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(sends().cons, 0U);
	kiw_sq_done(&sq, 0, IB_WC_SUCCESS);
	kiw_swr(&sq, 19)->done = false;
	EXPECT_TRUE(kiw_sq_complete(&sq));
	EXPECT_EQ(sends().cons, 19U);
	for (unsigned i = 0; i < 19; i++) {
		if (i % 2 || i == 4)
			expect_completion(100 + i, i == 4 ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS, i, KIW_WR_WRITE);
	}
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(SendQueue, ACompletionSaysHowMuchWasSent)
{
	ASSERT_EQ(take(KIW_WR_READ, 1234, KIW_WQE_SIGNALED), KIW_TAKE_ONE);
	kiw_sq_done(&sq, 0, IB_WC_SUCCESS);
	EXPECT_TRUE(kiw_sq_complete(&sq));
	EXPECT_EQ(a.completion().byte_len, 1234U);
}

TEST_F(SendQueue, AFullCompletionQueueIsTold)
{
	for (unsigned i = 0; i < 20; i++) {
		ASSERT_EQ(take(request(KIW_WR_WRITE, i), {}), KIW_TAKE_ONE);
		kiw_sq_done(&sq, i, IB_WC_SUCCESS);
	}
	sq.cq->room = 3;
	EXPECT_FALSE(kiw_sq_complete(&sq));
	EXPECT_EQ(a.completions().size(), 3U);
	// What had no room isn't made up for.
	sq.cq->room = SIZE_MAX;
	EXPECT_TRUE(kiw_sq_complete(&sq));
	EXPECT_EQ(a.completions().size(), 3U);
}

TEST_F(SendQueue, CompletionsBehindOnesWithoutRoomAreDropped)
{
	kiw_cqe_batch batch;

	kiw_cqe_begin(&batch, sq.cq, &a.core.own);
	sq.cq->room = 3;
	for (unsigned i = 0; i < KIW_CQE_BATCH + 1; i++)
		kiw_cqe_next(&batch);
	EXPECT_FALSE(batch.ok);
	EXPECT_EQ(batch.n, 1U);
	sq.cq->room = SIZE_MAX;
	EXPECT_FALSE(kiw_cqe_publish(&batch));
	EXPECT_EQ(a.completions().size(), 3U);
}

TEST_F(SendQueue, CompletionsAreAddedEightAtATime)
{
	kiw_cqe_batch batch;

	kiw_cqe_begin(&batch, sq.cq, &a.core.own);
	EXPECT_TRUE(kiw_cqe_publish(&batch));
	for (unsigned i = 0; i < KIW_CQE_BATCH; i++)
		kiw_cqe_next(&batch)->wr_id = i;
	EXPECT_TRUE(a.completions().empty());
	kiw_cqe_next(&batch)->wr_id = KIW_CQE_BATCH;
	EXPECT_EQ(a.completions().size(), 8U);
	EXPECT_TRUE(kiw_cqe_publish(&batch));
	EXPECT_TRUE(kiw_cqe_publish(&batch));
	for (unsigned i = 0; i <= KIW_CQE_BATCH; i++)
		EXPECT_COMPLETES(a, i, IB_WC_SUCCESS);
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(SendQueue, AFlushEndsAllThatIsPosted)
{
	for (unsigned i = 0; i < 8; i++)
		a.post(request(KIW_WR_WRITE, i, 0), {});
	a.post(request(static_cast<kiw_wr_op>(250), 8, 0), {});
	for (unsigned i = 0; i < 5; i++)
		ASSERT_EQ(kiw_sq_take(&sq, &req), KIW_TAKE_ONE);
	kiw_swr(&sq, 2)->flags = KIW_WQE_SIGNALED;
	kiw_sq_done(&sq, 0, IB_WC_SUCCESS);
	kiw_sq_done(&sq, 2, IB_WC_SUCCESS);
	kiw_sq_done(&sq, 3, IB_WC_REM_OP_ERR);
	EXPECT_TRUE(kiw_sq_flush(&sq, IB_WC_RETRY_EXC_ERR));
	// The first was unsignaled, and is done.
	expect_completion(1, IB_WC_RETRY_EXC_ERR, 1, KIW_WR_WRITE);
	expect_completion(2, IB_WC_SUCCESS, 2, KIW_WR_WRITE);
	expect_completion(3, IB_WC_REM_OP_ERR, 3, KIW_WR_WRITE);
	for (unsigned i = 4; i < 8; i++)
		expect_completion(i, IB_WC_WR_FLUSH_ERR, i, KIW_WR_WRITE);
	expect_completion(8, IB_WC_WR_FLUSH_ERR, 8, KIW_WR_LOCAL_INV);
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(sends().cons, 9U);
	EXPECT_EQ(sends().flags, KIW_RING_FLUSH);
	EXPECT_EQ(sq.next, 9U);
	EXPECT_EQ(sq.done, 9U);
	EXPECT_FALSE(kiw_sq_flush(&sq, IB_WC_RETRY_EXC_ERR));
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(SendQueue, TheOldestOfThoseNotTakenEndsWithTheCauseToo)
{
	a.post(request(KIW_WR_WRITE, 1, 0), {});
	a.post(request(KIW_WR_WRITE, 2, 0), {});
	EXPECT_TRUE(kiw_sq_flush(&sq, IB_WC_RETRY_EXC_ERR));
	expect_completion(1, IB_WC_RETRY_EXC_ERR, 0, KIW_WR_WRITE);
	expect_completion(2, IB_WC_WR_FLUSH_ERR, 1, KIW_WR_WRITE);
	a.post(request(KIW_WR_WRITE, 3, 0), {});
	EXPECT_FALSE(kiw_sq_flush(&sq, IB_WC_WR_FLUSH_ERR));
	expect_completion(3, IB_WC_WR_FLUSH_ERR, 2, KIW_WR_WRITE);
}

TEST_F(SendQueue, AFlushBelievesNoIndexThatCannotBe)
{
	sends().prod = sq.entries;
	EXPECT_FALSE(kiw_sq_flush(&sq, IB_WC_WR_FLUSH_ERR));
	EXPECT_EQ(a.completions().size(), sq.entries);
	a.completions().clear();
	sends().prod = sends().cons + sq.entries + 1;
	EXPECT_FALSE(kiw_sq_flush(&sq, IB_WC_WR_FLUSH_ERR));
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(sends().cons, sq.entries);
}

TEST_F(SendQueue, WhatIsForgottenCompletesNothing)
{
	for (unsigned i = 0; i < 3; i++)
		ASSERT_EQ(take(KIW_WR_SEND, 1, KIW_WQE_SIGNALED), KIW_TAKE_ONE);
	a.post(request(KIW_WR_SEND, 1), {});
	kiw_sq_forget(&sq);
	EXPECT_EQ(sq.next, 4U);
	EXPECT_EQ(sq.done, 4U);
	EXPECT_EQ(sends().cons, 4U);
	EXPECT_TRUE(a.completions().empty());
	EXPECT_FALSE(kiw_sq_posted(&sq));
}

TEST_F(SendQueue, ItsFlagsTellTheProcessWhetherToRing)
{
	kiw_sq_flag(&sq, KIW_RING_DRAINING);
	EXPECT_EQ(sends().flags, KIW_RING_DRAINING);
	EXPECT_FALSE(kiw_sq_rest(&sq, 0));
	EXPECT_EQ(sends().flags, 0U);
	EXPECT_FALSE(kiw_sq_rest(&sq, KIW_RING_SMALL));
	EXPECT_EQ(sends().flags, KIW_RING_SMALL);
	a.post(request(KIW_WR_SEND, 1), {});
	EXPECT_TRUE(kiw_sq_rest(&sq, 0));
}

TEST_F(ReceiveQueue, ARequestIsTakenAsItIs)
{
	const std::array sges{a.sge(1, 2), a.sge(3, 4), a.sge(5, 6), a.sge(7, 8)};

	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_NONE);
	a.receive(1, {});
	a.receive(2, sges);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	EXPECT_EQ(recv.room, 0U);
	EXPECT_EQ(receives().cons, 1U);
	recv.taken = false;
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	EXPECT_TRUE(recv.taken);
	EXPECT_EQ(recv.id, 2U);
	EXPECT_EQ(recv.index, 1U);
	EXPECT_EQ(recv.num_sge, 4U);
	EXPECT_EQ(recv.room, 20U);
	EXPECT_EQ(std::memcmp(recv.sge, sges.data(), sizeof(sges)), 0);
	EXPECT_EQ(receives().cons, 2U);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_NONE);
}

TEST_F(ReceiveQueue, BadRequestsAreRefusedAndConsumed)
{
	const std::array<kiw_sge, 5> five{a.sge(0, 1), a.sge(0, 1), a.sge(0, 1), a.sge(0, 1), a.sge(0, 1)};
	const std::array too_long{kiw_sge{.addr = 0, .length = 1U << 31, .lkey = 0}, a.sge(0, 1)};

	a.receive(1, five);
	a.receive(2, too_long);
	a.receive(3, std::span(too_long).first(1));
	a.receive(4, {});
	// The last of the reserved bytes
	static_cast<std::uint8_t *>(rq.map.mem)[KIW_RING_HEADER + 3 * rq.map.stride + sizeof(kiw_rqe) - 1] = 1;
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_BAD);
	EXPECT_EQ(recv.id, 1U);
	EXPECT_TRUE(recv.taken);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_BAD);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	EXPECT_EQ(recv.room, 1U << 31);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_BAD);
	EXPECT_EQ(receives().cons, 4U);
}

TEST_F(ReceiveQueue, AnIndexThatCannotBeIsNonsense)
{
	receives().prod = rq.entries;
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	kiw_rq_forget(&rq);
	receives().prod = rq.next + rq.entries + 1;
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_RING);
	EXPECT_EQ(rq.next, rq.entries);
}

TEST_F(ReceiveQueue, TheIndexOfTheProcessIsReadOnceForAllThatItHasPosted)
{
	a.receive(1, {});
	a.receive(2, {});
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	// What it writes there later doesn't count until then.
	receives().prod = 1000;
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_RING);
}

TEST_F(ReceiveQueue, ACompletionSaysWhatHasCome)
{
	kiw_received received{.len = 5, .op = KIW_WR_RECV, .flags = KIW_CQE_GRH, .from = 6, .imm = 7};

	a.receive(10, {});
	a.receive(11, {});
	a.receive(12, {});
	ASSERT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	EXPECT_TRUE(kiw_rq_complete(&rq, &recv, &received));
	EXPECT_FALSE(recv.taken);
	kiw_cqe cqe = a.completion();
	EXPECT_EQ(cqe.wr_id, 10U);
	EXPECT_EQ(cqe.status, IB_WC_SUCCESS);
	EXPECT_EQ(cqe.byte_len, 5U);
	EXPECT_EQ(cqe.opcode, KIW_WR_RECV);
	EXPECT_EQ(cqe.flags, KIW_CQE_GRH);
	EXPECT_EQ(cqe.src_qp, 6U);
	EXPECT_EQ(cqe.imm, 7U);
	EXPECT_EQ(cqe.wq_index, 0U);
	ASSERT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	received = {.len = 0, .op = KIW_WR_RECV_IMM, .flags = KIW_CQE_WITH_INV, .from = 8, .imm = 0};
	EXPECT_TRUE(kiw_rq_complete(&rq, &recv, &received));
	cqe = a.completion();
	EXPECT_EQ(cqe.inv_stag, 8U);
	EXPECT_EQ(cqe.opcode, KIW_WR_RECV_IMM);
	EXPECT_EQ(cqe.wq_index, 1U);
	ASSERT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	rq.cq->room = 0;
	EXPECT_FALSE(kiw_rq_complete(&rq, &recv, &received));
}

TEST_F(ReceiveQueue, AFailureIsTold)
{
	a.receive(10, {});
	a.receive(11, {});
	ASSERT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	EXPECT_TRUE(kiw_rq_fail(&rq, &recv, IB_WC_LOC_LEN_ERR));
	EXPECT_FALSE(recv.taken);
	expect_completion(10, IB_WC_LOC_LEN_ERR, 0, KIW_WR_RECV);
	ASSERT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	rq.cq->room = 0;
	EXPECT_FALSE(kiw_rq_fail(&rq, &recv, IB_WC_LOC_LEN_ERR));
}

TEST_F(ReceiveQueue, AFlushEndsAllThatIsPosted)
{
	a.receive(20, {});
	ASSERT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_ONE);
	a.receive(21, {});
	a.receive(22, {});
	kiw_rq_flush(&rq, &recv);
	EXPECT_FALSE(recv.taken);
	for (unsigned i = 0; i < 3; i++)
		expect_completion(20 + i, IB_WC_WR_FLUSH_ERR, i, KIW_WR_RECV);
	EXPECT_EQ(receives().cons, 3U);
	EXPECT_EQ(receives().flags, KIW_RING_FLUSH);
	EXPECT_EQ(rq.next, 3U);
	EXPECT_EQ(rq.posted, 3U);
	kiw_rq_flush(&rq, &recv);
	kiw_rq_flush(&rq, nullptr);
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(ReceiveQueue, AFlushBelievesNoIndexThatCannotBe)
{
	receives().prod = rq.entries;
	kiw_rq_flush(&rq, nullptr);
	EXPECT_EQ(a.completions().size(), rq.entries);
	a.completions().clear();
	receives().prod = rq.next + rq.entries + 1;
	kiw_rq_flush(&rq, nullptr);
	EXPECT_TRUE(a.completions().empty());
	EXPECT_EQ(receives().cons, rq.entries);
}

TEST_F(ReceiveQueue, ItsFlagsTellTheProcessWhetherToRing)
{
	kiw_rq_call(&rq);
	EXPECT_EQ(receives().flags, KIW_RING_FLUSH);
	kiw_rq_open(&rq);
	EXPECT_EQ(receives().flags, 0U);
}

TEST_F(ReceiveQueue, WhatIsForgottenCompletesNothing)
{
	a.receive(1, {});
	a.receive(2, {});
	kiw_rq_forget(&rq);
	EXPECT_EQ(rq.next, 2U);
	EXPECT_EQ(rq.posted, 2U);
	EXPECT_EQ(receives().cons, 2U);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_NONE);
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(ReceiveQueue, OneThatIsSharedHasNoRing)
{
	a.share();
	kiw_rq_call(&rq);
	kiw_rq_open(&rq);
	kiw_rq_forget(&rq);
	EXPECT_EQ(kiw_rq_take(&rq, &recv), KIW_TAKE_NONE);
	recv = {.taken = true, .num_sge = 0, .index = 3, .id = 4, .room = 0, .sge = room_b.data()};
	kiw_rq_flush(&rq, &recv);
	expect_completion(4, IB_WC_WR_FLUSH_ERR, 3, KIW_WR_RECV);
	EXPECT_TRUE(a.completions().empty());
}

TEST_F(ReceiveQueue, ASlotHasRoomForItsBuffers)
{
	EXPECT_EQ(kiw_rq_stride(0), 16U);
	EXPECT_EQ(kiw_rq_stride(4), 80U);
}

/// Indexes go on from the largest number to 0, and through the middle of all.
TEST(Indexes, RunFreely)
{
	for (const std::uint32_t start : {UINT32_MAX - 2, 0x7ffffffeU, 0x40000000U}) {
		Pair p({.start = start});
		Side &a = *p.a;
		std::array<kiw_sge, 4> room{};
		kiw_recv_req recv{};

		recv.sge = room.data();
		for (unsigned i = 0; i < 200; i++) {
			a.post(remote(KIW_WR_WRITE, i, *p.b, 0), {});
			a.post(remote(KIW_WR_READ, 1000 + i, *p.b, 0), {});
			p.run();
			EXPECT_COMPLETES(a, i, IB_WC_SUCCESS);
			EXPECT_COMPLETES(a, 1000 + i, IB_WC_SUCCESS);
			a.receive(i, {});
			ASSERT_EQ(kiw_rq_take(&a.core.rq, &recv), KIW_TAKE_ONE);
			recv.taken = false;
		}
		for (unsigned i = 0; i < 5; i++) {
			a.post(request(KIW_WR_SEND, i), {});
			a.receive(10 + i, {});
		}
		kiw_sq_flush(&a.core.sq, IB_WC_WR_FLUSH_ERR);
		kiw_rq_flush(&a.core.rq, &recv);
		for (unsigned i = 0; i < 5; i++)
			EXPECT_COMPLETES(a, i, IB_WC_WR_FLUSH_ERR);
		for (unsigned i = 0; i < 5; i++)
			EXPECT_COMPLETES(a, 10 + i, IB_WC_WR_FLUSH_ERR);
	}
}

TEST(Reads, LeaveNothingBehind)
{
	std::array<std::size_t, 40> allocated{};

	for (std::size_t &bytes : allocated) {
		kiw_reads_out out{};
		kiw_reads_in in{};

		ASSERT_TRUE(kiw_reads_init(&out, &in, 16, 16, 4, 8));
		kiw_reads_free(&out, &in);
		bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
	}
	// The allocator keeps something of the first rounds.
	EXPECT_EQ(allocated[39], allocated[20]);
}

TEST(Reads, HaveRoomForAPowerOfTwo)
{
	for (const auto &[n, size] : {std::pair{0U, 1U}, {1U, 1U}, {2U, 2U}, {3U, 4U}, {16U, 16U}, {17U, 32U}}) {
		kiw_reads_out out{};
		kiw_reads_in in{};
		const auto *more = static_cast<const std::uint8_t *>(kiw_reads_init(&out, &in, n, n, 3, 24));

		ASSERT_TRUE(more);
		EXPECT_EQ(std::count(more, more + 24, 0), 24);
		EXPECT_EQ(out.size, size);
		EXPECT_EQ(in.size, size);
		EXPECT_EQ(out.stride, offsetof(struct kiw_read_out, sge) + 3 * sizeof(kiw_sge));
		EXPECT_EQ(out.slots, more + 24);
		EXPECT_EQ(reinterpret_cast<std::uint8_t *>(in.slots), more + 24 + size * out.stride);
		EXPECT_EQ(kiw_reads_out_len(&out), 0U);
		EXPECT_EQ(kiw_reads_in_len(&in), 0U);
		EXPECT_EQ(kiw_read_in_msn(&in), 1U);
		kiw_reads_free(&out, &in);
		EXPECT_EQ(out.slots, nullptr);
		EXPECT_EQ(in.slots, nullptr);
	}
}

TEST(Reads, WithoutMemoryAreNotBegun)
{
	kiw_reads_out out{};
	kiw_reads_in in{};

	EXPECT_EQ(kiw_reads_init(&out, &in, 1U << 31, 1, 1U << 27, 0), nullptr);
	EXPECT_EQ(out.slots, nullptr);
	EXPECT_EQ(in.slots, nullptr);
}

TEST(Reads, AreAnsweredInOrder)
{
	kiw_reads_out out{};
	kiw_reads_in in{};

	ASSERT_TRUE(kiw_reads_init(&out, &in, 4, 4, 1, 0));
	for (std::uint32_t i = 0; i < 40; i++) {
		const kiw_rreq read{.sink_stag = 1, .sink_to = 2, .size = i, .src_stag = 3, .src_to = 4};
		const kiw_atomic atomic{
			.op = 0, .req_id = i, .stag = 1, .to = 2, .data = 3, .mask = 4, .cmp = 5, .cmp_mask = 6};

		kiw_read_in_oldest(&in)->done = true;
		kiw_read_in_add(&in, &read);
		kiw_atomic_in_add(&in, &atomic);
		EXPECT_EQ(kiw_reads_in_len(&in), 2U);
		EXPECT_EQ(kiw_read_in_msn(&in), 1 + 2 * i);
		EXPECT_FALSE(kiw_read_in_oldest(&in)->atomic);
		EXPECT_FALSE(kiw_read_in_oldest(&in)->done);
		EXPECT_EQ(kiw_read_in_oldest(&in)->read.size, i);
		in.head++;
		kiw_read_in_oldest(&in)->done = true;
		in.tail--;
		kiw_atomic_in_add(&in, &atomic);
		EXPECT_TRUE(kiw_read_in_oldest(&in)->atomic);
		EXPECT_FALSE(kiw_read_in_oldest(&in)->done);
		EXPECT_EQ(kiw_read_in_oldest(&in)->at.req_id, i);
		in.head++;
		EXPECT_EQ(kiw_reads_in_len(&in), 0U);
	}
	kiw_reads_free(&out, &in);
}

} // namespace
