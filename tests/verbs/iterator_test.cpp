// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Polling one completion after the other (ibv_start_poll() and what follows), against the fake kernel.
#include <array>
#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "provider_fixture.hpp"

namespace {

/// The completion queue is one of ibv_create_cq_ex().
class Iterator : public Provider {
protected:
	Iterator() { use(0); }

	ibv_cq_ex *make(std::uint32_t flags, std::uint64_t wc_flags = IBV_WC_STANDARD_FLAGS)
	{
		ibv_cq_init_attr_ex attr{};

		attr.cqe = 16;
		attr.wc_flags = wc_flags;
		if (flags) {
			attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
			attr.flags = flags;
		}
		return kiw::create_cq_ex(kernel.context(), &attr);
	}

	void use(std::uint32_t flags)
	{
		kiw::destroy_qp(qp);
		kiw::destroy_cq(cq);
		ex = make(flags);
		ASSERT_NE(ex, nullptr);
		cq = ibv_cq_ex_to_cq(ex);
		qp = new_qp();
		connect();
	}

	int start()
	{
		ibv_poll_cq_attr attr{};

		return ibv_start_poll(ex, &attr);
	}

	ibv_cq_ex *ex = nullptr;
};

TEST_F(Iterator, ReadsEachCompletion)
{
	kiw_cqe cqe = send_cqe(0, 11);
	cqe.opcode = KIW_WR_WRITE;
	cqe.status = IBV_WC_WR_FLUSH_ERR;
	cqe.byte_len = 123;
	kernel.complete(cq, qp, cqe);
	cqe = send_cqe(0, 12);
	cqe.opcode = KIW_WR_RECV;
	cqe.flags = KIW_CQE_WITH_INV;
	cqe.inv_stag = 0x1234;
	kernel.complete(cq, qp, cqe);
	cqe = send_cqe(1, 13);
	cqe.opcode = KIW_WR_RECV;
	cqe.flags = KIW_CQE_GRH;
	cqe.src_qp = 50123;
	kernel.complete(cq, qp, cqe);

	ASSERT_EQ(start(), 0);
	EXPECT_EQ(ex->wr_id, 11);
	EXPECT_EQ(ex->status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RDMA_WRITE);
	EXPECT_EQ(ibv_wc_read_byte_len(ex), 123);
	EXPECT_EQ(ibv_wc_read_qp_num(ex), qp->qp_num);
	EXPECT_EQ(ibv_wc_read_wc_flags(ex), 0);
	EXPECT_EQ(ibv_wc_read_vendor_err(ex), 0);
	EXPECT_EQ(ibv_wc_read_slid(ex), 0);
	EXPECT_EQ(ibv_wc_read_sl(ex), 0);
	EXPECT_EQ(ibv_wc_read_dlid_path_bits(ex), 0);
	ASSERT_EQ(ibv_next_poll(ex), 0);
	EXPECT_EQ(ex->wr_id, 12);
	EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_wc_read_wc_flags(ex), IBV_WC_WITH_INV);
	EXPECT_EQ(ibv_wc_read_invalidated_rkey(ex), 0x1234);
	ASSERT_EQ(ibv_next_poll(ex), 0);
	EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RECV);
	EXPECT_EQ(ibv_wc_read_wc_flags(ex), IBV_WC_GRH);
	EXPECT_EQ(ibv_wc_read_src_qp(ex), 50123);
	EXPECT_EQ(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	EXPECT_EQ(kernel.cq(cq).header().cons, 3);
	EXPECT_EQ(start(), ENOENT);
}

TEST_F(Iterator, MayBeArmedBetweenTwoCompletions)
{
	kernel.complete(cq, qp, send_cqe(0, 1));
	kernel.complete(cq, qp, send_cqe(1, 2));
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(kiw::req_notify_cq(cq, 0), 0);
	EXPECT_EQ(ibv_next_poll(ex), 0);
	ibv_end_poll(ex);
}

TEST_F(Iterator, GivesASlotBackWhenItIsThrough)
{
	FakeCompletionRing &ring = kernel.cq(cq);
	for (int i = 0; i < 3; i++)
		kernel.complete(cq, qp, send_cqe(0, i));
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(ring.header().cons, 0);
	ASSERT_EQ(ibv_next_poll(ex), 0);
	EXPECT_EQ(ring.header().cons, 1);
	ibv_end_poll(ex);
	EXPECT_EQ(ring.header().cons, 2);
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(ex->wr_id, 2);
	ibv_end_poll(ex);
	EXPECT_EQ(ring.header().cons, 3);
}

TEST_F(Iterator, GoesOnWithWhatComesMeanwhile)
{
	kernel.complete(cq, qp, send_cqe(0, 0));
	ASSERT_EQ(start(), 0);
	for (std::uint64_t id = 1; id < 100; id++) {
		kernel.complete(cq, qp, send_cqe(0, id));
		ASSERT_EQ(ibv_next_poll(ex), 0);
		EXPECT_EQ(ex->wr_id, id);
	}
	EXPECT_EQ(ibv_next_poll(ex), ENOENT);
	kernel.complete(cq, qp, send_cqe(0, 100));
	EXPECT_EQ(ibv_next_poll(ex), 0);
	ibv_end_poll(ex);
	EXPECT_EQ(start(), ENOENT);
}

TEST_F(Iterator, FreesTheSlotsOfRequests)
{
	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(post(send_wr(i, 0)), 0);
	EXPECT_EQ(post(send_wr()), ENOMEM);
	kernel.complete(cq, qp, send_cqe(4));
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(post(send_wr()), 0); // also within
	ibv_end_poll(ex);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(post(send_wr()), ENOMEM);
}

TEST_F(Iterator, SkipsTheCompletionsOfADestroyedQp)
{
	ibv_qp *other = new_qp();
	kernel.complete(cq, other, send_cqe(0, 1));
	kernel.complete(cq, qp, send_cqe(0, 2));
	kernel.complete(cq, other, send_cqe(1, 3));
	kernel.complete(cq, other, send_cqe(2, 4));
	EXPECT_EQ(kiw::destroy_qp(other), 0);
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(ex->wr_id, 2);
	EXPECT_EQ(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	EXPECT_EQ(kernel.cq(cq).header().cons, 4);
}

// The completion of a record has two slots, belongs to no request, and may stand across the ring's end.
TEST_F(Iterator, RecordsTakeTwoSlotsAndNoRequest)
{
	ibv_wc wc{};

	for (std::uint32_t i = 0; i < depth; i++)
		ASSERT_EQ(post_receive(i), 0);
	for (int i = 0; i < 50; i++) {
		kiw_cqe cqe = send_cqe(0xfffffff0, 0);
		cqe.opcode = KIW_WR_RECORD;
		cqe.byte_len = 77;
		cqe.src_qp = 50123;
		kernel.complete(cq, qp, cqe);
		cqe.flags = KIW_CQE_VOID;
		kernel.complete(cq, qp, cqe);
		kernel.complete(cq, qp, send_cqe(0, 5));
		if (i % 2) {
			ASSERT_EQ(poll(&wc), 1);
			EXPECT_EQ(wc.opcode, IBV_WC_DRIVER1);
			EXPECT_EQ(wc.byte_len, 77);
			EXPECT_EQ(wc.src_qp, 50123);
			EXPECT_EQ(wc.wr_id, 0);
			ASSERT_EQ(poll(&wc), 1);
			EXPECT_EQ(wc.wr_id, 5);
		} else {
			ASSERT_EQ(start(), 0);
			EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_DRIVER1);
			EXPECT_EQ(ibv_wc_read_src_qp(ex), 50123);
			ASSERT_EQ(ibv_next_poll(ex), 0);
			EXPECT_EQ(ex->wr_id, 5);
			EXPECT_EQ(ibv_next_poll(ex), ENOENT);
			ibv_end_poll(ex);
		}
	}
	EXPECT_EQ(post_receive(0), ENOMEM);
}

TEST_F(Iterator, BothWaysOfPollingTakeTurns)
{
	ibv_wc wc{};
	for (int i = 0; i < 4; i++)
		kernel.complete(cq, qp, send_cqe(0, i));
	ASSERT_EQ(poll(&wc), 1);
	EXPECT_EQ(wc.wr_id, 0);
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(ex->wr_id, 1);
	ASSERT_EQ(ibv_next_poll(ex), 0);
	ibv_end_poll(ex);
	ASSERT_EQ(poll(&wc), 1);
	EXPECT_EQ(wc.wr_id, 3);
}

TEST_F(Iterator, ImpossibleProducerIndexIsAnError)
{
	kernel.cq(cq).header().prod = 17;
	EXPECT_EQ(start(), EIO);
	kernel.cq(cq).header().prod = 0xffffffff;
	EXPECT_EQ(start(), EIO);
	kernel.cq(cq).header().prod = 0;
	EXPECT_EQ(start(), ENOENT); // it doesn't hold the lock
	kernel.complete(cq, qp, send_cqe(0));
	ASSERT_EQ(start(), 0);
	kernel.cq(cq).header().prod = 100;
	EXPECT_EQ(ibv_next_poll(ex), EIO);
	ibv_end_poll(ex);
}

TEST_F(Iterator, AttributesOfAPollAreRefused)
{
	ibv_poll_cq_attr attr{};
	attr.comp_mask = 1;
	kernel.complete(cq, qp, send_cqe(0));
	EXPECT_EQ(ibv_start_poll(ex, &attr), EINVAL);
	EXPECT_EQ(start(), 0);
	ibv_end_poll(ex);
}

TEST_F(Iterator, WhatCompletionsDoNotHaveCannotBeAskedFor)
{
	const int before = kernel.commands;
	for (int bit = 0; bit < 64; bit++) {
		const std::uint64_t flag = std::uint64_t{1} << bit;
		if (flag & IBV_WC_STANDARD_FLAGS)
			continue;
		errno = 0;
		EXPECT_EQ(make(0, flag), nullptr) << bit;
		EXPECT_EQ(errno, EOPNOTSUPP) << bit;
	}
	for (const std::uint32_t flag : {std::uint32_t{IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}, 1U << 2, 1U << 31}) {
		errno = 0;
		EXPECT_EQ(make(flag), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	ibv_cq_init_attr_ex attr{};
	attr.cqe = 16;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD << 1;
	EXPECT_EQ(kiw::create_cq_ex(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	attr.comp_mask = 0;
	attr.cqe = 0x80000000;
	EXPECT_EQ(kiw::create_cq_ex(kernel.context(), &attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(kernel.commands, before);
}

TEST_F(Iterator, WhoeverPollsInVainLetsOthersRun)
{
	const int before = kernel.yields;
	for (int polls = 0; polls < 1 << 16 && kernel.yields == before; polls++)
		EXPECT_EQ(start(), ENOENT);
	EXPECT_EQ(kernel.yields, before + 1);
}

TEST_F(Iterator, AChildIsRefusedAndDoesNotWait)
{
	kernel.complete(cq, qp, send_cqe(0));
	ASSERT_EQ(start(), 0); // the lock is held when the child begins
	const pid_t child = fork();
	if (child == 0)
		_exit(start() == EPERM ? 0 : 1);
	int status = -1;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	ibv_end_poll(ex);
}

/// Several threads poll what one adds: each completion comes once, and a thread's in order.
TEST_F(Iterator, ThreadsTakeTurns)
{
	constexpr int threads = 3;
	constexpr std::uint64_t count = 30000;
	std::array<std::uint64_t, threads> seen{};
	std::atomic<std::uint64_t> total = 0;

	std::vector<std::thread> pollers;
	for (std::size_t t = 0; t < threads; t++)
		pollers.emplace_back([&, t] {
			std::uint64_t last = 0;
			while (total < count) {
				if (start())
					continue;
				int more = 0;
				for (int n = 0; n < 4 && !more; n++) {
					EXPECT_GT(ex->wr_id, last);
					last = ex->wr_id;
					seen.at(t)++;
					total++;
					more = ibv_next_poll(ex);
				}
				ibv_end_poll(ex);
				if (!more)
					seen.at(t)++, total++; // what next_poll had found is through
			}
		});
	for (std::uint64_t id = 1; id <= count; id++) {
		while (!kernel.cq(cq).has_room())
			std::this_thread::yield();
		kernel.complete(cq, qp, send_cqe(0, id));
	}
	for (auto &poller : pollers)
		poller.join();
	EXPECT_EQ(total, count);
	EXPECT_EQ(kernel.cq(cq).header().cons, count);
}

TEST_F(Iterator, ASingleThreadNeedsNoLock)
{
	use(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	kernel.complete(cq, qp, send_cqe(0, 5));
	ASSERT_EQ(start(), 0);
	// Another thread, which the program has promised not to have, finds no lock that is held.
	std::thread([&] { kiw::Cq::from(cq).lock.lock(); }).join();
	EXPECT_EQ(ex->wr_id, 5);
	EXPECT_EQ(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	EXPECT_EQ(start(), ENOENT);
	kiw::Cq::from(cq).lock.unlock();
}

} // namespace
