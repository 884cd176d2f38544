// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Event channels of rdma_cm.
#pragma once

#include <atomic>
#include <cstdint>
#include <rdma/rdma_cma.h>

#include "clock.hpp"
#include "events.hpp"
#include "origin.hpp"
#include "sys.hpp"

namespace kiwu {

/// An event channel.
///
/// The program refers to it until rdma_destroy_event_channel(), each identifier that reports to it does, and each
/// thread in rdma_get_cm_event(): a program may end its channel while a thread of its waits there. Its memory stays a
/// channel's for ever, and serves the next one: a thread may also come to a channel that has gone. rping does both.
class EventChannel {
public:
	rdma_event_channel ibv{};
	EventQueue queue;
	kiw::Origin origin;
	std::atomic<pid_t> fetcher = 0;	   ///< the thread that has fetched the last event
	std::atomic<bool> looking = false; ///< a thread has asked for another since

	/// A channel that the program refers to. nullptr: error is an errno value.
	static EventChannel *make(int &error);
	/// Called before the program's reference ends. A thread that has acknowledged its event may be on its way back
	/// to the channel, as rping's is; it gets a moment to arrive there, where it then waits for ever.
	void await_fetcher()
	{
		await_fetcher([this] { return looking.load(std::memory_order_relaxed); });
	}
	/// Called before events are dropped. A thread that poll() has told of them may be on its way to fetch them, as
	/// rping's is since rdma-core 61, and would wait there for ever; it gets a moment to fetch them.
	template <typename Predicate>
	void await_fetch(const Predicate &fetched)
	{
		// A channel that doesn't block says that there are none.
		if (!fetched() && !sys::is_nonblocking(ibv.fd))
			await_fetcher(fetched);
	}
	/// Ends the program's reference, once.
	void end();

	/// A new reference for the caller; nullptr if the program has ended the channel.
	static EventChannel *enter(rdma_event_channel *channel);
	/// One more, of a caller that has one
	void get() { references_.fetch_add(1, std::memory_order_relaxed); }
	void put();

	static EventChannel &from(rdma_event_channel *channel) { return *reinterpret_cast<EventChannel *>(channel); }
	/// In a child of fork(): no thread of the parent is at work.
	static void begin_anew();

private:
	// Time that a thread gets which shares its CPU with others. One that needs more isn't waited for again.
	static constexpr Time patience = 100 * millisecond;

	/// Waits until the thread that fetches here has come.
	template <typename Predicate>
	void await_fetcher(const Predicate &has_come)
	{
		const Time end = now() + patience;
		pid_t thread = fetcher.load(std::memory_order_relaxed);

		if (!thread || thread == sys::gettid())
			return;
		while (!has_come() && sys::has_thread(thread)) {
			if (now() >= end) {
				fetcher.compare_exchange_strong(thread, 0, std::memory_order_relaxed);
				return;
			}
			sys::nap(50 * microsecond);
		}
	}

	std::atomic<std::uint32_t> references_ = 0;
	std::atomic<bool> open_ = false; // the program refers to it
	EventChannel *next_free_ = nullptr;
};

} // namespace kiwu
