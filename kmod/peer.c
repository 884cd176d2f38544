// SPDX-License-Identifier: GPL-2.0
/*
 * The peer of a queue pair that connects by number: the program's attributes, and detection of its
 * loss.
 */
#include "peer.h"

#include <linux/slab.h>
#include <net/tcp.h>

#include "attach.h"
#include "inbox.h"
#include "qp.h"

/*
 * Shortest limit of a peer's silence, in jiffies: by then TCP has resent three times, or a probe
 * got its answer
 */
#define PEER_SILENCE_MIN (2 * HZ)
/* rnr_retry for messages that wait for a receive without limit */
#define PEER_RNR_ENDLESS 7

/* Seconds that requests wait for a peer that was never connected */
#define PEER_PATIENCE 20

const struct kiw_manner kiw_manner_cm = { .lost = IB_WC_WR_FLUSH_ERR };

const struct kiw_manner kiw_manner_number = {
	.grace = 2,
	.outlives = true,
	.acked = true,
	.lost = IB_WC_RETRY_EXC_ERR,
};

/* --- is it there? --------------------------------------------------------------------------- */

/* Jiffies until a silent peer is lost, or 0: never */
static unsigned long peer_silence_limit(const struct kiw_path *path)
{
	u32 timeout = path->timeout & 31;

	if (!timeout)
		return 0;
	return max_t(u64, PEER_SILENCE_MIN,
		     nsecs_to_jiffies((4096ULL << timeout) * ((path->retry_cnt & 7) + 1)));
}

unsigned long kiw_peer_patience(const struct kiw_peer *peer)
{
	unsigned long silence = peer_silence_limit(&peer->path);

	/* A connected peer that left cannot return: even without a limit, do not wait for ever. */
	if (peer->over)
		return silence ? silence : PEER_PATIENCE * HZ;
	return silence ? PEER_PATIENCE * HZ : 0;
}

/*
 * Once the peer's TCP has a Read's request, TCP has nothing to send that could stay unanswered. So
 * it probes for the peer meanwhile, independent of the keepalive setting.
 */
static void peer_change_probes(struct kiw_watch *watch, struct kiw_stream *s)
{
	struct sock *sk = s->sk;
	struct tcp_sock *tp = tcp_sk(sk);
	bool open;

	/* Not kiw_pump_own(): nobody may leave pending work to this owner. */
	lock_sock(sk);
	open = sock_flag(sk, SOCK_KEEPOPEN);
	sk->sk_prot->keepalive(sk, 0);
	sock_reset_flag(sk, SOCK_KEEPOPEN);
	swap(tp->keepalive_time, watch->keep_time);
	swap(tp->keepalive_intvl, watch->keep_intvl);
	swap(tp->keepalive_probes, watch->keep_count);
	if (watch->keep_open) {
		sk->sk_prot->keepalive(sk, 1);
		sock_set_flag(sk, SOCK_KEEPOPEN);
	}
	watch->keep_open = open;
	watch->probes = !watch->probes;
	release_sock(sk);
}

/*
 * Has the peer been silent for too long? While it accepts no more data, TCP probes ever more
 * rarely, so its silence means nothing.
 */
static bool peer_is_silent(struct kiw_watch *watch, struct kiw_stream *s, unsigned long limit,
			   unsigned long pause)
{
	const struct tcp_sock *tp = tcp_sk(s->sk);
	bool reads = kiw_reads_out_len(&s->ss.tx.reads_out);

	if (reads != watch->probes)
		peer_change_probes(watch, s);
	if (!READ_ONCE(tp->packets_out) &&
	    (!reads || READ_ONCE(tp->write_seq) != READ_ONCE(tp->snd_una))) {
		watch->since = jiffies + pause;
		return false;
	}
	return time_after_eq(jiffies, watch->since + limit) && keepalive_time_elapsed(tp) >= limit;
}

static void peer_watch_work(struct work_struct *work)
{
	struct kiw_peer *peer = container_of(to_delayed_work(work), struct kiw_peer, watch.work);
	struct kiw_qp *qp = peer->qp;
	unsigned long limit, pause;
	struct kiw_stream *s;
	bool lost = false;

	mutex_lock(&qp->mutex);
	limit = peer_silence_limit(&peer->path);
	pause = limit / 4;
	s = qp->by_number ? kiw_stream_of(qp) : NULL;
	if (s && !limit && peer->watch.probes)
		peer_change_probes(&peer->watch, s);
	/* In other states the end began, and the endpoint limits it. */
	if (s && limit && READ_ONCE(qp->core->state) == KIW_QP_RTS) {
		lost = peer_is_silent(&peer->watch, s, limit, pause);
		if (!lost)
			kiw_inbox_queue_late(&peer->watch.work, pause);
	}
	mutex_unlock(&qp->mutex);
	/* As if TCP itself had given up. */
	if (lost)
		tcp_abort(s->sk, ETIMEDOUT);
	if (s)
		kiw_stream_put(s);
}

void kiw_qp_watch(struct kiw_qp *qp)
{
	struct kiw_watch *watch;

	lockdep_assert_held(&qp->mutex);
	if (!qp->by_number)
		return;
	watch = &qp->peer->watch;
	watch->since = jiffies;
	watch->probes = false;
	watch->keep_time = HZ;
	watch->keep_intvl = HZ;
	watch->keep_count = MAX_TCP_KEEPCNT;	/* TCP does not give up before us */
	watch->keep_open = true;
	kiw_inbox_queue_late(&watch->work, 0);
}

/* --- the program's attributes --------------------------------------------------------------- */

int kiw_peer_expect(struct kiw_qp *qp, const struct kiw_peer *named, work_func_t late)
{
	lockdep_assert_held(&qp->mutex);
	if (qp->core->state != KIW_QP_IDLE || qp->core->shown != IB_QPS_INIT || qp->inbox)
		return -EINVAL;
	if (!qp->peer) {
		qp->peer = kzalloc(sizeof(*qp->peer), GFP_KERNEL_ACCOUNT);
		if (!qp->peer)
			return -ENOMEM;
		qp->peer->qp = qp;
		INIT_DELAYED_WORK(&qp->peer->late, late);
		INIT_DELAYED_WORK(&qp->peer->watch.work, peer_watch_work);
	}
	qp->peer->local = named->local;
	qp->peer->remote = named->remote;
	qp->peer->ends = named->ends;
	qp->peer->gid_index = named->gid_index;
	qp->peer->path = named->path;
	qp->peer->ird = named->ird;
	qp->peer->ord = named->ord;
	qp->peer->ends.limited = qp->peer->path.rnr_retry != PEER_RNR_ENDLESS;
	qp->peer->over = false;
	qp->peer->limited = false;
	qp->peer->untold = false;
	qp->peer->begun = false;
	/* A program that names its peer sets its rights itself. */
	WRITE_ONCE(qp->core->own.access, qp->asked);
	qp->by_number = true;
	qp->core->flush = IB_WC_WR_FLUSH_ERR;
	WRITE_ONCE(qp->core->manner, &kiw_manner_number);
	WRITE_ONCE(qp->core->shown, IB_QPS_RTR);
	return 0;
}

int kiw_peer_ready(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	bool first = qp->core->shown == IB_QPS_RTR;
	struct kiw_peer *peer = qp->peer;
	u32 psn;

	lockdep_assert_held(&qp->mutex);
	if (!qp->by_number || (first && !(mask & IB_QP_SQ_PSN)) ||
	    ((mask & IB_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > KIW_MAX_RD_ATOM))
		return -EINVAL;
	psn = mask & IB_QP_SQ_PSN ? attr->sq_psn & KIW_PSN_MASK : peer->ends.sq_psn;
	if (peer->untold && psn != peer->told_psn)
		return -EACCES;
	peer->untold = false;
	peer->ends.sq_psn = psn;
	peer->ends.ready = true;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		peer->ord = attr->max_rd_atomic;
	WRITE_ONCE(qp->core->shown, IB_QPS_RTS);
	if (first && qp->inbox)
		kiw_inbox_post(qp->inbox, KIW_INBOX_READY);
	return 0;
}

void kiw_qp_meet(struct kiw_qp *qp, bool limited)
{
	mutex_lock(&qp->mutex);
	if (qp->by_number)
		qp->peer->limited = limited;
	mutex_unlock(&qp->mutex);
}

bool kiw_qp_proved(struct kiw_qp *qp, const struct kiw_inbox *inbox, u32 psn)
{
	struct kiw_peer *peer;
	bool right = true;

	mutex_lock(&qp->mutex);
	peer = qp->peer;
	if (qp->by_number && qp->inbox == inbox) {
		peer->untold = !peer->ends.ready;
		peer->told_psn = psn;
		right = peer->untold || peer->ends.sq_psn == psn;
	}
	mutex_unlock(&qp->mutex);
	return right;
}

void kiw_peer_forget(struct kiw_qp *qp)
{
	lockdep_assert_held(&qp->mutex);
	if (!qp->by_number)
		return;
	WRITE_ONCE(qp->by_number, false);
	WRITE_ONCE(qp->core->manner, &kiw_manner_cm);
	qp->peer->patient = false;
	if (!qp->inbox)
		return;
	/* The attempt cannot succeed: kiw_stream_start() compares the inbox. */
	kiw_inbox_post(qp->inbox, KIW_INBOX_ABORTED);
	if (rcu_access_pointer(qp->stream))
		return;	/* the endpoint stops it and releases the QP */
	kiw_inbox_put(qp->inbox);
	qp->inbox = NULL;
}

struct kiw_inbox *kiw_qp_forget_peer(struct kiw_qp *qp)
{
	struct kiw_inbox *inbox;

	mutex_lock(&qp->mutex);
	inbox = qp->by_number ? qp->inbox : NULL;
	if (inbox)
		kiw_inbox_get(inbox);
	kiw_peer_forget(qp);
	mutex_unlock(&qp->mutex);
	return inbox;
}

bool kiw_qp_peer(struct kiw_qp *qp, struct kiw_peer *peer)
{
	bool named;

	mutex_lock(&qp->mutex);
	named = qp->by_number;
	if (named)
		*peer = *qp->peer;
	mutex_unlock(&qp->mutex);
	return named;
}

/* Restart the time to wait for the peer with its new limit. */
static void peer_await_anew(struct kiw_qp *qp)
{
	lockdep_assert_held(&qp->mutex);
	if (qp->core->state != KIW_QP_IDLE || qp->core->shown != IB_QPS_RTS ||
	    !kiw_sq_posted(&qp->core->sq))
		return;
	qp->peer->patient = false;
	kiw_qp_await_peer(qp);
}

void kiw_peer_keep(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct kiw_path *path;

	lockdep_assert_held(&qp->mutex);
	if (!qp->by_number)
		return;
	path = &qp->peer->path;
	if (mask & IB_QP_PATH_MTU)
		path->mtu = attr->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		path->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		path->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		path->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_MIN_RNR_TIMER)
		path->min_rnr_timer = attr->min_rnr_timer;
	qp->peer->ends.limited = path->rnr_retry != PEER_RNR_ENDLESS;
	if (mask & (IB_QP_TIMEOUT | IB_QP_RETRY_CNT)) {
		kiw_inbox_queue_late(&qp->peer->watch.work, 0);
		peer_await_anew(qp);
	}
}

static void peer_query_address(const struct kiw_peer *peer, struct rdma_ah_attr *ah)
{
	union ib_gid gid;

	memcpy(gid.raw, &peer->remote, sizeof(gid.raw));
	rdma_ah_set_grh(ah, &gid, peer->path.flow_label, peer->gid_index, peer->path.hop_limit,
			peer->path.traffic_class);
	rdma_ah_set_port_num(ah, 1);
}

void kiw_peer_query(const struct kiw_qp *qp, struct ib_qp_attr *attr, int mask)
{
	const struct kiw_peer *peer = qp->peer;

	lockdep_assert_held(&qp->mutex);
	/* Nothing is negotiated yet: return the program's values. */
	if (qp->core->state == KIW_QP_IDLE) {
		attr->max_rd_atomic = min_t(u32, peer->ord, U8_MAX);
		attr->max_dest_rd_atomic = min_t(u32, peer->ird, U8_MAX);
	}
	attr->path_mtu = peer->path.mtu;
	attr->timeout = peer->path.timeout;
	attr->retry_cnt = peer->path.retry_cnt;
	attr->rnr_retry = peer->path.rnr_retry;
	attr->min_rnr_timer = peer->path.min_rnr_timer;
	/*
	 * These would let another program connect in the peer's place. RDMA core queries with an
	 * empty mask for each user that lists resources.
	 */
	if (mask & IB_QP_AV)
		peer_query_address(peer, &attr->ah_attr);
	if (mask & IB_QP_DEST_QPN)
		attr->dest_qp_num = peer->ends.to;
	if (mask & IB_QP_RQ_PSN)
		attr->rq_psn = peer->ends.rq_psn;
	if (mask & IB_QP_SQ_PSN)
		attr->sq_psn = peer->ends.sq_psn;
}

void kiw_peer_free(struct kiw_qp *qp)
{
	if (!qp->peer)
		return;
	cancel_delayed_work_sync(&qp->peer->late);
	cancel_delayed_work_sync(&qp->peer->watch.work);
	kfree(qp->peer);
}
