// SPDX-License-Identifier: GPL-2.0
/*
 * Endpoints: events, references, reports to iw_cm, and the end.
 *
 * An endpoint ends in two steps. Unreachable: kiw_ep_end() stops the stream or takes the callbacks
 * off the socket, so that neither finds the endpoint any more, releases the socket, unbinds the QP,
 * and takes the endpoint off its listener and out of the table of requests. Only reports to iw_cm
 * remain. Released: when these are sent, ep_retire() in the work stops the timer, takes the
 * endpoint off the device's list and drops the reference that all these relied on. A downcall, or a
 * QP that is being destroyed, may hold other references and finds the endpoint DEAD.
 *
 * In between, an endpoint may LINGER: TCP delivers the data of completed sends, whatever happens to
 * the QP. TCP resets a connection, and drops unacknowledged data, if its socket is released with
 * unread data or gets data after that. So the socket stays, with callbacks to the endpoint, which
 * reads and drops arriving data until the FIN is acknowledged. Lingering ends when the peer
 * acknowledges nothing for %KIW_CLOSE_SECS. If the device goes, or too many endpoints linger, of
 * that user or of all, TCP gets the socket at once. A connection that ends by a FIN during the
 * start-up lingers as well: otherwise TCP would keep the namespace until the FIN is acknowledged,
 * or for minutes, and a deleted namespace could not remove its device.
 */
#include "priv.h"

#include <linux/cred.h>
#include <linux/sched/mm.h>
#include <linux/tcp.h>
#include <linux/xarray.h>
#include <net/tcp_states.h>
#include <rdma/rdma_cm.h>

#include "attach.h"
#include "payer.h"
#include "trace.h"

/* Pause before a retry for want of memory */
#define EP_RETRY (HZ / 50)
/* Most endpoints in state LINGER, of all devices: in total, and of the queue pairs of one user */
#define EP_LINGER_MAX 4096
#define EP_LINGER_USER 1024

/* Their current numbers: in total, and by user ID; only users with some have an entry */
static DEFINE_MUTEX(ep_linger_mutex);
static unsigned int ep_lingering;
static DEFINE_XARRAY(ep_lingering_of);

/* --- references and events ------------------------------------------------------------------ */

static void ep_free_startup(struct kiw_ep *ep)
{
	if (ep->su && ep->su->stream)
		kiw_stream_put(ep->su->stream);
	kfree(ep->su);
	ep->su = NULL;
}

void kiw_ep_release(struct kiw_inbox *inbox)
{
	struct kiw_ep *ep = container_of(inbox, struct kiw_ep, inbox);
	struct kiw_device *dev = ep->dev;

	mutex_destroy(&ep->mutex);
	ep_free_startup(ep);
	kfree(ep);
	if (refcount_dec_and_test(&dev->ep_count))
		complete(&dev->ep_none);
}

static void ep_timer(struct timer_list *timer)
{
	struct kiw_ep *ep = container_of(timer, struct kiw_ep, timer);

	kiw_inbox_post(&ep->inbox, KIW_EP_TIMER);
}

/**
 * kiw_ep_take_sock() - give an endpoint its socket
 * @ep: endpoint, mutex held
 * @sock: socket, not hooked yet; released on failure
 *
 * Return: 0, or -ENODEV: the device goes.
 */
int kiw_ep_take_sock(struct kiw_ep *ep, struct socket *sock)
{
	lockdep_assert_held(&ep->mutex);
	if (ep->state == KIW_ST_DEAD) {
		sock_release(sock);
		return -ENODEV;
	}
	ep->sock = sock;
	return 0;
}

/**
 * kiw_ep_deadline() - limit the time in the current state
 * @ep: endpoint, mutex held; its work runs later and sets the timer
 * @secs: seconds from now; 0: no limit
 */
void kiw_ep_deadline(struct kiw_ep *ep, unsigned int secs)
{
	lockdep_assert_held(&ep->mutex);
	ep->timed = secs;
	ep->deadline = jiffies + secs * HZ;
}

/**
 * kiw_ep_again() - run the work again at a given time
 * @ep: endpoint, mutex held by its work
 * @when: jiffies; the last call in a run counts
 */
void kiw_ep_again(struct kiw_ep *ep, unsigned long when)
{
	lockdep_assert_held(&ep->mutex);
	ep->retry = true;
	ep->again = when;
}

/** kiw_ep_again_soon() - retry in the work for want of memory; its work holds the mutex */
void kiw_ep_again_soon(struct kiw_ep *ep)
{
	kiw_ep_again(ep, jiffies + EP_RETRY);
}

/** kiw_ep_enter() - enter a state; mutex held */
void kiw_ep_enter(struct kiw_ep *ep, enum kiw_ep_state state)
{
	lockdep_assert_held(&ep->mutex);
	if (state != ep->state)
		trace_kiw_ep_state(ep, ep->qp ? ep->qp->ibqp.qp_num : 0, ep->state, state);
	ep->state = state;
}

/**
 * kiw_ep_expired() - check the time in the current state
 * @ep: endpoint, mutex held
 * @events: KIW_EP_*; a timer event may come late, from an earlier state
 *
 * Return: true: it is over.
 */
bool kiw_ep_expired(const struct kiw_ep *ep, unsigned long events)
{
	lockdep_assert_held(&ep->mutex);
	return (events & KIW_EP_TIMER) && ep->timed && time_after_eq(jiffies, ep->deadline);
}

/* --- QP and cm_id --------------------------------------------------------------------------- */

/*
 * May this user of iw_cm connect the QP? A process has only its own (kiw_get_qp()). One of the
 * kernel belongs to the rdma_cm id that made it: otherwise a process could name its number. rdma_cm
 * knows no QP of the ids of processes. As for the context, see kiw_id_net().
 */
static bool ep_may_connect(const struct iw_cm_id *id, struct ib_qp *ibqp)
{
	const struct rdma_cm_id *cm_id = id->context;

	return !kiw_qp_is_kernel(to_kiw_qp(ibqp)) || cm_id->qp == ibqp;
}

/**
 * kiw_ep_bind_qp() - reserve the user's QP
 * @ep: endpoint, mutex held
 * @id: iw_cm's side, with rdma_cm's as its context
 * @qpn: queue pair number
 *
 * Return: 0; -EINVAL: no such connected QP, or not the user's; -EISCONN: it is in use.
 */
int kiw_ep_bind_qp(struct kiw_ep *ep, const struct iw_cm_id *id, u32 qpn)
{
	struct ib_qp *ibqp;
	int err = -EINVAL;

	lockdep_assert_held(&ep->mutex);
	ibqp = kiw_get_qp(&ep->dev->ibdev, qpn);
	if (!ibqp)
		return -EINVAL;

	if (ibqp->qp_type == IB_QPT_RC && ep_may_connect(id, ibqp))
		err = kiw_qp_bind(to_kiw_qp(ibqp), &ep->inbox, false);
	if (err)
		kiw_qp_put(to_kiw_qp(ibqp));
	else
		ep->qp = to_kiw_qp(ibqp);
	return err;
}

/**
 * kiw_ep_drop_qp() - release the QP; a process that destroys it may wait for this
 * @ep: endpoint, mutex held, without a stream
 */
void kiw_ep_drop_qp(struct kiw_ep *ep)
{
	struct kiw_qp *qp = ep->qp;

	lockdep_assert_held(&ep->mutex);
	if (!qp)
		return;
	ep->qp = NULL;
	kiw_qp_unbind(qp, &ep->inbox);
	kiw_qp_put(qp);
}

/**
 * kiw_ep_set_id() - report to iw_cm from now on
 * @ep: endpoint, mutex held
 * @id: iw_cm's side; referenced until the last report
 */
void kiw_ep_set_id(struct kiw_ep *ep, struct iw_cm_id *id)
{
	lockdep_assert_held(&ep->mutex);
	id->add_ref(id);
	ep->id = id;
}

/* --- reports to iw_cm ----------------------------------------------------------------------- */

/* The depths in an event are the peer's, as in its Request. */
static int ep_tell(struct kiw_ep *ep, u8 what)
{
	struct iw_cm_event event = {};

	switch (what) {
	case KIW_OWED_REPLY:
		event.event = IW_CM_EVENT_CONNECT_REPLY;
		event.status = ep->su->status;
		event.ird = ep->ord;
		event.ord = ep->ird;
		/* After a failure only the user's own addresses are certain. */
		event.local_addr = ep->su->status ? ep->id->local_addr : ep->su->local;
		event.remote_addr = ep->su->status ? ep->id->remote_addr : ep->su->remote;
		event.private_data = (void *)ep->su->tell;
		event.private_data_len = ep->su->tell_len;
		break;
	case KIW_OWED_ESTABLISHED:
		event.event = IW_CM_EVENT_ESTABLISHED;
		event.ird = ep->ord;
		event.ord = ep->ird;
		break;
	case KIW_OWED_DISCONNECT:
		event.event = IW_CM_EVENT_DISCONNECT;
		break;
	default:
		event.event = IW_CM_EVENT_CLOSE;
		break;
	}
	return ep->id->event_handler(ep->id, &event);
}

/*
 * Send pending reports in order; only the work calls this. The mutex may be held: iw_cm's handler
 * queues the event under its own spinlock, and calls back from another thread only.
 */
static void ep_report(struct kiw_ep *ep)
{
	while (ep->owed) {
		u8 what = BIT(__ffs(ep->owed));

		if (ep_tell(ep, what)) {
			kiw_ep_again_soon(ep);
			return;
		}
		ep->owed &= ~what;
	}
	if (ep->final && ep->id) {
		ep->id->rem_ref(ep->id);
		ep->id = NULL;
	}
	if (ep->state >= KIW_ST_RTR_WAIT)
		ep_free_startup(ep);
}

/* Owe CONNECT_REPLY or ESTABLISHED. */
static void ep_announce(struct kiw_ep *ep)
{
	ep->announced = true;
	if (!ep->ops->quiet)
		ep->owed |= ep->ops->initiates ? KIW_OWED_REPLY : KIW_OWED_ESTABLISHED;
}

/**
 * kiw_ep_established() - the connection is up
 * @ep: endpoint, mutex held, with a running stream
 */
void kiw_ep_established(struct kiw_ep *ep)
{
	lockdep_assert_held(&ep->mutex);
	kiw_stat_inc(&ep->dev->stats, KIW_STAT_CONNECTS);
	ep_announce(ep);
	kiw_ep_deadline(ep, 0);
	kiw_ep_enter(ep, KIW_ST_OPEN);
}

/**
 * kiw_ep_fail() - an initiator's attempt failed: report CONNECT_REPLY, and nothing after it
 * @ep: endpoint, mutex held
 * @status: negative errno
 */
void kiw_ep_fail(struct kiw_ep *ep, int status)
{
	lockdep_assert_held(&ep->mutex);
	ibdev_dbg(&ep->dev->ibdev, "connection to %pISpc failed: %d\n", &ep->id->m_remote_addr,
		  status);
	kiw_stat_inc(&ep->dev->stats, KIW_STAT_CONNECT_FAILS);
	ep->su->status = status;
	ep->owed |= KIW_OWED_REPLY;
	ep->final = true;
}

/*
 * The endpoint is dead: decide on the last reports. After an accepted request these are ESTABLISHED
 * and then the close, even without a stream: iw_cm blocks the user until ESTABLISHED.
 */
static void ep_owe_end(struct kiw_ep *ep, int status)
{
	if (!ep->id || ep->final)
		return;
	if (ep->ops->initiates && !ep->announced) {
		kiw_ep_fail(ep, status);
		return;
	}
	if (!ep->announced)
		ep_announce(ep);
	ep->owed |= KIW_OWED_DISCONNECT | KIW_OWED_CLOSE;
	ep->final = true;
}

/* --- the running connection ----------------------------------------------------------------- */

/**
 * kiw_ep_prepare() - allocate what kiw_ep_open() needs
 * @ep: endpoint, mutex held, with a bound QP
 * @terms: agreed terms
 *
 * A responder does so before its Reply, which makes the initiator use the connection.
 *
 * Return: 0 or -ENOMEM.
 */
int kiw_ep_prepare(struct kiw_ep *ep, const struct kiw_mpa_result *terms)
{
	lockdep_assert_held(&ep->mutex);
	ep->su->stream = kiw_stream_new(ep->qp, ep->sock, terms);
	return ep->su->stream ? 0 : -ENOMEM;
}

/**
 * kiw_ep_open() - start full operation after both frames
 * @ep: endpoint after kiw_ep_prepare(), mutex held
 *
 * Return: 0, or the error of kiw_stream_start(), which leaves the socket to the endpoint.
 */
int kiw_ep_open(struct kiw_ep *ep)
{
	struct kiw_stream *s = ep->su->stream;
	const struct kiw_mpa_result *terms = &s->ss.neg;
	bool first = ep->ops->initiates || (!terms->p2p && kiw_responder_sends_first(ep->dev));
	unsigned int secs = kiw_keepalive_secs(ep->dev);
	int err;

	lockdep_assert_held(&ep->mutex);
	ep->su->stream = NULL;
	kiw_ep_unhook(ep);
	if (secs)
		kiw_sock_keepalive(ep->sock, secs);
	err = kiw_stream_start(s, ep->qp, &ep->inbox, ep->sock, first, kiw_qp_watch);
	if (err) {
		kiw_stream_put(s);
		return err;
	}
	ep->stream = s;
	ep->ird = min_t(u16, terms->ird, U8_MAX);
	ep->ord = min_t(u16, terms->ord, U8_MAX);
	return 0;
}

/* Start the time for a further acknowledgment of the peer. */
static void ep_await_acks(struct kiw_ep *ep)
{
	ep->acked = READ_ONCE(tcp_sk(ep->sock->sk)->snd_una);
	kiw_ep_deadline(ep, KIW_CLOSE_SECS);
}

/**
 * kiw_ep_closing() - the end of the connection began
 * @ep: endpoint with a stream, mutex held
 */
void kiw_ep_closing(struct kiw_ep *ep)
{
	lockdep_assert_held(&ep->mutex);
	ep_await_acks(ep);
	kiw_ep_enter(ep, KIW_ST_CLOSING);
}

/* Did the peer stop acknowledging data? */
static bool ep_stalled(struct kiw_ep *ep, unsigned long events)
{
	if (!kiw_ep_expired(ep, events))
		return false;
	if (READ_ONCE(tcp_sk(ep->sock->sk)->snd_una) == ep->acked)
		return true;
	ep_await_acks(ep);
	return false;
}

static void ep_run_open(struct kiw_ep *ep, unsigned long events)
{
	if (ep->state == KIW_ST_RTR_WAIT && (events & KIW_INBOX_ESTABLISHED))
		kiw_ep_established(ep);
	if (events & KIW_INBOX_ENDED) {
		kiw_ep_end(ep, 0, KIW_END_DONE);
		return;
	}
	if ((events & KIW_INBOX_CLOSING) && ep->state != KIW_ST_CLOSING)
		kiw_ep_closing(ep);
	if (ep->state == KIW_ST_CLOSING) {
		if (ep_stalled(ep, events))
			kiw_ep_end(ep, 0, KIW_END_RESET);
	} else if (kiw_ep_expired(ep, events)) {	/* no RTR message came */
		kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_TIMEOUTS);
		kiw_ep_end(ep, 0, KIW_END_RESET);
	}
}

static enum kiw_end ep_end_stream(struct kiw_ep *ep, enum kiw_end how)
{
	struct kiw_stream *s = ep->stream;

	ep->stream = NULL;
	kiw_stream_stop(s, how == KIW_END_DONE);
	ep->retransmits = s->retransmits;
	/*
	 * The stream is stopped: its members are stable. Without a FIN the peer would see truncated
	 * data.
	 */
	how = how != KIW_END_RESET && s->fin_sent ? KIW_END_FIN : KIW_END_RESET;
	kiw_stream_put(s);
	return how;
}

/* --- the socket after the stream ------------------------------------------------------------ */

/*
 * The user to charge for the endpoint's QP; nobody for an end during the start-up, without a QP,
 * and for the kernel.
 */
static kuid_t ep_user(const struct kiw_ep *ep)
{
	kuid_t user = INVALID_UID;

	rcu_read_lock();
	if (ep->qp && !kiw_qp_is_kernel(ep->qp))
		user = kiw_payer(__task_cred(ep->qp->ibqp.res.task));
	rcu_read_unlock();
	return user;
}

/* Reserve a place to linger. Return: false: none for this user. */
static bool ep_linger_begin(struct kiw_ep *ep)
{
	unsigned long user, count;
	bool room;

	ep->user = ep_user(ep);
	user = __kuid_val(ep->user);
	mutex_lock(&ep_linger_mutex);
	count = xa_to_value(xa_load(&ep_lingering_of, user) ?: xa_mk_value(0));
	room = ep_lingering < EP_LINGER_MAX && count < EP_LINGER_USER &&
	       !xa_is_err(xa_store(&ep_lingering_of, user, xa_mk_value(count + 1), GFP_KERNEL));
	ep_lingering += room;
	mutex_unlock(&ep_linger_mutex);
	return room;
}

static void ep_linger_end(struct kiw_ep *ep)
{
	unsigned long user = __kuid_val(ep->user), count;

	mutex_lock(&ep_linger_mutex);
	count = xa_to_value(xa_load(&ep_lingering_of, user)) - 1;
	/* The entry exists: needs no memory. */
	xa_store(&ep_lingering_of, user, count ? xa_mk_value(count) : NULL, GFP_KERNEL);
	ep_lingering--;
	mutex_unlock(&ep_linger_mutex);
}

static void ep_close(struct kiw_ep *ep, enum kiw_end how)
{
	if (ep->state == KIW_ST_LINGER)
		ep_linger_end(ep);
	kiw_ep_enter(ep, KIW_ST_DEAD);
	kiw_ep_deadline(ep, 0);
	kiw_ep_unhook(ep);
	if (ep->sock) {
		kiw_stat_retransmits(&ep->dev->stats, ep->sock->sk, ep->retransmits);
		kiw_sock_close(ep->sock, how == KIW_END_RESET);
	}
	ep->sock = NULL;
}

/* The device's sockets must be gone soon. */
static bool ep_device_goes(struct kiw_ep *ep)
{
	bool goes;

	spin_lock_bh(&ep->dev->ep_lock);
	goes = ep->dev->ep_closed;
	spin_unlock_bh(&ep->dev->ep_lock);
	return goes;
}

static void ep_run_linger(struct kiw_ep *ep, unsigned long events)
{
	/* Read the state first: data that arrives after the acknowledgment does no harm. */
	int state = inet_sk_state_load(ep->sock->sk);
	bool dropped = kiw_sock_drop(ep->sock);
	bool unacked = (1 << state) & (TCPF_FIN_WAIT1 | TCPF_CLOSING | TCPF_LAST_ACK);

	if (!unacked || ep_device_goes(ep))
		ep_close(ep, KIW_END_FIN);
	else if (ep_stalled(ep, events))
		ep_close(ep, KIW_END_RESET);
	else if (!dropped)
		kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
}

/* Return: false: close the socket now. */
static bool ep_linger(struct kiw_ep *ep)
{
	if (!ep->sock || !ep_linger_begin(ep))
		return false;
	if (!ep->hooked && kiw_ep_hook(ep, NULL)) {
		ep_linger_end(ep);
		return false;
	}
	/* No effect after a stream, which sent the FIN. */
	kernel_sock_shutdown(ep->sock, SHUT_WR);
	kiw_ep_enter(ep, KIW_ST_LINGER);
	ep_await_acks(ep);
	/* Handle events that preceded our callbacks. */
	ep_run_linger(ep, 0);
	return true;
}

/**
 * kiw_ep_end() - release all but the reports to iw_cm, which become final
 * @ep: endpoint neither lingering nor dead, mutex held; its work runs later
 * @status: negative errno, for an initiator that reported no connection
 * @how: fate of the TCP connection
 */
void kiw_ep_end(struct kiw_ep *ep, int status, enum kiw_end how)
{
	bool linger;

	lockdep_assert_held(&ep->mutex);
	kiw_ep_enter(ep, KIW_ST_DEAD);
	if (ep->stream)
		how = ep_end_stream(ep, how);
	linger = how == KIW_END_FIN && ep_linger(ep);
	if (!linger)
		ep_close(ep, how);
	kiw_ep_drop_qp(ep);
	if (ep->ops->leave)
		ep->ops->leave(ep);
	ep_owe_end(ep, status);
}

/**
 * kiw_ep_abort() - handle %KIW_INBOX_ABORTED, which was posted, now
 * @ep: endpoint, mutex held
 *
 * Its work may run later: flush_work() does not wait for one that another CPU is about to queue.
 */
void kiw_ep_abort(struct kiw_ep *ep)
{
	lockdep_assert_held(&ep->mutex);
	if (ep->state != KIW_ST_DEAD && ep->state != KIW_ST_LINGER)
		kiw_ep_end(ep, -ECONNABORTED, ep->stream ? KIW_END_FIN : KIW_END_RESET);
}

/* --- life ----------------------------------------------------------------------------------- */

static void ep_run(struct kiw_ep *ep, unsigned long events)
{
	if ((events & KIW_INBOX_ABORTED) && ep->state != KIW_ST_LINGER) {
		kiw_ep_abort(ep);
		return;
	}

	switch (ep->state) {
	case KIW_ST_DEAD:
	case KIW_ST_NEW:
		break;
	case KIW_ST_RTR_WAIT:
	case KIW_ST_OPEN:
	case KIW_ST_CLOSING:
		ep_run_open(ep, events);
		break;
	case KIW_ST_LINGER:
		ep_run_linger(ep, events);
		break;
	default:	/* before full operation */
		ep->ops->run(ep, events);
		break;
	}
}

static void ep_retire(struct kiw_ep *ep)
{
	struct kiw_device *dev = ep->dev;

	ep->retired = true;
	timer_shutdown_sync(&ep->timer);
	spin_lock_bh(&dev->ep_lock);
	list_del(&ep->dev_link);
	spin_unlock_bh(&dev->ep_lock);
	kiw_ep_put(ep);	/* for being alive; the work holds another */
}

static void ep_work(struct work_struct *work)
{
	struct kiw_ep *ep = container_of(work, struct kiw_ep, inbox.work);
	unsigned int noio = memalloc_noio_save();

	/* Writeback may wait until a disk or file system behind this endpoint connects again. */
	mutex_lock(&ep->mutex);
	ep->retry = false;
	ep_run(ep, kiw_inbox_take(&ep->inbox));
	ep_report(ep);
	if (ep->retry && ep->timed && time_before(ep->deadline, ep->again))
		mod_timer(&ep->timer, ep->deadline);
	else if (ep->retry)
		mod_timer(&ep->timer, ep->again);
	else if (ep->timed)
		mod_timer(&ep->timer, ep->deadline);
	else if (ep->state == KIW_ST_DEAD && !ep->retired)
		ep_retire(ep);
	mutex_unlock(&ep->mutex);
	kiw_ep_put(ep);
	memalloc_noio_restore(noio);
}

/**
 * kiw_ep_create() - create an endpoint in state NEW
 * @dev: device
 * @ops: role
 *
 * Charges its memory to the process that connects; in a listener's work, to nobody.
 *
 * The device's list holds it: kiw_cm_abort_device() can end it from now on. The caller ends it by
 * kiw_ep_end() and then runs the work. May sleep.
 *
 * Return: the endpoint, referenced for the caller; -ENOMEM, or -ENODEV: the device goes.
 */
struct kiw_ep *kiw_ep_create(struct kiw_device *dev, const struct kiw_ep_ops *ops)
{
	struct kiw_ep *ep = kzalloc(ops->size, GFP_KERNEL_ACCOUNT);
	bool closed;

	if (!ep)
		return ERR_PTR(-ENOMEM);
	if (!ops->listens) {
		ep->su = kzalloc(sizeof(*ep->su), GFP_KERNEL_ACCOUNT);
		if (!ep->su) {
			kfree(ep);
			return ERR_PTR(-ENOMEM);
		}
	}
	kiw_inbox_init(&ep->inbox, ep_work);
	kiw_ep_get(ep);
	ep->ops = ops;
	ep->dev = dev;
	mutex_init(&ep->mutex);
	timer_setup(&ep->timer, ep_timer, 0);
	if (ops->prepare)
		ops->prepare(ep);

	spin_lock_bh(&dev->ep_lock);
	closed = dev->ep_closed;
	if (!closed) {
		refcount_inc(&dev->ep_count);
		list_add_tail(&ep->dev_link, &dev->eps);
	}
	spin_unlock_bh(&dev->ep_lock);
	if (closed) {
		mutex_destroy(&ep->mutex);
		kfree(ep->su);
		kfree(ep);
		return ERR_PTR(-ENODEV);
	}
	return ep;
}

/*
 * All endpoints are on the list and alive, and no more can be created. An endpoint for which a
 * downcall is creating the socket dies now; the downcall finds that and releases the socket itself.
 *
 * Waits for the work of each endpoint, and nothing else. Meanwhile they are on a local list, from
 * which ep_retire() may take them, too.
 */
void kiw_cm_abort_device(struct kiw_device *dev)
{
	LIST_HEAD(aborted);
	struct kiw_ep *ep;

	spin_lock_bh(&dev->ep_lock);
	list_for_each_entry(ep, &dev->eps, dev_link)
		kiw_inbox_post(&ep->inbox, KIW_INBOX_ABORTED);
	list_splice_init(&dev->eps, &aborted);
	while (!list_empty(&aborted)) {
		ep = list_first_entry(&aborted, struct kiw_ep, dev_link);
		list_move_tail(&ep->dev_link, &dev->eps);
		kiw_ep_get(ep);
		spin_unlock_bh(&dev->ep_lock);
		/* flush_work() does not wait for a work that another CPU is about to queue. */
		mutex_lock(&ep->mutex);
		ep_run(ep, KIW_INBOX_ABORTED);
		mutex_unlock(&ep->mutex);
		flush_work(&ep->inbox.work);
		kiw_ep_put(ep);
		spin_lock_bh(&dev->ep_lock);
	}
	spin_unlock_bh(&dev->ep_lock);
}

/** kiw_cm_exit() - wait for callbacks under way, when all devices are gone */
void kiw_cm_exit(void)
{
	/* TCP may run our callback for a connection that it creates for a listener. */
	synchronize_net();
}
