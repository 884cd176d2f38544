// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Processes that write nonsense into their rings, and processes that are killed.
#include <array>
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <tuple>

#include "../lib/connection.hpp"
#include "child.hpp"
#include "qp.hpp"

namespace vt {
namespace {

class Scribbling : public testing::TestWithParam<int> {};

// The connection of another process must go on working, and the scribbler must come to its end. The guest checks the
// kernel log.
TEST_P(Scribbling, HurtsNobodyElse)
{
	Pair pair;
	const Region from(pair.a().pd(), 100000);
	const Region to(pair.b().pd(), 100000);
	Child child({"part-scribbler", std::to_string(GetParam())});
	std::uint32_t rounds = 0;

	// A child that hangs is a failure: the wait ends.
	wait_until(
		[&] {
			from.fill_pattern(rounds++);
			EXPECT_EQ(pair.b().receive({to.sge()}), 0);
			EXPECT_EQ(pair.a().send({from.sge()}), 0);
			EXPECT_EQ(pair.b().received().status, IBV_WC_SUCCESS);
			EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
			EXPECT_TRUE(same(from.bytes(), to.bytes()));
			return !child.running();
		},
		"the scribbler");
	EXPECT_TRUE(WIFEXITED(child.status()));
	EXPECT_EQ(WEXITSTATUS(child.status()), 0);
	pair.sync();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Scribbling, testing::Range(1, 7));

// What is under way counts too: else requests are taken again and again, without an end.
TEST(ScribbledIndex, GoingBackTakesNothingTwice)
{
	Options options;
	options.cap.max_send_wr = 4;
	Pair pair(options);
	const Region from(pair.b().pd(), 32 << 20);
	const Region to(pair.a().pd(), 32 << 20);
	kiw::WorkRing &ring = kiw::Qp::from(pair.a().qp()).sq.ring;

	for (std::uint64_t i = 0; i < ring.entries(); i++)
		ASSERT_EQ(pair.a().read({to.sge()}, {.id = i, .remote = from.address(), .rkey = from.rkey()}), 0);
	// A post would leave the ring to a thread that sends just then, and not report what it hasn't read yet.
	ring_doorbell(pair.a(), true);
	ring.publish(ring.entries() - 1);
	ring_doorbell(pair.a(), true);
	pair.a().wait_state(IBV_QPS_ERR);
	for (std::uint64_t i = 0; i < ring.entries(); i++)
		EXPECT_EQ(pair.a().sent().wr_id, i);
	EXPECT_TRUE(poll_all(pair.a().send_cq()).empty());
}

/// Posts a slot as it is; a doorbell may have to follow.
template <typename Slot>
void post_raw(kiw::WorkQueue &queue, const Slot &slot)
{
	std::memcpy(queue.ring.slot(queue.next), &slot, sizeof(slot));
	queue.ring.publish(queue.next + 1);
}

// One thread has the kernel flush, the other fills the ring as soon as there is room.
TEST(PostedDuringAFlush, CompletesOnce)
{
	constexpr std::uint64_t count = 100000;
	Options options{.cq_entries = 2048};
	options.cap.max_send_wr = 256;
	Pair pair(options);
	kiw::WorkQueue &queue = kiw::Qp::from(pair.a().qp()).sq;
	kiw_wqe wqe{};
	std::uint64_t flushed = 0, posted = 0;

	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	wqe.opcode = KIW_WR_SEND;
	wqe.flags = KIW_WQE_SIGNALED;
	const std::jthread rings([&](const std::stop_token &stop) {
		while (!stop.stop_requested())
			ring_doorbell(pair.a(), true);
	});
	while (flushed < count) {
		for (; posted - flushed < queue.ring.entries(); posted++) {
			wqe.wr_id = posted;
			post_raw(queue, wqe);
			queue.next++;
		}
		std::vector<ibv_wc> completions;
		wait_until([&] { return !(completions = poll_all(pair.a().send_cq())).empty(); }, "a completion");
		for (const ibv_wc &wc : completions)
			ASSERT_EQ(wc.wr_id, flushed++);
	}
}

// A later version may give reserved fields a meaning, so a program must not be used to filling them with anything.
TEST(ReservedFields, AreRefusedInASend)
{
	Pair pair;
	kiw_wqe wqe{};

	pair.sync();
	wqe.opcode = KIW_WR_SEND;
	wqe.flags = KIW_WQE_SIGNALED;
	wqe.wr_id = 7;
	wqe.imm = 1; // which no plain Send has
	post_raw(kiw::Qp::from(pair.a().qp()).sq, wqe);
	ring_doorbell(pair.a(), true);
	EXPECT_WC(pair.a().sent(), 7, IBV_WC_LOC_QP_OP_ERR);
}

// The provider never writes such requests.
TEST(ReservedFields, AtomicsOfAnotherShapeAreRefused)
{
	for (const auto &[sges, length, flags] :
		{std::tuple{0, 8, 0}, {2, 4, 0}, {1, 4, 0}, {1, 16, 0}, {1, 8, KIW_WQE_INLINE}}) {
		SCOPED_TRACE(testing::Message() << sges << " buffers of " << length << ", flags " << flags);
		Pair pair;
		const Region region(pair.a().pd(), 4096);
		struct {
			kiw_wqe wqe;
			std::array<kiw_sge, 2> sge;
		} slot{};

		pair.sync();
		slot.wqe.opcode = KIW_WR_FETCH_ADD;
		slot.wqe.flags = static_cast<std::uint8_t>(KIW_WQE_SIGNALED | flags);
		slot.wqe.num_sge = static_cast<std::uint8_t>(sges);
		slot.wqe.wr_id = 7;
		for (kiw_sge &sge : slot.sge)
			sge = {.addr = region.address(),
				.length = static_cast<std::uint32_t>(length),
				.lkey = region.mr()->lkey};
		post_raw(kiw::Qp::from(pair.a().qp()).sq, slot);
		ring_doorbell(pair.a(), true);
		EXPECT_WC(pair.a().sent(), 7, IBV_WC_LOC_QP_OP_ERR);
	}
}

TEST(ReservedFields, BindsAndInvalidationsWithMoreThanTheyHaveAreRefused)
{
	for (const kiw_wr_op op : {KIW_WR_BIND_MW, KIW_WR_LOCAL_INV}) {
		for (const auto &[sges, flags] : {std::pair{1, 0}, {0, KIW_WQE_INLINE}, {0, KIW_WQE_SOLICITED}}) {
			SCOPED_TRACE(testing::Message() << op << ", " << sges << " buffers, flags " << flags);
			Pair pair;
			struct {
				kiw_wqe wqe;
				std::array<kiw_sge, 2> sge;
			} slot{};

			pair.sync();
			slot.wqe.opcode = op;
			slot.wqe.flags = static_cast<std::uint8_t>(KIW_WQE_SIGNALED | flags);
			slot.wqe.num_sge = static_cast<std::uint8_t>(sges);
			slot.wqe.wr_id = 7;
			post_raw(kiw::Qp::from(pair.a().qp()).sq, slot);
			ring_doorbell(pair.a(), true);
			EXPECT_WC(pair.a().sent(), 7, IBV_WC_LOC_QP_OP_ERR);
		}
	}
}

// Nothing at all, as a slot of zeros names it: no window has the index 0.
TEST(ReservedFields, ABindOfNothingFails)
{
	Pair pair;
	struct {
		kiw_wqe wqe;
		kiw_bind_args args;
	} slot{};

	pair.sync();
	slot.wqe.opcode = KIW_WR_BIND_MW;
	slot.wqe.wr_id = 7;
	post_raw(kiw::Qp::from(pair.a().qp()).sq, slot);
	ring_doorbell(pair.a(), true);
	EXPECT_WC(pair.a().sent(), 7, IBV_WC_MW_BIND_ERR);
}

TEST(ReservedFields, OpcodesOfCompletionsAreRefused)
{
	for (const kiw_wr_op op : {KIW_WR_RECV, KIW_WR_RECORD, KIW_WR_RECV_IMM}) {
		SCOPED_TRACE(op);
		Pair pair;
		kiw_wqe wqe{};

		pair.sync();
		wqe.opcode = op;
		wqe.wr_id = 7;
		post_raw(kiw::Qp::from(pair.a().qp()).sq, wqe);
		ring_doorbell(pair.a(), true);
		EXPECT_WC(pair.a().sent(), 7, IBV_WC_LOC_QP_OP_ERR);
	}
}

TEST(ReservedFields, AreRefusedInAReceive)
{
	Pair pair;
	kiw_rqe rqe{};

	pair.sync();
	rqe.wr_id = 8;
	rqe.reserved[6] = 1;
	post_raw(kiw::Qp::from(pair.b().qp()).rq, rqe);
	EXPECT_EQ(pair.a().send({}, {.id = 1}), 0);
	EXPECT_WC(pair.b().received(), 8, IBV_WC_LOC_QP_OP_ERR);
}

/// Whether RDMA core still knows QPs of a process; false too where there is no rdma tool.
bool has_qps(pid_t pid)
{
	std::string all;
	FILE *pipe = popen("rdma resource show qp 2>/dev/null", "re"); // NOLINT(cert-env33-c)
	std::array<char, 4096> part;

	if (!pipe)
		return false;
	for (std::size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe)) > 0;)
		all.append(part.data(), n);
	pclose(pipe);
	return all.find(" pid " + std::to_string(pid) + " ") != std::string::npos;
}

TEST(Killed, SenderInMidTransfer)
{
	for (int round = 0; round < 3; round++) {
		Listener listener;
		Child child({"part-sender", std::to_string(listener.port())});
		std::unique_ptr<Side> side;
		std::unique_ptr<Region> to;
		side = accept(listener, {}, [&](const Side &ready) {
			to = std::make_unique<Region>(ready.pd(), 65536);
			for (std::uint32_t i = 0; i < ready.cap().max_recv_wr; i++)
				EXPECT_EQ(ready.receive({to->sge()}, i), 0);
		});
		const std::uint32_t depth = side->cap().max_recv_wr;

		side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
		for (std::uint32_t i = 0; i < 100; i++) {
			EXPECT_WC(side->received(), i % depth, IBV_WC_SUCCESS);
			ASSERT_EQ(side->receive({to->sge()}, i % depth), 0);
			ASSERT_EQ(side->send({}, {.flags = i % 16 ? 0U : unsigned{IBV_SEND_SIGNALED}}), 0);
			(void)poll_all(side->send_cq());
		}
		child.kill();
		EXPECT_FALSE(has_qps(child.pid()));
		side->wait_disconnected();
		// All receives come back: some with what was under way, then the rest flushed.
		bool flushed = false;
		for (std::uint32_t i = 100; i < 100 + depth; i++) {
			const ibv_wc wc = side->received();
			EXPECT_EQ(wc.wr_id, i % depth);
			EXPECT_TRUE(wc.status == IBV_WC_WR_FLUSH_ERR || (!flushed && wc.status == IBV_WC_SUCCESS));
			flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
		}
		EXPECT_TRUE(flushed);
	}
}

TEST(Killed, TargetInMidTransfer)
{
	for (int round = 0; round < 3; round++) {
		Listener listener;
		Child child({"part-target", std::to_string(listener.port())});
		std::unique_ptr<Side> side;
		std::unique_ptr<Region> message;
		side = accept(listener, {}, [&](const Side &ready) {
			message = std::make_unique<Region>(ready.pd(), 16);
			EXPECT_EQ(ready.receive({message->sge()}), 0);
		});
		side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id());
		EXPECT_EQ(side->received().status, IBV_WC_SUCCESS);
		std::uint64_t remote = 0;
		std::uint32_t rkey = 0;
		std::memcpy(&remote, message->data(), sizeof(remote));
		std::memcpy(&rkey, message->data() + 8, sizeof(rkey));

		const Region from(side->pd(), 1 << 20);
		std::uint64_t next = 0;
		for (; next < 32; next++)
			ASSERT_EQ(side->write({from.sge()}, {.id = next, .remote = remote, .rkey = rkey}), 0);
		EXPECT_WC(side->sent(), 0, IBV_WC_SUCCESS);
		child.kill();
		EXPECT_FALSE(has_qps(child.pid()));
		side->wait_disconnected();
		for (std::uint64_t i = 1; i < next; i++)
			EXPECT_EQ(side->sent().wr_id, i);
		EXPECT_TRUE(poll_all(side->send_cq()).empty());
	}
}

TEST(Killed, BothEndsInMidTransfer)
{
	Pair bystander;

	for (int round = 0; round < 5; round++) {
		Child child({"part-both"});
		for (int i = 0; i < 20 * (round + 1); i++)
			bystander.sync();
		child.kill();
		EXPECT_FALSE(has_qps(child.pid()));
		bystander.sync();
	}
}

} // namespace
} // namespace vt
