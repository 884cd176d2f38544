// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connected queue pairs with rings that the test fills itself: no provider reads them.
#pragma once

#include <memory>
#include <optional>

#include "../lib/connection.hpp"
#include "part.hpp"
#include "uverbs.hpp"

namespace storm {

constexpr std::uint32_t remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint32_t all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | remote_access;

/// What may be wrong in a request, by chance: never, or one time in n.
struct Doubt {
	std::uint32_t one_in = 0;
	bool strikes(Random &random) const { return one_in && random.one_in(one_in); }
};

/// A device, opened anew, with one of each object; the receive ring may be that of a shared queue.
class RawSide {
public:
	RawSide(const std::string &device, Random &random);

	const Uverbs &device() const { return device_; }
	std::uint32_t pd() const { return pd_; }
	const CqMade &cq() const { return cq_; }
	const QpMade &qp() const { return qp_; }
	const MrMade &mr() const { return mr_; }
	const MrMade &window() const { return window_; }
	const std::optional<SrqMade> &srq() const { return srq_; }
	const Pages &memory() const { return memory_; }
	const Mapping &sq_ring() const { return sq_ring_; }
	const Mapping &rq_ring() const { return rq_ring_; }
	const Mapping &cq_ring() const { return cq_ring_; }

	/// Writes the next request into the send ring, to the peer's region or out of it, and publishes it. Full
	/// rings are left alone, by our own count; that a scribbler may have overwritten what the ring says is
	/// nothing to us.
	void post(Random &random, const RawSide &peer, Doubt doubt);
	void receive(Random &random, Doubt doubt);
	/// Another size for the shared queue, if there is one; its new ring is then the receive ring. No other thread
	/// may be looking at the old one.
	int resize(Random &random);
	/// Has the kernel look at the send ring, or at the receive ring, whichever it is.
	int ring(bool send) const;
	/// Takes what the completion ring holds, counts it, and gives the slots back.
	void drain(Tally &tally);
	/// Whether the QP is in the error state, or gone.
	bool in_error() const;

private:
	kiw_sge sge(Random &random, Doubt doubt) const;
	/// A key of the peer's that isn't meant for this
	static std::uint32_t wrong_key(Random &random, const RawSide &peer);
	/// The next request about our window: what a program would do, or, in doubt, anything
	void about_window(kiw_wqe &wqe, kiw_bind_args &bind, Random &random, Doubt doubt);

	Uverbs device_;
	Pages memory_;
	std::uint32_t pd_ = 0;
	CqMade cq_;
	QpMade qp_;
	MrMade mr_;
	MrMade shown_; // the same memory, for peers to read
	MrMade window_;
	bool bound_ = false;
	bool first_type_ = false;
	std::optional<SrqMade> srq_;
	std::uint32_t recv_sges_ = 0;
	Mapping sq_ring_;
	Mapping rq_ring_;
	Mapping cq_ring_;
	std::uint32_t sq_next_ = 0;
	std::uint32_t sq_done_ = 0;
	std::uint32_t rq_next_ = 0;
	std::uint32_t rq_done_ = 0;
	std::uint32_t cq_next_ = 0;
};

/// Two of them with a connection.
class RawPair {
public:
	RawPair(const Devices &devices, vt::Listener &listener, Part &part);

	RawSide a;
	RawSide b;

	RawSide &either(Random &random) { return random.one_in(2) ? a : b; }
	RawSide &other(const RawSide &side) { return &side == &a ? b : a; }
	/// A few requests of one side, with receives for them, its doorbell, and what is completed by now. What the
	/// doorbell returned.
	int exchange(Random &random, Tally &tally);
	rdma_cm_id *client() const { return client_.get(); }
	rdma_cm_id *server() const { return server_.get(); }

private:
	std::shared_ptr<vt::EventChannel> events_; // of the client; it must outlive the id
	vt::Id client_;
	vt::Id server_;
};

/// A connection's end as librdmacm's programs would ask for it, but with the number of a QP that it knows nothing of.
rdma_conn_param connection_to(const QpMade &qp, Random &random);

} // namespace storm
