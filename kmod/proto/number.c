// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "number.h"

#define NUMBER_MAGIC "kiwN"
#define NUMBER_VERSION 1
#define NUMBER_READY 0x01 /* of the flags; the others are 0 */

/* All fields are big endian, numbers and PSNs below 2^24. */
struct number_data {
	u8 magic[4];
	u8 version;
	u8 flags;
	u8 reserved[2];
	__be32 from;
	__be32 to;
	__be32 sq_psn;
	__be32 rq_psn;
} __packed;

static_assert(sizeof(struct number_data) == KIW_NUMBER_LEN, "private data");

void kiw_number_build(u8 *b, const struct kiw_number *n)
{
	struct number_data d = {
		.version = NUMBER_VERSION,
		.flags = n->ready ? NUMBER_READY : 0,
		.from = cpu_to_be32(n->from & KIW_QPN_MASK),
		.to = cpu_to_be32(n->to & KIW_QPN_MASK),
		.sq_psn = cpu_to_be32(n->ready ? n->sq_psn & KIW_PSN_MASK : 0),
		.rq_psn = cpu_to_be32(n->rq_psn & KIW_PSN_MASK),
	};

	memcpy(d.magic, NUMBER_MAGIC, sizeof(d.magic));
	memcpy(b, &d, sizeof(d));
}

bool kiw_number_parse(const u8 *b, u32 len, struct kiw_number *n)
{
	struct number_data d;

	if (len != sizeof(d))
		return false;
	memcpy(&d, b, sizeof(d));
	if (memcmp(d.magic, NUMBER_MAGIC, sizeof(d.magic)) || d.version != NUMBER_VERSION ||
	    (d.flags & ~NUMBER_READY) || d.reserved[0] || d.reserved[1])
		return false;
	n->from = be32_to_cpu(d.from);
	n->to = be32_to_cpu(d.to);
	n->sq_psn = be32_to_cpu(d.sq_psn);
	n->rq_psn = be32_to_cpu(d.rq_psn);
	n->ready = d.flags & NUMBER_READY;
	return !((n->from | n->to) & ~KIW_QPN_MASK) && !((n->sq_psn | n->rq_psn) & ~KIW_PSN_MASK) &&
	       (n->ready || !n->sq_psn);
}

bool kiw_number_meets(const struct kiw_number *own, const struct kiw_number *peer)
{
	if (own->to != peer->from || own->from != peer->to || !(own->ready || peer->ready))
		return false;
	return (!peer->ready || peer->sq_psn == own->rq_psn) &&
	       (!own->ready || own->sq_psn == peer->rq_psn);
}

bool kiw_number_dials(const u8 *own, u32 own_qpn, const u8 *peer, u32 peer_qpn)
{
	int order = memcmp(own, peer, 16);

	return order > 0 || (!order && own_qpn > peer_qpn);
}
