/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Order of placed bytes. Programs poll the last byte, or the last word, of an RDMA Write: when it
 * changes, all before it must be there.
 */
#ifndef KIW_PROTO_TAIL_H
#define KIW_PROTO_TAIL_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Longest tail: one aligned word, bytes */
#define KIW_TAIL_MAX 8

/** kiw_tail_len() - of @n bytes before @end, those in the aligned word of the last one */
static inline u32 kiw_tail_len(u64 end, u32 n)
{
	return min_t(u32, n, (end - 1) % KIW_TAIL_MAX + 1);
}

/**
 * kiw_tail_store() - store the tail after all earlier stores
 * @to: target, in one aligned word of 8 bytes
 * @from: source
 * @n: bytes, at most KIW_TAIL_MAX
 *
 * Each naturally aligned part appears as a whole, in rising order: the last byte changes last.
 */
static inline void kiw_tail_store(void *to, const void *from, u32 n)
{
	u32 part;

	for (; n; to = (u8 *)to + part, from = (const u8 *)from + part, n -= part) {
		u64 v8;
		u32 v4;
		u16 v2;

		/* Pairs with the barrier of the program that polls. */
		smp_wmb();
		part = 1;
		while (2 * part <= n && !((uintptr_t)to & (2 * part - 1)))
			part *= 2;
		switch (part) {
		case 8:
			memcpy(&v8, from, sizeof(v8));
			WRITE_ONCE(*(u64 *)to, v8);
			break;
		case 4:
			memcpy(&v4, from, sizeof(v4));
			WRITE_ONCE(*(u32 *)to, v4);
			break;
		case 2:
			memcpy(&v2, from, sizeof(v2));
			WRITE_ONCE(*(u16 *)to, v2);
			break;
		default:
			WRITE_ONCE(*(u8 *)to, *(const u8 *)from);
		}
	}
}

#ifdef __cplusplus
}
#endif

#endif
