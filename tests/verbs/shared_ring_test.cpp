// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The ring of a shared receive queue, against the fake kernel.
#include <array>
#include <atomic>
#include <cerrno>
#include <rdma/ib_user_verbs.h>

#include "provider_fixture.hpp"
#include "srq.hpp"

namespace {

class SharedRing : public Provider {
protected:
	SharedRing()
	{
		kernel.features() = KIW_FEATURES;
		srq = make_srq();
	}
	~SharedRing() override
	{
		kernel.refuse_destroy = 0;
		kiw::destroy_qp(qp);
		qp = nullptr;
		if (srq)
			kiw::destroy_srq(srq);
	}

	ibv_srq *make_srq()
	{
		ibv_srq_init_attr attr{};

		attr.attr.max_wr = depth;
		attr.attr.max_sge = 3;
		return kiw::create_srq(kernel.pd(), &attr);
	}

	int post_shared(std::uint64_t id, int sges = 0)
	{
		std::array<ibv_sge, 8> list{{{0x1000, 10, 7}, {0x2000, 20, 8}}};
		ibv_recv_wr wr{};
		wr.wr_id = id;
		wr.sg_list = list.data();
		wr.num_sge = sges;
		ibv_recv_wr *bad = nullptr;
		const int error = kiw::post_srq_recv(srq, &wr, &bad);

		EXPECT_EQ(bad, error ? &wr : nullptr);
		return error;
	}

	FakeWorkRing &ring() { return kernel.srq(srq); }
	void take_up_to(std::uint32_t index)
	{
		std::atomic_ref(ring().header().cons).store(index, std::memory_order_release);
	}
	void fill()
	{
		for (std::uint32_t i = 0; i < depth; i++)
			ASSERT_EQ(post_shared(i), 0);
		ASSERT_EQ(post_shared(99), ENOMEM);
	}

	ibv_srq *srq;
};

TEST_F(SharedRing, RequestsReachIt)
{
	ASSERT_EQ(post_shared(5, 2), 0);
	EXPECT_EQ(ring().produced(), 1);
	EXPECT_EQ(ring().entry<kiw_rqe>(0).wr_id, 5);
	EXPECT_EQ(ring().entry<kiw_rqe>(0).num_sge, 2);
	EXPECT_EQ(ring().sge(0, sizeof(kiw_rqe), 1).addr, 0x2000);
	EXPECT_EQ(post_shared(6, 4), EINVAL);
	EXPECT_EQ(post_shared(6, -1), EINVAL);
	EXPECT_EQ(ring().produced(), 1);
}

TEST_F(SharedRing, DoorbellRingsWhileMessagesWait)
{
	EXPECT_EQ(post_shared(1), 0);
	EXPECT_EQ(kernel.doorbells, 0);
	ring().set_flags(KIW_RING_FLUSH);
	EXPECT_EQ(post_shared(2), 0);
	EXPECT_EQ(kernel.doorbells, 1);
	const FakeDoorbell &bell = kernel.last_doorbell;
	EXPECT_EQ(bell.command, IB_USER_VERBS_CMD_POST_SRQ_RECV);
	EXPECT_EQ(bell.in_octets, sizeof(ib_uverbs_post_srq_recv));
	EXPECT_EQ(bell.out_octets, sizeof(ib_uverbs_post_srq_recv_resp));
	EXPECT_EQ(bell.qp_handle, srq->handle);
	EXPECT_EQ(bell.wr_count, 0);
	EXPECT_EQ(bell.wqe_size, sizeof(ib_uverbs_recv_wr));
	ring().set_flags(0);
	EXPECT_EQ(post_shared(3), 0);
	EXPECT_EQ(kernel.doorbells, 1);
}

TEST_F(SharedRing, SlotsAreFreeWhenTheKernelHasTakenTheRequests)
{
	fill();
	take_up_to(3);
	for (std::uint64_t i = 0; i < 3; i++)
		EXPECT_EQ(post_shared(i), 0);
	EXPECT_EQ(post_shared(99), ENOMEM);
}

// A completion says that its own request is over, and nothing of those before it.
TEST_F(SharedRing, CompletionsFreeNoSlots)
{
	kiw_cqe cqe{};
	ibv_wc wc{};

	fill();
	cqe.opcode = KIW_WR_RECV;
	cqe.wq_index = 5;
	cqe.wr_id = 5;
	kernel.complete(cq, qp, cqe);
	ASSERT_EQ(poll(&wc), 1);
	EXPECT_EQ(wc.wr_id, 5);
	EXPECT_EQ(wc.qp_num, qp->qp_num);
	EXPECT_EQ(post_shared(99), ENOMEM);
}

TEST_F(SharedRing, IndexBeyondWhatIsPostedFreesNothing)
{
	fill();
	take_up_to(depth + 1);
	EXPECT_EQ(post_shared(99), ENOMEM);
}

TEST_F(SharedRing, RequestsOfARefusedDoorbellAreTakenBack)
{
	ASSERT_EQ(post_shared(1), 0);
	ring().set_flags(KIW_RING_FLUSH);
	kernel.on_doorbell = [](const FakeDoorbell &) {
		return EIO;
	};
	EXPECT_EQ(post_shared(2), EIO);
	EXPECT_EQ(ring().produced(), 1);
}

TEST_F(SharedRing, QpOfItTakesNoReceives)
{
	ibv_qp_init_attr attr{};

	attr.send_cq = attr.recv_cq = cq;
	attr.srq = srq;
	attr.cap = {depth, depth, 4, 3, 100};
	attr.qp_type = IBV_QPT_RC;
	kiw::destroy_qp(qp);
	qp = kiw::create_qp(kernel.pd(), &attr);
	ASSERT_NE(qp, nullptr);
	EXPECT_EQ(post_receive(1), EINVAL);
}

TEST_F(SharedRing, ModuleWithoutItIsNotAsked)
{
	const int commands = kernel.commands;

	kernel.features() = KIW_FEATURE_UD;
	errno = 0;
	EXPECT_EQ(make_srq(), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(kernel.commands, commands);
}

TEST_F(SharedRing, RefusalsOfTheKernelAreToldAndLeaveItUsable)
{
	ibv_srq_attr attr{};

	kernel.refuse_create = ENOMEM;
	errno = 0;
	EXPECT_EQ(make_srq(), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	kernel.refuse_modify = EOPNOTSUPP;
	EXPECT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	EXPECT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_LIMIT), EOPNOTSUPP);
	kernel.refuse_destroy = EBUSY;
	EXPECT_EQ(kiw::destroy_srq(srq), EBUSY);
	EXPECT_EQ(kiw::query_srq(srq, &attr), 0);
	EXPECT_EQ(post_shared(1), 0);
}

TEST_F(SharedRing, RingsThatCannotBeAreRefused)
{
	const std::size_t before = kernel.srqs.size();

	for (const auto &wrong : {+[](kiw_ring_geometry &geometry) { geometry.entries = 7; },
		     +[](kiw_ring_geometry &geometry) { geometry.entries /= 2; },
		     +[](kiw_ring_geometry &geometry) {
			     geometry.stride -= sizeof(kiw_sge);
		     }}) {
		kernel.distort = wrong;
		errno = 0;
		EXPECT_EQ(make_srq(), nullptr);
		EXPECT_EQ(errno, EPROTO);
		EXPECT_EQ(kernel.srqs.size(), before);
	}
	kernel.distort = nullptr;
}

TEST_F(SharedRing, AnotherSizeHasWhatIsPosted)
{
	for (std::uint64_t id = 0; id < depth; id++)
		ASSERT_EQ(post_shared(id, 2), 0);
	take_up_to(3);
	for (const std::uint32_t size : {64U, 8U, 1000U}) {
		ibv_srq_attr attr{.max_wr = size, .max_sge = 0, .srq_limit = 0};

		ASSERT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	}
	for (std::uint32_t index = 3; index < depth; index++)
		EXPECT_EQ(ring().entry<kiw_rqe>(index).wr_id, index);
	// As many as the new one has room for, not more
	for (std::uint64_t id = depth; id < 3 + 1024; id++)
		ASSERT_EQ(post_shared(id), 0);
	EXPECT_EQ(post_shared(9), ENOMEM);
	EXPECT_EQ(ring().produced(), 3 + 1024);
	EXPECT_EQ(ring().entry<kiw_rqe>(1000).wr_id, 1000);
}

TEST_F(SharedRing, SmallerSizeHasRoomForLess)
{
	ibv_srq_attr attr{.max_wr = 4, .max_sge = 0, .srq_limit = 0};

	EXPECT_EQ(post_shared(0), 0);
	ASSERT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	for (std::uint64_t id = 1; id < 4; id++)
		EXPECT_EQ(post_shared(id), 0);
	EXPECT_EQ(post_shared(4), ENOMEM);
	take_up_to(1);
	EXPECT_EQ(post_shared(4), 0);
}

TEST_F(SharedRing, ModuleThatCannotResizeIsNotAsked)
{
	ibv_srq_attr attr{.max_wr = 64, .max_sge = 0, .srq_limit = 0};
	const int commands = kernel.commands;

	kernel.features() &= ~std::uint32_t{KIW_FEATURE_SRQ_RESIZE};
	EXPECT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EOPNOTSUPP);
	EXPECT_EQ(kernel.commands, commands);
	EXPECT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
}

// The kernel has given up the old ring, and the new one can't be had: nothing may be written to either.
TEST_F(SharedRing, NewRingThatCannotBeMappedEndsTheQueue)
{
	ibv_srq_attr attr{.max_wr = 64, .max_sge = 0, .srq_limit = 0};

	EXPECT_EQ(post_shared(0), 0);
	kernel.distort = [](kiw_ring_geometry &geometry) {
		geometry.entries = 7;
	};
	EXPECT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EPROTO);
	kernel.distort = nullptr;
	EXPECT_EQ(post_shared(1), ENOMEM);
	EXPECT_EQ(ring().produced(), 1);
	ASSERT_EQ(kiw::modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	EXPECT_EQ(post_shared(1), 0);
}

} // namespace
