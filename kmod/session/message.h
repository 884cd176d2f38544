/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Messages as FPDUs: each function adds the next FPDU of one message to the stream's batch (RFC
 * 5040 section 4). The socket lock is held. They return 0, also when the message turned out to be
 * impossible, which ends the stream; or -ENOMEM, and nothing was added.
 */
#ifndef KIW_SESSION_MESSAGE_H
#define KIW_SESSION_MESSAGE_H

#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_session;

/** kiw_message_request() - of the request that is under way */
int kiw_message_request(struct kiw_session *s);

/** kiw_message_response() - of the response to the oldest inbound Read or atomic */
int kiw_message_response(struct kiw_session *s);

/** kiw_message_rtr() - the ready-to-receive message of RFC 6581; it completes nothing */
int kiw_message_rtr(struct kiw_session *s);

/** kiw_message_terminate() - the Terminate that is due */
int kiw_message_terminate(struct kiw_session *s);

/**
 * kiw_message_failed() - the request under way can't be sent
 * @s: stream
 * @status: that it completes with; the peer learns that this side gave up
 */
void kiw_message_failed(struct kiw_session *s, enum ib_wc_status status);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_MESSAGE_H */
