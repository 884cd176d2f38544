/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Kernel names that the session uses, for user space. */
#ifndef KIW_SESSION_OS_H
#define KIW_SESSION_OS_H

#include "../proto/os.h"

#ifdef __KERNEL__

#include <linux/errno.h>
#include <linux/indirect_call_wrapper.h>
#include <linux/log2.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "../compat.h"

#else

#include <errno.h>
#include <stdlib.h>

typedef __s32 s32;
typedef __s64 s64;
typedef unsigned int gfp_t;

#define GFP_KERNEL_ACCOUNT 0
#define __GFP_NOWARN 0
#define U64_MAX UINT64_MAX
#define ____cacheline_aligned_in_smp __attribute__((__aligned__(SMP_CACHE_BYTES)))

#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define barrier() __asm__ volatile("" ::: "memory")
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

#ifndef __cplusplus
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define min(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __auto_type _a = (a); __auto_type _b = (b); _a > _b ? _a : _b; })
#endif
#define INDIRECT_CALL_3(f, f3, f2, f1, ...) ((f)(__VA_ARGS__))

#define IS_ALIGNED(n, a) (!((n) & ((a) - 1)))
#define try_cmpxchg64(p, old, new) \
	__atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* A size that no size_t has is SIZE_MAX, of which there is no memory. */
static inline size_t array_size(size_t n, size_t size)
{
	size_t all;

	return __builtin_mul_overflow(n, size, &all) ? SIZE_MAX : all;
}

static inline size_t size_add(size_t a, size_t b)
{
	size_t sum;

	return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

#define struct_size_t(type, member, n) \
	size_add(offsetof(type, member), array_size(n, sizeof(((type *)0)->member[0])))

static inline u32 roundup_pow_of_two(u32 n)
{
	return n < 2 ? 1 : 1U << (32 - __builtin_clz(n - 1));
}

static inline void *kvcalloc(size_t n, size_t size, gfp_t gfp)
{
	(void)gfp;
	return calloc(n, size);
}

static inline void kvfree(void *p)
{
	free(p);
}

static inline const void *memchr_inv(const void *p, int c, size_t n)
{
	const u8 *at = (const u8 *)p;

	for (; n; n--, at++) {
		if (*at != (u8)c)
			return at;
	}
	return NULL;
}

#endif /* __KERNEL__ */

#endif /* KIW_SESSION_OS_H */
