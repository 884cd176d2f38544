/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GID table of a device. Each IPv4 (mapped) and IPv6 address keeps its slot while the interface has
 * it: programs name the slot. Slot 0 repeats the first address, for programs that look there only.
 * The last slot is the interface's hardware address, which rdma_cm looks for before Linux 6.6; so
 * is slot 0 without addresses.
 */
#ifndef KIWARP_GID_H
#define KIWARP_GID_H

#include <linux/in6.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

/* Slots */
#define KIW_GIDS 64

/*
 * Slot of the hardware address. Slots between 0 and it are for addresses: further addresses cannot
 * be the source of datagrams or connections by number.
 */
#define KIW_GID_MAC (KIW_GIDS - 1)

struct kiw_device;

/*
 * The addresses in the table.
 * @lock: protects the rest; innermost, BH off
 * @addr: address in a slot of its own, or :: if free; not slot 0
 * @last: slot filled last; later ones are tried first, so that a freed slot stays free for long
 * @first: slots of the first address of IPv6, and of IPv4, or 0. An address stays first while the
 *	interface has it, but a link-local one gives way to any other. Slot 0 shows that of IPv4, if
 *	any.
 */
struct kiw_gids {
	spinlock_t	lock;
	struct in6_addr	addr[KIW_GID_MAC];
	u32		last;
	u32		first[2];
};

/** kiw_gid_refresh() - update the table from the interface; any context. Return: changed */
bool kiw_gid_refresh(struct kiw_device *dev);

/** kiw_gid_get() - address in slot @index, any number. Return: false if it holds none */
bool kiw_gid_get(struct kiw_device *dev, u32 index, struct in6_addr *addr);

/** kiw_gid_has() - is it an address of the interface; any context */
bool kiw_gid_has(struct kiw_device *dev, const struct in6_addr *addr);

/**
 * kiw_gid_path() - source address for datagrams from a slot
 * @dev: device
 * @index: slot, any number
 * @to: destination; IPv4 mapped
 * @from: gets the source
 *
 * From slot 0 it is the first address of the destination's IP version: a new IPv4 address takes
 * slot 0, but no source from senders to IPv6 addresses.
 *
 * Return: false if the slot is free or of the other IP version, or @to is no destination.
 */
bool kiw_gid_path(struct kiw_device *dev, u32 index, const struct in6_addr *to,
		  struct in6_addr *from);

struct kiw_ah {
	struct ib_ah	ibah;
};

/* Operations of struct ib_device_ops */
int kiw_create_user_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *attr, struct ib_udata *udata);
int kiw_destroy_ah(struct ib_ah *ibah, u32 flags);

#endif /* KIWARP_GID_H */
