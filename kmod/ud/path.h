/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: where a datagram goes. */
#ifndef KIWARP_UD_PATH_H
#define KIWARP_UD_PATH_H

#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/socket.h>
#include <linux/types.h>

#include "kiwarp-abi.h"

struct kiw_ud;

/* What verbs have for the number of a group's queue pairs */
#define KIW_UD_GROUP_QPN 0xffffff

/**
 * struct kiw_ud_path - addresses of a datagram, as a socket takes them
 * @to: destination
 * @to_len: bytes of it
 * @control: source, hop limit, traffic class, and kiw_ud_path_segments()
 * @control_len: bytes of them
 */
struct kiw_ud_path {
	union {
		struct sockaddr_in	four;
		struct sockaddr_in6	six;
	} to;
	int	to_len;
	u8	control[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
			CMSG_SPACE(sizeof(u16))] __aligned(__alignof__(struct cmsghdr));
	u32	control_len;
};

/** kiw_ud_group_port() - UDP port of groups: what %KIW_UD_GROUP_QPN stands for */
u16 kiw_ud_group_port(void);

/** kiw_ud_group_port_hold() - the same for a membership: it can't be changed any more */
u16 kiw_ud_group_port_hold(void);

/** kiw_ud_group_port_release() - that membership is over */
void kiw_ud_group_port_release(void);

/**
 * kiw_ud_path() - where a request goes
 * @ud: QP's part, with its socket
 * @dest: what the request says
 * @path: output
 *
 * Return: false if the request names no destination, or no source that fits.
 */
bool kiw_ud_path(const struct kiw_ud *ud, const struct kiw_ud_dest *dest, struct kiw_ud_path *path);

/** kiw_ud_to_group() - do several receive what goes there; the broadcast of a subnet isn't known */
bool kiw_ud_to_group(const struct kiw_ud_dest *dest);

/** kiw_ud_path_room() - bytes of a datagram that the interface's MTU has room for, 0 without one */
u32 kiw_ud_path_room(const struct kiw_ud *ud, const struct kiw_ud_dest *dest);

/** kiw_ud_path_segments() - have UDP cut what it gets into datagrams of @size bytes; once only */
void kiw_ud_path_segments(struct kiw_ud_path *path, u16 size);

#endif /* KIWARP_UD_PATH_H */
