// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "bind.hpp"

#include <cerrno>

#include "address.hpp"
#include "sys.hpp"

namespace kiwu {

static int bind_family(int family, int type, std::uint16_t &port, int &fd)
{
	constexpr int off = 0;
	Address any;
	socklen_t length = sizeof(any.storage);

	any.any.sa_family = static_cast<sa_family_t>(family);
	any.set_port(htons(port));
	fd = sys::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -fd;
	if (family == AF_INET6)
		sys::set(fd, IPPROTO_IPV6, IPV6_V6ONLY, off);
	int error = -sys::bind(fd, &any.any, any.length());
	if (!error)
		error = -sys::getsockname(fd, &any.any, &length);
	if (error)
		sys::close(fd);
	else
		port = ntohs(any.port());
	return error;
}

int bind_any(int type, std::uint16_t &port, int &fd, bool &six)
{
	const int error = bind_family(AF_INET6, type, port, fd);

	six = !error;
	return error == EAFNOSUPPORT || error == EADDRNOTAVAIL ? bind_family(AF_INET, type, port, fd) : error;
}

} // namespace kiwu
