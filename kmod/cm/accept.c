// SPDX-License-Identifier: GPL-2.0
/*
 * Start-up of the responder: MPA Request, the user's decision, MPA Reply.
 *
 * While the user decides, iw_cm knows the endpoint by a number, not by its address: the peer may go
 * before the decision, and iw_cm drops a request silently when its listener is destroyed, so the
 * lifetime of the address would be unknown. A look-up in the table of requests takes a reference
 * under the table's lock; the endpoint leaves the table before it drops its own.
 *
 * A malformed Request is never answered, only closed. A well-formed one that cannot be served gets
 * a Reply with the reject bit; so does one with private data beyond the 255 bytes that iw_cm can
 * pass on.
 */
#include <linux/errno.h>
#include <linux/sched/mm.h>
#include <linux/xarray.h>
#include <net/inet_sock.h>
#include <net/tcp_states.h>

#include "priv.h"

static DEFINE_XARRAY_ALLOC1(accept_requests);

/* --- the table of requests ------------------------------------------------------------------ */

static int accept_request_add(struct kiw_ep *ep)
{
	static u32 next;	/* protected by the table's lock; delays reuse of numbers */
	int err = xa_alloc_cyclic(&accept_requests, &ep->su->cookie, ep, xa_limit_32b, &next,
				  GFP_KERNEL);

	return err < 0 ? err : 0;
}

static struct kiw_ep *accept_request_find(const struct iw_cm_id *id)
{
	struct kiw_ep *ep;

	xa_lock(&accept_requests);
	ep = xa_load(&accept_requests, (unsigned long)id->provider_data);
	if (ep)
		kiw_ep_get(ep);
	xa_unlock(&accept_requests);
	return ep;
}

/* Refuse later decisions; @ep may have no entry. */
static void accept_request_forget(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;

	lockdep_assert_held(&ep->mutex);
	if (!su || !su->cookie)
		return;
	xa_erase(&accept_requests, su->cookie);
	su->cookie = 0;
}

/* --- Reply ---------------------------------------------------------------------------------- */

/* All of the Reply is sent. Return: 0, or an error without any change. */
static int accept_reply_sent(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	int err;

	if (su->reject) {
		kiw_ep_end(ep, 0, KIW_END_FIN);
		return 0;
	}
	err = kiw_ep_open(ep);
	if (err)
		return err;
	if (su->terms.p2p) {
		kiw_ep_deadline(ep, kiw_mpa_secs(ep->dev));
		kiw_ep_enter(ep, KIW_ST_RTR_WAIT);
	} else {
		kiw_ep_established(ep);
	}
	return 0;
}

/**
 * kiw_reply_send() - send the Reply as far as there is room, then continue
 * @ep: endpoint in state REPLY_SEND, mutex held
 *
 * Return: 0, also if the work must continue later, or an error.
 */
int kiw_reply_send(struct kiw_ep *ep)
{
	int err = kiw_ep_push(ep);

	return err == -EAGAIN ? 0 : err ? err : accept_reply_sent(ep);
}

/**
 * kiw_reply_compose() - write the Reply
 * @ep: endpoint, mutex held; enters REPLY_SEND
 * @rep: Reply without private data
 * @pd: private data
 * @pd_len: bytes of @pd
 */
void kiw_reply_compose(struct kiw_ep *ep, struct kiw_mpa_frame *rep, const void *pd, u16 pd_len)
{
	rep->pd = pd;
	rep->pd_len = pd_len;
	ep->su->out_len = kiw_mpa_build(ep->su->out, rep);
	ep->su->out_sent = 0;
	kiw_ep_deadline(ep, kiw_mpa_secs(ep->dev));
	kiw_ep_enter(ep, KIW_ST_REPLY_SEND);
}

/**
 * kiw_refuse() - send a rejection if possible, and end
 * @ep: endpoint with a complete Request, mutex held
 * @why: for the log
 * @pd: private data
 * @pd_len: bytes of @pd
 */
void kiw_refuse(struct kiw_ep *ep, const char *why, const void *pd, u16 pd_len)
{
	struct kiw_startup *su = ep->su;
	struct kiw_mpa_frame rep;

	ibdev_dbg(&ep->dev->ibdev, "connection of %pISpc refused: %s\n", &su->remote, why);
	kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_REJECTS);
	accept_request_forget(ep);
	kiw_listener_leave(ep);
	kiw_ep_drop_qp(ep);
	kiw_mpa_answer(&su->cfg, &su->req, &rep, &su->terms);
	rep.reject = true;
	su->reject = true;
	kiw_reply_compose(ep, &rep, pd, pd_len);
	if (kiw_reply_send(ep))
		kiw_ep_end(ep, 0, KIW_END_RESET);
}

/* --- Request -------------------------------------------------------------------------------- */

/* IRD and ORD for the user: if the peer leaves one open, our limit. */
static u8 accept_told_depth(const struct kiw_mpa_frame *req, u16 depth)
{
	if (!req->enhanced || depth == KIW_DEPTH_UNSET)
		return KIW_MAX_RD_ATOM;
	return min_t(u16, depth, U8_MAX);
}

/*
 * The user may decide before the event handler returns. The decision waits for our mutex; the
 * endpoint no longer ends with its listener.
 */
static void accept_request_tell(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = su->local,
		.remote_addr = su->remote,
		.private_data = (void *)su->req.pd,
		.private_data_len = su->req.pd_len,
		.provider_data = (void *)(unsigned long)su->cookie,
		.ird = accept_told_depth(&su->req, su->req.ird),
		.ord = accept_told_depth(&su->req, su->req.ord),
	};
	int err = kiw_listener_tell(ep, &event);

	if (err == -ENOMEM) {
		kiw_ep_again_soon(ep);
	} else if (err == -EAGAIN) {
		return;
	} else if (err) {
		kiw_ep_end(ep, 0, KIW_END_FIN);
	} else {
		kiw_ep_deadline(ep, KIW_DECIDE_SECS);
		kiw_ep_enter(ep, KIW_ST_REQUESTED);
	}
}

static void accept_request_received(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_mpa_frame rep;

	/* The initiator must wait for our Reply. */
	if (kiw_ep_excess(ep) ||
	    kiw_mpa_answer(&su->cfg, &su->req, &rep, &su->terms) == KIW_ERR_LLP_FRAME) {
		ibdev_dbg(&ep->dev->ibdev, "a connection ends: its Request can't be answered\n");
		kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_MALFORMED);
		kiw_ep_end(ep, 0, KIW_END_FIN);
		return;
	}
	if (kiw_sock_names(ep->sock, &su->local, &su->remote)) {
		kiw_ep_end(ep, 0, KIW_END_RESET);
		return;
	}
	if (su->req.pd_len > U8_MAX) {
		kiw_refuse(ep, "more private data than iw_cm can pass on", NULL, 0);
		return;
	}
	if (accept_request_add(ep)) {
		kiw_refuse(ep, "out of memory", NULL, 0);
		return;
	}
	kiw_ep_enter(ep, KIW_ST_REQUEST_READY);
	kiw_listener_ready(ep);
	accept_request_tell(ep);
}

static void accept_request_wait(struct kiw_ep *ep)
{
	int err = kiw_ep_pull(ep, KIW_MPA_REQUEST, &ep->su->req);

	if (!err)
		accept_request_received(ep);
	else if (err != -EAGAIN)
		kiw_ep_end(ep, 0, KIW_END_FIN);
}

/* A peer that sends or closes before the Reply has given up, or knows no MPA. */
static bool accept_peer_waits(struct kiw_ep *ep)
{
	return inet_sk_state_load(ep->sock->sk) == TCP_ESTABLISHED && !kiw_ep_excess(ep);
}

static void accept_expired(struct kiw_ep *ep)
{
	/* With a complete Request, this side is late. */
	if (ep->state == KIW_ST_REQUEST_READY || ep->state == KIW_ST_REQUESTED) {
		kiw_refuse(ep, "no decision in time", NULL, 0);
		return;
	}
	ibdev_dbg(&ep->dev->ibdev, "a connection ends: its peer took too long in the start-up\n");
	kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_TIMEOUTS);
	kiw_ep_end(ep, 0, KIW_END_RESET);
}

/* Continue the start-up, in state REQUEST_WAIT to REPLY_SEND. */
static void accept_run(struct kiw_ep *ep, unsigned long events)
{
	if (kiw_ep_expired(ep, events)) {
		accept_expired(ep);
		return;
	}

	switch (ep->state) {
	case KIW_ST_REQUEST_WAIT:
		/* With TCP Fast Open, data may precede the proof that the peer exists. */
		if (inet_sk_state_load(ep->sock->sk) != TCP_SYN_RECV)
			accept_request_wait(ep);
		break;
	case KIW_ST_REQUEST_READY:
		if (accept_peer_waits(ep))
			accept_request_tell(ep);
		else
			kiw_ep_end(ep, 0, KIW_END_FIN);
		break;
	case KIW_ST_REQUESTED:
		if (!accept_peer_waits(ep))
			kiw_ep_end(ep, 0, KIW_END_FIN);
		break;
	default:	/* REPLY_SEND */
		if (kiw_reply_send(ep))
			kiw_ep_end(ep, 0, KIW_END_RESET);
		break;
	}
}

static void accept_leave(struct kiw_ep *ep)
{
	accept_request_forget(ep);
	kiw_listener_leave(ep);
}

/* Role of connections on which iw_cm's user decides */
const struct kiw_ep_ops kiw_accept_ops = {
	.run = accept_run,
	.leave = accept_leave,
	.size = sizeof(struct kiw_ep),
};

/**
 * kiw_responder_start() - take over a connection that TCP accepted
 * @l: listener, its endpoint's mutex held
 * @sock: connection; consumed in any case
 */
void kiw_responder_start(struct kiw_listener *l, struct socket *sock)
{
	struct kiw_ep *ep = kiw_ep_create(l->ep.dev, l->serves);

	lockdep_assert_held(&l->ep.mutex);
	if (IS_ERR(ep)) {
		kiw_sock_close(sock, true);
		return;
	}
	mutex_lock_nested(&ep->mutex, SINGLE_DEPTH_NESTING);
	if (ep->state == KIW_ST_DEAD) {	/* the device is going */
		kiw_sock_close(sock, true);
	} else {
		ep->sock = sock;
		kiw_ep_config(ep->dev, ep->su);
		kiw_ep_deadline(ep, kiw_mpa_secs(ep->dev));
		kiw_ep_enter(ep, KIW_ST_REQUEST_WAIT);
		if (kiw_ep_hook(ep, &l->ep.saved) || !kiw_listener_add(l, ep)) {
			ibdev_dbg(&ep->dev->ibdev,
				  "a connection is reset: too many wait, or a sockmap has it\n");
			kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_REJECTS);
			kiw_ep_end(ep, 0, KIW_END_RESET);
		}
	}
	mutex_unlock(&ep->mutex);
	/* Handle data that preceded our callbacks. */
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
	kiw_ep_put(ep);
}

/* --- the decision --------------------------------------------------------------------------- */

static int accept_request(struct kiw_ep *ep, struct iw_cm_id *id,
			  const struct iw_cm_conn_param *param)
{
	struct kiw_startup *su = ep->su;
	struct kiw_mpa_frame rep;
	int err;

	if (param->ird > KIW_MAX_RD_ATOM || param->ord > KIW_MAX_RD_ATOM)
		return -EINVAL;
	kiw_ep_config(ep->dev, su);	/* options may have changed */
	su->cfg.ird = param->ird;
	su->cfg.ord = param->ord;
	/* A peer with too large an ORD must lower it: the Reply states our limit. */
	kiw_mpa_answer(&su->cfg, &su->req, &rep, &su->terms);
	if (param->private_data_len > kiw_mpa_pd_max(&rep))
		return -EINVAL;
	err = kiw_ep_bind_qp(ep, id, param->qpn) ?: kiw_ep_prepare(ep, &su->terms);
	if (err)
		return err;
	kiw_reply_compose(ep, &rep, param->private_data, param->private_data_len);
	return kiw_reply_send(ep);
}

/**
 * kiw_accept() - the user accepts
 * @id: iw_cm's side, created for the request
 * @param: QP, IRD and ORD, private data
 *
 * On success the connection is in full operation, unless TCP was out of memory; either way iw_cm
 * gets ESTABLISHED exactly once. On failure iw_cm gets nothing, and the peer a rejection if nothing
 * was sent to it.
 *
 * Return: 0; -EINVAL for invalid IRD, ORD, private data or QP; -EISCONN: the QP is in use; -ENOMEM;
 * -ECONNRESET: the peer is gone.
 */
int kiw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct kiw_ep *ep = accept_request_find(id);
	int err = -ECONNRESET;
	unsigned int noio;

	if (!ep)
		return err;
	noio = memalloc_noio_save();	/* as in ep_work() */
	mutex_lock(&ep->mutex);
	if (ep->state == KIW_ST_REQUESTED) {
		accept_request_forget(ep);
		kiw_listener_leave(ep);
		if (accept_peer_waits(ep))
			err = accept_request(ep, id, param);
		if (!err)
			kiw_ep_set_id(ep, id);
		else if (ep->su->out_sent)
			kiw_ep_end(ep, 0, KIW_END_RESET);
		else
			kiw_refuse(ep, "the user couldn't accept", NULL, 0);
	}
	mutex_unlock(&ep->mutex);
	memalloc_noio_restore(noio);
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
	kiw_ep_put(ep);
	return err;
}

/**
 * kiw_reject() - the user rejects
 * @id: iw_cm's side, created for the request
 * @pdata: private data for the peer
 * @pdata_len: bytes of @pdata
 *
 * Return: 0, also if the request is gone.
 */
int kiw_reject(struct iw_cm_id *id, const void *pdata, u8 pdata_len)
{
	struct kiw_ep *ep = accept_request_find(id);

	if (!ep)
		return 0;
	mutex_lock(&ep->mutex);
	if (ep->state == KIW_ST_REQUESTED)
		kiw_refuse(ep, "by the user", pdata, pdata_len);
	mutex_unlock(&ep->mutex);
	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);
	kiw_ep_put(ep);
	return 0;
}
