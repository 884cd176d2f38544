// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Connected pairs of QPs in one process, and the steps that lead to them.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <rdma/rdma_cma.h>
#include <vector>

#include "endpoint.hpp"

namespace vt {

/// A copy of an rdma_cm event; the original is acknowledged.
struct Event {
	rdma_cm_event_type type;
	int status;
	rdma_cm_id *id;
	std::vector<std::uint8_t> private_data;
	std::uint8_t responder_resources;
	std::uint8_t initiator_depth;
};

class EventChannel {
public:
	EventChannel();
	~EventChannel();
	EventChannel(const EventChannel &) = delete;
	EventChannel &operator=(const EventChannel &) = delete;

	rdma_event_channel *get() const { return channel_; }

	/// The next event of an id (of any, with null), of that type; events of others are kept. Another type
	/// from the same id throws.
	Event wait(rdma_cm_event_type type, const rdma_cm_id *id = nullptr);
	/// An event of that type that is there already.
	std::optional<Event> poll(rdma_cm_event_type type);
	/// The next event of an id, of whatever type.
	Event wait_any(const rdma_cm_id *id);

private:
	void read_one();
	/// Takes out the first kept event that the predicate accepts.
	std::optional<Event> take(const std::function<bool(const Event &)> &wanted);

	rdma_event_channel *channel_;
	std::list<Event> kept_;
};

using Id = std::unique_ptr<rdma_cm_id, Closer<rdma_cm_id, rdma_destroy_id>>;

struct Options {
	ibv_qp_cap cap = {
		.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 16, .max_recv_sge = 16, .max_inline_data = 256};
	ibv_srq *srq = nullptr; // which the QP then takes its receives from; its domain is the QP's
	bool signal_all = false;
	int cq_entries = 512;
	bool completion_channel = false;
	std::uint64_t send_ops = 0; // the QP is made by rdma_create_qp_ex, with these builders
	std::uint8_t type_of_service = 0;
	std::uint8_t reads = 16;		// that may be outstanding, in both directions
	std::vector<std::uint8_t> request_data; // private data
	std::vector<std::uint8_t> reply_data;
	std::map<std::string, std::string> parameters; // of the module, when this end says what it wants
};

/// One end of a connection with all that belongs to it.
class Side final : public Endpoint {
public:
	/// Makes PD, CQs and QP for an id that has its device.
	Side(Id id, std::shared_ptr<EventChannel> events, const Options &options);
	~Side();
	Side(const Side &) = delete;
	Side &operator=(const Side &) = delete;

	rdma_cm_id *id() const { return id_.get(); }
	ibv_qp *qp() const override { return id_->qp; }
	EventChannel &events() const { return *events_; }
	const ibv_qp_cap &cap() const { return cap_; }

	int send(const Sges &sges = {}, const Work &work = {}) const { return post(IBV_WR_SEND, sges, work); }
	int write(const Sges &sges, const Work &work) const { return post(IBV_WR_RDMA_WRITE, sges, work); }
	int read(const Sges &sges, const Work &work) const { return post(IBV_WR_RDMA_READ, sges, work); }
	/// Receives without buffers, with ids 0..count-1.
	void receive_empty(int count) const;

	/// Waits for the rdma_cm event.
	void wait_disconnected() const { events().wait(RDMA_CM_EVENT_DISCONNECTED, id()); }
	void destroy_qp();

private:
	Id id_; // without destroying it first, nothing else can go: see the destructor
	std::shared_ptr<EventChannel> events_;
	ibv_qp_cap cap_;
};

/// Takes one event from a side's channel, and acknowledges it.
ibv_cq *take_event(const Side &side);

/// A listening id.
class Listener {
public:
	/// Port 0 stands for any.
	explicit Listener(int backlog = 128, std::uint16_t port = 0);

	std::uint16_t port() const;
	EventChannel &events() const { return *events_; }
	rdma_cm_id *id() const { return id_.get(); }
	std::shared_ptr<EventChannel> shared_events() const { return events_; }
	/// Waits for a request and takes its id over.
	std::pair<Id, Event> request() const;

private:
	std::shared_ptr<EventChannel> events_;
	Id id_;
};

/// An id with an address and a route to a port of the server's end.
class Caller {
public:
	explicit Caller(std::uint16_t port);

	std::shared_ptr<EventChannel> events;
	Id id;
};

rdma_conn_param parameters(const std::vector<std::uint8_t> &private_data, std::uint8_t reads);

/// Connects a side that is ready, and accepts at the other end.
std::unique_ptr<Side> start_connecting(std::uint16_t port, const Options &options);
/// Prepare runs before the answer, and so before the peer can send.
std::unique_ptr<Side> accept(
	const Listener &listener, const Options &options, const std::function<void(const Side &)> &prepare = nullptr);

/// Two connected QPs: a called, b listened.
class Pair {
public:
	explicit Pair(const Options &options = {}) : Pair(options, options) {}
	Pair(const Options &client, const Options &server);

	Side &a() { return *a_; }
	Side &b() { return *b_; }

	/// Sends an empty message from a to b and waits for both completions: everything that a sent before
	/// has arrived then.
	void sync();

private:
	Listener listener_;
	std::unique_ptr<Side> a_;
	std::unique_ptr<Side> b_;
};

} // namespace vt
