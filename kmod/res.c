// SPDX-License-Identifier: GPL-2.0
/*
 * Values for "rdma -dd resource show". Memory that a process can write is shown as found. RDMA core
 * keeps the object's memory, but in some kernels not its parts: an object under destruction is
 * skipped.
 */
#include "res.h"

#include <linux/inet.h>
#include <net/netlink.h>
#include <net/tcp.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "attach.h"
#include "cq.h"
#include "lend.h"
#include "mr.h"
#include "pump.h"
#include "qp.h"
#include "srq.h"
#include "ud/ud.h"

/* Format for RDMA core */
enum res_kind {
	RES_U32,
	RES_HEX,
	RES_U64,
	RES_TEXT,
};

/*
 * @name: shown as drv_NAME
 * @text: if @kind is %RES_TEXT, else @value
 */
struct res_value {
	const char	*name;
	union {
		u64		value;
		const char	*text;
	};
	enum res_kind	kind;
};

static int res_put_value(struct sk_buff *msg, const struct res_value *v)
{
	switch (v->kind) {
	case RES_HEX:
		return rdma_nl_put_driver_u32_hex(msg, v->name, v->value);
	case RES_U64:
		return rdma_nl_put_driver_u64(msg, v->name, v->value);
	case RES_TEXT:
		return rdma_nl_put_driver_string(msg, v->name, v->text);
	default:
		return rdma_nl_put_driver_u32(msg, v->name, v->value);
	}
}

static int res_put(struct sk_buff *msg, const struct res_value *value, size_t n)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;
	for (; n--; value++) {
		if (res_put_value(msg, value)) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

static u32 res_sq_undone(const struct kiw_sq *sq)
{
	return kiw_ring_prod(&sq->map) - sq->done;
}

/* 0 with an SRQ. */
static u32 res_rq_posted(const struct kiw_rq *rq)
{
	return rq->entries ? kiw_ring_prod(&rq->map) - rq->next : 0;
}

static int res_put_idle(struct sk_buff *msg, const struct kiw_qp *qp)
{
	const struct res_value values[] = {
		{ "sq_depth", { qp->core->sq.entries } },
		{ "sq_undone", { res_sq_undone(&qp->core->sq) } },
		{ "rq_depth", { qp->core->rq.entries } },
		{ "rq_posted", { res_rq_posted(&qp->core->rq) } },
	};

	lockdep_assert_held(&qp->mutex);
	return res_put(msg, values, ARRAY_SIZE(values));
}

static int res_put_datagram(struct sk_buff *msg, const struct kiw_qp *qp)
{
	struct kiw_ud *ud = qp->ud;
	struct res_value values[] = {
		{ "rq_posted" },
		{ "rq_depth", { qp->core->rq.entries } },
		{ "sq_depth", { qp->core->sq.entries } },
		{ "sq_undone", { res_sq_undone(&qp->core->sq) } },
		{ "udp_port", { ntohs(inet_sk(ud->sock->sk)->inet_sport) } },
	};

	lockdep_assert_held(&qp->mutex);
	spin_lock_bh(&ud->lock);
	values[0].value = res_rq_posted(&qp->core->rq);
	spin_unlock_bh(&ud->lock);
	return res_put(msg, values, ARRAY_SIZE(values));
}

/* ADDRESS:PORT of both ends of a connection */
struct res_ends {
	char	local[INET6_ADDRSTRLEN + 8];
	char	peer[INET6_ADDRSTRLEN + 8];
};

static void res_get_ends(const struct sock *sk, struct res_ends *ends)
{
	u16 local = ntohs(inet_sk(sk)->inet_sport), peer = ntohs(inet_sk(sk)->inet_dport);

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		snprintf(ends->local, sizeof(ends->local), "[%pI6c]:%u", &sk->sk_v6_rcv_saddr,
			 local);
		snprintf(ends->peer, sizeof(ends->peer), "[%pI6c]:%u", &sk->sk_v6_daddr, peer);
		return;
	}
#endif
	snprintf(ends->local, sizeof(ends->local), "%pI4:%u", &sk->sk_rcv_saddr, local);
	snprintf(ends->peer, sizeof(ends->peer), "%pI4:%u", &sk->sk_daddr, peer);
}

static int res_put_connected(struct sk_buff *msg, const struct kiw_qp *qp,
			     const struct kiw_stream *s)
{
	const struct tcp_sock *tp = tcp_sk(s->sk);
	struct res_ends ends;
	const struct res_value values[] = {
		{ "local", { .text = ends.local }, RES_TEXT },
		{ "peer", { .text = ends.peer }, RES_TEXT },
		{ "sq_depth", { qp->core->sq.entries } },
		{ "sq_undone", { res_sq_undone(&qp->core->sq) } },
		{ "rq_depth", { qp->core->rq.entries } },
		{ "rq_posted", { res_rq_posted(&qp->core->rq) } },
		{ "reads_out", { kiw_reads_out_len(&s->ss.tx.reads_out) } },
		{ "reads_in", { kiw_reads_in_len(&s->ss.tx.reads_in) } },
		{ "message_waits", { kiw_receive_waits(&s->ss.rx) } },
		{ "mpa_rev", { s->ss.neg.rev } },
		{ "crc", { s->ss.neg.crc } },
		{ "markers_out", { s->ss.neg.markers_tx } },
		{ "markers_in", { s->ss.neg.markers_rx } },
		{ "p2p", { s->ss.neg.p2p } },
		{ "ord", { qp->core->ord } },
		{ "ird", { qp->core->ird } },
		{ "long_fpdus", { s->ss.neg.large } },
		{ "rfc7306", { s->ss.neg.ext } },
		{ "sent_fpdus", { s->ss.tx.sent_fpdus }, RES_U64 },
		{ "received_fpdus", { s->rx_fpdus }, RES_U64 },
		{ "sent_bytes", { s->ss.tx.sent_bytes }, RES_U64 },
		{ "received_bytes", { s->rx_bytes }, RES_U64 },
		{ "lent_bytes", { s->ss.tx.lent_bytes }, RES_U64 },
		{ "tcp_unacked", { tp->snd_nxt - tp->snd_una } },
		{ "tcp_unsent", { tp->write_seq - tp->snd_nxt } },
		{ "tcp_retransmits", { tp->total_retrans } },
	};

	kiw_stream_assert_held(s);
	res_get_ends(s->sk, &ends);
	return res_put(msg, values, ARRAY_SIZE(values));
}

int kiw_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct kiw_qp *qp = to_kiw_qp(ibqp);
	struct kiw_stream *s;
	int ret = -EAGAIN;

	mutex_lock(&qp->mutex);
	if (qp->dying)
		goto unlock;
	if (kiw_qp_is_ud(qp)) {
		ret = res_put_datagram(msg, qp);
		goto unlock;
	}
	s = kiw_stream_of(qp);
	if (s) {
		/* The mutex keeps its QP. */
		kiw_pump_lock(s);
		ret = res_put_connected(msg, qp, s);
		kiw_pump_unlock(s);
		kiw_stream_put(s);
	} else {
		ret = res_put_idle(msg, qp);
	}
unlock:
	mutex_unlock(&qp->mutex);
	return ret;
}

int kiw_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct kiw_cq *cq = to_kiw_cq(ibcq);
	const struct kiw_cq_ring *ring;
	struct res_value values[] = {
		{ "depth" },
		{ "unpolled" },
		{ "armed" },
		{ "overflowed" },
	};
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	ring = cq->map.mem;
	if (ring) {
		values[0].value = cq->entries;
		values[1].value = cq->prod - READ_ONCE(ring->cons);
		values[2].value = READ_ONCE(ring->arm);
		values[3].value = cq->dead;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return ring ? res_put(msg, values, ARRAY_SIZE(values)) : -EAGAIN;
}

/* RDMA core stops showing a region before deregistration. */
int kiw_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct kiw_mr *mr = to_kiw_mr(ibmr);
	const struct res_value values[] = {
		{ "access", { mr->region.access }, RES_HEX },
		{ "pages", { mr->umem ? ib_umem_num_pages(mr->umem) : mr->max }, RES_U64 },
		{ "windows", { max(atomic_read(&mr->region.windows), 0) } },
		{ "loans", { kiw_lent_loans(&mr->region) } },
	};

	return res_put(msg, values, ARRAY_SIZE(values));
}

int kiw_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct kiw_srq *srq = to_kiw_srq(ibsrq);
	struct res_value values[] = {
		{ "depth" },
		{ "posted" },
		{ "limit" },
		{ "message_waits" },
	};
	unsigned long flags;
	bool there;

	spin_lock_irqsave(&srq->lock, flags);
	there = srq->rq.map.mem;
	if (there) {
		values[0].value = srq->rq.entries;
		values[1].value = res_rq_posted(&srq->rq);
		values[2].value = srq->limit;
		values[3].value = !list_empty(&srq->line);
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return there ? res_put(msg, values, ARRAY_SIZE(values)) : -EAGAIN;
}
