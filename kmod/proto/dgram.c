// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "dgram.h"

enum kiw_dgram_verdict kiw_dgram_parse(const u8 *p, u32 len, struct kiw_dgram *d)
{
	const struct kiw_dgram_hdr *hdr = (const void *)p;
	struct kiw_seg seg;

	if (len < KIW_DGRAM_MIN || len > KIW_DGRAM_MAX || hdr->mark != KIW_DGRAM_MARK)
		return KIW_DGRAM_MALFORMED;
	if (hdr->version != KIW_DGRAM_VERSION)
		return KIW_DGRAM_OTHER_VERSION;
	if (kiw_seg_parse((const u8 *)&hdr->ddp, KIW_UNTAGGED_LEN,
			  len - KIW_DGRAM_MIN + KIW_UNTAGGED_LEN, 0, &seg) != KIW_DONE)
		return KIW_DGRAM_MALFORMED;
	if ((seg.op != KIW_OP_SEND && seg.op != KIW_OP_SEND_SE) || !(seg.flags & KIW_F_LAST) ||
	    seg.mo)
		return KIW_DGRAM_MALFORMED;
	d->solicited = seg.flags & KIW_F_SOLICITED;
	d->qkey = seg.inv_stag;
	d->msn = seg.msn;
	d->payload_len = seg.payload_len;
	return KIW_DGRAM_OK;
}

u32 kiw_dgram_build(void *p, bool solicited, u32 qkey, u32 msn)
{
	struct kiw_dgram_hdr *hdr = p;

	hdr->mark = KIW_DGRAM_MARK;
	hdr->version = KIW_DGRAM_VERSION;
	kiw_build_untagged(&hdr->ddp, solicited ? KIW_OP_SEND_SE : KIW_OP_SEND, true, qkey,
			   KIW_QN_SEND, msn, 0);
	return KIW_DGRAM_HDR_LEN;
}
