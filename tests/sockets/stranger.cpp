// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// stranger KIND PORT: a client without the library, whose first octets look like a hello in part or in whole, at a
// server that sends back what it gets. Ends with 0 if that are the octets that a program has sent.
//
//   part     the beginning of a hello, a pause, and text
//   octets   the same octet by octet
//   stops    the beginning of a hello, and no more
//   version  a hello of another version, which is taken off, and text
//   speaks   text that isn't like a hello at all
#include <arpa/inet.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "hello.hpp"

namespace {

[[noreturn]] void fail(const char *what)
{
	std::perror(what);
	std::exit(1);
}

void send_all(int fd, const std::string &octets)
{
	if (::send(fd, octets.data(), octets.size(), 0) != static_cast<ssize_t>(octets.size()))
		fail("send");
}

void pause_for(int milliseconds)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	const std::string_view kind = argv[1];
	const int fd = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
	sockaddr_in address{};
	std::uint8_t octets[kiws::Hello::size];

	address.sin_family = AF_INET;
	address.sin_port = htons(static_cast<std::uint16_t>(std::strtoul(argv[2], nullptr, 10)));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	(void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (::connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)))
		fail("connect");
	kiws::Hello{.port = 9, .nonce = {}}.write(octets);
	const std::string hello(reinterpret_cast<const char *>(octets), sizeof(octets)), text = "and then some text";
	std::string expected = text;
	if (kind == "part" || kind == "octets" || kind == "stops") {
		expected = hello.substr(0, 20);
		if (kind == "octets")
			for (const char octet : expected) {
				send_all(fd, std::string(1, octet));
				pause_for(3);
			}
		else
			send_all(fd, expected);
		pause_for(50);
		if (kind != "stops") {
			send_all(fd, text);
			expected += text;
		}
	} else if (kind == "version") {
		std::string other = hello;

		other[9] = 99;
		send_all(fd, other + text);
	} else {
		send_all(fd, text);
	}
	std::string got;
	char some[100];
	while (got.size() < expected.size()) {
		const ssize_t n = ::recv(fd, some, sizeof(some), 0);

		if (n <= 0)
			fail("recv");
		got.append(some, static_cast<std::size_t>(n));
	}
	if (got != expected) {
		std::fprintf(stderr, "stranger: other octets came back\n");
		return 1;
	}
	if (::shutdown(fd, SHUT_WR) || ::recv(fd, some, sizeof(some), 0) != 0)
		fail("the end");
	return 0;
}
