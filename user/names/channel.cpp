// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "channel.hpp"

#include <cerrno>
#include <new>

#include "memory.hpp"

namespace kiwu {

namespace {

// Protects the list of channels that have gone.
constinit kiw::Lock free_lock;
constinit EventChannel *first_free = nullptr;

} // namespace

EventChannel *EventChannel::make(int &error)
{
	EventChannel *channel = nullptr;
	{
		kiw::Guard guard(free_lock);

		channel = first_free;
		if (channel)
			first_free = channel->next_free_;
	}
	if (!channel)
		channel = kiw::make<EventChannel>().release();
	error = channel ? channel->origin.open() : ENOMEM;
	if (!error)
		error = channel->queue.open();
	if (!channel)
		return nullptr;
	channel->ibv.fd = channel->queue.fd();
	channel->fetcher.store(0, std::memory_order_relaxed);
	channel->looking.store(false, std::memory_order_relaxed);
	channel->open_.store(true, std::memory_order_relaxed);
	// With this, others can enter.
	channel->references_.store(1, std::memory_order_release);
	if (!error)
		return channel;
	channel->end();
	return nullptr;
}

void EventChannel::end()
{
	if (open_.exchange(false, std::memory_order_relaxed))
		put();
}

EventChannel *EventChannel::enter(rdma_event_channel *ibv)
{
	EventChannel &channel = from(ibv);
	std::uint32_t references = channel.references_.load(std::memory_order_relaxed);

	do {
		if (!references)
			return nullptr;
	} while (!channel.references_.compare_exchange_weak(
		references, references + 1, std::memory_order_acquire, std::memory_order_relaxed));
	if (channel.open_.load(std::memory_order_relaxed))
		return &channel;
	channel.put();
	return nullptr;
}

void EventChannel::put()
{
	if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1)
		return;
	queue.close();
	kiw::Guard guard(free_lock);
	next_free_ = first_free;
	first_free = this;
}

void EventChannel::begin_anew()
{
	free_lock.~Lock();
	::new (&free_lock) kiw::Lock;
	first_free = nullptr;
}

} // namespace kiwu
