// SPDX-License-Identifier: GPL-2.0
// Connections, each with a queue pair of its own:
//
//   connections   made, accepted and closed, a few under way at once; prints connections per second. With a device they
//   are
//                 made by queue pair number, and ADDRESS and PORT are where both ends tell each other their numbers;
//                 else by rdma_cm.
//   idle          connections that do nothing; prints "up N" and stays until it is killed. N is less than what was
//                 asked for where the machine has no room for more.
#include "connections.hpp"

#include <iostream>
#include <optional>

namespace {

using bench::check;
using bench::Options;
using Clock = std::chrono::steady_clock;

constexpr int resolve_ms = 5000;

/// Connections per second since then
void print_rate(const Options &options, Clock::time_point start)
{
	std::cout << options.count / std::chrono::duration<double>(Clock::now() - start).count() << '\n';
}

void by_number(const Options &options, const bench::Program &program)
{
	if (options.idle)
		throw std::invalid_argument("idle ones are made by rdma_cm");
	if (program.server()) {
		serve_by_number(options, bench::accept_from(bench::listen_at(program.address(), 1)));
	} else {
		const auto control = bench::connect_to(program.address());
		const auto start = Clock::now();

		call_by_number(options, control);
		print_rate(options, start);
	}
}

class Side {
public:
	explicit Side(const Options &options) : o_(options), channel_(rdma_create_event_channel())
	{
		check(channel_, "rdma_create_event_channel");
	}
	virtual ~Side() = default;
	Side(const Side &) = delete;
	Side &operator=(const Side &) = delete;

	void one_event()
	{
		rdma_cm_event *event = nullptr;

		check(rdma_get_cm_event(channel_, &event) == 0, "rdma_get_cm_event");
		auto *const id = event->id;
		const auto what = event->event;
		const int status = event->status;
		// An identifier is only destroyed when its events are acknowledged.
		rdma_ack_cm_event(event);
		on_event(id, what, status);
	}

protected:
	virtual void on_event(rdma_cm_id *id, rdma_cm_event_type what, int status) = 0;

	/// Whether there is room for one more queue pair
	bool add_queue_pair(rdma_cm_id *id)
	{
		if (!shared_)
			shared_.emplace(id->verbs, o_.window);
		auto attr = shared_->attributes();
		return rdma_create_qp(id, shared_->pd(), &attr) == 0;
	}
	static rdma_conn_param parameters()
	{
		rdma_conn_param p{};

		p.responder_resources = p.initiator_depth = 1;
		p.retry_count = 7;
		return p;
	}
	static void destroy(rdma_cm_id *id)
	{
		if (id->qp)
			rdma_destroy_qp(id);
		rdma_destroy_id(id);
	}
	[[nodiscard]] const Options &options() const { return o_; }
	[[nodiscard]] rdma_event_channel *channel() const { return channel_; }

private:
	Options o_;
	rdma_event_channel *channel_;
	std::optional<bench::Shared> shared_;
};

class Server : public Side {
public:
	Server(const Options &options, sockaddr_in address) : Side(options)
	{
		rdma_cm_id *id = nullptr;

		check(rdma_create_id(channel(), &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
		check(rdma_bind_addr(id, reinterpret_cast<sockaddr *>(&address)) == 0, "rdma_bind_addr");
		check(rdma_listen(id, int(2 * options.window)) == 0, "rdma_listen");
	}
	void run()
	{
		while (options().idle || closed_ < options().count)
			one_event();
	}

protected:
	void on_event(rdma_cm_id *id, rdma_cm_event_type what, int status) override
	{
		switch (what) {
		case RDMA_CM_EVENT_CONNECT_REQUEST: {
			auto p = parameters();

			if (!add_queue_pair(id)) {
				rdma_reject(id, nullptr, 0);
				destroy(id);
				check(options().idle, "rdma_create_qp");
			} else {
				check(rdma_accept(id, &p) == 0, "rdma_accept");
			}
			break;
		}
		case RDMA_CM_EVENT_ESTABLISHED:
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			rdma_disconnect(id);
			destroy(id);
			closed_++;
			break;
		default:
			if (!options().idle)
				throw std::runtime_error(
					std::string(rdma_event_str(what)) + ", status " + std::to_string(status));
			destroy(id);
		}
	}

private:
	unsigned closed_ = 0;
};

class Client : public Side {
public:
	Client(const Options &options, const sockaddr_in &address) : Side(options), address_(address) {}

	void run()
	{
		const auto start = Clock::now();

		while (wanted() || under_way_ > 0) {
			while (wanted() && under_way_ < options().window)
				begin();
			one_event();
		}
		if (options().idle) {
			std::cout << "up " << up_ << std::endl;
			for (;;)
				::pause();
		}
		print_rate(options(), start);
	}

protected:
	void on_event(rdma_cm_id *id, rdma_cm_event_type what, int status) override
	{
		auto p = parameters();

		switch (what) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			check(rdma_resolve_route(id, resolve_ms) == 0, "rdma_resolve_route");
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			if (!add_queue_pair(id) || rdma_connect(id, &p) != 0)
				no_room(id, "connecting: " + std::generic_category().message(errno));
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			up_++;
			if (options().idle)
				under_way_--;
			else
				check(rdma_disconnect(id) == 0, "rdma_disconnect");
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			if (options().idle)
				throw std::runtime_error("a connection that was to stay has ended");
			destroy(id);
			under_way_--;
			break;
		default:
			no_room(id, std::string(rdma_event_str(what)) + ", status " + std::to_string(status));
		}
	}

private:
	[[nodiscard]] bool wanted() const { return begun_ < options().count && !full_; }

	void begin()
	{
		rdma_cm_id *id = nullptr;

		check(rdma_create_id(channel(), &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
		check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address_), resolve_ms) == 0,
			"rdma_resolve_addr");
		begun_++;
		under_way_++;
	}
	/// One that can't be made ends a measurement of rates, but only limits how many may be idle.
	void no_room(rdma_cm_id *id, const std::string &why)
	{
		if (!options().idle)
			throw std::runtime_error(why);
		std::cerr << "after " << up_ << " connections: " << why << '\n';
		destroy(id);
		under_way_--;
		full_ = true;
	}

	sockaddr_in address_;
	unsigned begun_ = 0, under_way_ = 0, up_ = 0;
	bool full_ = false;
};

} // namespace

int main(int argc, char **argv)
try {
	bench::Program program("Connections, measured", "bench_cm", {"connections", "idle"});
	Options o;

	program.app().add_option("--count", o.count, "connections")->check(CLI::PositiveNumber);
	program.app().add_option("--window", o.window, "connections under way at once")->check(CLI::Range(1, 1024));
	program.app().add_option("--device", o.device, "to connect with by queue pair number, in place of rdma_cm");
	return program.run(argc, argv, [&] {
		o.idle = program.is("idle");
		if (!o.device.empty())
			by_number(o, program);
		else if (program.server())
			Server(o, program.address()).run();
		else
			Client(o, program.address()).run();
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
