// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The names that this library defines. Those at the end are in no header: libc has them for programs that were compiled
// for large files, or with checks of buffers.
#pragma once

#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

extern "C" {
int __poll_chk(pollfd *fds, nfds_t n, int milliseconds, size_t room);
int __ppoll_chk(pollfd *fds, nfds_t n, const timespec *time, const sigset_t *mask, size_t room);
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __recv_chk(int fd, void *buffer, size_t size, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buffer, size_t size, size_t room, int flags, sockaddr *address, socklen_t *length);
int __dprintf_chk(int fd, int flag, const char *format, ...);
int __vdprintf_chk(int fd, int flag, const char *format, va_list arguments);
}

#define KIWS_NAMES(X) \
	X(_exit) \
	X(accept) \
	X(accept4) \
	X(close) \
	X(close_range) \
	X(closefrom) \
	X(connect) \
	X(dup) \
	X(dup2) \
	X(dup3) \
	X(epoll_ctl) \
	X(epoll_pwait) \
	X(epoll_pwait2) \
	X(epoll_wait) \
	X(execv) \
	X(execve) \
	X(execvp) \
	X(execvpe) \
	X(fcntl) \
	X(fdopen) \
	X(fexecve) \
	X(ioctl) \
	X(poll) \
	X(posix_spawn) \
	X(posix_spawnp) \
	X(ppoll) \
	X(pselect) \
	X(read) \
	X(readv) \
	X(recv) \
	X(recvfrom) \
	X(recvmmsg) \
	X(recvmsg) \
	X(select) \
	X(send) \
	X(sendfile) \
	X(sendmmsg) \
	X(sendmsg) \
	X(sendto) \
	X(setsockopt) \
	X(shutdown) \
	X(splice) \
	X(vdprintf) \
	X(write) \
	X(writev) \
	X(fcntl64) \
	X(sendfile64) \
	X(__poll_chk) \
	X(__ppoll_chk) \
	X(__read_chk) \
	X(__recv_chk) \
	X(__recvfrom_chk) \
	X(__vdprintf_chk)
