// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Completions of a QP that is destroyed or reset, which nobody has polled, against the fake kernel.
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "provider_fixture.hpp"

namespace {

class Forget : public Provider {
protected:
	static constexpr std::uint32_t entries = 16;

	Forget() { use(0); }

	~Forget() override
	{
		if (other)
			kiw::destroy_qp(other);
	}

	void use(std::uint32_t flags)
	{
		ibv_cq_init_attr_ex attr{};

		attr.cqe = entries;
		attr.wc_flags = IBV_WC_STANDARD_FLAGS;
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		attr.flags = flags;
		if (other)
			kiw::destroy_qp(other);
		kiw::destroy_qp(qp);
		kiw::destroy_cq(cq);
		ex = kiw::create_cq_ex(kernel.context(), &attr);
		ASSERT_NE(ex, nullptr);
		cq = ibv_cq_ex_to_cq(ex);
		qp = new_qp();
		other = new_qp();
	}

	void add(const ibv_qp *of, std::uint64_t id)
	{
		ASSERT_TRUE(kernel.cq(cq).has_room());
		kernel.complete(cq, of, send_cqe(0, id));
	}

	void add_record(const ibv_qp *of, std::uint32_t number)
	{
		kiw_cqe first = send_cqe(number);
		kiw_cqe second{};

		first.opcode = second.opcode = KIW_WR_RECORD;
		second.flags = KIW_CQE_VOID;
		second.wr_id = number; // kiw_cqe_record.addr stands there
		kernel.complete(cq, of, first);
		kernel.complete(cq, of, second);
	}

	void destroy_other()
	{
		ASSERT_EQ(kiw::destroy_qp(other), 0);
		other = nullptr;
	}

	static int reset(ibv_qp *which)
	{
		ibv_qp_attr attr{};

		attr.qp_state = IBV_QPS_RESET;
		return kiw::modify_qp(which, &attr, IBV_QP_STATE);
	}

	int start()
	{
		ibv_poll_cq_attr attr{};

		return ibv_start_poll(ex, &attr);
	}

	void expect(std::uint64_t id)
	{
		ibv_wc wc{};

		ASSERT_EQ(poll(&wc), 1);
		EXPECT_EQ(wc.qp_num, qp->qp_num);
		EXPECT_EQ(wc.wr_id, id);
	}
	void expect_nothing()
	{
		ibv_wc wc{};

		EXPECT_EQ(poll(&wc), 0);
	}

	std::uint32_t used() { return kernel.cq(cq).prod - kernel.cq(cq).header().cons; }

	ibv_cq_ex *ex = nullptr;
	ibv_qp *other = nullptr;
};

TEST_F(Forget, PlacesAreFreeAtOnceAndTheOthersStayInOrder)
{
	for (std::uint64_t i = 0; i < entries; i++)
		add(i % 3 ? other : qp, i);
	destroy_other();
	EXPECT_EQ(used(), 6);
	for (std::uint64_t i = 0; i < entries - 6; i++)
		add(qp, 100 + i);
	for (const std::uint64_t i : {0, 3, 6, 9, 12, 15})
		expect(i);
	for (std::uint64_t i = 0; i < entries - 6; i++)
		expect(100 + i);
	expect_nothing();
}

TEST_F(Forget, NoPollIsNeededBetweenResets)
{
	add(qp, 7);
	for (int round = 0; round < 20; round++) {
		for (std::uint32_t i = 1; i < entries; i++)
			add(other, i);
		ASSERT_EQ(reset(other), 0);
		EXPECT_EQ(used(), 1);
	}
	expect(7);
	expect_nothing();
}

// Also where its two slots stand across the ring's end, before or afterwards
TEST_F(Forget, ARecordMovesAsAWhole)
{
	for (std::uint32_t round = 0; round < 3 * entries; round++) {
		add(qp, 1);
		add_record(qp, round);
		add_record(other, 0);
		add(other, 2);
		add_record(qp, round + 1000);
		add(other, 3);
		ASSERT_EQ(reset(other), 0);
		EXPECT_EQ(used(), 5);
		ASSERT_EQ(start(), 0);
		EXPECT_EQ(ex->wr_id, 1);
		for (const std::uint32_t number : {round, round + 1000}) {
			ASSERT_EQ(ibv_next_poll(ex), 0);
			const kiw::Cq &of = kiw::Cq::from(cq);
			const kiw_cqe &first = of.ring.slot(of.consumed);
			const kiw_cqe &second = of.ring.slot(of.consumed + 1);
			EXPECT_EQ(first.opcode, KIW_WR_RECORD);
			EXPECT_EQ(first.wq_index, number);
			EXPECT_EQ(second.opcode, KIW_WR_RECORD);
			EXPECT_EQ(second.flags, KIW_CQE_VOID);
			EXPECT_EQ(second.wr_id, number);
		}
		EXPECT_EQ(ibv_next_poll(ex), ENOENT);
		ibv_end_poll(ex);
		EXPECT_EQ(used(), 0);
	}
}

// Its first slot has been polled.
TEST_F(Forget, TheRestOfARecordIsFreedToo)
{
	add_record(qp, 0);
	add(other, 1);
	add(qp, 2);
	expect(0);
	EXPECT_EQ(used(), 3);
	destroy_other();
	EXPECT_EQ(used(), 1);
	expect(2);
	expect_nothing();
}

// A program that polls by one thread has no lock to wait for.
TEST_F(Forget, ACompletionThatIsBeingReadStaysWhereItIs)
{
	use(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	add_record(qp, 5);
	add(other, 1);
	add(qp, 2);
	add(other, 3);
	ASSERT_EQ(start(), 0);
	ASSERT_EQ(reset(other), 0);
	const kiw::Cq &of = kiw::Cq::from(cq);
	EXPECT_EQ(of.current, &of.ring.slot(of.consumed));
	EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_DRIVER1);
	EXPECT_EQ(of.ring.slot(of.consumed + 1).wr_id, 5);
	ibv_end_poll(ex);
	// The next one frees what that had to leave.
	destroy_other();
	EXPECT_EQ(used(), 1);
	expect(2);
	expect_nothing();
}

TEST_F(Forget, AnImpossibleProducerIndexMovesNothing)
{
	add(other, 1);
	kernel.cq(cq).header().prod = entries + 1;
	destroy_other();
	EXPECT_EQ(kernel.cq(cq).header().cons, 0);
	EXPECT_EQ(start(), EIO);
}

TEST_F(Forget, NothingIsLostOfWhatTheKernelAddsMeanwhile)
{
	constexpr std::uint64_t count = 20000;
	std::atomic<bool> done = false;
	std::thread adder([&] {
		FakeCompletionRing &ring = kernel.cq(cq);
		kiw_cqe mine = send_cqe(0), others = send_cqe(0);

		mine.qp_num = qp->qp_num;
		mine.cookie = kernel.qp(qp).cookie;
		others.cookie = kernel.qp(other).cookie;
		for (mine.wr_id = 0; mine.wr_id < count; mine.wr_id++)
			for (const kiw_cqe *cqe : {&others, &mine}) {
				while (!ring.has_room())
					std::this_thread::yield();
				ring.add(*cqe);
			}
		done = true;
	});
	std::uint64_t next = 0;
	while (next < count) {
		const bool last = done;
		ibv_wc wc{};

		EXPECT_EQ(reset(other), 0);
		const int found = poll(&wc);
		if (found == 0 && last)
			break;
		if (found == 0 || wc.qp_num != qp->qp_num)
			continue;
		EXPECT_EQ(wc.wr_id, next++);
	}
	adder.join();
	EXPECT_EQ(next, count);
}

} // namespace
