// SPDX-License-Identifier: GPL-2.0
// TCP sockets as RDMA is compared with them, where no known tool measures the same:
//
//   messages      one send call for each; prints messages per second. With --zerocopy they are sent by MSG_ZEROCOPY.
//   connections   made, accepted and closed, a few under way at once; prints connections per second
//   idle          connections that do nothing; prints "up N" and stays until it is killed
#include "program.hpp"

#include <array>
#include <chrono>
#include <deque>
#include <iostream>
#include <linux/errqueue.h>
#include <poll.h>
#include <vector>

namespace {

using bench::Socket;
using Clock = std::chrono::steady_clock;

struct Options {
	std::size_t octets = 8;
	unsigned count = 1000;
	unsigned window = 16;
	bool zerocopy = false;
};

double per_second(unsigned count, Clock::time_point start)
{
	return count / std::chrono::duration<double>(Clock::now() - start).count();
}

/// Sends without a copy, and keeps account of what the kernel still uses.
class ZeroCopy {
public:
	explicit ZeroCopy(const Socket &socket) : socket_(socket)
	{
		socket.set(SOL_SOCKET, SO_ZEROCOPY, "SO_ZEROCOPY");
	}

	void send_all(std::span<const char> octets)
	{
		while (!octets.empty()) {
			const auto n = ::send(socket_.fd(), octets.data(), octets.size(), MSG_NOSIGNAL | MSG_ZEROCOPY);

			if (n > 0) {
				octets = octets.subspan(std::size_t(n));
				used_++;
			} else {
				bench::check(errno == EINTR || errno == ENOBUFS, "send");
			}
			if (n < 0 || used_ >= most)
				reap();
		}
	}
	void finish()
	{
		while (used_ > 0)
			reap();
	}

private:
	// What a program with as many buffers could have under way
	static constexpr unsigned most = 64;

	/// Waits until something is free again.
	void reap()
	{
		pollfd ready{.fd = socket_.fd(), .events = 0, .revents = 0};
		std::array<char, 256> control;
		msghdr message{};

		if (used_ == 0)
			return;
		bench::check(::poll(&ready, 1, -1) >= 0 || errno == EINTR, "poll");
		message.msg_control = control.data();
		message.msg_controllen = control.size();
		if (::recvmsg(socket_.fd(), &message, MSG_ERRQUEUE) < 0) {
			bench::check(errno == EAGAIN || errno == EINTR, "recvmsg");
			return;
		}
		for (auto *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
			const auto *const e = reinterpret_cast<const sock_extended_err *>(CMSG_DATA(c));

			// A range of calls, both ends included
			if (e->ee_origin == SO_EE_ORIGIN_ZEROCOPY)
				used_ -= e->ee_data - e->ee_info + 1;
		}
	}

	const Socket &socket_;
	unsigned used_ = 0;
};

void serve_messages(const Socket &s)
{
	std::vector<char> octets(128 * 1024);
	std::uint64_t total = 0;

	for (std::size_t n = 0; (n = s.receive(octets)) > 0;)
		total += n;
	s.send_all({reinterpret_cast<const char *>(&total), sizeof(total)});
}

void send_messages(const Options &o, const Socket &s)
{
	const std::vector<char> message(o.octets, 'x');
	std::uint64_t arrived = 0;
	const auto start = Clock::now();

	if (o.zerocopy) {
		ZeroCopy sender(s);

		for (unsigned i = 0; i < o.count; i++)
			sender.send_all(message);
		sender.finish();
	} else {
		for (unsigned i = 0; i < o.count; i++)
			s.send_all(message);
	}
	bench::check(::shutdown(s.fd(), SHUT_WR) == 0, "shutdown");
	if (s.receive({reinterpret_cast<char *>(&arrived), sizeof(arrived)}) != sizeof(arrived) ||
		arrived != std::uint64_t(o.count) * o.octets)
		throw std::runtime_error("not all has arrived");
	std::cout << per_second(o.count, start) << '\n';
}

void serve_connections(const Options &o, const Socket &listener)
{
	for (unsigned i = 0; i < o.count; i++) {
		const auto s = bench::accept_from(listener);
		std::array<char, 1> octet;

		if (s.receive(octet) != 0)
			throw std::runtime_error("an octet that nobody sent");
	}
}

void make_connections(const Options &o, const sockaddr_in &address)
{
	std::deque<Socket> open;
	const auto start = Clock::now();
	const auto close_oldest = [&] {
		std::array<char, 1> octet;

		bench::check(::shutdown(open.front().fd(), SHUT_WR) == 0, "shutdown");
		if (open.front().receive(octet) != 0)
			throw std::runtime_error("an octet that nobody sent");
		open.pop_front();
	};

	for (unsigned i = 0; i < o.count; i++) {
		open.push_back(bench::connect_to(address));
		if (open.size() >= o.window)
			close_oldest();
	}
	while (!open.empty())
		close_oldest();
	std::cout << per_second(o.count, start) << '\n';
}

void stay_idle(const Options &o, const sockaddr_in &address, bool server)
{
	std::vector<Socket> all;

	if (server) {
		// The client may be far ahead: what finds no room would be tried again after a second only.
		const auto listener = bench::listen_at(address, SOMAXCONN);

		while (all.size() < o.count)
			all.push_back(bench::accept_from(listener));
	} else {
		while (all.size() < o.count)
			all.push_back(bench::connect_to(address));
	}
	std::cout << "up " << all.size() << std::endl;
	for (;;)
		::pause();
}

} // namespace

int main(int argc, char **argv)
try {
	bench::Program program(
		"What TCP sockets can do, for comparison", "bench_tcp", {"messages", "connections", "idle"});
	auto &app = program.app();
	Options o;

	app.add_option("--octets", o.octets, "of a message")->check(CLI::Range(1, 1 << 26));
	app.add_option("--count", o.count, "messages or connections")->check(CLI::PositiveNumber);
	app.add_option("--window", o.window, "connections under way at once")->check(CLI::Range(1, 1024));
	app.add_flag("--zerocopy", o.zerocopy, "send by MSG_ZEROCOPY");
	return program.run(argc, argv, [&] {
		const auto address = program.address();
		const bool messages = program.is("messages");

		if (program.is("idle"))
			stay_idle(o, address, program.server());
		else if (program.server() && messages)
			serve_messages(bench::accept_from(bench::listen_at(address, 1)));
		else if (program.server())
			serve_connections(o, bench::listen_at(address, int(2 * o.window)));
		else if (messages)
			send_messages(o, bench::connect_to(address));
		else
			make_connections(o, address);
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
