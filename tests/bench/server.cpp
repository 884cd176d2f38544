// SPDX-License-Identifier: GPL-2.0
// A server of one thread, which polls one completion queue, and clients that keep it busy:
//
//   write_imm  each request is an RDMA Write with immediate data
//   send       each request is a Send
//
// The server answers each request by a Send. Every client has a connection and a thread of its own, and yields the
// processor while there is nothing to do. Prints requests per second.
//
// ADDRESS and PORT are for the TCP connection by which both ends agree, which is best another link than what is
// measured.
#include "control.hpp"
#include "program.hpp"
#include "verbs.hpp"

#include <array>
#include <chrono>
#include <iostream>
#include <sched.h>
#include <thread>
#include <vector>

namespace {

using bench::check;
using bench::Connection;
using bench::need;
using bench::Owned;
using bench::Socket;

struct Options {
	std::string data;
	bool immediate = false;
	unsigned clients = 16;
	/// Requests of each client
	unsigned count = 1000;
	/// Of each client under way
	unsigned window = 256;
	std::uint32_t octets = 64;
	std::uint16_t port = 0;
};

constexpr std::uint32_t answer_octets = 8;

/// What the ends of connections that share it hang on
struct Queue {
	/// For so many connections
	Queue(ibv_context *context, const Options &o, unsigned connections)
		: pd(ibv_alloc_pd(context)),
		  cq(ibv_create_cq(context, int(connections * (o.window + 4)), nullptr, nullptr, 0))
	{
		check(pd && cq, "a protection domain, or a completion queue");
	}
	Owned<ibv_pd, ibv_dealloc_pd> pd;
	Owned<ibv_cq, ibv_destroy_cq> cq;
};

/// Where a client may write
struct Place {
	std::uint64_t address;
	std::uint32_t key;
};

/// An end of a connection. Its memory has a place for each message of a window, whichever way that goes.
class End {
public:
	End(Connection connection, const Queue &queue, const Options &o, std::uint32_t number)
		: connection_(std::move(connection)),
		  window_(o.window),
		  octets_(o.octets),
		  number_(number),
		  memory_(2 * std::size_t{o.window} * o.octets),
		  mr_(ibv_reg_mr(queue.pd.get(), memory_.data(), memory_.size(),
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
	{
		ibv_qp_init_attr attr{};

		check(mr_ != nullptr, "ibv_reg_mr");
		attr.send_cq = attr.recv_cq = queue.cq.get();
		attr.qp_type = IBV_QPT_RC;
		attr.cap = {.max_send_wr = 2 * window_,
			.max_recv_wr = window_,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 0};
		check(rdma_create_qp(connection_.id(), queue.pd.get(), &attr) == 0, "rdma_create_qp");
		for (std::uint32_t i = 0; i < window_; i++)
			receive(i);
	}
	~End() { rdma_destroy_qp(connection_.id()); }
	End(const End &) = delete;
	End &operator=(const End &) = delete;

	[[nodiscard]] const Connection &connection() const { return connection_; }
	[[nodiscard]] Place place() const { return {at(0), mr_->rkey}; }

	void receive(std::uint32_t slot)
	{
		ibv_sge sge{at(slot), octets_, mr_->lkey};
		ibv_recv_wr wr{};
		ibv_recv_wr *bad = nullptr;

		wr.wr_id = std::uint64_t{number_} << 32 | slot;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		need(ibv_post_recv(connection_.id()->qp, &wr, &bad), "ibv_post_recv");
	}
	/// Whether the send queue has room
	[[nodiscard]] bool may_send() const { return sent_ - completed_ < 2 * window_; }
	/// A Send, or a Write with immediate data to the peer's place
	void send(std::uint32_t octets, const Place *peer = nullptr)
	{
		const std::uint32_t slot = sent_ % window_;
		ibv_sge sge{at(window_ + slot), octets, mr_->lkey};
		ibv_send_wr wr{};
		ibv_send_wr *bad = nullptr;

		wr.wr_id = std::uint64_t{number_} << 32;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = peer ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND;
		if (peer)
			wr.wr.rdma = {.remote_addr = peer->address + std::uint64_t{slot} * octets_, .rkey = peer->key};
		wr.send_flags = ++sent_ % group() == 0 ? IBV_SEND_SIGNALED : 0;
		need(ibv_post_send(connection_.id()->qp, &wr, &bad), "ibv_post_send");
	}
	/// One that was to say so has completed, and with it those before.
	void completed() { completed_ += group(); }

private:
	/// So many have one completion.
	[[nodiscard]] std::uint32_t group() const { return window_ / 2; }
	[[nodiscard]] std::uint64_t at(std::uint32_t slot) const
	{
		return reinterpret_cast<std::uintptr_t>(memory_.data()) + std::uint64_t{slot} * octets_;
	}

	Connection connection_;
	std::uint32_t window_, octets_, number_, sent_ = 0, completed_ = 0;
	std::vector<char> memory_;
	Owned<ibv_mr, ibv_dereg_mr> mr_;
};

/// Takes what has completed: @p done(wc) for each. Returns how many.
template <typename Done>
int poll(const Queue &queue, const Done &done)
{
	std::array<ibv_wc, 32> wc{};
	const int n = ibv_poll_cq(queue.cq.get(), int(wc.size()), wc.data());

	need(n < 0 ? EIO : 0, "ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		bench::good(wc[std::size_t(i)].status);
		done(wc[std::size_t(i)]);
	}
	return n;
}

void serve(const Options &o, const Socket &control)
{
	const auto listener = Connection::listener(bench::address_of(o.data, o.port));
	std::unique_ptr<Queue> queue;
	std::vector<std::unique_ptr<End>> ends;
	std::vector<std::uint32_t> owed(o.clients);

	bench::tell(control, 'l');
	for (std::uint32_t i = 0; i < o.clients; i++) {
		auto connection = listener.request();

		if (!queue)
			queue = std::make_unique<Queue>(connection.id()->verbs, o, o.clients);
		ends.push_back(std::make_unique<End>(std::move(connection), *queue, o, i));
		ends.back()->connection().accept();
		bench::tell(control, ends.back()->place());
	}
	for (std::uint64_t left = std::uint64_t{o.clients} * o.count; left > 0;) {
		(void)poll(*queue, [&](const ibv_wc &wc) {
			const std::uint32_t number = wc.wr_id >> 32;
			End &end = *ends[number];

			if (wc.opcode & IBV_WC_RECV) {
				end.receive(std::uint32_t(wc.wr_id));
				owed[number]++;
			} else {
				end.completed();
			}
			for (; owed[number] > 0 && end.may_send(); owed[number]--, left--)
				end.send(answer_octets);
		});
	}
	(void)bench::hear<char>(control);
}

struct Client {
	std::unique_ptr<Queue> queue;
	std::unique_ptr<End> end;
	Place server;

	void ask(const Options &o) const
	{
		unsigned asked = 0, answered = 0;

		while (answered < o.count) {
			bool idle = poll(*queue, [&](const ibv_wc &wc) {
				if (wc.opcode & IBV_WC_RECV) {
					end->receive(std::uint32_t(wc.wr_id));
					answered++;
				} else {
					end->completed();
				}
			}) == 0;

			for (; asked < o.count && asked - answered < o.window && end->may_send(); asked++) {
				end->send(o.octets, o.immediate ? &server : nullptr);
				idle = false;
			}
			if (idle)
				sched_yield();
		}
	}
};

void call(const Options &o, const Socket &control)
{
	std::vector<Client> clients;
	std::vector<std::thread> threads;

	(void)bench::hear<char>(control);
	for (unsigned i = 0; i < o.clients; i++) {
		auto connection = Connection::towards(bench::address_of(o.data, o.port));
		auto queue = std::make_unique<Queue>(connection.id()->verbs, o, 1);
		auto end = std::make_unique<End>(std::move(connection), *queue, o, 0);

		end->connection().connect();
		clients.push_back({std::move(queue), std::move(end), bench::hear<Place>(control)});
	}
	const auto start = std::chrono::steady_clock::now();
	for (const Client &client : clients) {
		threads.emplace_back([&] {
			try {
				client.ask(o);
			} catch (const std::exception &e) {
				std::_Exit(bench::failed(e));
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
	bench::tell(control, 'd');
	std::cout << o.clients * o.count / spent.count() << '\n';
}

} // namespace

int main(int argc, char **argv)
try {
	bench::Program program("Requests to a server of one thread, measured", "bench_server", {"write_imm", "send"});
	auto &app = program.app();
	Options o;

	app.add_option("--data", o.data, "the server's address on the device to use")
		->required()
		->check(CLI::ValidIPV4);
	app.add_option("--clients", o.clients, "with a thread each")->check(CLI::Range(1, 64));
	app.add_option("--count", o.count, "requests of each client")->check(CLI::Range(1, 10'000'000));
	app.add_option("--window", o.window, "requests of each client under way")->check(CLI::Range(2, 1024));
	app.add_option("--octets", o.octets, "of a request")->check(CLI::Range(8, 65536));
	return program.run(argc, argv, [&] {
		const auto address = program.address();
		const auto control = program.server() ? bench::accept_from(bench::listen_at(address, 1))
						      : bench::connect_to(address);

		o.port = ntohs(address.sin_port);
		o.immediate = program.is("write_imm");
		(program.server() ? serve : call)(o, control);
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
