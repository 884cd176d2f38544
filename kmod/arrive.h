/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an RDMAP message does when it arrives (RFC 5040 section 5): the sink of the receive machine,
 * see proto/receive.h. It belongs to a stream; the socket lock is held.
 */
#ifndef KIWARP_ARRIVE_H
#define KIWARP_ARRIVE_H

#include "proto/ddp.h"

/* KIW_CAP_* of which all opcodes have a row in arrive.c */
#define KIW_ARRIVE_CAPS (KIW_CAP_IMM | KIW_CAP_ATOMIC)

#endif /* KIWARP_ARRIVE_H */
