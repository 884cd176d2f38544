// SPDX-License-Identifier: GPL-2.0
// The device without a module beside TCP sockets, on this host's loopback interface; kiwarp-user runs it. Contenders
// take turns, and each run prints a line of JSON, as measure.sh's.
//
// Processor time is that of a process with both ends in one thread, the library's own thread included: it doesn't
// depend on what else the host does. Latency is that of two processes, each bound to a CPU.
#include "latency.hpp"
#include "socket.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <vector>

namespace bench {

namespace {

constexpr unsigned depth = 64;
constexpr unsigned list_length = 32;
constexpr std::size_t most = 1 << 20;

struct Options {
	unsigned repetitions = 5;
	std::string crc;
};

/// Of one run: a value, which of latencies is the median
struct Figures {
	Figures(double v) : value(v) {}
	Figures(const Latency &l) : value(l.median), latency(l) {}

	double value;
	std::optional<Latency> latency;
};

/// Members of a JSON object
std::ostream &operator<<(std::ostream &out, const Figures &f)
{
	out << R"("value": )" << f.value;
	return f.latency ? out << R"(, "mean": )" << f.latency->mean << R"(, "p99": )" << f.latency->p99 : out;
}

/// The line for one run. Sockets know neither kinds of operation nor a CRC.
void sample(const Options &o, const char *group, const char *kind, std::size_t octets, const char *contender,
	unsigned rep, const Figures &figures)
{
	const bool tcp = std::string(contender) == "tcp";

	// The first round warms up.
	if (!rep)
		return;
	std::cout << std::fixed << std::setprecision(4) << R"({"group": ")" << group << R"(", "hosts": 1, "kind": ")"
		  << kind << R"(", "octets": )" << octets << R"(, "mtu": 65536, "crc": ")" << (tcp ? "none" : o.crc)
		  << R"(", "qps": 1, "cpus": )" << (std::string(group) == "user-latency" ? 2 : 1)
		  << R"(, "contender": ")" << contender << R"(", "rep": )" << rep << ", " << figures << "}\n";
}

// --- connections ----------------------------------------------------------------------------------

Socket listen_here()
{
	return listen_at(address_of("127.0.0.1", 0), 1);
}

sockaddr_in address_of_socket(const Socket &s)
{
	sockaddr_in address{};
	socklen_t length = sizeof(address);

	check(getsockname(s.fd(), reinterpret_cast<sockaddr *>(&address), &length) == 0, "getsockname");
	return address;
}

/// An end of a connection by rdma_cm, with memory that is the peer's to write
class End {
public:
	explicit End(rdma_cm_id *id) : id_(id), bytes_(2 * most), mr_(rdma_reg_write(id, bytes_.data(), bytes_.size()))
	{
		check(mr_ != nullptr, "rdma_reg_write");
	}
	~End()
	{
		rdma_dereg_mr(mr_);
		rdma_destroy_ep(id_);
	}
	End(const End &) = delete;
	End &operator=(const End &) = delete;

	[[nodiscard]] rdma_cm_id *id() const { return id_; }
	[[nodiscard]] volatile char *at(std::size_t offset) { return bytes_.data() + offset; }
	[[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(bytes_.data()); }
	[[nodiscard]] std::uint32_t key() const { return mr_->rkey; }

	/// Posts a list of requests of one kind; the last completes. A Write goes where the peer's memory begins, that
	/// of the last one to the second half of it.
	void post(ibv_wr_opcode opcode, std::uint32_t octets, unsigned n, std::uint64_t to = 0, std::uint32_t rkey = 0)
	{
		ibv_sge sge = {.addr = address(), .length = octets, .lkey = mr_->lkey};
		ibv_send_wr *bad = nullptr;

		for (unsigned i = 0; i < n; i++) {
			ibv_send_wr &wr = requests_[i];

			wr = {};
			wr.sg_list = &sge;
			wr.num_sge = 1;
			wr.opcode = opcode;
			wr.wr.rdma.remote_addr = i + 1 < n ? to : to + most;
			wr.wr.rdma.rkey = rkey;
			wr.next = i + 1 < n ? &requests_[i + 1] : nullptr;
			wr.send_flags = i + 1 < n ? 0 : IBV_SEND_SIGNALED;
		}
		need(ibv_post_send(id_->qp, requests_.data(), &bad), "ibv_post_send");
	}
	void receive(std::uint32_t octets, std::size_t offset = most)
	{
		ibv_sge sge = {.addr = address() + offset, .length = octets, .lkey = mr_->lkey};
		ibv_recv_wr wr{}, *bad = nullptr;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		need(ibv_post_recv(id_->qp, &wr, &bad), "ibv_post_recv");
	}
	/// Takes a completion, if there is one.
	[[nodiscard]] static bool poll(ibv_cq *cq)
	{
		ibv_wc wc{};
		const int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			throw std::runtime_error(n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
		return n > 0;
	}
	void await(ibv_cq *cq) const
	{
		while (!poll(cq))
			;
	}
	/// Sleeps until there is one.
	void await_event() const
	{
		ibv_cq *cq = id_->recv_cq;
		void *context = nullptr;

		while (!poll(cq)) {
			need(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
			if (poll(cq))
				return;
			check(ibv_get_cq_event(id_->recv_cq_channel, &cq, &context) == 0, "ibv_get_cq_event");
			ibv_ack_cq_events(cq, 1);
		}
	}

private:
	static void need(int error, const char *what)
	{
		if (error)
			throw std::system_error(error, std::generic_category(), what);
	}

	rdma_cm_id *id_;
	std::vector<char> bytes_;
	ibv_mr *mr_;
	std::array<ibv_send_wr, list_length> requests_{};
};

rdma_cm_id *make_id(const char *port, int flags)
{
	rdma_addrinfo hints{}, *found = nullptr;
	ibv_qp_init_attr attr{};
	rdma_cm_id *id = nullptr;

	hints.ai_port_space = RDMA_PS_TCP;
	hints.ai_flags = flags;
	check(rdma_getaddrinfo("127.0.0.1", port, &hints, &found) == 0, "rdma_getaddrinfo");
	const std::unique_ptr<rdma_addrinfo, decltype(&rdma_freeaddrinfo)> owned(found, rdma_freeaddrinfo);
	attr.cap = {
		.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	attr.qp_type = IBV_QPT_RC;
	check(rdma_create_ep(&id, found, nullptr, &attr) == 0, "rdma_create_ep");
	return id;
}

/// A listener on a port that the system chose
class Listener {
public:
	Listener() : id_(make_id("0", RAI_PASSIVE)) { check(rdma_listen(id_, 1) == 0, "rdma_listen"); }
	~Listener() { rdma_destroy_ep(id_); }
	Listener(const Listener &) = delete;
	Listener &operator=(const Listener &) = delete;

	[[nodiscard]] std::uint16_t port() const { return ntohs(rdma_get_src_port(id_)); }
	/// An end once somebody has connected; prepared before anything can come
	[[nodiscard]] std::unique_ptr<End> accept(const std::function<void(End &)> &prepare) const
	{
		rdma_cm_id *id = nullptr;

		check(rdma_get_request(id_, &id) == 0, "rdma_get_request");
		auto end = std::make_unique<End>(id);
		prepare(*end);
		check(rdma_accept(id, nullptr) == 0, "rdma_accept");
		return end;
	}

private:
	rdma_cm_id *id_;
};

std::unique_ptr<End> connect(std::uint16_t port, const std::function<void(End &)> &prepare)
{
	auto end = std::make_unique<End>(make_id(std::to_string(port).c_str(), 0));

	prepare(*end);
	check(rdma_connect(end->id(), nullptr) == 0, "rdma_connect");
	return end;
}

// --- processor time -------------------------------------------------------------------------------

/// Microseconds of this process's processor time for each of n calls
double processor_time(unsigned n, const std::function<void()> &call)
{
	const auto used = [] {
		timespec t{};

		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
		return double(t.tv_sec) * 1e6 + double(t.tv_nsec) / 1e3;
	};
	const double before = used();

	for (unsigned i = 0; i < n; i++)
		call();
	return (used() - before) / n;
}

unsigned rounds_of(std::size_t octets)
{
	return octets <= 4096 ? 20000 : unsigned((256 << 20) / octets);
}

/// Both ends of a connection
struct Writer {
	End &from, &to;

	void write(std::uint32_t octets, unsigned n) const
	{
		volatile char *last = to.at((n > 1 ? most : 0) + octets - 1);
		bool done = false;

		*last = 0;
		*from.at(octets - 1) = 1;
		from.post(IBV_WR_RDMA_WRITE, octets, n, to.address() + (n > 1 ? 0 : -most), to.key());
		while (!*last) {
			(void)End::poll(to.id()->recv_cq);
			done |= !*last && End::poll(from.id()->send_cq);
		}
		if (!done)
			from.await(from.id()->send_cq);
	}
};

struct Sender {
	const Socket &from, &to;
	std::vector<char> source, target;

	void send(std::size_t octets)
	{
		std::size_t sent = 0, got = 0;

		while (got < octets) {
			if (sent < octets) {
				const auto n = ::send(from.fd(), source.data() + sent, octets - sent, MSG_DONTWAIT);

				check(n >= 0 || errno == EAGAIN, "send");
				sent += std::size_t(std::max<ssize_t>(n, 0));
			}
			const auto n = ::recv(to.fd(), target.data() + got, octets - got, MSG_DONTWAIT);
			check(n > 0 || errno == EAGAIN, "recv");
			got += std::size_t(std::max<ssize_t>(n, 0));
		}
	}
};

void measure_processor_time(const Options &o)
{
	const Listener listener;
	std::unique_ptr<End> passive;
	std::thread accepting([&] { passive = listener.accept([](End &) {}); });
	const auto active = connect(listener.port(), [](End &) {});
	accepting.join();
	const Writer writer{*active, *passive};

	const Socket socket = listen_here();
	const Socket one = connect_to(address_of_socket(socket)), other = accept_from(socket);
	one.no_delay();
	Sender sender{one, other, std::vector<char>(most), std::vector<char>(most)};

	for (unsigned rep = 0; rep <= o.repetitions; rep++) {
		for (const std::size_t octets : {8UL, 64UL, 1024UL, 4096UL, 65536UL, most}) {
			const unsigned n = rounds_of(octets);

			sample(o, "user-cpu", "stream", octets, "tcp", rep,
				processor_time(n, [&] { sender.send(octets); }));
			sample(o, "user-cpu", "write", octets, "ours", rep,
				processor_time(n, [&] { writer.write(std::uint32_t(octets), 1); }));
		}
		const unsigned n = rounds_of(8);
		sample(o, "user-lists", "stream", 8, "tcp", rep, processor_time(n, [&] { sender.send(8); }));
		sample(o, "user-lists", "write", 8, "ours", rep,
			processor_time(n / list_length, [&] { writer.write(8, list_length); }) / list_length);
	}
}

// --- latency --------------------------------------------------------------------------------------

constexpr std::uint32_t ping_octets = 64;
constexpr unsigned warm_up = 200, trips = 4000;

/// A process's part of a game: it gives the other a message, or waits for one of the other's.
struct Player {
	std::function<void(unsigned round)> give, take;
};

/// Microseconds
Latency play(const Player &player)
{
	using clock = std::chrono::steady_clock;
	std::vector<double> times;

	for (unsigned i = 0; i < trips + warm_up; i++) {
		const auto start = clock::now();

		player.give(i);
		player.take(i);
		if (i >= warm_up)
			times.push_back(std::chrono::duration<double, std::micro>(clock::now() - start).count());
	}
	return latency_of(std::move(times));
}

void answer(const Player &player)
{
	for (unsigned i = 0; i < trips + warm_up; i++) {
		player.take(i);
		player.give(i);
	}
}

Player socket_player(const Socket &s, bool blocking)
{
	const auto message = std::make_shared<std::array<char, ping_octets>>();

	return {[&s, message](unsigned) { s.send_all(*message); },
		[&s, message, blocking](unsigned) {
			for (std::size_t got = 0; got < message->size();) {
				const auto n = ::recv(s.fd(), message->data() + got, message->size() - got,
					blocking ? 0 : MSG_DONTWAIT);

				check(n > 0 || (n < 0 && errno == EAGAIN), "recv");
				got += std::size_t(std::max<ssize_t>(n, 0));
			}
		}};
}

Player send_player(End &end, bool events)
{
	return {[&end](unsigned) { end.post(IBV_WR_SEND, ping_octets, 1); },
		[&end, events](unsigned) {
			if (events)
				end.await_event();
			else
				end.await(end.id()->recv_cq);
			end.receive(ping_octets);
			// That of the Send before
			while (End::poll(end.id()->send_cq))
				;
		}};
}

/// Its memory tells it of the other's message. Where the other's is, the ends have told each other by Sends.
Player write_player(End &end)
{
	struct Place {
		std::uint64_t address;
		std::uint32_t key;
	};
	Place own = {end.address(), end.key()}, other{};

	for (std::size_t i = 0; i < sizeof(own); i++)
		*end.at(i) = reinterpret_cast<const char *>(&own)[i];
	end.post(IBV_WR_SEND, sizeof(own), 1);
	end.await(end.id()->recv_cq);
	end.await(end.id()->send_cq);
	for (std::size_t i = 0; i < sizeof(other); i++)
		reinterpret_cast<char *>(&other)[i] = *end.at(most + ping_octets + i);
	return {[&end, other](unsigned round) {
			*end.at(ping_octets - 1) = char(round % 100 + 1);
			end.post(IBV_WR_RDMA_WRITE, ping_octets, 1, other.address, other.key);
			end.await(end.id()->send_cq);
		},
		[&end](unsigned round) {
			while (*end.at(most + ping_octets - 1) != char(round % 100 + 1))
				;
		}};
}

void bind_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	// Where there is none, both share one.
	(void)sched_setaffinity(0, sizeof(set), &set);
}

enum class Game { tcp, tcp_blocking, send, send_events, write };

void prepare_for(Game game, End &end)
{
	if (game == Game::write)
		end.receive(ping_octets, most + ping_octets); // behind what the other writes
	for (unsigned i = 0; game != Game::write && i < depth / 2; i++)
		end.receive(ping_octets);
}

Player player_of(Game game, End &end)
{
	return game == Game::write ? write_player(end) : send_player(end, game == Game::send_events);
}

/// The child's part
void serve(Game game, const Socket &socket, int port_to)
{
	const bool tcp = game == Game::tcp || game == Game::tcp_blocking;

	bind_to(1);
	if (tcp) {
		const Socket s = accept_from(socket);

		s.no_delay();
		answer(socket_player(s, game == Game::tcp_blocking));
		return;
	}
	const Listener listener;
	const std::uint16_t port = listener.port();
	check(::write(port_to, &port, sizeof(port)) == sizeof(port), "write");
	const auto end = listener.accept([&](End &e) { prepare_for(game, e); });
	answer(player_of(game, *end));
}

Latency ask(Game game, const Socket &socket, int port_from)
{
	bind_to(0);
	if (game == Game::tcp || game == Game::tcp_blocking) {
		const Socket s = connect_to(address_of_socket(socket));

		s.no_delay();
		return play(socket_player(s, game == Game::tcp_blocking));
	}
	std::uint16_t port = 0;
	check(::read(port_from, &port, sizeof(port)) == sizeof(port), "the other process");
	const auto end = connect(port, [&](End &e) { prepare_for(game, e); });
	return play(player_of(game, *end));
}

/// In two new processes: after fork(), a device is its opener's alone. Returns the client's figures.
Latency run(Game game)
{
	const Socket socket = listen_here();
	std::array<int, 2> port{}, figure{};
	std::array<pid_t, 2> children{};
	Latency value{};

	check(pipe2(port.data(), O_CLOEXEC) == 0 && pipe2(figure.data(), O_CLOEXEC) == 0, "pipe");
	for (const bool server : {true, false}) {
		pid_t &child = children[server];

		child = fork();
		check(child >= 0, "fork");
		if (child)
			continue;
		int status = 1;
		try {
			if (server) {
				serve(game, socket, port[1]);
			} else {
				::close(port[1]);
				value = ask(game, socket, port[0]);
				check(::write(figure[1], &value, sizeof(value)) == sizeof(value), "write");
			}
			status = 0;
		} catch (const std::exception &e) {
			std::cerr << "bench_user: " << e.what() << '\n';
		}
		std::_Exit(status);
	}
	for (const int fd : {port[0], port[1], figure[1]})
		::close(fd);
	const bool told = ::read(figure[0], &value, sizeof(value)) == sizeof(value);
	::close(figure[0]);
	bool good = told;
	for (const pid_t child : children) {
		int status = 1;

		if (!told)
			kill(child, SIGKILL);
		good &= waitpid(child, &status, 0) == child && status == 0;
	}
	if (!good)
		throw std::runtime_error("a process failed");
	return value;
}

void measure_latency(const Options &o)
{
	for (unsigned rep = 0; rep <= o.repetitions; rep++) {
		sample(o, "user-latency", "stream", ping_octets, "tcp", rep, run(Game::tcp));
		sample(o, "user-latency", "stream_events", ping_octets, "tcp", rep, run(Game::tcp_blocking));
		sample(o, "user-latency", "send", ping_octets, "ours", rep, run(Game::send));
		sample(o, "user-latency", "send_events", ping_octets, "ours", rep, run(Game::send_events));
		sample(o, "user-latency", "write", ping_octets, "ours", rep, run(Game::write));
	}
}

} // namespace

} // namespace bench

int main(int argc, char **argv)
try {
	CLI::App app(
		"The device without a module beside TCP sockets; prints a line of JSON for each run", "bench_user");
	bench::Options o;
	std::string what;

	app.add_option("WHAT", what)->required()->check(CLI::IsMember({"cpu", "latency"}));
	app.add_option("CRC", o.crc, "what KIWARP_USER says of it")->required()->check(CLI::IsMember({"on", "off"}));
	app.add_option("REPETITIONS", o.repetitions)->check(CLI::Range(1, 1000));
	CLI11_PARSE(app, argc, argv);
	if (what == "cpu")
		bench::measure_processor_time(o);
	else
		bench::measure_latency(o);
	return 0;
} catch (const std::exception &e) {
	std::cerr << "bench_user: " << e.what() << '\n';
	return 1;
}
