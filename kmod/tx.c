// SPDX-License-Identifier: GPL-2.0
/*
 * Transmit. FPDUs are built in page fragments of our own: the payload is copied there once, with
 * the CRC taken from the copy, so that nobody can change what the CRC covers. TCP gets the pages of
 * a whole batch in one call, without another copy where it can splice. Markers are put between the
 * octets while these are copied.
 *
 * A request completes when TCP has taken its last FPDU: its buffers were free before that.
 */
#include <linux/log2.h>
#include <net/tcp.h>

#include "compat.h"
#include "mr.h"
#include "rdmap.h"
#include "stream.h"
#include "proto/crc.h"
#include "proto/fpdu.h"

/* Payload of an FPDU that needn't fit a segment: whole pages, and still hot when it is read. */
#define TX_LARGE 32768
/* PAD, a marker and the CRC */
#define FPDU_TAIL_MAX (KIW_FPDU_PAD_MAX + KIW_MARKER_SIZE + KIW_FPDU_CRC_SIZE)
/* First index of Reads, so that whatever is wrong when they wrap shows in every test */
#define READS_START (-16U)

/*
 * What no stream is using: it has a fragment and an array of pieces only while it sends, so that
 * idle ones cost neither. The second is for softirqs: one of a local peer runs in the middle of a
 * process that sends. BH off, and @lock: with PREEMPT_RT, BH off excludes nobody.
 */
struct spares {
	local_lock_t		lock;
	struct kiw_spare	spare[2];
};

static DEFINE_PER_CPU(struct spares, spares) = { .lock = INIT_LOCAL_LOCK(lock) };

int kiw_tx_init(struct kiw_tx *tx, u32 ord, u32 ird, u32 max_sge, void *room, size_t room_len)
{
	/* One more of each for an RTR message that is a Read. Indexes wrap, and do so soon. */
	tx->orq_size = roundup_pow_of_two(ord + 1);
	tx->irq_size = roundup_pow_of_two(ird + 1);
	tx->orq_head = READS_START;
	tx->orq_tail = READS_START;
	tx->irq_head = READS_START;
	tx->irq_tail = READS_START;
	tx->orq_stride = struct_size_t(struct kiw_orq, sge, max_sge);
	tx->orq = kvcalloc(tx->orq_size, tx->orq_stride, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	tx->irq_apart = array_size(tx->irq_size, sizeof(*tx->irq)) > room_len;
	tx->irq = !tx->irq_apart ? room :
		  kvcalloc(tx->irq_size, sizeof(*tx->irq), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	tx->msn_send = KIW_MSN_FIRST;
	tx->msn_read = KIW_MSN_FIRST;
	if (tx->orq && tx->irq)
		return 0;
	kiw_tx_free(tx);
	return -ENOMEM;
}

static void pieces_drop(struct kiw_tx *tx, u32 keep)
{
	while (tx->pieces > keep)
		put_page(tx->mem.piece[--tx->pieces].bv_page);
}

static void spare_drop(struct kiw_spare *spare)
{
	if (spare->frag.page)
		put_page(spare->frag.page);
	spare->frag.page = NULL;
	kfree(spare->piece);
	spare->piece = NULL;
}

void kiw_tx_free(struct kiw_tx *tx)
{
	pieces_drop(tx, 0);
	spare_drop(&tx->mem);
	kvfree(tx->orq);
	if (tx->irq_apart)
		kvfree(tx->irq);
	tx->orq = NULL;
	tx->irq = NULL;
}

bool kiw_tx_pending(const struct kiw_stream *s)
{
	return s->tx.term_len || s->tx.batch_sent < s->tx.batch_len;
}

bool kiw_tx_more(const struct kiw_stream *s)
{
	const struct kiw_tx *tx = &s->tx;

	/* What was taken and doesn't go waits for a Read, and all behind it does. */
	return kiw_tx_pending(s) || tx->sending || kiw_irq_len(tx) ||
	       (!tx->taken && kiw_sq_posted(&s->qp->sq));
}

bool kiw_tx_unfinished(const struct kiw_stream *s)
{
	return kiw_tx_more(s) || kiw_orq_len(&s->tx) || kiw_sq_posted(&s->qp->sq) ||
	       s->qp->sq.next != s->tx.sent_index;
}

/*
 * One FPDU under construction. It can be taken back as long as nothing was handed to TCP: memory
 * may run out, or a region may be gone in the middle.
 */
struct fpdu {
	struct kiw_stream	*s;
	struct kiw_marker	mk;
	u32			crc;
	u32			ulpdu_len;
	u32			pieces;		/* of the batch before it, */
	u32			last_len;	/* octets in the last of them, */
	u32			batch_len;	/* and in all */
};

static void fpdu_grow(struct fpdu *f, u32 n)
{
	struct kiw_tx *tx = &f->s->tx;
	struct page_frag *frag = &tx->mem.frag;
	struct bio_vec *last = tx->pieces ? &tx->mem.piece[tx->pieces - 1] : NULL;

	if (last && last->bv_page == frag->page &&
	    last->bv_offset + last->bv_len == frag->offset) {
		last->bv_len += n;
	} else {
		get_page(frag->page);
		bvec_set_page(&tx->mem.piece[tx->pieces++], frag->page, n, frag->offset);
	}
	frag->offset += n;
	tx->batch_len += n;
}

/* Append @n octets of the wire, which nobody else can change, in one run. */
static int fpdu_append(struct fpdu *f, const void *p, u32 n)
{
	struct page_frag *frag = &f->s->tx.mem.frag;

	if (!skb_page_frag_refill(n, frag, f->s->sk->sk_allocation))
		return -ENOMEM;
	memcpy(page_address(frag->page) + frag->offset, p, n);
	fpdu_grow(f, n);
	return 0;
}

static int fpdu_put_marker(struct fpdu *f)
{
	u8 marker[KIW_MARKER_SIZE];

	kiw_marker_put(&f->mk, marker);
	if (f->s->neg.crc)
		f->crc = kiw_crc_update(f->crc, marker, sizeof(marker));
	return fpdu_append(f, marker, sizeof(marker));
}

/*
 * Where the next of @n octets go, and how many of them in one run: at least @least if no marker
 * comes first, more if that is cheap. They have to be written before anything else is appended.
 */
static void *fpdu_room(struct fpdu *f, u32 least, u32 n, u32 *run)
{
	struct page_frag *frag = &f->s->tx.mem.frag;

	if (unlikely(kiw_marker_due(&f->mk)) && fpdu_put_marker(f))
		return NULL;
	if (!skb_page_frag_refill(least, frag, f->s->sk->sk_allocation))
		return NULL;
	*run = kiw_marker_run(&f->mk, min(n, frag->size - frag->offset));
	return page_address(frag->page) + frag->offset;
}

static void copy_crc(struct fpdu *f, void *to, const void *from, u32 n)
{
	if (f->s->neg.crc)
		f->crc = kiw_crc_copy(f->crc, to, from, n);
	else
		memcpy(to, from, n);
}

/* Append @n octets of the ULPDU, few of them; each is read once. */
static int fpdu_put(struct fpdu *f, const void *p, u32 n)
{
	u32 run;
	void *to;

	for (; n; p += run, n -= run) {
		to = fpdu_room(f, n, n, &run);
		if (!to)
			return -ENOMEM;
		copy_crc(f, to, p, run);
		fpdu_grow(f, run);
	}
	return 0;
}

static int fpdu_begin(struct fpdu *f, struct kiw_stream *s, const void *hdr, u32 hdr_len,
		      u32 payload)
{
	struct kiw_tx *tx = &s->tx;
	u8 buf[KIW_FPDU_LEN_SIZE + KIW_HDR_MAX];

	f->s = s;
	kiw_marker_begin(&f->mk, tx->offset, s->neg.markers_tx);
	f->crc = kiw_crc_init();
	f->ulpdu_len = hdr_len + payload;
	f->pieces = tx->pieces;
	f->last_len = tx->pieces ? tx->mem.piece[tx->pieces - 1].bv_len : 0;
	f->batch_len = tx->batch_len;

	put_unaligned_be16(f->ulpdu_len, buf);
	memcpy(buf + KIW_FPDU_LEN_SIZE, hdr, hdr_len);
	return fpdu_put(f, buf, KIW_FPDU_LEN_SIZE + hdr_len);
}

static int fpdu_end(struct fpdu *f)
{
	u8 buf[FPDU_TAIL_MAX] = {};
	struct kiw_tx *tx = &f->s->tx;
	__le32 crc = 0;
	u32 n;
	int ret;

	/* PAD fills up to where a marker may be, so that none comes before its end. */
	n = kiw_marker_run(&f->mk, kiw_fpdu_pad(f->ulpdu_len));
	if (unlikely(kiw_marker_due(&f->mk))) {
		kiw_marker_put(&f->mk, buf + n);
		n += KIW_MARKER_SIZE;
	}
	if (f->s->neg.crc)
		crc = kiw_crc_wire(kiw_crc_update(f->crc, buf, n));
	memcpy(buf + n, &crc, sizeof(crc));
	ret = fpdu_append(f, buf, n + KIW_FPDU_CRC_SIZE);
	if (!ret) {
		tx->offset += tx->batch_len - f->batch_len;
		tx->batch_fpdus++;
	}
	return ret;
}

static void fpdu_undo(struct fpdu *f)
{
	struct kiw_tx *tx = &f->s->tx;

	pieces_drop(tx, f->pieces);
	if (tx->pieces)
		tx->mem.piece[tx->pieces - 1].bv_len = f->last_len;
	tx->batch_len = f->batch_len;
}

/* Append @n octets of a region. The look-up is good for one read-side section only. */
static int fpdu_put_region(struct fpdu *f, u32 stag, int access, u64 addr, u32 n,
			   enum kiw_mr_fault *fault)
{
	struct kiw_stream *s = f->s;
	struct kiw_mr *mr;
	u32 part, chunk;
	void *to, *from;
	int idx;

	while (n) {
		to = fpdu_room(f, 1, n, &part);
		if (!to)
			return -ENOMEM;
		idx = kiw_mr_lock();
		*fault = kiw_mr_find(s->dev, s->qp->ibqp.pd, stag, access, addr, part, &mr);
		if (*fault) {
			kiw_mr_unlock(idx);
			return -EFAULT;
		}
		for (u32 done = 0; done < part; done += chunk) {
			chunk = part - done;
			from = kiw_mr_chunk(mr, addr + done, &chunk);
			copy_crc(f, to + done, from, chunk);
			kunmap_local(from);
		}
		kiw_mr_unlock(idx);
		fpdu_grow(f, part);
		addr += part;
		n -= part;
	}
	return 0;
}

/* Append @n octets of the request under way, from @off. */
static int fpdu_put_request(struct fpdu *f, u32 off, u32 n, enum kiw_mr_fault *fault)
{
	const struct kiw_send_req *req = &f->s->tx.req;
	const struct kiw_sge *sge = req->sge;
	u32 part;
	int ret;

	if (req->wqe.flags & KIW_WQE_INLINE)
		return fpdu_put(f, req->inline_data + off, n);
	for (; n; sge++) {
		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		part = min(n, sge->length - off);
		ret = fpdu_put_region(f, sge->lkey, 0, sge->addr + off, part, fault);
		if (ret)
			return ret;
		off = 0;
		n -= part;
	}
	return 0;
}

/* A whole FPDU without payload. */
static int put_control(struct kiw_stream *s, const void *ulpdu, u32 len)
{
	struct fpdu f;
	int ret;

	ret = fpdu_begin(&f, s, ulpdu, len, 0);
	if (!ret)
		ret = fpdu_end(&f);
	if (ret)
		fpdu_undo(&f);
	return ret;
}

static u32 max_payload(const struct kiw_stream *s, u32 hdr_len)
{
	if (s->neg.large)
		return TX_LARGE;
	return kiw_mulpdu(READ_ONCE(tcp_sk(s->sk)->mss_cache), s->neg.markers_tx) - hdr_len;
}

/* A request of ours can't be sent: it completes with @status, the peer learns that we gave up. */
static void request_failed(struct kiw_stream *s, u32 index, enum ib_wc_status status)
{
	kiw_sq_done(&s->qp->sq, index, status);
	s->tx.sending = false;
	s->tx.taken = false;
	kiw_stream_fail(s, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
}

static u8 wire_op(const struct kiw_wqe *wqe)
{
	bool se = wqe->flags & KIW_WQE_SOLICITED;

	switch (wqe->opcode) {
	case KIW_WR_WRITE:
		return KIW_OP_WRITE;
	case KIW_WR_READ:
		return KIW_OP_READ_REQ;
	case KIW_WR_SEND_INV:
		return se ? KIW_OP_SEND_SE_INV : KIW_OP_SEND_INV;
	default:
		return se ? KIW_OP_SEND_SE : KIW_OP_SEND;
	}
}

static int put_read(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_orq *o = kiw_orq_slot(tx, tx->orq_tail);
	u8 ulpdu[KIW_RREQ_LEN];
	struct kiw_rreq rr;
	int ret;

	o->index = tx->req.index;
	o->internal = false;
	o->num_sge = tx->req.wqe.num_sge;
	o->len = tx->req.len;
	memcpy(o->sge, tx->req.sge, o->num_sge * sizeof(o->sge[0]));
	/*
	 * The response is placed by this entry. A single buffer is named as it is; for several the
	 * offset counts from 0.
	 */
	o->sink_stag = o->num_sge ? o->sge[0].lkey : 0;
	o->sink_to = o->num_sge == 1 ? o->sge[0].addr : 0;
	rr.sink_stag = o->sink_stag;
	rr.sink_to = o->sink_to;
	rr.size = o->len;
	rr.src_stag = tx->req.wqe.rkey;
	rr.src_to = tx->req.wqe.remote_addr;
	ret = put_control(s, ulpdu, kiw_build_rreq(ulpdu, tx->msn_read, &rr));
	if (ret)
		return ret;
	tx->msn_read++;
	tx->orq_tail++;
	tx->sending = false;
	tx->batch_index = tx->req.index + 1;
	return 0;
}

static int put_request(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	const struct kiw_wqe *wqe = &tx->req.wqe;
	enum kiw_mr_fault fault;
	u8 op = wire_op(wqe);
	u8 hdr[KIW_HDR_MAX];
	struct fpdu f;
	u32 n, hdr_len;
	bool last;
	int ret;

	if (wqe->opcode == KIW_WR_READ)
		return put_read(s);

	hdr_len = wqe->opcode == KIW_WR_WRITE ? KIW_TAGGED_LEN : KIW_UNTAGGED_LEN;
	n = min(tx->req.len - tx->off, max_payload(s, hdr_len));
	last = tx->off + n == tx->req.len;
	if (wqe->opcode == KIW_WR_WRITE)
		kiw_build_tagged(hdr, op, last, wqe->rkey, wqe->remote_addr + tx->off);
	else
		kiw_build_untagged(hdr, op, last, wqe->opcode == KIW_WR_SEND_INV ? wqe->rkey : 0,
				   KIW_QN_SEND, tx->msn_send, tx->off);

	ret = fpdu_begin(&f, s, hdr, hdr_len, n);
	if (!ret)
		ret = fpdu_put_request(&f, tx->off, n, &fault);
	if (!ret)
		ret = fpdu_end(&f);
	if (ret) {
		fpdu_undo(&f);
		if (ret == -EFAULT) {
			request_failed(s, tx->req.index, IB_WC_LOC_PROT_ERR);
			ret = 0;
		}
		return ret;
	}
	tx->off += n;
	if (last) {
		if (wqe->opcode != KIW_WR_WRITE)
			tx->msn_send++;
		tx->sending = false;
		tx->batch_index = tx->req.index + 1;
	}
	return 0;
}

/* A region that the peer reads from is gone or never was its to read. */
static void response_failed(struct kiw_stream *s, const struct kiw_rreq *irq,
			    enum kiw_mr_fault fault)
{
	struct kiw_rreq rr = *irq;
	u32 msn = KIW_MSN_FIRST + s->tx.irq_head - READS_START;
	u8 ulpdu[KIW_RREQ_LEN];

	kiw_rreq_advance(&rr, s->tx.off);
	kiw_build_rreq(ulpdu, msn, &rr);
	s->tx.responding = false;
	kiw_stream_fail(s, kiw_rdmap_fault(fault), ulpdu, sizeof(ulpdu), sizeof(ulpdu));
}

static int put_response(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	const struct kiw_rreq *irq = &tx->irq[tx->irq_head % tx->irq_size];
	u32 n = min(irq->size - tx->off, max_payload(s, KIW_TAGGED_LEN));
	bool last = tx->off + n == irq->size;
	enum kiw_mr_fault fault;
	u8 hdr[KIW_TAGGED_LEN];
	struct fpdu f;
	int ret;

	kiw_build_tagged(hdr, KIW_OP_READ_RESP, last, irq->sink_stag,
			 irq->sink_to + tx->off);
	ret = fpdu_begin(&f, s, hdr, sizeof(hdr), n);
	if (!ret)
		ret = fpdu_put_region(&f, irq->src_stag, IB_ACCESS_REMOTE_READ,
				      irq->src_to + tx->off, n, &fault);
	if (!ret)
		ret = fpdu_end(&f);
	if (ret) {
		fpdu_undo(&f);
		if (ret == -EFAULT) {
			response_failed(s, irq, fault);
			ret = 0;
		}
		return ret;
	}
	tx->off += n;
	if (last) {
		tx->irq_head++;
		tx->responding = false;
	}
	return 0;
}

/* The ready-to-receive message of RFC 6581; it has no request and completes nothing. */
static int put_rtr(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_rreq rr = { .sink_stag = 1 };
	u8 ulpdu[KIW_HDR_MAX];
	struct kiw_orq *o;
	u32 len;
	int ret;

	switch (tx->rtr) {
	case KIW_RTR_READ:
		len = kiw_build_rreq(ulpdu, tx->msn_read, &rr);
		break;
	case KIW_RTR_SEND:
		len = kiw_build_untagged(ulpdu, KIW_OP_SEND, true, 0, KIW_QN_SEND, tx->msn_send, 0);
		break;
	default:
		/* Nobody may look at the STag, but some hardware dislikes 0. */
		len = kiw_build_tagged(ulpdu, KIW_OP_WRITE, true, 1, 0);
	}
	ret = put_control(s, ulpdu, len);
	if (ret)
		return ret;
	if (tx->rtr == KIW_RTR_READ) {
		o = kiw_orq_slot(tx, tx->orq_tail++);
		*o = (struct kiw_orq){ .internal = true, .sink_stag = rr.sink_stag };
		tx->msn_read++;
	} else if (tx->rtr == KIW_RTR_SEND) {
		tx->msn_send++;
	}
	tx->rtr = 0;
	return 0;
}

/* Start the next request, if there is one and nothing holds it back. */
static bool start_request(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_qp *qp = s->qp;

	if (!tx->taken) {
		switch (kiw_sq_take(&qp->sq, &tx->req)) {
		case KIW_TAKE_NONE:
			return false;
		case KIW_TAKE_ONE:
			if (tx->req.wqe.opcode == KIW_WR_READ && !qp->ord) {
				request_failed(s, tx->req.index, IB_WC_LOC_QP_OP_ERR);
				return false;
			}
			tx->taken = true;
			break;
		case KIW_TAKE_BAD:
			request_failed(s, tx->req.index, IB_WC_LOC_QP_OP_ERR);
			return false;
		case KIW_TAKE_RING:
			kiw_stat_inc(&s->dev->stats, KIW_STAT_RING_ERRORS);
			kiw_stream_fail(s, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
			return false;
		}
	}
	/* Both end with the completion of a Read, which has the stream looked at again. */
	if (kiw_orq_len(tx) && (tx->req.wqe.flags & KIW_WQE_FENCE))
		return false;
	if (tx->req.wqe.opcode == KIW_WR_READ && kiw_orq_len(tx) >= qp->ord)
		return false;
	tx->taken = false;
	tx->sending = true;
	tx->off = 0;
	return true;
}

static void start_response(struct kiw_tx *tx)
{
	tx->responding = true;
	tx->resp_turn = false;
	tx->off = 0;
}

/* Choose the next message: requests and responses take turns. */
static bool start_message(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	bool response = kiw_irq_len(tx);

	if (response && tx->resp_turn) {
		start_response(tx);
		return true;
	}
	if (start_request(s)) {
		tx->resp_turn = true;
		return true;
	}
	if (!response || tx->stopped)
		return false;
	start_response(tx);
	return true;
}

/*
 * Put one more FPDU into the batch.
 * Return: 1, 0 when there is nothing to send, or -ENOMEM.
 */
static int put_next(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	int ret;

	if (tx->term_len) {
		ret = put_control(s, tx->term, tx->term_len);
		if (!ret) {
			tx->term_len = 0;
			kiw_stat_inc(&s->dev->stats, KIW_STAT_TERM_SENT);
		}
	} else if (tx->stopped || !tx->gate) {
		return 0;
	} else if (tx->rtr) {
		ret = put_rtr(s);
	} else if (tx->responding) {
		ret = put_response(s);
	} else if (tx->sending || start_message(s)) {
		ret = tx->responding ? put_response(s) : put_request(s);
	} else {
		/* A bad request may have left a Terminate to send. */
		return tx->term_len ? 1 : 0;
	}
	return ret ?: 1;
}

/* May it be longer, and is there room for the longest FPDU, even if memory is in single pages? */
static bool batch_open(const struct kiw_tx *tx)
{
	return tx->batch_len < KIW_TX_BATCH && tx->pieces <= KIW_TX_PIECES - KIW_FPDU_PIECES;
}

/*
 * TCP has all of the requests before @index. A Read among them completes when it is answered; an
 * answer may even have come before this, so that the Read's slot is another request's already.
 */
static void requests_sent(struct kiw_stream *s, u32 index)
{
	struct kiw_tx *tx = &s->tx;

	for (; tx->sent_index != index; tx->sent_index++) {
		struct kiw_swr *swr = kiw_swr(&s->qp->sq, tx->sent_index);

		if ((s32)(tx->sent_index - s->qp->sq.done) >= 0 && swr->op != KIW_WR_READ)
			swr->done = true;
	}
	if (!kiw_sq_complete(s->qp))
		kiw_stream_fail(s, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
}

/* TCP has the whole batch: the requests that end in it are done. */
static void batch_done(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;

	kiw_traffic_sent(&s->dev->stats, tx->batch_len, tx->batch_fpdus);
	pieces_drop(tx, 0);
	tx->batch_fpdus = 0;
	tx->batch_len = 0;
	tx->batch_sent = 0;
	if (tx->sent_index != tx->batch_index)
		requests_sent(s, tx->batch_index);
}

/* Hand TCP what is left of the batch. -EINTR: it took a part. */
static int batch_push(struct kiw_stream *s)
{
	struct kiw_tx *tx = &s->tx;
	int ret, flags = MSG_DONTWAIT | MSG_NOSIGNAL;

	if (tx->sending || tx->responding)
		flags |= MSG_MORE;
	/* This may process the backlog, and our receive callback, which leaves the batch alone. */
	ret = kiw_send_pages(s->sk, tx->mem.piece, tx->pieces, tx->batch_sent, tx->batch_len,
			     flags);
	if (ret < 0)
		return ret;
	tx->batch_sent += ret;
	return tx->batch_sent == tx->batch_len ? 0 : -EINTR;
}

static bool tx_run(struct kiw_stream *s, int budget)
{
	struct kiw_tx *tx = &s->tx;
	int ret, err;

	if (!tx->stopped)
		kiw_sq_flag(&s->qp->sq, KIW_RING_DRAINING);
	for (; budget > 0; budget--) {
		ret = 1;
		while (ret > 0 && !tx->batch_sent && batch_open(tx))
			ret = put_next(s);
		if (tx->batch_sent < tx->batch_len) {
			err = batch_push(s);
			if (err == -EAGAIN) {	/* the write-space callback takes over */
				tx->starved = sk_stream_memory_free(s->sk);
				return tx->starved;
			}
			if (err && err != -EINTR) {
				kiw_stream_event(s, KIW_EV_LLP_LOST);
				return false;
			}
			if (!err)
				batch_done(s);
			continue;
		}
		if (ret < 0) {
			tx->starved = true;
			return true;
		}
		if (tx->taken || !tx->gate || tx->stopped)
			return false;	/* there will be a reason to look again */
		if (!kiw_sq_rest(&s->qp->sq))
			return false;
		kiw_sq_flag(&s->qp->sq, KIW_RING_DRAINING);
	}
	return true;
}

static void spare_exchange(struct kiw_tx *tx)
{
	struct kiw_spare *spare;

	local_bh_disable();
	local_lock_nested_bh(&spares.lock);
	spare = this_cpu_ptr(&spares.spare[!!in_serving_softirq()]);
	swap(tx->mem.frag, spare->frag);
	if (!tx->pieces)
		swap(tx->mem.piece, spare->piece);
	local_unlock_nested_bh(&spares.lock);
	local_bh_enable();
}

bool kiw_tx_run(struct kiw_stream *s, int budget)
{
	struct kiw_tx *tx = &s->tx;
	bool more = true;

	spare_exchange(tx);
	if (!tx->mem.piece)
		tx->mem.piece = kmalloc_array(KIW_TX_PIECES, sizeof(*tx->mem.piece),
					      s->sk->sk_allocation | __GFP_NOWARN);
	tx->starved = !tx->mem.piece;
	if (!tx->starved)
		more = tx_run(s, budget);
	spare_exchange(tx);
	/* What another stream has given back meanwhile, and the fragment if pieces are left. */
	if (!tx->pieces)
		spare_drop(&tx->mem);
	return more;
}

void kiw_tx_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		spare_drop(per_cpu_ptr(&spares.spare[0], cpu));
		spare_drop(per_cpu_ptr(&spares.spare[1], cpu));
	}
}
