/* SPDX-License-Identifier: GPL-2.0 */
/* The functions that stand in for crc32c(), skb_crc32c() and crc32_le(), with the same arguments */
#ifndef BENCH_CRC_H
#define BENCH_CRC_H

#include <linux/types.h>

struct sk_buff;

u32 bench_crc32c(u32 crc, const void *p, size_t n);
u32 bench_crc32_le(u32 crc, const void *p, size_t n);
u32 bench_skb_crc32c(const struct sk_buff *skb, int offset, int len, u32 crc);

#endif
