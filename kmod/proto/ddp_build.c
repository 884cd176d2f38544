// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "ddp.h"

static void ddp_build_ctrl(struct kiw_ctrl *ctrl, u8 op, bool tagged, bool last)
{
	ctrl->ddp = KIW_DDP_VERSION;
	if (tagged)
		ctrl->ddp |= KIW_DDP_TAGGED;
	if (last)
		ctrl->ddp |= KIW_DDP_LAST;
	ctrl->rdmap = KIW_RDMAP_VERSION | op;
}

u32 kiw_build_tagged(void *p, u8 op, bool last, u32 stag, u64 to)
{
	struct kiw_tagged_hdr *hdr = p;

	ddp_build_ctrl(&hdr->ctrl, op, true, last);
	hdr->stag = cpu_to_be32(stag);
	hdr->to = cpu_to_be64(to);
	return sizeof(*hdr);
}

u32 kiw_build_untagged(void *p, u8 op, bool last, u32 inv_stag, u32 qn, u32 msn, u32 mo)
{
	struct kiw_untagged_hdr *hdr = p;

	ddp_build_ctrl(&hdr->ctrl, op, false, last);
	hdr->inv_stag = cpu_to_be32(inv_stag);
	hdr->qn = cpu_to_be32(qn);
	hdr->msn = cpu_to_be32(msn);
	hdr->mo = cpu_to_be32(mo);
	return sizeof(*hdr);
}

/* Header of a message of one segment. Return: where its contents go. */
static void *ddp_build_single(void *p, u8 op, u32 msn)
{
	return (u8 *)p + kiw_build_untagged(p, op, true, 0, kiw_ops[op].qn, msn, 0);
}

u32 kiw_build_rreq(void *p, u32 msn, const struct kiw_rreq *rr)
{
	struct kiw_rreq_wire *w = ddp_build_single(p, KIW_OP_READ_REQ, msn);

	w->sink_stag = cpu_to_be32(rr->sink_stag);
	w->sink_to = cpu_to_be64(rr->sink_to);
	w->size = cpu_to_be32(rr->size);
	w->src_stag = cpu_to_be32(rr->src_stag);
	w->src_to = cpu_to_be64(rr->src_to);
	return KIW_RREQ_LEN;
}

u32 kiw_build_imm(void *p, bool solicited, u32 msn, const u8 imm[KIW_IMM_SIZE])
{
	void *w = ddp_build_single(p, solicited ? KIW_OP_IMM_SE : KIW_OP_IMM, msn);

	memcpy(w, imm, KIW_IMM_SIZE);
	return KIW_IMM_LEN;
}

u32 kiw_build_atomic(void *p, u32 msn, const struct kiw_atomic *at)
{
	struct kiw_atomic_req_wire *w = ddp_build_single(p, KIW_OP_ATOMIC_REQ, msn);

	w->op = cpu_to_be32(at->op);
	w->req_id = cpu_to_be32(at->req_id);
	w->stag = cpu_to_be32(at->stag);
	w->to = cpu_to_be64(at->to);
	w->data = cpu_to_be64(at->data);
	w->mask = cpu_to_be64(at->mask);
	w->cmp = cpu_to_be64(at->cmp);
	w->cmp_mask = cpu_to_be64(at->cmp_mask);
	return KIW_ATOMIC_REQ_LEN;
}

u32 kiw_build_atomic_resp(void *p, u32 msn, const struct kiw_atomic_resp *ar)
{
	struct kiw_atomic_resp_wire *w = ddp_build_single(p, KIW_OP_ATOMIC_RESP, msn);

	w->req_id = cpu_to_be32(ar->req_id);
	w->value = cpu_to_be64(ar->value);
	return KIW_ATOMIC_RESP_LEN;
}

void kiw_rreq_advance(struct kiw_rreq *rr, u32 done)
{
	rr->sink_to += done;
	rr->src_to += done;
	rr->size -= done;
}
