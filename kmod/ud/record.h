/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagram QPs: peers write into regions, and the target gets a record of each message
 * (Write-Record).
 *
 * Segments are placed in any order, as they arrive. A message completes once: when it is whole, or
 * after a time without segments. Before its first byte is placed, a record and room for the
 * completion are reserved, or it is dropped: no write is unrecorded. A message of one segment needs
 * no record. No message completes twice, and none is written to after it completed.
 *
 * Protected by kiw_ud.lock.
 */
#ifndef KIWARP_UD_RECORD_H
#define KIWARP_UD_RECORD_H

#include <linux/types.h>

struct kiw_dgram;
struct kiw_ud;
struct kiw_ud_packet;

/* Most incomplete messages of several segments, of all peers of a QP */
#define KIW_UD_RECORDS 64
/* Remembered senders of completed messages, to detect late segments */
#define KIW_UD_SENDERS 256

/**
 * kiw_ud_record_open() - make a new QP a target
 * @ud: QP's part
 * @timeout: until an incomplete message completes, ms; 0: default
 *
 * Return: 0 or -ENOMEM.
 */
int kiw_ud_record_open(struct kiw_ud *ud, u32 timeout);

/** kiw_ud_record_close() - free all; the QP is unreachable; may sleep */
void kiw_ud_record_close(struct kiw_ud *ud);

/**
 * kiw_ud_record() - place a segment, or drop it
 * @ud: QP's part, of a QP that receives
 * @packet: datagram
 * @d: its header; CRC and Q_Key are good
 *
 * Return: false: the completion queue is dead.
 */
bool kiw_ud_record(struct kiw_ud *ud, const struct kiw_ud_packet *packet,
		   const struct kiw_dgram *d);

/** kiw_ud_record_flush() - complete incomplete messages as flushed; the QP is in error */
void kiw_ud_record_flush(struct kiw_ud *ud);

/** kiw_ud_record_forget() - drop incomplete messages without completions */
void kiw_ud_record_forget(struct kiw_ud *ud);

#endif /* KIWARP_UD_RECORD_H */
