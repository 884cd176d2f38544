// SPDX-License-Identifier: GPL-2.0
/*
 * Start-up of the initiator: TCP connect, MPA Request, MPA Reply.
 *
 * Status of CONNECT_REPLY to iw_cm, besides TCP's own errors:
 *	-ECONNREFUSED	the peer's user rejected, with private data; or its TCP did
 *	-ETIMEDOUT	no answer in time
 *	-ECONNRESET	the peer closed, or sent no Reply
 *	-EMSGSIZE	its private data exceeds the 255 bytes that iw_cm can pass on
 *	-EPROTO		no agreement on depths or RTR message
 *	-EISCONN	the QP is no longer idle
 *	-ECONNABORTED	our side gave up: QP destroyed, device going
 */
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/net.h>
#include <linux/sched/mm.h>
#include <net/inet_sock.h>
#include <net/tcp_states.h>

#include "priv.h"
#include "compat.h"
#include "pump.h"
#include "stream.h"

/*
 * TCP's refusal is believed when it came so often, after pauses from this on, each four times as
 * long: programs connect to listeners that the peer makes meanwhile, as perftest's do.
 */
#define CONNECT_REFUSALS	4
#define CONNECT_PAUSE_MS	2

/**
 * kiw_request_compose() - write the Request
 * @su: start-up with configuration and private data
 *
 * Return: 0, or -EINVAL for too much private data.
 */
int kiw_request_compose(struct kiw_startup *su)
{
	kiw_mpa_request(&su->cfg, &su->req);
	if (su->pd_len > kiw_mpa_pd_max(&su->req))
		return -EINVAL;
	su->req.pd = su->pd;
	su->req.pd_len = su->pd_len;
	su->out_len = kiw_mpa_build(su->out, &su->req);
	su->out_sent = 0;
	su->in_have = 0;
	return 0;
}

/**
 * kiw_dial() - begin to connect
 * @ep: endpoint with a new or disconnected socket, mutex held; enters CONNECTING
 *
 * Return: 0, or TCP's error.
 */
int kiw_dial(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	int err;

	lockdep_assert_held(&ep->mutex);
	err = kiw_sock_bind(ep->sock, &su->local);
	if (err)
		return err;
	err = kiw_ep_hook(ep, NULL);
	if (err)
		return err;
	kiw_ep_enter(ep, KIW_ST_CONNECTING);
	err = kernel_connect(ep->sock, kiw_sockaddr(&su->remote), kiw_addr_len(&su->remote),
			     O_NONBLOCK);
	return err == -EINPROGRESS ? 0 : err;
}

/*
 * A peer that knows only revision 1 closes on revision 2 (RFC 6581 section 10). Retry once with
 * revision 1, and only if no byte of an answer came.
 */
static int connect_dial_again(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	int err;

	su->retried = true;
	su->cfg.rev = KIW_MPA_REV_1;
	su->cfg.p2p = false;
	err = kiw_request_compose(su);
	if (err)
		return err;
	kiw_ep_unhook(ep);
	kiw_sock_disconnect(ep->sock);
	return kiw_dial(ep);
}

static void connect_refused(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;

	if (++su->refusals == CONNECT_REFUSALS) {
		kiw_ep_end(ep, -ECONNREFUSED, KIW_END_RESET);
		return;
	}
	kiw_ep_unhook(ep);
	kiw_sock_disconnect(ep->sock);
	kiw_ep_enter(ep, KIW_ST_DIAL_WAIT);
	su->next = jiffies + msecs_to_jiffies(CONNECT_PAUSE_MS << 2 * (su->refusals - 1));
	kiw_ep_again(ep, su->next);
}

static void connect_wait(struct kiw_ep *ep)
{
	int err;

	if (time_before(jiffies, ep->su->next)) {
		kiw_ep_again(ep, ep->su->next);
		return;
	}
	err = kiw_dial(ep);
	if (err)
		kiw_ep_end(ep, err, KIW_END_RESET);
}

static void connect_lost(struct kiw_ep *ep, int err)
{
	struct kiw_startup *su = ep->su;
	bool closed = err == -ECONNRESET || err == -EPIPE;

	if (closed && !su->in_have && !su->retried && su->cfg.rev == KIW_MPA_REV_2) {
		err = connect_dial_again(ep);
		if (!err)
			return;
	} else if (err == -EPIPE || err == -EPROTO) {
		err = -ECONNRESET;
	}
	kiw_ep_end(ep, err, KIW_END_FIN);
}

/*
 * A Terminate reports the reason to the peer (RFC 6581 sections 9.1 and 9.2), which needs a stream.
 * The user gets the failure at once.
 */
static void connect_terminate(struct kiw_ep *ep, enum kiw_err why)
{
	struct kiw_mpa_result terms = ep->su->terms;
	struct kiw_stream *s;

	terms.p2p = false;
	terms.rtr = 0;
	if (kiw_ep_prepare(ep, &terms) || kiw_ep_open(ep)) {
		kiw_ep_end(ep, -EPROTO, KIW_END_FIN);
		return;
	}
	s = ep->stream;
	kiw_pump_lock(s);
	if (s->ibqp)	/* not destroyed meanwhile */
		kiw_session_fail(&s->ss, why, NULL, 0, 0);
	kiw_pump_unlock(s);
	kiw_ep_fail(ep, -EPROTO);
	kiw_ep_closing(ep);
}

static void connect_reply_rejected(struct kiw_ep *ep, const struct kiw_mpa_frame *rep)
{
	ep->ird = min_t(u16, rep->ird, U8_MAX);
	ep->ord = min_t(u16, rep->ord, U8_MAX);
	if (rep->pd_len <= U8_MAX) {
		ep->su->tell = rep->pd;
		ep->su->tell_len = rep->pd_len;
	}
	kiw_ep_end(ep, -ECONNREFUSED, KIW_END_FIN);
}

static void connect_reply_received(struct kiw_ep *ep, const struct kiw_mpa_frame *rep)
{
	struct kiw_startup *su = ep->su;
	enum kiw_err why;
	int err;

	if (rep->reject) {
		connect_reply_rejected(ep, rep);
		return;
	}
	why = kiw_mpa_conclude(&su->cfg, &su->req, rep, &su->terms);
	/* The responder must wait for our first message. */
	if (why == KIW_ERR_LLP_FRAME || kiw_ep_excess(ep)) {
		kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_MALFORMED);
		kiw_ep_end(ep, -ECONNRESET, KIW_END_FIN);
		return;
	}
	if (rep->pd_len > U8_MAX) {
		kiw_ep_end(ep, -EMSGSIZE, KIW_END_FIN);
		return;
	}
	if (why) {
		connect_terminate(ep, why);
		return;
	}
	err = kiw_sock_names(ep->sock, &su->local, &su->remote);
	if (err) {
		kiw_ep_end(ep, -ECONNRESET, KIW_END_RESET);
		return;
	}
	err = kiw_ep_prepare(ep, &su->terms) ?: kiw_ep_open(ep);
	if (err) {
		kiw_ep_end(ep, err, KIW_END_RESET);
		return;
	}
	su->tell = rep->pd;
	su->tell_len = rep->pd_len;
	kiw_ep_established(ep);
}

/**
 * kiw_request_step() - continue the start-up, in state CONNECTING or REPLY_WAIT
 * @ep: endpoint, mutex held
 * @rep: output
 *
 * Return: 0: @rep is the Reply; -EAGAIN: more must arrive; else the connection's error, which is
 * that of the attempt to connect if the state is still CONNECTING.
 */
int kiw_request_step(struct kiw_ep *ep, struct kiw_mpa_frame *rep)
{
	struct sock *sk = ep->sock->sk;
	int err;

	lockdep_assert_held(&ep->mutex);
	if (ep->state == KIW_ST_CONNECTING) {
		int state = inet_sk_state_load(sk);

		if (state == TCP_SYN_SENT || state == TCP_SYN_RECV)
			return -EAGAIN;
		if (state == TCP_CLOSE) {
			err = sock_error(sk);
			return err ? err : -ECONNABORTED;
		}
		kiw_ep_enter(ep, KIW_ST_REPLY_WAIT);
	}
	err = kiw_ep_push(ep);
	return err ? err : kiw_ep_pull(ep, KIW_MPA_REPLY, rep);
}

static void connect_run(struct kiw_ep *ep, unsigned long events)
{
	struct kiw_mpa_frame rep;
	int err;

	if (kiw_ep_expired(ep, events)) {
		if (ep->state == KIW_ST_REPLY_WAIT)
			kiw_stat_inc(&ep->dev->stats, KIW_STAT_MPA_TIMEOUTS);
		kiw_ep_end(ep, -ETIMEDOUT, KIW_END_RESET);
		return;
	}
	if (ep->state == KIW_ST_DIAL_WAIT) {
		connect_wait(ep);
		return;
	}
	err = kiw_request_step(ep, &rep);
	if (!err)
		connect_reply_received(ep, &rep);
	else if (err == -ECONNREFUSED && ep->state == KIW_ST_CONNECTING)
		connect_refused(ep);
	else if (err != -EAGAIN && ep->state == KIW_ST_CONNECTING)
		kiw_ep_end(ep, err, KIW_END_RESET);
	else if (err != -EAGAIN)
		connect_lost(ep, err);
}

static const struct kiw_ep_ops connect_ops = {
	.run = connect_run,
	.size = sizeof(struct kiw_ep),
	.initiates = true,
};

static int connect_check(struct kiw_ep *ep, const struct iw_cm_id *id,
			 const struct iw_cm_conn_param *param)
{
	struct kiw_startup *su = ep->su;
	int err;

	if (param->ird > KIW_MAX_RD_ATOM || param->ord > KIW_MAX_RD_ATOM)
		return -EINVAL;
	if (param->private_data_len > sizeof(su->pd))
		return -EINVAL;

	su->local = id->m_local_addr;
	su->remote = id->m_remote_addr;
	kiw_addr_unmap(&su->local);
	kiw_addr_unmap(&su->remote);
	if (su->local.ss_family != su->remote.ss_family)
		return -EINVAL;
	err = kiw_addr_check(ep->dev, &su->local);
	if (!err)
		err = kiw_addr_check(ep->dev, &su->remote);
	if (err)
		return err;

	kiw_ep_config(ep->dev, su);
	su->cfg.ird = param->ird;
	su->cfg.ord = param->ord;
	su->pd_len = param->private_data_len;
	if (su->pd_len)
		memcpy(su->pd, param->private_data, su->pd_len);
	return kiw_request_compose(su);
}

/* Consumes the socket in any case. */
static int connect_begin(struct kiw_ep *ep, struct iw_cm_id *id, u32 qpn, struct socket *sock)
{
	int err;

	err = kiw_ep_take_sock(ep, sock);
	if (err)
		return err;
	err = kiw_ep_bind_qp(ep, id, qpn);
	if (err)
		return err;
	kiw_ep_deadline(ep, kiw_connect_secs(ep->dev));
	err = kiw_dial(ep);
	if (!err)
		kiw_ep_set_id(ep, id);
	return err;
}

static int connect_id(struct kiw_device *dev, struct iw_cm_id *id,
		      const struct iw_cm_conn_param *param)
{
	struct kiw_ep *ep = kiw_ep_create(dev, &connect_ops);
	struct sockaddr_storage local;
	struct socket *sock;
	struct net *net;
	int err;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	mutex_lock(&ep->mutex);
	err = ep->state == KIW_ST_DEAD ? -ENODEV : connect_check(ep, id, param);
	if (!err)
		local = ep->su->local;
	mutex_unlock(&ep->mutex);

	if (!err) {
		net = kiw_sock_net(dev, id, &local);
		err = net ? kiw_sock_create(dev, net, id, &local, &sock) : -ENODEV;
	}

	mutex_lock(&ep->mutex);
	if (!err)
		err = connect_begin(ep, id, param->qpn, sock);
	if (err && ep->state != KIW_ST_DEAD)
		kiw_ep_end(ep, err, KIW_END_RESET);
	mutex_unlock(&ep->mutex);

	kiw_inbox_post(&ep->inbox, KIW_EP_SOCKET);	/* sets the timer, or cleans up */
	kiw_ep_put(ep);
	return err;
}

/**
 * kiw_connect() - begin a connection
 * @id: iw_cm's side: addresses and type of service
 * @param: QP, IRD and ORD, private data
 *
 * Does not wait for the peer. On success iw_cm gets CONNECT_REPLY exactly once.
 *
 * Return: 0; -EINVAL for invalid IRD, ORD, private data, addresses or QP; -EISCONN: the QP is in
 * use; -ENODEV: the device goes, or is of another namespace; or TCP's error.
 */
int kiw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct kiw_device *dev = to_kiw_device(id->device);
	unsigned int noio = memalloc_noio_save();	/* as in ep_work() */
	int err = connect_id(dev, id, param);

	memalloc_noio_restore(noio);
	if (err)
		ibdev_dbg(&dev->ibdev, "connect refused: %d\n", err);
	return err;
}
