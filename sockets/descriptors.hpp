// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Descriptors come and go: with them sockets begin and end.
#pragma once

#include <sys/socket.h>

#include "table.hpp"

namespace kiws {

/// A descriptor was accepted: by rule, it may get a lane.
void begin_accepted(int fd);
/// connect() of a descriptor has returned a result: by rule, it may get a lane. Returns what the program is told.
int begin_connected(int fd, const sockaddr *address, socklen_t length, int result);
/// Another descriptor of the same connection. Returns it.
int add_duplicate(int fd, int duplicate);
/// The program closes a descriptor, or puts something else in its place. The descriptor itself stays open.
void let_go(int fd);
/// All from one to another
void let_go_of(unsigned first, unsigned last);
/// How long a lane is waited for that is to be left
inline constexpr Time leave_time = 200 * millisecond;
/// The socket of a descriptor is left to TCP, as far as the peer permits it until then.
void leave_lane(int fd, Time end);
/// The same within leave_time, and no lane comes any more: a hello that is under way is taken off.
void stay_plain(int fd);
/// The same, and the descriptor is none of this library's any more: others read, write and close it.
void hand_over(int fd);
/// Those that the next program of this process inherits
void leave_all();
/// Whether this is a child of vfork(): the memory is its parent's, the descriptors are not.
bool is_borrowed();
/// This process is none.
void own();
/// Forgets a socket that is plain TCP for ever.
void settle(int fd, Socket &socket);

} // namespace kiws
