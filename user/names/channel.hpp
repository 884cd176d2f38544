// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Event channels of rdma_cm.
#pragma once

#include <atomic>
#include <cstdint>
#include <rdma/rdma_cma.h>

#include "events.hpp"
#include "origin.hpp"

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
	/// to the channel, as rping's is; it gets 10 ms to arrive there, where it then waits for ever.
	void await_fetcher() const;
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
	std::atomic<std::uint32_t> references_ = 0;
	std::atomic<bool> open_ = false; // the program refers to it
	EventChannel *next_free_ = nullptr;
};

} // namespace kiwu
