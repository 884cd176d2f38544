/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Messages as FPDUs (RFC 5040 section 4). Each function adds the next FPDU of a message to the
 * batch; the session is held. Return: 0, even if the message failed and ended the stream; or
 * -ENOMEM, nothing added.
 */
#ifndef KIW_SESSION_MESSAGE_H
#define KIW_SESSION_MESSAGE_H

#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kiw_session;

int kiw_message_request(struct kiw_session *s);

/** kiw_message_response() - of the response to the oldest inbound Read or atomic */
int kiw_message_response(struct kiw_session *s);

/** kiw_message_rtr() - the ready-to-receive message (RFC 6581); it completes nothing */
int kiw_message_rtr(struct kiw_session *s);

int kiw_message_terminate(struct kiw_session *s);

/** kiw_message_next() - most bytes of the next ULPDU; adds nothing */
u32 kiw_message_next(const struct kiw_session *s);

/** kiw_message_failed() - fail the current request with @status and tell the peer */
void kiw_message_failed(struct kiw_session *s, enum ib_wc_status status);

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_MESSAGE_H */
