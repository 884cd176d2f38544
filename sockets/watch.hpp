// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Threads that sleep until something of a socket changes. The thread that takes a completion from its queue may be
// another one: it rings.
#pragma once

#include <cstddef>
#include <cstdint>

#include "socket.hpp"

namespace kiws {

/// What a thread watches. It is the thread's own, and outlives a wait that a signal handler left by longjmp().
class Watch {
public:
	/// The calling thread's, which watches nothing; nullptr without memory or a descriptor
	static Watch *mine();

	/// Watches a socket, too, with its lock. Returns false without memory.
	bool add(Socket &socket);
	/// Becomes readable when a watched socket changes.
	int fd() const { return bell_; }
	/// Watches nothing any more, without a lock.
	void end();

private:
	friend void ring(Socket &socket);
	static void leave(void *thread);

	int bell_ = -1;
	std::size_t count_ = 0, room_ = 0;
	Socket **sockets_ = nullptr;
	Watch *next_ = nullptr;
};

/// Wakes the threads that watch a socket, but for the calling one, with its lock.
void ring(Socket &socket);

/// fork() is called: nothing changes between these two. In the child, the calling thread is the only one.
void hold_watches();
void release_watches();
void forget_watches();

} // namespace kiws
