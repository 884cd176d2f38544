// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "reads.h"

#include "port.h"

int kiw_reads_init(struct kiw_reads_out *out, struct kiw_reads_in *in, u32 ord, u32 ird,
		   u32 max_sge, void *room, size_t room_len)
{
	/* A Read as RTR message needs a slot even with depth 0. */
	out->size = roundup_pow_of_two(max(ord, 1U));
	in->size = roundup_pow_of_two(max(ird, 1U));
	out->head = KIW_READS_START;
	out->tail = KIW_READS_START;
	in->head = KIW_READS_START;
	in->tail = KIW_READS_START;
	out->stride = struct_size_t(struct kiw_read_out, sge, max_sge);
	out->slots = kvcalloc(out->size, out->stride, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	in->apart = array_size(in->size, sizeof(*in->slots)) > room_len;
	in->slots = !in->apart ? room :
		    kvcalloc(in->size, sizeof(*in->slots), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (out->slots && in->slots)
		return 0;
	kiw_reads_free(out, in);
	return -ENOMEM;
}

void kiw_reads_free(struct kiw_reads_out *out, struct kiw_reads_in *in)
{
	kvfree(out->slots);
	if (in->apart)
		kvfree(in->slots);
	out->slots = NULL;
	in->slots = NULL;
}
