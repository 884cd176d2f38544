// SPDX-License-Identifier: GPL-2.0
/*
 * Endpoints of a listener: those without a complete Request, and those with one that is not
 * reported to the user yet.
 */
#include "priv.h"

#include <net/ipv6.h>

static struct in6_addr queue_peer(const struct sock *sk)
{
	struct in6_addr peer;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		return sk->sk_v6_daddr;
#endif
	ipv6_addr_set_v4mapped(sk->sk_daddr, &peer);
	return peer;
}

/**
 * kiw_listener_add() - queue a connection at a listener
 * @l: listener; call in the order of TCP's accept
 * @ep: endpoint, mutex held
 *
 * Return: false: too many already.
 */
bool kiw_listener_add(struct kiw_listener *l, struct kiw_ep *ep)
{
	bool room;

	lockdep_assert_held(&ep->mutex);
	mutex_lock(&l->lock);
	room = l->num_waiting < l->max_waiting;
	if (room) {
		l->num_waiting++;
		list_add_tail(&ep->wait_link, &l->waiting);
		ep->su->number = l->next_number++;
		ep->su->accepted = jiffies;
		ep->su->peer = queue_peer(ep->sock->sk);
		kiw_ep_get(&l->ep);
		ep->listener = l;
	}
	mutex_unlock(&l->lock);
	return room;
}

/*
 * Report requests of a host in the order of TCP's accept: programs that open several connections at
 * once expect the other side to see them in that order. Requests may complete in another order,
 * since the works of endpoints run concurrently at either end. Only that is corrected: a Request
 * that the network lost comes later, and a connection without one delays no later connection of its
 * host.
 */
static bool queue_same_peer(const struct kiw_ep *ep, const struct in6_addr *peer)
{
	return ipv6_addr_equal(&ep->su->peer, peer);
}

/* May the Request of a connection still come before those of later ones? */
static bool queue_is_awaited(struct kiw_ep *ep)
{
	if (!time_after(jiffies, ep->su->accepted + KIW_ORDER_PATIENCE))
		return true;
	/* Bytes arrived, perhaps all of the Request. */
	return work_busy(&ep->inbox.work);
}

/* Release Requests of a host that need not wait for earlier ones any more. */
static void queue_release(struct kiw_listener *l, const struct in6_addr *peer)
{
	const struct kiw_ep *awaited = NULL;
	struct kiw_ep *ep;

	lockdep_assert_held(&l->lock);
	list_for_each_entry(ep, &l->waiting, wait_link) {
		if (queue_same_peer(ep, peer) && queue_is_awaited(ep)) {
			awaited = ep;
			break;
		}
	}
	list_for_each_entry(ep, &l->ready, wait_link) {
		if (queue_same_peer(ep, peer) &&
		    (!awaited || (s32)(ep->su->number - awaited->su->number) < 0))
			ep->su->held = false;
	}
}

/* The next request to report, or NULL. */
static struct kiw_ep *queue_next(const struct kiw_listener *l)
{
	struct kiw_ep *ep;

	lockdep_assert_held(&l->lock);
	list_for_each_entry(ep, &l->ready, wait_link) {
		if (!ep->su->held)
			return ep;
	}
	return NULL;
}

/* After a change of @ep: notify the next endpoint if it is another. */
static void queue_pass(const struct kiw_listener *l, const struct kiw_ep *ep)
{
	struct kiw_ep *next = queue_next(l);

	lockdep_assert_held(&l->lock);
	if (next && next != ep)
		kiw_inbox_post(&next->inbox, KIW_EP_SOCKET);
}

/**
 * kiw_listener_leave() - leave the listener
 * @ep: endpoint, mutex held, with or without a listener; its user has decided, or it ends
 */
void kiw_listener_leave(struct kiw_ep *ep)
{
	struct kiw_listener *l = ep->listener;

	lockdep_assert_held(&ep->mutex);
	if (!l)
		return;
	ep->listener = NULL;
	mutex_lock(&l->lock);
	if (ep->told) {
		l->num_told--;
	} else {
		list_del_init(&ep->wait_link);
		l->num_waiting--;
		queue_release(l, &ep->su->peer);
	}
	ep->told = false;
	queue_pass(l, ep);
	mutex_unlock(&l->lock);
	kiw_ep_put(&l->ep);
}

/*
 * Is it @ep's turn, and is there room in the backlog? If not, others notify the endpoint when they
 * are reported or leave, or its work runs again after the longest wait.
 */
static bool queue_may_tell(struct kiw_listener *l, struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	unsigned long over;

	queue_release(l, &su->peer);
	queue_pass(l, ep);
	if (su->held) {
		over = su->accepted + KIW_ORDER_PATIENCE;
		kiw_ep_again(ep, (time_after(over, jiffies) ? over : jiffies) + 1);
		return false;
	}
	if (queue_next(l) != ep)
		return false;
	if (l->num_told < l->max_told || time_after(jiffies, su->ready + KIW_READY_PATIENCE))
		return true;
	kiw_ep_again(ep, su->ready + KIW_READY_PATIENCE + 1);
	return false;
}

/**
 * kiw_listener_tell() - report a request to the user
 * @ep: endpoint with a listener, mutex held by its work
 * @event: CONNECT_REQUEST
 *
 * On success the endpoint no longer ends with its listener.
 *
 * Return: 0; -EAGAIN: not its turn, and the work will run again; -ENOMEM; -ECONNABORTED: the
 * listener is gone.
 */
int kiw_listener_tell(struct kiw_ep *ep, struct iw_cm_event *event)
{
	struct kiw_listener *l = ep->listener;
	int err = -ECONNABORTED;

	lockdep_assert_held(&ep->mutex);
	mutex_lock(&l->lock);
	if (l->id)
		err = queue_may_tell(l, ep) ? l->id->event_handler(l->id, event) : -EAGAIN;
	if (!err) {
		list_del_init(&ep->wait_link);
		l->num_waiting--;
		l->num_told++;
		ep->told = true;
		queue_pass(l, ep);
	}
	mutex_unlock(&l->lock);
	return err;
}

/**
 * kiw_listener_ready() - a Request is complete
 * @ep: endpoint with a listener, mutex held
 */
void kiw_listener_ready(struct kiw_ep *ep)
{
	struct kiw_listener *l = ep->listener;
	struct kiw_ep *before;

	lockdep_assert_held(&ep->mutex);
	mutex_lock(&l->lock);
	ep->su->ready = jiffies;
	ep->su->held = true;
	list_for_each_entry_reverse(before, &l->ready, wait_link) {
		if ((s32)(before->su->number - ep->su->number) < 0)
			break;
	}
	list_move(&ep->wait_link, &before->wait_link);
	queue_release(l, &ep->su->peer);
	mutex_unlock(&l->lock);
}

/**
 * kiw_listener_abort() - end the endpoints unknown to the user
 * @l: listener; its socket is released
 */
void kiw_listener_abort(struct kiw_listener *l)
{
	struct kiw_ep *waiting;

	mutex_lock(&l->lock);
	list_for_each_entry(waiting, &l->waiting, wait_link)
		kiw_inbox_post(&waiting->inbox, KIW_INBOX_ABORTED);
	list_for_each_entry(waiting, &l->ready, wait_link)
		kiw_inbox_post(&waiting->inbox, KIW_INBOX_ABORTED);
	mutex_unlock(&l->lock);
}
