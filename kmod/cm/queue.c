// SPDX-License-Identifier: GPL-2.0
/* Endpoints of a listener with a Request that is not reported to the user yet, and their order. */
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

static struct kiw_startup *queue_startup(const struct rb_node *node)
{
	return rb_entry(node, struct kiw_startup, node);
}

static bool queue_by_number(struct rb_node *node, const struct rb_node *other)
{
	return (s32)(queue_startup(node)->number - queue_startup(other)->number) < 0;
}

static int queue_cmp_peer(const void *peer, const struct rb_node *node)
{
	return ipv6_addr_cmp(peer, &queue_startup(node)->peer);
}

static bool queue_by_peer(struct rb_node *node, const struct rb_node *other)
{
	int order = queue_cmp_peer(&queue_startup(node)->peer, other);

	return order < 0 || (!order && queue_by_number(node, other));
}

/* Change the turn of an endpoint, and its place with it. */
static void queue_turn(struct kiw_listener *l, struct kiw_startup *su, enum kiw_turn turn)
{
	lockdep_assert_held(&l->lock);
	if (su->turn == KIW_TURN_NEXT)
		rb_erase_cached(&su->node, &l->next);
	else if (su->turn != KIW_TURN_NONE)
		rb_erase(&su->node, &l->order);
	su->turn = turn;
	if (turn == KIW_TURN_NEXT)
		rb_add_cached(&su->node, &l->next, queue_by_number);
	else if (turn != KIW_TURN_NONE)
		rb_add(&su->node, &l->order, queue_by_peer);
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
	struct kiw_startup *su = ep->su;
	bool room;

	lockdep_assert_held(&ep->mutex);
	mutex_lock(&l->lock);
	room = l->num_waiting < l->max_waiting;
	if (room) {
		l->num_waiting++;
		su->ep = ep;
		list_add_tail(&su->link, &l->waiting);
		su->number = l->next_number++;
		su->accepted = jiffies;
		su->peer = queue_peer(ep->sock->sk);
		queue_turn(l, su, KIW_TURN_AWAITED);
		kiw_ep_get(&l->ep);
		su->listener = l;
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

/* May the Request of a connection still come before those of later ones? */
static bool queue_is_awaited(const struct kiw_startup *su)
{
	if (!time_after(jiffies, su->accepted + KIW_ORDER_PATIENCE))
		return true;
	/* Bytes arrived, perhaps all of the Request. */
	return work_busy(&su->ep->inbox.work);
}

/*
 * Release Requests of a host that need not wait for earlier ones any more. Each connection is
 * stepped over once, however many stay without a Request.
 */
static void queue_release(struct kiw_listener *l, const struct in6_addr *peer)
{
	struct kiw_startup *su;
	struct rb_node *node;

	lockdep_assert_held(&l->lock);
	while ((node = rb_find_first(peer, &l->order, queue_cmp_peer))) {
		su = queue_startup(node);
		if (su->turn == KIW_TURN_AWAITED && queue_is_awaited(su))
			return;
		queue_turn(l, su, su->turn == KIW_TURN_HELD ? KIW_TURN_NEXT : KIW_TURN_NONE);
	}
}

/* The next request to report, or NULL. */
static struct kiw_ep *queue_next(const struct kiw_listener *l)
{
	struct rb_node *node = rb_first_cached(&l->next);

	lockdep_assert_held(&l->lock);
	return node ? queue_startup(node)->ep : NULL;
}

/* After a change of @ep: notify the next endpoint if it is another. */
static void queue_pass(const struct kiw_listener *l, const struct kiw_ep *ep)
{
	struct kiw_ep *next = queue_next(l);

	lockdep_assert_held(&l->lock);
	if (next && next != ep)
		kiw_inbox_post(&next->inbox, KIW_EP_SOCKET);
}

/* The endpoint waits no more. */
static void queue_remove(struct kiw_listener *l, struct kiw_startup *su)
{
	list_del(&su->link);
	l->num_waiting--;
	queue_turn(l, su, KIW_TURN_NONE);
}

/**
 * kiw_listener_leave() - leave the listener
 * @ep: endpoint, mutex held, with or without a listener; its user has decided, or it ends
 */
void kiw_listener_leave(struct kiw_ep *ep)
{
	struct kiw_startup *su = ep->su;
	struct kiw_listener *l = su ? su->listener : NULL;

	lockdep_assert_held(&ep->mutex);
	if (!l)
		return;
	su->listener = NULL;
	mutex_lock(&l->lock);
	if (su->told) {
		l->num_told--;
	} else {
		queue_remove(l, su);
		queue_release(l, &su->peer);
	}
	su->told = false;
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
	if (su->turn == KIW_TURN_HELD) {
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
	struct kiw_listener *l = ep->su->listener;
	int err = -ECONNABORTED;

	lockdep_assert_held(&ep->mutex);
	mutex_lock(&l->lock);
	if (l->id)
		err = queue_may_tell(l, ep) ? l->id->event_handler(l->id, event) : -EAGAIN;
	if (!err) {
		queue_remove(l, ep->su);
		l->num_told++;
		ep->su->told = true;
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
	struct kiw_listener *l = ep->su->listener;

	lockdep_assert_held(&ep->mutex);
	mutex_lock(&l->lock);
	ep->su->ready = jiffies;
	queue_turn(l, ep->su, KIW_TURN_HELD);
	queue_release(l, &ep->su->peer);
	mutex_unlock(&l->lock);
}

/**
 * kiw_listener_abort() - end the endpoints unknown to the user
 * @l: listener; its socket is released
 */
void kiw_listener_abort(struct kiw_listener *l)
{
	struct kiw_startup *su;

	mutex_lock(&l->lock);
	list_for_each_entry(su, &l->waiting, link)
		kiw_inbox_post(&su->ep->inbox, KIW_INBOX_ABORTED);
	mutex_unlock(&l->lock);
}
