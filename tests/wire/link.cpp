// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "link.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

static constexpr int patience_ms = 15000;
// A state of TCP_INFO. The header that names it can't be had together with the one that has the segments' counter.
static constexpr int established = 1;

static void check(bool good, const char *what)
{
	if (!good)
		throw Failure(std::string(what) + ": " + strerror(errno));
}

std::string hex(const Bytes &b)
{
	std::string text;
	std::array<char, 8> octet{};

	for (size_t i = 0; i < b.size() && i < 128; i++) {
		snprintf(octet.data(), octet.size(), "%02x%s", b[i], i % 4 == 3 ? " " : "");
		text += octet.data();
	}
	return text + (b.size() > 128 ? "..." : "") + " (" + std::to_string(b.size()) + " octets)";
}

void wait_for(int fd, short events, const char *what)
{
	pollfd p = {fd, events, 0};

	if (poll(&p, 1, patience_ms) == 0)
		throw Failure(std::string("nothing happened while waiting to ") + what);
}

static tcp_info about(int fd)
{
	tcp_info info{};
	socklen_t size = sizeof(info);

	check(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
	return info;
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
		// TCP joins what it can't send at once.
		tcp_info info{};
		do {
			info = about(fd);
		} while (info.tcpi_unacked >= info.tcpi_snd_cwnd && info.tcpi_state == established && usleep(20) == 0);
	}
}

void Link::send_urgent(uint8_t octet)
{
	check(::send(fd, &octet, 1, MSG_OOB | MSG_NOSIGNAL) == 1, "send urgent data");
}

void Link::receive_at_most(int size)
{
	check(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) == 0, "set the size of the receive buffer");
}

void Link::receive_little()
{
	receive_at_most(4096);
}

void Link::receive_as_usual()
{
	receive_at_most(128 << 10);
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

void Link::expect(bool crc, bool markers)
{
	crcs = crc;
	marked = markers;
}

// Is there nothing more to come?
bool Link::over()
{
	uint8_t octet;

	wait_for(fd, POLLIN, "receive");
	return recv(fd, &octet, 1, MSG_PEEK) <= 0;
}

Bytes Link::take(size_t n)
{
	Bytes b = receive(n);

	arrived.octets += n;
	covered.insert(covered.end(), b.begin(), b.end());
	return b;
}

// A marker, if one is due here
void Link::take_marker()
{
	const uint64_t at = arrived.octets;
	const uint64_t right = start ? at - *start : 0;

	if (!marked || at % marker_spacing)
		return;
	if (get(take(4).data(), 4) != right)
		throw Failure("the marker at " + std::to_string(at) + " isn't " + std::to_string(right));
	arrived.markers++;
	if (!start && at)
		arrived.between++;
}

// Octets of an FPDU, without the markers among them
Bytes Link::octets(size_t n)
{
	Bytes b;

	while (b.size() < n) {
		take_marker();
		if (!start)
			start = arrived.octets;
		size_t run = n - b.size();
		if (marked)
			run = std::min<size_t>(run, marker_spacing - arrived.octets % marker_spacing);
		const Bytes part = take(run);
		b.insert(b.end(), part.begin(), part.end());
	}
	return b;
}

std::optional<Bytes> Link::ulpdu()
{
	if (over())
		return std::nullopt;
	start.reset();
	covered.clear();
	const size_t length = get(octets(2).data(), 2);
	Bytes body = octets((2 + length + 3) / 4 * 4 - 2);
	for (size_t i = length; i < body.size(); i++)
		if (body[i])
			throw Failure("PAD isn't zero");
	take_marker();
	const uint32_t right = crcs ? crc32c(covered) : 0;
	const Bytes crc = take(4);
	arrived.crc = crc[0] | crc[1] << 8 | crc[2] << 16 | uint32_t{crc[3]} << 24;
	if (crcs && arrived.crc != right)
		throw Failure("an FPDU with a wrong CRC came");
	body.resize(length);
	return body;
}

Bytes Link::frame(std::string_view key)
{
	Bytes b = receive(20);

	if (std::string_view(reinterpret_cast<char *>(b.data()), key.size()) != key)
		throw Failure("this isn't the start-up frame that is due");
	return b + receive(get(&b[18], 2));
}

Bytes Link::rest(bool reset_too)
{
	Bytes b;
	std::array<uint8_t, 4096> buffer{};

	for (;;) {
		wait_for(fd, POLLIN, "end");
		const ssize_t n = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			continue;
		check(n >= 0 || reset_too, "the connection didn't end in good order");
		if (n <= 0)
			return b;
		b.insert(b.end(), buffer.begin(), buffer.begin() + n);
	}
}

bool Link::silent(int milliseconds)
{
	pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, milliseconds) == 0;
}

uint32_t Link::segments() const
{
	return about(fd).tcpi_data_segs_out;
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

void Link::must_terminate(uint8_t layer, uint8_t type, uint8_t code, const Bytes &offender)
{
	must_terminate([&](auto &, auto &) { return terminate_segment(layer, type, code, offender); });
}

void Link::must_terminate(
	const std::function<Bytes(const std::vector<Bytes> &before, const Bytes &terminate)> &expected)
{
	std::vector<Bytes> before;

	while (auto b = ulpdu()) {
		if (b->size() < 2 || ((*b)[1] & 0xf) != op_terminate) {
			before.push_back(*b);
			continue;
		}
		const Bytes right = expected(before, *b);
		if (*b != right)
			throw Failure("Terminate " + hex(*b) + " instead of " + hex(right));
		uint8_t octet;
		wait_for(fd, POLLIN, "receive");
		const ssize_t n = recv(fd, &octet, 1, 0);
		if (n)
			throw Failure(
				n > 0 ? "something follows the Terminate" : "the Terminate is followed by a reset");
		return;
	}
	throw Failure("the connection ended without a Terminate");
}

void Link::must_reset()
{
	pollfd p = {fd, 0, 0};

	if (poll(&p, 1, 2 * patience_ms) <= 0 || !(p.revents & POLLERR))
		throw Failure("the connection isn't reset");
}
