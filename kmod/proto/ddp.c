// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "ddp.h"

#define TAGGED KIW_F_TAGGED
#define RECV KIW_F_RECV
#define SE KIW_F_SOLICITED
#define INV KIW_F_INVALIDATE
#define SINGLE KIW_F_SINGLE

const struct kiw_op_info kiw_ops[KIW_OP_COUNT] = {
	[KIW_OP_WRITE] = { 0, KIW_TAGGED_LEN, TAGGED, 0 },
	[KIW_OP_READ_REQ] = { KIW_QN_READ, KIW_RREQ_LEN, SINGLE, 0 },
	[KIW_OP_READ_RESP] = { 0, KIW_TAGGED_LEN, TAGGED, 0 },
	[KIW_OP_SEND] = { KIW_QN_SEND, KIW_UNTAGGED_LEN, RECV, 0 },
	[KIW_OP_SEND_INV] = { KIW_QN_SEND, KIW_UNTAGGED_LEN, RECV | INV, 0 },
	[KIW_OP_SEND_SE] = { KIW_QN_SEND, KIW_UNTAGGED_LEN, RECV | SE, 0 },
	[KIW_OP_SEND_SE_INV] = { KIW_QN_SEND, KIW_UNTAGGED_LEN, RECV | SE | INV, 0 },
	[KIW_OP_TERMINATE] = { KIW_QN_TERM, KIW_UNTAGGED_LEN, 0, 0 },
	[KIW_OP_IMM] = { KIW_QN_SEND, KIW_IMM_LEN, RECV | SINGLE, KIW_CAP_IMM },
	[KIW_OP_IMM_SE] = { KIW_QN_SEND, KIW_IMM_LEN, RECV | SE | SINGLE, KIW_CAP_IMM },
	[KIW_OP_ATOMIC_REQ] = { KIW_QN_READ, KIW_ATOMIC_REQ_LEN, SINGLE, KIW_CAP_ATOMIC },
	[KIW_OP_ATOMIC_RESP] = { KIW_QN_ATOMIC, KIW_ATOMIC_RESP_LEN, SINGLE, KIW_CAP_ATOMIC },
};

static void ddp_parse_rreq(const void *p, struct kiw_rreq *rr)
{
	const struct kiw_rreq_wire *w = p;

	rr->sink_stag = be32_to_cpu(w->sink_stag);
	rr->sink_to = be64_to_cpu(w->sink_to);
	rr->size = be32_to_cpu(w->size);
	rr->src_stag = be32_to_cpu(w->src_stag);
	rr->src_to = be64_to_cpu(w->src_to);
}

static void ddp_parse_atomic(const void *p, struct kiw_atomic *at)
{
	const struct kiw_atomic_req_wire *w = p;

	at->op = be32_to_cpu(w->op) & KIW_ATOMIC_OP_MASK;
	at->req_id = be32_to_cpu(w->req_id);
	at->stag = be32_to_cpu(w->stag);
	at->to = be64_to_cpu(w->to);
	at->data = be64_to_cpu(w->data);
	at->mask = be64_to_cpu(w->mask);
	at->cmp = be64_to_cpu(w->cmp);
	at->cmp_mask = be64_to_cpu(w->cmp_mask);
}

static void ddp_parse_atomic_resp(const void *p, struct kiw_atomic_resp *ar)
{
	const struct kiw_atomic_resp_wire *w = p;

	ar->req_id = be32_to_cpu(w->req_id);
	ar->value = be64_to_cpu(w->value);
}

static void ddp_parse_body(const u8 *p, struct kiw_seg *seg)
{
	switch (seg->op) {
	case KIW_OP_READ_REQ:
		ddp_parse_rreq(p, &seg->rreq);
		break;
	case KIW_OP_IMM:
	case KIW_OP_IMM_SE:
		memcpy(seg->imm, p, sizeof(seg->imm));
		break;
	case KIW_OP_ATOMIC_REQ:
		ddp_parse_atomic(p, &seg->atomic);
		break;
	case KIW_OP_ATOMIC_RESP:
		ddp_parse_atomic_resp(p, &seg->atomic_resp);
		break;
	}
}

static enum kiw_step ddp_bad(struct kiw_seg *seg, enum kiw_err err)
{
	seg->err = err;
	return KIW_BAD;
}

static enum kiw_step ddp_more(struct kiw_seg *seg, u32 need)
{
	seg->need = need;
	return KIW_MORE;
}

static enum kiw_err ddp_check_ctrl(const struct kiw_ctrl *ctrl, u32 caps)
{
	bool tagged = ctrl->ddp & KIW_DDP_TAGGED;
	u8 op = ctrl->rdmap & KIW_RDMAP_OP_MASK;

	if ((ctrl->ddp & KIW_DDP_VERSION_MASK) != KIW_DDP_VERSION)
		return tagged ? KIW_ERR_DDP_TVERSION : KIW_ERR_DDP_UVERSION;
	if ((ctrl->rdmap & KIW_RDMAP_VERSION_MASK) != KIW_RDMAP_VERSION)
		return KIW_ERR_RDMAP_VERSION;
	if (op >= KIW_OP_COUNT || (kiw_ops[op].cap & ~caps))
		return KIW_ERR_RDMAP_OPCODE;
	if (tagged != !!(kiw_ops[op].flags & TAGGED))
		return KIW_ERR_RDMAP_OPCODE;
	return KIW_OK;
}

/* RFC 5040 reserves the bit. It is ignored unless both sides agreed on it. */
static bool ddp_carries_imm(u8 rdmap, u32 caps)
{
	u8 op = rdmap & KIW_RDMAP_OP_MASK;

	return (rdmap & KIW_RDMAP_SEND_IMM) && (caps & KIW_CAP_IMM) &&
	       (op == KIW_OP_SEND || op == KIW_OP_SEND_SE);
}

static enum kiw_step ddp_parse_untagged(const u8 *ulpdu, u32 have, u32 ulpdu_len, u32 caps,
					struct kiw_seg *seg)
{
	const struct kiw_untagged_hdr *hdr = (const void *)ulpdu;

	if (ddp_carries_imm(hdr->ctrl.rdmap, caps))
		seg->flags |= KIW_F_SEND_IMM;
	seg->inv_stag = be32_to_cpu(hdr->inv_stag);
	seg->qn = be32_to_cpu(hdr->qn);
	seg->msn = be32_to_cpu(hdr->msn);
	seg->mo = be32_to_cpu(hdr->mo);
	if (seg->qn != kiw_ops[seg->op].qn)
		return ddp_bad(seg, KIW_ERR_DDP_QN);

	if (seg->op == KIW_OP_TERMINATE)
		seg->hdr_len = min_t(u32, ulpdu_len, KIW_TERM_MAX_LEN);

	if (seg->flags & SINGLE) {
		if (ulpdu_len > seg->hdr_len)
			return ddp_bad(seg, KIW_ERR_DDP_TOOLONG);
		if (ulpdu_len < seg->hdr_len || !(seg->flags & KIW_F_LAST))
			return ddp_bad(seg, KIW_ERR_RDMAP_CATASTROPHE);
	}
	if (have < seg->hdr_len)
		return ddp_more(seg, seg->hdr_len);

	ddp_parse_body(ulpdu + KIW_UNTAGGED_LEN, seg);
	return KIW_DONE;
}

enum kiw_step kiw_seg_parse(const u8 *ulpdu, u32 have, u32 ulpdu_len, u32 caps,
			    struct kiw_seg *seg)
{
	const struct kiw_ctrl *ctrl = (const void *)ulpdu;
	enum kiw_step step = KIW_DONE;
	enum kiw_err err;

	memset(seg, 0, sizeof(*seg));
	if (ulpdu_len < KIW_TAGGED_LEN)
		return ddp_bad(seg, KIW_ERR_DDP_CATASTROPHE);
	if (have < KIW_TAGGED_LEN)
		return ddp_more(seg, KIW_TAGGED_LEN);
	if (!(ctrl->ddp & KIW_DDP_TAGGED)) {
		if (ulpdu_len < KIW_UNTAGGED_LEN)
			return ddp_bad(seg, KIW_ERR_DDP_CATASTROPHE);
		/* A Terminate returns the whole header of any bad segment. */
		if (have < KIW_UNTAGGED_LEN)
			return ddp_more(seg, KIW_UNTAGGED_LEN);
	}

	err = ddp_check_ctrl(ctrl, caps);
	if (err)
		return ddp_bad(seg, err);

	seg->op = ctrl->rdmap & KIW_RDMAP_OP_MASK;
	seg->flags = kiw_ops[seg->op].flags;
	if (ctrl->ddp & KIW_DDP_LAST)
		seg->flags |= KIW_F_LAST;
	seg->hdr_len = kiw_ops[seg->op].hdr_len;

	if (seg->flags & TAGGED) {
		const struct kiw_tagged_hdr *hdr = (const void *)ulpdu;

		seg->stag = be32_to_cpu(hdr->stag);
		seg->to = be64_to_cpu(hdr->to);
	} else {
		step = ddp_parse_untagged(ulpdu, have, ulpdu_len, caps, seg);
	}
	seg->payload_len = step == KIW_DONE ? ulpdu_len - seg->hdr_len : 0;
	return step;
}

enum kiw_err kiw_seq_check_mo(const struct kiw_seq *seq, const struct kiw_seg *seg, u32 room)
{
	if (seg->mo != seq->mo)
		return KIW_ERR_DDP_MO;
	if (seg->mo > room || seg->payload_len > room - seg->mo)
		return KIW_ERR_DDP_TOOLONG;
	return KIW_OK;
}

void kiw_seq_advance(struct kiw_seq *seq, const struct kiw_seg *seg)
{
	if (seg->flags & KIW_F_LAST) {
		seq->msn++;
		seq->mo = 0;
	} else {
		seq->mo += seg->payload_len;
	}
}
