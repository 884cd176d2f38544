// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "events.hpp"

#include <cerrno>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "sys.hpp"

namespace kiwu {

int EventQueue::open()
{
	const int fd = sys::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	if (fd < 0)
		return -fd;
	fd_ = fd;
	return 0;
}

void EventQueue::close()
{
	if (fd_ >= 0)
		sys::close(fd_);
	fd_ = -1;
}

void EventQueue::append(Event &event)
{
	event.next = nullptr;
	*last_ = &event;
	last_ = &event.next;
}

void EventQueue::add(Event &event)
{
	constexpr std::uint64_t one = 1;
	kiw::Guard guard(lock_);

	if (!event.count++)
		append(event);
	// The descriptor's counter has room for more than there can be.
	sys::write(fd_, &one, sizeof(one));
}

int EventQueue::take(Event *&event, void (*told)(Event &event))
{
	std::uint64_t one = 0;

	for (;;) {
		// A thread that is cancelled ends here, as in libibverbs.
		if (::read(fd_, &one, sizeof(one)) < 0)
			return errno;
		kiw::Guard guard(lock_);

		// What was dropped may have been counted still.
		event = first_;
		if (!event)
			continue;
		first_ = event->next;
		if (!first_)
			last_ = &first_;
		if (--event->count)
			append(*event);
		told(*event);
		return 0;
	}
}

/// The descriptor isn't readable for events that are dropped. Where a thread has taken their turn already, it looks
/// again; where the kernel is too old to read without waiting, the descriptor may be readable for nothing.
void EventQueue::forget(std::uint32_t count) const
{
	std::uint64_t one = 0;
	const iovec part = {.iov_base = &one, .iov_len = sizeof(one)};

	while (count-- > 0)
		if (sys::call(SYS_preadv2, fd_, &part, 1, -1L, 0L, RWF_NOWAIT) < 0)
			return;
}

} // namespace kiwu
