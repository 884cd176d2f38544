// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "port.hpp"

#include <array>
#include <cerrno>

#include "lock.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "sys.hpp"

namespace kiwu::port {

namespace {

// Connections that TCP keeps for us; further peers wait.
constexpr int backlog = 1024;
// Numbers of a port
constexpr unsigned indexes = 256;
// The first number without a port: those below are UDP ports, the numbers of datagram queue pairs.
constexpr std::uint32_t first_silent = 0x10000;

struct Port {
	Port *next = nullptr;
	Listener *listener = nullptr; // reference held; nullptr: numbers that peers can't dial
	std::uint32_t base = 0;	      // number of index 0
	unsigned used = 0;
	std::uint8_t turn = 0; // index that is tried first: a number isn't used again at once
	std::array<bool, indexes> taken{};
};

// Protects all of it. Outside of a listener's.
constinit kiw::Lock lock;
constinit Port *ports = nullptr;
constinit std::uint32_t next_silent = first_silent;

/// A socket on all addresses and a port that TCP chooses. Returns 0 or an errno value.
int bind_any(int family, int &fd, std::uint16_t &number)
{
	constexpr int off = 0;
	Address any;

	any.any.sa_family = static_cast<sa_family_t>(family);
	fd = sys::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -fd;
	if (family == AF_INET6)
		sys::set(fd, IPPROTO_IPV6, IPV6_V6ONLY, off);
	int error = -sys::bind(fd, &any.any, any.length());
	socklen_t length = sizeof(any.storage);
	if (!error)
		error = -sys::getsockname(fd, &any.any, &length);
	number = ntohs(any.port());
	if (!error && number < of(first_telling))
		error = EADDRNOTAVAIL;
	if (error)
		sys::close(fd);
	return error;
}

int open(Port &port, Listener::Serve serve)
{
	std::uint16_t number = 0;
	int fd = -1;

	int error = bind_any(AF_INET6, fd, number);
	if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL)
		error = bind_any(AF_INET, fd, number);
	if (error)
		return error;
	error = Listener::open(&port, fd, backlog, serve, port.listener);
	if (error)
		sys::close(fd);
	port.base = std::uint32_t{number} << 8;
	return error;
}

/// Numbers of peers that nobody can dial
int open_silent(Port &port)
{
	if (next_silent >= first_telling)
		return ENOSPC;
	port.base = next_silent;
	next_silent += indexes;
	return 0;
}

int add(Listener::Serve serve)
{
	auto port = kiw::make<Port>();

	if (!port)
		return ENOMEM;
	if (const int error = options.number == Options::number_off ? open_silent(*port) : open(*port, serve))
		return error;
	port->next = ports;
	ports = port.release();
	return 0;
}

std::uint32_t take_index(Port &port)
{
	while (port.taken[port.turn])
		port.turn++;
	port.taken[port.turn] = true;
	port.used++;
	return port.base | port.turn++;
}

} // namespace

int take_number(std::uint32_t &number, Listener::Serve serve)
{
	kiw::Guard guard(lock);
	Port *port = ports;

	while (port && port->used == indexes)
		port = port->next;
	if (!port) {
		if (const int error = add(serve))
			return error;
		port = ports;
	}
	number = take_index(*port);
	return 0;
}

void give_back(std::uint32_t number)
{
	kiw::Guard guard(lock);

	for (Port **link = &ports; *link; link = &(*link)->next) {
		Port *port = *link;

		if (port->base != (number & ~std::uint32_t{indexes - 1}))
			continue;
		port->taken[number & (indexes - 1)] = false;
		if (--port->used || !port->listener)
			return;
		*link = port->next;
		port->listener->leave();
		kiw::destroy(port);
		return;
	}
}

void forget()
{
	lock.~Lock();
	::new (&lock) kiw::Lock;
	ports = nullptr;
}

} // namespace kiwu::port
