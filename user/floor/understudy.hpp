// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The understudy: the one thread of the library. It does what no thread of the program is there to do: connections that
// begin or end, streams that nobody polls for, and what is due at a time.
//
// What it looks after is a Watched. A Watched has a handler, which the understudy alone calls, and references: its
// maker's, one while a descriptor is watched for it, while it is in the queue, and while a time is set for it. So an
// event that was under way when the program gave an object up finds it, and finds it given up.
#pragma once

#include <atomic>
#include <cstdint>
#include <sys/epoll.h>

#include "clock.hpp"

namespace kiwu {

/// What a handler is called for, beside EPOLL* of the watched descriptor
enum : std::uint32_t {
	watched_queued = 1U << 26,
	watched_time = 1U << 27,
};

struct Watched {
	using Handler = void (*)(Watched &watched, std::uint32_t what);
	using Release = void (*)(Watched &watched);

	constexpr Watched(Handler handler, Release release) noexcept : handler(handler), release(release) {}
	Watched(const Watched &) = delete;
	Watched &operator=(const Watched &) = delete;
	~Watched() = default;

	void get() { references.fetch_add(1, std::memory_order_relaxed); }
	void put()
	{
		if (references.fetch_sub(1, std::memory_order_acq_rel) == 1)
			release(*this);
	}

	const Handler handler;
	const Release release;
	std::atomic<std::uint32_t> references = 1;
	/// The understudy's
	Watched *next = nullptr;
	bool queued = false;
	bool untimed = false;	 // its time has found no memory: it is queued, and asks again
	std::uint32_t slot = 0;	 // of its descriptor; 0: none
	std::uint32_t place = 0; // in the heap of times; 0: none
	Time time = never;
};

namespace understudy {

/// Starts the thread, unless it runs. Returns 0 or an errno value.
int start();
/// Whether it was started.
bool runs();

/// What is watched of a stream
inline constexpr std::uint32_t stream_events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI;
/// Those that tell of data alone. An end, an error or urgent data is told once, and may be behind data that is still
/// there.
inline constexpr std::uint32_t data_events = EPOLLIN | EPOLLOUT;

/// Has a descriptor watched, edge-triggered, for EPOLL*. Returns 0 or an errno value.
int watch(Watched &watched, int fd, std::uint32_t events);
/// Changes for what; what is there already is told.
void rewatch(const Watched &watched, int fd, std::uint32_t events);
/// Has it watched no more. If it is watched at all.
void unwatch(Watched &watched, int fd);

/// Has the handler called soon.
void queue(Watched &watched);
/// Has it called at a time, or earlier.
void at(Watched &watched, Time time);
/// No time is set any more.
void forget(Watched &watched);

/// Called by handlers: something was done that may go on at once. The thread stays awake for a moment.
void stay_awake();

/// Whether the caller is the understudy.
bool here();

} // namespace understudy

} // namespace kiwu
