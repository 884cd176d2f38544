// SPDX-License-Identifier: GPL-2.0
// TCP ping-pong: what the latency of RDMA is compared with. Client and server send each other a message in turns; each
// reads either blocking, or spinning on a receive call that returns at once. Prints median, mean and 99th percentile of
// half a round trip in microseconds.
#include "latency.hpp"
#include "program.hpp"

#include <chrono>
#include <iostream>
#include <vector>
#include <x86intrin.h>

namespace {

// Rounds before the clock starts
constexpr unsigned warm_up = 200;

struct Options {
	bool spinning;
	std::size_t octets;
	unsigned rounds;
};

void receive_all(const bench::Socket &s, std::span<char> message, bool spinning)
{
	const int flags = spinning ? MSG_DONTWAIT : 0;

	while (!message.empty()) {
		const auto n = ::recv(s.fd(), message.data(), message.size(), flags);

		if (n == 0)
			throw std::runtime_error("the peer has closed");
		bench::check(n > 0 || errno == EINTR || errno == EAGAIN, "recv");
		message = message.subspan(std::size_t(std::max<ssize_t>(n, 0)));
	}
}

void serve(const Options &o, const bench::Socket &s)
{
	std::vector<char> message(o.octets);

	for (unsigned i = 0; i < o.rounds + warm_up; i++) {
		receive_all(s, message, o.spinning);
		s.send_all(message);
	}
}

/// Time stamp counter values before the first round and after each. Asking the system for the time would be a large
/// part of what is measured where system calls are slow.
std::vector<std::uint64_t> play(const Options &o, const bench::Socket &s)
{
	std::vector<char> message(o.octets);
	std::vector<std::uint64_t> stamps(o.rounds + 1);

	for (unsigned i = 0; i < o.rounds + warm_up; i++) {
		if (i == warm_up)
			stamps[0] = __rdtsc();
		s.send_all(message);
		receive_all(s, message, o.spinning);
		if (i >= warm_up)
			stamps[i - warm_up + 1] = __rdtsc();
	}
	return stamps;
}

void ask(const Options &o, const bench::Socket &s)
{
	using clock = std::chrono::steady_clock;
	const auto start = clock::now();
	const auto start_ticks = __rdtsc();
	const auto stamps = play(o, s);
	const auto ticks = __rdtsc() - start_ticks;
	const std::chrono::duration<double, std::micro> spent = clock::now() - start;

	std::vector<double> trips(o.rounds);
	for (unsigned i = 0; i < o.rounds; i++)
		trips[i] = double(stamps[i + 1] - stamps[i]) * spent.count() / double(ticks);
	std::cout << bench::latency_of(std::move(trips)) << '\n';
}

} // namespace

int main(int argc, char **argv)
try {
	bench::Program program(
		"TCP ping-pong; prints median, mean and 99th percentile of half a round trip in microseconds",
		"bench_pingpong", {"blocking", "spinning"});
	Options o{};

	program.app().add_option("OCTETS", o.octets)->required()->check(CLI::Range(1, 1 << 20));
	program.app().add_option("ROUNDS", o.rounds)->required()->check(CLI::Range(1, 10'000'000));
	return program.run(argc, argv, [&] {
		const auto address = program.address();
		const auto s = program.server() ? bench::accept_from(bench::listen_at(address, 1))
						: bench::connect_to(address);

		o.spinning = program.is("spinning");
		s.no_delay();
		if (program.server())
			serve(o, s);
		else
			ask(o, s);
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
