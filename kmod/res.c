// SPDX-License-Identifier: GPL-2.0
/*
 * Values for "rdma -dd resource show", each a name and a number; what a process can write is shown
 * as it is found. RDMA core keeps the object's memory meanwhile, but not in all kernels what the
 * object consists of: an object that is being destroyed isn't shown, RDMA core passes over it.
 */
#include "res.h"

#include <net/netlink.h>
#include <net/tcp.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "cq.h"
#include "pump.h"
#include "qp.h"
#include "stream.h"

/* A value as RDMA core passes it on */
struct res_value {
	const char	*name;
	u32		value;
};

static int res_put(struct sk_buff *msg, const struct res_value *value, size_t n)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;
	for (; n--; value++) {
		if (rdma_nl_put_driver_u32(msg, value->name, value->value)) {
			nla_nest_cancel(msg, table);
			return -EMSGSIZE;
		}
	}
	nla_nest_end(msg, table);
	return 0;
}

/* The send queue alone: that of a QP without a connection, or of a datagram QP */
static int res_put_sq(struct sk_buff *msg, const struct kiw_qp *qp)
{
	const struct res_value values[] = {
		{ "sq_undone", kiw_ring_prod(&qp->sq.map) - qp->sq.done },
	};

	lockdep_assert_held(&qp->mutex);
	return res_put(msg, values, ARRAY_SIZE(values));
}

static int res_put_connected(struct sk_buff *msg, const struct kiw_qp *qp,
			     const struct kiw_stream *s)
{
	const struct tcp_sock *tp = tcp_sk(s->sk);
	const struct kiw_rq *rq = &qp->rq;
	const struct res_value values[] = {
		{ "sq_undone", kiw_ring_prod(&qp->sq.map) - qp->sq.done },
		{ "rq_posted", rq->entries ? kiw_ring_prod(&rq->map) - rq->next : 0 },
		{ "reads_out", kiw_reads_out_len(&s->tx.reads_out) },
		{ "reads_in", kiw_reads_in_len(&s->tx.reads_in) },
		{ "message_waits", kiw_receive_waits(&s->rx) },
		{ "mpa_rev", s->neg.rev },
		{ "crc", s->neg.crc },
		{ "markers_out", s->neg.markers_tx },
		{ "markers_in", s->neg.markers_rx },
		{ "long_fpdus", s->neg.large },
		{ "rfc7306", s->neg.ext },
		{ "tcp_unacked", tp->snd_nxt - tp->snd_una },
		{ "tcp_unsent", tp->write_seq - tp->snd_nxt },
		{ "tcp_retransmits", tp->total_retrans },
	};

	kiw_stream_assert_held(s);
	return res_put(msg, values, ARRAY_SIZE(values));
}

int kiw_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct kiw_qp *qp = to_kiw_qp(ibqp);
	struct kiw_stream *s = NULL;
	int ret = -EAGAIN;

	mutex_lock(&qp->mutex);
	if (qp->dying)
		goto unlock;
	if (!kiw_qp_is_ud(qp))
		s = kiw_stream_of(qp);
	if (s) {
		/* With the mutex held it keeps the QP. */
		kiw_pump_lock(s);
		ret = res_put_connected(msg, qp, s);
		kiw_pump_unlock(s);
		kiw_stream_put(s);
	} else {
		ret = res_put_sq(msg, qp);
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
		{ "unpolled" },
		{ "armed" },
		{ "overflowed" },
	};
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	ring = cq->map.mem;
	if (ring) {
		values[0].value = cq->prod - READ_ONCE(ring->cons);
		values[1].value = READ_ONCE(ring->arm);
		values[2].value = cq->dead;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return ring ? res_put(msg, values, ARRAY_SIZE(values)) : -EAGAIN;
}
