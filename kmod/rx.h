/* SPDX-License-Identifier: GPL-2.0 */
/* Receive: the socket's queue goes through the receive machine of proto/receive.h. */
#ifndef KIWARP_RX_H
#define KIWARP_RX_H

#include <linux/types.h>

struct kiw_stream;

/* Bytes of the peer's that a socket with a CRC has room for, those of the longest FPDU and more */
#define KIW_RX_WINDOW (2 * 65536)

/**
 * kiw_rx_pump() - take what TCP has for us
 * @s: stream; socket lock held, any context
 *
 * Takes whole FPDUs, and parts where no CRC has to be seen first, up to a budget; leftovers are the
 * stream's work. kiw_rx_done() has to follow.
 */
void kiw_rx_pump(struct kiw_stream *s);

/** kiw_rx_done() - TCP needn't keep what the pump took; it may tell the peer of the room */
void kiw_rx_done(struct kiw_stream *s);

#endif /* KIWARP_RX_H */
