// SPDX-License-Identifier: GPL-2.0
#include "crc.h"

#ifdef __KERNEL__

#include <linux/crc32c.h>

u32 kiw_crc_update(u32 crc, const void *p, size_t n)
{
	return crc32c(crc, p, n);
}

#else

/* The polynomial of CRC-32C with its bits reversed, as octets enter low bit first */
#define CRC32C_POLY 0x82f63b78

#define STEP(v) ((v) >> 1 ^ ((v) & 1 ? CRC32C_POLY : 0))
#define STEP2(v) STEP(STEP(v))
#define STEP4(v) STEP2(STEP2(v))

/* Four bits at a time: small enough to be spelled out by the compiler */
static const u32 crc_nibble[16] = {
	STEP4(0x0u), STEP4(0x1u), STEP4(0x2u), STEP4(0x3u),
	STEP4(0x4u), STEP4(0x5u), STEP4(0x6u), STEP4(0x7u),
	STEP4(0x8u), STEP4(0x9u), STEP4(0xau), STEP4(0xbu),
	STEP4(0xcu), STEP4(0xdu), STEP4(0xeu), STEP4(0xfu),
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

/* Large enough to amortise the calls, small enough to still be cached when read back */
#define COPY_CHUNK 1024

u32 kiw_crc_copy(u32 crc, void *dst, const void *src, size_t n)
{
	const u8 *from = src;
	u8 *to = dst;

	while (n) {
		size_t run = min(n, (size_t)COPY_CHUNK);

		memcpy(to, from, run);
		crc = kiw_crc_update(crc, to, run);
		to += run;
		from += run;
		n -= run;
	}
	return crc;
}
