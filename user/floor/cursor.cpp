// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The receive machine's source: what a stage holds, and behind it a payload in the socket.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>

#include "proto/crc.h"
#include "session/port.h"
#include "sys.hpp"

namespace {

// Calls for one payload that may bring only a part of it: TCP stops at urgent data, and a signal may interrupt it.
constexpr int tries = 8;

/// Receives bytes that the socket has. Returns how many; fewer than n if the memory is not there.
u32 receive(kiw_cursor &c, u8 *to, u32 n)
{
	u32 done = 0;

	for (int i = 0; done < n && i < tries; i++) {
		std::array<iovec, 2> parts = {{
			{.iov_base = to + done, .iov_len = n - done},
			{.iov_base = c.stage, .iov_len = c.room},
		}};
		const ssize_t got = kiwu::sys::recvmsg(c.fd, parts.data(), parts.size(), c.left);

		if (got > 0)
			done += static_cast<u32>(got);
		else if (got != -EAGAIN && got != -EINTR)
			break;
	}
	const u32 received = std::min(done, n);
	c.p = c.stage;
	c.staged = done - received;
	c.source.seq += received;
	// The end moves if more has come than the socket had.
	c.n = std::max(c.n - received, c.staged);
	c.source.end = c.source.seq + c.n;
	return received;
}

} // namespace

u32 kiw_source_copy(kiw_source *src, void *to, u32 n)
{
	kiw_cursor *c = to_kiw_cursor(src);

	n = std::min(n, c->n);
	const u32 part = std::min(n, c->staged);
	if (part)
		std::memcpy(to, c->p, part);
	kiw_cursor_skip(c, part);
	return part < n ? part + receive(*c, static_cast<u8 *>(to) + part, n - part) : n;
}

void kiw_source_drop(kiw_source *src, u32 n)
{
	kiw_cursor_skip(to_kiw_cursor(src), n);
}

u32 kiw_source_crc(kiw_source *src, u32 crc, u32 n)
{
	kiw_cursor *c = to_kiw_cursor(src);

	crc = kiw_crc_update(crc, c->p, n);
	kiw_cursor_skip(c, n);
	return crc;
}

kiw_source *kiw_source_fork(kiw_source *src)
{
	kiw_cursor *c = to_kiw_cursor(src);

	*c->ahead = *c;
	return &c->ahead->source;
}

void kiw_source_close(kiw_source *) {}
