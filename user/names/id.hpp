// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The objects of rdma_cm: identifiers and events. Above endpoints as the kernel's rdma_cm stands above
// iw_cm, and with what librdmacm does on top of that.
//
// Locks, outermost first: Id::lock, an endpoint's or a listener's, Id::telling, that of the channel's queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "channel.hpp"
#include "endpoint.hpp"
#include "events.hpp"
#include "origin.hpp"

namespace kiwu {

struct Id;

/// An event that waits to be fetched, or was fetched and isn't acknowledged
struct CmEvent {
	Event event;
	rdma_cm_event told{};
	Id *of = nullptr; // counts it
	std::uint8_t data[UINT8_MAX + 1] = {};

	static CmEvent &from(Event &event) { return reinterpret_cast<CmEvent &>(event); }
	static CmEvent &from(rdma_cm_event *event);
};

struct Id {
	enum class State : std::uint8_t {
		idle,
		bound,
		addr_resolved,
		route_resolved,
		connect, // an attempt, a request that is undecided, or a connection
		listen,
	};

	rdma_cm_id ibv{};
	kiw::Origin origin; // a child of fork() can do nothing with it
	// Protects what follows, but for events
	TurnLock lock;
	State state = State::idle;
	bool synchronous = false;
	bool af_only = false, af_only_set = false, reuse = false, tos_set = false;
	std::uint8_t tos = 0;
	int socket = -1; // bound, and nobody else's yet
	Address source;
	Endpoint *endpoint = nullptr; // reference held
	Listener *listener = nullptr; // reference held
	// Depths that a peer has asked for, of a request
	std::uint8_t initiator_depth = 0, responder_resources = 0;
	// Of rdma_create_ep()
	ibv_qp_init_attr *qp_init_attr = nullptr;
	void *connect_data = nullptr;
	std::uint8_t connect_length = 0;

	// Protects ibv.channel, and the order of events.
	kiw::Lock telling;
	// As librdmacm has it: an identifier goes when its events are acknowledged.
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;
	std::atomic<std::uint32_t> events_fetched = 0; // counted under the lock of the channel's queue
	std::uint32_t events_acked = 0;

	static Id &from(rdma_cm_id *id) { return *reinterpret_cast<Id *>(id); }

	/// An identifier that reports to no channel yet; nullptr if there is no memory.
	static Id *make(void *context, rdma_port_space space, ibv_qp_type type);
	/// It goes, with what belongs to it. Waits for acknowledgments.
	void end();

	/// What it tells goes to a channel, to which it gets a reference.
	void report_to(EventChannel &channel);
	EventChannel &channel() const { return EventChannel::from(ibv.channel); }

	/// Has the process told of an event. Returns false if there is no memory.
	bool tell(rdma_cm_event_type type, int status, const rdma_conn_param &param = {}, Id *child = nullptr);
	/// Takes back its events that weren't fetched.
	void forget_events();

	/// All return 0 or an errno value. Under the lock.
	int bind(const sockaddr *address);
	int resolve(const sockaddr *source, const sockaddr *destination);

	/// The device, and its protection domain: it is the one for the identifier.
	int attach();
};

/// The process's own open device and protection domain for identifiers. Returns 0 or an errno value.
int cm_device(ibv_context *&context, ibv_pd *&pd);

} // namespace kiwu
