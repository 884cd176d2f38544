// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A lane: a queue pair beside a TCP connection, of this process. Octets are written into the ring of the peer, from a
// copy at the same place of a ring here, and a notice tells how far. The lock of the stream protects all of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <sys/uio.h>

#include "stream.hpp"
#include "verbs.hpp"

namespace kiws {

/// What one end of a lane tells the other in the private data: 16 octets behind the nonce
struct Terms {
	static constexpr std::size_t size = 16;

	std::uint64_t ring; // its address
	std::uint32_t stag;
	std::uint8_t log2_size;
	std::uint8_t slots;

	void write(std::uint8_t *octets) const;
	/// Returns false for terms that no end of this version has.
	bool read(const std::uint8_t *octets);
};

class Link {
public:
	/// Makes the queue pair of an identifier that knows its device. Returns nullptr if there is no room for it.
	static Link *make(rdma_cm_id *id, Stream &stream);
	/// Ends the connection, and frees it. No thread uses it, and the stream has none any more.
	void destroy();

	Terms terms() const;
	void set_peer(const Terms &terms) { peer_ = terms; }

	/// Both ends are connected.
	bool up = false;
	/// The connection has ended: nothing comes any more, or the peer broke the rules.
	bool gone = false;
	/// Nothing can be sent any more, though something may still come.
	bool mute = false;
	/// The peer would like this end to leave the lane.
	bool asked_to_leave = false;

	/// Takes what has come. Returns whether something has changed.
	bool progress();
	/// The next arrival makes fd() readable.
	void arm();
	int fd() const { return channel_->fd; }
	/// Takes the event that made fd() readable, if there is one.
	void disarm();

	/// Octets that send() takes at once
	std::size_t room() const;
	/// Sends octets, of which there is room.
	void send(const iovec *pieces, std::size_t skip, std::size_t length);

	/// This direction enters or leaves the lane, or ends: with the next notice for which there is a slot.
	void enter();
	void leave();
	void ask_to_leave();
	void finish();
	/// Whether the peer was told all of that
	bool told_all() const { return !pending_; }
	/// Whether finish() was the last that had to be done
	bool finished() const { return finished_; }
	/// Tells what is due.
	void flush();

	static constexpr unsigned slots = 32;

private:
	/// Slots that only notices without octets take: what the peer has to know isn't held up.
	static constexpr unsigned reserved = 2;
	static constexpr std::size_t slot_size = Notice::header + Notice::most;
	/// Requests for a notice: two Writes, where the ring ends in between, and the Send
	static constexpr unsigned requests = 3;
	static constexpr unsigned depth = requests * slots;
	static constexpr unsigned signal_each = slots / 4;
	/// The peer begins with what it has.
	static constexpr std::size_t most_at_once = std::size_t(64) << 10;

	/// Registered memory of this process alone
	struct Memory {
		std::uint8_t incoming[slots][slot_size];
		std::uint8_t outgoing[slots][slot_size];
		std::uint8_t copy[Stream::ring_size];
	};

	Link(rdma_cm_id *id, Stream &stream) : id_(id), stream_(stream) {}
	~Link() = default;
	bool build();
	bool post_receive(unsigned slot);
	void complete(const ibv_wc &completion);
	bool take(const Notice &notice, const std::uint8_t *octets);
	bool can_tell(unsigned keep) const;
	void tell(Notice::Kind kind, Offset argument, std::size_t length, ibv_send_wr *writes);
	void tell_pending(unsigned &pending, Notice::Kind kind, Offset argument);

	rdma_cm_id *const id_;
	Stream &stream_;
	ibv_comp_channel *channel_ = nullptr;
	ibv_cq *cq_ = nullptr;
	Memory *memory_ = nullptr;
	ibv_mr *memory_mr_ = nullptr, *ring_mr_ = nullptr;
	Terms peer_{};
	unsigned tells_ = 0;	    // notices sent
	unsigned credits_ = slots;  // slots that the peer has for them
	unsigned posted_again_ = 0; // receive requests of which the peer doesn't know
	unsigned queued_ = 0;	    // requests that may be under way
	unsigned unsignalled_ = 0;  // the last of them, of which no completion will tell
	unsigned pending_ = 0;	    // what is to be told, a bit for each kind
	Offset fin_ = never;
	bool finished_ = false;
	unsigned events_ = 0; // to be acknowledged
};

} // namespace kiws
