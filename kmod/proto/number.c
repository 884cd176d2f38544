// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "number.h"

#define NUMBER_MAGIC "kiwN"
/* Flags; the others are 0 */
#define NUMBER_READY 0x01
#define NUMBER_LIMITED 0x02 /* only with NUMBER_READY */

/* All versions begin like this, rejections included. */
struct number_head {
	u8 magic[4];
	u8 version;
	u8 flags;
	u8 reserved[2];
} __packed;

/* All fields are big endian; numbers and PSNs are below 2^24. */
struct number_data {
	struct number_head head;
	__be32 from;
	__be32 to;
	__be32 psn;
	__be64 nonce;
} __packed;

static_assert(sizeof(struct number_data) == KIW_NUMBER_LEN, "private data");
static_assert(sizeof(struct number_head) == KIW_NUMBER_REJECT_LEN, "of a rejection");

static void number_head(struct number_head *head, u8 flags)
{
	*head = (struct number_head){ .version = KIW_NUMBER_VERSION, .flags = flags };
	memcpy(head->magic, NUMBER_MAGIC, sizeof(head->magic));
}

static void number_write(u8 *b, const struct kiw_number_said *said)
{
	struct number_data d = {
		.from = cpu_to_be32(said->from & KIW_QPN_MASK),
		.to = cpu_to_be32(said->to & KIW_QPN_MASK),
		.psn = cpu_to_be32(said->psn & KIW_PSN_MASK),
		.nonce = cpu_to_be64(said->nonce),
	};

	number_head(&d.head, (said->ready ? NUMBER_READY : 0) |
			     (said->limited ? NUMBER_LIMITED : 0));
	memcpy(b, &d, sizeof(d));
}

void kiw_number_request(u8 *b, const struct kiw_number *own, u64 nonce,
			struct kiw_number_said *said)
{
	said->from = own->from;
	said->to = own->to;
	said->psn = own->ready ? own->sq_psn : own->rq_psn;
	said->nonce = nonce;
	said->ready = own->ready;
	said->limited = own->ready && own->limited;
	said->version = KIW_NUMBER_VERSION;
	number_write(b, said);
}

void kiw_number_reply(u8 *b, const struct kiw_number *own, const struct kiw_number_said *req)
{
	struct kiw_number_said said = {
		.from = own->from,
		.to = own->to,
		.nonce = req->nonce,
		.ready = own->ready,
		.limited = own->ready && own->limited,
	};

	/* An end that may not send yet knows only the PSN that it just received. */
	if (own->ready)
		said.psn = req->ready ? own->sq_psn : own->rq_psn;
	number_write(b, &said);
}

void kiw_number_reject(u8 *b)
{
	struct number_head head;

	number_head(&head, 0);
	memcpy(b, &head, sizeof(head));
}

enum kiw_number_form kiw_number_parse(const u8 *b, u32 len, struct kiw_number_said *said)
{
	struct number_data d;

	if (len < sizeof(d.head))
		return KIW_NUMBER_MALFORMED;
	memcpy(&d.head, b, sizeof(d.head));
	if (memcmp(d.head.magic, NUMBER_MAGIC, sizeof(d.head.magic)))
		return KIW_NUMBER_MALFORMED;
	said->version = d.head.version;
	if (d.head.version != KIW_NUMBER_VERSION)
		return KIW_NUMBER_OTHER_VERSION;
	if (len != sizeof(d) || (d.head.flags & ~(NUMBER_READY | NUMBER_LIMITED)) ||
	    d.head.flags == NUMBER_LIMITED || d.head.reserved[0] || d.head.reserved[1])
		return KIW_NUMBER_MALFORMED;
	memcpy(&d, b, sizeof(d));
	said->from = be32_to_cpu(d.from);
	said->to = be32_to_cpu(d.to);
	said->psn = be32_to_cpu(d.psn);
	said->nonce = be64_to_cpu(d.nonce);
	said->ready = d.head.flags & NUMBER_READY;
	said->limited = d.head.flags & NUMBER_LIMITED;
	if (((said->from | said->to) & ~KIW_QPN_MASK) || (said->psn & ~KIW_PSN_MASK))
		return KIW_NUMBER_MALFORMED;
	return KIW_NUMBER_GOOD;
}

bool kiw_number_expects(const struct kiw_number *own, bool ready, struct kiw_number_said *req)
{
	*req = (struct kiw_number_said){
		.from = own->to,
		.to = own->from,
		.psn = ready ? own->rq_psn : own->sq_psn,
		.ready = ready,
		.version = KIW_NUMBER_VERSION,
	};
	return ready || own->ready;
}

bool kiw_number_answers(const struct kiw_number *own, const struct kiw_number_said *req)
{
	struct kiw_number_said due;

	return kiw_number_expects(own, req->ready, &due) && req->from == due.from &&
	       req->to == due.to && req->psn == due.psn;
}

enum kiw_number_proof kiw_number_proves(const struct kiw_number *own,
					const struct kiw_number_said *req,
					const struct kiw_number_said *rep)
{
	if (rep->from != req->to || rep->to != req->from || rep->nonce != req->nonce)
		return KIW_NUMBER_WRONG;
	if (!req->ready) {
		/* Only an end that may send answers such a Request. */
		if (!rep->ready)
			return KIW_NUMBER_WRONG;
		if (!own->ready)
			return KIW_NUMBER_LATER;
		return rep->psn == own->sq_psn ? KIW_NUMBER_PROVED : KIW_NUMBER_WRONG;
	}
	if (!rep->ready)
		return rep->psn ? KIW_NUMBER_WRONG : KIW_NUMBER_UNPROVED;
	return rep->psn == own->rq_psn ? KIW_NUMBER_PROVED : KIW_NUMBER_WRONG;
}

bool kiw_number_dials(const u8 *own, u32 own_qpn, const u8 *peer, u32 peer_qpn)
{
	int order = memcmp(own, peer, 16);

	return order > 0 || (!order && own_qpn > peer_qpn);
}
