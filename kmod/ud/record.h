/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagram QPs: peers write into regions, and each message is recorded (Write-Record).
 *
 * Segments are placed as they come, in any order. A message is reported once: when all of it is
 * there, or when nothing came for a while. Before any of it is placed, there is room for a record
 * and for the completion; else it is dropped, so that nothing is ever written unrecorded. A message
 * of one segment needs no record. No message is reported twice, and none written to again that was.
 *
 * All of it is protected by kiw_ud.lock.
 */
#ifndef KIWARP_UD_RECORD_H
#define KIWARP_UD_RECORD_H

#include <linux/types.h>

struct kiw_dgram;
struct kiw_ud;
struct kiw_ud_packet;

/* Messages of several segments that may be incomplete at a time, of all peers of a QP together */
#define KIW_UD_RECORDS 64
/* Senders of messages that are over, which are remembered, so that late segments are known */
#define KIW_UD_SENDERS 256

/**
 * kiw_ud_record_open() - make a new QP a target
 * @ud: QP's part
 * @timeout: until an incomplete message is reported, ms
 *
 * Return: 0 or -ENOMEM.
 */
int kiw_ud_record_open(struct kiw_ud *ud, u32 timeout);

/** kiw_ud_record_close() - free all; nobody finds the QP any more; may sleep */
void kiw_ud_record_close(struct kiw_ud *ud);

/**
 * kiw_ud_record() - place a segment, or drop it
 * @ud: QP's part, of a QP that receives
 * @packet: datagram
 * @d: its header; CRC and Q_Key are good
 *
 * Return: false when the completion queue is dead.
 */
bool kiw_ud_record(struct kiw_ud *ud, const struct kiw_ud_packet *packet,
		   const struct kiw_dgram *d);

/** kiw_ud_record_flush() - report what is incomplete as flushed; the QP is in error */
void kiw_ud_record_flush(struct kiw_ud *ud);

/** kiw_ud_record_forget() - drop what is incomplete, without completions */
void kiw_ud_record_forget(struct kiw_ud *ud);

#endif /* KIWARP_UD_RECORD_H */
