// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The names of libc that open, copy and close descriptors
#include <cerrno>
#include <climits>
#include <linux/close_range.h>
#include <netinet/tcp.h>

#include "descriptors.hpp"
#include "export.hpp"
#include "real.hpp"

using namespace kiws;

namespace {

/// fcntl() and fcntl64() with a number or a pointer as their argument
template <typename Function>
int control(const Function &function, int fd, int command, void *argument)
{
	const int n = function(fd, command, argument);

	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? add_duplicate(fd, n) : n;
}

} // namespace

KIWS_EXPORT int connect(int fd, const sockaddr *address, socklen_t length)
{
	const int n = real().connect(fd, address, length);

	// It may be another destination than before, which the rules don't name.
	if (n == 0 || errno == EINPROGRESS)
		let_go(fd);
	return table.find(fd) ? n : begin_connected(fd, address, length, n);
}

KIWS_EXPORT int accept(int fd, sockaddr *address, socklen_t *length)
{
	const int n = real().accept(fd, address, length);

	begin_accepted(n);
	return n;
}

KIWS_EXPORT int accept4(int fd, sockaddr *address, socklen_t *length, int flags)
{
	const int n = real().accept4(fd, address, length, flags);

	begin_accepted(n);
	return n;
}

KIWS_EXPORT int close(int fd)
{
	let_go(fd);
	return real().close(fd);
}

KIWS_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept
{
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		let_go_of(first, last);
	return real().close_range(first, last, flags);
}

KIWS_EXPORT void closefrom(int first) noexcept
{
	let_go_of(first < 0 ? 0 : static_cast<unsigned>(first), UINT_MAX);
	real().closefrom(first);
}

KIWS_EXPORT int shutdown(int fd, int how) noexcept
{
	if (const Use use = table.find(fd)) {
		const Locked locked(use->stream());

		if (how == SHUT_WR || how == SHUT_RDWR)
			use->finish();
		if (how == SHUT_RD || how == SHUT_RDWR)
			use->stop_receiving();
	}
	return real().shutdown(fd, how);
}

KIWS_EXPORT int dup(int fd) noexcept
{
	return add_duplicate(fd, real().dup(fd));
}

KIWS_EXPORT int dup2(int fd, int to) noexcept
{
	// Where fd is none, to stays as it is.
	if (fd != to && real().fcntl(fd, F_GETFD) >= 0)
		let_go(to);
	return add_duplicate(fd, real().dup2(fd, to));
}

KIWS_EXPORT int dup3(int fd, int to, int flags) noexcept
{
	if (fd != to && real().fcntl(fd, F_GETFD) >= 0)
		let_go(to);
	return add_duplicate(fd, real().dup3(fd, to, flags));
}

KIWS_EXPORT int fcntl(int fd, int command, ...)
{
	va_list arguments;

	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(real().fcntl, fd, command, argument);
}

KIWS_EXPORT int fcntl64(int fd, int command, ...)
{
	va_list arguments;

	va_start(arguments, command);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(real().fcntl64, fd, command, argument);
}

// What takes the socket as the kernel has it

KIWS_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t length) noexcept
{
	if ((level == SOL_SOCKET && option == SO_ZEROCOPY) ||
		(level == IPPROTO_TCP && (option == TCP_ULP || option == TCP_REPAIR)))
		stay_plain(fd);
	return real().setsockopt(fd, level, option, value, length);
}

KIWS_EXPORT FILE *fdopen(int fd, const char *mode) noexcept
{
	hand_over(fd);
	return real().fdopen(fd, mode);
}
