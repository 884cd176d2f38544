// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "dgram.h"

static bool dgram_write_agrees(const struct kiw_dgram_write *w, u32 offset, u32 payload_len,
			       bool last)
{
	if (!w->seg_size || w->seg_size > KIW_DGRAM_MAX_SEG ||
	    kiw_dgram_segs(w) > KIW_DGRAM_MAX_SEGS)
		return false;
	if (offset % w->seg_size || offset > w->length || (offset && offset == w->length))
		return false;
	return payload_len == kiw_dgram_seg_len(w, offset) &&
	       last == (offset + payload_len == w->length);
}

static enum kiw_dgram_verdict dgram_parse_write(const u8 *p, u32 len, struct kiw_dgram *d)
{
	const struct kiw_dgram_write_hdr *hdr = (const void *)p;
	struct kiw_seg seg;

	if (len < KIW_DGRAM_WRITE_LEN + KIW_DGRAM_CRC_SIZE)
		return KIW_DGRAM_MALFORMED;
	if (kiw_seg_parse((const u8 *)&hdr->ddp, KIW_TAGGED_LEN,
			  len - KIW_DGRAM_WRITE_LEN - KIW_DGRAM_CRC_SIZE + KIW_TAGGED_LEN, 0,
			  &seg) != KIW_DONE || seg.op != KIW_OP_WRITE)
		return KIW_DGRAM_MALFORMED;
	d->is_write = true;
	d->solicited = false;
	d->hdr_len = KIW_DGRAM_WRITE_LEN;
	d->qkey = be32_to_cpu(hdr->qkey);
	d->msn = 0;
	d->payload_len = seg.payload_len;
	d->offset = be32_to_cpu(hdr->offset);
	d->write.stag = seg.stag;
	d->write.to = seg.to - d->offset;
	d->write.id = be32_to_cpu(hdr->id);
	d->write.length = be32_to_cpu(hdr->length);
	d->write.seg_size = be32_to_cpu(hdr->seg_size);
	if (seg.to < d->offset ||
	    !dgram_write_agrees(&d->write, d->offset, seg.payload_len, seg.flags & KIW_F_LAST))
		return KIW_DGRAM_MALFORMED;
	return KIW_DGRAM_OK;
}

enum kiw_dgram_verdict kiw_dgram_parse(const u8 *p, u32 len, struct kiw_dgram *d)
{
	const struct kiw_dgram_hdr *hdr = (const void *)p;
	struct kiw_seg seg;

	if (len < KIW_DGRAM_MIN || len > KIW_DGRAM_MAX || hdr->mark != KIW_DGRAM_MARK)
		return KIW_DGRAM_MALFORMED;
	if (hdr->version != KIW_DGRAM_VERSION)
		return KIW_DGRAM_OTHER_VERSION;
	if (hdr->ddp.ctrl.ddp & KIW_DDP_TAGGED)
		return dgram_parse_write(p, len, d);
	if (kiw_seg_parse((const u8 *)&hdr->ddp, KIW_UNTAGGED_LEN,
			  len - KIW_DGRAM_MIN + KIW_UNTAGGED_LEN, 0, &seg) != KIW_DONE)
		return KIW_DGRAM_MALFORMED;
	if ((seg.op != KIW_OP_SEND && seg.op != KIW_OP_SEND_SE) || !(seg.flags & KIW_F_LAST) ||
	    seg.mo)
		return KIW_DGRAM_MALFORMED;
	d->is_write = false;
	d->solicited = seg.flags & KIW_F_SOLICITED;
	d->hdr_len = KIW_DGRAM_HDR_LEN;
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

u32 kiw_dgram_build_write(void *p, const struct kiw_dgram_write *w, u32 offset, u32 qkey)
{
	bool last = offset + kiw_dgram_seg_len(w, offset) == w->length;
	struct kiw_dgram_write_hdr *hdr = p;

	hdr->mark = KIW_DGRAM_MARK;
	hdr->version = KIW_DGRAM_VERSION;
	kiw_build_tagged(&hdr->ddp, KIW_OP_WRITE, last, w->stag, w->to + offset);
	hdr->qkey = cpu_to_be32(qkey);
	hdr->id = cpu_to_be32(w->id);
	hdr->length = cpu_to_be32(w->length);
	hdr->offset = cpu_to_be32(offset);
	hdr->seg_size = cpu_to_be32(w->seg_size);
	return KIW_DGRAM_WRITE_LEN;
}
