// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "atomics.h"

#include "port.h"

/* Begins a use if it returns KIW_OK. */
static enum kiw_err atomic_begin(const struct kiw_owner *owner, const struct kiw_atomic *at,
				 struct kiw_region_use *use)
{
	enum kiw_region_fault fault;

	if (at->op != KIW_ATOMIC_FETCH_ADD && at->op != KIW_ATOMIC_CMP_SWAP)
		return KIW_ERR_RDMAP_CATASTROPHE;
	fault = kiw_region_begin(owner, at->stag, IB_ACCESS_REMOTE_ATOMIC, at->to, sizeof(u64),
				 use);
	if (fault)
		return kiw_region_rdmap_error(fault);
	if (!(READ_ONCE(owner->access) & IB_ACCESS_REMOTE_ATOMIC)) {
		kiw_region_end(use);
		return KIW_ERR_RDMAP_ACCESS;
	}
	if (!IS_ALIGNED(at->to, sizeof(u64)) ||
	    !IS_ALIGNED(kiw_region_offset(use->region, at->to), sizeof(u64))) {
		kiw_region_end(use);
		return KIW_ERR_RDMAP_CATASTROPHE;
	}
	return KIW_OK;
}

enum kiw_err kiw_atomic_check(const struct kiw_owner *owner, const struct kiw_atomic *at)
{
	struct kiw_region_use use;
	enum kiw_err err = atomic_begin(owner, at, &use);

	if (!err)
		kiw_region_end(&use);
	return err;
}

enum kiw_err kiw_atomic_run(const struct kiw_owner *owner, const struct kiw_atomic *at, u64 *old)
{
	struct kiw_region_use use;
	u32 len = sizeof(u64);
	enum kiw_err err;
	u64 value;
	u64 *word;

	err = atomic_begin(owner, at, &use);
	if (err)
		return err;
	word = kiw_region_chunk(use.region, at->to, &len);
	*old = READ_ONCE(*word);
	do {
		kiw_atomic_apply(at, *old, &value);
	} while (!try_cmpxchg64(word, old, value));
	kiw_region_unmap(word);
	kiw_region_end(&use);
	return KIW_OK;
}
