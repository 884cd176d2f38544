// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The names of libc that move octets
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "descriptors.hpp"
#include "export.hpp"
#include "real.hpp"

using namespace kiws;

namespace {

/// What a call of the program returns
ssize_t result(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = static_cast<int>(-n);
	return -1;
}

ssize_t receive(int fd, Socket &socket, msghdr &message, int flags)
{
	const ssize_t n = socket.receive(fd, message, flags);

	settle(fd, socket);
	return result(n);
}

ssize_t receive(int fd, Socket &socket, void *buffer, std::size_t size, int flags)
{
	iovec piece = {.iov_base = buffer, .iov_len = size};
	msghdr message{};

	message.msg_iov = &piece;
	message.msg_iovlen = 1;
	return receive(fd, socket, message, flags);
}

ssize_t transmit(int fd, Socket &socket, const msghdr &message, int flags)
{
	const ssize_t n = socket.send(fd, message, flags);

	settle(fd, socket);
	return result(n);
}

ssize_t transmit(int fd, Socket &socket, const void *octets, std::size_t size, int flags)
{
	iovec piece = {.iov_base = const_cast<void *>(octets), .iov_len = size};
	msghdr message{};

	message.msg_iov = &piece;
	message.msg_iovlen = 1;
	return transmit(fd, socket, message, flags);
}

/// sendfile() to a socket that may have a lane
ssize_t send_file(int fd, Socket &socket, int file, off64_t *offset, std::size_t count)
{
	constexpr std::size_t size = std::size_t(64) << 10;
	const off64_t begin = offset ? *offset : ::lseek64(file, 0, SEEK_CUR);
	ssize_t done = 0;

	if (begin < 0)
		return offset ? result(-EINVAL) : -1;
	void *octets = std::malloc(size);
	if (!octets)
		return result(-ENOMEM);
	while (static_cast<std::size_t>(done) < count) {
		const ssize_t read =
			::pread64(file, octets, std::min(size, count - static_cast<std::size_t>(done)), begin + done);
		const ssize_t sent = read > 0 ? transmit(fd, socket, octets, static_cast<std::size_t>(read), 0) : read;

		if (sent < 0 && !done)
			done = -1;
		if (sent <= 0)
			break;
		done += sent;
		if (sent < read)
			break;
	}
	const int error = errno;
	std::free(octets);
	if (done > 0 && offset)
		*offset = begin + done;
	else if (done > 0)
		(void)::lseek64(file, begin + done, SEEK_SET);
	errno = error;
	return done;
}

} // namespace

KIWS_EXPORT ssize_t read(int fd, void *buffer, size_t size)
{
	if (const Use use = table.find(fd))
		return receive(fd, *use, buffer, size, 0);
	return real().read(fd, buffer, size);
}

KIWS_EXPORT ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	if (const Use use = table.find(fd); use && size <= room)
		return receive(fd, *use, buffer, size, 0);
	return real().__read_chk(fd, buffer, size, room);
}

KIWS_EXPORT ssize_t readv(int fd, const iovec *pieces, int count)
{
	const Use use = table.find(fd);
	msghdr message{};

	if (!use || count < 0)
		return real().readv(fd, pieces, count);
	message.msg_iov = const_cast<iovec *>(pieces);
	message.msg_iovlen = static_cast<std::size_t>(count);
	return receive(fd, *use, message, 0);
}

KIWS_EXPORT ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	if (const Use use = table.find(fd))
		return receive(fd, *use, buffer, size, flags);
	return real().recv(fd, buffer, size, flags);
}

KIWS_EXPORT ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t room, int flags)
{
	if (const Use use = table.find(fd); use && size <= room)
		return receive(fd, *use, buffer, size, flags);
	return real().__recv_chk(fd, buffer, size, room, flags);
}

KIWS_EXPORT ssize_t recvfrom(int fd, void *buffer, size_t size, int flags, sockaddr *address, socklen_t *length)
{
	if (const Use use = table.find(fd)) {
		if (address && length)
			*length = 0;
		return receive(fd, *use, buffer, size, flags);
	}
	return real().recvfrom(fd, buffer, size, flags, address, length);
}

KIWS_EXPORT ssize_t __recvfrom_chk(
	int fd, void *buffer, size_t size, size_t room, int flags, sockaddr *address, socklen_t *length)
{
	if (const Use use = table.find(fd); use && size <= room) {
		if (address && length)
			*length = 0;
		return receive(fd, *use, buffer, size, flags);
	}
	return real().__recvfrom_chk(fd, buffer, size, room, flags, address, length);
}

KIWS_EXPORT ssize_t recvmsg(int fd, msghdr *message, int flags)
{
	if (const Use use = table.find(fd))
		return receive(fd, *use, *message, flags);
	return real().recvmsg(fd, message, flags);
}

KIWS_EXPORT int recvmmsg(int fd, mmsghdr *messages, unsigned count, int flags, timespec *time)
{
	const Use use = table.find(fd);

	if (!use || !count)
		return real().recvmmsg(fd, messages, count, flags, time);
	// Of a stream the first message takes all that there is.
	const ssize_t n = receive(fd, *use, messages[0].msg_hdr, flags & ~MSG_WAITFORONE);
	if (n < 0)
		return -1;
	messages[0].msg_len = static_cast<unsigned>(n);
	return 1;
}

KIWS_EXPORT ssize_t write(int fd, const void *octets, size_t size)
{
	if (const Use use = table.find(fd))
		return transmit(fd, *use, octets, size, 0);
	return real().write(fd, octets, size);
}

KIWS_EXPORT ssize_t writev(int fd, const iovec *pieces, int count)
{
	const Use use = table.find(fd);
	msghdr message{};

	if (!use || count < 0)
		return real().writev(fd, pieces, count);
	message.msg_iov = const_cast<iovec *>(pieces);
	message.msg_iovlen = static_cast<std::size_t>(count);
	return transmit(fd, *use, message, 0);
}

KIWS_EXPORT ssize_t send(int fd, const void *octets, size_t size, int flags)
{
	if (const Use use = table.find(fd))
		return transmit(fd, *use, octets, size, flags);
	return real().send(fd, octets, size, flags);
}

KIWS_EXPORT ssize_t sendto(
	int fd, const void *octets, size_t size, int flags, const sockaddr *address, socklen_t length)
{
	if (const Use use = table.find(fd))
		return transmit(fd, *use, octets, size, flags);
	return real().sendto(fd, octets, size, flags, address, length);
}

KIWS_EXPORT ssize_t sendmsg(int fd, const msghdr *message, int flags)
{
	if (const Use use = table.find(fd))
		return transmit(fd, *use, *message, flags);
	return real().sendmsg(fd, message, flags);
}

KIWS_EXPORT int sendmmsg(int fd, mmsghdr *messages, unsigned count, int flags)
{
	const Use use = table.find(fd);
	unsigned done = 0;

	if (!use)
		return real().sendmmsg(fd, messages, count, flags);
	for (; done < count; done++) {
		const ssize_t n = transmit(fd, *use, messages[done].msg_hdr, flags);

		if (n < 0)
			break;
		messages[done].msg_len = static_cast<unsigned>(n);
	}
	return done || !count ? static_cast<int>(done) : -1;
}

KIWS_EXPORT ssize_t sendfile(int fd, int file, off_t *offset, size_t count) noexcept
{
	const Use use = table.find(fd);

	if (!use)
		return real().sendfile(fd, file, offset, count);
	off64_t at = offset ? *offset : 0;
	const ssize_t n = send_file(fd, *use, file, offset ? &at : nullptr, count);
	if (offset)
		*offset = static_cast<off_t>(at);
	return n;
}

KIWS_EXPORT ssize_t sendfile64(int fd, int file, off64_t *offset, size_t count) noexcept
{
	if (const Use use = table.find(fd))
		return send_file(fd, *use, file, offset, count);
	return real().sendfile64(fd, file, offset, count);
}

// What takes pages is told that it can't: programs then copy.
KIWS_EXPORT ssize_t splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size, unsigned flags)
{
	if (table.find(from) || table.find(to))
		return result(-EINVAL);
	return real().splice(from, from_offset, to, to_offset, size, flags);
}

KIWS_EXPORT int vdprintf(int fd, const char *format, va_list arguments)
{
	const Use use = table.find(fd);
	char *text = nullptr;

	if (!use)
		return real().vdprintf(fd, format, arguments);
	const int length = ::vasprintf(&text, format, arguments);
	if (length < 0)
		return -1;
	const ssize_t n = transmit(fd, *use, text, static_cast<std::size_t>(length), 0);
	std::free(text);
	return static_cast<int>(n);
}

KIWS_EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	const int n = vdprintf(fd, format, arguments);
	va_end(arguments);
	return n;
}

KIWS_EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments)
{
	if (table.find(fd))
		return vdprintf(fd, format, arguments);
	return real().__vdprintf_chk(fd, flag, format, arguments);
}

KIWS_EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	const int n = __vdprintf_chk(fd, flag, format, arguments);
	va_end(arguments);
	return n;
}

KIWS_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept
{
	va_list arguments;

	va_start(arguments, request);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	const int n = real().ioctl(fd, request, argument);
	if (n || (request != FIONREAD && request != SIOCOUTQ))
		return n;
	if (const Use use = table.find(fd)) {
		const Locked locked(use->stream());
		const Outgoing &out = use->stream().out;

		if (locked) {
			(void)use->greet(fd);
			use->progress();
			if (real().ioctl(fd, request, argument))
				return -1;
			*static_cast<int *>(argument) +=
				static_cast<int>(request == FIONREAD ? use->waiting()
						 : out.on_lane()     ? out.offset() - out.consumed()
								     : 0);
		}
	}
	return 0;
}
