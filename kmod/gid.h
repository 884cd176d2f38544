/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The GID table of a device. Each address of IPv4, mapped, and of IPv6 has a slot of its own, and
 * keeps it as long as the interface has the address: programs name the slot. Slot 0 repeats the
 * first address, for programs that look there only. The last slot is the interface's hardware
 * address, which rdma_cm looks for before Linux 6.6; so is slot 0 while there is no address.
 */
#ifndef KIWARP_GID_H
#define KIWARP_GID_H

#include <linux/in6.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

/* Slots */
#define KIW_GIDS 64

/*
 * The slot of the hardware address. Those between 0 and it are for addresses: what an interface
 * has beyond them can be the source of no datagram and of no connection by number.
 */
#define KIW_GID_MAC (KIW_GIDS - 1)

struct kiw_device;

/**
 * struct kiw_gids - the addresses in the table
 * @lock: protects what follows; innermost, taken with BH off
 * @addr: the address in a slot of its own, or :: where that is free; slot 0 is none of them
 * @last: the slot that was filled last; those behind it come next, so that one is free for long
 * @first: the slot of the first address of IPv6, and of IPv4, or 0. It stays that slot as long as
 *	the interface has the address, but a link-local one gives way to any other. Slot 0 shows
 *	that of IPv4, if there is one.
 */
struct kiw_gids {
	spinlock_t	lock;
	struct in6_addr	addr[KIW_GID_MAC];
	u32		last;
	u32		first[2];
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
 * Return: false where there is none, as in the slot of the hardware address.
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
 * From slot 0, it is the first address of the destination's IP version: an IPv4 address that comes
 * takes slot 0, but no source from those that send to IPv6 addresses.
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
