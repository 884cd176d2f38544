// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: the verbs.
 *
 * A QP ends in two steps. Unreachable: kiw_destroy_qp() marks it dying, so that no connection
 * starts; stops its stream and aborts its endpoint, which drops its references to the QP in its
 * work; and takes its number out of the table, where a look-up takes a reference under the table's
 * lock. Released: it waits for the last reference, which iw_cm or the endpoint holds, cancels the
 * doorbells of a consumer in the kernel, drops that consumer's completions, and frees the rings.
 * The completion queues outlive it, because RDMA core counts their users.
 */
#include "qp.h"

#include <linux/log2.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <rdma/uverbs_ioctl.h>

#include "attach.h"
#include "cq.h"
#include "lend.h"
#include "pump.h"
#include "region.h"
#include "srq.h"
#include "ud/ud.h"
#include "proto/ddp.h"

/* IB_ACCESS_FLUSH_GLOBAL and _PERSISTENT, which some kernels lack */
#define QP_ACCESS_FLUSH (BIT(8) | BIT(9))

/* Rights of peers on regions */
#define QP_REMOTE_RIGHTS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)
/* Jiffies that packets in queues of this host get when a process destroys a QP */
#define QP_LOAN_PATIENCE (HZ / 4)

#define QPN_MIN 0x10000		/* below: UDP ports, the numbers of datagram QPs */
#define QPN_MAX 0xffffff

static u32 qp_sq_stride(u32 head, const struct ib_qp_cap *cap)
{
	u32 sges = cap->max_send_sge * sizeof(struct kiw_sge);
	u32 atomic = sizeof(struct kiw_sge) + sizeof(struct kiw_atomic_args);

	BUILD_BUG_ON(sizeof(struct kiw_bind_args) >
		     sizeof(struct kiw_sge) + sizeof(struct kiw_atomic_args));
	return ALIGN(head + max3(sges, cap->max_inline_data, atomic), 16);
}

void kiw_qp_rem_ref(struct ib_qp *ibqp)
{
	kiw_qp_put(to_kiw_qp(ibqp));
}

/*
 * Take the reference here, where the table can be locked: between this and iw_add_ref() iw_cm holds
 * only a spinlock of its own. It calls both together, and iw_add_ref() for nothing else.
 */
struct ib_qp *kiw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct xarray *qps = &to_kiw_device(ibdev)->qps;
	struct kiw_qp *qp;

	xa_lock(qps);
	qp = xa_load(qps, qpn);
	if (qp && !kiw_qp_is_ud(qp) && (!qp->owner || qp->owner == task_tgid(current)))
		kiw_qp_get(qp);
	else
		qp = NULL;
	xa_unlock(qps);
	return qp ? &qp->ibqp : NULL;
}

struct kiw_qp *kiw_qp_find(struct kiw_device *dev, u32 qpn)
{
	struct kiw_qp *qp;

	xa_lock(&dev->qps);
	qp = xa_load(&dev->qps, qpn);
	if (qp && !kiw_qp_is_ud(qp) && !kiw_qp_is_kernel(qp))
		kiw_qp_get(qp);
	else
		qp = NULL;
	xa_unlock(&dev->qps);
	return qp;
}

struct kiw_qp *kiw_qp_next_of(struct kiw_device *dev, unsigned long *qpn)
{
	struct kiw_qp *qp;

	xa_lock(&dev->qps);
	qp = xa_find(&dev->qps, qpn, ULONG_MAX, XA_PRESENT);
	if (qp)
		kiw_qp_get(qp);
	xa_unlock(&dev->qps);
	++*qpn;
	return qp;
}

void kiw_qp_add_ref(struct ib_qp *ibqp)
{
}

int kiw_qp_bind(struct kiw_qp *qp, struct kiw_inbox *inbox, bool by_number)
{
	int ret = 0;

	mutex_lock(&qp->mutex);
	if (qp->inbox || qp->dying || qp->core->state != KIW_QP_IDLE ||
	    qp->by_number != by_number || (by_number && qp->peer->over)) {
		ret = -EISCONN;
	} else {
		kiw_inbox_get(inbox);
		qp->inbox = inbox;
	}
	mutex_unlock(&qp->mutex);
	return ret;
}

void kiw_qp_unbind(struct kiw_qp *qp, struct kiw_inbox *inbox)
{
	bool ours;

	mutex_lock(&qp->mutex);
	ours = qp->inbox == inbox;
	if (ours)
		qp->inbox = NULL;
	mutex_unlock(&qp->mutex);
	if (ours)
		kiw_inbox_put(inbox);
}

/* Make the endpoint of a QP give up, if there is one. */
static void qp_abort_endpoint(struct kiw_qp *qp)
{
	mutex_lock(&qp->mutex);
	if (qp->inbox)
		kiw_inbox_post(qp->inbox, KIW_INBOX_ABORTED);
	mutex_unlock(&qp->mutex);
}

/* --- create and destroy -------------------------------------------------------------------- */

static int qp_check_caps(const struct ib_qp_init_attr *attr)
{
	const struct ib_qp_cap *cap = &attr->cap;

	if ((attr->qp_type != IB_QPT_RC && attr->qp_type != IB_QPT_UD) || attr->create_flags)
		return -EOPNOTSUPP;
	if (cap->max_send_wr > KIW_MAX_QP_WR || cap->max_recv_wr > KIW_MAX_QP_WR ||
	    cap->max_send_sge > KIW_MAX_SGE || cap->max_recv_sge > KIW_MAX_SGE ||
	    cap->max_inline_data > KIW_MAX_INLINE)
		return -EINVAL;
	if (!attr->send_cq || !attr->recv_cq)
		return -EINVAL;
	return 0;
}

/*
 * What a process says of its QP; all 0 for a consumer in the kernel
 * @uctx: the process
 */
struct qp_request {
	struct kiw_ucontext		*uctx;
	struct kiw_create_qp_req	said;
};

/* A QP with an SRQ uses the SRQ's receive requests. */
static int qp_use_srq(struct ib_qp *ibqp, struct ib_qp_cap *cap)
{
	if (!ibqp->srq)
		return 0;
	/* Buffers are checked against the QP's domain, so the SRQ must share it. */
	if (ibqp->srq->pd != ibqp->pd)
		return -EINVAL;
	cap->max_recv_wr = 0;
	cap->max_recv_sge = to_kiw_srq(ibqp->srq)->rq.max_sge;
	return 0;
}

static void qp_free_queues(struct kiw_core *core)
{
	kiw_ring_free(&core->sq.map);
	kiw_ring_free(&core->rq.map);
	kvfree(core->sq.swr);
}

static int qp_alloc_queues(struct kiw_core *core, struct kiw_ucontext *uctx, struct ib_qp_cap *cap)
{
	gfp_t gfp = uctx ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;
	struct kiw_sq *sq = &core->sq;
	int ret;

	sq->entries = roundup_pow_of_two(max(cap->max_send_wr, 1U));
	sq->swr = kvcalloc(sq->entries, sizeof(*sq->swr), gfp | __GFP_NOWARN);
	if (!sq->swr)
		return -ENOMEM;
	ret = kiw_ring_alloc(&sq->map, uctx, sq->entries, qp_sq_stride(sq->head, cap));
	if (!ret && cap->max_recv_wr) {
		core->rq.entries = roundup_pow_of_two(cap->max_recv_wr);
		ret = kiw_ring_alloc(&core->rq.map, uctx, core->rq.entries,
				     kiw_rq_stride(cap->max_recv_sge));
	}
	if (ret)
		qp_free_queues(core);
	return ret;
}

static int qp_respond(const struct kiw_qp *qp, struct ib_udata *udata)
{
	struct kiw_create_qp_resp resp = {};

	kiw_ring_tell(&qp->core->sq.map, qp->core->sq.entries, &resp.sq);
	kiw_ring_tell(&qp->core->rq.map, qp->core->rq.entries, &resp.rq);
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

/* A datagram QP's number is its port. */
static int qp_number_ud(struct kiw_qp *qp, const struct kiw_create_qp_req *req)
{
	int ret;

	qp->ud = kiw_ud_open(&qp->ibqp, qp->core, &qp->mutex, req);
	if (IS_ERR(qp->ud))
		return PTR_ERR(qp->ud);
	qp->ibqp.qp_num = kiw_ud_port(qp->ud);
	qp->core->own.num = qp->ibqp.qp_num;
	ret = xa_insert(&qp->dev->qps, qp->ibqp.qp_num, qp, GFP_KERNEL);
	if (ret)
		kiw_ud_close(qp->ud);
	return ret;
}

/* Connected QPs are numbered in turn. */
static int qp_number(struct kiw_qp *qp)
{
	struct kiw_device *dev = qp->dev;
	u32 qpn;
	int ret;

	ret = xa_alloc_cyclic(&dev->qps, &qpn, NULL, XA_LIMIT(QPN_MIN, QPN_MAX), &dev->next_qpn,
			      GFP_KERNEL);
	if (ret < 0)
		return ret;
	qp->ibqp.qp_num = qpn;
	qp->core->own.num = qpn;
	xa_store(&dev->qps, qpn, qp, GFP_KERNEL);
	return 0;
}

static bool qp_check_said(const struct kiw_create_qp_req *req, enum ib_qp_type type, u32 features)
{
	bool plain = !req->flags && !req->udp_port && !req->seg_size && !req->record_timeout;

	if (req->reserved || (!plain && (type != IB_QPT_UD || !(features & KIW_FEATURE_RECORD))))
		return false;
	return !(req->flags & ~KIW_QP_RECORD) && req->seg_size <= KIW_RECORD_MAX_SEG_SIZE &&
	       req->record_timeout <= KIW_RECORD_MAX_TIMEOUT;
}

static int qp_read_request(struct qp_request *req, enum ib_qp_type type, struct ib_udata *udata)
{
	if (!udata)
		return type == IB_QPT_UD ? -EOPNOTSUPP : 0;
	req->uctx = rdma_udata_to_drv_context(udata, struct kiw_ucontext, ibuctx);
	/* An earlier provider does not know their slots. */
	if (type == IB_QPT_UD && !(req->uctx->features & KIW_FEATURE_UD))
		return -EOPNOTSUPP;
	if (udata->inlen < KIW_CREATE_QP_REQ_MIN ||
	    udata->outlen < sizeof(struct kiw_create_qp_resp))
		return -EINVAL;
	if (ib_copy_from_udata(&req->said, udata, min(sizeof(req->said), udata->inlen)))
		return -EFAULT;
	return qp_check_said(&req->said, type, req->uctx->features) ? 0 : -EINVAL;
}

/* An earlier provider would misread completions with immediate data. */
static u8 qp_caps(const struct kiw_ucontext *uctx, enum ib_qp_type type)
{
	u32 imm = type == IB_QPT_UD ? KIW_FEATURE_UD_IMM : KIW_FEATURE_IMM;
	u32 features = uctx ? uctx->features : KIW_FEATURES;

	return (features & imm ? KIW_CAP_IMM : 0) |
	       (features & KIW_FEATURE_ATOMIC ? KIW_CAP_ATOMIC : 0);
}

/* Run the doorbells of posts in the kernel. */
static void qp_run_doorbells(struct work_struct *work)
{
	struct kiw_qp *qp = container_of(work, struct kiw_qp, doorbell);

	/* There is nobody to tell of a failure: requests stay, or are flushed with the QP. */
	if (test_and_clear_bit(KIW_RUNG_SEND, &qp->rung))
		kiw_qp_doorbell(qp, true);
	if (test_and_clear_bit(KIW_RUNG_RECV, &qp->rung))
		kiw_qp_doorbell(qp, false);
}

static void qp_init_process(struct kiw_qp *qp, u64 cookie)
{
	qp->core->own.cookie = cookie;
	qp->owner = get_pid(task_tgid(current));
}

static void qp_init_kernel(struct kiw_qp *qp, const struct ib_qp_init_attr *attr)
{
	qp->core->own.cookie = (uintptr_t)&qp->ibqp;
	qp->core->own.kernel = true;
	qp->core->sq.kernel = true;
	qp->sig_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	spin_lock_init(&qp->sq_lock);
	spin_lock_init(&qp->rq_lock);
	INIT_WORK(&qp->doorbell, qp_run_doorbells);
}

int kiw_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct kiw_device *dev = to_kiw_device(ibqp->device);
	struct kiw_qp *qp = to_kiw_qp(ibqp);
	struct qp_request req = {};
	struct kiw_core *core;
	int ret;

	ret = qp_use_srq(ibqp, &attr->cap);
	if (ret)
		return ret;
	ret = qp_check_caps(attr);
	if (ret)
		return ret;
	ret = qp_read_request(&req, attr->qp_type, udata);
	if (ret)
		return ret;
	if (atomic_inc_return(&dev->num_qp) > KIW_MAX_QP) {
		ret = -ENOMEM;
		goto uncount;
	}

	core = kzalloc(sizeof(*core), udata ? GFP_KERNEL_ACCOUNT : GFP_KERNEL);
	if (!core) {
		ret = -ENOMEM;
		goto uncount;
	}
	qp->core = core;
	qp->dev = dev;
	core->manner = &kiw_manner_cm;
	core->flush = IB_WC_WR_FLUSH_ERR;
	core->own.pd = ibqp->pd;
	core->own.regions = &dev->regions;
	core->own.access = QP_REMOTE_RIGHTS;
	refcount_set(&qp->ref, 1);
	mutex_init(&qp->mutex);
	core->state = KIW_QP_IDLE;
	core->shown = IB_QPS_INIT;
	core->caps = qp_caps(req.uctx, attr->qp_type);
	core->sq.cq = to_kiw_cq(ibqp->send_cq);
	core->sq.owner = &core->own;
	core->rq.cq = to_kiw_cq(ibqp->recv_cq);
	core->rq.owner = &core->own;
	core->sq.head = attr->qp_type == IB_QPT_UD ? KIW_SQ_HEAD_UD : KIW_SQ_HEAD;
	if (udata)
		qp_init_process(qp, req.said.cookie);
	else
		qp_init_kernel(qp, attr);
	attr->cap.max_send_sge = max(attr->cap.max_send_sge, 1U);
	attr->cap.max_recv_sge = max(attr->cap.max_recv_sge, 1U);
	ret = qp_alloc_queues(core, req.uctx, &attr->cap);
	if (ret)
		goto put_owner;
	/* Grant the full capacity of the slots. */
	attr->cap.max_send_wr = core->sq.entries;
	attr->cap.max_recv_wr = core->rq.entries;
	attr->cap.max_inline_data = min_t(u32, core->sq.map.stride - core->sq.head, KIW_MAX_INLINE);
	core->sq.max_sge = attr->cap.max_send_sge;
	core->rq.max_sge = attr->cap.max_recv_sge;
	core->sq.max_inline = attr->cap.max_inline_data;

	ret = udata ? qp_respond(qp, udata) : 0;
	if (ret)
		goto free;
	/* Last, so that only a complete QP can be found. */
	ret = kiw_qp_is_ud(qp) ? qp_number_ud(qp, &req.said) : qp_number(qp);
	if (ret)
		goto free;
	return 0;

free:
	qp_free_queues(core);
put_owner:
	put_pid(qp->owner);
	kfree(core);
uncount:
	atomic_dec(&dev->num_qp);
	return ret;
}

/*
 * The QP goes. TCP gets what was posted without a doorbell, and copies of the pages that it holds
 * of incomplete requests, since the process may write to them; packets mostly release them soon.
 * This order: the error state sends nothing more.
 */
static void qp_end_requests(struct kiw_stream *s)
{
	bool lends;

	kiw_pump_lock(s);
	if (s->ibqp)
		kiw_pump_send_gathered(s);
	lends = s->ibqp && kiw_stream_lends(s);
	if (lends)
		kiw_session_event(&s->ss, KIW_EV_MODIFY_ERR);
	kiw_pump_unlock(s);
	if (lends && !(current->flags & PF_EXITING))
		kiw_lend_wait(&s->lend.count, QP_LOAN_PATIENCE);
}

/* Nobody posts any more, and nothing completes: forget what is left of both. */
static void qp_end_kernel(struct kiw_qp *qp)
{
	cancel_work_sync(&qp->doorbell);
	kiw_cq_purge(qp->core->sq.cq, &qp->ibqp);
	kiw_cq_purge(qp->core->rq.cq, &qp->ibqp);
}

/* Detach stream and endpoint of a dying QP; no connection starts any more. */
static void qp_disconnect(struct kiw_qp *qp)
{
	struct kiw_stream *s = kiw_stream_of(qp);

	if (s) {
		qp_end_requests(s);
		kiw_stream_stop(s, false);
		kiw_stream_put(s);
	}
	qp_abort_endpoint(qp);
}

int kiw_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct kiw_qp *qp = to_kiw_qp(ibqp);
	struct kiw_device *dev = qp->dev;

	mutex_lock(&qp->mutex);
	qp->dying = true;
	mutex_unlock(&qp->mutex);
	if (!kiw_qp_is_ud(qp))
		qp_disconnect(qp);
	xa_erase(&dev->qps, ibqp->qp_num);
	kiw_qp_put(qp);
	wait_var_event(&qp->ref, !refcount_read(&qp->ref));
	kiw_peer_free(qp);

	if (kiw_qp_is_ud(qp))
		kiw_ud_close(qp->ud);
	if (kiw_qp_is_kernel(qp))
		qp_end_kernel(qp);
	kiw_region_unbind_all(&qp->core->own);
	qp_free_queues(qp->core);
	kfree(qp->core);
	put_pid(qp->owner);
	atomic_dec(&dev->num_qp);
	/* Keep the mutex usable: some versions of RDMA core may still query and show the QP. */
	return 0;
}

/* --- modify and query ---------------------------------------------------------------------- */

/* Without the QP held, its state may have changed on return. */
static enum ib_qp_state qp_shown_state(const struct kiw_qp *qp)
{
	switch (READ_ONCE(qp->core->state)) {
	case KIW_QP_IDLE:
		return READ_ONCE(qp->core->shown);
	case KIW_QP_RTS:
		return READ_ONCE(qp->core->shown) == IB_QPS_RTR ? IB_QPS_RTR : IB_QPS_RTS;
	case KIW_QP_CLOSING:
		return IB_QPS_SQD;
	case KIW_QP_TERMINATE:
		return IB_QPS_SQE;
	default:
		return IB_QPS_ERR;
	}
}

/* Flush a QP without a stream. */
static void qp_flush_idle(struct kiw_qp *qp)
{
	lockdep_assert_held(&qp->mutex);
	kiw_core_flush_sq(qp->core);
	kiw_rq_flush(&qp->core->rq, NULL);
}

/* Enter the error state without a stream. */
static void qp_fail_idle(struct kiw_qp *qp)
{
	struct kiw_qp_step step = kiw_qp_next(qp->core->state, KIW_EV_MODIFY_ERR);
	bool told = kiw_qp_is_over(qp);

	lockdep_assert_held(&qp->mutex);
	WRITE_ONCE(qp->core->state, step.next);
	qp_flush_idle(qp);
	if ((step.actions & KIW_ACT_LAST_WQE) && !told)
		kiw_qp_raise_last_wqe(&qp->ibqp);
}

/* Drop requests posted to an idle QP. */
static void qp_forget(struct kiw_qp *qp)
{
	kiw_sq_forget(&qp->core->sq);
	kiw_rq_forget(&qp->core->rq);
}

/* --- a peer that is named by number --------------------------------------------------------- */

/* Fail requests that wait for the peer. Return: false: a stream, or another peer or state. */
static bool qp_lose_idle(struct kiw_qp *qp)
{
	lockdep_assert_held(&qp->mutex);
	if (!qp->by_number || qp->core->state != KIW_QP_IDLE || rcu_access_pointer(qp->stream))
		return false;
	qp->peer->patient = false;
	qp->core->flush = kiw_core_manner(qp->core)->lost;
	qp_fail_idle(qp);
	return true;
}

/* Call after qp_lose_idle(), without locks. */
static void qp_tell_lost(struct kiw_qp *qp)
{
	kiw_stat_inc(&qp->dev->stats, KIW_STAT_CONNECT_FAILS);
	qp_abort_endpoint(qp);
	kiw_qp_raise(&qp->ibqp, IB_EVENT_QP_FATAL);
}

void kiw_qp_give_up(struct kiw_qp *qp)
{
	bool lost;

	mutex_lock(&qp->mutex);
	lost = qp_lose_idle(qp);
	mutex_unlock(&qp->mutex);
	if (lost)
		qp_tell_lost(qp);
}

/* Is the peer connected? The stream of a dialed end begins before. */
static bool qp_is_met(struct kiw_qp *qp)
{
	struct kiw_stream *s = kiw_stream_of(qp);
	bool met;

	lockdep_assert_held(&qp->mutex);
	if (!s)
		return false;
	met = READ_ONCE(s->ss.tx.gate);
	kiw_stream_put(s);
	return met;
}

/* The time to wait for the peer is over: fail as for missing acknowledgments. */
static void qp_peer_late(struct work_struct *work)
{
	struct kiw_peer *peer = container_of(to_delayed_work(work), struct kiw_peer, late);
	struct kiw_qp *qp = peer->qp;
	bool over, lost;

	mutex_lock(&qp->mutex);
	if (qp_is_met(qp))
		peer->patient = false;
	over = peer->patient && time_after_eq(jiffies, peer->deadline);
	/* It may be connecting, which its start-up limits. */
	if (over && rcu_access_pointer(qp->stream))
		kiw_inbox_queue_late(&peer->late, HZ);
	lost = over && qp_lose_idle(qp);
	if (lost)
		ibdev_dbg(&qp->dev->ibdev, "QP %u: QP %u at %pI6c hasn't come, or is gone\n",
			  qp->ibqp.qp_num, peer->ends.to, &peer->remote);
	mutex_unlock(&qp->mutex);
	if (lost)
		qp_tell_lost(qp);
}

/* May a posted request wait for the connection? */
static bool qp_may_wait(struct kiw_qp *qp, bool send)
{
	lockdep_assert_held(&qp->mutex);
	if (!send)
		return qp->core->shown != IB_QPS_RESET;
	if (!qp->by_number || qp->core->state != KIW_QP_IDLE || qp->core->shown != IB_QPS_RTS)
		return false;
	kiw_qp_await_peer(qp);
	return true;
}

/* --- the change of state -------------------------------------------------------------------- */

/**
 * struct qp_change - a modification
 * @attr: argument of the verb
 * @mask: argument of the verb
 * @peer: QP to connect to, or NULL
 */
struct qp_change {
	const struct ib_qp_attr	*attr;
	int			mask;
	const struct kiw_peer	*peer;
};

/* Change the state of a QP without a stream. */
static int qp_modify_idle(struct kiw_qp *qp, const struct qp_change *c)
{
	enum ib_qp_state to = c->attr->qp_state;
	struct kiw_qp_step step;

	lockdep_assert_held(&qp->mutex);
	switch (to) {
	case IB_QPS_RTR:
		if (c->peer)
			return kiw_peer_expect(qp, c->peer, qp_peer_late);
		/* librdmacm does this before it accepts: no action */
		return qp->core->state == KIW_QP_IDLE ? 0 : -EINVAL;
	case IB_QPS_RTS:
		return qp->core->state == KIW_QP_IDLE ? kiw_peer_ready(qp, c->attr, c->mask) :
						       -EINVAL;
	case IB_QPS_RESET:
	case IB_QPS_INIT:
		step = kiw_qp_next(qp->core->state, KIW_EV_MODIFY_RESET);
		if (!step.valid || (qp->core->state == KIW_QP_ERROR && to == IB_QPS_INIT))
			return -EINVAL;
		/* On leaving the error state the rings are empty. */
		if (qp->core->state == KIW_QP_ERROR)
			qp_flush_idle(qp);
		if (to == IB_QPS_RESET) {
			qp_forget(qp);
			kiw_region_unbind_all(&qp->core->own);
		}
		kiw_core_open_rings(qp->core);
		if (to == IB_QPS_RESET)
			kiw_rq_call(&qp->core->rq);	/* the doorbell refuses requests */
		qp->closed = false;
		kiw_peer_forget(qp);
		WRITE_ONCE(qp->core->shown, to);
		WRITE_ONCE(qp->core->state, step.next);
		return 0;
	case IB_QPS_ERR:
		qp_fail_idle(qp);
		return 0;
	case IB_QPS_SQD:
	case IB_QPS_SQE:
		/* Both sides may close, any number of times. */
		return qp->core->state == KIW_QP_ERROR || qp->closed ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

/* Change the state of a QP with a stream, locked. */
static int qp_modify_connected(struct kiw_qp *qp, struct kiw_stream *s, const struct qp_change *c)
{
	enum ib_qp_state to = c->attr->qp_state;
	bool busy;
	int ret;

	kiw_stream_assert_held(s);
	switch (to) {
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		/*
		 * rdma_init_qp_attr() returns both states to a program that changes states itself,
		 * after iw_cm connected it. No action; the peer may be closing.
		 */
		return !qp->by_number && !c->peer &&
		       (qp->core->state == KIW_QP_RTS ||
			qp->core->state == KIW_QP_CLOSING) ? 0 : -EINVAL;
	case IB_QPS_RTS:
		if (!qp->by_number)
			return qp->core->state == KIW_QP_RTS ? 0 : -EINVAL;
		/* The peer may be closing or gone: the program cannot know. */
		if (qp->core->state != KIW_QP_RTS && qp->core->state != KIW_QP_CLOSING &&
		    qp->core->state != KIW_QP_IDLE)
			return -EINVAL;
		ret = kiw_peer_ready(qp, c->attr, c->mask);
		if (!ret && (c->mask & IB_QP_MAX_QP_RD_ATOMIC))
			qp->core->ord = min_t(u16, qp->core->ord, c->attr->max_rd_atomic);
		/* It is another program's peer. */
		if (ret == -EACCES)
			kiw_session_event(&s->ss, KIW_EV_MODIFY_ERR);
		return ret;
	case IB_QPS_SQD:
		/* Requests posted before are sent before, even without a doorbell. */
		kiw_pump_settle(s);
		kiw_pump_send_gathered(s);
		if (qp->core->state == KIW_QP_RTS)
			kiw_sq_rest(&qp->core->sq, 0);
		busy = kiw_tx_unfinished(&s->ss);
		kiw_session_event(&s->ss, busy ? KIW_EV_CLOSE_BUSY : KIW_EV_CLOSE);
		return 0;
	case IB_QPS_SQE:
		kiw_pump_send_gathered(s);
		kiw_session_event(&s->ss, KIW_EV_MODIFY_TERM);
		return 0;
	case IB_QPS_ERR:
		kiw_pump_send_gathered(s);
		kiw_session_event(&s->ss, KIW_EV_MODIFY_ERR);
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * rdma_cm moves a client's QP to INIT without any right and never changes that, and a server's with
 * Writes and Reads, since it knows no atomics of iWARP. So with a change of state, either means
 * that only the regions' rights count. A program that wants less sets them without a change of
 * state, or grants another set. By number, the program's rights count as they are.
 */
static void qp_set_access(struct kiw_qp *qp, int access, bool with_state)
{
	lockdep_assert_held(&qp->mutex);
	qp->asked = access;
	if (with_state && !qp->by_number &&
	    (!access || access == (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ)))
		access = QP_REMOTE_RIGHTS;
	WRITE_ONCE(qp->core->own.access, access);
}

/* Store attributes besides the state. */
static void qp_keep(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	lockdep_assert_held(&qp->mutex);
	if (mask & IB_QP_ACCESS_FLAGS)
		qp_set_access(qp, attr->qp_access_flags, mask & IB_QP_STATE);
	kiw_peer_keep(qp, attr, mask);
}

/*
 * By number, a send queue cannot drain and go on later, unlike on InfiniBand: a connection cannot
 * reopen a closed direction.
 */
static bool qp_drains(const struct kiw_qp *qp, enum ib_qp_state to)
{
	lockdep_assert_held(&qp->mutex);
	return qp->by_number && (to == IB_QPS_SQD || to == IB_QPS_SQE);
}

static int qp_modify_state(struct kiw_qp *qp, const struct qp_change *c)
{
	struct kiw_stream *s;
	int ret;

	mutex_lock(&qp->mutex);
	if (qp_drains(qp, c->attr->qp_state)) {
		mutex_unlock(&qp->mutex);
		return -EINVAL;
	}
	s = kiw_stream_of(qp);
	if (s) {
		kiw_pump_lock(s);
		ret = qp_modify_connected(qp, s, c);
		kiw_pump_unlock(s);
	} else {
		ret = qp_modify_idle(qp, c);
	}
	if (!ret)
		qp_keep(qp, c->attr, c->mask);
	mutex_unlock(&qp->mutex);

	if (s)
		kiw_stream_put(s);
	/* An error ends the QP's connection attempt. */
	else if (!ret && c->attr->qp_state == IB_QPS_ERR)
		qp_abort_endpoint(qp);
	return ret;
}

int kiw_qp_check(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	/*
	 * TCP and MPA replace these: accepted in every state, and by number stored (struct
	 * kiw_path). A process's call carries no capacities; the provider refuses all but the
	 * granted ones.
	 */
	const int ignored = IB_QP_EN_SQD_ASYNC_NOTIFY | IB_QP_PKEY_INDEX | IB_QP_PORT |
			    IB_QP_PATH_MTU | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			    IB_QP_MIN_RNR_TIMER | IB_QP_RQ_PSN | IB_QP_SQ_PSN |
			    IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_CAP;
	const int known = ignored | IB_QP_STATE | IB_QP_CUR_STATE | IB_QP_ACCESS_FLAGS;
	/* Rights beyond the remote ones concern regions, or nothing here. */
	const int rights = QP_REMOTE_RIGHTS | IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND |
			   QP_ACCESS_FLUSH | IB_ACCESS_OPTIONAL;

	if (mask & ~known)
		return -EINVAL;
	if ((mask & IB_QP_ACCESS_FLAGS) && (attr->qp_access_flags & ~rights))
		return -EINVAL;
	if ((mask & IB_QP_CUR_STATE) && attr->cur_qp_state != qp_shown_state(qp))
		return -EINVAL;
	return 0;
}

int kiw_qp_modify(struct kiw_qp *qp, struct ib_qp_attr *attr, int mask,
		  const struct kiw_peer *peer)
{
	const struct qp_change change = { .attr = attr, .mask = mask, .peer = peer };
	int ret;

	ret = kiw_qp_check(qp, attr, mask);
	if (ret)
		return ret;
	if (mask & IB_QP_STATE)
		return qp_modify_state(qp, &change);
	mutex_lock(&qp->mutex);
	qp_keep(qp, attr, mask);
	mutex_unlock(&qp->mutex);
	return 0;
}

int kiw_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init)
{
	struct kiw_qp *qp = to_kiw_qp(ibqp);

	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	mutex_lock(&qp->mutex);
	if (qp->dying) {
		mutex_unlock(&qp->mutex);
		return -EAGAIN;	/* RDMA core skips it */
	}
	attr->qp_state = qp_shown_state(qp);
	attr->cur_qp_state = attr->qp_state;
	attr->qp_access_flags = READ_ONCE(qp->core->own.access);
	attr->max_rd_atomic = min_t(u32, qp->core->ord, U8_MAX);
	attr->max_dest_rd_atomic = min_t(u32, qp->core->ird, U8_MAX);
	attr->path_mtu = IB_MTU_4096;
	if (qp->by_number)
		kiw_peer_query(qp, attr, mask);
	if (kiw_qp_is_ud(qp))
		kiw_ud_query(qp->ud, attr, mask);
	attr->cap.max_send_wr = qp->core->sq.entries;
	attr->cap.max_recv_wr = qp->core->rq.entries;
	attr->cap.max_send_sge = qp->core->sq.max_sge;
	attr->cap.max_recv_sge = qp->core->rq.max_sge;
	attr->cap.max_inline_data = qp->core->sq.max_inline;
	mutex_unlock(&qp->mutex);
	attr->port_num = 1;

	init->qp_type = ibqp->qp_type;
	init->srq = ibqp->srq;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->qp_context = ibqp->qp_context;
	init->event_handler = ibqp->event_handler;
	init->sq_sig_type = qp->sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->cap = attr->cap;
	return 0;
}

/* --- doorbells ----------------------------------------------------------------------------- */

/* Run a doorbell with the QP held. Return: -EAGAIN: it got a stream meanwhile. */
static int qp_doorbell(struct kiw_qp *qp, bool send)
{
	struct kiw_stream *s = kiw_stream_of(qp);
	bool rung = false;
	int ret = 0;

	if (s) {
		rung = kiw_pump_doorbell(s, send);
		kiw_stream_put(s);
	}
	if (rung)
		return 0;

	mutex_lock(&qp->mutex);
	if (rcu_access_pointer(qp->stream))
		ret = -EAGAIN;
	else if (!kiw_qp_is_over(qp))
		ret = qp_may_wait(qp, send) ? 0 : -EINVAL;
	else if (send)
		kiw_core_flush_sq(qp->core);
	else
		kiw_rq_flush(&qp->core->rq, NULL);
	mutex_unlock(&qp->mutex);
	return ret;
}

int kiw_qp_doorbell(struct kiw_qp *qp, bool send)
{
	int ret;

	do {
		ret = qp_doorbell(qp, send);
	} while (ret == -EAGAIN);
	return ret;
}
