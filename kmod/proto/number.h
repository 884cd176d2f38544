/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connecting by queue pair number (Documentation/protocol.md). Programs for InfiniBand exchange
 * addresses, numbers and PSNs of their queue pairs without a connection manager. One end makes the
 * TCP connection; the private data of MPA's Request and Reply name the queue pairs.
 *
 * Each end states one of the two PSNs, never the one that the other end proves: the Request that of
 * a direction in which the dialing end is ready, the Reply the other.
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
 * struct kiw_number - an end's view of itself and of its peer
 * @from: own queue pair number
 * @to: peer's queue pair number
 * @sq_psn: PSN of sending, valid if @ready
 * @rq_psn: PSN of receiving
 * @ready: may send (RTS)
 * @limited: its messages need not wait for a receive without end, valid if @ready
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
 * struct kiw_number_said - contents of a Request or a Reply
 * @from: sender's queue pair number
 * @to: wanted queue pair number
 * @psn: Request: sq_psn if @ready, else rq_psn. Reply: if @ready, the other one, as the answering
 *	end knows it; else 0
 * @nonce: Request: any; Reply: that of the Request
 * @ready: the sender may send (RTS)
 * @limited: its messages need not wait for a receive without end
 * @version: of the format; if it is another, nothing else is known
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

/** Verdict on private data */
enum kiw_number_form {
	KIW_NUMBER_GOOD,
	KIW_NUMBER_OTHER_VERSION,
	KIW_NUMBER_MALFORMED,
};

/** A Reply's proof to the end that dialed */
enum kiw_number_proof {
	KIW_NUMBER_WRONG,	/* not for this Request, or wrong PSN */
	KIW_NUMBER_PROVED,	/* states the PSN that the Request did not */
	KIW_NUMBER_UNPROVED,	/* its end is not ready, and knows no other PSN */
	KIW_NUMBER_LATER,	/* states our future sq_psn, still unknown to us */
};

/**
 * kiw_number_request() - write private data of a Request
 * @b: %KIW_NUMBER_LEN bytes
 * @own: dialing end
 * @nonce: random
 * @said: its contents, to compare the Reply with
 */
void kiw_number_request(u8 *b, const struct kiw_number *own, u64 nonce,
			struct kiw_number_said *said);

/** kiw_number_reply() - write a Reply, %KIW_NUMBER_LEN bytes, to an accepted Request */
void kiw_number_reply(u8 *b, const struct kiw_number *own, const struct kiw_number_said *req);

/** kiw_number_reject() - write a rejection, %KIW_NUMBER_REJECT_LEN bytes: only the version */
void kiw_number_reject(u8 *b);

/** kiw_number_parse() - parse private data of a Request or a Reply, @len bytes */
enum kiw_number_form kiw_number_parse(const u8 *b, u32 len, struct kiw_number_said *said);

/**
 * kiw_number_expects() - the Request of an end's peer
 * @own: dialed end
 * @ready: that of a peer that may send
 * @req: output; @nonce and @limited may be any
 *
 * Return: false: none yet.
 */
bool kiw_number_expects(const struct kiw_number *own, bool ready, struct kiw_number_said *req);

/**
 * kiw_number_answers() - does a Request come from an end's peer, for this end
 * @own: dialed end
 * @req: Request
 *
 * A stranger does not know the PSN. If neither end may send yet, they share none, and the Request
 * waits.
 *
 * Return: whether it does.
 */
bool kiw_number_answers(const struct kiw_number *own, const struct kiw_number_said *req);

/** kiw_number_proves() - does Reply @rep to own Request @req come from the peer */
enum kiw_number_proof kiw_number_proves(const struct kiw_number *own,
					const struct kiw_number_said *req,
					const struct kiw_number_said *rep);

/** kiw_number_dials() - does this end dial: greater address (16 bytes), else greater number */
bool kiw_number_dials(const u8 *own, u32 own_qpn, const u8 *peer, u32 peer_qpn);

#ifdef __cplusplus
}
#endif

#endif
