/* SPDX-License-Identifier: GPL-2.0 */
/* Receive: feeds the socket's queue to the receive machine (proto/receive.h). */
#ifndef KIWARP_RX_H
#define KIWARP_RX_H

#include <linux/types.h>

struct kiw_stream;

/* Receive window of a socket with a CRC, bytes: more than the longest FPDU */
#define KIW_RX_WINDOW (2 * 65536)

/** kiw_rx_pump() - receive, up to a budget; kiw_rx_done() must follow; socket lock held */
void kiw_rx_pump(struct kiw_stream *s);

/** kiw_rx_done() - release processed bytes; TCP may announce the room */
void kiw_rx_done(struct kiw_stream *s);

#endif /* KIWARP_RX_H */
