// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "understudy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "lock.hpp"
#include "sys.hpp"

namespace kiwu::understudy {

namespace {

// Time that the thread stays awake beyond the last thing that it did for a stream
constexpr Time awake_for = 50 * microsecond;
// A yield that takes so long says that others want the CPU: the thread does without staying awake for a while. One that
// sleeps is woken at once, and one that is awake waits for its turn.
constexpr Time crowded_after = 5 * microsecond;
constexpr Time crowded_for = second;
// Events that are fetched at once
constexpr int batch = 64;

/// An array that grows
template <typename T>
struct Growing {
	T *items = nullptr;
	std::uint32_t used = 0, room = 0;

	bool grow()
	{
		const std::uint32_t more = room ? 2 * room : 64;
		void *memory = std::realloc(items, more * sizeof(T));

		if (!memory)
			return false;
		items = static_cast<T *>(memory);
		room = more;
		return true;
	}
};

/// What a watched descriptor's events name: one that was unwatched is another's, with another generation.
struct Slot {
	Watched *watched;
	std::uint32_t generation;
	std::uint32_t next_free;
};

struct Thread {
	// Protects all of it, and what belongs to the understudy in each Watched. Innermost.
	kiw::Lock lock;
	pthread_t self{};
	int epoll = -1;
	int bell = -1;
	std::atomic<bool> runs = false;
	std::atomic<bool> asleep = false;
	Growing<Slot> slots;
	std::uint32_t free_slot = 0;
	// A heap, from place 1 on: the earliest first
	Growing<Watched *> times;
	Watched *first = nullptr;
	Watched **last = &first;
	// The thread's own
	Time awake_until = 0;
	Time crowded_until = 0;
	bool may_spin = false;
};

constinit Thread thread;
// Protects the start.
constinit kiw::Lock starting;

void wake()
{
	constexpr std::uint64_t one = 1;

	std::atomic_thread_fence(std::memory_order_seq_cst);
	if (thread.asleep.load(std::memory_order_relaxed) && thread.asleep.exchange(false))
		sys::write(thread.bell, &one, sizeof(one));
}

// --- times ----------------------------------------------------------------------------------------

void put_at(std::uint32_t place, Watched *watched)
{
	thread.times.items[place] = watched;
	watched->place = place;
}

void sift_up(std::uint32_t place)
{
	Watched *moved = thread.times.items[place];

	for (; place > 1 && thread.times.items[place / 2]->time > moved->time; place /= 2)
		put_at(place, thread.times.items[place / 2]);
	put_at(place, moved);
}

void sift_down(std::uint32_t place)
{
	Watched *moved = thread.times.items[place];

	for (;;) {
		std::uint32_t child = 2 * place;

		if (child >= thread.times.used)
			break;
		if (child + 1 < thread.times.used &&
			thread.times.items[child + 1]->time < thread.times.items[child]->time)
			child++;
		if (thread.times.items[child]->time >= moved->time)
			break;
		put_at(place, thread.times.items[child]);
		place = child;
	}
	put_at(place, moved);
}

void take_out(Watched &watched)
{
	const std::uint32_t place = watched.place;
	Watched *moved = thread.times.items[--thread.times.used];

	watched.place = 0;
	watched.time = never;
	if (moved == &watched)
		return;
	put_at(place, moved);
	sift_up(place);
	sift_down(moved->place);
}

/// Returns one that is due, with its reference, or nullptr.
Watched *next_due(Time time)
{
	kiw::Guard guard(thread.lock);

	if (thread.times.used <= 1 || thread.times.items[1]->time > time)
		return nullptr;
	Watched *due = thread.times.items[1];
	take_out(*due);
	return due;
}

// --- the thread -----------------------------------------------------------------------------------

/// Returns the object that an event is for, with a reference, or nullptr.
Watched *find(std::uint64_t name)
{
	kiw::Guard guard(thread.lock);
	const Slot &slot = thread.slots.items[static_cast<std::uint32_t>(name)];

	if (!slot.watched || slot.generation != name >> 32)
		return nullptr;
	slot.watched->get();
	return slot.watched;
}

/// Puts it into the queue, under the lock. Returns whether it wasn't there.
bool enqueue(Watched &watched)
{
	if (watched.queued)
		return false;
	watched.get();
	watched.queued = true;
	watched.next = nullptr;
	*thread.last = &watched;
	thread.last = &watched.next;
	return true;
}

/// Returns the first of the queue, with its reference, or nullptr. From here on it can be queued again.
/// untimed: it stands for a time, too.
Watched *next_queued(bool &untimed)
{
	kiw::Guard guard(thread.lock);
	Watched *first = thread.first;

	if (!first)
		return nullptr;
	thread.first = first->next;
	if (!thread.first)
		thread.last = &thread.first;
	first->queued = false;
	untimed = first->untimed;
	first->untimed = false;
	return first;
}

void run_queue()
{
	// Then descriptors and times get their turn.
	for (int i = 0; i < batch; i++) {
		bool untimed = false;
		Watched *each = next_queued(untimed);

		if (!each)
			return;
		if (untimed)
			each->handler(*each, watched_time);
		each->handler(*each, watched_queued);
		each->put();
	}
}

void run_times()
{
	const Time time = now();

	for (int i = 0; i < batch; i++) {
		Watched *due = next_due(time);

		if (!due)
			return;
		due->handler(*due, watched_time);
		due->put();
	}
}

/// How long the thread may sleep
Time patience()
{
	kiw::Guard guard(thread.lock);

	if (thread.first)
		return 0;
	if (thread.times.used <= 1)
		return never;
	const Time time = now();
	const Time earliest = thread.times.items[1]->time;
	return earliest > time ? earliest - time : 0;
}

int wait(epoll_event *events, Time patience)
{
	static bool coarse = false;

	if (patience == 0 || patience == never)
		return sys::epoll_wait(thread.epoll, events, batch, patience == 0 ? 0 : -1);
	if (!coarse) {
		const timespec timeout = {.tv_sec = static_cast<time_t>(patience / second),
			.tv_nsec = static_cast<long>(patience % second)};
		const int found = sys::epoll_wait(thread.epoll, events, batch, timeout);

		if (found != -ENOSYS && found != -EPERM)
			return found;
		coarse = true;
	}
	const Time rounded = (patience + millisecond - 1) / millisecond;
	return sys::epoll_wait(thread.epoll, events, batch, static_cast<int>(std::min<Time>(rounded, 60000)));
}

int look(epoll_event *events)
{
	if (thread.awake_until) {
		const int found = wait(events, 0);

		if (found > 0)
			return found;
		const Time before = now();
		if (before < thread.awake_until) {
			sys::yield();
			const Time after = now();
			if (after - before < crowded_after)
				return 0;
			thread.crowded_until = after + crowded_for;
		}
		thread.awake_until = 0;
	}
	thread.asleep.store(true, std::memory_order_relaxed);
	std::atomic_thread_fence(std::memory_order_seq_cst);
	const int found = wait(events, patience());
	thread.asleep.store(false, std::memory_order_relaxed);
	return found;
}

void *run(void *)
{
	std::array<epoll_event, batch> events{};

	for (;;) {
		const int found = look(events.data());

		for (int i = 0; i < found; i++) {
			if (events[static_cast<std::size_t>(i)].data.u64 == 0) {
				std::uint64_t rings = 0;

				sys::read(thread.bell, &rings, sizeof(rings));
			} else if (Watched *watched = find(events[static_cast<std::size_t>(i)].data.u64)) {
				watched->handler(*watched, events[static_cast<std::size_t>(i)].events);
				watched->put();
			}
		}
		run_queue();
		run_times();
	}
}

// --- start ----------------------------------------------------------------------------------------

/// A child of fork() has no such thread. What the parent watched is the parent's.
void begin_anew()
{
	sockets.close_all();
	if (!thread.runs.load(std::memory_order_relaxed))
		return;
	sys::close(thread.epoll);
	sys::close(thread.bell);
	thread.~Thread();
	::new (&thread) Thread;
	// Another thread of the parent may have had it.
	starting.~Lock();
	::new (&starting) kiw::Lock;
}

bool several_cpus()
{
	cpu_set_t cpus;

	return ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

int spawn()
{
	constexpr std::size_t stack = 256 << 10;
	pthread_attr_t attributes;
	sigset_t all, before;

	::pthread_attr_init(&attributes);
	::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	::pthread_attr_setstacksize(&attributes, stack);
	// Signals are the program's.
	::sigfillset(&all);
	::pthread_sigmask(SIG_SETMASK, &all, &before);
	const int error = ::pthread_create(&thread.self, &attributes, run, nullptr);
	::pthread_sigmask(SIG_SETMASK, &before, nullptr);
	::pthread_attr_destroy(&attributes);
	return error;
}

int prepare()
{
	epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};

	// Number 0 stands for the bell, and place 0 for none.
	if ((!thread.slots.items && !thread.slots.grow()) || (!thread.times.items && !thread.times.grow()))
		return ENOMEM;
	thread.slots.items[0] = {};
	thread.slots.used = thread.times.used = 1;
	thread.epoll = sys::epoll_create(EPOLL_CLOEXEC);
	if (thread.epoll < 0)
		return -thread.epoll;
	thread.bell = sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const int error =
		thread.bell < 0 ? thread.bell : sys::epoll_ctl(thread.epoll, EPOLL_CTL_ADD, thread.bell, &event);
	if (!error)
		return 0;
	if (thread.bell >= 0)
		sys::close(thread.bell);
	sys::close(thread.epoll);
	return -error;
}

} // namespace

int start()
{
	static bool cares_for_children = false;
	kiw::Guard guard(starting);

	if (runs())
		return 0;
	if (!cares_for_children) {
		if (const int error = ::pthread_atfork(nullptr, nullptr, begin_anew))
			return error;
		cares_for_children = true;
	}
	int error = prepare();
	if (!error) {
		thread.may_spin = several_cpus();
		error = spawn();
		thread.runs.store(!error, std::memory_order_release);
		if (error) {
			sys::close(thread.bell);
			sys::close(thread.epoll);
		}
	}
	return error;
}

bool runs()
{
	return thread.runs.load(std::memory_order_acquire);
}

int watch(Watched &watched, int fd, std::uint32_t events)
{
	epoll_event event = {.events = events | EPOLLET, .data = {}};
	{
		kiw::Guard guard(thread.lock);

		if (!thread.free_slot) {
			if (thread.slots.used == thread.slots.room && !thread.slots.grow())
				return ENOMEM;
			thread.free_slot = thread.slots.used++;
			thread.slots.items[thread.free_slot] = {};
		}
		watched.slot = thread.free_slot;
		Slot &slot = thread.slots.items[watched.slot];
		thread.free_slot = slot.next_free;
		slot.watched = &watched;
		event.data.u64 = std::uint64_t{slot.generation} << 32 | watched.slot;
	}
	watched.get();
	const int error = sys::epoll_ctl(thread.epoll, EPOLL_CTL_ADD, fd, &event);
	if (error)
		unwatch(watched, fd);
	return -error;
}

void rewatch(const Watched &watched, int fd, std::uint32_t events)
{
	epoll_event event = {.events = events | EPOLLET, .data = {}};
	{
		kiw::Guard guard(thread.lock);

		if (!watched.slot)
			return;
		event.data.u64 = std::uint64_t{thread.slots.items[watched.slot].generation} << 32 | watched.slot;
	}
	sys::epoll_ctl(thread.epoll, EPOLL_CTL_MOD, fd, &event);
}

void unwatch(Watched &watched, int fd)
{
	{
		kiw::Guard guard(thread.lock);

		if (!watched.slot)
			return;
		Slot &slot = thread.slots.items[watched.slot];
		slot.watched = nullptr;
		slot.generation++;
		slot.next_free = thread.free_slot;
		thread.free_slot = watched.slot;
		watched.slot = 0;
	}
	sys::epoll_ctl(thread.epoll, EPOLL_CTL_DEL, fd, nullptr);
	watched.put();
}

void queue(Watched &watched)
{
	{
		kiw::Guard guard(thread.lock);

		if (!enqueue(watched))
			return;
	}
	if (!here())
		wake();
}

void at(Watched &watched, Time time)
{
	bool earliest = false;
	{
		kiw::Guard guard(thread.lock);

		if (watched.place) {
			if (watched.time <= time)
				return;
			watched.time = time;
		} else {
			// Without memory it comes too early, which every handler has to expect.
			if (thread.times.used == thread.times.room && !thread.times.grow()) {
				watched.untimed = true;
				earliest = enqueue(watched);
			} else {
				watched.get();
				watched.time = time;
				put_at(thread.times.used++, &watched);
			}
		}
		if (watched.place) {
			sift_up(watched.place);
			earliest = watched.place == 1;
		}
	}
	if (earliest && !here())
		wake();
}

void forget(Watched &watched)
{
	{
		kiw::Guard guard(thread.lock);

		if (!watched.place)
			return;
		take_out(watched);
	}
	watched.put();
}

void stay_awake()
{
	const Time time = thread.may_spin ? now() : never;

	if (thread.may_spin && time >= thread.crowded_until)
		thread.awake_until = time + awake_for;
}

bool here()
{
	return ::pthread_equal(thread.self, ::pthread_self());
}

} // namespace kiwu::understudy
