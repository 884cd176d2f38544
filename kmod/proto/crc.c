// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "crc.h"

#ifdef __KERNEL__

#include <linux/crc32c.h>

u32 kiw_crc_update(u32 crc, const void *p, size_t n)
{
	return crc32c(crc, p, n);
}

#else

/* Remainders of four bits, polynomial 0x82f63b78 as octets enter low bit first */
static const u32 crc_nibble[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
	0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
	0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

u32 kiw_crc_update(u32 crc, const void *p, size_t n)
{
	const u8 *octet = p;

	while (n--) {
		crc ^= *octet++;
		crc = crc >> 4 ^ crc_nibble[crc & 0xf];
		crc = crc >> 4 ^ crc_nibble[crc & 0xf];
	}
	return crc;
}

#endif

/*
 * Each call for a CRC costs something by itself: it is taken of as many octets as are surely still
 * cached. Longer copies write past the caches on some processors: tests/bench/crc.cpp.
 */
#define CRC_CHUNK 4096
#define COPY_CHUNK 1024

u32 kiw_crc_copy(u32 crc, void *dst, const void *src, size_t n)
{
	size_t done, run, part;

	for (done = 0; done < n; done += run) {
		run = min_t(size_t, n - done, CRC_CHUNK);
		for (size_t at = 0; at < run; at += part) {
			part = min_t(size_t, run - at, COPY_CHUNK);
			/*
			 * What is written over and over is the processor's that read it last, and a
			 * copy by itself waits for a few lines at a time.
			 */
			kiw_fetch_to_write(dst + done + at + part,
					   min_t(size_t, n - done - at - part, COPY_CHUNK));
			memcpy(dst + done + at, src + done + at, part);
		}
		crc = kiw_crc_update(crc, dst + done, run);
	}
	return crc;
}
