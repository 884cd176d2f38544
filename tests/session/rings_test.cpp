// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The two sides of a work ring in two threads: the provider posts, the session takes. Nothing else orders what they do,
// so that ThreadSanitizer (make thread) finds an access to a slot that no index orders, and a post that nobody is told
// of ends the test.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

#include "../../provider/ring.hpp"
#include "session/rq.h"
#include "session/sq.h"

namespace kiw {

// Rings in memory of this process, at one address for both sides
int Mappings::acquire(int, const kiw_ring_geometry &geometry, Mapping *&mapping)
{
	mapping = new Mapping;
	mapping->base_ = new (std::align_val_t{KIW_RING_ALIGN}) std::byte[geometry.mmap_size]{};
	return 0;
}

void Mapping::release()
{
	operator delete[](base_, std::align_val_t{KIW_RING_ALIGN});
	delete this;
}

} // namespace kiw

namespace {

constexpr std::uint32_t entries = 8, sges = 2, requests = 100'000;
constexpr std::uint32_t start = UINT32_MAX - 1000; // the indexes wrap
constexpr std::chrono::seconds patience{60};

/// Waits as long as patience lasts. Returns whether the condition came.
template <typename Condition>
bool comes(const Condition &condition)
{
	const auto end = std::chrono::steady_clock::now() + patience;

	while (!condition()) {
		if (std::chrono::steady_clock::now() > end)
			return false;
		std::this_thread::yield();
	}
	return true;
}

/// What a post has to bring about, where the flags ask for it. A system call would order accesses to the slots, too.
class Doorbell {
public:
	void ring() { rung_.store(true, std::memory_order_relaxed); }
	bool wait()
	{
		return comes([this] { return rung_.exchange(false, std::memory_order_relaxed); });
	}

private:
	std::atomic<bool> rung_ = false;
};

class Rings : public testing::Test {
protected:
	/// Both sides begin at the same index.
	kiw_ring_map open(std::uint32_t stride)
	{
		const kiw_ring_geometry geometry{
			.mmap_size = KIW_RING_HEADER + entries * stride, .entries = entries, .stride = stride};

		EXPECT_EQ(ring.open(mappings, -1, geometry, entries, stride), 0);
		auto *const memory = ring.slot(0) - KIW_RING_HEADER;
		auto *const header = reinterpret_cast<kiw_wq_ring *>(memory);
		header->prod = header->cons = start;
		return {.mem = memory, .size = KIW_RING_HEADER + entries * stride, .stride = stride};
	}

	/// Writes a slot when one is free. Returns whether one was within the time.
	template <typename Write>
	bool post(std::uint32_t i, const Write &write)
	{
		if (!comes([&] { return start + i - ring.consumed() < entries; }))
			return false;
		write(ring.slot(start + i));
		ring.publish(start + i + 1);
		return true;
	}

	static void write_sges(std::byte *at, std::uint32_t i)
	{
		const std::array<kiw_sge, sges> list{
			{{.addr = i, .length = i & 0xff, .lkey = ~i}, {.addr = ~i, .length = 1, .lkey = i}}};

		std::memcpy(at, list.data(), sizeof(list));
	}
	static bool right_sges(const kiw_sge *list, std::uint32_t i)
	{
		return list[0].addr == i && list[0].length == (i & 0xff) && list[0].lkey == ~i &&
		       list[1].addr == std::uint64_t{~i} && list[1].lkey == i;
	}

	kiw::Mappings mappings;
	kiw::WorkRing ring;
	Doorbell doorbell;
	std::array<kiw_sge, sges> copy{};
};

TEST_F(Rings, EachSendRequestIsTakenOnceAsItWasPosted)
{
	std::array<struct kiw_swr, entries> taken{};
	kiw_sq sq{};
	std::uint32_t wrong = 0, found = 0;

	sq.map = open(sizeof(kiw_wqe) + sges * sizeof(kiw_sge));
	sq.entries = entries;
	sq.next = sq.done = start;
	sq.max_sge = sges;
	sq.head = KIW_SQ_HEAD;
	sq.swr = taken.data();

	// As the session's tx.c: it rests when the ring is empty with the flag cleared.
	std::jthread session([&] {
		while (found < requests && doorbell.wait()) {
			do {
				kiw_send_req request{};

				request.sge = copy.data();
				kiw_sq_flag(&sq, KIW_RING_DRAINING);
				while (kiw_sq_take(&sq, &request) == KIW_TAKE_ONE) {
					wrong += request.wqe.wr_id != found ||
						 request.wqe.remote_addr != std::uint64_t{~found} ||
						 !right_sges(request.sge, found);
					found++;
					kiw_swr(&sq, request.index)->done = true;
					kiw_sq_complete(&sq);
				}
			} while (kiw_sq_rest(&sq, 0));
		}
	});
	for (std::uint32_t i = 0; i < requests; i++) {
		ASSERT_TRUE(post(i,
			[=](std::byte *slot) {
				const kiw_wqe wqe{
					.opcode = KIW_WR_WRITE, .num_sge = sges, .wr_id = i, .remote_addr = ~i};

				std::memcpy(slot, &wqe, sizeof(wqe));
				write_sges(slot + sizeof(wqe), i);
			}))
			<< "request " << i << " waits for room";
		if (!(ring.flags() & KIW_RING_DRAINING))
			doorbell.ring();
	}
	session.join();
	EXPECT_EQ(found, requests);
	EXPECT_EQ(wrong, 0U);
}

TEST_F(Rings, EachReceiveRequestIsTakenOnceAsItWasPosted)
{
	kiw_rq rq{};
	std::uint32_t wrong = 0, found = 0;

	rq.map = open(kiw_rq_stride(sges));
	rq.entries = entries;
	rq.next = rq.posted = start;
	rq.max_sge = sges;

	// As a session to which a message comes before its receive request
	std::jthread session([&] {
		kiw_recv_req request{};

		request.sge = copy.data();
		while (found < requests) {
			kiw_take take = kiw_rq_take(&rq, &request);

			if (take == KIW_TAKE_NONE) {
				kiw_rq_call(&rq);
				while ((take = kiw_rq_take(&rq, &request)) == KIW_TAKE_NONE) {
					if (!doorbell.wait())
						return;
				}
				kiw_rq_open(&rq);
			}
			wrong += take != KIW_TAKE_ONE || request.id != found || !right_sges(request.sge, found);
			found++;
		}
	});
	for (std::uint32_t i = 0; i < requests; i++) {
		ASSERT_TRUE(post(i,
			[=](std::byte *slot) {
				const kiw_rqe rqe{.wr_id = i, .num_sge = sges};

				std::memcpy(slot, &rqe, sizeof(rqe));
				write_sges(slot + sizeof(rqe), i);
			}))
			<< "request " << i << " waits for room";
		if (ring.flags() & KIW_RING_FLUSH)
			doorbell.ring();
	}
	session.join();
	EXPECT_EQ(found, requests);
	EXPECT_EQ(wrong, 0U);
}

} // namespace
