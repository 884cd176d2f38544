/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Kernel facilities of the protocol library, which also builds into tests and fuzzers. */
#ifndef KIW_PROTO_OS_H
#define KIW_PROTO_OS_H

#ifdef __KERNEL__

#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/etherdevice.h> /* unaligned access: its own header moved in 6.12 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/prefetch.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/barrier.h>

#else

#include <assert.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#ifndef __packed
#define __packed __attribute((__packed__))
#endif

#ifndef __cplusplus /* C++ has attributes of these names */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define fallthrough __attribute__((__fallthrough__))
#endif

#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE) /* as in the kernel */
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define SMP_CACHE_BYTES 64
#define prefetchw(p) __builtin_prefetch(p, 1)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define U32_MAX UINT32_MAX

#define cpu_to_be16(v) ((__be16)htobe16(v))
#define cpu_to_be32(v) ((__be32)htobe32(v))
#define cpu_to_be64(v) ((__be64)htobe64(v))
#define cpu_to_le32(v) ((__le32)htole32(v))
#define be16_to_cpu(v) be16toh(v)
#define be32_to_cpu(v) be32toh(v)
#define be64_to_cpu(v) be64toh(v)
#define le32_to_cpu(v) le32toh(v)
#define le64_to_cpu(v) le64toh(v)

static inline u16 get_unaligned_be16(const void *p)
{
	__be16 v;

	memcpy(&v, p, sizeof(v));
	return be16_to_cpu(v);
}

static inline void put_unaligned_be16(u16 v, void *p)
{
	__be16 w = cpu_to_be16(v);

	memcpy(p, &w, sizeof(w));
}

#define min_t(type, a, b) ({ type _a = (a), _b = (b); _a < _b ? _a : _b; })
#define max_t(type, a, b) ({ type _a = (a), _b = (b); _a > _b ? _a : _b; })

#endif /* __KERNEL__ */

/**
 * kiw_fetch_to_write() - prefetch memory for writing that another CPU may own
 * @p: start; need not be valid
 * @n: bytes, 0 allowed; omits the last line if @p is inside a line
 */
static inline void kiw_fetch_to_write(const void *p, size_t n)
{
	for (size_t at = 0; at < n; at += SMP_CACHE_BYTES)
		prefetchw((const char *)p + at);
}

/**
 * enum kiw_step - result of parsing a partial input
 * @KIW_DONE: complete and good
 * @KIW_MORE: call again with @need bytes
 * @KIW_BAD: wrong; more bytes will not help
 */
enum kiw_step {
	KIW_DONE,
	KIW_MORE,
	KIW_BAD,
};

#endif
