// SPDX-License-Identifier: GPL-2.0
/*
 * Requests by number that came before their QP's program named their peer. All that a QP expects of
 * its peer's Request is the key, so a QP finds only those: a stranger does not know the PSN, and
 * adds no step, however many Requests it sends.
 */
#include <linux/string.h>

#include "priv.h"

static struct kiw_early *early_of(const struct rb_node *node)
{
	return rb_entry(node, struct kiw_early, node);
}

static int early_cmp(const void *key, const struct rb_node *node)
{
	return memcmp(key, &early_of(node)->key, sizeof(struct kiw_early_key));
}

static bool early_less(struct rb_node *node, const struct rb_node *other)
{
	return early_cmp(&early_of(node)->key, other) < 0;
}

static struct kiw_early_key early_key(const struct kiw_number_said *said,
				      const struct in6_addr *local, const struct in6_addr *remote)
{
	return (struct kiw_early_key){
		.local = *local,
		.remote = *remote,
		.from = said->from,
		.to = said->to,
		.psn = said->psn,
		.ready = said->ready,
	};
}

/**
 * kiw_early_add() - have kiw_early_tell() find a Request
 * @ep: endpoint that got it, mutex held
 * @said: its contents
 * @local: address that it came to; IPv4 as a mapped one
 * @remote: address that it came from, of the same IP version
 */
void kiw_early_add(struct kiw_ep *ep, const struct kiw_number_said *said,
		   const struct in6_addr *local, const struct in6_addr *remote)
{
	struct kiw_early *early = &ep->su->early;

	lockdep_assert_held(&ep->mutex);
	early->inbox = &ep->inbox;
	early->key = early_key(said, local, remote);
	spin_lock_bh(&ep->dev->ep_lock);
	rb_add(&early->node, &ep->dev->number.early, early_less);
	spin_unlock_bh(&ep->dev->ep_lock);
}

/** kiw_early_remove() - undo kiw_early_add() */
void kiw_early_remove(struct kiw_ep *ep)
{
	lockdep_assert_held(&ep->mutex);
	spin_lock_bh(&ep->dev->ep_lock);
	rb_erase(&ep->su->early.node, &ep->dev->number.early);
	spin_unlock_bh(&ep->dev->ep_lock);
}

/**
 * kiw_early_tell() - post %KIW_INBOX_READY to the Requests that wait for a QP
 * @dev: device
 * @peer: peer that the QP's program named
 */
void kiw_early_tell(struct kiw_device *dev, const struct kiw_peer *peer)
{
	struct kiw_number_said said;
	struct kiw_early_key key;
	struct rb_node *node;

	spin_lock_bh(&dev->ep_lock);
	for (int ready = 0; ready <= 1; ready++) {
		if (!kiw_number_expects(&peer->ends, ready, &said))
			continue;
		key = early_key(&said, &peer->local, &peer->remote);
		rb_for_each(node, &key, &dev->number.early, early_cmp)
			kiw_inbox_post(early_of(node)->inbox, KIW_INBOX_READY);
	}
	spin_unlock_bh(&dev->ep_lock);
}
