/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connecting by queue pair number. InfiniBand's programs exchange addresses,
 * numbers and PSNs of their queue pairs among themselves and then name the
 * peer's; there is no connection manager. One of the two ends makes the TCP
 * connection, and the private data of MPA's Request and Reply say which queue
 * pairs are meant. No standard has it; Documentation/protocol.md does.
 *
 * Each end tells one of the two PSNs, and never the one that the other end
 * proves: the Request that of the direction in which the end that dials is
 * ready, the Reply the other one.
 */
#ifndef KIW_PROTO_NUMBER_H
#define KIW_PROTO_NUMBER_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KIW_NUMBER_VERSION 2
#define KIW_NUMBER_LEN 28
#define KIW_NUMBER_REJECT_LEN 8
#define KIW_PSN_MASK 0xffffffU
#define KIW_QPN_MASK 0xffffffU

/**
 * struct kiw_number - what an end knows of itself, and of the end that it wants
 * @from: number of its queue pair
 * @to: number of the peer's
 * @sq_psn: PSN that it was given for what it sends, valid if @ready
 * @rq_psn: PSN that it was given for what it receives
 * @ready: it may send (RTS)
 * @limited: its messages needn't wait for a receive without end, valid if
 *	@ready
 */
struct kiw_number {
	u32 from;
	u32 to;
	u32 sq_psn;
	u32 rq_psn;
	bool ready;
	bool limited;
};

/**
 * struct kiw_number_said - what a Request or a Reply says
 * @from: number of the sender's queue pair
 * @to: number of the queue pair that it wants
 * @psn: in a Request, the sender's sq_psn if it is @ready, and else its
 *	rq_psn; in a Reply of an end that is @ready, the other one of the two,
 *	as the answering end knows it, and else 0
 * @nonce: in a Request anything, and in a Reply the same as in the Request
 * @ready: the sender may send (RTS)
 * @limited: its messages needn't wait for a receive without end
 * @version: of the format, also where it isn't ours and nothing else is known
 */
struct kiw_number_said {
	u32 from;
	u32 to;
	u32 psn;
	u64 nonce;
	bool ready;
	bool limited;
	u8 version;
};

/** enum kiw_number_form - what private data are */
enum kiw_number_form {
	KIW_NUMBER_GOOD,
	KIW_NUMBER_OTHER_VERSION,
	KIW_NUMBER_MALFORMED,
};

/** enum kiw_number_proof - what a Reply proves to the end that dialed */
enum kiw_number_proof {
	KIW_NUMBER_WRONG,	/* it is none for this Request, or its PSN is wrong */
	KIW_NUMBER_PROVED,	/* it tells the PSN that the Request didn't */
	KIW_NUMBER_UNPROVED,	/* its end isn't ready, and knows no other PSN */
	KIW_NUMBER_LATER,	/* it tells our future sq_psn, which we don't know yet */
};

/**
 * kiw_number_request() - write the private data of a Request
 * @b: %KIW_NUMBER_LEN octets
 * @own: the end that dials
 * @nonce: random
 * @said: the same, to compare the Reply with
 */
void kiw_number_request(u8 *b, const struct kiw_number *own, u64 nonce,
			struct kiw_number_said *said);

/**
 * kiw_number_reply() - write the private data of a Reply
 * @b: %KIW_NUMBER_LEN octets
 * @own: the end that answers
 * @req: the Request, which kiw_number_answers() found to be right
 */
void kiw_number_reply(u8 *b, const struct kiw_number *own, const struct kiw_number_said *req);

/**
 * kiw_number_reject() - write the private data of a rejection
 * @b: %KIW_NUMBER_REJECT_LEN octets
 *
 * They say the version, and nothing about any queue pair.
 */
void kiw_number_reject(u8 *b);

/**
 * kiw_number_parse() - read private data of a Request or a Reply
 * @b: octets
 * @len: how many
 * @said: what they say
 *
 * Return: whether they are of this format and version.
 */
enum kiw_number_form kiw_number_parse(const u8 *b, u32 len, struct kiw_number_said *said);

/**
 * kiw_number_answers() - is a Request from the peer of an end, and for this end
 * @own: the end that is dialed
 * @req: the Request
 *
 * The PSN is what a stranger can't know. Where neither end may send yet there
 * is none that both know, and the Request waits.
 *
 * Return: whether it is.
 */
bool kiw_number_answers(const struct kiw_number *own, const struct kiw_number_said *req);

/**
 * kiw_number_proves() - is a Reply from the peer of an end
 * @own: the end that dialed
 * @req: its Request
 * @rep: the Reply
 *
 * Return: what the Reply proves.
 */
enum kiw_number_proof kiw_number_proves(const struct kiw_number *own,
					const struct kiw_number_said *req,
					const struct kiw_number_said *rep);

/**
 * kiw_number_dials() - which of two ends makes the connection
 * @own: this end's address, 16 octets
 * @own_qpn: and number
 * @peer: the other end's address
 * @peer_qpn: and number
 *
 * Return: whether it is this one: the one with the greater address, or, at the
 * same address, the greater number.
 */
bool kiw_number_dials(const u8 *own, u32 own_qpn, const u8 *peer, u32 peer_qpn);

#ifdef __cplusplus
}
#endif

#endif
