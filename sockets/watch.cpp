// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "watch.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <sys/eventfd.h>

#include "lock.hpp"
#include "real.hpp"

namespace kiws {

namespace {

// Protects the list, and what each watches. Innermost.
kiw::Lock watches_lock;
Watch *watches;
thread_local Watch *own [[gnu::tls_model("initial-exec")]];

} // namespace

void Watch::leave(void *thread)
{
	auto *watch = static_cast<Watch *>(thread);

	watch->end();
	{
		kiw::Guard guard(watches_lock);
		Watch **at = &watches;

		while (*at && *at != watch)
			at = &(*at)->next_;
		if (*at)
			*at = watch->next_;
	}
	(void)real().close(watch->bell_);
	std::free(watch->sockets_);
	std::free(watch);
	own = nullptr;
}

Watch *Watch::mine()
{
	static pthread_key_t key;
	static const bool has_key = ::pthread_key_create(&key, leave) == 0;

	if (own) {
		std::uint64_t rings = 0;

		own->end();
		(void)!real().read(own->bell_, &rings, sizeof(rings));
		return own;
	}
	auto *watch = has_key ? static_cast<Watch *>(std::calloc(1, sizeof(Watch))) : nullptr;
	if (!watch)
		return nullptr;
	watch->bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watch->bell_ < 0 || ::pthread_setspecific(key, watch)) {
		if (watch->bell_ >= 0)
			(void)real().close(watch->bell_);
		std::free(watch);
		return nullptr;
	}
	kiw::Guard guard(watches_lock);
	watch->next_ = watches;
	watches = watch;
	return own = watch;
}

bool Watch::add(Socket &socket)
{
	kiw::Guard guard(watches_lock);

	if (count_ == room_) {
		const std::size_t room = room_ ? 2 * room_ : 4;
		void *grown = std::realloc(sockets_, room * sizeof(void *));

		if (!grown)
			return false;
		sockets_ = static_cast<Socket **>(grown);
		room_ = room;
	}
	(void)socket.get();
	sockets_[count_++] = &socket;
	socket.watchers++;
	return true;
}

void Watch::end()
{
	while (count_) {
		Socket *socket = nullptr;
		{
			kiw::Guard guard(watches_lock);

			socket = sockets_[--count_];
		}
		{
			const Locked locked(socket->stream());

			socket->watchers--;
		}
		socket->put();
	}
}

void ring(Socket &socket)
{
	kiw::Guard guard(watches_lock);

	for (Watch *watch = watches; watch; watch = watch->next_) {
		const std::uint64_t once = 1;

		if (watch != own && std::find(watch->sockets_, watch->sockets_ + watch->count_, &socket) !=
					    watch->sockets_ + watch->count_)
			(void)!real().write(watch->bell_, &once, sizeof(once));
	}
}

void hold_watches()
{
	watches_lock.lock();
}

void release_watches()
{
	watches_lock.unlock();
}

void forget_watches()
{
	watches_lock.~Lock();
	::new (&watches_lock) kiw::Lock;
	watches = nullptr;
	// Its bell rings for the parent, too.
	own = nullptr;
}

} // namespace kiws
