// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "stream.hpp"

#include <cstring>
#include <sys/mman.h>

#include "lock.hpp"

namespace kiws {

namespace {

struct Slab {
	static constexpr std::size_t size = std::size_t(64) << 10;

	Slab *next;
	Stream streams[(size - sizeof(void *)) / sizeof(Stream)];
};
static_assert(sizeof(Slab) <= Slab::size);

kiw::Lock slabs_lock;
Slab *slabs;

template <typename T>
T *map_shared(std::size_t size)
{
	void *memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? nullptr : static_cast<T *>(memory);
}

Stream *find_free()
{
	for (Slab *slab = slabs; slab; slab = slab->next)
		for (Stream &stream : slab->streams) {
			std::uint32_t none = 0;

			if (stream.users.compare_exchange_strong(none, 1))
				return &stream;
		}
	return nullptr;
}

} // namespace

Stream *Stream::make(Greeting greeting)
{
	kiw::Guard guard(slabs_lock);
	Stream *stream = find_free();

	if (!stream) {
		auto *slab = map_shared<Slab>(Slab::size);

		if (!slab)
			return nullptr;
		slab->next = slabs;
		slabs = slab;
		stream = &slab->streams[0];
		stream->users = 1;
	}
	stream->holders = 1;
	stream->greeting = greeting;
	stream->greeted = 0;
	stream->broken = false;
	stream->out = {};
	stream->in = {};
	stream->ring = nullptr;

	pthread_mutexattr_t kind;
	(void)::pthread_mutexattr_init(&kind);
	(void)::pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
	(void)::pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
	(void)::pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	(void)::pthread_mutex_init(&stream->mutex_, &kind);
	(void)::pthread_mutexattr_destroy(&kind);
	return stream;
}

bool Stream::need_ring()
{
	if (!ring)
		ring = map_shared<std::uint8_t>(ring_size);
	return ring;
}

void Stream::peek(void *to, std::size_t from, std::size_t length) const
{
	for (std::size_t at = 0; at < length;) {
		const Piece piece = piece_of(in.entered(), in.offset() + from + at, length - at, ring_size);

		std::memcpy(static_cast<std::uint8_t *>(to) + at, ring + piece.position, piece.length);
		at += piece.length;
	}
}

void Stream::put(std::uint8_t *mapped)
{
	if (mapped)
		(void)::munmap(mapped, ring_size);
	users.fetch_sub(1);
}

void Stream::hold()
{
	slabs_lock.lock();
}

void Stream::release()
{
	slabs_lock.unlock();
}

void Stream::forget_all()
{
	slabs = nullptr;
	slabs_lock.unlock();
}

} // namespace kiws
