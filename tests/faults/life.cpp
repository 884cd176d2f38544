// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "life.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <stdexcept>

#include "../verbs/connection.hpp"

namespace faults {

namespace {

constexpr std::size_t part = 96 * 1024;

// What the peer sends, writes, and gives to be read lies in parts of its own.
enum Part { sent, written, readable, read_back, num_parts };

// A step that failed: no reason to complain, but to go to the end
class Failed : public std::runtime_error {
public:
	Failed(const std::string &step, int error) : runtime_error(step + ": " + std::strerror(error)) {}
	explicit Failed(const std::string &what) : runtime_error(what) {}
};

template <typename Make>
auto made(const std::string &step, Make make)
{
	try {
		return make();
	} catch (const std::exception &e) {
		throw Failed(step + ": " + e.what());
	}
}

// One end with its memory, and what has become of it
class End {
public:
	End(std::unique_ptr<vt::Side> from, std::uint32_t seed)
		: side(std::move(from)),
		  out(side->pd(), num_parts * part),
		  in(side->pd(), num_parts * part)
	{
		out.fill_pattern(seed);
		in.fill(0);
		if (const int error = side->receive({in.sge(sent * part, part)}, sent))
			throw Failed("receive", error);
	}

	void post(const End &peer)
	{
		must("send", side->send({out.sge(sent * part, part)}, {.id = sent}));
		must("write",
			side->write({out.sge(written * part, part)},
				{.id = written, .remote = peer.in.address(written * part), .rkey = peer.in.rkey()}));
		must("read", side->read({in.sge(read_back * part, part)},
				     {.id = read_back,
					     .remote = peer.out.address(readable * part),
					     .rkey = peer.out.rkey()}));
	}

	// Takes what has completed. Return: whether the connection goes on.
	bool poll()
	{
		for (ibv_cq *cq : {side->send_cq(), side->recv_cq()})
			for (const ibv_wc &wc : vt::poll_all(cq)) {
				failed |= wc.status != IBV_WC_SUCCESS;
				completed++;
			}
		return !failed && !down;
	}
	// Sends, Write, Read, and a receive
	bool done() const { return completed == 4; }

	void check(const End &peer) const
	{
		expect(in.bytes(sent * part, part), peer.out.bytes(sent * part, part), "a Send");
		expect(in.bytes(written * part, part), peer.out.bytes(written * part, part), "a Write");
		expect(in.bytes(read_back * part, part), peer.out.bytes(readable * part, part), "a Read");
	}

	std::unique_ptr<vt::Side> side;
	vt::Region out;
	vt::Region in;
	int completed = 0;
	bool up = false;
	bool down = false;
	bool failed = false;

private:
	static void must(const std::string &step, int error)
	{
		if (error)
			throw Failed(step, error);
	}
	static void expect(std::span<const std::uint8_t> got, std::span<const std::uint8_t> wanted, const char *what)
	{
		if (!vt::same(got, wanted))
			vt::fail(std::string("other data than those of ") + what);
	}
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
	End *end_of(const rdma_cm_id *id);

	std::unique_ptr<vt::Listener> listener_;
	std::shared_ptr<vt::EventChannel> caller_events_;
	std::unique_ptr<End> client_;
	// A client that gets no answer tries again, and the server sees both.
	std::list<End> servers_;
	bool rejecting_ = false;
	bool refused_ = false;
	std::string why_;
};

End *Life::end_of(const rdma_cm_id *id)
{
	if (client_ && client_->side->id() == id)
		return client_.get();
	for (End &server : servers_)
		if (server.side->id() == id)
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
		End &server = servers_.emplace_back(
			std::make_unique<vt::Side>(std::move(id), listener_->shared_events(), vt::Options{}), 2);
		rdma_conn_param param = vt::parameters({}, 16);
		if (rdma_accept(server.side->id(), &param))
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
			if (End *end = end_of(event->id))
				end->up = true;
		for (const auto type : {RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE,
			     RDMA_CM_EVENT_CONNECT_ERROR})
			while (const auto event = events->poll(type)) {
				End *end = end_of(event->id);

				if (end && end == client_.get() && !end->up) {
					refused_ = true;
					why_ = std::string(rdma_event_str(type)) + " " + std::to_string(event->status);
				}
				if (end)
					end->down = true;
			}
	}
}

void Life::connect()
{
	refused_ = false;
	client_ = made("client", [&] {
		vt::Caller caller(listener_->port());

		caller_events_ = caller.events;
		return std::make_unique<End>(
			std::make_unique<vt::Side>(std::move(caller.id), caller.events, vt::Options{}), 1);
	});
	rdma_conn_param param = vt::parameters({}, 16);
	if (rdma_connect(client_->side->id(), &param))
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
	End &server = servers_.back();

	client_->post(server);
	// It may send as soon as it has received something.
	server.post(*client_);
	vt::wait_until(
		[&] {
			hear();
			const bool going = client_->poll() && server.poll();
			return !going || (client_->done() && server.done());
		},
		"completions");
	if (client_->failed || server.failed || client_->down || server.down)
		throw Failed("the connection broke");
	client_->check(server);
	server.check(*client_);
}

void Life::disconnect()
{
	End &server = servers_.back();

	if (rdma_disconnect(client_->side->id()))
		throw Failed("disconnect", errno);
	vt::wait_until(
		[&] {
			hear();
			return client_->down;
		},
		"the client's end");
	// The peer may not have heard of it, if the message couldn't be made.
	rdma_disconnect(server.side->id());
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
