// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A connection of this process that has, had, or may get a lane. The descriptor of the program stays a connected TCP
// socket. The lock of the stream protects all but the uses and what is set once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "clock.hpp"
#include "hello.hpp"
#include "link.hpp"
#include "stream.hpp"
#include "user/cm/address.hpp"

namespace kiws {

class Set;
class Socket;
struct Member;

/// Octets of one direction
struct Traffic {
	std::uint64_t lane, tcp;
};

/// What a socket is, beside its uses
struct SocketState {
	/// How far the lane is
	enum class Dial : std::uint8_t {
		none,	 // no lane is under way: not yet, or not any more
		expects, // the hello is out, and the peer may dial
		dials,	 // this end dials
		done,	 // there is one, or was
		failed,
	};

	Link *link = nullptr;
	rdma_cm_id *id = nullptr; // of the lane, or of one that is under way; the steward's
	Dial dial = Dial::none;
	Time dial_end = forever;
	Nonce nonce{};
	std::uint16_t port = 0;		  // of the peer's rdma_cm
	kiwu::Address own, peer;	  // of the TCP connection
	const char *why = "no hello yet"; // there is no lane
	Traffic sent{}, received{};
	unsigned watchers = 0;	   // threads that sleep until something changes
	Member *members = nullptr; // its places in sets of epoll
	std::uint32_t changes = 0; // of what can be received and sent by the lane
	unsigned descriptors = 0;  // of the program, in this process
	int kept = -1;		   // after these, the steward's, until the lane has ended
	bool finished = false;	   // the program has ended its direction
	bool lost = false;	   // the lane has ended before both directions have left it
	bool listed = false;	   // by the steward
	Socket *next = nullptr;	   // there

protected:
	Stream *stream_ = nullptr;
	std::uint8_t *ring_ = nullptr; // of the stream, where this process has it mapped
	Time again_ = forever;
	Time waits_since_ = 0; // for the rest of a hello
	Time holds_until_ = 0;
	bool tcp_ended_ = false;
	bool stopped_ = false;
	bool asked_ = false;   // the peer to leave
	bool invited_ = false; // to dial the peer, once no other process has the socket
	int first_fd_ = -1;    // of those that fork() goes through
};

class Socket : public SocketState {
public:
	/// Makes one, with one use. Returns nullptr without memory.
	static Socket *make(Stream::Greeting greeting);

	/// One for each descriptor in the table, call under way and list of the steward. The last one frees it.
	bool get();
	void put();

	/// recvmsg() and sendmsg() of a descriptor, which return -errno for errors.
	ssize_t receive(int fd, msghdr &message, int flags);
	ssize_t send(int fd, const msghdr &message, int flags);

	Stream &stream() { return *stream_; }
	const Stream &stream() const { return *stream_; }

	// With the lock:

	/// Octets that can be received without TCP
	std::size_t waiting() const { return stream_->in.waiting(); }
	/// Says hello, or looks for one. Returns false if the other end may be in the midst of one.
	bool greet(int fd);
	/// Takes what has come by the lane. What has changed wakes the threads that watch.
	void progress();
	/// Takes the event of the completion channel. It was meant for all sets of epoll: one is looking already.
	void disarm(const Set *looks);
	/// Wakes all that wait for something of it.
	void wake();
	/// Enters the lane, where both ends can.
	void try_lane();
	/// Whether octets wait for a lane that is under way
	bool holds() const;
	/// Sends by TCP from now on, and asks the peer for the same. Returns whether both have left the lane.
	bool leave();
	/// No lane comes any more: a hello that has come is taken off, and none is sent. Returns false while one may
	/// come.
	bool take_hello(int fd);
	/// A lane was made for it in this process.
	void has_ring() { ring_ = stream_->ring; }
	/// Events of poll() that the lane has
	short ready(short events);
	/// Those that TCP is to be asked for; 0: it has nothing to say
	short of_tcp(short events) const;
	/// Of those that TCP reports, what the program is told
	short translate(short reported);
	/// When it has to be looked at again, though nothing comes
	Time look_again() const { return again_; }
	/// Whether TCP is all that it has and will have
	bool is_plain() const;
	/// The program ends its direction, or does not receive any more.
	void finish();
	void stop_receiving() { stopped_ = true; }

	/// fork() is called: none begins or goes between these two.
	static void hold();
	static void release();
	/// The child holds the stream as well. Its lane is the parent's alone.
	void bequeath(int fd);
	void stay() { first_fd_ = -1; }
	void inherit();

private:
	ssize_t take(int fd, msghdr &message, std::size_t done, std::size_t length, int flags);
	void taken(std::size_t octets);
	ssize_t take_ring(msghdr &message, std::size_t done, std::size_t length, int flags);
	ssize_t take_tcp(int fd, msghdr &message, std::size_t done, std::size_t length, int flags);
	ssize_t give(int fd, const msghdr &message, std::size_t done, std::size_t length, int flags);
	bool say_hello(int fd);
	bool look_for(int fd);
	void accept();
	bool on_lane() const;
	/// Whether TCP's end is no end yet, as the lane may carry more
	bool lane_tells() const { return link && !link->gone; }

	std::atomic<std::uint32_t> uses_ = 0;
};

} // namespace kiws
