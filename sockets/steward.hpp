// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The thread that makes lanes and ends them. It begins with the first connection that may have one. Between, it looks
// at each lane from time to time: what the peer asks for waits for no call of the program.
#pragma once

#include <cstdint>

#include "socket.hpp"

namespace kiws {

class Steward {
public:
	/// The port at which peers dial this process, of an address family; 0: there is none.
	std::uint16_t port(int family);

	// With the lock of the socket's stream:

	/// A hello is out: a peer may dial with its nonce.
	void expect(Socket &socket);
	/// Dials the peer that has said hello.
	void dial(Socket &socket);
	/// Neither any more, for a reason
	void forget(Socket &socket, const char *why);
	/// The program has closed a socket, and its lane is still to be ended. The steward has a descriptor of it.
	void keep();

	/// Waits until what was kept has gone, at most until a time.
	void wait(Time end);
	/// fork() is called: nothing changes between these two. In the child there is no thread, and no lane.
	void hold();
	void release();
	void forget_all();
};

extern Steward steward;

} // namespace kiws
