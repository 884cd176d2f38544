// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Queue pairs, and the stream of one: a session and the socket that carries it.
//
// One lock protects all of a queue pair, whether it has a stream or not. Its holder does what is due before
// letting go of it. The threads that do so are those of the program, when they post or poll in vain, and the
// understudy, where a completion queue is armed or where bytes wait and nobody polls.
//
// Locks, outermost first: endpoint, members of a completion queue, queue pair, shared receive queue, completion queue,
// event queue, understudy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cq.hpp"
#include "peer.hpp"
#include "session/session.h"
#include "srq.hpp"
#include "turn_lock.hpp"
#include "understudy.hpp"

namespace kiwu {

/// What a stream tells its endpoint, any number of times
enum : std::uint32_t {
	stream_established = 1, // the peer's first FPDU was good
	stream_closing = 2,	// the connection has begun to end
	stream_ended = 4,	// it has ended
	stream_aborted = 8,	// the queue pair wants to be rid of it
	stream_ready = 16,	// a queue pair by number may send now, or its peer was named
};

/// Where a stream leaves word
struct Inbox {
	explicit Inbox(Watched &watched) : watched(watched) {}

	void post(std::uint32_t what)
	{
		if (~news.fetch_or(what, std::memory_order_acq_rel) & what)
			understudy::queue(watched);
	}
	std::uint32_t take() { return news.exchange(0, std::memory_order_acq_rel); }

	Watched &watched; // of the endpoint; an inbox goes with a reference to it
	std::atomic<std::uint32_t> news = 0;
};

/// What an end leaves to the endpoint
struct Remains {
	std::uint8_t *bytes = nullptr; ///< that TCP has had no room for, and the FIN follows; owned
	std::size_t length = 0;
	bool fin_sent = false; ///< the peer knows that it is an orderly end of what it was sent
};

struct Qp {
	/// What a queue pair does that has no stream; nullptr: one that connects
	struct Kind {
		int (*ring_send)(Qp &qp);
		int (*ring_recv)(Qp &qp);
		void (*settle)(Qp &qp, bool receive); ///< does what is due; under the lock
		Watched::Release release;
	};

	Watched watched;
	TurnLock lock;
	const Kind *const kind = nullptr;

	// All of this under the lock
	kiw_core core{};
	// The session, and where the carrier's functions find what it is part of
	struct Seat {
		kiw_session session{};
		Qp *qp = nullptr;
	} seat;
	kiw_session &ss = seat.session;
	int fd = -1; // with a stream, or of datagrams
	Inbox *inbox = nullptr;
	bool dying = false;
	bool closed = false; // idle after an orderly close, which may be asked for again
	std::uint32_t caps = 0;
	std::uint8_t asked = 0; // rights as the program has set them last
	bool by_number = false; // peer is valid
	Peer peer;
	Srq *srq = nullptr;
	SrqWait srq_wait;
	kiw_cq *send_cq = nullptr, *recv_cq = nullptr;
	void (*raise)(Qp &qp, int event) = nullptr; // IBV_EVENT_QP_*
	// Has the endpoint, which left this with its inbox, let go of a queue pair that goes
	void (*end_connection)(Qp &qp, Inbox &inbox) = nullptr;
	void *user = nullptr;
	std::atomic<std::uint32_t> async_events_told = 0;

	Qp() noexcept;

	/// Completions go there. The understudy may look at them when the queue pair has gone.
	void use(kiw_cq &send, kiw_cq &recv);
	/// Makes the queues; core has their capacities, and the number. Returns 0, or an errno value: then put() is all
	/// that is left to do.
	int make(std::uint32_t send_stride, std::uint32_t recv_stride);
	/// Nobody uses it any more, but for those that have a reference.
	void end();

	/// Reserves an idle queue pair for a connection attempt of its kind. Returns 0 or EISCONN.
	int bind(Inbox &inbox, bool by_number = false);
	/// The attempt or connection is over.
	void unbind(Inbox &inbox);
	/// Begins full operation on a connected socket, which stays the endpoint's. Returns 0 or an errno value.
	int start(Inbox &inbox, int fd, const kiw_mpa_result &terms, bool first);
	/// Reports a protocol error on a stream that was just started.
	void fail(kiw_err error);
	/// The stream lets go of the queue pair and the socket. If it still has them.
	Remains stop(const Inbox &inbox, bool orderly);

	/// Doorbells. Return 0 or an errno value.
	int ring_send();
	int ring_recv();
	/// A thread that polls in vain looks after it. Returns whether anything was done.
	bool poll();
	/// The understudy is told of what comes in.
	void unmute();
	/// Takes what is sent of the process's memory into our own: a region goes.
	void copy_lent();
	/// The batch gets some of the process's memory.
	void will_lend();

	/// As ibv_modify_qp(), with attributes that were checked; named: for a change to RTR, the peer to connect to by
	/// number. Returns 0 or an errno value.
	int modify(const ibv_qp_attr &attr, int mask, const Peer *named = nullptr);
	int modify_state(ibv_qp_state to);
	ibv_qp_state shown_state() const;

	// By number: peer.cpp
	/// Gets the peer. Returns false: there is none.
	bool named_peer(Peer &named);
	/// No attempt succeeds any more. Returns the inbox of the endpoint that is left to end, with a reference, or
	/// nullptr.
	Inbox *part_from_peer();
	/// The peer's statement on its messages; before start()
	void meet(bool limited);
	/// Compares the sq_psn that the peer of an endpoint's stream expects, now or at the change to RTS. Returns
	/// false: the program set another one.
	bool proved(const Inbox &of, std::uint32_t psn);
	/// No attempt can succeed: the queue pair enters the error state, unless it is connected.
	void give_up();

	// For the functions of the carrier
	bool due = false;
	bool fin_sent = false, fin_received = false;
	Time starve_end = never;
	std::uint64_t sent = 0; // bytes that TCP has taken
	std::uint32_t mss = 0;
	std::uint32_t mss_age = 0; // runs, and KB, since TCP was asked
	/// The understudy does what is due after that time, or earlier: a caller with more due later asks once more.
	void late(Time delay);
	/// Whether it does by that time
	bool is_late_by(Time time) const { return late_at_ <= time; }
	bool keeps() const { return keeps_; }
	/// What TCP hasn't taken of a batch is left to the endpoint. Returns 0 or -ENOMEM.
	int keep(kiw_batch &batch);

	static Qp &of(Watched &watched) { return reinterpret_cast<Qp &>(watched); }
	static Qp &of(kiw_session *session) { return *reinterpret_cast<Seat *>(session)->qp; }
	static const Qp &of(const kiw_session *session) { return *reinterpret_cast<const Seat *>(session)->qp; }

protected:
	explicit Qp(const Kind &kind) noexcept;

	bool unlock(bool receive);
	/// The understudy is told of nothing any more.
	void stop_watching();
	void withdraw();
	void free_queues();

	kiw_sge *sges_ = nullptr; // of the requests under way
	std::uint32_t taken_ = 0; // bytes of the stream that the session is through with; or datagrams
	bool left_over_ = false;

private:
	static void on_event(Watched &watched, std::uint32_t what);
	static void on_release(Watched &watched);

	void init();
	bool has_stream() const { return fd >= 0; }
	bool is_over() const;
	bool send_some(int batches);
	bool is_long() const;
	std::uint32_t find_direct();
	int bytes_in_socket();
	std::uint32_t stage_room() const;
	void fill_stage();
	bool may_have_more(bool full) const;
	void take();
	void feed(std::uint32_t direct);
	void take_end(int error);
	void look_for_reset();
	void acknowledge();
	bool unfinished() const;
	void lost();
	void peer_gone();
	void look_again();
	void check_closed();
	void send_fin();
	void push_all();
	void break_off();
	void act();
	bool round(bool receive);
	void settle(bool receive);
	void play(std::uint32_t what = 0);
	bool attended();
	void mute();
	void sample();
	void detach(bool orderly, Remains &remains);
	void flush_idle();
	void fail_idle();
	int modify_idle(const ibv_qp_attr &attr, int mask, const Peer *named);
	int modify_connected(const ibv_qp_attr &attr, int mask, bool names);
	void keep(const ibv_qp_attr &attr, int mask);
	void set_access(unsigned access);

	int expect(const Peer &named);
	int ready(const ibv_qp_attr &attr, int mask);
	void keep_path(const ibv_qp_attr &attr, int mask);
	void forget_peer();
	void await_peer();
	void lose_idle();
	void watch_peer();
	void set_peer_time();
	void probe(bool on);
	bool is_silent(Time time, Time limit);
	bool look_for_peer(Time time);
	bool peer_time(Time time);
	void await_acks();

	std::uint8_t *stage_ = nullptr;
	std::uint32_t stage_first_ = 0, stage_used_ = 0;
	bool more_ = false;	  // the socket may have more
	bool tells_left_ = false; // each call that receives a long segment tells how much the socket has beyond,
	int left_ = -1;		  // which was so much, or is not known
	bool polled_ = false;	  // the thread that has the lock polls
	bool told_ = false;	  // the understudy was told of more than data: an end, an error or urgent data
	bool eof_ = false;
	int error_ = 0;	      // of the socket
	bool broken_ = false; // TCP takes nothing any more
	bool keeps_ = false;  // what is sent goes to the endpoint, behind what TCP has no room for
	Remains remains_;
	bool ended_ = false;
	bool lends_ = false; // counted among those that hold the process's memory
	Time late_at_ = never;
	Time acks_at_ = never, acks_pause_ = 0; // when acknowledgments are looked for

	// The understudy's, and what it looks at
	std::atomic<bool> muted_ = false;
	std::uint32_t seen_ = 0;
	Time sample_at_ = never, pause_ = 0;
	kiw::Lock watch_lock_; // protects what the understudy is told of

	void count_lending();
};

/// Connections by rdma_cm; see protocol.md for what is different by number.
extern const kiw_manner manner_cm;

/// A queue pair of the process, by its number
Qp *find_qp(std::uint32_t number);
/// The same for a number that a peer tells; with a reference
Qp *get_qp(std::uint32_t number);
/// Any queue pair has some of the process's memory yet to be sent: copies it. A region of that memory goes.
void copy_all_lent();
/// In a child of fork(): they are its parent's.
void forget_qps();
/// Ends all connections, as if their queue pairs were destroyed. Returns whether there is one that hasn't ended yet.
bool end_all();

} // namespace kiwu
