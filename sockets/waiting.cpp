// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The names of libc that wait for descriptors
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "descriptors.hpp"
#include "epoll.hpp"
#include "export.hpp"
#include "poller.hpp"
#include "real.hpp"

using namespace kiws;

namespace {

bool takes_part(const pollfd *fds, nfds_t n)
{
	return std::any_of(fds, fds + n, [](const pollfd &fd) { return bool(table.find(fd.fd)); });
}

Time end_of(const timespec *time)
{
	return time ? now() + static_cast<Time>(time->tv_sec) * second + static_cast<Time>(time->tv_nsec) : forever;
}

Time end_of(int milliseconds)
{
	return milliseconds < 0 ? forever : now() + static_cast<Time>(milliseconds) * millisecond;
}

/// select() by poll(). Returns what it does.
int select_until(int n, fd_set *reads, fd_set *writes, fd_set *others, Time end, const sigset_t *mask)
{
	auto *fds = static_cast<pollfd *>(std::calloc(static_cast<std::size_t>(n), sizeof(pollfd)));
	const auto wants = [](int fd, fd_set *set) {
		return set && FD_ISSET(fd, set);
	};
	nfds_t used = 0;
	int found = 0;

	if (!fds) {
		errno = ENOMEM;
		return -1;
	}
	for (int fd = 0; fd < n; fd++) {
		const int events = (wants(fd, reads) ? POLLIN | POLLRDHUP : 0) | (wants(fd, writes) ? POLLOUT : 0) |
				   (wants(fd, others) ? POLLPRI : 0);

		if (events)
			fds[used++] = {.fd = fd, .events = static_cast<short>(events), .revents = 0};
	}
	if (poll_until(fds, used, end, mask) < 0)
		found = -1;
	for (nfds_t i = 0; found >= 0 && i < used; i++)
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			found = -1;
		}
	if (found >= 0)
		for (fd_set *set : {reads, writes, others})
			for (nfds_t i = 0; set && i < used; i++) {
				const int events = set == reads	   ? POLLIN | POLLRDHUP | POLLHUP | POLLERR
						   : set == writes ? POLLOUT | POLLERR
								   : POLLPRI;

				if (FD_ISSET(fds[i].fd, set)) {
					if (fds[i].revents & events)
						found++;
					else
						FD_CLR(fds[i].fd, set);
				}
			}
	const int error = errno;
	std::free(fds);
	errno = error;
	return found;
}

bool takes_part(int n, const fd_set *reads, const fd_set *writes, const fd_set *others)
{
	for (const fd_set *set : {reads, writes, others})
		for (int fd = 0; set && fd < n; fd++)
			if (FD_ISSET(fd, set) && table.find(fd))
				return true;
	return false;
}

} // namespace

KIWS_EXPORT int poll(pollfd *fds, nfds_t n, int milliseconds)
{
	if (!takes_part(fds, n))
		return real().poll(fds, n, milliseconds);
	return poll_until(fds, n, end_of(milliseconds), nullptr);
}

KIWS_EXPORT int __poll_chk(pollfd *fds, nfds_t n, int milliseconds, size_t room)
{
	if (n > room / sizeof(pollfd))
		return real().__poll_chk(fds, n, milliseconds, room);
	return poll(fds, n, milliseconds);
}

KIWS_EXPORT int ppoll(pollfd *fds, nfds_t n, const timespec *time, const sigset_t *mask)
{
	if (!takes_part(fds, n))
		return real().ppoll(fds, n, time, mask);
	return poll_until(fds, n, end_of(time), mask);
}

KIWS_EXPORT int __ppoll_chk(pollfd *fds, nfds_t n, const timespec *time, const sigset_t *mask, size_t room)
{
	if (n > room / sizeof(pollfd))
		return real().__ppoll_chk(fds, n, time, mask, room);
	return ppoll(fds, n, time, mask);
}

KIWS_EXPORT int select(int n, fd_set *reads, fd_set *writes, fd_set *others, timeval *time)
{
	if (!takes_part(n, reads, writes, others))
		return real().select(n, reads, writes, others, time);
	const Time end =
		time ? now() + static_cast<Time>(time->tv_sec) * second + static_cast<Time>(time->tv_usec) * 1000
		     : forever;
	const int found = select_until(n, reads, writes, others, end, nullptr);
	if (time) {
		const timespec left = until(end);

		*time = {.tv_sec = left.tv_sec, .tv_usec = left.tv_nsec / 1000};
	}
	return found;
}

KIWS_EXPORT int pselect(
	int n, fd_set *reads, fd_set *writes, fd_set *others, const timespec *time, const sigset_t *mask)
{
	if (!takes_part(n, reads, writes, others))
		return real().pselect(n, reads, writes, others, time, mask);
	return select_until(n, reads, writes, others, end_of(time), mask);
}

KIWS_EXPORT int epoll_ctl(int set, int operation, int fd, epoll_event *event) noexcept
{
	const Use use = table.find(fd);

	return control_set(set, operation, fd, use ? &*use : nullptr, event);
}

KIWS_EXPORT int epoll_wait(int set, epoll_event *events, int most, int milliseconds)
{
	if (!takes_part_in_set(set))
		return real().epoll_wait(set, events, most, milliseconds);
	return wait_for_set(set, events, most, end_of(milliseconds), nullptr);
}

KIWS_EXPORT int epoll_pwait(int set, epoll_event *events, int most, int milliseconds, const sigset_t *mask)
{
	if (!takes_part_in_set(set))
		return real().epoll_pwait(set, events, most, milliseconds, mask);
	return wait_for_set(set, events, most, end_of(milliseconds), mask);
}

KIWS_EXPORT int epoll_pwait2(int set, epoll_event *events, int most, const timespec *time, const sigset_t *mask)
{
	if (!takes_part_in_set(set))
		return real().epoll_pwait2(set, events, most, time, mask);
	return wait_for_set(set, events, most, end_of(time), mask);
}
