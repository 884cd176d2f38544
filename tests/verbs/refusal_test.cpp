// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Doorbells that the kernel refuses, against the fake kernel: a request that was refused is never sent, and one that
// the kernel has is never refused.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <mutex>
#include <rdma/ib_user_verbs.h>
#include <string>
#include <thread>
#include <vector>

#include "provider_fixture.hpp"

namespace {

using Refusals = Provider;

TEST_F(Refusals, WhereWriteIsRefusedTheDoorbellGoesByIoctl)
{
	kernel.refuse_write = EACCES;
	EXPECT_EQ(post(send_wr(1)), 0);
	EXPECT_EQ(kernel.doorbells, 1);
	const FakeDoorbell &bell = kernel.last_doorbell;
	EXPECT_TRUE(bell.by_ioctl);
	EXPECT_EQ(bell.command, IB_USER_VERBS_CMD_POST_SEND);
	EXPECT_EQ(bell.in_octets, sizeof(ib_uverbs_post_send));
	EXPECT_EQ(bell.out_octets, sizeof(ib_uverbs_post_send_resp));
	EXPECT_EQ(bell.qp_handle, qp->handle);
	EXPECT_EQ(bell.wr_count, 0);
	EXPECT_EQ(bell.sge_count, 0);
	EXPECT_EQ(bell.wqe_size, sizeof(ib_uverbs_send_wr));

	rq().set_flags(KIW_RING_FLUSH);
	EXPECT_EQ(post_receive(2), 0);
	EXPECT_EQ(kernel.doorbells, 2);
	EXPECT_TRUE(bell.by_ioctl);
	EXPECT_EQ(bell.command, IB_USER_VERBS_CMD_POST_RECV);
	EXPECT_EQ(bell.wqe_size, sizeof(ib_uverbs_recv_wr));
}

TEST_F(Refusals, WriteIsNotTriedAgain)
{
	kernel.refuse_write = EACCES;
	EXPECT_EQ(post(send_wr()), 0);
	EXPECT_EQ(post(send_wr()), 0);
	kernel.refuse_write = 0;
	EXPECT_EQ(post(send_wr()), 0);
	EXPECT_TRUE(kernel.last_doorbell.by_ioctl);
	EXPECT_EQ(kernel.doorbells, 3);
	EXPECT_EQ(kernel.refused_writes, 1);
}

TEST_F(Refusals, TransientErrorsAreTriedAgain)
{
	for (const int error : {ENOMEM, EAGAIN, EINTR}) {
		int left = 3;

		kernel.on_doorbell = [&](const FakeDoorbell &) {
			return left-- > 0 ? error : 0;
		};
		kernel.doorbells = 0;
		EXPECT_EQ(post(send_wr()), 0);
		EXPECT_EQ(kernel.doorbells, 4);
	}
}

/// By what the doorbell is refused.
class EveryRefusal : public Provider, public testing::WithParamInterface<int> {
protected:
	void refuse(bool refused = true)
	{
		kernel.on_doorbell = nullptr;
		if (refused)
			kernel.on_doorbell = [](const FakeDoorbell &) {
				return GetParam();
			};
	}
};

INSTANTIATE_TEST_SUITE_P(Errno, EveryRefusal,
	testing::Values(
		EINVAL, ENOTCONN, EIO, ENODEV, EACCES, EPERM, EBADF, ENOMEM, EAGAIN, EINTR, ENOSYS, EPROTONOSUPPORT),
	[](const auto &test) { return std::string(strerrorname_np(test.param)); });

TEST_P(EveryRefusal, OfASendIsToldAndLeavesNothingPosted)
{
	EXPECT_EQ(post(send_wr(1)), 0);
	refuse();
	EXPECT_EQ(post(send_wr(2)), GetParam());
	EXPECT_EQ(sq().produced(), 1);
	// Not even for the time of a doorbell, now that it is known
	kernel.on_doorbell = [this](const FakeDoorbell &) {
		EXPECT_EQ(sq().produced(), 1);
		return GetParam();
	};
	EXPECT_EQ(post(send_wr(3)), GetParam());
	EXPECT_EQ(sq().produced(), 1);
	refuse(false);
	EXPECT_EQ(post(send_wr(4)), 0);
	EXPECT_EQ(sq().produced(), 2);
	EXPECT_EQ(sq().entry<kiw_wqe>(1).wr_id, 4);
}

TEST_P(EveryRefusal, BeforeTheFirstSendPostsNothing)
{
	kiw::Qp::from(qp).connected = false;
	kernel.on_doorbell = [this](const FakeDoorbell &) {
		EXPECT_EQ(sq().produced(), 0);
		return GetParam();
	};
	EXPECT_EQ(post(send_wr(1)), GetParam());
	EXPECT_EQ(sq().produced(), 0);
	refuse(false);
	EXPECT_EQ(post(send_wr(2)), 0);
	EXPECT_EQ(sq().produced(), 1);
	EXPECT_EQ(sq().entry<kiw_wqe>(0).wr_id, 2);
}

TEST_P(EveryRefusal, OfAReceiveIsToldAndLeavesNothingPosted)
{
	EXPECT_EQ(post_receive(1), 0);
	rq().set_flags(KIW_RING_FLUSH);
	refuse();
	EXPECT_EQ(post_receive(2), GetParam());
	EXPECT_EQ(rq().produced(), 1);
	EXPECT_EQ(post_receive(3), GetParam());
	EXPECT_EQ(rq().produced(), 1);
	refuse(false);
	EXPECT_EQ(post_receive(4), 0);
	EXPECT_EQ(rq().produced(), 2);
	EXPECT_EQ(rq().entry<kiw_rqe>(1).wr_id, 4);
}

// The kernel looks by itself, too, and the peer may close, or the device go, before the doorbell that says so.
TEST_P(EveryRefusal, OfWhatIsDoneIsNone)
{
	kernel.on_doorbell = [this](const FakeDoorbell &) {
		sq().header().cons = sq().produced();
		rq().header().cons = rq().produced();
		return GetParam();
	};
	EXPECT_EQ(post(send_wr(1)), 0);
	EXPECT_EQ(sq().produced(), 1);
	rq().set_flags(KIW_RING_FLUSH);
	EXPECT_EQ(post_receive(1), 0);
	EXPECT_EQ(rq().produced(), 1);
	EXPECT_EQ(post(send_wr(2)), GetParam());
	EXPECT_EQ(sq().produced(), 1);
}

TEST_P(EveryRefusal, OfAListIsForTheRestOfIt)
{
	std::array<ibv_send_wr, 3> sends{send_wr(1), send_wr(2), send_wr(3)};
	std::array<ibv_recv_wr, 3> receives{};
	for (std::size_t i = 0; i < 2; i++) {
		sends.at(i).next = &sends.at(i + 1);
		receives.at(i).next = &receives.at(i + 1);
	}
	rq().set_flags(KIW_RING_FLUSH);
	kernel.on_doorbell = [this](const FakeDoorbell &) {
		sq().header().cons = 2;
		rq().header().cons = 1;
		return GetParam();
	};
	ibv_send_wr *bad_send = nullptr;
	EXPECT_EQ(kiw::post_send(qp, sends.data(), &bad_send), GetParam());
	EXPECT_EQ(bad_send, &sends[2]);
	EXPECT_EQ(sq().produced(), 2);
	ibv_recv_wr *bad_receive = nullptr;
	EXPECT_EQ(kiw::post_recv(qp, receives.data(), &bad_receive), GetParam());
	EXPECT_EQ(bad_receive, &receives[1]);
	EXPECT_EQ(rq().produced(), 1);
}

/// An error of the QP, or the end of its connection, are the same for all its doorbells.
bool of_the_qp(int error)
{
	return error == EINVAL || error == ENOTCONN;
}

// The kernel began to drain meanwhile: it has promised to look.
TEST_P(EveryRefusal, DoesNotCountWhenTheKernelLooksAllTheSame)
{
	kernel.on_doorbell = [this](const FakeDoorbell &) {
		sq().set_flags(KIW_RING_DRAINING);
		return GetParam();
	};
	EXPECT_EQ(post(send_wr(1)), of_the_qp(GetParam()) ? GetParam() : 0);
	EXPECT_EQ(sq().produced(), of_the_qp(GetParam()) ? 0 : 1);
}

// Others post, and their doorbells show the kernel everything, while one is refused. Here the other one is the thread
// itself, in the middle of its doorbell.
TEST_P(EveryRefusal, LeavesToTheKernelWhatAnotherDoorbellShowedToIt)
{
	bool nested = false;

	kernel.on_doorbell = [&](const FakeDoorbell &) {
		if (nested)
			return 0; // it takes both, and has done neither when it says so
		nested = true;
		EXPECT_EQ(post(send_wr(2)), 0);
		return GetParam();
	};
	EXPECT_EQ(post(send_wr(1)), of_the_qp(GetParam()) ? GetParam() : 0);
	EXPECT_EQ(sq().produced(), of_the_qp(GetParam()) ? 0 : 2);
}

TEST_P(EveryRefusal, LeavesToTheKernelWhatIsBeforeAPromise)
{
	bool nested = false;

	kernel.on_doorbell = [&](const FakeDoorbell &) {
		if (nested)
			return GetParam();
		nested = true;
		sq().set_flags(KIW_RING_DRAINING);
		EXPECT_EQ(post(send_wr(2)), 0);
		sq().set_flags(0);
		return GetParam();
	};
	EXPECT_EQ(post(send_wr(1)), of_the_qp(GetParam()) ? GetParam() : 0);
	EXPECT_EQ(sq().produced(), of_the_qp(GetParam()) ? 0 : 2);
}

// Threads post while doorbells are refused at random. Each request was taken once if its post succeeded, and else
// never.
TEST_F(Refusals, AmongSeveralThreadsAreExact)
{
	constexpr std::uint64_t threads = 4, each = 2000;
	std::mutex taker;
	std::vector<std::atomic<int>> taken(threads * each);
	std::atomic<bool> broken = false;
	std::uint32_t turn = 1, refusals = 0;

	// Under the mutex
	const auto take_all = [&] {
		FakeWorkRing &ring = sq();

		do {
			if (turn & 0x2000)
				ring.set_flags(KIW_RING_DRAINING);
			for (std::uint32_t produced = ring.produced(); ring.next != produced; ring.next++) {
				// As the module sees it: all that is under way counts.
				if (produced - ring.next > depth) {
					broken = true;
					return;
				}
				taken.at(ring.entry<kiw_wqe>(ring.next).wr_id)++;
			}
			ring.set_flags(0);
		} while (ring.next != ring.produced());
	};
	// What is taken is done only now and then.
	std::uint32_t completed = 0;
	const auto complete = [&] {
		for (; completed != sq().next; completed++)
			kernel.complete(cq, qp, send_cqe(completed));
		sq().header().cons = completed;
	};
	kernel.on_doorbell = [&](const FakeDoorbell &) {
		std::unique_lock lock(taker);

		turn = turn * 1664525 + 1013904223;
		const std::uint32_t now = turn;
		if (now & 0x10000) {
			lock.unlock(); // on the way to the ring, or back
			std::this_thread::yield();
			lock.lock();
		}
		if (now >> 30 == 0) {
			refusals++;
			return now & 0x8000 ? EIO : EPERM;
		}
		take_all();
		if (now >> 28 & 1)
			complete();
		return 0;
	};

	std::atomic<bool> done = false;
	std::thread poller([&] {
		std::array<ibv_wc, 16> wc;

		while (!done) {
			if (poll(wc.data(), 16) == 0) {
				const std::lock_guard lock(taker);
				complete();
			}
			std::this_thread::yield();
		}
	});
	std::vector<int> answers(threads * each, -1);
	std::vector<std::thread> posters;
	for (std::uint64_t t = 0; t < threads; t++)
		posters.emplace_back([&, t] {
			for (std::uint64_t id = t * each; id < (t + 1) * each && !broken;) {
				const int answer = post(send_wr(id));

				if (answer == ENOMEM)
					std::this_thread::yield();
				else
					answers.at(id++) = answer;
			}
		});
	for (auto &poster : posters)
		poster.join();
	done = true;
	poller.join();
	ASSERT_FALSE(broken);
	EXPECT_GT(refusals, threads * each / 100);
	take_all(); // the next doorbell
	for (std::uint64_t id = 0; id < threads * each; id++)
		ASSERT_EQ(taken.at(id), answers.at(id) == 0) << "request " << id << ", answer " << answers.at(id);
}

} // namespace
