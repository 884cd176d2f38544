// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "message.h"

#include "atomics.h"
#include "builder.h"
#include "session.h"

/* Payload of an FPDU larger than a segment: whole pages, still cached when read */
#define MESSAGE_LARGE 32768

static int message_begin(struct kiw_builder *f, struct kiw_session *s, const void *hdr, u32 hdr_len,
			 u32 payload)
{
	kiw_carrier_assert_held(s);
	f->batch = &s->tx.batch;
	f->owner = &s->core->own;
	f->gfp = kiw_carrier_gfp(s);
	f->loan = NULL;
	f->crc = s->neg.crc;
	return kiw_builder_begin(f, s->neg.markers_tx, hdr, hdr_len, payload);
}

static int message_end(struct kiw_builder *f, const u8 *hdr, u32 payload)
{
	int ret = kiw_builder_end(f);

	if (!ret)
		trace_kiw_fpdu_out(f->owner->num, hdr[1] & KIW_RDMAP_OP_MASK,
				   hdr[0] & KIW_DDP_LAST, payload);
	return ret;
}

static int message_control(struct kiw_session *s, const u8 *ulpdu, u32 len)
{
	struct kiw_builder f;
	int ret;

	ret = message_begin(&f, s, ulpdu, len, 0);
	if (!ret)
		ret = message_end(&f, ulpdu, 0);
	if (ret)
		kiw_builder_undo(&f);
	return ret;
}

static u32 message_max_payload(const struct kiw_session *s, u32 hdr_len)
{
	if (s->neg.large)
		return MESSAGE_LARGE;
	return kiw_mulpdu(kiw_carrier_mss(s), s->neg.markers_tx) - hdr_len;
}

/* Payload of the current message that no FPDU holds yet */
static u32 message_left(const struct kiw_tx *tx)
{
	const struct kiw_send_op *op;
	const struct kiw_read_in *in;

	if (tx->message == KIW_MESSAGE_NONE)
		return 0;
	if (tx->message == KIW_MESSAGE_RESPONSE) {
		in = kiw_read_in_oldest(&tx->reads_in);
		return in->atomic ? 0 : in->read.size - tx->off;
	}
	op = &kiw_send_ops[tx->req.wqe.opcode];
	return kiw_send_is_answered(op) ? 0 : tx->req.len - tx->off;
}

u32 kiw_message_next(const struct kiw_session *s)
{
	u32 left = message_left(&s->tx);

	if (!left)
		return KIW_HDR_MAX;
	return KIW_UNTAGGED_LEN + min(left, message_max_payload(s, KIW_UNTAGGED_LEN));
}

int kiw_message_terminate(struct kiw_session *s)
{
	int ret = message_control(s, s->rx.hdr, s->tx.term_len);

	if (!ret) {
		s->tx.term_len = 0;
		kiw_carrier_count(s, KIW_STAT_TERM_SENT);
	}
	return ret;
}

void kiw_message_failed(struct kiw_session *s, enum ib_wc_status status)
{
	kiw_carrier_assert_held(s);
	kiw_sq_done(&s->core->sq, s->tx.req.index, status);
	s->tx.message = KIW_MESSAGE_NONE;
	s->tx.taken = false;
	kiw_session_fail(s, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
}

/* All of the request is in the batch. */
static void message_request_end(struct kiw_tx *tx)
{
	tx->message = KIW_MESSAGE_NONE;
	tx->batch_index = tx->req.index + 1;
}

static int message_read(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_read_out *r = kiw_read_out(&tx->reads_out, tx->reads_out.tail);
	u8 ulpdu[KIW_RREQ_LEN];
	struct kiw_rreq rr;
	int ret;

	r->index = tx->req.index;
	r->internal = false;
	r->atomic = false;
	r->invalidates = tx->req.wqe.opcode == KIW_WR_READ_INV;
	r->num_sge = tx->req.wqe.num_sge;
	r->len = tx->req.len;
	memcpy(r->sge, tx->req.sge, r->num_sge * sizeof(r->sge[0]));
	/*
	 * This entry places the response. One buffer goes by its own address; several count from 0,
	 * and so does memory of the kernel without a region: no peer may learn its address.
	 */
	r->sink_stag = r->num_sge ? r->sge[0].lkey : 0;
	r->sink_to = r->num_sge == 1 && r->sink_stag ? r->sge[0].addr : 0;
	rr.sink_stag = r->sink_stag;
	rr.sink_to = r->sink_to;
	rr.size = r->len;
	rr.src_stag = tx->req.wqe.rkey;
	rr.src_to = tx->req.wqe.remote_addr;
	ret = message_control(s, ulpdu, kiw_build_rreq(ulpdu, tx->msn_read, &rr));
	if (ret)
		return ret;
	tx->msn_read++;
	tx->reads_out.tail++;
	message_request_end(tx);
	return 0;
}

static int message_atomic(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_read_out *r = kiw_read_out(&tx->reads_out, tx->reads_out.tail);
	const struct kiw_atomic_args *args = &tx->req.atomic;
	struct kiw_atomic at = {
		.req_id = tx->req.index,
		.stag = tx->req.wqe.rkey,
		.to = tx->req.wqe.remote_addr,
	};
	u8 ulpdu[KIW_ATOMIC_REQ_LEN];
	int ret;

	if (tx->req.wqe.opcode == KIW_WR_FETCH_ADD) {
		at.op = KIW_ATOMIC_FETCH_ADD;
		at.data = args->compare_add;
	} else {
		at.op = KIW_ATOMIC_CMP_SWAP;
		at.data = args->swap;
		at.mask = U64_MAX;
		at.cmp = args->compare_add;
		at.cmp_mask = U64_MAX;
	}
	ret = message_control(s, ulpdu, kiw_build_atomic(ulpdu, tx->msn_read, &at));
	if (ret)
		return ret;
	r->index = tx->req.index;
	r->internal = false;
	r->atomic = true;
	r->invalidates = false;
	r->num_sge = 1;
	r->len = tx->req.len;
	r->sge[0] = tx->req.sge[0];
	tx->msn_read++;
	tx->reads_out.tail++;
	message_request_end(tx);
	return 0;
}

/*
 * Add an FPDU: @hdr and the next @n bytes of the request.
 * Return: 1, 0 if the request failed, or -ENOMEM.
 */
static int message_segment(struct kiw_session *s, const u8 *hdr, u32 hdr_len, u32 n)
{
	struct kiw_tx *tx = &s->tx;
	enum kiw_region_fault fault;
	struct kiw_builder f;
	int ret;

	ret = message_begin(&f, s, hdr, hdr_len, n);
	f.loan = kiw_carrier_lend(s, tx->req.len);
	if (!ret)
		ret = kiw_builder_put_request(&f, &tx->req, tx->off, n, &fault);
	if (!ret)
		ret = message_end(&f, hdr, n);
	if (!ret) {
		tx->off += n;
		return 1;
	}
	kiw_builder_undo(&f);
	if (ret != -EFAULT)
		return ret;
	kiw_message_failed(s, IB_WC_LOC_PROT_ERR);
	return 0;
}

/* The next segment of a Write. Return: as message_segment(). */
static int message_write_segment(struct kiw_session *s, const struct kiw_send_op *op)
{
	struct kiw_tx *tx = &s->tx;
	u32 n = min(tx->req.len - tx->off, message_max_payload(s, KIW_TAGGED_LEN));
	u8 hdr[KIW_TAGGED_LEN];

	kiw_build_tagged(hdr, op->wire, tx->off + n == tx->req.len, tx->req.wqe.rkey,
			 tx->req.wqe.remote_addr + tx->off);
	return message_segment(s, hdr, sizeof(hdr), n);
}

static int message_write(struct kiw_session *s, const struct kiw_send_op *op)
{
	struct kiw_tx *tx = &s->tx;
	int ret = message_write_segment(s, op);

	if (ret > 0 && tx->off == tx->req.len)
		message_request_end(tx);
	return min(ret, 0);
}

/* A Write, even an empty one, and then its Immediate Data */
static int message_write_imm(struct kiw_session *s, const struct kiw_send_op *op)
{
	struct kiw_tx *tx = &s->tx;
	const struct kiw_wqe *wqe = &tx->req.wqe;
	u8 ulpdu[KIW_IMM_LEN], imm[KIW_IMM_SIZE] = {};
	int ret;

	if (!tx->written) {
		ret = message_write_segment(s, op);
		tx->written = ret > 0 && tx->off == tx->req.len;
		return min(ret, 0);
	}
	memcpy(imm, &wqe->imm, sizeof(wqe->imm));
	ret = message_control(s, ulpdu, kiw_build_imm(ulpdu, wqe->flags & KIW_WQE_SOLICITED,
						      tx->msn_send, imm));
	if (ret)
		return ret;
	tx->msn_send++;
	message_request_end(tx);
	return 0;
}

/* The word in place of the STag to invalidate */
static u32 message_send_word(const struct kiw_wqe *wqe, u8 wire)
{
	if (wire & KIW_RDMAP_SEND_IMM)
		return be32_to_cpu(wqe->imm);
	return kiw_ops[wire].flags & KIW_F_INVALIDATE ? wqe->rkey : 0;
}

static int message_untagged(struct kiw_session *s, const struct kiw_send_op *op)
{
	struct kiw_tx *tx = &s->tx;
	const struct kiw_wqe *wqe = &tx->req.wqe;
	u32 n = min(tx->req.len - tx->off, message_max_payload(s, KIW_UNTAGGED_LEN));
	u8 wire = wqe->flags & KIW_WQE_SOLICITED ? op->wire_solicited : op->wire;
	bool last = tx->off + n == tx->req.len;
	u8 hdr[KIW_UNTAGGED_LEN];
	int ret;

	kiw_build_untagged(hdr, wire, last, message_send_word(wqe, wire), KIW_QN_SEND,
			   tx->msn_send, tx->off);
	ret = message_segment(s, hdr, sizeof(hdr), n);
	if (ret > 0 && last) {
		tx->msn_send++;
		message_request_end(tx);
	}
	return min(ret, 0);
}

/* Carry out a local request. */
static enum ib_wc_status message_run(struct kiw_session *s, const struct kiw_send_op *op)
{
	const struct kiw_owner *own = &s->core->own;
	const struct kiw_send_req *req = &s->tx.req;

	switch (op->kind) {
	case KIW_SEND_BIND:
		return kiw_region_bind(own, req->wqe.rkey, &req->bind) ? IB_WC_MW_BIND_ERR :
									 IB_WC_SUCCESS;
	case KIW_SEND_REGISTER:
		return kiw_region_register(own, req->wqe.rkey, &req->bind) ? IB_WC_MW_BIND_ERR :
									     IB_WC_SUCCESS;
	default:
		return kiw_region_invalidate_own(own, req->wqe.rkey) ? IB_WC_LOC_PROT_ERR :
								       IB_WC_SUCCESS;
	}
}

/* Carry out a local request at once. Later requests are sent after it. */
static int message_local(struct kiw_session *s, const struct kiw_send_op *op)
{
	enum ib_wc_status status = message_run(s, op);

	if (status)
		kiw_message_failed(s, status);
	else
		message_request_end(&s->tx);
	return 0;
}

int kiw_message_request(struct kiw_session *s)
{
	const struct kiw_send_op *op = &kiw_send_ops[s->tx.req.wqe.opcode];

	switch (op->kind) {
	case KIW_SEND_TAGGED:
		return message_write(s, op);
	case KIW_SEND_TAGGED_IMM:
		return message_write_imm(s, op);
	case KIW_SEND_READ:
		return message_read(s);
	case KIW_SEND_ATOMIC:
		return message_atomic(s);
	case KIW_SEND_BIND:
	case KIW_SEND_INVALIDATE:
	case KIW_SEND_REGISTER:
		return message_local(s, op);
	case KIW_SEND_UNTAGGED:
		break;
	}
	return message_untagged(s, op);
}

/* The peer may not read this region, or no longer. */
static void message_response_failed(struct kiw_session *s, const struct kiw_rreq *read,
				    enum kiw_region_fault fault)
{
	struct kiw_rreq rr = *read;
	u8 ulpdu[KIW_RREQ_LEN];

	kiw_rreq_advance(&rr, s->tx.off);
	kiw_build_rreq(ulpdu, kiw_read_in_msn(&s->tx.reads_in), &rr);
	s->tx.message = KIW_MESSAGE_NONE;
	kiw_session_fail(s, kiw_region_rdmap_error(fault), ulpdu, sizeof(ulpdu), sizeof(ulpdu));
}

static void message_response_end(struct kiw_tx *tx)
{
	tx->reads_in.head++;
	tx->message = KIW_MESSAGE_NONE;
}

/*
 * An atomic runs at its turn, not on arrival: a Read before it returns the earlier value. It runs
 * once, even if its response is built again.
 */
static int message_atomic_response(struct kiw_session *s, struct kiw_read_in *in)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_atomic_resp resp;
	u8 ulpdu[KIW_HDR_MAX];
	enum kiw_err err;
	u64 old;
	int ret;

	if (!in->done) {
		err = kiw_atomic_run(&s->core->own, &in->at, &old);
		if (err) {
			kiw_build_atomic(ulpdu, kiw_read_in_msn(&tx->reads_in), &in->at);
			tx->message = KIW_MESSAGE_NONE;
			kiw_session_fail(s, err, ulpdu, KIW_ATOMIC_REQ_LEN, KIW_ATOMIC_REQ_LEN);
			return 0;
		}
		in->at.data = old;
		in->done = true;
	}
	resp.req_id = in->at.req_id;
	resp.value = in->at.data;
	ret = message_control(s, ulpdu, kiw_build_atomic_resp(ulpdu, tx->msn_atomic, &resp));
	if (ret)
		return ret;
	tx->msn_atomic++;
	message_response_end(tx);
	return 0;
}

static int message_read_response(struct kiw_session *s, const struct kiw_rreq *read)
{
	struct kiw_tx *tx = &s->tx;
	u32 n = min(read->size - tx->off, message_max_payload(s, KIW_TAGGED_LEN));
	bool last = tx->off + n == read->size;
	enum kiw_region_fault fault;
	u8 hdr[KIW_TAGGED_LEN];
	struct kiw_builder f;
	int ret;

	kiw_build_tagged(hdr, KIW_OP_READ_RESP, last, read->sink_stag, read->sink_to + tx->off);
	ret = message_begin(&f, s, hdr, sizeof(hdr), n);
	f.loan = kiw_carrier_lend(s, read->size);
	if (!ret)
		ret = kiw_builder_put_region(&f, read->src_stag, IB_ACCESS_REMOTE_READ,
					     read->src_to + tx->off, n, &fault);
	if (!ret)
		ret = message_end(&f, hdr, n);
	if (ret) {
		kiw_builder_undo(&f);
		if (ret != -EFAULT)
			return ret;
		message_response_failed(s, read, fault);
		return 0;
	}
	tx->off += n;
	if (last)
		message_response_end(tx);
	return 0;
}

int kiw_message_response(struct kiw_session *s)
{
	struct kiw_read_in *in = kiw_read_in_oldest(&s->tx.reads_in);

	return in->atomic ? message_atomic_response(s, in) : message_read_response(s, &in->read);
}

int kiw_message_rtr(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_rreq rr = { .sink_stag = 1 };
	u8 ulpdu[KIW_HDR_MAX];
	struct kiw_read_out *r;
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
		/* The STag is ignored, but some hardware rejects 0. */
		len = kiw_build_tagged(ulpdu, KIW_OP_WRITE, true, 1, 0);
	}
	ret = message_control(s, ulpdu, len);
	if (ret)
		return ret;
	if (tx->rtr == KIW_RTR_READ) {
		r = kiw_read_out(&tx->reads_out, tx->reads_out.tail++);
		*r = (struct kiw_read_out){ .internal = true, .sink_stag = rr.sink_stag };
		tx->msn_read++;
	} else if (tx->rtr == KIW_RTR_SEND) {
		tx->msn_send++;
	}
	tx->rtr = 0;
	return 0;
}
