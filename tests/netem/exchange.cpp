// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// netem_exchange SECONDS OCTETS [give-up]: connects two ends, and has each send, write and read OCTETS at a time, until
// the time is up; every octet is compared. To give up is to end the connection with all of that under way, and to write
// over the buffers, which are the program's again: nothing of that may arrive. The ends are told by KIWARP_TEST_CLIENT
// and KIWARP_TEST_SERVER, see tests/lib/support.hpp.
//
// Status: 0; 1 something else went wrong, or took too long; 3 the connection ended, with an error at each end; 4 there
// were wrong octets
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "../lib/exchange.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int broken = 3, wrong = 4;

struct Connection {
	explicit Connection(std::size_t octets)
		: client(vt::start_connecting(listener.port(), {}), octets),
		  server(vt::accept(listener, {}), octets)
	{
		for (const faults::End *end : {&client, &server})
			end->side().events().wait(RDMA_CM_EVENT_ESTABLISHED, end->side().id());
	}

	vt::Listener listener;
	faults::End client, server;
};

void must(int error, const char *what)
{
	if (error)
		vt::fail(what, error);
}

// Return: whether the connection goes on.
bool round(Connection &c, std::uint32_t seed)
{
	bool well = true;

	must(c.client.prepare(2 * seed), "receive");
	must(c.server.prepare(2 * seed + 1), "receive");
	must(c.client.post(c.server), "post");
	// Where the first broke it, this one can't post any more.
	well = c.server.post(c.client) == 0;
	vt::wait_until(
		[&] {
			well = c.client.poll() && c.server.poll() && well;
			return !well || (c.client.done() && c.server.done());
		},
		"completions");
	return well;
}

// An end of which nobody learns would be a fault, too.
void both_end(const Connection &c)
{
	for (const faults::End *end : {&c.client, &c.server})
		vt::wait_until([&] { return end->side().state() == IBV_QPS_ERR; }, "the end of the connection");
}

int exchange(Connection &c, Clock::time_point end)
{
	std::uint32_t rounds = 0;
	bool well = true;

	do {
		well = round(c, rounds++);
		if (!well)
			both_end(c);
		try {
			c.client.check(c.server, !well);
			c.server.check(c.client, !well);
		} catch (const std::exception &e) {
			std::cerr << "round " << rounds << ": " << e.what() << '\n';
			return wrong;
		}
	} while (well && Clock::now() < end);
	std::cout << rounds << " rounds" << (well ? "" : ", then the connection ended") << '\n';
	return well ? 0 : broken;
}

int give_up(Connection &c)
{
	const std::uint32_t seed = 1U << 31;

	must(c.client.prepare(seed), "receive");
	must(c.server.prepare(seed + 1), "receive");
	must(c.client.post(c.server), "post");
	must(c.client.side().modify(IBV_QPS_ERR), "modify");
	vt::wait_until(
		[&] {
			c.client.poll();
			c.server.poll();
			return c.client.done();
		},
		"flushed requests");
	both_end(c);
	try {
		c.server.check(c.client, true);
	} catch (const std::exception &e) {
		std::cerr << "after giving up: " << e.what() << '\n';
		return wrong;
	}
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	const bool gives_up = argc == 4 && std::string(argv[3]) == "give-up";

	if (argc != 3 && !gives_up) {
		std::cerr << "usage: netem_exchange SECONDS OCTETS [give-up]\n";
		return 2;
	}
	try {
		const std::chrono::seconds time(std::strtol(argv[1], nullptr, 10));
		Connection connection(std::strtoul(argv[2], nullptr, 10));

		const int status = exchange(connection, Clock::now() + time);
		return status || !gives_up ? status : give_up(connection);
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
