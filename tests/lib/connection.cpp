// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "connection.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>

namespace vt {

namespace {

Id make_id(const EventChannel &events, const std::string &netns)
{
	const InNamespace inside(netns);
	rdma_cm_id *id = nullptr;

	if (rdma_create_id(events.get(), &id, nullptr, RDMA_PS_TCP))
		fail("rdma_create_id", errno);
	return Id(id);
}

Queues make_queues(ibv_context *context, const Options &options)
{
	Queues queues;

	if (options.completion_channel) {
		queues.channel.reset(ibv_create_comp_channel(context));
		if (!queues.channel)
			fail("ibv_create_comp_channel", errno);
	}
	queues.send = make_cq(context, options.cq_entries, queues.channel.get());
	queues.recv = make_cq(context, options.cq_entries, queues.channel.get());
	return queues;
}

} // namespace

ibv_context *server_device()
{
	static EventChannel events;
	static const Id id = [] {
		Where where = server_end();
		Id bound = make_id(events, where.netns);

		if (rdma_bind_addr(bound.get(), where.sa(0)))
			fail("rdma_bind_addr", errno);
		if (!bound->verbs)
			fail("no RDMA device has the server's address");
		return bound;
	}();

	return id->verbs;
}

EventChannel::EventChannel() : channel_(rdma_create_event_channel())
{
	if (!channel_)
		fail("rdma_create_event_channel", errno);
}

EventChannel::~EventChannel()
{
	rdma_destroy_event_channel(channel_);
}

void EventChannel::read_one()
{
	rdma_cm_event *event = nullptr;

	wait_readable(channel_->fd, "an rdma_cm event");
	if (rdma_get_cm_event(channel_, &event))
		fail("rdma_get_cm_event", errno);
	const rdma_conn_param &conn = event->param.conn;
	const auto *data = static_cast<const std::uint8_t *>(conn.private_data);
	kept_.push_back({.type = event->event,
		.status = event->status,
		.id = event->id,
		.private_data = data ? std::vector(data, data + conn.private_data_len) : std::vector<std::uint8_t>(),
		.responder_resources = conn.responder_resources,
		.initiator_depth = conn.initiator_depth});
	rdma_ack_cm_event(event);
}

Event EventChannel::wait(rdma_cm_event_type type, const rdma_cm_id *id)
{
	if (id) {
		Event event = wait_any(id);

		if (event.type != type)
			fail(std::string("got ") + rdma_event_str(event.type) + " (" + std::to_string(event.status) +
				") while waiting for " + rdma_event_str(type));
		return event;
	}
	for (;;) {
		if (auto event = take([=](const Event &e) { return e.type == type; }))
			return *event;
		read_one();
	}
}

std::optional<Event> EventChannel::poll(rdma_cm_event_type type)
{
	while (readable(channel_->fd))
		read_one();
	return take([=](const Event &e) { return e.type == type; });
}

Event EventChannel::wait_any(const rdma_cm_id *id)
{
	for (;;) {
		if (auto event = take([=](const Event &e) { return e.id == id; }))
			return *event;
		read_one();
	}
}

std::optional<Event> EventChannel::take(const std::function<bool(const Event &)> &wanted)
{
	const auto found = std::find_if(kept_.begin(), kept_.end(), wanted);

	if (found == kept_.end())
		return std::nullopt;
	Event event = *found;
	kept_.erase(found);
	return event;
}

Side::Side(Id id, std::shared_ptr<EventChannel> events, const Options &options)
	: Endpoint(id->verbs, make_queues(id->verbs, options)),
	  id_(std::move(id)),
	  events_(std::move(events))
{
	ibv_qp_init_attr_ex attr{};
	attr.send_cq = send_cq();
	attr.recv_cq = recv_cq();
	attr.cap = options.cap;
	attr.qp_type = IBV_QPT_RC;
	attr.sq_sig_all = options.signal_all;
	attr.srq = options.srq;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = options.srq ? options.srq->pd : pd();
	if (options.send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = options.send_ops;
	}
	if (rdma_create_qp_ex(id_.get(), &attr))
		fail("rdma_create_qp_ex", errno);
	cap_ = attr.cap;
}

Side::~Side()
{
	destroy_qp();
	id_.reset();
}

void Side::destroy_qp()
{
	if (qp())
		rdma_destroy_qp(id_.get());
}

void Side::receive_empty(int count) const
{
	for (int i = 0; i < count; i++)
		if (const int error = receive({}, static_cast<std::uint64_t>(i)))
			fail("ibv_post_recv", error);
}

Listener::Listener(int backlog, std::uint16_t port) : events_(std::make_shared<EventChannel>())
{
	Where where = server_end();

	// rdma_cm draws ports without asking TCP, where one may be in use.
	for (int tries = 0; tries < 10; tries++) {
		id_ = make_id(*events_, where.netns);
		if (rdma_bind_addr(id_.get(), where.sa(port)))
			fail("rdma_bind_addr", errno);
		if (rdma_listen(id_.get(), backlog) == 0)
			return;
		if (errno != EADDRINUSE || port)
			break;
	}
	fail("rdma_listen", errno);
}

std::uint16_t Listener::port() const
{
	return ntohs(rdma_get_src_port(id_.get()));
}

std::pair<Id, Event> Listener::request() const
{
	Event event = events_->wait(RDMA_CM_EVENT_CONNECT_REQUEST);
	rdma_cm_id *id = event.id;

	return {Id(id), std::move(event)};
}

Caller::Caller(std::uint16_t port) : events(std::make_shared<EventChannel>())
{
	Where from = client_end();
	Where to = server_end();

	to.seen_from(from);
	id = make_id(*events, from.netns);
	// Where the device goes while an id is bound and resolved in one call, RDMA core warns.
	if (rdma_bind_addr(id.get(), from.sa(0)))
		fail("rdma_bind_addr", errno);
	// Where the peer's ARP reply is faster than RDMA core's bookkeeping, it waits for the whole of its time.
	Event event = {.type = RDMA_CM_EVENT_ADDR_ERROR};
	for (int tries = 0; tries < 50 && event.type != RDMA_CM_EVENT_ADDR_RESOLVED; tries++) {
		if (rdma_resolve_addr(id.get(), nullptr, to.sa(port), 200))
			fail("rdma_resolve_addr", errno);
		event = events->wait_any(id.get());
	}
	if (event.type != RDMA_CM_EVENT_ADDR_RESOLVED)
		fail("the server's address can't be resolved", -event.status);
	if (rdma_resolve_route(id.get(), 5000))
		fail("rdma_resolve_route", errno);
	events->wait(RDMA_CM_EVENT_ROUTE_RESOLVED, id.get());
}

ibv_cq *take_event(const Side &side)
{
	ibv_cq *cq = nullptr;
	void *context = nullptr;

	wait_readable(side.channel()->fd, "a completion event");
	if (ibv_get_cq_event(side.channel(), &cq, &context))
		fail("ibv_get_cq_event", errno);
	ibv_ack_cq_events(cq, 1);
	return cq;
}

rdma_conn_param parameters(const std::vector<std::uint8_t> &private_data, std::uint8_t reads)
{
	rdma_conn_param param{};

	param.private_data = private_data.data();
	param.private_data_len = static_cast<std::uint8_t>(private_data.size());
	param.responder_resources = reads;
	param.initiator_depth = reads;
	return param;
}

std::unique_ptr<Side> start_connecting(std::uint16_t port, const Options &options)
{
	Caller caller(port);
	auto side = std::make_unique<Side>(std::move(caller.id), caller.events, options);
	rdma_conn_param param = parameters(options.request_data, options.reads);
	const Parameters wanted(options.parameters);
	std::uint8_t tos = options.type_of_service;

	if (tos && rdma_set_option(side->id(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		fail("rdma_set_option", errno);
	if (rdma_connect(side->id(), &param))
		fail("rdma_connect", errno);
	return side;
}

std::unique_ptr<Side> accept(
	const Listener &listener, const Options &options, const std::function<void(const Side &)> &prepare)
{
	auto [id, event] = listener.request();
	auto side = std::make_unique<Side>(std::move(id), listener.shared_events(), options);
	rdma_conn_param param = parameters(options.reply_data, options.reads);

	if (prepare)
		prepare(*side);
	const Parameters wanted(options.parameters);
	if (rdma_accept(side->id(), &param))
		fail("rdma_accept", errno);
	return side;
}

Pair::Pair(const Options &client, const Options &server)
{
	a_ = start_connecting(listener_.port(), client);
	b_ = accept(listener_, server);
	a_->events().wait(RDMA_CM_EVENT_ESTABLISHED, a_->id());
	b_->events().wait(RDMA_CM_EVENT_ESTABLISHED, b_->id());
}

void Pair::sync()
{
	constexpr std::uint64_t id = 0x5a5a5a5a;

	if (const int error = b().receive({}, id))
		fail("ibv_post_recv", error);
	if (const int error = a().send({}, {.id = id}))
		fail("ibv_post_send", error);
	EXPECT_WC(a().sent(), id, IBV_WC_SUCCESS);
	EXPECT_WC(b().received(), id, IBV_WC_SUCCESS);
}

} // namespace vt
