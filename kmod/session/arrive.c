// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Arriving messages. Checks come in the order of RFC 5041 section 7.1. The first that fails ends
 * the stream, and nothing of its segment reaches memory.
 */
#include "arrive.h"

#include "atomics.h"
#include "session.h"
#include "../proto/receive.h"
#include "../proto/tail.h"
#include "../proto/term.h"

static struct kiw_session *arrive_session(struct kiw_receive *rx)
{
	return container_of(rx, struct kiw_session, rx);
}

/* A peer needs the right from both the region and the QP. */
static enum kiw_region_fault arrive_check(struct kiw_session *s, u32 stag, int access, u64 addr,
					  u32 n)
{
	enum kiw_region_fault fault = kiw_region_check(&s->core->own, stag, access, addr, n);

	if (fault)
		return fault;
	if ((READ_ONCE(s->core->own.access) & access) != access)
		return KIW_REGION_ACCESS;
	return KIW_REGION_OK;
}

static enum kiw_err arrive_begin_write(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;

	if (!seg->payload_len)
		return KIW_OK;
	return kiw_region_ddp_error(arrive_check(s, seg->stag, IB_ACCESS_REMOTE_WRITE, seg->to,
						 seg->payload_len));
}

static enum kiw_err arrive_begin_read_resp(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;
	const struct kiw_read_out *r;
	u32 off = s->rx.resp_off;

	if (!kiw_reads_out_len(&s->tx.reads_out))
		return KIW_ERR_RDMAP_OPCODE;
	r = kiw_read_out_oldest(&s->tx.reads_out);
	if (r->atomic)
		return KIW_ERR_RDMAP_OPCODE;
	if (seg->payload_len) {
		if (seg->stag != r->sink_stag)
			return KIW_ERR_DDP_STAG;
		if (seg->to != r->sink_to + off || seg->payload_len > r->len - off)
			return KIW_ERR_DDP_BOUNDS;
	}
	if ((seg->flags & KIW_F_LAST) && off + seg->payload_len != r->len)
		return KIW_ERR_DDP_BOUNDS;
	return KIW_OK;
}

/* An unusable receive request completes with an error. The peer did nothing wrong. */
static enum kiw_err arrive_recv_failed(struct kiw_session *s, enum ib_wc_status status)
{
	kiw_rq_fail(&s->core->rq, &s->recv, status);
	return KIW_ERR_LOCAL_CATASTROPHE;
}

/* No receive request is posted. The process rings when it posts one. */
static enum kiw_take arrive_starve(struct kiw_session *s)
{
	struct kiw_rq *rq = &s->core->rq;

	s->starving = true;
	kiw_carrier_starve(s);
	if (!rq->entries)
		return KIW_TAKE_NONE;	/* the SRQ asked already */
	kiw_rq_call(rq);
	return kiw_rq_take(rq, &s->recv);
}

/* Take a receive request from the QP's own queue or from its SRQ. */
static enum kiw_take arrive_take(struct kiw_session *s)
{
	struct kiw_rq *rq = &s->core->rq;
	enum kiw_take take = kiw_rq_take(rq, &s->recv);
	bool shares = kiw_carrier_shares(s);

	if (take == KIW_TAKE_NONE && shares)
		take = kiw_carrier_take_shared(s, &s->recv);
	if (take == KIW_TAKE_NONE && !s->starving && (rq->entries || shares))
		take = arrive_starve(s);
	if (take != KIW_TAKE_NONE && s->starving) {
		kiw_rq_open(rq);
		s->starving = false;
	}
	return take;
}

/*
 * A message without a receive request stays in the machine, and later bytes stay with TCP: programs
 * for InfiniBand expect retries.
 */
static enum kiw_err arrive_await_receive(struct kiw_session *s)
{
	if (!s->starving || !kiw_carrier_waits(s))
		return KIW_ERR_DDP_NOBUF;
	s->rx.held = true;
	return KIW_OK;
}

static enum kiw_err arrive_begin_send(struct kiw_session *s)
{
	struct kiw_receive *rx = &s->rx;
	const struct kiw_seq *seq = &rx->seq[KIW_QN_SEND];
	enum kiw_err err = kiw_seq_check_msn(seq, &rx->seg);

	if (err)
		return err;
	if (!s->recv.taken) {
		switch (arrive_take(s)) {
		case KIW_TAKE_NONE:
			return arrive_await_receive(s);
		case KIW_TAKE_ONE:
			break;
		case KIW_TAKE_BAD:
			return arrive_recv_failed(s, IB_WC_LOC_QP_OP_ERR);
		case KIW_TAKE_RING:
			kiw_carrier_count(s, KIW_STAT_RING_ERRORS);
			return KIW_ERR_LOCAL_CATASTROPHE;
		}
	}
	err = kiw_seq_check_mo(seq, &rx->seg, s->recv.room);
	if (err == KIW_ERR_DDP_TOOLONG)
		kiw_rq_fail(&s->core->rq, &s->recv, IB_WC_LOC_LEN_ERR);
	return err;
}

/* Is there a place for this Read or atomic? */
static enum kiw_err arrive_check_question(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;
	enum kiw_err err = kiw_seq_check_msn(&s->rx.seq[KIW_QN_READ], seg);

	if (err)
		return err;
	/* A Read that opens the stream fits even with an IRD of 0. */
	if (kiw_reads_in_len(&s->tx.reads_in) >= max_t(u32, s->core->ird, s->rx_first))
		return KIW_ERR_DDP_NOBUF;
	return seg->mo ? KIW_ERR_DDP_MO : KIW_OK;
}

static enum kiw_err arrive_begin_read_req(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;
	enum kiw_err err = arrive_check_question(s);

	if (err)
		return err;
	if (!seg->rreq.size)
		return KIW_OK;
	return kiw_region_rdmap_error(arrive_check(s, seg->rreq.src_stag, IB_ACCESS_REMOTE_READ,
						   seg->rreq.src_to, seg->rreq.size));
}

static enum kiw_err arrive_begin_atomic_req(struct kiw_session *s)
{
	enum kiw_err err = arrive_check_question(s);

	return err ?: kiw_atomic_check(&s->core->own, &s->rx.seg.atomic);
}

static enum kiw_err arrive_begin_atomic_resp(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;
	const struct kiw_read_out *r;
	enum kiw_err err;

	if (!kiw_reads_out_len(&s->tx.reads_out))
		return KIW_ERR_RDMAP_OPCODE;
	r = kiw_read_out_oldest(&s->tx.reads_out);
	if (!r->atomic)
		return KIW_ERR_RDMAP_OPCODE;
	err = kiw_seq_check_msn(&s->rx.seq[KIW_QN_ATOMIC], seg);
	if (err)
		return err;
	if (seg->mo)
		return KIW_ERR_DDP_MO;
	return seg->atomic_resp.req_id == r->index ? KIW_OK : KIW_ERR_RDMAP_CATASTROPHE;
}

/*
 * Map the queue's bytes first: mappings are released in reverse order. Return: false if the memory
 * is gone.
 */
static bool arrive_copy(struct kiw_cursor *cur, const struct kiw_region *region, u64 addr, u32 n)
{
	u32 chunk, copied;
	void *to;

	for (; n && kiw_cursor_fill(cur); n -= chunk, addr += chunk) {
		chunk = min(n, cur->n);
		to = kiw_region_chunk(region, addr, &chunk);
		copied = kiw_source_copy(&cur->source, to, chunk);
		kiw_region_unmap(to);
		if (unlikely(copied < chunk))
			return false;
	}
	return true;
}

/* Store @n bytes, at most KIW_TAIL_MAX. They may span two pages or pieces. */
static void arrive_store_tail(const struct kiw_region *region, u64 addr, const u8 *from, u32 n)
{
	u32 part;
	void *to;

	for (; n; n -= part, addr += part, from += part) {
		part = n;
		to = kiw_region_chunk(region, addr, &part);
		kiw_tail_store(to, from, part);
		kiw_region_unmap(to);
	}
}

/* The same, and the tail last. */
static bool arrive_copy_all(struct kiw_cursor *cur, const struct kiw_region *region, u64 addr,
			    u32 n)
{
	u32 tail = kiw_tail_len(kiw_region_offset(region, addr) + n, n);
	u8 last[KIW_TAIL_MAX];

	if (!arrive_copy(cur, region, addr, n - tail) ||
	    unlikely(kiw_source_copy(&cur->source, last, tail) != tail))
		return false;
	arrive_store_tail(region, addr + n - tail, last, tail);
	return true;
}

/* Copy from the queue into a region. */
static enum kiw_region_fault arrive_to_region(struct kiw_session *s, struct kiw_cursor *cur,
					      u32 stag, int access, u64 addr, u32 n)
{
	enum kiw_region_fault fault;
	struct kiw_region_use use;

	fault = kiw_region_begin(&s->core->own, stag, access, addr, n, &use);
	if (fault)
		return fault;
	if (!arrive_copy_all(cur, use.region, addr, n))
		fault = KIW_REGION_BOUNDS;
	kiw_region_end(&use);
	return fault;
}

/* Copy from the queue into a list of local buffers, from @off on. */
static enum kiw_region_fault arrive_to_list(struct kiw_session *s, struct kiw_cursor *cur,
					    const struct kiw_sge *sge, u32 off, u32 n)
{
	enum kiw_region_fault fault;
	u32 part;

	for (; n; sge++) {
		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		part = min(n, sge->length - off);
		fault = arrive_to_region(s, cur, sge->lkey, IB_ACCESS_LOCAL_WRITE,
					 sge->addr + off, part);
		if (fault)
			return fault;
		off = 0;
		n -= part;
	}
	return KIW_REGION_OK;
}

static enum kiw_err arrive_place_read_resp(struct kiw_session *s, struct kiw_cursor *cur, u32 done,
					   u32 n)
{
	struct kiw_read_out *r = kiw_read_out_oldest(&s->tx.reads_out);

	if (!arrive_to_list(s, cur, r->sge, s->rx.resp_off + done, n))
		return KIW_OK;
	kiw_sq_done(&s->core->sq, r->index, IB_WC_LOC_PROT_ERR);
	return KIW_ERR_LOCAL_CATASTROPHE;
}

static enum kiw_err arrive_place_write(struct kiw_session *s, struct kiw_cursor *cur, u32 done,
				       u32 n)
{
	const struct kiw_seg *seg = &s->rx.seg;

	return kiw_region_ddp_error(arrive_to_region(s, cur, seg->stag, IB_ACCESS_REMOTE_WRITE,
						     seg->to + done, n));
}

/* Count the bytes of a Write, for Immediate Data behind it. */
static enum kiw_err arrive_end_write(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;

	if (!s->write_goes_on)
		s->write_len = 0;
	s->write_len += seg->payload_len;
	s->write_goes_on = !(seg->flags & KIW_F_LAST);
	s->rx_ended |= !s->write_goes_on;
	return KIW_OK;
}

static enum kiw_err arrive_place_send(struct kiw_session *s, struct kiw_cursor *cur, u32 done,
				      u32 n)
{
	if (arrive_to_list(s, cur, s->recv.sge, s->rx.seg.mo + done, n))
		return arrive_recv_failed(s, IB_WC_LOC_PROT_ERR);
	return KIW_OK;
}

/* Ignore bytes of a Terminate beyond its largest header. */
static enum kiw_err arrive_place_terminate(struct kiw_session *s, struct kiw_cursor *cur, u32 done,
					   u32 n)
{
	kiw_source_drop(&cur->source, n);
	return KIW_OK;
}

static enum kiw_err arrive_answered(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_read_out *r = kiw_read_out(&tx->reads_out, tx->reads_out.head++);

	if (r->invalidates && kiw_region_invalidate_own(&s->core->own, r->sge[0].lkey)) {
		kiw_sq_done(&s->core->sq, r->index, IB_WC_LOC_PROT_ERR);
		return KIW_ERR_LOCAL_CATASTROPHE;
	}
	if (!r->internal) {
		kiw_sq_done(&s->core->sq, r->index, IB_WC_SUCCESS);
		if (!kiw_sq_complete(&s->core->sq))
			return KIW_ERR_LOCAL_CATASTROPHE;
	}
	if (tx->taken || tx->gathers)	/* requests may have waited for this answer */
		kiw_carrier_kick(s);
	return KIW_OK;
}

static enum kiw_err arrive_end_read_resp(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;

	s->rx.resp_off += seg->payload_len;
	if (!(seg->flags & KIW_F_LAST))
		return KIW_OK;
	s->rx.resp_off = 0;
	return arrive_answered(s);
}

/* Store @n bytes, at most KIW_TAIL_MAX, in a local buffer. */
static enum kiw_region_fault arrive_store(struct kiw_session *s, const struct kiw_sge *sge,
					  const void *from, u32 n)
{
	enum kiw_region_fault fault;
	struct kiw_region_use use;

	fault = kiw_region_begin(&s->core->own, sge->lkey, IB_ACCESS_LOCAL_WRITE, sge->addr, n,
				 &use);
	if (fault)
		return fault;
	arrive_store_tail(use.region, sge->addr, from, n);
	kiw_region_end(&use);
	return KIW_REGION_OK;
}

static enum kiw_err arrive_end_atomic_resp(struct kiw_session *s)
{
	const struct kiw_seg *seg = &s->rx.seg;
	const struct kiw_read_out *r = kiw_read_out_oldest(&s->tx.reads_out);

	kiw_seq_advance(&s->rx.seq[KIW_QN_ATOMIC], seg);
	if (!arrive_store(s, r->sge, &seg->atomic_resp.value, sizeof(seg->atomic_resp.value)))
		return arrive_answered(s);
	kiw_sq_done(&s->core->sq, r->index, IB_WC_LOC_PROT_ERR);
	return KIW_ERR_LOCAL_CATASTROPHE;
}

static enum kiw_err arrive_invalidate(struct kiw_session *s, u32 stag)
{
	switch (kiw_region_invalidate(&s->core->own, stag)) {
	case KIW_REGION_OK:
		return KIW_OK;
	case KIW_REGION_PD:
		return KIW_ERR_RDMAP_INVAL;
	default:
		return KIW_ERR_RDMAP_CANT_INVAL;
	}
}

/* End a message on queue 0. Later Immediate Data does not belong to an earlier Write. */
static enum kiw_err arrive_received(struct kiw_session *s, struct kiw_received *received)
{
	s->write_len = 0;
	s->rx_ended = true;
	if (s->rx.seg.flags & KIW_F_SOLICITED)
		received->flags |= KIW_CQE_SOLICITED;
	return kiw_rq_complete(&s->core->rq, &s->recv, received) ? KIW_OK :
								   KIW_ERR_LOCAL_CATASTROPHE;
}

static enum kiw_err arrive_end_send(struct kiw_session *s)
{
	struct kiw_receive *rx = &s->rx;
	const struct kiw_seg *seg = &rx->seg;
	struct kiw_received received = {
		.len = seg->mo + seg->payload_len,
		.op = KIW_WR_RECV,
		.from = seg->inv_stag,
	};
	enum kiw_err err;

	kiw_seq_advance(&rx->seq[KIW_QN_SEND], seg);
	if (!(seg->flags & KIW_F_LAST))
		return KIW_OK;
	if (seg->flags & KIW_F_INVALIDATE) {
		err = arrive_invalidate(s, seg->inv_stag);
		if (err) {
			kiw_rq_fail(&s->core->rq, &s->recv, IB_WC_REM_INV_REQ_ERR);
			return err;
		}
		received.flags |= KIW_CQE_WITH_INV;
	}
	if (seg->flags & KIW_F_SEND_IMM) {
		received.flags |= KIW_CQE_WITH_IMM;
		received.imm = cpu_to_be32(seg->inv_stag);
	}
	return arrive_received(s, &received);
}

/* The last byte of the Write is placed: complete a receive. */
static enum kiw_err arrive_end_imm(struct kiw_session *s)
{
	struct kiw_receive *rx = &s->rx;
	struct kiw_received received = {
		.len = s->write_len,
		.op = KIW_WR_RECV_IMM,
		.flags = KIW_CQE_WITH_IMM,
	};

	kiw_seq_advance(&rx->seq[KIW_QN_SEND], &rx->seg);
	memcpy(&received.imm, rx->seg.imm, sizeof(received.imm));
	return arrive_received(s, &received);
}

static enum kiw_err arrive_end_read_req(struct kiw_session *s)
{
	kiw_seq_advance(&s->rx.seq[KIW_QN_READ], &s->rx.seg);
	kiw_read_in_add(&s->tx.reads_in, &s->rx.seg.rreq);
	kiw_carrier_kick(s);
	return KIW_OK;
}

static enum kiw_err arrive_end_atomic_req(struct kiw_session *s)
{
	kiw_seq_advance(&s->rx.seq[KIW_QN_READ], &s->rx.seg);
	kiw_atomic_in_add(&s->tx.reads_in, &s->rx.seg.atomic);
	kiw_carrier_kick(s);
	return KIW_OK;
}

static bool arrive_names_question(const struct kiw_term_info *info)
{
	return info->has_rreq || (info->has_seg && !info->tagged &&
				  info->op == KIW_OP_ATOMIC_REQ && info->qn == KIW_QN_READ);
}

/* The peer gave up. A Read of ours that it names completes with its error, not as flushed. */
static enum kiw_err arrive_end_terminate(struct kiw_session *s)
{
	struct kiw_receive *rx = &s->rx;
	struct kiw_tx *tx = &s->tx;
	struct kiw_reads_out *reads = &tx->reads_out;
	struct kiw_term_info info;
	enum ib_wc_status status;
	struct kiw_read_out *r;
	u32 nth;

	kiw_carrier_count(s, KIW_STAT_TERM_RECEIVED);
	kiw_term_parse(kiw_receive_ulpdu(rx), kiw_receive_ulpdu_have(rx), &info);
	trace_kiw_term_received(s->core->own.num, info.raw.layer, info.raw.etype, info.raw.code);
	if (arrive_names_question(&info)) {
		nth = info.msn - (tx->msn_read - kiw_reads_out_len(reads));
		r = nth < kiw_reads_out_len(reads) ? kiw_read_out(reads, reads->head + nth) : NULL;
		if (r && !r->internal) {
			status = info.raw.etype == KIW_ETYPE_PROTECTION ?
				 IB_WC_REM_ACCESS_ERR : IB_WC_REM_OP_ERR;
			kiw_sq_done(&s->core->sq, r->index, status);
		}
	}
	s->async = IB_EVENT_QP_FATAL;
	kiw_session_event(s, KIW_EV_TERM_RECEIVED);
	kiw_sq_complete(&s->core->sq);
	kiw_carrier_kick(s);
	return KIW_OK;
}

/*
 * struct arrive_op - functions of an opcode, one for each step of the sink
 * @begin: judges the segment, or NULL
 * @place: places a part of the payload, or NULL if there is none
 * @end: acts on the complete segment, or NULL
 */
struct arrive_op {
	enum kiw_err (*begin)(struct kiw_session *s);
	enum kiw_err (*place)(struct kiw_session *s, struct kiw_cursor *cur, u32 done, u32 n);
	enum kiw_err (*end)(struct kiw_session *s);
};

#define ARRIVE_SEND { arrive_begin_send, arrive_place_send, arrive_end_send }

/* The receive machine refuses all other opcodes. */
static const struct arrive_op arrive_ops[KIW_OP_COUNT] = {
	[KIW_OP_WRITE] = { arrive_begin_write, arrive_place_write, arrive_end_write },
	[KIW_OP_READ_REQ] = { arrive_begin_read_req, NULL, arrive_end_read_req },
	[KIW_OP_READ_RESP] = { arrive_begin_read_resp, arrive_place_read_resp,
			       arrive_end_read_resp },
	[KIW_OP_SEND] = ARRIVE_SEND,
	[KIW_OP_SEND_INV] = ARRIVE_SEND,
	[KIW_OP_SEND_SE] = ARRIVE_SEND,
	[KIW_OP_SEND_SE_INV] = ARRIVE_SEND,
	[KIW_OP_TERMINATE] = { NULL, arrive_place_terminate, arrive_end_terminate },
	[KIW_OP_IMM] = { arrive_begin_send, NULL, arrive_end_imm },
	[KIW_OP_IMM_SE] = { arrive_begin_send, NULL, arrive_end_imm },
	[KIW_OP_ATOMIC_REQ] = { arrive_begin_atomic_req, NULL, arrive_end_atomic_req },
	[KIW_OP_ATOMIC_RESP] = { arrive_begin_atomic_resp, NULL, arrive_end_atomic_resp },
};

enum kiw_err kiw_sink_begin(struct kiw_receive *rx)
{
	const struct arrive_op *op = &arrive_ops[rx->seg.op];
	struct kiw_session *s = arrive_session(rx);

	/* In CLOSING the peer may not send: this ends the stream. */
	kiw_session_event(s, KIW_EV_ACTIVITY);
	if (rx->stopped)
		return KIW_OK;
	/* The message that opens the gate belongs to the start-up. */
	if (unlikely(READ_ONCE(s->core->shown) == IB_QPS_RTR) && s->tx.gate)
		kiw_carrier_begun(s);
	if (!op->begin)
		return KIW_OK;
	return INDIRECT_CALL_3(op->begin, arrive_begin_send, arrive_begin_write,
			       arrive_begin_read_resp, s);
}

enum kiw_err kiw_sink_place(struct kiw_receive *rx, struct kiw_source *src, u32 done, u32 n)
{
	const struct arrive_op *op = &arrive_ops[rx->seg.op];

	return INDIRECT_CALL_3(op->place, arrive_place_send, arrive_place_write,
			       arrive_place_read_resp, arrive_session(rx), to_kiw_cursor(src), done,
			       n);
}

enum kiw_err kiw_sink_end(struct kiw_receive *rx)
{
	const struct arrive_op *op = &arrive_ops[rx->seg.op];

	trace_kiw_fpdu_in(arrive_session(rx)->core->own.num, rx->seg.op,
			  rx->seg.flags & KIW_F_LAST, rx->seg.payload_len);
	if (!op->end)
		return KIW_OK;
	return INDIRECT_CALL_3(op->end, arrive_end_send, arrive_end_write, arrive_end_read_resp,
			       arrive_session(rx));
}
