// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "term.h"

/* Does an error of this kind return the offending header? */
static bool returns_header(struct kiw_term t)
{
	switch (t.layer) {
	case KIW_LAYER_RDMAP:
		return t.etype != KIW_ETYPE_LOCAL;
	case KIW_LAYER_DDP:
		return t.etype == KIW_ETYPE_TAGGED || t.etype == KIW_ETYPE_UNTAGGED;
	default:
		return false;
	}
}

static bool is_rreq(const struct kiw_ctrl *ctrl)
{
	return !(ctrl->ddp & KIW_DDP_TAGGED) &&
	       (ctrl->rdmap & KIW_RDMAP_OP_MASK) == KIW_OP_READ_REQ;
}

static u32 ddp_hdr_len(const u8 *seg)
{
	return seg[0] & KIW_DDP_TAGGED ? KIW_TAGGED_LEN : KIW_UNTAGGED_LEN;
}

u32 kiw_term_build(void *p, enum kiw_err err, const u8 *ulpdu, u32 have, u32 ulpdu_len)
{
	struct kiw_term t = kiw_err_term(err);
	struct kiw_term_wire *w;
	u8 *out = p;

	out += kiw_build_untagged(out, KIW_OP_TERMINATE, true, 0, KIW_QN_TERM, KIW_MSN_FIRST, 0);
	w = (void *)out;
	w->layer_etype = t.layer << 4 | t.etype;
	w->code = t.code;
	w->hdrct = 0;
	w->reserved = 0;
	out += sizeof(*w);

	if (ulpdu && returns_header(t) && have && have >= ddp_hdr_len(ulpdu)) {
		u32 n = ddp_hdr_len(ulpdu);

		w->hdrct = KIW_TERM_HDRCT_M | KIW_TERM_HDRCT_D;
		/* In both messages the RDMA header follows the DDP header. */
		if (t.layer == KIW_LAYER_RDMAP && t.etype == KIW_ETYPE_PROTECTION &&
		    have >= KIW_RREQ_LEN && is_rreq((const void *)ulpdu)) {
			w->hdrct |= KIW_TERM_HDRCT_R;
			n = KIW_RREQ_LEN;
		}
		put_unaligned_be16(ulpdu_len, out);
		out += KIW_TERM_SEGLEN_SIZE;
		memcpy(out, ulpdu, n);
		out += n;
	}
	return out - (u8 *)p;
}

bool kiw_term_possible(enum kiw_err err)
{
	return err != KIW_ERR_LLP_LOST && err != KIW_ERR_LLP_FRAME;
}

static void term_parse_ddp(const u8 *p, struct kiw_term_info *info)
{
	const struct kiw_untagged_hdr *u = (const void *)p;
	const struct kiw_tagged_hdr *t = (const void *)p;

	info->has_seg = true;
	info->tagged = t->ctrl.ddp & KIW_DDP_TAGGED;
	info->op = t->ctrl.rdmap & KIW_RDMAP_OP_MASK;
	if (info->tagged) {
		info->stag = be32_to_cpu(t->stag);
		info->to = be64_to_cpu(t->to);
	} else {
		info->qn = be32_to_cpu(u->qn);
		info->msn = be32_to_cpu(u->msn);
		info->mo = be32_to_cpu(u->mo);
	}
}

static void term_parse_rreq(const u8 *p, struct kiw_term_info *info)
{
	const struct kiw_rreq_wire *w = (const void *)p;

	info->has_rreq = true;
	info->rreq.sink_stag = be32_to_cpu(w->sink_stag);
	info->rreq.sink_to = be64_to_cpu(w->sink_to);
	info->rreq.size = be32_to_cpu(w->size);
	info->rreq.src_stag = be32_to_cpu(w->src_stag);
	info->rreq.src_to = be64_to_cpu(w->src_to);
}

static void term_parse_offender(const u8 *p, u32 len, u8 hdrct, struct kiw_term_info *info)
{
	u32 n;

	if (!(hdrct & KIW_TERM_HDRCT_M) || !(hdrct & KIW_TERM_HDRCT_D) ||
	    len <= KIW_TERM_SEGLEN_SIZE)
		return;
	info->seg_len = get_unaligned_be16(p);
	p += KIW_TERM_SEGLEN_SIZE;
	len -= KIW_TERM_SEGLEN_SIZE;

	n = ddp_hdr_len(p);
	if (len < n)
		return;
	term_parse_ddp(p, info);

	/* Some peers claim an RDMA header for messages without one. */
	if ((hdrct & KIW_TERM_HDRCT_R) && len >= KIW_RREQ_LEN && is_rreq((const void *)p))
		term_parse_rreq(p + n, info);
}

bool kiw_term_parse(const u8 *ulpdu, u32 len, struct kiw_term_info *info)
{
	const struct kiw_untagged_hdr *hdr = (const void *)ulpdu;
	const struct kiw_term_wire *w = (const void *)(ulpdu + sizeof(*hdr));
	u8 etype;

	memset(info, 0, sizeof(*info));
	if (len < KIW_TERM_MIN_LEN)
		return false;
	if (be32_to_cpu(hdr->qn) != KIW_QN_TERM || be32_to_cpu(hdr->msn) != KIW_MSN_FIRST ||
	    be32_to_cpu(hdr->mo))
		return false;

	info->raw.layer = w->layer_etype >> 4;
	info->raw.etype = w->layer_etype & 0xf;
	info->raw.code = w->code;
	etype = info->raw.etype;
	if (info->raw.layer == KIW_LAYER_LLP && etype == KIW_ETYPE_MPA_ALT)
		etype = KIW_ETYPE_MPA;
	info->err = KIW_ERR(info->raw.layer, etype, info->raw.code);

	term_parse_offender(ulpdu + KIW_TERM_MIN_LEN, len - KIW_TERM_MIN_LEN, w->hdrct, info);
	return true;
}
