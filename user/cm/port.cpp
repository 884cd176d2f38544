// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "port.hpp"

#include <array>
#include <cerrno>

#include "bind.hpp"
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

int open(Port &port, Listener::Serve serve)
{
	std::uint16_t number = 0;
	bool six = false;
	int fd = -1;

	int error = bind_any(SOCK_STREAM, number, fd, six);
	if (error)
		return error;
	if (number < of(first_telling)) {
		sys::close(fd);
		return EADDRNOTAVAIL;
	}
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
