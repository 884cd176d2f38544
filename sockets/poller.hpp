// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Waiting for sockets with a lane, and others beside them
#pragma once

#include <csignal>
#include <poll.h>

#include "clock.hpp"

namespace kiws {

/// ppoll() until a time.
int poll_until(pollfd *fds, nfds_t n, Time end, const sigset_t *mask);

/// Waits for events of one descriptor. Returns 0, EAGAIN when the time is over, or EINTR.
int wait_for(int fd, short events, Time end);

} // namespace kiws
