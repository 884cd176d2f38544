// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "crc.h"

#ifdef __KERNEL__

#include <linux/crc32c.h>

u32 kiw_crc_update(u32 crc, const void *p, size_t n)
{
	return crc32c(crc, p, n);
}

#else

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

/* Remainders of four bits, polynomial 0x82f63b78, low bit of a byte first */
static const u32 crc_nibble[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
	0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
	0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static u32 crc_portable(u32 crc, const void *p, size_t n)
{
	const u8 *byte = p;

	while (n--) {
		crc ^= *byte++;
		crc = crc >> 4 ^ crc_nibble[crc & 0xf];
		crc = crc >> 4 ^ crc_nibble[crc & 0xf];
	}
	return crc;
}

/* Implementations of this processor, the fastest last */
static struct kiw_crc_way crc_ways[3] = { { "portable", crc_portable } };
static size_t crc_count = 1;
static u32 (*crc_fastest)(u32 crc, const void *p, size_t n) = crc_portable;

#if defined(__x86_64__)

#define CRC_WAY "SSE4.2"

static bool crc_has_instruction(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("sse4.2");
}

__attribute__((__target__("sse4.2")))
static u32 crc_instruction(u32 crc, const void *p, size_t n)
{
	const u8 *byte = p;
	u64 word;

	for (; n >= sizeof(word); n -= sizeof(word), byte += sizeof(word)) {
		memcpy(&word, byte, sizeof(word));
		crc = (u32)__builtin_ia32_crc32di(crc, word);
	}
	while (n--)
		crc = __builtin_ia32_crc32qi(crc, *byte++);
	return crc;
}

#elif defined(__aarch64__)

#define CRC_WAY "arm64"

static bool crc_has_instruction(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}

static u32 crc_instruction(u32 crc, const void *p, size_t n)
{
	const u8 *byte = p;
	u64 word;

	for (; n >= sizeof(word); n -= sizeof(word), byte += sizeof(word)) {
		memcpy(&word, byte, sizeof(word));
		word = le64_to_cpu(word);
		asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
	}
	while (n--)
		asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(*byte++));
	return crc;
}

#endif

void kiw_crc_prefer(const char *name, u32 (*update)(u32 crc, const void *p, size_t n))
{
	crc_ways[crc_count].name = name;
	crc_ways[crc_count++].update = update;
	__atomic_store_n(&crc_fastest, update, __ATOMIC_RELEASE);
}

#ifdef CRC_WAY
__attribute__((__constructor__))
static void crc_choose(void)
{
	if (!crc_has_instruction())
		return;
	kiw_crc_prefer(CRC_WAY, crc_instruction);
}
#endif

const struct kiw_crc_way *kiw_crc_way_get(size_t i)
{
	return i < crc_count ? &crc_ways[i] : NULL;
}

u32 kiw_crc_update(u32 crc, const void *p, size_t n)
{
	return __atomic_load_n(&crc_fastest, __ATOMIC_ACQUIRE)(crc, p, n);
}

#endif

/*
 * A CRC call has a fixed cost, so a call covers as many bytes as surely stay cached. Longer copies
 * bypass the caches on some processors: tests/bench/crc.cpp.
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
			 * A buffer that is written repeatedly is in the cache of the CPU that read
			 * it last, and a copy waits for a few lines at a time: fetch them for
			 * writing first.
			 */
			kiw_fetch_to_write(dst + done + at + part,
					   min_t(size_t, n - done - at - part, COPY_CHUNK));
			memcpy(dst + done + at, src + done + at, part);
		}
		crc = kiw_crc_update(crc, dst + done, run);
	}
	return crc;
}
