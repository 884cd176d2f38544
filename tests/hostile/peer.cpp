// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// hostile_peer connect|listen ADDRESS PORT SCENARIO
// hostile_peer connect|listen list: scenarios with the counters that they move on the other side
// Ends with 0 if the other side did what it has to do.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "link.hpp"

static constexpr int patience_ms = 15000;

static void check(bool good, const char *what)
{
	if (!good)
		throw Failure(std::string(what) + ": " + strerror(errno));
}

static void wait_for(int fd, short events, const char *what)
{
	pollfd p = {fd, events, 0};

	if (poll(&p, 1, patience_ms) == 0)
		throw Failure(std::string("nothing happened while waiting to ") + what);
}

Link::Link(int socket) : fd(socket)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Link::~Link()
{
	if (fd >= 0)
		close(fd);
}

void Link::send(const Bytes &b)
{
	size_t done = 0;

	while (done < b.size()) {
		wait_for(fd, POLLOUT, "send");
		ssize_t n = ::send(fd, b.data() + done, b.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			continue;
		check(n >= 0, "send");
		done += n;
	}
}

void Link::send_slowly(const Bytes &b)
{
	for (uint8_t octet : b) {
		send({octet});
		// So that each goes alone, even where TCP would join them while one is on its way.
		tcp_info info;
		socklen_t size = sizeof(info);
		do {
			check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
		} while (info.tcpi_unacked && info.tcpi_state == TCP_ESTABLISHED && usleep(20) == 0);
	}
}

void Link::send_urgent(uint8_t octet)
{
	check(::send(fd, &octet, 1, MSG_OOB | MSG_NOSIGNAL) == 1, "send urgent data");
}

void Link::receive_little()
{
	int size = 4096;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

bool Link::some(uint8_t *p, size_t n, size_t &got)
{
	wait_for(fd, POLLIN, "receive");
	ssize_t r = recv(fd, p, n, MSG_DONTWAIT);
	if (r < 0 && errno == EAGAIN)
		r = 0;
	else if (r <= 0)
		return false;
	got = r;
	return true;
}

Bytes Link::receive(size_t n)
{
	Bytes b(n);
	size_t have = 0, got;

	while (have < n) {
		if (!some(b.data() + have, n - have, got))
			throw Failure(
				"the connection ended where " + std::to_string(n - have) + " more octets are due");
		have += got;
	}
	return b;
}

std::optional<Bytes> Link::ulpdu()
{
	uint8_t c;
	size_t got = 0;

	while (!got)
		if (!some(&c, 1, got))
			return std::nullopt;
	size_t len = c << 8 | receive(1)[0];
	Bytes b = receive((2 + len + 3) / 4 * 4 - 2 + 4);
	return first(b, len);
}

Bytes Link::frame(std::string_view key)
{
	Bytes b = receive(20);

	if (std::string_view(reinterpret_cast<char *>(b.data()), key.size()) != key)
		throw Failure("this isn't the start-up frame that is due");
	return b + receive(get(&b[18], 2));
}

void Link::finish()
{
	shutdown(fd, SHUT_WR);
}

void Link::reset()
{
	linger l = {1, 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(fd);
	fd = -1;
}

void Link::must_end()
{
	uint8_t buffer[4096];
	size_t got;

	while (some(buffer, sizeof(buffer), got))
		;
}

void Link::must_terminate(uint8_t layer, uint8_t type, uint8_t code)
{
	while (auto b = ulpdu()) {
		if (b->size() < 22 || ((*b)[1] & 0xf) != op_terminate)
			continue;
		if ((*b)[18] == (layer << 4 | type) && (*b)[19] == code)
			return;
		char text[100];
		snprintf(text, sizeof(text), "Terminate %x/%x/%02x instead of %x/%x/%02x", (*b)[18] >> 4,
			(*b)[18] & 0xf, (*b)[19], layer, type, code);
		throw Failure(text);
	}
	throw Failure("the connection ended without a Terminate");
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

int main(int argc, char **argv)
{
	bool listening = argc > 1 && !strcmp(argv[1], "listen");
	auto scenarios = listening ? towards_client : towards_server;

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
	for (auto &s : scenarios) {
		if (strcmp(s.name, argv[4]) != 0)
			continue;
		try {
			Link link(make_socket(listening, argv[2], argv[3]));
			s.run(link);
			return 0;
		} catch (const Failure &f) {
			fprintf(stderr, "%s\n", f.what());
			return 1;
		}
	}
	fprintf(stderr, "no scenario %s\n", argv[4]);
	return 2;
}
