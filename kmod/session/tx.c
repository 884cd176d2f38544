// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Transmit. message.c and builder.c put FPDUs into a batch. TCP takes the pages of a batch in one
 * call, without a copy if it can splice.
 *
 * A request completes when TCP took its last FPDU and its buffers are free; for lent pages, when
 * the loans are over. In a manner with @acked the peer's TCP must also have acknowledged it: for
 * programs of InfiniBand a completion means that the peer holds the data.
 */
#include "tx.h"

#include "message.h"
#include "session.h"

/*
 * FPDUs and local requests per batch of a run: short ones fill no batch, and a process can post
 * binds as fast as they are carried out.
 */
#define TX_PUTS 256

bool kiw_tx_pending(const struct kiw_session *s)
{
	kiw_carrier_assert_held(s);
	return s->tx.term_len || kiw_batch_unsent(&s->tx.batch);
}

bool kiw_tx_begun(const struct kiw_session *s)
{
	const struct kiw_tx *tx = &s->tx;

	/* Until @sent_index passes it, TCP lacks part of a taken request. */
	return kiw_tx_pending(s) || kiw_reads_in_len(&tx->reads_in) ||
	       kiw_reads_out_len(&tx->reads_out) || s->core->sq.next != tx->sent_index;
}

bool kiw_tx_unfinished(const struct kiw_session *s)
{
	return kiw_tx_begun(s) || kiw_sq_posted(&s->core->sq);
}

/* Do the connection's terms allow the request? */
static bool tx_possible(const struct kiw_session *s, const struct kiw_send_op *op)
{
	return !(op->cap & ~s->rx.caps) && (!kiw_send_is_answered(op) || s->core->ord);
}

static bool tx_take(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;

	switch (kiw_sq_take(&s->core->sq, &tx->req)) {
	case KIW_TAKE_NONE:
		return false;
	case KIW_TAKE_ONE:
		if (!tx_possible(s, &kiw_send_ops[tx->req.wqe.opcode]))
			break;
		tx->taken = true;
		return true;
	case KIW_TAKE_BAD:
		break;
	case KIW_TAKE_RING:
		kiw_carrier_count(s, KIW_STAT_RING_ERRORS);
		kiw_session_fail(s, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
		return false;
	}
	kiw_message_failed(s, IB_WC_LOC_QP_OP_ERR);
	return false;
}

static void tx_start(struct kiw_tx *tx, enum kiw_message message)
{
	tx->message = message;
	tx->response_turn = message == KIW_MESSAGE_REQUEST;
	tx->off = 0;
	tx->written = false;
}

static bool tx_start_request(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	u32 reads = kiw_reads_out_len(&tx->reads_out);

	if (!tx->taken && !tx_take(s))
		return false;
	/* An answer ends either wait, and kicks the stream. */
	if (reads && (tx->req.wqe.flags & KIW_WQE_FENCE))
		return false;
	if (kiw_send_is_answered(&kiw_send_ops[tx->req.wqe.opcode]) && reads >= s->core->ord)
		return false;
	tx->taken = false;
	tx_start(tx, KIW_MESSAGE_REQUEST);
	return true;
}

/*
 * Is a response ready to start? An atomic waits for loans: TCP may still hold pages of an earlier
 * Read, which must be sent with their old values.
 */
static bool tx_may_respond(const struct kiw_session *s)
{
	const struct kiw_reads_in *in = &s->tx.reads_in;

	return kiw_reads_in_len(in) && !(kiw_read_in_oldest(in)->atomic && kiw_carrier_lends(s));
}

/* Choose the next message: requests and responses take turns. */
static bool tx_start_message(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	bool response = tx_may_respond(s);

	if (response && tx->response_turn) {
		tx_start(tx, KIW_MESSAGE_RESPONSE);
		return true;
	}
	if (tx_start_request(s))
		return true;
	if (!response || tx->stopped)
		return false;
	tx_start(tx, KIW_MESSAGE_RESPONSE);
	return true;
}

static bool tx_may_start(const struct kiw_tx *tx)
{
	return tx->gate && !tx->stopped && !tx->term_len && !tx->rtr;
}

/*
 * Does another batch follow at once? Start the next message to be sure: bytes that TCP holds back,
 * to fill a segment, must not wait for anything else.
 */
static bool tx_goes_on(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;

	if (tx->message == KIW_MESSAGE_NONE && !(tx_may_start(tx) && tx_start_message(s)))
		return false;
	return tx->message == KIW_MESSAGE_RESPONSE ||
	       !kiw_send_is_local(&kiw_send_ops[tx->req.wqe.opcode]);
}

/*
 * Put one FPDU into the batch.
 * Return: 1, 0 if there is nothing to send, or -ENOMEM.
 */
static int tx_put_next(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	int ret;

	if (tx->term_len)
		ret = kiw_message_terminate(s);
	else if (tx->stopped || !tx->gate)
		return 0;
	else if (tx->rtr)
		ret = kiw_message_rtr(s);
	else if (tx->message == KIW_MESSAGE_NONE && !tx_start_message(s))
		return tx->term_len ? 1 : 0;	/* a bad request may have left a Terminate */
	else if (tx->message == KIW_MESSAGE_RESPONSE)
		ret = kiw_message_response(s);
	else
		ret = kiw_message_request(s);
	return ret ?: 1;
}

/*
 * Complete requests with free buffers and no pending acknowledgment. A Read or an atomic completes
 * with its answer instead. The answer may have come already, and the slot may be another request's.
 */
static void tx_requests_done(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_sq *sq = &s->core->sq;
	u32 index = tx->acked_index;

	if ((s32)(tx->free_index - index) < 0)
		index = tx->free_index;
	for (; tx->done_index != index; tx->done_index++) {
		struct kiw_swr *swr = kiw_swr(sq, tx->done_index);

		if ((s32)(tx->done_index - sq->done) >= 0 &&
		    !kiw_send_is_answered(&kiw_send_ops[swr->op]))
			swr->done = true;
	}
	if (!kiw_sq_complete(&s->core->sq))
		kiw_session_fail(s, KIW_ERR_LOCAL_CATASTROPHE, NULL, 0, 0);
}

static void tx_take_acks(struct kiw_session *s)
{
	kiw_acks_take(&s->tx.acks, kiw_carrier_acked(s), &s->tx.acked_index);
}

/* TCP took all batches: their requests complete now, or with the last loan or acknowledgment. */
static void tx_requests_sent(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;

	if (tx->sent_index == tx->batch_index)
		return;
	tx->sent_index = tx->batch_index;
	if (tx->acked)
		kiw_acks_add(&tx->acks, tx->sent_index, kiw_carrier_sent(s));
	else
		tx->acked_index = tx->sent_index;
	if (kiw_carrier_lends(s))
		kiw_carrier_hold(s, tx->sent_index);
	else
		tx->free_index = tx->sent_index;
	tx_take_acks(s);
	tx_requests_done(s);
}

void kiw_tx_count(struct kiw_session *s, u32 bytes, u32 lent, u32 fpdus)
{
	kiw_carrier_count_sent(s, bytes, lent, fpdus);
	s->tx.sent_bytes += bytes;
	s->tx.lent_bytes += lent;
	s->tx.sent_fpdus += fpdus;
}

static void tx_batch_done(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_loan *loan = tx->batch.loan;

	kiw_tx_count(s, tx->batch.len, tx->batch.lent, tx->batch.fpdus);
	kiw_batch_clear(&tx->batch);
	tx_requests_sent(s);
	kiw_loan_put(loan, true);
}

void kiw_tx_take_back(struct kiw_session *s)
{
	kiw_carrier_take_back(s, &s->tx.free_index);
	tx_take_acks(s);
	if (s->core->state != KIW_QP_ERROR)
		tx_requests_done(s);
}

bool kiw_tx_awaits(const struct kiw_session *s)
{
	return kiw_carrier_lends(s) || s->tx.acks.num;
}

bool kiw_tx_acked(const struct kiw_session *s)
{
	kiw_carrier_assert_held(s);
	return kiw_acks_any(&s->tx.acks, kiw_carrier_acked(s));
}

void kiw_tx_drop(struct kiw_session *s)
{
	struct kiw_loan *loan = s->tx.batch.loan;
	bool any = s->tx.batch.sent;

	kiw_carrier_assert_held(s);
	kiw_carrier_drop(s);
	kiw_loan_put(loan, any);
}

/*
 * Does the next FPDU end in the TCP segment that the batch has begun? A peer that accepts no FPDU
 * beyond a segment may place each segment by itself, and wants an FPDU at its start (RFC 5044
 * section 5.1). TCP begins a segment with each batch of such a session. Starts the next message, to
 * know its length.
 */
static bool tx_segment_takes(struct kiw_session *s)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_batch *b = &tx->batch;
	u32 mss, used;

	if (s->neg.large)
		return true;
	mss = kiw_carrier_mss(s);
	used = b->len % mss;
	if (!used)
		return true;
	if (tx->message == KIW_MESSAGE_NONE && tx_may_start(tx))
		tx_start_message(s);
	return used + kiw_fpdu_wire_len(b->offset, kiw_message_next(s), s->neg.markers_tx) <= mss;
}

/*
 * May the batch get one more FPDU? If TCP refuses the batch for lack of room or memory, at most one
 * FPDU may remain with us.
 */
static bool tx_batch_takes(struct kiw_session *s)
{
	struct kiw_batch *b = &s->tx.batch;

	if (!kiw_batch_whole(b) || !kiw_batch_open(b))
		return false;
	return !b->len || (kiw_carrier_takes(s) && tx_segment_takes(s));
}

static bool tx_run(struct kiw_session *s, int budget)
{
	struct kiw_tx *tx = &s->tx;
	struct kiw_sq *sq = &s->core->sq;
	int puts = budget * TX_PUTS;
	int ret, err;

	if (!tx->stopped)
		kiw_sq_flag(sq, KIW_RING_DRAINING);
	for (; budget > 0 && puts > 0; budget--) {
		for (ret = 1; ret > 0 && puts > 0 && tx_batch_takes(s); puts--)
			ret = tx_put_next(s);
		if (kiw_batch_unsent(&tx->batch)) {
			err = kiw_carrier_push(s, ret > 0 && tx_goes_on(s));
			if (err == -EAGAIN || err == -ENOMEM) {
				tx->stuck = true;
				tx->starved = err == -ENOMEM;
				return tx->starved;
			}
			if (err && err != -EINTR) {
				tx->lost = true;
				return false;
			}
			if (!err)
				tx_batch_done(s);
			continue;
		}
		tx_requests_sent(s);	/* local requests */
		if (ret > 0)
			continue;
		if (ret < 0) {
			tx->starved = true;
			return true;
		}
		if (tx->taken || !tx->gate || tx->stopped)
			return false;	/* a later event looks again */
		tx->gathers = kiw_carrier_gathers(s);
		if (tx->gathers == KIW_RING_DRAINING || !kiw_sq_rest(sq, tx->gathers))
			return false;
		kiw_sq_flag(sq, KIW_RING_DRAINING);
	}
	return true;
}

bool kiw_tx_run(struct kiw_session *s, int budget)
{
	struct kiw_tx *tx = &s->tx;
	bool more = true;

	kiw_carrier_assert_held(s);
	if (s->gone)
		return false;
	tx->stuck = false;
	tx->starved = !kiw_carrier_begin(s);
	if (!tx->starved)
		more = tx_run(s, budget);
	/* The batch may have been cut back to nothing: drop its loan. */
	if (tx->batch.loan && !tx->batch.len)
		kiw_tx_drop(s);
	kiw_carrier_end(s, kiw_tx_awaits(s));
	return more;
}
