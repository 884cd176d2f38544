// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "reads.h"

#include "port.h"

void *kiw_reads_init(struct kiw_reads_out *out, struct kiw_reads_in *in, u32 ord, u32 ird,
		     u32 max_sge, size_t more)
{
	size_t out_len, in_len;

	/* A Read as RTR message needs a slot even with depth 0. */
	out->size = roundup_pow_of_two(max(ord, 1U));
	in->size = roundup_pow_of_two(max(ird, 1U));
	out->head = KIW_READS_START;
	out->tail = KIW_READS_START;
	in->head = KIW_READS_START;
	in->tail = KIW_READS_START;
	out->stride = struct_size_t(struct kiw_read_out, sge, max_sge);
	out_len = array_size(out->size, out->stride);
	in_len = array_size(in->size, sizeof(*in->slots));
	out->room = kvcalloc(1, size_add(more, size_add(out_len, in_len)),
			     GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!out->room)
		return NULL;
	out->slots = (u8 *)out->room + more;
	in->slots = (struct kiw_read_in *)((u8 *)out->slots + out_len);
	return out->room;
}

void kiw_reads_free(struct kiw_reads_out *out, struct kiw_reads_in *in)
{
	kvfree(out->room);
	out->room = NULL;
	out->slots = NULL;
	in->slots = NULL;
}
