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
	d->has_imm = false;
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

static bool dgram_is_imm(const struct kiw_dgram_hdr *hdr)
{
	u8 op = hdr->ddp.ctrl.rdmap & KIW_RDMAP_OP_MASK;

	return op == KIW_OP_IMM || op == KIW_OP_IMM_SE;
}

static enum kiw_dgram_verdict dgram_parse_send(const u8 *p, u32 len, struct kiw_dgram *d)
{
	const struct kiw_dgram_hdr *hdr = (const void *)p;
	bool has_imm = dgram_is_imm(hdr);
	u32 hdr_len = has_imm ? KIW_DGRAM_IMM_LEN : KIW_DGRAM_HDR_LEN;
	u32 ddp_len = has_imm ? KIW_IMM_LEN : KIW_UNTAGGED_LEN;
	struct kiw_seg seg;

	if (len < hdr_len + KIW_DGRAM_CRC_SIZE)
		return KIW_DGRAM_MALFORMED;
	if (kiw_seg_parse((const u8 *)&hdr->ddp, ddp_len, ddp_len, KIW_CAP_IMM, &seg) != KIW_DONE)
		return KIW_DGRAM_MALFORMED;
	if ((!has_imm && seg.op != KIW_OP_SEND && seg.op != KIW_OP_SEND_SE) ||
	    !(seg.flags & KIW_F_LAST) || seg.mo)
		return KIW_DGRAM_MALFORMED;
	d->is_write = false;
	d->solicited = seg.flags & KIW_F_SOLICITED;
	d->has_imm = has_imm;
	d->hdr_len = hdr_len;
	d->qkey = seg.inv_stag;
	d->msn = seg.msn;
	d->imm = has_imm ? ((const struct kiw_dgram_imm_hdr *)p)->imm : 0;
	d->payload_len = len - hdr_len - KIW_DGRAM_CRC_SIZE;
	return KIW_DGRAM_OK;
}

enum kiw_dgram_verdict kiw_dgram_parse(const u8 *p, u32 len, struct kiw_dgram *d)
{
	const struct kiw_dgram_hdr *hdr = (const void *)p;

	if (len < KIW_DGRAM_MIN || len > KIW_DGRAM_MAX || hdr->mark != KIW_DGRAM_MARK)
		return KIW_DGRAM_MALFORMED;
	if (hdr->version != KIW_DGRAM_VERSION)
		return KIW_DGRAM_OTHER_VERSION;
	if (hdr->ddp.ctrl.ddp & KIW_DDP_TAGGED)
		return dgram_parse_write(p, len, d);
	return dgram_parse_send(p, len, d);
}

static u32 dgram_build(struct kiw_dgram_hdr *hdr, u8 op, u32 qkey, u32 msn)
{
	hdr->mark = KIW_DGRAM_MARK;
	hdr->version = KIW_DGRAM_VERSION;
	kiw_build_untagged(&hdr->ddp, op, true, qkey, KIW_QN_SEND, msn, 0);
	return KIW_DGRAM_HDR_LEN;
}

u32 kiw_dgram_build(void *p, bool solicited, u32 qkey, u32 msn)
{
	return dgram_build(p, solicited ? KIW_OP_SEND_SE : KIW_OP_SEND, qkey, msn);
}

u32 kiw_dgram_build_imm(void *p, bool solicited, u32 qkey, u32 msn, __be32 imm)
{
	struct kiw_dgram_imm_hdr *hdr = p;

	dgram_build(&hdr->hdr, solicited ? KIW_OP_IMM_SE : KIW_OP_IMM, qkey, msn);
	hdr->imm = imm;
	hdr->reserved = 0;
	return KIW_DGRAM_IMM_LEN;
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
