// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The receive machine's source: what a stage holds.
#include <algorithm>
#include <cstring>

#include "proto/crc.h"
#include "session/port.h"

u32 kiw_source_copy(kiw_source *src, void *to, u32 n)
{
	kiw_cursor *c = to_kiw_cursor(src);
	const u32 part = std::min(n, c->n);

	if (part)
		std::memcpy(to, c->p, part);
	kiw_cursor_skip(c, part);
	return part;
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
