// SPDX-License-Identifier: GPL-2.0
/*
 * A request becomes one datagram or several in our own memory: nobody can change the bytes under a
 * CRC. Datagrams of one length to one destination form a train, also those of several requests, and
 * UDP gets a train in one call, without waiting. Then the requests complete; delivery is not
 * promised.
 */
#include "tx.h"

#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/overflow.h>
#include <linux/socket.h>
#include <linux/udp.h>
#include <net/sock.h>

#include "session/builder.h"
#include "session/cqe.h"
#include "ud.h"
#include "path.h"
#include "proto/dgram.h"

/* --- one datagram --------------------------------------------------------------------------- */

static bool udtx_is_write(const struct kiw_ud *ud)
{
	return ud->req.wqe.opcode == KIW_WR_WRITE;
}

/* The current Write; its segments grow if they would be too many. */
static struct kiw_dgram_write udtx_write(const struct kiw_ud *ud)
{
	return (struct kiw_dgram_write){
		.stag = ud->req.wqe.rkey,
		.to = ud->req.wqe.remote_addr,
		.id = ud->write_id,
		.length = ud->req.len,
		.seg_size = max_t(u32, ud->seg_size,
				  DIV_ROUND_UP(ud->req.len, KIW_DGRAM_MAX_SEGS)),
	};
}

/* Only privileged programs can give a QP a controlled key, with the top bit set. */
static u32 udtx_qkey(const struct kiw_ud *ud)
{
	return ud->req.dest.qkey & BIT(31) ? READ_ONCE(ud->qkey) : ud->req.dest.qkey;
}

static bool udtx_is_send(const struct kiw_ud *ud)
{
	return ud->req.wqe.opcode == KIW_WR_SEND || ud->req.wqe.opcode == KIW_WR_SEND_IMM;
}

/* As udtx_build_header(). */
static u32 udtx_build_send(struct kiw_ud *ud, u8 *hdr, u32 *payload)
{
	const struct kiw_send_req *req = &ud->req;
	bool has_imm = req->wqe.opcode == KIW_WR_SEND_IMM;
	bool solicited = req->wqe.flags & KIW_WQE_SOLICITED;

	if (req->len > (has_imm ? KIW_UD_MAX_IMM_MSG : KIW_UD_MAX_MSG)) {
		*payload = IB_WC_LOC_LEN_ERR;
		return 0;
	}
	*payload = req->len;
	if (has_imm)
		return kiw_dgram_build_imm(hdr, solicited, udtx_qkey(ud), ud->msn, req->wqe.imm);
	return kiw_dgram_build(hdr, solicited, udtx_qkey(ud), ud->msn);
}

/*
 * Write the header of the request's next datagram. Return: its length, and in @payload the number
 * of bytes that follow; or 0, and in @payload the request's status.
 */
static u32 udtx_build_header(struct kiw_ud *ud, u8 *hdr, u32 *payload)
{
	const struct kiw_send_req *req = &ud->req;
	struct kiw_dgram_write w;

	*payload = IB_WC_LOC_QP_OP_ERR;
	if (memchr_inv(req->dest.reserved, 0, sizeof(req->dest.reserved)))
		return 0;
	if (udtx_is_send(ud))
		return udtx_build_send(ud, hdr, payload);
	if (!udtx_is_write(ud) || kiw_ud_to_group(&req->dest) ||
	    req->wqe.remote_addr + req->len < req->len)
		return 0;
	w = udtx_write(ud);
	if (w.seg_size > KIW_DGRAM_MAX_SEG) {
		*payload = IB_WC_LOC_LEN_ERR;
		return 0;
	}
	*payload = kiw_dgram_seg_len(&w, ud->write_done);
	return kiw_dgram_build_write(hdr, &w, ud->write_done, udtx_qkey(ud));
}

/* Add a datagram to the train. Return: the request's status, or -ENOMEM. */
static int udtx_build(struct kiw_ud *ud, const u8 *hdr, u32 hdr_len, u32 payload)
{
	struct kiw_builder f = {
		.batch = &ud->train.batch,
		.owner = &ud->core->own,
		.gfp = ud->sock->sk->sk_allocation,
	};
	enum kiw_region_fault fault;
	int ret;

	ret = kiw_builder_begin_datagram(&f, hdr, hdr_len);
	if (!ret)
		ret = kiw_builder_put_request(&f, &ud->req, ud->write_done, payload, &fault);
	if (!ret)
		ret = kiw_builder_end_datagram(&f);
	if (ret)
		kiw_builder_undo(&f);
	return ret == -EFAULT ? IB_WC_LOC_PROT_ERR : ret;
}

/* --- a train -------------------------------------------------------------------------------- */

/*
 * Most bytes of a train: any interface sends them as one packet, with a long link header, IPv6's
 * and UDP's. Larger packets are cut before the interface.
 */
#define TRAIN_MAX (GSO_LEGACY_MAX_SIZE - 1 - 128 - sizeof(struct ipv6hdr) - sizeof(struct udphdr))

/* Can a datagram of @len bytes to the request's destination join? */
static bool udtx_train_takes(const struct kiw_ud *ud, u32 len)
{
	const struct kiw_ud_train *t = &ud->train;

	if (!t->batch.len)
		return true;
	return t->last == t->size && len <= t->size && t->size <= t->room &&
	       t->batch.len / t->size < UDP_MAX_SEGMENTS && t->batch.len + len <= TRAIN_MAX &&
	       !t->batch.sent && !memcmp(&t->dest, &ud->req.dest, sizeof(t->dest));
}

static void udtx_train_add(struct kiw_ud *ud, u32 len)
{
	struct kiw_ud_train *t = &ud->train;

	if (t->batch.len == len) {
		t->dest = ud->req.dest;
		t->size = len;
		t->room = kiw_ud_path_room(ud, &t->dest);
	}
	t->last = len;
}

/* The current request failed, or all of it is in the train. */
static void udtx_req_end(struct kiw_ud *ud)
{
	if (ud->taken && udtx_is_write(ud))
		ud->write_id++;
	ud->write_done = 0;
	ud->taken = false;
}

/*
 * Add the next datagram of the current request. Return: the request's status, -ENOMEM, or -EAGAIN:
 * send the train first.
 */
static int udtx_add(struct kiw_ud *ud)
{
	u8 hdr[KIW_DGRAM_HDR_MAX];
	u32 hdr_len, payload, len;
	int ret;

	/* Datagrams of a full train are shorter than a page: at most two pieces each. */
	BUILD_BUG_ON(2 * UDP_MAX_SEGMENTS > KIW_BATCH_PIECES);
	BUILD_BUG_ON(KIW_UD_MAX_MSG != KIW_DGRAM_MAX_MSG);
	BUILD_BUG_ON(KIW_UD_MAX_IMM_MSG != KIW_DGRAM_MAX_IMM_MSG);
	hdr_len = udtx_build_header(ud, hdr, &payload);
	if (!hdr_len)
		return payload;
	len = hdr_len + payload + KIW_DGRAM_CRC_SIZE;
	if (!udtx_train_takes(ud, len))
		return -EAGAIN;
	ret = udtx_build(ud, hdr, hdr_len, payload);
	if (ret)
		return ret;
	udtx_train_add(ud, len);
	if (udtx_is_write(ud))
		ud->write_done += payload;
	else
		ud->msn++;
	if (!udtx_is_write(ud) || ud->write_done == ud->req.len)
		udtx_req_end(ud);
	return IB_WC_SUCCESS;
}

/* Fill the train from the ring. Return: KIW_UD_SENT_SOME if there may be more in it. */
static enum kiw_ud_sent udtx_fill(struct kiw_ud *ud)
{
	struct kiw_sq *sq = &ud->core->sq;
	int status = IB_WC_SUCCESS;

	while (status == IB_WC_SUCCESS) {
		if (!ud->taken) {
			switch (kiw_sq_take(sq, &ud->req)) {
			case KIW_TAKE_NONE:
				return KIW_UD_SENT_ALL;
			case KIW_TAKE_ONE:
				ud->taken = true;
				break;
			case KIW_TAKE_BAD:
				kiw_sq_done(sq, ud->req.index, IB_WC_LOC_QP_OP_ERR);
				return KIW_UD_SENT_SOME;
			case KIW_TAKE_RING:
				kiw_stat_inc(&ud->dev->stats, KIW_STAT_RING_ERRORS);
				return KIW_UD_SENT_BROKEN;
			}
		}
		status = udtx_add(ud);
	}
	if (status == -ENOMEM)
		return KIW_UD_SENT_STARVED;
	if (status != -EAGAIN) {
		kiw_sq_done(sq, ud->req.index, status);
		udtx_req_end(ud);
	}
	return KIW_UD_SENT_SOME;
}

/* Send @n bytes of the train, from the first unsent one. Return: 0 or UDP's errno. */
static int udtx_hand_over(struct kiw_ud *ud, struct kiw_ud_path *path, u32 n)
{
	struct kiw_batch *b = &ud->train.batch;
	struct msghdr msg = {
		.msg_name = &path->to,
		.msg_namelen = path->to_len,
		.msg_control = path->control,
		.msg_controllen = path->control_len,
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
	};
	int ret;

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, b->mem.piece, b->pieces, b->len);
	iov_iter_advance(&msg.msg_iter, b->sent);
	iov_iter_truncate(&msg.msg_iter, n);
	ret = sock_sendmsg(ud->sock, &msg);
	if (ret < 0)
		return ret == -ENOBUFS ? -ENOMEM : ret;	/* UDP's other errno */
	kiw_traffic_sent(&ud->dev->stats, n, 0, DIV_ROUND_UP(n, ud->train.size));
	b->sent += n;
	return 0;
}

static bool udtx_may_wait(int ret)
{
	return ret == -EAGAIN || ret == -ENOMEM;
}

/*
 * Give UDP the rest of the train. If UDP refuses a train, for example because the path has a
 * smaller MTU than the interface, send one datagram after the other. Return: the status of the
 * train's requests; -EAGAIN: no room in UDP, or -ENOMEM: the rest stays.
 */
static int udtx_push(struct kiw_ud *ud)
{
	struct kiw_batch *b = &ud->train.batch;
	u32 size = ud->train.size;
	struct kiw_ud_path path, whole;
	int ret = 0;

	if (!kiw_ud_path(ud, &ud->train.dest, &path))
		return IB_WC_LOC_QP_OP_ERR;
	if (!b->sent && b->len > size) {
		whole = path;
		kiw_ud_path_segments(&whole, size);
		ret = udtx_hand_over(ud, &whole, b->len);
		if (udtx_may_wait(ret))
			return ret;
	}
	while (b->sent < b->len) {
		ret = udtx_hand_over(ud, &path, min(size, b->len - b->sent));
		if (ret)
			break;
	}
	if (udtx_may_wait(ret))
		return ret;
	/* No route, or a packet filter drops it. */
	return ret ? IB_WC_GENERAL_ERR : IB_WC_SUCCESS;
}

/*
 * The train is gone, and with it all current requests but one that is not in it. If UDP refused the
 * train, also one that is partly in it: all parts fail alike.
 */
static void udtx_train_end(struct kiw_ud *ud, int status)
{
	struct kiw_sq *sq = &ud->core->sq;
	u32 i, end;

	if (status != IB_WC_SUCCESS && ud->write_done)
		udtx_req_end(ud);
	end = ud->taken ? ud->req.index : sq->next;
	for (i = sq->done; i != end; i++) {
		if (!kiw_swr(sq, i)->done)
			kiw_sq_done(sq, i, status);
	}
	kiw_batch_clear(&ud->train.batch);
}

void kiw_ud_unsend(struct kiw_ud *ud)
{
	lockdep_assert_held(ud->mutex);
	kiw_batch_clear(&ud->train.batch);
	udtx_req_end(ud);
}

/* --- the ring ------------------------------------------------------------------------------- */

/*
 * UDP had no room. Return: true: there is room now, without a callback. Either the callback sees
 * the flag, or we see the freed room.
 */
static bool udtx_stall(struct kiw_ud *ud)
{
	const struct sock *sk = ud->sock->sk;

	WRITE_ONCE(ud->stalled, true);
	smp_mb();	/* pairs with that of the write-space callback */
	return sk_wmem_alloc_get(sk) < READ_ONCE(sk->sk_sndbuf);
}

/* Send a train. Return: KIW_UD_SENT_SOME if there may be more to send. */
static enum kiw_ud_sent udtx_next(struct kiw_ud *ud, int *budget)
{
	enum kiw_ud_sent sent = udtx_fill(ud);
	int status;

	kiw_region_leave(&ud->train.batch.use);

	if (!ud->train.batch.len) {
		--*budget;
		return sent;
	}
	*budget -= DIV_ROUND_UP(ud->train.batch.len, ud->train.size);
	status = udtx_push(ud);
	if (status == -EAGAIN)
		return KIW_UD_SENT_STALLED;
	if (status == -ENOMEM)
		return KIW_UD_SENT_STARVED;
	udtx_train_end(ud, status);
	/* The failed allocation may have been for the next datagram. */
	return sent == KIW_UD_SENT_STARVED ? KIW_UD_SENT_SOME : sent;
}

static enum kiw_ud_sent udtx_run(struct kiw_ud *ud, int budget)
{
	struct kiw_sq *sq = &ud->core->sq;
	enum kiw_ud_sent sent = KIW_UD_SENT_SOME;

	WRITE_ONCE(ud->stalled, false);
	kiw_sq_flag(sq, KIW_RING_DRAINING);
	while (sent == KIW_UD_SENT_SOME && budget > 0) {
		sent = udtx_next(ud, &budget);
		if (sq->next - sq->done >= KIW_CQE_BATCH || sent != KIW_UD_SENT_SOME) {
			if (!kiw_sq_complete(&ud->core->sq))
				return KIW_UD_SENT_BROKEN;
		}
		if (sent == KIW_UD_SENT_ALL && kiw_sq_rest(sq, 0)) {
			kiw_sq_flag(sq, KIW_RING_DRAINING);
			sent = KIW_UD_SENT_SOME;
		}
	}
	if (sent == KIW_UD_SENT_STALLED && udtx_stall(ud))
		sent = KIW_UD_SENT_SOME;
	return sent;
}

enum kiw_ud_sent kiw_ud_send(struct kiw_ud *ud, int budget)
{
	enum kiw_ud_sent sent = KIW_UD_SENT_STARVED;
	struct kiw_batch *b = &ud->train.batch;

	lockdep_assert_held(ud->mutex);
	if (kiw_batch_begin(b, ud->sock->sk->sk_allocation))
		sent = udtx_run(ud, budget);
	kiw_batch_end(b);
	return sent;
}
