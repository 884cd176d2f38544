// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// epoll sets with sockets that may have a lane. Such a socket isn't in the program's set itself, but in an inner one,
// which is one entry of the program's: with it are the completion channels of lanes, and a bell for what other threads
// find.
#pragma once

#include <csignal>
#include <sys/epoll.h>

#include "clock.hpp"
#include "socket.hpp"

namespace kiws {

class Set;

/// epoll_ctl() of a socket that takes part, or took part
int control_set(int set, int operation, int fd, Socket *socket, epoll_event *event);

/// Whether a set has sockets that take part
bool takes_part_in_set(int set);

/// epoll_pwait() until a time, of a set that has such sockets
int wait_for_set(int set, epoll_event *events, int most, Time end, const sigset_t *mask);

/// Descriptors are closed: there may be sets among them.
void close_sets(unsigned first, unsigned last);
/// The program has closed all descriptors of a socket. fd is the last one.
void leave_sets(Socket &socket);

/// fork() is called: no set changes between these two. In the child there is none any more, since the kernel's are its
/// parent's.
void hold_sets();
void release_sets();
void forget_sets();

/// Something of a socket has changed, with its lock: its sets look at it, but for one.
void ring_sets(Socket &socket, const Set *but);

} // namespace kiws
