// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Completion queues: a ring that sessions add to, and the queue pairs that a thread which polls it in vain looks after.
#pragma once

#include <atomic>
#include <cstdint>
#include <infiniband/verbs.h>

#include "events.hpp"
#include "lock.hpp"
#include "session/ring.h"
#include "turn_lock.hpp"
#include "understudy.hpp"

namespace kiwu {
struct Qp;

/// What a completion queue asks of the queue pairs that it looks after
struct MemberCalls {
	bool (*poll)(Qp &qp);	// does what is due; returns whether anything was
	void (*unmute)(Qp &qp); // has the understudy told of what comes in
};
} // namespace kiwu

struct kiw_cq {
	kiwu::Watched watched; // for events that wait for further completions

	// Protects what follows. Innermost, but for the event queue's and the understudy's.
	mutable kiw::Lock lock;
	kiw_ring_map map{};
	std::uint32_t entries = 0;
	std::uint32_t prod = 0;
	std::uint32_t cons = 0; // as seen last
	std::uint32_t held = 0; // slots that are kept for records, see hold()
	bool dead = false;
	bool timed = false; // completions have their time
	std::uint16_t count = 0;
	std::uint16_t period = 0;  // us
	std::uint32_t delayed = 0; // completions for which no event has gone out yet
	kiwu::Time event_due = kiwu::never;

	kiwu::EventQueue *channel = nullptr;
	kiwu::Event event;
	void (*overflow)(kiw_cq &cq) = nullptr; // tells the process that completions were lost
	void *user = nullptr;
	int (*start_poll)(ibv_cq_ex *cq, ibv_poll_cq_attr *attr) = nullptr; // the provider's, of an extended one
	std::atomic<std::uint32_t> events_told = 0;			    // on the channel
	std::atomic<std::uint32_t> async_events_told = 0;		    // on the device

	/// Times that a thread has polled in vain: the understudy sees by it that there is one.
	std::atomic<std::uint32_t> looks = 0;

	// Protects the list. The lock of a queue pair is taken inside, by threads that don't wait for it.
	kiwu::TurnLock members_lock;
	const kiwu::MemberCalls *calls = nullptr;
	kiwu::Qp **members = nullptr;
	std::uint32_t used = 0, room = 0;
	std::uint32_t turn = 0; // member that a poll begins with

	kiw_cq() noexcept;
	bool armed() const;
};

namespace kiwu {

/// Keeps slots for completions that come later, if less than half of the queue is used then. Returns whether it does.
bool hold(kiw_cq &cq, std::uint32_t n);
/// They aren't needed.
void unhold(kiw_cq &cq, std::uint32_t n);
/// As kiw_cq_add(), into slots that were kept.
bool add_held(kiw_cq &cq, const kiw_cqe *cqe, std::uint32_t n);

/// Makes the ring. Returns 0 or an errno value.
int make_cq(kiw_cq &cq, std::uint32_t entries);
/// Gives a completion queue a ring of another size. Returns 0 or an errno value.
int resize_cq(kiw_cq &cq, std::uint32_t entries);
void modify_cq(kiw_cq &cq, std::uint16_t count, std::uint16_t period);
/// No queue pair names it any more, and nothing is told of it on its channel: put() follows.
void stop_cq(kiw_cq &cq);

/// Has polls of the queue look after a queue pair, or no more. Returns 0 or ENOMEM.
int join(kiw_cq &cq, Qp &qp, const MemberCalls &calls);
void leave(kiw_cq &cq, Qp &qp);

/// A thread has polled in vain: looks after the queue pairs. Returns whether anything was done.
bool progress(kiw_cq &cq);
/// The process has asked for an event.
void armed(kiw_cq &cq);

} // namespace kiwu
