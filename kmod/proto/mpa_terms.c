// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mpa.h"

void kiw_mpa_request(const struct kiw_mpa_cfg *local, struct kiw_mpa_frame *req)
{
	memset(req, 0, sizeof(*req));
	req->kind = KIW_MPA_REQUEST;
	req->rev = local->rev;
	req->crc = local->crc;
	req->markers = local->markers;
	req->large = local->large;
	req->ext = local->ext;
	if (local->rev < KIW_MPA_REV_2)
		return;

	req->enhanced = true;
	req->ird = min_t(u16, local->ird, KIW_DEPTH_MAX);
	req->ord = min_t(u16, local->ord, KIW_DEPTH_MAX);
	if (local->p2p) {
		req->p2p = true;
		req->rtr = local->rtr;
		if (req->rtr & KIW_RTR_READ)
			req->ord = max_t(u16, req->ord, 1);
	}
}

/* Terms that both sides derive alike from both frames */
static void settle(const struct kiw_mpa_frame *own, const struct kiw_mpa_frame *peer,
		   struct kiw_mpa_result *res)
{
	memset(res, 0, sizeof(*res));
	res->crc = own->crc || peer->crc;
	res->markers_tx = peer->markers;
	res->markers_rx = own->markers;
	res->large = own->large && peer->large;
	res->ext = own->ext && peer->ext;
	res->peer_ird = peer->enhanced ? peer->ird : KIW_DEPTH_UNSET;
	res->peer_ord = peer->enhanced ? peer->ord : KIW_DEPTH_UNSET;
}

enum kiw_err kiw_mpa_answer(const struct kiw_mpa_cfg *local, const struct kiw_mpa_frame *req,
			    struct kiw_mpa_frame *rep, struct kiw_mpa_result *res)
{
	u16 ird = min_t(u16, local->ird, KIW_DEPTH_MAX);
	u16 ord = min_t(u16, local->ord, KIW_DEPTH_MAX);
	u16 ird_max = max_t(u16, ird, min_t(u16, local->ird_max, KIW_DEPTH_MAX));
	enum kiw_err err = KIW_OK;

	memset(rep, 0, sizeof(*rep));
	rep->kind = KIW_MPA_REPLY;
	rep->rev = req->rev;
	rep->crc = local->crc || req->crc;
	rep->markers = local->markers;
	rep->large = local->large && req->large;
	rep->ext = local->ext && req->ext;
	rep->enhanced = req->enhanced;

	if (req->p2p) {
		/* The RFC wants an offer even without a match. */
		rep->p2p = true;
		rep->rtr = local->rtr & req->rtr ? local->rtr & req->rtr : local->rtr;
		if (rep->rtr & KIW_RTR_READ) {
			ird = max_t(u16, ird, 1);
			ird_max = max_t(u16, ird_max, ird);
		}
	}
	if (req->enhanced && req->ord != KIW_DEPTH_UNSET) {
		ird = max_t(u16, ird, min_t(u16, req->ord, ird_max));
		if (ird < req->ord)
			err = KIW_ERR_LLP_IRD;
	}
	if (req->enhanced && req->ird != KIW_DEPTH_UNSET)
		ord = min_t(u16, ord, req->ird);

	if (req->enhanced) {
		rep->ird = req->ord == KIW_DEPTH_UNSET ? KIW_DEPTH_UNSET : ird;
		rep->ord = req->ird == KIW_DEPTH_UNSET ? KIW_DEPTH_UNSET : ord;
	}

	settle(rep, req, res);
	res->rev = rep->rev;
	res->enhanced = rep->enhanced;
	res->p2p = rep->p2p;
	res->rtr = rep->rtr;
	res->ird = ird;
	res->ord = ord;
	return req->rev > local->rev ? KIW_ERR_LLP_FRAME : err;
}

/* Cheapest first: a Write uses nothing, a Read a slot, a Send a receive buffer. */
static u8 choose_rtr(u8 mask)
{
	if (mask & KIW_RTR_WRITE)
		return KIW_RTR_WRITE;
	if (mask & KIW_RTR_READ)
		return KIW_RTR_READ;
	return mask & KIW_RTR_SEND;
}

enum kiw_err kiw_mpa_conclude(const struct kiw_mpa_cfg *local, const struct kiw_mpa_frame *req,
			      const struct kiw_mpa_frame *rep, struct kiw_mpa_result *res)
{
	u8 usable;

	settle(req, rep, res);
	res->rev = rep->rev;
	res->enhanced = req->enhanced;
	res->p2p = req->p2p;
	res->ird = req->enhanced ? req->ird : local->ird;
	res->ord = req->enhanced ? req->ord : local->ord;

	if (rep->enhanced != req->enhanced || rep->rev > req->rev)
		return KIW_ERR_LLP_FRAME;
	if (!req->enhanced)
		return KIW_OK;

	if (rep->ird != KIW_DEPTH_UNSET)
		res->ord = min_t(u16, res->ord, rep->ird);
	if (rep->ord != KIW_DEPTH_UNSET && rep->ord > res->ird)
		return KIW_ERR_LLP_IRD;
	if (!req->p2p)
		return KIW_OK;

	usable = req->rtr & rep->rtr;
	if (!res->ord)
		usable &= ~KIW_RTR_READ;
	res->rtr = choose_rtr(usable);
	return res->rtr ? KIW_OK : KIW_ERR_LLP_RTR;
}
