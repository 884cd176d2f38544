// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "epoll.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <new>
#include <sched.h>
#include <sys/eventfd.h>

#include "lock.hpp"
#include "real.hpp"

namespace kiws {

class Set;

/// A socket in a set
struct Member {
	Socket *socket; // with a use
	Set *set;
	int fd;
	std::uint32_t number; // that the kernel returns, with the generation above
	std::uint32_t generation;
	std::uint32_t events; // of the program, with EPOLLET and EPOLLONESHOT
	std::uint32_t of_tcp; // what the kernel is asked for
	std::uint32_t found;  // events of this round
	std::uint32_t seen;   // changes of the socket that were reported
	epoll_data_t data;
	bool hot;      // to be looked at, without an event
	bool channel;  // the completion channel is in the inner set
	bool disarmed; // by EPOLLONESHOT
	std::atomic<bool> rung;
	Member *next_of_socket; // with the lock of the stream
};

namespace {

// What the kernel returns for a completion channel has this bit. No generation is so high as the bell's.
constexpr std::uint64_t of_channel = std::uint64_t(1) << 63, of_bell = UINT64_MAX;
constexpr std::uint32_t generations = 1U << 30;
constexpr std::uint32_t kinds = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM | EPOLLRDHUP;

} // namespace

class Set {
public:
	static Set *make(int fd);
	/// Returns false if it goes.
	bool get()
	{
		std::uint32_t uses = uses_;

		while (uses)
			if (uses_.compare_exchange_weak(uses, uses + 1))
				return true;
		return false;
	}
	void put();

	int add(int fd, Socket &socket, const epoll_event &event);
	int change(Member &member, const epoll_event &event);
	void remove(Member &member);
	Member *find(int fd, const Socket *socket);
	int wait(int set, epoll_event *events, int most, Time end, const sigset_t *mask);
	void ring() const
	{
		const std::uint64_t once = 1;

		(void)!real().write(bell_, &once, sizeof(once));
	}

	// Protects the members. Locks of streams are taken while it is held, none otherwise.
	kiw::Lock lock;

private:
	void look(Member &member);
	void ask_tcp(Member &member);
	void take_inner();
	int report(epoll_event *events, int most);
	static std::uint64_t key(const Member &member)
	{
		return std::uint64_t(member.generation) << 32 | member.number;
	}

	std::atomic<std::uint32_t> uses_ = 1;
	int inner_ = -1, bell_ = -1;
	std::uint32_t generation_ = 0; // of members: events of removed ones find none
	std::uint32_t room_ = 0;
	Member **members_ = nullptr;
	Time again_ = forever;
};

namespace {

/// A time as epoll_wait() wants it, not earlier
int milliseconds_until(Time end)
{
	if (end == forever)
		return -1;
	const Time time = now(), left = end > time ? end - time + millisecond - 1 : 0;

	return static_cast<int>(std::min<Time>(left / millisecond, INT_MAX));
}

// Protects the table. No lock is taken while it is held.
kiw::Lock sets_lock;
struct Entry {
	int fd;
	Set *set;
} * entries;
std::size_t count;
std::atomic<std::size_t> any;

/// The set of a descriptor, with a use
Set *find_set(int fd)
{
	if (!any.load(std::memory_order_relaxed))
		return nullptr;
	kiw::Guard guard(sets_lock);

	for (std::size_t i = 0; i < count; i++)
		if (entries[i].fd == fd) {
			// The table has a use.
			(void)entries[i].set->get();
			return entries[i].set;
		}
	return nullptr;
}

bool add_set(int fd, Set *set)
{
	kiw::Guard guard(sets_lock);
	void *grown = std::realloc(entries, (count + 1) * sizeof(Entry));

	if (!grown)
		return false;
	entries = static_cast<Entry *>(grown);
	(void)set->get();
	entries[count++] = {.fd = fd, .set = set};
	any = count;
	return true;
}

} // namespace

Set *Set::make(int fd)
{
	auto *set = static_cast<Set *>(std::malloc(sizeof(Set)));
	epoll_event event{};

	if (!set)
		return nullptr;
	::new (set) Set;
	set->inner_ = ::epoll_create1(EPOLL_CLOEXEC);
	set->bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	event.events = EPOLLIN;
	event.data.u64 = of_bell;
	if (set->inner_ >= 0 && set->bell_ >= 0 &&
		real().epoll_ctl(set->inner_, EPOLL_CTL_ADD, set->bell_, &event) == 0) {
		// No program has this address as its data.
		event.data.ptr = set;
		if (real().epoll_ctl(fd, EPOLL_CTL_ADD, set->inner_, &event) == 0 && add_set(fd, set))
			return set;
	}
	const int error = errno;
	set->put();
	errno = error;
	return nullptr;
}

void Set::put()
{
	if (uses_.fetch_sub(1) > 1)
		return;
	for (std::uint32_t i = 0; i < room_; i++)
		if (members_[i])
			remove(*members_[i]);
	if (inner_ >= 0)
		(void)real().close(inner_);
	if (bell_ >= 0)
		(void)real().close(bell_);
	std::free(members_);
	std::free(this);
}

Member *Set::find(int fd, const Socket *socket)
{
	for (std::uint32_t i = 0; i < room_; i++)
		if (members_[i] && members_[i]->fd == fd && (!socket || members_[i]->socket == socket))
			return members_[i];
	return nullptr;
}

int Set::add(int fd, Socket &socket, const epoll_event &event)
{
	std::uint32_t number = 0;
	epoll_event inner{};

	while (number < room_ && members_[number])
		number++;
	if (number == room_) {
		void *grown = std::realloc(members_, (2 * std::size_t(room_) + 8) * sizeof(void *));

		if (!grown)
			return ENOMEM;
		members_ = static_cast<Member **>(grown);
		std::fill(members_ + room_, members_ + 2 * std::size_t(room_) + 8, nullptr);
		room_ = 2 * room_ + 8;
	}
	auto *member = static_cast<Member *>(std::calloc(1, sizeof(Member)));
	if (!member)
		return ENOMEM;
	member->socket = &socket;
	member->set = this;
	member->fd = fd;
	member->number = number;
	member->generation = generation_;
	member->events = event.events & ~EPOLLEXCLUSIVE;
	member->of_tcp = member->events;
	member->data = event.data;
	member->hot = true;
	inner.events = member->events;
	inner.data.u64 = key(*member);
	if (real().epoll_ctl(inner_, EPOLL_CTL_ADD, fd, &inner)) {
		const int error = errno;

		std::free(member);
		return error;
	}
	members_[number] = member;
	(void)socket.get();
	const Locked locked(socket.stream());
	member->seen = socket.changes - 1;
	member->next_of_socket = socket.members;
	socket.members = member;
	ring();
	return 0;
}

int Set::change(Member &member, const epoll_event &event)
{
	epoll_event inner{};

	inner.events = event.events;
	inner.data.u64 = key(member);
	if (real().epoll_ctl(inner_, EPOLL_CTL_MOD, member.fd, &inner))
		return errno;
	member.events = event.events;
	member.of_tcp = event.events;
	member.data = event.data;
	member.disarmed = false;
	member.hot = true;
	const Locked locked(member.socket->stream());
	member.seen = member.socket->changes - 1;
	ring();
	return 0;
}

void Set::remove(Member &member)
{
	Socket *socket = member.socket;
	{
		const Locked locked(socket->stream());
		Member **at = &socket->members;

		while (*at && *at != &member)
			at = &(*at)->next_of_socket;
		if (*at)
			*at = member.next_of_socket;
		if (member.channel && socket->link)
			(void)real().epoll_ctl(inner_, EPOLL_CTL_DEL, socket->link->fd(), nullptr);
	}
	(void)real().epoll_ctl(inner_, EPOLL_CTL_DEL, member.fd, nullptr);
	members_[member.number] = nullptr;
	generation_ = (generation_ + 1) % generations;
	std::free(&member);
	socket->put();
}

/// Asks the kernel for what TCP has to say now, if that has changed.
void Set::ask_tcp(Member &member)
{
	const std::uint32_t flags = member.events & ~kinds;
	const auto asked = static_cast<std::uint32_t>(member.socket->of_tcp(static_cast<short>(member.events & kinds)));
	epoll_event inner{};

	if (member.of_tcp == (asked | flags) || member.disarmed)
		return;
	member.of_tcp = asked | flags;
	inner.events = member.of_tcp;
	inner.data.u64 = key(member);
	(void)real().epoll_ctl(inner_, EPOLL_CTL_MOD, member.fd, &inner);
}

/// Looks at a hot member. Unless it stays hot, the next arrival makes its channel readable.
void Set::look(Member &member)
{
	Socket &socket = *member.socket;
	const Locked locked(socket.stream());

	if (!locked)
		return;
	(void)socket.greet(member.fd);
	if (socket.link && !socket.link->gone) {
		socket.disarm(this);
		if (!member.channel) {
			epoll_event inner{};

			inner.events = EPOLLIN;
			inner.data.u64 = key(member) | of_channel;
			member.channel = real().epoll_ctl(inner_, EPOLL_CTL_ADD, socket.link->fd(), &inner) == 0;
		}
		socket.progress();
		socket.try_lane();
		socket.link->arm();
	}
	socket.progress();
	ask_tcp(member);
	again_ = std::min(again_, socket.look_again());
	const auto ready = static_cast<std::uint16_t>(socket.ready(static_cast<short>(member.events & kinds)));
	const bool edge = member.events & EPOLLET;
	if (!member.disarmed && ready && (!edge || member.seen != socket.changes)) {
		member.found |= ready;
		member.seen = socket.changes;
	}
	member.hot = ready && !edge && !member.disarmed;
	again_ = std::min(again_, socket.look_again());
}

/// Takes what the inner set has.
void Set::take_inner()
{
	epoll_event events[64];
	int n = 0;

	do {
		n = real().epoll_wait(inner_, events, std::size(events), 0);
		for (int i = 0; i < n; i++) {
			const std::uint64_t data = events[i].data.u64;
			const auto number = static_cast<std::uint32_t>(data);

			if (data == of_bell) {
				std::uint64_t rings = 0;

				(void)!real().read(bell_, &rings, sizeof(rings));
				continue;
			}
			Member *member = number < room_ ? members_[number] : nullptr;
			if (!member || (data & ~of_channel) >> 32 != member->generation)
				continue;
			member->hot = true;
			if (data & of_channel)
				continue;
			Socket &socket = *member->socket;
			const Locked locked(socket.stream());
			auto reported = static_cast<short>(events[i].events & (kinds | EPOLLERR | EPOLLHUP));
			const bool greets = socket.stream().greeting != Stream::Greeting::done;

			(void)socket.greet(member->fd);
			// What TCP has reported may be the hello: the kernel tells again, if there is more.
			if (greets && socket.stream().greeting != Stream::Greeting::unsent) {
				member->of_tcp = 0;
				reported = static_cast<short>(reported & ~(POLLIN | POLLRDNORM));
			}
			reported = socket.translate(reported);
			if (!socket.stream().out.on_tcp())
				reported = static_cast<short>(reported & ~(POLLOUT | POLLWRNORM));
			if (!member->disarmed)
				member->found |=
					static_cast<std::uint16_t>(reported) & (member->events | EPOLLERR | EPOLLHUP);
		}
	} while (n == std::size(events));
}

int Set::report(epoll_event *events, int most)
{
	int n = 0;

	for (std::uint32_t i = 0; i < room_ && n < most; i++) {
		Member *member = members_[i];

		if (!member || !member->found)
			continue;
		events[n].events = member->found;
		events[n++].data = member->data;
		member->found = 0;
		if (member->events & EPOLLONESHOT) {
			epoll_event inner{};

			member->disarmed = true;
			member->hot = false;
			member->of_tcp = 0;
			// The kernel tells of errors though nothing is asked: once.
			inner.events = EPOLLET;
			inner.data.u64 = key(*member);
			(void)real().epoll_ctl(inner_, EPOLL_CTL_MOD, member->fd, &inner);
		}
	}
	return n;
}

int Set::wait(int set, epoll_event *events, int most, Time end, const sigset_t *mask)
{
	for (;;) {
		int n = 0;
		Time wakes = end;
		{
			kiw::Guard guard(lock);

			again_ = forever;
			take_inner();
			for (std::uint32_t i = 0; i < room_; i++)
				if (members_[i] && (members_[i]->rung.exchange(false) || members_[i]->hot))
					look(*members_[i]);
			n = report(events, most);
			wakes = std::min(end, again_);
		}
		const int more = n == most ? 0
					   : real().epoll_pwait(set, events + n, most - n,
						     n ? 0 : milliseconds_until(wakes), mask);

		if (more < 0)
			return n ? n : -1;
		// The inner set's own entry is looked at in the next round.
		int kept = n;
		bool inner = false;
		for (int i = n; i < n + more; i++) {
			if (events[i].data.ptr == this)
				inner = true;
			else
				events[kept++] = events[i];
		}
		if (kept)
			return kept;
		if (!inner && end != forever && now() >= end)
			return 0;
	}
}

// --- the names ---

namespace {

class [[nodiscard]] SetUse {
public:
	explicit SetUse(Set *set) : set_(set) {}
	~SetUse()
	{
		if (set_)
			set_->put();
	}
	SetUse(const SetUse &) = delete;
	SetUse &operator=(const SetUse &) = delete;
	explicit operator bool() const { return set_; }
	Set *operator->() const { return set_; }

private:
	Set *set_;
};

int fail(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

} // namespace

int control_set(int set, int operation, int fd, Socket *socket, epoll_event *event)
{
	Set *found = find_set(set);

	if (!found && socket && operation == EPOLL_CTL_ADD && event) {
		found = Set::make(set);
		if (!found)
			return -1;
	}
	const SetUse use(found);
	if (!use)
		return real().epoll_ctl(set, operation, fd, event);
	kiw::Guard guard(use->lock);
	Member *member = use->find(fd, nullptr);
	if (member && operation == EPOLL_CTL_DEL) {
		use->remove(*member);
		return 0;
	}
	if (member && event)
		return fail(operation == EPOLL_CTL_MOD ? use->change(*member, *event) : EEXIST);
	if (socket && operation == EPOLL_CTL_ADD && event)
		return fail(use->add(fd, *socket, *event));
	return real().epoll_ctl(set, operation, fd, event);
}

bool takes_part_in_set(int set)
{
	return bool(SetUse(find_set(set)));
}

int wait_for_set(int set, epoll_event *events, int most, Time end, const sigset_t *mask)
{
	const SetUse use(find_set(set));

	if (!use || most <= 0)
		return real().epoll_pwait(set, events, most, milliseconds_until(end), mask);
	return use->wait(set, events, most, end, mask);
}

void close_sets(unsigned first, unsigned last)
{
	Set *closed = nullptr;

	do {
		closed = nullptr;
		if (!any.load(std::memory_order_relaxed))
			return;
		kiw::Guard guard(sets_lock);
		for (std::size_t i = 0; i < count && !closed; i++)
			if (static_cast<unsigned>(entries[i].fd) >= first &&
				static_cast<unsigned>(entries[i].fd) <= last) {
				closed = entries[i].set;
				entries[i] = entries[--count];
				any = count;
			}
	} while (closed && (closed->put(), true));
}

void leave_sets(Socket &socket)
{
	for (;;) {
		Set *set = nullptr;
		int fd = -1;
		bool is_there = false;
		{
			const Locked locked(socket.stream());

			if (socket.members) {
				set = socket.members->set;
				fd = socket.members->fd;
				// No member has a set that was freed.
				is_there = set->get(); // NOLINT(clang-analyzer-unix.Malloc)
			}
		}
		if (!set)
			return;
		// Another thread is removing all members of one that goes.
		if (!is_there) {
			(void)::sched_yield();
			continue;
		}
		{
			kiw::Guard guard(set->lock);

			if (Member *member = set->find(fd, &socket))
				set->remove(*member);
		}
		set->put();
	}
}

void hold_sets()
{
	sets_lock.lock();
	for (std::size_t i = 0; i < count; i++)
		entries[i].set->lock.lock();
}

void release_sets()
{
	for (std::size_t i = 0; i < count; i++)
		entries[i].set->lock.unlock();
	sets_lock.unlock();
}

void forget_sets()
{
	count = 0;
	any = 0;
}

void ring_sets(Socket &socket, const Set *but)
{
	for (Member *member = socket.members; member; member = member->next_of_socket)
		if (member->set != but) {
			member->rung = true;
			member->set->ring();
		}
}

} // namespace kiws
