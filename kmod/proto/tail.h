/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The order in which placed octets appear. Programs poll the last octet, or the
 * last word, of an RDMA Write: when that has changed, all before it has to be
 * there.
 */
#ifndef KIW_PROTO_TAIL_H
#define KIW_PROTO_TAIL_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most octets that are stored as a tail: one aligned word */
#define KIW_TAIL_MAX 8

/**
 * kiw_tail_len() - how many of the last octets are to be stored as a tail
 * @end: address behind the last octet; only its alignment counts
 * @n: octets in all
 *
 * Return: those in the aligned word of 8 that holds the last one, at most @n.
 */
static inline u32 kiw_tail_len(u64 end, u32 n)
{
	return min_t(u32, n, (end - 1) % KIW_TAIL_MAX + 1);
}

/**
 * kiw_tail_store() - store the tail behind everything that was stored before
 * @to: target, in one aligned word of 8
 * @from: source
 * @n: octets, at most KIW_TAIL_MAX
 *
 * Each naturally aligned part appears as a whole, and in rising order, so that
 * the last octet is the last to change.
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
