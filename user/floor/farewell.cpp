// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The end of the process by exit(). A Send that has completed arrives: by what the kernel does with the sockets of a
// process, it wouldn't where TCP had no room for the rest, nor where the socket has bytes that nobody has read, for
// then TCP resets the connection. So all connections end first as if their queue pairs were destroyed, and the process
// waits, for as long as the peers acknowledge what they are sent, and not beyond a limit.
//
// The understudy does it: a thread that calls exit() in a signal handler may have locks.
#include <atomic>
#include <climits>

#include "clock.hpp"
#include "endings.hpp"
#include "options.hpp"
#include "qp.hpp"
#include "stats.hpp"
#include "sys.hpp"
#include "understudy.hpp"

namespace kiwu {

namespace {

// The process waits no longer, whatever the peers do.
constexpr Time longest = 10 * second;
constexpr Time pause = millisecond;

void on_event(Watched &watched, std::uint32_t what);
void on_release(Watched &) {}

struct Farewell {
	Watched watched{on_event, on_release};
	Time until = 0;
	std::atomic<std::uint32_t> over = 0;
};

constinit Farewell farewell;

void on_event(Watched &watched, std::uint32_t)
{
	const bool any = end_all();

	if ((any || endings.load(std::memory_order_acquire)) && now() < farewell.until) {
		understudy::at(watched, now() + pause);
		return;
	}
	farewell.over.store(1, std::memory_order_release);
	sys::call(SYS_futex, &farewell.over, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void await_endings()
{
	farewell.until = now() + longest;
	understudy::queue(farewell.watched);
	while (!farewell.over.load(std::memory_order_acquire)) {
		constexpr timespec second_or_so = {.tv_sec = 1, .tv_nsec = 0};

		// One that was interrupted in the midst of something may have what the understudy needs.
		if (now() >= farewell.until + second)
			return;
		sys::call(SYS_futex, &farewell.over, FUTEX_WAIT_PRIVATE, 0, &second_or_so, nullptr, 0);
	}
}

[[gnu::destructor]] void take_leave()
{
	if (!understudy::runs())
		return;
	await_endings();
	if (options.stats)
		write_stats(options.stats);
}

} // namespace

} // namespace kiwu
