// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "life.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>

#include "../lib/connection.hpp"
#include "../lib/exchange.hpp"
#include "step.hpp"

namespace faults {

namespace {

constexpr std::size_t message = std::size_t{96} * 1024;

// An end, and what has become of it
struct Party {
	Party(std::unique_ptr<vt::Side> side, std::uint32_t seed) : end(std::move(side), message)
	{
		if (const int error = end.prepare(seed))
			throw Failed("receive", error);
	}

	rdma_cm_id *id() const { return end.side().id(); }

	End end;
	bool up = false;
	bool down = false;
};

class Life {
public:
	void run();

private:
	void be_rejected();
	void connect();
	void exchange();
	void disconnect();
	void hear();
	void accept(const vt::Event &request);
	Party *party_of(const rdma_cm_id *id);

	std::unique_ptr<vt::Listener> listener_;
	std::shared_ptr<vt::EventChannel> caller_events_;
	std::unique_ptr<Party> client_;
	// A client that gets no answer tries again, and the server sees both.
	std::list<Party> servers_;
	bool rejecting_ = false;
	bool refused_ = false;
	std::string why_;
};

Party *Life::party_of(const rdma_cm_id *id)
{
	if (client_ && client_->id() == id)
		return client_.get();
	for (Party &server : servers_)
		if (server.id() == id)
			return &server;
	return nullptr;
}

void Life::accept(const vt::Event &request)
{
	vt::Id id(request.id);

	if (rejecting_) {
		rdma_reject(id.get(), nullptr, 0);
		return;
	}
	try {
		Party &server = servers_.emplace_back(
			std::make_unique<vt::Side>(std::move(id), listener_->shared_events(), vt::Options{}), 2);
		rdma_conn_param param = vt::parameters({}, 16);
		if (rdma_accept(server.id(), &param))
			throw Failed("accept", errno);
	} catch (const Failed &e) {
		why_ = e.what();
		servers_.pop_back();
	} catch (const std::exception &e) {
		// Its id is destroyed, which rejects.
		why_ = e.what();
	}
}

// Takes note of all events that there are.
void Life::hear()
{
	if (const auto request = listener_->events().poll(RDMA_CM_EVENT_CONNECT_REQUEST))
		accept(*request);
	for (vt::EventChannel *events : {&listener_->events(), caller_events_.get()}) {
		if (!events)
			continue;
		while (const auto event = events->poll(RDMA_CM_EVENT_ESTABLISHED))
			if (Party *party = party_of(event->id))
				party->up = true;
		for (const auto type : {RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE,
			     RDMA_CM_EVENT_CONNECT_ERROR})
			while (const auto event = events->poll(type)) {
				Party *party = party_of(event->id);

				if (party && party == client_.get() && !party->up) {
					refused_ = true;
					why_ = std::string(rdma_event_str(type)) + " " + std::to_string(event->status);
				}
				if (party)
					party->down = true;
			}
	}
}

void Life::connect()
{
	refused_ = false;
	client_ = made("client", [&] {
		vt::Caller caller(listener_->port());

		caller_events_ = caller.events;
		return std::make_unique<Party>(
			std::make_unique<vt::Side>(std::move(caller.id), caller.events, vt::Options{}), 1);
	});
	rdma_conn_param param = vt::parameters({}, 16);
	if (rdma_connect(client_->id(), &param))
		throw Failed("connect", errno);
	vt::wait_until(
		[&] {
			hear();
			if (refused_)
				return true;
			// One that is up has a peer, or had one.
			return client_->up && (client_->down || (!servers_.empty() && servers_.back().up));
		},
		"the end of the attempt");
	if (refused_ || client_->down)
		throw Failed("connect: " + why_);
}

void Life::be_rejected()
{
	rejecting_ = true;
	try {
		connect();
		vt::fail("a request that was rejected came up");
	} catch (const Failed &e) {
		if (!refused_ || !std::strstr(e.what(), rdma_event_str(RDMA_CM_EVENT_REJECTED)))
			throw;
	}
	rejecting_ = false;
	client_.reset();
}

void Life::exchange()
{
	Party &server = servers_.back();
	bool well = true;

	// The server may send before it has received something: the attempt was a peer-to-peer one, or waits.
	for (const int error : {client_->end.post(server.end), server.end.post(client_->end)})
		if (error)
			throw Failed("post", error);
	vt::wait_until(
		[&] {
			hear();
			well = client_->end.poll() && server.end.poll() && !client_->down && !server.down;
			return !well || (client_->end.done() && server.end.done());
		},
		"completions");
	client_->end.check(server.end, !well);
	server.end.check(client_->end, !well);
	if (!well)
		throw Failed(std::string(broke));
}

void Life::disconnect()
{
	Party &server = servers_.back();

	if (rdma_disconnect(client_->id()))
		throw Failed("disconnect", errno);
	vt::wait_until(
		[&] {
			hear();
			return client_->down;
		},
		"the client's end");
	// The peer may not have heard of it, if the message couldn't be made.
	rdma_disconnect(server.id());
	vt::wait_until(
		[&] {
			hear();
			return server.down;
		},
		"the server's end");
}

void Life::run()
{
	listener_ = made("listener", [] { return std::make_unique<vt::Listener>(); });
	be_rejected();
	connect();
	exchange();
	disconnect();
}

} // namespace

std::string live()
{
	Life life;

	try {
		life.run();
	} catch (const Failed &e) {
		return e.what();
	}
	return {};
}

} // namespace faults
