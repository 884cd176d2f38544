/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arriving RDMAP messages (RFC 5040 section 5): the sink of the receive machine (proto/receive.h).
 * The session is held.
 */
#ifndef KIW_SESSION_ARRIVE_H
#define KIW_SESSION_ARRIVE_H

#include "../proto/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* KIW_CAP_* with all opcodes in arrive.c */
#define KIW_ARRIVE_CAPS (KIW_CAP_IMM | KIW_CAP_ATOMIC)

#ifdef __cplusplus
}
#endif

#endif /* KIW_SESSION_ARRIVE_H */
