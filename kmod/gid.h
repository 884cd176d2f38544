/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The GID table of a device. Slot 0 is the interface's hardware address, which rdma_cm looks for.
 * Each address of IPv4, mapped, and of IPv6 has a slot of its own, and keeps it as long as the
 * interface has the address: programs name the slot.
 */
#ifndef KIWARP_GID_H
#define KIWARP_GID_H

#include <linux/in6.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

/* Slots. An interface's addresses beyond them can't be used by datagram QPs. */
#define KIW_GIDS 64

struct kiw_device;

/**
 * struct kiw_gids - the table, but for slot 0
 * @lock: protects what follows; innermost, taken with BH off
 * @addr: the address in a slot, or :: where it is free
 * @last: the slot that was filled last; those behind it come next, so that one is free for long
 */
struct kiw_gids {
	spinlock_t	lock;
	struct in6_addr	addr[KIW_GIDS];
	u32		last;
};

/**
 * kiw_gid_refresh() - bring the table up to date with the interface's addresses; any context
 * @dev: device
 *
 * Return: whether anything has changed.
 */
bool kiw_gid_refresh(struct kiw_device *dev);

/**
 * kiw_gid_get() - the address in a slot
 * @dev: device
 * @index: slot, any number
 * @addr: gets the address
 *
 * Return: false where there is none, as in slot 0.
 */
bool kiw_gid_get(struct kiw_device *dev, u32 index, struct in6_addr *addr);

/** kiw_gid_has() - is it an address of the interface; any context */
bool kiw_gid_has(struct kiw_device *dev, const struct in6_addr *addr);

/**
 * kiw_gid_path() - the source for datagrams from a slot to a destination
 * @dev: device
 * @index: slot, any number
 * @to: destination; addresses of IPv4 are mapped
 * @from: gets the source
 *
 * Return: false where the slot has no address, one of the other IP, or @to is none.
 */
bool kiw_gid_path(struct kiw_device *dev, u32 index, const struct in6_addr *to,
		  struct in6_addr *from);

/**
 * struct kiw_ah - address handle
 * @ibah: the part that RDMA core knows
 */
struct kiw_ah {
	struct ib_ah	ibah;
};

/* Operations of address handles; see struct ib_device_ops. */
int kiw_create_user_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *attr, struct ib_udata *udata);
int kiw_destroy_ah(struct ib_ah *ibah, u32 flags);

#endif /* KIWARP_GID_H */
