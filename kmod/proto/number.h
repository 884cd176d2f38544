/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connecting by queue pair number. InfiniBand's programs exchange addresses,
 * numbers and PSNs of their queue pairs among themselves and then name the
 * peer's; there is no connection manager. One of the two ends makes the TCP
 * connection, and the private data of MPA's Request and Reply say which queue
 * pairs are meant. No standard has it; Documentation/protocol.md does.
 */
#ifndef KIW_PROTO_NUMBER_H
#define KIW_PROTO_NUMBER_H

#include "os.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KIW_NUMBER_LEN 24
#define KIW_PSN_MASK 0xffffffU
#define KIW_QPN_MASK 0xffffffU

/**
 * struct kiw_number - what an end says of itself, and of the end that it wants
 * @from: number of its queue pair
 * @to: number of the peer's
 * @sq_psn: PSN that it was given for what it sends, valid if @ready
 * @rq_psn: PSN that it was given for what it receives
 * @ready: it may send (RTS)
 */
struct kiw_number {
	u32 from;
	u32 to;
	u32 sq_psn;
	u32 rq_psn;
	bool ready;
};

/**
 * kiw_number_build() - write private data
 * @b: %KIW_NUMBER_LEN octets
 * @n: what to say
 */
void kiw_number_build(u8 *b, const struct kiw_number *n);

/**
 * kiw_number_parse() - read private data
 * @b: octets
 * @len: how many
 * @n: what they say
 *
 * Return: whether they are of this format and version.
 */
bool kiw_number_parse(const u8 *b, u32 len, struct kiw_number *n);

/**
 * kiw_number_meets() - do two ends want each other
 * @own: this one
 * @peer: what the other one says
 *
 * The PSNs are what a stranger can't know: each end that may send has given its
 * own to the other. Where neither may send yet, nothing can be compared, and
 * they have to try again later.
 *
 * Return: whether they do.
 */
bool kiw_number_meets(const struct kiw_number *own, const struct kiw_number *peer);

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
