// SPDX-License-Identifier: GPL-2.0
// Connections by rdma_cm, each with a queue pair of its own:
//
//   connections   made, accepted and closed, a few under way at once; prints connections per second
//   idle          connections that do nothing; prints "up N" and stays until it is killed. N is less than what was
//                 asked for where the machine has no room for more.
#include "program.hpp"

#include <chrono>
#include <infiniband/verbs.h>
#include <iostream>
#include <rdma/rdma_cma.h>

namespace {

using bench::check;
using Clock = std::chrono::steady_clock;

struct Options {
	unsigned count = 100;
	unsigned window = 16;
	bool idle = false;
};

constexpr int resolve_ms = 5000;

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
		if (!pd_) {
			pd_ = ibv_alloc_pd(id->verbs);
			check(pd_, "ibv_alloc_pd");
			cq_ = ibv_create_cq(id->verbs, 64, nullptr, nullptr, 0);
			check(cq_, "ibv_create_cq");
		}
		ibv_qp_init_attr attr{};
		attr.send_cq = attr.recv_cq = cq_;
		attr.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 0};
		attr.qp_type = IBV_QPT_RC;
		return rdma_create_qp(id, pd_, &attr) == 0;
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
	ibv_pd *pd_ = nullptr;
	ibv_cq *cq_ = nullptr;
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
		std::cout << options().count / std::chrono::duration<double>(Clock::now() - start).count() << '\n';
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
	bench::Program program("Connections by rdma_cm, measured", "bench_cm", {"connections", "idle"});
	Options o;

	program.app().add_option("--count", o.count, "connections")->check(CLI::PositiveNumber);
	program.app().add_option("--window", o.window, "connections under way at once")->check(CLI::Range(1, 1024));
	return program.run(argc, argv, [&] {
		o.idle = program.is("idle");
		if (program.server())
			Server(o, program.address()).run();
		else
			Client(o, program.address()).run();
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
