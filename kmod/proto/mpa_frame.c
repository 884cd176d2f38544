// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mpa.h"

static const char *mpa_key(enum kiw_mpa_kind kind)
{
	return kind == KIW_MPA_REPLY ? KIW_MPA_KEY_REP : KIW_MPA_KEY_REQ;
}

static u8 mpa_large_bit(enum kiw_mpa_kind kind)
{
	return kind == KIW_MPA_REPLY ? KIW_MPA_LARGE_REP : KIW_MPA_LARGE_REQ;
}

static u8 mpa_ext_bit(enum kiw_mpa_kind kind)
{
	return kind == KIW_MPA_REPLY ? KIW_MPA_EXT_REP : KIW_MPA_EXT_REQ;
}

static enum kiw_step frame_bad(struct kiw_mpa_frame *f, enum kiw_mpa_bad why)
{
	f->bad = why;
	return KIW_BAD;
}

static enum kiw_step frame_more(struct kiw_mpa_frame *f, u32 need)
{
	f->need = need;
	return KIW_MORE;
}

static void frame_parse_v2(const void *p, struct kiw_mpa_frame *f)
{
	const struct kiw_mpa_v2 *w = p;
	u16 ird = be16_to_cpu(w->ird);
	u16 ord = be16_to_cpu(w->ord);

	f->ird = ird & KIW_V2_DEPTH;
	f->ord = ord & KIW_V2_DEPTH;
	f->p2p = ird & KIW_V2_P2P;
	if (!f->p2p)
		return;
	if (ird & KIW_V2_RTR_SEND)
		f->rtr |= KIW_RTR_SEND;
	if (ord & KIW_V2_RTR_WRITE)
		f->rtr |= KIW_RTR_WRITE;
	if (ord & KIW_V2_RTR_READ)
		f->rtr |= KIW_RTR_READ;
}

enum kiw_step kiw_mpa_parse(const u8 *buf, size_t have, enum kiw_mpa_kind kind,
			    struct kiw_mpa_frame *f)
{
	const struct kiw_mpa_hdr *hdr = (const void *)buf;
	u32 pd_len, pd_off = sizeof(*hdr);

	memset(f, 0, sizeof(*f));
	f->kind = kind;
	if (memcmp(buf, mpa_key(kind), min_t(size_t, have, sizeof(hdr->key))))
		return frame_bad(f, KIW_MPA_BAD_KEY);
	if (have < sizeof(*hdr))
		return frame_more(f, sizeof(*hdr));

	pd_len = be16_to_cpu(hdr->pd_len);
	if (hdr->rev != KIW_MPA_REV_1 && hdr->rev != KIW_MPA_REV_2)
		return frame_bad(f, KIW_MPA_BAD_REV);
	if (pd_len > KIW_MPA_PD_MAX)
		return frame_bad(f, KIW_MPA_BAD_PD_LEN);
	/* Revision 1 reserves this bit. */
	f->enhanced = hdr->rev == KIW_MPA_REV_2 && (hdr->flags & KIW_MPA_ENHANCED);
	if (f->enhanced && pd_len < sizeof(struct kiw_mpa_v2))
		return frame_bad(f, KIW_MPA_BAD_V2);
	if (have < sizeof(*hdr) + pd_len)
		return frame_more(f, sizeof(*hdr) + pd_len);

	f->rev = hdr->rev;
	f->reject = kind == KIW_MPA_REPLY && (hdr->flags & KIW_MPA_REJECT);
	f->crc = hdr->flags & KIW_MPA_CRC;
	f->markers = hdr->flags & KIW_MPA_MARKERS;
	f->large = hdr->flags & mpa_large_bit(kind);
	f->ext = hdr->flags & mpa_ext_bit(kind);
	f->len = sizeof(*hdr) + pd_len;
	if (f->enhanced) {
		frame_parse_v2(buf + sizeof(*hdr), f);
		pd_off += sizeof(struct kiw_mpa_v2);
	}
	f->pd = buf + pd_off;
	f->pd_len = f->len - pd_off;
	return KIW_DONE;
}

static void frame_build_v2(void *p, const struct kiw_mpa_frame *f)
{
	struct kiw_mpa_v2 *w = p;
	u16 ird = f->ird & KIW_V2_DEPTH;
	u16 ord = f->ord & KIW_V2_DEPTH;

	if (f->p2p) {
		ird |= KIW_V2_P2P;
		if (f->rtr & KIW_RTR_SEND)
			ird |= KIW_V2_RTR_SEND;
		if (f->rtr & KIW_RTR_WRITE)
			ord |= KIW_V2_RTR_WRITE;
		if (f->rtr & KIW_RTR_READ)
			ord |= KIW_V2_RTR_READ;
	}
	w->ird = cpu_to_be16(ird);
	w->ord = cpu_to_be16(ord);
}

u32 kiw_mpa_build(void *p, const struct kiw_mpa_frame *f)
{
	u32 v2_len = f->enhanced ? sizeof(struct kiw_mpa_v2) : 0;
	struct kiw_mpa_hdr *hdr = p;
	u8 *out = p;

	memcpy(hdr->key, mpa_key(f->kind), sizeof(hdr->key));
	hdr->flags = 0;
	if (f->markers)
		hdr->flags |= KIW_MPA_MARKERS;
	if (f->crc)
		hdr->flags |= KIW_MPA_CRC;
	if (f->reject)
		hdr->flags |= KIW_MPA_REJECT;
	if (f->enhanced)
		hdr->flags |= KIW_MPA_ENHANCED;
	if (f->large)
		hdr->flags |= mpa_large_bit(f->kind);
	if (f->ext)
		hdr->flags |= mpa_ext_bit(f->kind);
	hdr->rev = f->rev;
	hdr->pd_len = cpu_to_be16(v2_len + f->pd_len);
	out += sizeof(*hdr);

	if (f->enhanced)
		frame_build_v2(out, f);
	out += v2_len;
	if (f->pd_len)
		memcpy(out, f->pd, f->pd_len);
	return out + f->pd_len - (u8 *)p;
}
