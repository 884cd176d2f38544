// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cq.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "count.hpp"
#include "memory.hpp"
#include "rings.hpp"
#include "session_port.h"

namespace kiwu {

namespace {

// Queue pairs that one poll looks after, in turn
constexpr std::uint32_t per_poll = 16;

kiw_cq_ring &ring_of(const kiw_cq &cq)
{
	return *static_cast<kiw_cq_ring *>(cq.map.mem);
}

/// Whether a completion is one that a process has to be told of at once
bool is_urgent(const kiw_cqe &cqe)
{
	return cqe.flags & KIW_CQE_SOLICITED || cqe.status != IBV_WC_SUCCESS;
}

/// Whether these completions are what the process waits for
bool matches(std::uint32_t arm, const kiw_cqe *cqe, unsigned int n)
{
	return arm == KIW_ARM_NEXT || (arm == KIW_ARM_SOLICITED && std::any_of(cqe, cqe + n, is_urgent));
}

/// The event is due. Returns whether the process still wants one.
bool disarm(kiw_cq &cq)
{
	cq.delayed = 0;
	cq.event_due = never;
	return std::atomic_ref(ring_of(cq).arm).exchange(KIW_ARM_NONE) != KIW_ARM_NONE;
}

/// Whether the event for these completions waits for further ones
bool delay(kiw_cq &cq, const kiw_cqe *cqe, unsigned int n)
{
	const bool first = !cq.delayed;

	if (!cq.period || cq.dead || std::any_of(cqe, cqe + n, is_urgent))
		return false;
	// Not the second half of a completion
	cq.delayed += static_cast<std::uint32_t>(
		std::count_if(cqe, cqe + n, [](const kiw_cqe &each) { return !(each.flags & KIW_CQE_VOID); }));
	if (cq.delayed >= std::min<std::uint32_t>(cq.count, cq.entries / 2))
		return false;
	if (first)
		cq.event_due = now() + cq.period * microsecond;
	return true;
}

void notify(kiw_cq &cq)
{
	if (cq.channel)
		cq.channel->add(cq.event);
}

/// The event has waited for as long as it may.
void on_time(Watched &watched, std::uint32_t)
{
	auto &cq = reinterpret_cast<kiw_cq &>(watched);
	kiw::Guard guard(cq.lock);

	if (cq.event_due != never && now() < cq.event_due)
		understudy::at(watched, cq.event_due);
	else if (cq.event_due != never && disarm(cq))
		notify(cq);
}

void on_release(Watched &watched)
{
	auto &cq = reinterpret_cast<kiw_cq &>(watched);

	free_ring(cq.map);
	std::free(cq.members);
	kiw::destroy(&cq);
}

std::uint32_t used(const kiw_cq &cq)
{
	return std::min(std::min(cq.prod - cq.cons, cq.entries) + cq.held, cq.entries);
}

std::uint64_t real_time()
{
	timespec time{};

	::clock_gettime(CLOCK_REALTIME, &time);
	return static_cast<std::uint64_t>(time.tv_sec) * second + static_cast<std::uint64_t>(time.tv_nsec);
}

} // namespace

} // namespace kiwu

kiw_cq::kiw_cq() noexcept : watched(kiwu::on_time, kiwu::on_release) {}

bool kiw_cq::armed() const
{
	kiw::Guard guard(lock);

	return std::atomic_ref(kiwu::ring_of(*this).arm).load(std::memory_order_relaxed) != KIW_ARM_NONE;
}

/// The handlers are called without the lock. The queue is still there: completions are added for a queue pair, with
/// that one's lock, and the queue pair keeps the queue from being destroyed.
static bool add(kiw_cq *cq, const kiw_cqe *cqe, unsigned int n, std::uint32_t held)
{
	using namespace kiwu;
	bool died = false, told = false;
	Time due = never;
	{
		kiw::Guard guard(cq->lock);
		kiw_cq_ring &ring = ring_of(*cq);

		cq->held -= held;
		if (cq->dead)
			return false;
		// Pairs with the release of the thread that has read slots.
		if (n > cq->entries - used(*cq))
			cq->cons = std::atomic_ref(ring.cons).load(std::memory_order_acquire);
		if (n > cq->entries - used(*cq)) {
			n = cq->entries - used(*cq);
			cq->dead = died = true;
		}
		for (unsigned int i = 0; i < n; i++) {
			auto *slot = static_cast<kiw_cqe *>(kiw_ring_slot(&cq->map, cq->prod + i, cq->entries));

			*slot = cqe[i];
			// The second slot of a record holds other members there.
			if (cq->timed && !(cqe[i].flags & KIW_CQE_VOID))
				slot->time = real_time();
		}
		cq->prod += n;
		std::atomic_ref(ring.prod).store(cq->prod, std::memory_order_release);
		// Pairs with the fence of the thread that arms: it sees these completions, or this sees that it did.
		std::atomic_thread_fence(std::memory_order_seq_cst);
		if (n && matches(std::atomic_ref(ring.arm).load(std::memory_order_relaxed), cqe, n)) {
			if (!delay(*cq, cqe, n))
				told = disarm(*cq);
			due = cq->event_due;
		}
	}
	if (died)
		cq->overflow(*cq);
	if (told)
		notify(*cq);
	else if (due != never)
		understudy::at(cq->watched, due);
	return !died;
}

bool kiw_cq_add(kiw_cq *cq, const kiw_cqe *cqe, unsigned int n)
{
	return add(cq, cqe, n, 0);
}

namespace kiwu {

bool hold(kiw_cq &cq, std::uint32_t n)
{
	kiw::Guard guard(cq.lock);

	if (used(cq) + n > cq.entries / 2)
		cq.cons = std::atomic_ref(ring_of(cq).cons).load(std::memory_order_acquire);
	if (cq.dead || used(cq) + n > cq.entries / 2)
		return false;
	cq.held += n;
	return true;
}

void unhold(kiw_cq &cq, std::uint32_t n)
{
	kiw::Guard guard(cq.lock);

	cq.held -= n;
}

bool add_held(kiw_cq &cq, const kiw_cqe *cqe, std::uint32_t n)
{
	return add(&cq, cqe, n, n);
}

int make_cq(kiw_cq &cq, std::uint32_t entries)
{
	cq.entries = roundup_pow_of_two(entries);
	return make_ring(cq.map, cq.entries, sizeof(kiw_cqe)) ? 0 : ENOMEM;
}

int resize_cq(kiw_cq &cq, std::uint32_t entries)
{
	kiw_ring_map map;

	entries = roundup_pow_of_two(entries);
	if (!make_ring(map, entries, sizeof(kiw_cqe)))
		return ENOMEM;
	{
		kiw::Guard guard(cq.lock);
		kiw_cq_ring &from = ring_of(cq);
		auto &to = *static_cast<kiw_cq_ring *>(map.mem);
		const std::uint32_t cons = std::atomic_ref(from.cons).load(std::memory_order_acquire);

		if (cq.prod - cons <= std::min(entries, cq.entries)) {
			for (std::uint32_t i = cons; i != cq.prod; i++)
				std::memcpy(kiw_ring_slot(&map, i, entries), kiw_ring_slot(&cq.map, i, cq.entries),
					sizeof(kiw_cqe));
			to.prod = cq.prod;
			to.cons = cons;
			to.arm = std::atomic_ref(from.arm).exchange(KIW_ARM_NONE);
			std::swap(cq.map, map);
			std::swap(cq.entries, entries);
			cq.cons = cons;
			entries = 0;
		}
	}
	free_ring(map);
	return entries ? EINVAL : 0;
}

void modify_cq(kiw_cq &cq, std::uint16_t count, std::uint16_t period)
{
	bool due = false;
	{
		kiw::Guard guard(cq.lock);

		cq.count = count;
		cq.period = count ? period : 0;
		due = cq.delayed && disarm(cq);
	}
	if (due)
		notify(cq);
}

void stop_cq(kiw_cq &cq)
{
	{
		kiw::Guard guard(cq.lock);

		cq.event_due = never;
	}
	// From here on the understudy finds that no event is due.
	understudy::forget(cq.watched);
	if (cq.channel)
		cq.channel->drop([&](const Event &event) { return &event == &cq.event; }, [](Event &) {});
}

int join(kiw_cq &cq, Qp &qp, const MemberCalls &calls)
{
	Turn turn(cq.members_lock);

	if (cq.used == cq.room) {
		const std::uint32_t room = cq.room ? 2 * cq.room : 4;
		void *memory = std::realloc(cq.members, room * sizeof(Qp *));

		if (!memory)
			return ENOMEM;
		cq.members = static_cast<Qp **>(memory);
		cq.room = room;
	}
	cq.calls = &calls;
	cq.members[cq.used++] = &qp;
	return 0;
}

void leave(kiw_cq &cq, Qp &qp)
{
	Turn turn(cq.members_lock);
	Qp **end = cq.members + cq.used;
	Qp **found = std::find(cq.members, end, &qp);

	if (found == end)
		return;
	*found = end[-1];
	cq.used--;
}

bool progress(kiw_cq &cq)
{
	bool any = false;

	cq.looks.fetch_add(1, std::memory_order_relaxed);
	// Another thread is at it.
	if (cq.members_lock.wanted() || !cq.members_lock.try_lock())
		return false;
	for (std::uint32_t i = std::min(cq.used, per_poll); i > 0; i--) {
		if (cq.turn >= cq.used)
			cq.turn = 0;
		any |= cq.calls->poll(*cq.members[cq.turn++]);
	}
	cq.members_lock.unlock();
	return any;
}

void armed(kiw_cq &cq)
{
	Turn turn(cq.members_lock);

	for (std::uint32_t i = 0; i < cq.used; i++)
		cq.calls->unmute(*cq.members[i]);
}

} // namespace kiwu
