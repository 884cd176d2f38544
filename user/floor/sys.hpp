// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// System calls for what is the library's own: never by the names of libc, which libraries that catch sockets (libvma,
// proxychains, extended sockets) define for the program. Each returns what the kernel does: a negative errno value for
// an error. None is a cancellation point.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sockets.hpp"

namespace kiwu::sys {

template <typename... Arguments>
long call(long number, Arguments... arguments)
{
	const int before = errno;
	const long result = ::syscall(number, arguments...);

	if (result >= 0)
		return result;
	const int error = errno;
	errno = before;
	return -error;
}

inline int close(int fd)
{
	sockets.remove(fd);
	return static_cast<int>(call(SYS_close, fd));
}

/// One that a child of fork() won't have
inline int keep(long fd)
{
	if (fd < 0 || sockets.add(static_cast<int>(fd)))
		return static_cast<int>(fd);
	close(static_cast<int>(fd));
	return -ENOMEM;
}

inline int socket(int family, int type, int protocol)
{
	return keep(call(SYS_socket, family, type, protocol));
}

inline int bind(int fd, const sockaddr *address, socklen_t length)
{
	return static_cast<int>(call(SYS_bind, fd, address, length));
}

inline int listen(int fd, int backlog)
{
	return static_cast<int>(call(SYS_listen, fd, backlog));
}

inline int connect(int fd, const sockaddr *address, socklen_t length)
{
	return static_cast<int>(call(SYS_connect, fd, address, length));
}

inline int accept(int fd, int flags)
{
	return keep(call(SYS_accept4, fd, nullptr, nullptr, flags));
}

inline int getsockname(int fd, sockaddr *address, socklen_t *length)
{
	return static_cast<int>(call(SYS_getsockname, fd, address, length));
}

inline int getpeername(int fd, sockaddr *address, socklen_t *length)
{
	return static_cast<int>(call(SYS_getpeername, fd, address, length));
}

template <typename T>
int set(int fd, int level, int option, const T &value)
{
	return static_cast<int>(call(SYS_setsockopt, fd, level, option, &value, sizeof(value)));
}

template <typename T>
int get(int fd, int level, int option, T &value)
{
	socklen_t length = sizeof(value);

	return static_cast<int>(call(SYS_getsockopt, fd, level, option, &value, &length));
}

inline pid_t gettid()
{
	return static_cast<pid_t>(call(SYS_gettid));
}

/// Whether this process has a thread of that number
inline bool has_thread(pid_t thread)
{
	return call(SYS_tgkill, ::getpid(), thread, 0) == 0;
}

inline bool is_nonblocking(int fd)
{
	return call(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK;
}

/// Sleeps for less than a second.
inline void nap(long nanoseconds)
{
	const timespec time = {.tv_sec = 0, .tv_nsec = nanoseconds};

	call(SYS_nanosleep, &time, nullptr);
}

/// Closes a TCP connection by a reset.
inline void reset(int fd)
{
	constexpr struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	set(fd, SOL_SOCKET, SO_LINGER, at_once);
	close(fd);
}

inline int shutdown(int fd, int how)
{
	return static_cast<int>(call(SYS_shutdown, fd, how));
}

inline ssize_t recv(int fd, void *to, std::size_t n)
{
	return call(SYS_recvfrom, fd, to, n, MSG_DONTWAIT, nullptr, nullptr);
}

inline ssize_t recvmsg(int fd, msghdr *message)
{
	return call(SYS_recvmsg, fd, message, MSG_DONTWAIT);
}

/// Receives from a socket with the option TCP_INQ. left: how much TCP has beyond, and 1 if only its end; not set by an
/// error.
inline ssize_t recvmsg(int fd, iovec *parts, std::size_t count, int &left)
{
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(left))];
	msghdr message{};

	message.msg_iov = parts;
	message.msg_iovlen = count;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	const ssize_t got = recvmsg(fd, &message);
	if (const cmsghdr *first = got >= 0 ? CMSG_FIRSTHDR(&message) : nullptr)
		std::memcpy(&left, CMSG_DATA(first), sizeof(left));
	return got;
}

inline ssize_t send(int fd, const void *from, std::size_t n)
{
	return call(SYS_sendto, fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}

inline ssize_t sendmsg(int fd, const msghdr *message, int flags)
{
	return call(SYS_sendmsg, fd, message, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
}

inline int ioctl(int fd, unsigned long request, void *argument)
{
	return static_cast<int>(call(SYS_ioctl, fd, request, argument));
}

inline ssize_t read(int fd, void *to, std::size_t n)
{
	return call(SYS_read, fd, to, n);
}

inline ssize_t write(int fd, const void *from, std::size_t n)
{
	return call(SYS_write, fd, from, n);
}

inline int eventfd(unsigned int count, int flags)
{
	return static_cast<int>(call(SYS_eventfd2, count, flags));
}

inline int epoll_create(int flags)
{
	return static_cast<int>(call(SYS_epoll_create1, flags));
}

inline int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)
{
	return static_cast<int>(call(SYS_epoll_ctl, epoll, operation, fd, event));
}

inline int epoll_wait(int epoll, epoll_event *events, int most, int milliseconds)
{
	return static_cast<int>(call(SYS_epoll_pwait, epoll, events, most, milliseconds, nullptr, 8));
}

/// The same to the nanosecond. -ENOSYS before Linux 5.11.
inline int epoll_wait(int epoll, epoll_event *events, int most, const timespec &timeout)
{
#ifdef SYS_epoll_pwait2
	return static_cast<int>(call(SYS_epoll_pwait2, epoll, events, most, &timeout, nullptr, 8));
#else
	(void)epoll, (void)events, (void)most, (void)timeout;
	return -ENOSYS;
#endif
}

inline void yield()
{
	call(SYS_sched_yield);
}

} // namespace kiwu::sys
