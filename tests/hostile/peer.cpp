// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// hostile_peer connect|listen ADDRESS PORT SCENARIO
// hostile_peer connect ADDRESS PORT bystander: is good until it is killed
// hostile_peer connect|listen list: scenarios with the counters that they move on the other side
// Ends with 0 if the other side did what it has to do.
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "server.hpp"

static void check(bool good, const char *what)
{
	if (!good)
		throw Failure(std::string(what) + ": " + strerror(errno));
}

static int make_socket(bool listening, const char *address, const char *port)
{
	addrinfo hints = {}, *ai;

	hints.ai_flags = AI_NUMERICHOST;
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(address, port, &hints, &ai))
		throw Failure("bad address");
	int fd = socket(ai->ai_family, SOCK_STREAM, 0);
	check(fd >= 0, "socket");
	if (!listening) {
		check(connect(fd, ai->ai_addr, ai->ai_addrlen) == 0, "connect");
		return fd;
	}
	int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	check(bind(fd, ai->ai_addr, ai->ai_addrlen) == 0, "bind");
	check(listen(fd, 8) == 0, "listen");
	wait_for(fd, POLLIN, "accept");
	int connection = accept(fd, nullptr, nullptr);
	check(connection >= 0, "accept");
	close(fd);
	return connection;
}

// A connection that nothing may disturb
[[noreturn]] static void stand_by(Link &link)
{
	start(link);
	for (uint32_t i = 1;; i++) {
		echo(link, i, Bytes(i % 1000, uint8_t(i)));
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	bool listening = argc > 1 && !strcmp(argv[1], "listen");
	std::vector<Scenario> scenarios;

	for (auto part : {towards_server, towards_server_markers, towards_server_segments})
		if (!listening)
			scenarios.insert(scenarios.end(), part.begin(), part.end());
	if (listening)
		scenarios.assign(towards_client.begin(), towards_client.end());

	if (argc == 3 && !strcmp(argv[2], "list")) {
		for (auto &s : scenarios)
			printf("%s %s\n", s.name, s.counters);
		return 0;
	}
	if (argc != 5) {
		fprintf(stderr, "usage: hostile_peer connect|listen ADDRESS PORT SCENARIO\n");
		for (auto &s : scenarios)
			fprintf(stderr, "  %-24s %s\n", s.name, s.about);
		return 2;
	}
	try {
		if (!listening && !strcmp(argv[4], "bystander")) {
			Link link(make_socket(false, argv[2], argv[3]));
			stand_by(link);
		}
		for (auto &s : scenarios) {
			if (strcmp(s.name, argv[4]) != 0)
				continue;
			Link link(make_socket(listening, argv[2], argv[3]));
			s.run(link);
			return 0;
		}
	} catch (const Failure &f) {
		fprintf(stderr, "%s\n", f.what());
		return 1;
	}
	fprintf(stderr, "no scenario %s\n", argv[4]);
	return 2;
}
