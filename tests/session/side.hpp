// SPDX-License-Identifier: GPL-2.0
// One side of a connection: a session, its rings, its memory, and a socket of a pair that carries it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "session/cqe.h"
#include "session/session.h"

struct kiw_cq {
	std::deque<kiw_cqe> entries;
	std::size_t room = SIZE_MAX;
	std::function<void()> on_add; // a process that polls may post at once
};

/// Bytes of regions that TCP has as they are
struct kiw_loan {
	std::deque<kiw_loan> *of;
	std::uint32_t end = 0;
	bool over = false, put = false;
};

namespace session {

/// What a trace event said: its name's initials, then its arguments in order
struct Traced {
	std::string event;
	std::uint32_t num;
	std::array<int, 3> said;
	bool operator==(const Traced &) const = default;
};

/// The last events, the youngest at the end
std::deque<Traced> &traced();

struct Terms {
	bool crc = false;
	bool markers = false;
	bool large = true;
	bool ext = true;
	bool first = true; // this side may send at once
	std::uint16_t ird = 4, ord = 4;
	std::uint32_t entries = 64;
	std::uint32_t mss = 1448;
	std::uint32_t start = 0; // first index of the rings
	std::uint8_t rtr = 0;	 // KIW_RTR_*, and then the peer-to-peer model
};

/// Terms of both sides, and how they hold each other's bytes back
class Side {
public:
	Side(int fd, const Terms &terms, std::uint32_t num, const kiw_manner &manner);
	~Side();
	Side(const Side &) = delete;
	Side &operator=(const Side &) = delete;

	static constexpr std::uint32_t memory_size = 128 << 10;
	static constexpr std::uint64_t address = 0x7000000000;
	static constexpr int all =
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC;

	/// Region 0 has all rights and stays, region 1 may be invalidated, and region 2 may only be used by its owner.
	const kiw_region &region(std::size_t i) const { return regions_.at(i); }
	std::span<std::uint8_t> bytes(std::size_t i = 0) { return {memory_[i].data(), memory_[i].size()}; }
	kiw_sge sge(std::uint32_t offset, std::uint32_t length, std::size_t i = 0) const;

	void post(const kiw_wqe &wqe, std::span<const kiw_sge> sges, const kiw_atomic_args *args = nullptr);
	void receive(std::uint64_t id, std::span<const kiw_sge> sges);
	/// A slot of the send ring as a process may have written it, and the index behind it
	void scribble(std::span<const std::uint8_t> slot, std::uint32_t prod);

	/// Takes what came in, sends what may be sent, and does what is due. Return: whether anything happened.
	bool work();
	/// Takes what came in, alone.
	void take_some() { take(); }
	/// What came in, untouched
	std::vector<std::uint8_t> raw();
	/// In place of what the peer sends
	void feed(std::span<const std::uint8_t> bytes);
	/// Of a payload, n bytes are in this socket.
	void feed_from(int fd, std::uint32_t n);
	void close() { event(KIW_EV_CLOSE); }
	bool event(kiw_qp_event event) { return kiw_session_event(&s, event); }
	/// The connection breaks.
	void reset();
	/// Time passes.
	void advance(unsigned long ms) { now += ms; }
	/// Receive requests come from a queue that others may share.
	void share();
	void receive_shared(std::uint64_t id, std::span<const kiw_sge> sges);
	/// The loans are over.
	void end_loans();

	std::deque<kiw_cqe> &completions() { return cq_.entries; }
	kiw_cqe completion();
	std::uint32_t consumed() const { return consumed_; }

	// What the carrier's functions look at
	kiw_core core{};
	struct Seat {
		kiw_session session;
		Side *side;
	} seat{{}, this};
	kiw_session &s = seat.session;
	Side *peer = nullptr;
	bool hold = false; // nothing that came in is taken
	bool starves_ = false;
	static inline unsigned long now = 1;
	unsigned long waits_until_ = 0, late = 0;
	bool kicked = false, closing = false, established = false, fin_sent = false, fin_received = false;
	unsigned begun = 0, left_shared = 0, unheld = 0;
	bool held = true, watched = false, drops = false;
	kiw_rq shared{};
	// What TCP has been given, and how it answers
	std::uint32_t sent_bytes = 0, lent_bytes = 0, sent_fpdus = 0;
	std::vector<bool> more;		// each push: would another follow at once
	std::set<std::uint32_t> finals; // where batches end that none would follow; each may take several pushes
	unsigned straddled = 0;		// FPDUs of two segments, in a connection whose segments shall hold whole ones
	int refuses = 0;		// the error of a push
	bool has_memory = true, has_room = true;
	std::uint32_t gathers = 0;    // which requests wait for others: KIW_RING_DRAINING, KIW_RING_SMALL
	std::uint32_t lends_from = 0; // bytes of a message that is lent; 0: none is
	bool loan_is_full = false;
	std::deque<kiw_loan> loans;
	std::function<void()> on_starve;
	/// How often a batch finds room before memory is short, or -1; whether it is short only once; and that it was
	static inline int rooms = -1;
	static inline bool rooms_once = false, refused = false;
	/// Of regions: uses that are begun, and chunks that are mapped
	static inline int uses = 0, mapped = 0;
	std::uint32_t pushed;
	std::array<unsigned, KIW_STAT_NUM> counts{};
	std::vector<ib_event_type> events;
	std::uint32_t mss;
	int push();
	unsigned straddling() const;

private:
	void act();
	void post_receive(kiw_rq &rq, std::uint64_t id, std::span<const kiw_sge> sges);
	void check_closed();
	bool take();
	void peer_gone();
	std::uint8_t *slot(void *ring, std::uint32_t index, std::uint32_t stride) const;

	int fd_;
	Terms terms_;
	kiw_cq cq_;
	std::array<std::vector<std::uint8_t>, 3> memory_;
	std::array<kiw_region, 3> regions_;
	std::vector<std::uint8_t> sq_ring_, rq_ring_, shared_ring_;
	std::vector<struct kiw_swr> swrs_;
	std::array<kiw_sge, 16> send_sges_, recv_sges_;
	std::vector<std::uint8_t> in_;
	std::uint32_t consumed_;
};

/// Two sides that are joined
struct Pair {
	explicit Pair(const Terms &terms = {}, const kiw_manner &manner = by_cm, int buffer = 0);

	/// Until nothing happens any more
	void run();
	/// What side a has sent, and b gets no more
	std::vector<std::uint8_t> catch_of_a();

	static const kiw_manner by_cm, by_number, patient;
	std::unique_ptr<Side> a, b;
};

} // namespace session
