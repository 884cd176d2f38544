// SPDX-License-Identifier: GPL-2.0
#include "gid.h"

#include <linux/bitmap.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <net/addrconf.h>
#include <net/ipv6.h>

#include "types.h"

/* Slot of an address, or 0 */
static u32 gid_find(const struct kiw_gids *gids, const struct in6_addr *addr)
{
	u32 i;

	lockdep_assert_held(&gids->lock);
	for (i = 1; i < KIW_GID_MAC; i++) {
		if (ipv6_addr_equal(&gids->addr[i], addr))
			return i;
	}
	return 0;
}

/* Return: whether a slot was free. */
static bool gid_add(struct kiw_gids *gids, const struct in6_addr *addr)
{
	u32 i, slot = gids->last;

	lockdep_assert_held(&gids->lock);
	for (i = 1; i < KIW_GID_MAC; i++) {
		slot = slot % (KIW_GID_MAC - 1) + 1;
		if (ipv6_addr_any(&gids->addr[slot])) {
			gids->addr[slot] = *addr;
			gids->last = slot;
			return true;
		}
	}
	return false;
}

static void gid_remove(struct kiw_gids *gids, u32 slot)
{
	u32 *first = &gids->first[ipv6_addr_v4mapped(&gids->addr[slot])];

	lockdep_assert_held(&gids->lock);
	gids->addr[slot] = in6addr_any;
	if (*first == slot)
		*first = 0;
}

/* Does the address in @slot serve better as the first one than that of @other? */
static bool gid_is_before(const struct kiw_gids *gids, u32 slot, u32 other)
{
	if (!other)
		return true;
	/* Addresses that peers beyond the link cannot reach come last. */
	return (ipv6_addr_type(&gids->addr[other]) & IPV6_ADDR_LINKLOCAL) &&
	       !(ipv6_addr_type(&gids->addr[slot]) & IPV6_ADDR_LINKLOCAL);
}

/* A first address stays first while the interface has it, unless a better one comes. */
static void gid_choose_first(struct kiw_gids *gids)
{
	u32 i, *first;

	lockdep_assert_held(&gids->lock);
	for (i = 1; i < KIW_GID_MAC; i++) {
		if (ipv6_addr_any(&gids->addr[i]))
			continue;
		first = &gids->first[ipv6_addr_v4mapped(&gids->addr[i])];
		if (gid_is_before(gids, i, *first))
			*first = i;
	}
}

/*
 * struct gid_refresh - a refresh under way
 * @gids: table, locked
 * @seen: slots with an address that the interface still has
 * @add: give addresses a slot; else skip them
 * @changed: the table changed
 */
struct gid_refresh {
	struct kiw_gids	*gids;
	DECLARE_BITMAP(seen, KIW_GIDS);
	bool		add;
	bool		changed;
};

static void gid_visit(struct gid_refresh *r, const struct in6_addr *addr)
{
	u32 slot = gid_find(r->gids, addr);

	if (slot)
		__set_bit(slot, r->seen);
	else if (r->add)
		r->changed |= gid_add(r->gids, addr);
}

static void gid_visit_ipv4(struct gid_refresh *r, const struct net_device *ndev)
{
	struct in_device *in_dev = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;
	struct in6_addr addr;

	if (!in_dev)
		return;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		ipv6_addr_set_v4mapped(ifa->ifa_local, &addr);
		gid_visit(r, &addr);
	}
}

static void gid_visit_ipv6(struct gid_refresh *r, const struct net_device *ndev)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *in6_dev = __in6_dev_get(ndev);
	const struct inet6_ifaddr *ifa;

	if (!in6_dev)
		return;
	read_lock_bh(&in6_dev->lock);
	list_for_each_entry(ifa, &in6_dev->addr_list, if_list)
		gid_visit(r, &ifa->addr);
	read_unlock_bh(&in6_dev->lock);
#endif
}

static void gid_visit_all(struct gid_refresh *r, const struct net_device *ndev)
{
	gid_visit_ipv4(r, ndev);
	gid_visit_ipv6(r, ndev);
}

bool kiw_gid_refresh(struct kiw_device *dev)
{
	struct gid_refresh r = { .gids = &dev->gids };
	struct net_device *ndev;
	u32 i;

	spin_lock_bh(&dev->gids.lock);
	rcu_read_lock();
	ndev = dev_get_by_index_rcu(dev->net, dev->ifindex);
	/* Free slots first, for addresses that replace others. */
	if (ndev)
		gid_visit_all(&r, ndev);
	for (i = 1; i < KIW_GID_MAC; i++) {
		if (test_bit(i, r.seen) || ipv6_addr_any(&dev->gids.addr[i]))
			continue;
		gid_remove(&dev->gids, i);
		r.changed = true;
	}
	r.add = true;
	if (ndev)
		gid_visit_all(&r, ndev);
	gid_choose_first(&dev->gids);
	rcu_read_unlock();
	spin_unlock_bh(&dev->gids.lock);
	return r.changed;
}

bool kiw_gid_has(struct kiw_device *dev, const struct in6_addr *addr)
{
	bool has;

	spin_lock_bh(&dev->gids.lock);
	has = !ipv6_addr_any(addr) && gid_find(&dev->gids, addr);
	spin_unlock_bh(&dev->gids.lock);
	return has;
}

bool kiw_gid_get(struct kiw_device *dev, u32 index, struct in6_addr *addr)
{
	struct kiw_gids *gids = &dev->gids;

	if (index >= KIW_GID_MAC)
		return false;
	spin_lock_bh(&gids->lock);
	if (!index)
		index = gids->first[true] ?: gids->first[false];
	*addr = gids->addr[index];
	spin_unlock_bh(&gids->lock);
	return !ipv6_addr_any(addr);
}

/* Address of neither a host nor a group */
static bool gid_is_unspecified(const struct in6_addr *addr)
{
	return ipv6_addr_any(addr) || (ipv6_addr_v4mapped(addr) && !addr->s6_addr32[3]);
}

bool kiw_gid_path(struct kiw_device *dev, u32 index, const struct in6_addr *to,
		  struct in6_addr *from)
{
	struct kiw_gids *gids = &dev->gids;
	bool four = ipv6_addr_v4mapped(to);

	if (index >= KIW_GID_MAC || gid_is_unspecified(to))
		return false;
	spin_lock_bh(&gids->lock);
	*from = gids->addr[index ?: gids->first[four]];
	spin_unlock_bh(&gids->lock);
	return !ipv6_addr_any(from) && ipv6_addr_v4mapped(from) == four;
}

/*
 * An address handle is only checked and counted here. Requests carry the address, so they do not
 * depend on the handle's lifetime.
 */
int kiw_create_user_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	struct kiw_device *dev = to_kiw_device(ibah->device);
	const struct ib_global_route *grh;
	struct in6_addr from, to;

	/* Datagrams are routed by IP, which needs a GID. */
	if (!(rdma_ah_get_ah_flags(attr->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	grh = rdma_ah_read_grh(attr->ah_attr);
	memcpy(&to, grh->dgid.raw, sizeof(to));
	if (!kiw_gid_path(dev, grh->sgid_index, &to, &from))
		return -EINVAL;
	return kiw_count_up(&dev->num_ah, KIW_MAX_AH) ? 0 : -ENOMEM;
}

int kiw_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	atomic_dec(&to_kiw_device(ibah->device)->num_ah);
	return 0;
}
