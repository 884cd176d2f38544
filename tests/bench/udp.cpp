// SPDX-License-Identifier: GPL-2.0
// Datagrams between plain UDP sockets, for comparison with those of queue pairs: sent in lists by sendmmsg() or, with
// --segment, as one long message that UDP cuts up (UDP_SEGMENT); received by recvmmsg(), with --join as long messages
// again (UDP_GRO). The server tells by a datagram now and then how far it is, so that no more are under way than its
// socket has room for. The client prints how many datagrams have come in a second.
#include "control.hpp"
#include "program.hpp"

#include <array>
#include <cstring>
#include <iostream>
#include <netinet/udp.h>
#include <vector>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace {

using bench::check;
using bench::Socket;
using bench::Ticks;

struct Options {
	std::string data;
	std::size_t octets = 1024;
	unsigned list = 32;
	unsigned milliseconds = 1000;
	bool segment = false;
	bool join = false;
};

constexpr std::uint32_t window = 256, report = 64;
/// Memory for as many datagrams, with what the kernel counts besides
constexpr int room = 8 << 20;
/// What one call takes
constexpr std::size_t longest = 65507;

Socket udp_socket(const sockaddr_in &address)
{
	Socket s(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	check(s.fd() >= 0, "socket");
	for (const int option : {SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
		// Without the right to that much it is what the system allows.
		if (::setsockopt(s.fd(), SOL_SOCKET, option, &room, sizeof(room)) != 0)
			(void)::setsockopt(s.fd(), SOL_SOCKET, option == SO_RCVBUFFORCE ? SO_RCVBUF : SO_SNDBUF, &room,
				sizeof(room));
	}
	check(::bind(s.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0, "bind");
	return s;
}

void connect(const Socket &s, const sockaddr_in &address)
{
	check(::connect(s.fd(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0, "connect");
}

sockaddr_in name_of(const Socket &s)
{
	sockaddr_in name{};
	socklen_t length = sizeof(name);

	check(::getsockname(s.fd(), reinterpret_cast<sockaddr *>(&name), &length) == 0, "getsockname");
	return name;
}

/// Buffers for calls that take many messages
class Batch {
public:
	Batch(std::size_t messages, std::size_t octets, bool control)
		: octets_(messages * octets, 'd'),
		  parts_(messages),
		  control_(control ? messages * 64 : 0),
		  headers_(messages)
	{
		for (std::size_t i = 0; i < messages; i++) {
			parts_[i] = {octets_.data() + i * octets, octets};
			headers_[i].msg_hdr.msg_iov = &parts_[i];
			headers_[i].msg_hdr.msg_iovlen = 1;
		}
		reset();
	}
	/// The kernel writes over the room for what it tells besides.
	void reset()
	{
		for (std::size_t i = 0; !control_.empty() && i < headers_.size(); i++) {
			headers_[i].msg_hdr.msg_control = control_.data() + i * 64;
			headers_[i].msg_hdr.msg_controllen = 64;
		}
	}
	char *at(std::size_t i) { return static_cast<char *>(parts_[i].iov_base); }
	std::vector<mmsghdr> &headers() { return headers_; }

private:
	std::vector<char> octets_;
	std::vector<iovec> parts_;
	std::vector<char> control_;
	std::vector<mmsghdr> headers_;
};

/// How long the datagrams are that UDP has put together, or 0 where it is one
std::size_t joined_of(msghdr &message)
{
	for (auto *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		int size = 0;

		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			std::memcpy(&size, CMSG_DATA(c), sizeof(size));
			return std::size_t(size);
		}
	}
	return 0;
}

void serve(const Options &o, const Socket &control)
{
	const Socket s = udp_socket(bench::address_of(o.data, 0));
	Batch batch(o.list, o.join ? 65536 : o.octets, o.join);
	std::uint64_t octets = 0;
	std::uint32_t reached = 0, reported = 0;

	if (o.join)
		s.set(SOL_UDP, UDP_GRO, "UDP_GRO");
	bench::tell(control, name_of(s));
	connect(s, bench::hear<sockaddr_in>(control));
	bench::tell(control, 'r');
	const auto take = [&] {
		batch.reset();
		const int n = ::recvmmsg(s.fd(), batch.headers().data(), o.list, MSG_DONTWAIT, nullptr);
		std::uint64_t messages = 0;

		check(n >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED, "recvmmsg");
		for (int i = 0; i < n; i++) {
			const std::size_t length = batch.headers()[i].msg_len;
			const std::size_t each = std::max<std::size_t>(joined_of(batch.headers()[i].msg_hdr), 1);
			const std::size_t joined = each > 1 ? (length + each - 1) / each : 1;
			std::uint32_t number = 0;

			octets += length;
			messages += joined;
			std::memcpy(&number, batch.at(i) + (joined - 1) * (joined > 1 ? each : 0), sizeof(number));
			reached = number + 1;
		}
		if (reached - reported >= report) {
			reported = reached;
			check(::send(s.fd(), &reached, sizeof(reached), 0) > 0 || errno == ECONNREFUSED, "send");
		}
		return messages;
	};
	bench::count_arrivals(control, take, [&] { return octets; });
}

void send_list(const Options &o, const Socket &s, Batch &batch, std::uint32_t first)
{
	for (std::uint32_t i = 0; i < o.list; i++) {
		const std::uint32_t number = first + i;

		std::memcpy(batch.at(i), &number, sizeof(number));
	}
	if (!o.segment) {
		for (unsigned done = 0; done < o.list;) {
			const int n = ::sendmmsg(s.fd(), batch.headers().data() + done, o.list - done, 0);

			check(n >= 0 || errno == EINTR || errno == ENOBUFS, "sendmmsg");
			done += unsigned(std::max(n, 0));
		}
		return;
	}
	// The buffers lie one behind the other.
	const unsigned most = unsigned(std::min<std::size_t>(longest / o.octets, 64));
	for (unsigned done = 0; done < o.list;) {
		const unsigned n = std::min(most, o.list - done);

		if (::send(s.fd(), batch.at(done), n * o.octets, 0) >= 0)
			done += n;
		else
			check(errno == EINTR || errno == ENOBUFS, "send");
	}
}

void call(const Options &o, const Socket &control)
{
	const auto peer = bench::hear<sockaddr_in>(control);
	const Ticks clock;
	sockaddr_in any{};
	any.sin_family = AF_INET;
	const Socket s = udp_socket(any);
	Batch batch(o.list, o.octets, false);
	bench::Credit credit(window);

	connect(s, peer);
	if (o.segment) {
		const int size = int(o.octets);

		check(::setsockopt(s.fd(), SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) == 0, "UDP_SEGMENT");
	}
	bench::tell(control, name_of(s));
	(void)bench::hear<char>(control);
	const auto start = Ticks::now(), end = start + clock.ticks(o.milliseconds / 1e3);
	while (Ticks::now() < end) {
		std::uint32_t passed = 0;

		if (credit.allows(o.list)) {
			send_list(o, s, batch, credit.sent());
			credit.send(o.list);
			if (credit.allows(o.list))
				continue;
		}
		if (::recv(s.fd(), &passed, sizeof(passed), MSG_DONTWAIT) == sizeof(passed))
			credit.pass(passed);
		credit.give_up(clock.ticks(bench::patience));
	}
	bench::tell(control, std::uint64_t(credit.sent()));
	const auto arrived = bench::hear<bench::Arrived>(control);
	const double seconds = clock.seconds(Ticks::now() - start) - arrived.idle_seconds;
	std::cout << double(arrived.messages) / seconds << ' ' << 100.0 * double(arrived.messages) / credit.sent()
		  << '\n';
}

} // namespace

int main(int argc, char **argv)
try {
	bench::Program program(
		"Datagrams between plain UDP sockets, measured: prints how many have come in a second, and how many of "
		"100 that were sent",
		"bench_udp", {"messages"});
	auto &app = program.app();
	Options o;

	app.add_option("--data", o.data, "the server's address for datagrams; that of the command line is for TCP")
		->required()
		->check(CLI::ValidIPV4);
	app.add_option("--octets", o.octets, "of a datagram")->check(CLI::Range(4, int(longest)));
	app.add_option("--list", o.list, "datagrams in a call")->check(CLI::Range(1u, window - report));
	app.add_option("--ms", o.milliseconds, "to measure")->check(CLI::Range(10, 60'000));
	app.add_flag("--segment", o.segment, "UDP cuts long messages up");
	app.add_flag("--join", o.join, "UDP puts datagrams together");
	return program.run(argc, argv, [&] {
		const auto address = program.address();

		if (program.server())
			serve(o, bench::accept_from(bench::listen_at(address, 1)));
		else
			call(o, bench::connect_to(address));
	});
} catch (const std::exception &e) {
	return bench::failed(e);
}
