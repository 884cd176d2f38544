// SPDX-License-Identifier: GPL-2.0
// One side of a connection: a session, its rings, its memory, and a socket of a pair that carries it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "session/cqe.h"
#include "session/session.h"

struct kiw_cq {
	std::deque<kiw_cqe> entries;
	std::size_t room = SIZE_MAX;
};

namespace session {

struct Terms {
	bool crc = false;
	bool markers = false;
	bool large = true;
	bool ext = true;
	bool first = true; // this side may send at once
	std::uint16_t ird = 4, ord = 4;
	std::uint32_t entries = 64;
	std::uint32_t mss = 1448;
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
	/// What came in, untouched
	std::vector<std::uint8_t> raw();
	/// In place of what the peer sends
	void feed(std::span<const std::uint8_t> octets);
	void close() { event(KIW_EV_CLOSE); }
	bool event(kiw_qp_event event) { return kiw_session_event(&s, event); }
	/// The connection breaks.
	void reset();
	/// Time passes, for those who wait.
	void advance(unsigned long ms) { now_ += ms; }

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
	unsigned long now_ = 1, waits_until_ = 0;
	bool kicked = false, closing = false, established = false, fin_sent = false, fin_received = false;
	std::uint32_t pushed = 0;
	std::array<unsigned, KIW_STAT_NUM> counts{};
	std::vector<ib_event_type> events;
	std::uint32_t mss;
	int push();

private:
	void act();
	void check_closed();
	bool take();
	void peer_gone();
	std::uint8_t *slot(void *ring, std::uint32_t index, std::uint32_t stride) const;

	int fd_;
	Terms terms_;
	kiw_cq cq_;
	std::array<std::vector<std::uint8_t>, 3> memory_;
	std::array<kiw_region, 3> regions_;
	std::vector<std::uint8_t> sq_ring_, rq_ring_;
	std::vector<struct kiw_swr> swrs_;
	std::array<kiw_sge, 16> send_sges_, recv_sges_;
	std::vector<std::uint8_t> in_;
	std::uint32_t consumed_ = 0;
};

/// Two sides that are joined
struct Pair {
	explicit Pair(const Terms &terms = {}, const kiw_manner &manner = by_cm, int buffer = 0);

	/// Until nothing happens any more
	void run();
	/// What side a has sent, and b gets no more
	std::vector<std::uint8_t> catch_of_a();

	static const kiw_manner by_cm, by_number;
	std::unique_ptr<Side> a, b;
};

} // namespace session
