/* SPDX-License-Identifier: GPL-2.0 */
/* Transmit: from work requests and inbound Reads to FPDUs to the socket. */
#ifndef KIWARP_TX_H
#define KIWARP_TX_H

#include <linux/bvec.h>
#include <linux/mm_types_task.h>

#include "kiwarp-abi.h"
#include "proto/ddp.h"
#include "proto/term.h"

#include "device.h"
#include "sq.h"

struct kiw_stream;

/* Octets after which a batch is handed to TCP, while they are hot; the last FPDU may exceed it. */
#define KIW_TX_BATCH	131072
/* Pieces of the longest FPDU in single pages; header and trailer may be cut by a page's end. */
#define KIW_FPDU_PIECES	(65536 / 4096 + 4)
/* Pieces of a batch: one more FPDU is begun as long as the longest finds room. */
#define KIW_TX_PIECES	(KIW_FPDU_PIECES + KIW_TX_BATCH / 4096 + 16)

/**
 * struct kiw_orq - an outbound Read that has not been answered
 * @index: of its request in the send queue
 * @internal: the RTR message: there is no request and no completion
 * @sink_stag: as sent
 * @sink_to: as sent
 * @len: octets
 * @num_sge: entries of @sge
 * @sge: the sink
 */
struct kiw_orq {
	u32		index;
	bool		internal;
	u8		num_sge;
	u32		sink_stag;
	u64		sink_to;
	u32		len;
	struct kiw_sge	sge[];
};

/**
 * struct kiw_spare - memory to build FPDUs with
 * @frag: for their octets
 * @piece: KIW_TX_PIECES of a batch, or NULL
 */
struct kiw_spare {
	struct page_frag	frag;
	struct bio_vec		*piece;
};

/**
 * struct kiw_tx - where the transmit side stands; socket lock
 * @gate: FPDUs may be sent; a responder waits for the first one of its peer
 * @stopped: no message but a Terminate may be started
 * @responding: the message under way is a Read Response
 * @sending: the message under way is that of @req
 * @resp_turn: the next message is a Read Response, if there is one
 * @starved: the last run ended for want of memory
 * @rtr: KIW_RTR_* to be sent before anything else, or 0
 * @msn_send: next number on QN 0
 * @msn_read: next number on QN 1
 * @taken: @req has been taken out of the ring, but is held back
 * @req: the request under way
 * @off: octets of the message under way in FPDUs so far
 * @orq: outbound Reads, @orq_size slots of @orq_stride octets, a power of two
 * @orq_head: oldest
 * @orq_tail: next free
 * @irq: inbound Reads to be answered, @irq_size slots, a power of two
 * @irq_apart: not in memory of who has the rest
 * @irq_head: oldest
 * @irq_tail: next free
 * @term: the Terminate to send, @term_len octets, 0 none or sent
 * @offset: octets of the stream in FPDUs so far, markers included, modulo 2^32
 * @mem: what the batch lies in; only while kiw_tx_run() is running, or has left a part of it
 * @pieces: of the batch; each holds a reference to its page
 * @batch_len: octets in the batch
 * @batch_fpdus: FPDUs in it
 * @batch_sent: octets that TCP took
 * @batch_index: send requests before this are wholly in the batch or earlier ones
 * @sent_index: send requests before this are wholly with TCP
 */
struct kiw_tx {
	bool			gate;
	bool			stopped;
	bool			responding;
	bool			sending;
	bool			taken;
	bool			resp_turn;
	bool			starved;
	bool			irq_apart;
	u8			rtr;
	u32			msn_send;
	u32			msn_read;

	struct kiw_send_req	req;
	u32			off;

	void			*orq;
	u32			orq_size;
	u32			orq_stride;
	u32			orq_head;
	u32			orq_tail;
	struct kiw_rreq		*irq;
	u32			irq_size;
	u32			irq_head;
	u32			irq_tail;

	u8			term[KIW_TERM_MAX_LEN];
	u32			term_len;

	u32			offset;
	struct kiw_spare	mem;
	u32			pieces;
	u32			batch_len;
	u32			batch_fpdus;
	u32			batch_sent;
	u32			batch_index;
	u32			sent_index;
};

/**
 * kiw_tx_init() - prepare the transmit side
 * @tx: zeroed
 * @ord: Reads to have outstanding, one more is added for an RTR that is a Read
 * @ird: Reads to hold for the peer
 * @max_sge: of a Read's sink
 * @room: zeroed memory that lives as long as @tx, for what fits into it
 * @room_len: octets at @room
 *
 * Return: 0 or -ENOMEM.
 */
int kiw_tx_init(struct kiw_tx *tx, u32 ord, u32 ird, u32 max_sge, void *room, size_t room_len);

/** kiw_tx_free() - drop all memory; nothing may be under way any more */
void kiw_tx_free(struct kiw_tx *tx);

/**
 * kiw_tx_run() - send what may be sent
 * @s: stream; socket lock held, as owner or by TCP in softirq
 * @budget: batches to hand to TCP at most
 *
 * Return: true when it stopped before it was through and wants to be called again: memory was
 * short, or it had its share. After a full socket the write-space callback takes over.
 */
bool kiw_tx_run(struct kiw_stream *s, int budget);

/** kiw_tx_exit() - drop the memory kept for streams, when there are none any more */
void kiw_tx_exit(void);

/** kiw_tx_pending() - is there anything that FIN would cut off; socket lock held */
bool kiw_tx_pending(const struct kiw_stream *s);

/** kiw_tx_more() - is there anything to send, if TCP has room; socket lock held */
bool kiw_tx_more(const struct kiw_stream *s);

/** kiw_tx_unfinished() - has anything yet to be given to TCP or to be answered; socket lock held */
bool kiw_tx_unfinished(const struct kiw_stream *s);

static inline struct kiw_orq *kiw_orq_slot(const struct kiw_tx *tx, u32 index)
{
	return tx->orq + (size_t)(index % tx->orq_size) * tx->orq_stride;
}

static inline u32 kiw_orq_len(const struct kiw_tx *tx)
{
	return tx->orq_tail - tx->orq_head;
}

static inline u32 kiw_irq_len(const struct kiw_tx *tx)
{
	return tx->irq_tail - tx->irq_head;
}

#endif /* KIWARP_TX_H */
