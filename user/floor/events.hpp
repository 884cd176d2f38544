// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Events that a process waits for on a descriptor: of completion channels, of an open device and of rdma_cm. The
// descriptor is readable as long as there is one.
#pragma once

#include <cstdint>

#include "lock.hpp"

namespace kiwu {

/// What can be told of; part of an object, which isn't freed as long as an event of it is in a queue.
struct Event {
	Event *next = nullptr;
	std::uint32_t count = 0; ///< times that it is to be told
	void *object = nullptr;	 ///< that it is about
};

class EventQueue {
public:
	EventQueue() = default;
	EventQueue(const EventQueue &) = delete;
	EventQueue &operator=(const EventQueue &) = delete;
	~EventQueue() { close(); }

	/// Returns 0 or an errno value.
	int open();
	void close();
	int fd() const { return fd_; }

	/// Adds an event, or one more of it. From any thread.
	void add(Event &event);

	/// Takes the oldest; waits for one unless the descriptor is non-blocking. Returns 0 or an errno value.
	/// told: counts it for its object, before drop() can find that the object has no event left.
	int take(Event *&event, void (*told)(Event &event));

	/// Whether there is one that a predicate names.
	template <typename Predicate>
	bool has(const Predicate &predicate)
	{
		kiw::Guard guard(lock_);
		Event *event = first_;

		while (event && !predicate(*event))
			event = event->next;
		return event;
	}

	/// Takes all those that a predicate names, and gives each to a function.
	template <typename Predicate, typename Function>
	void drop(const Predicate &predicate, const Function &function)
	{
		Event *dropped = nullptr;
		{
			kiw::Guard guard(lock_);
			Event **link = &first_;

			while (Event *event = *link) {
				if (!predicate(*event)) {
					link = &event->next;
					continue;
				}
				*link = event->next;
				forget(event->count);
				event->next = dropped;
				dropped = event;
			}
			last_ = link;
		}
		while (Event *event = dropped) {
			dropped = event->next;
			event->next = nullptr;
			event->count = 0;
			function(*event);
		}
	}

private:
	void append(Event &event);
	void forget(std::uint32_t count) const;

	// Protects the list, and its events.
	kiw::Lock lock_;
	int fd_ = -1;
	Event *first_ = nullptr;
	Event **last_ = &first_;
};

} // namespace kiwu
