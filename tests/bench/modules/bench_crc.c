// SPDX-License-Identifier: GPL-2.0
/*
 * CRC32C by the processor's instruction, for kernels that have only the table:
 * User-Mode Linux has no architecture's own, as every real x86 kernel has.
 * Measurements with CRC on would otherwise compare little but tables.
 * tests/bench/run.sh has all drivers call these functions instead of the
 * kernel's, by renaming the symbols that their modules import.
 *
 * Three runs of octets are taken side by side, since the instruction has a latency of
 * three cycles and a throughput of one, and are then joined by tables.
 */
#include <linux/crc32.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/unaligned.h>

#include "bench_crc.h"

/* Lengths of such a run: for long buffers, for 1 KB, and for what is left */
static const unsigned int run_length[] = { 1024, 336, 64 };

/* What that many octets of zero make of a checksum, by the checksum's octets */
static u32 zeros[ARRAY_SIZE(run_length)][4][256];

static u64 add8(u64 crc, const void *p)
{
	asm("crc32q %1, %0" : "+r" (crc) : "rm" (get_unaligned((const u64 *)p)));
	return crc;
}

static u32 add1(u32 crc, u8 octet)
{
	asm("crc32b %1, %0" : "+r" (crc) : "rm" (octet));
	return crc;
}

static u32 shift(u32 crc, u32 table[4][256])
{
	return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^
	       table[3][crc >> 24];
}

u32 bench_crc32c(u32 crc, const void *p, size_t n)
{
	const u8 *at = p;
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(run_length); i++) {
		const unsigned int run = run_length[i];

		for (; n >= 3 * run; n -= 3 * run, at += 3 * run) {
			u64 a = crc, b = 0, c = 0;

			for (k = 0; k < run; k += 8) {
				a = add8(a, at + k);
				b = add8(b, at + run + k);
				c = add8(c, at + 2 * run + k);
			}
			crc = shift(shift(a, zeros[i]) ^ (u32)b, zeros[i]) ^ (u32)c;
		}
	}
	for (; n >= 8; n -= 8, at += 8)
		crc = add8(crc, at);
	while (n--)
		crc = add1(crc, *at++);
	return crc;
}
EXPORT_SYMBOL_GPL(bench_crc32c);

u32 bench_skb_crc32c(const struct sk_buff *skb, int offset, int len, u32 crc)
{
	struct skb_seq_state walk;
	int done = 0, n;
	const u8 *p;

	skb_prepare_seq_read((struct sk_buff *)skb, offset, offset + len, &walk);
	while ((n = skb_seq_read(done, &p, &walk))) {
		/* It stops behind the end, but what it returns may go beyond. */
		n = min(n, len - done);
		crc = bench_crc32c(crc, p, n);
		done += n;
	}
	return crc;
}
EXPORT_SYMBOL_GPL(bench_skb_crc32c);

/* The kernel's own functions have to agree, on pieces of all sizes. */
static int __init compare(void)
{
	const size_t size = 3 * PAGE_SIZE;
	struct sk_buff *skb;
	int i, ret = 0;
	u8 *octets;

	skb = alloc_skb(size, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	octets = skb_put(skb, size);
	get_random_bytes(octets, size);
	for (i = 0; i < 2000 && !ret; i++) {
		size_t from = get_random_u32_below(64), n = get_random_u32_below(size - from);
		u32 seed = get_random_u32(), expected = crc32c(seed, octets + from, n);

		if (bench_crc32c(seed, octets + from, n) != expected ||
		    bench_skb_crc32c(skb, from, n, seed) != expected)
			ret = -EIO;
	}
	kfree_skb(skb);
	return ret;
}

static int __init bench_crc_init(void)
{
	u32 eax = 1, ebx, ecx = 0, edx;
	unsigned int i, octet, value, k;

	asm volatile("cpuid" : "+a" (eax), "=b" (ebx), "+c" (ecx), "=d" (edx));
	if (!(ecx & BIT(20)))
		return -ENODEV;
	for (i = 0; i < ARRAY_SIZE(run_length); i++) {
		for (octet = 0; octet < 4; octet++) {
			for (value = 0; value < 256; value++) {
				static const u64 nothing;
				u64 crc = value << 8 * octet;

				for (k = 0; k < run_length[i]; k += 8)
					crc = add8(crc, &nothing);
				zeros[i][octet][value] = crc;
			}
		}
	}
	return compare();
}
module_init(bench_crc_init);

static void __exit bench_crc_exit(void)
{
}
module_exit(bench_crc_exit);

MODULE_DESCRIPTION("CRC32C by instruction, for measurements in User-Mode Linux");
MODULE_LICENSE("GPL");
