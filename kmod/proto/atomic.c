// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "ddp.h"

/*
 * Add, dropping the carry out of each bit set in @top: add without the top bits of fields, so that
 * no carry leaves a field, then add these bits without carry.
 */
static u64 atomic_add_fields(u64 a, u64 b, u64 top)
{
	return ((a & ~top) + (b & ~top)) ^ ((a ^ b) & top);
}

bool kiw_atomic_apply(const struct kiw_atomic *at, u64 old, u64 *new_value)
{
	switch (at->op) {
	case KIW_ATOMIC_FETCH_ADD:
		*new_value = atomic_add_fields(old, at->data, at->mask);
		return true;
	case KIW_ATOMIC_CMP_SWAP:
		if ((old ^ at->cmp) & at->cmp_mask)
			*new_value = old;
		else
			*new_value = (old & ~at->mask) | (at->data & at->mask);
		return true;
	default:
		return false;
	}
}
