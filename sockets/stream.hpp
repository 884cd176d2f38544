// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// One TCP connection that has, had, or may get a lane: what all processes that hold it have in common. It lies in
// memory that a child of fork() shares with its parent, as does the ring in which the lane's octets come: what one
// process takes the other doesn't get.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

#include "direction.hpp"

namespace kiws {

class Stream {
public:
	enum class Greeting : std::uint8_t {
		done,	// no hello is due on TCP any more
		unsent, // this end begins with one
		unread, // the other end may begin with one
	};
	/// Size of each ring
	static constexpr std::size_t ring_size = std::size_t(128) << 10;

	/// Protects all members but users, and the lane of the process. Nothing waits while it is held.
	/// Returns 0; or EDEADLK in a signal handler that interrupted a holder.
	int lock()
	{
		const int error = ::pthread_mutex_lock(&mutex_);

		if (error != EOWNERDEAD)
			return error;
		// A process was killed in the midst of something.
		(void)::pthread_mutex_consistent(&mutex_);
		broken = true;
		return 0;
	}
	void unlock() { (void)::pthread_mutex_unlock(&mutex_); }

	/// Processes that use it; 0: free
	std::atomic<std::uint32_t> users;
	/// Those of them that have a descriptor
	unsigned holders;

	Greeting greeting;
	std::uint8_t greeted; // octets of this end's hello that TCP has
	bool broken;	      // octets may be lost: ECONNRESET
	Outgoing out;
	Incoming in;
	std::uint8_t *ring; // of ring_size; nullptr before a lane

	/// Makes one, with a user and holder. Returns nullptr without memory.
	static Stream *make(Greeting greeting);
	/// Makes the ring. Returns false without memory.
	bool need_ring();
	/// Copies octets of the ring, of which so many wait, from an offset on. They stay there.
	void peek(void *to, std::size_t from, std::size_t length) const;
	/// A user less, which had the ring mapped there, or nowhere (nullptr): another process may have made it since.
	void put(std::uint8_t *mapped);
	/// fork() is called: none is made between these two. In the child, those that are free belong to the parent.
	static void hold();
	static void release();
	static void forget_all();

private:
	pthread_mutex_t mutex_;
};

/// The lock of a stream, if it can be had
class [[nodiscard]] Locked {
public:
	explicit Locked(Stream &stream) : stream_(stream), error_(stream.lock()) {}
	~Locked()
	{
		if (!error_)
			stream_.unlock();
	}
	Locked(const Locked &) = delete;
	Locked &operator=(const Locked &) = delete;
	explicit operator bool() const { return !error_; }

private:
	Stream &stream_;
	const int error_;
};

} // namespace kiws
