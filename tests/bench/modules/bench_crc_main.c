// SPDX-License-Identifier: GPL-2.0
/*
 * CRC32C and CRC32 of the same kernel for x86, for User-Mode Linux, which has the tables only:
 * measurements with CRC on would otherwise compare little but tables. It is the kernel's own code,
 * chosen by what the processor has. tests/bench/contenders.sh has all drivers call these functions
 * instead of the kernel's, by renaming the symbols that their modules import.
 */
#include <linux/crc32.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/skbuff.h>

#include "bench_crc.h"

/* A processor's flags are of what its kernel has enabled; User-Mode Linux has no more to ask. */
#define cpu_has_xfeatures(...)		true
/* Where the processor has no instruction for it, the module isn't loaded. */
#define crc32_le_base(crc, p, n)		crc32_le(crc, p, n)
#define crc32c_base(crc, p, n)			crc32c(crc, p, n)
#include <crc/x86/crc32.h>

u32 bench_crc32c(u32 crc, const void *p, size_t n)
{
	return crc32c_arch(crc, p, n);
}
EXPORT_SYMBOL_GPL(bench_crc32c);

u32 bench_crc32_le(u32 crc, const void *p, size_t n)
{
	return crc32_le_arch(crc, p, n);
}
EXPORT_SYMBOL_GPL(bench_crc32_le);

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
		    bench_skb_crc32c(skb, from, n, seed) != expected ||
		    bench_crc32_le(seed, octets + from, n) != crc32_le(seed, octets + from, n))
			ret = -EIO;
	}
	kfree_skb(skb);
	return ret;
}

static int __init bench_crc_init(void)
{
	crc32_mod_init_arch();
	if (!(crc32_optimizations_arch() & CRC32C_OPTIMIZATION))
		return -ENODEV;
	return compare();
}
module_init(bench_crc_init);

static void __exit bench_crc_exit(void)
{
}
module_exit(bench_crc_exit);

MODULE_DESCRIPTION("CRC32C and CRC32 as on x86, for measurements in User-Mode Linux");
MODULE_LICENSE("GPL");
