// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "descriptors.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <unistd.h>

#include "epoll.hpp"
#include "real.hpp"
#include "rules.hpp"
#include "steward.hpp"

namespace kiws {

Table table;

namespace {

pid_t own_process;

/// Descriptors of the library lie above those that programs count on.
constexpr int first_kept = 512;
constexpr Time require_time = 2 * second;

void nap()
{
	const timespec time = {.tv_sec = 0, .tv_nsec = 500000};

	(void)::nanosleep(&time, nullptr);
}

bool is_tcp(int fd)
{
	int type = 0, protocol = 0;
	socklen_t size = sizeof(type);

	return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	       ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
}

void report(const Socket &socket)
{
	const bool lane = socket.sent.lane || socket.received.lane;

	(void)std::fprintf(stderr,
		"kiwarp-sockets: sent %" PRIu64 " by the lane, %" PRIu64 " by TCP; received %" PRIu64 ", %" PRIu64
		"%s%s\n",
		socket.sent.lane, socket.sent.tcp, socket.received.lane, socket.received.tcp,
		lane ? "" : "; no lane: ", lane ? "" : socket.why);
}

/// Leaves a lane that still has to be ended to the steward, with a descriptor. Returns false if there is none.
bool keep(int fd, Socket &socket)
{
	if (!socket.link || socket.link->gone || socket.stream().holders != 1)
		return false;
	socket.kept = real().fcntl(fd, F_DUPFD_CLOEXEC, first_kept);
	if (socket.kept < 0)
		socket.kept = real().fcntl(fd, F_DUPFD_CLOEXEC, 0);
	socket.finish();
	if (socket.kept >= 0)
		steward.keep();
	return true;
}

void let_go(int fd, Socket &socket)
{
	bool last = false;
	{
		const Locked locked(socket.stream());

		last = --socket.descriptors == 0;
		if (last) {
			if (!keep(fd, socket) && !socket.link && socket.dial != Socket::Dial::none)
				steward.forget(socket, socket.why);
			socket.stream().holders--;
		}
	}
	if (last)
		leave_sets(socket);
	if (last && rules().verbose)
		report(socket);
}

bool add(int fd, Socket &socket)
{
	Use before;
	{
		const Locked locked(socket.stream());

		if (!table.add(fd, socket, before))
			return false;
		socket.descriptors++;
	}
	// Its descriptor was closed behind this library's back.
	if (before)
		let_go(-1, *before);
	return true;
}

/// What a function returns that needs the lock; true in a signal handler that interrupted its holder
template <typename Function>
bool with_lock(Socket &socket, const Function &function)
{
	const Locked locked(socket.stream());

	return !locked || function();
}

bool is_up(Socket &socket)
{
	const Locked locked(socket.stream());

	return socket.link && socket.link->up && !socket.link->gone;
}

/// Waits for the lane that a rule requires.
bool wait_for_lane(Socket &socket)
{
	for (const Time end = now() + std::max(require_time, rules().wait * millisecond); now() < end; nap())
		if (is_up(socket))
			return true;
	return false;
}

} // namespace

void begin_accepted(int fd)
{
	kiwu::Address own;
	socklen_t length = sizeof(own);

	if (fd < 0 || rules().mode == Mode::api || ::getsockname(fd, &own.any, &length) || !own.length())
		return;
	if (!rules().listens(ntohs(own.port())) || !is_tcp(fd))
		return;
	Socket *socket = Socket::make(Stream::Greeting::unread);
	if (socket && !add(fd, *socket))
		socket->put();
}

int begin_connected(int fd, const sockaddr *address, socklen_t length, int result)
{
	const int error = errno;

	if ((result && error != EINPROGRESS) || rules().mode == Mode::api || !address ||
		!rules().connects(address, length) || !is_tcp(fd)) {
		errno = error;
		return result;
	}
	Socket *socket = Socket::make(Stream::Greeting::unsent);
	if (socket) {
		(void)socket->peer.set(address);
		socket->peer.unmap();
		(void)socket->get();
		if (add(fd, *socket) && result == 0) {
			const Locked locked(socket->stream());

			(void)socket->greet(fd);
		} else if (!socket->descriptors) {
			socket->put();
		}
	}
	const bool lacks = result == 0 && rules().mode == Mode::require && (!socket || !wait_for_lane(*socket));
	if (socket)
		socket->put();
	if (lacks) {
		let_go(fd);
		(void)real().shutdown(fd, SHUT_RDWR);
		errno = EPROTONOSUPPORT;
		return -1;
	}
	errno = error;
	return result;
}

int add_duplicate(int fd, int duplicate)
{
	const int error = errno;

	if (duplicate >= 0 && duplicate != fd && !is_borrowed())
		if (const Use use = table.find(fd)) {
			(void)use->get();
			if (!add(duplicate, *use))
				use->put();
		}
	errno = error;
	return duplicate;
}

bool is_borrowed()
{
	return ::getpid() != own_process;
}

void own()
{
	own_process = ::getpid();
}

void let_go(int fd)
{
	if (is_borrowed())
		return;
	close_sets(static_cast<unsigned>(fd), static_cast<unsigned>(fd));
	if (const Use use = table.remove(fd)) {
		const int error = errno;

		let_go(fd, *use);
		errno = error;
	}
}

void let_go_of(unsigned first, unsigned last)
{
	if (is_borrowed())
		return;
	close_sets(first, last);
	table.for_each([=](int fd, Socket &) {
		if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last)
			let_go(fd);
	});
}

void leave_lane(int fd, Time end)
{
	const Use use = table.find(fd);

	if (!use)
		return;
	const int error = errno;
	while (!with_lock(*use, [&] { return use->leave(); }) && now() < end)
		nap();
	errno = error;
}

void stay_plain(int fd)
{
	const Time end = now() + leave_time;

	if (const Use use = table.find(fd)) {
		const int error = errno;

		while (!with_lock(*use, [&] { return use->take_hello(fd); }) && now() < end)
			nap();
		errno = error;
	}
	leave_lane(fd, end);
}

void hand_over(int fd)
{
	stay_plain(fd);
	if (const Use use = table.remove(fd)) {
		const Locked locked(use->stream());

		if (--use->descriptors == 0)
			use->stream().holders--;
	}
}

void leave_all()
{
	table.for_each([](int fd, Socket &) {
		const int flags = real().fcntl(fd, F_GETFD);

		if (flags >= 0 && !(flags & FD_CLOEXEC))
			stay_plain(fd);
	});
}

void settle(int fd, Socket &socket)
{
	Use gone;

	if (rules().verbose)
		return;
	const Locked locked(socket.stream());
	// A set of epoll goes on by what it knows of the socket.
	if (!locked || !socket.is_plain() || socket.members)
		return;
	gone = table.remove(fd);
	if (gone && --socket.descriptors == 0)
		socket.stream().holders--;
}

} // namespace kiws
