/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram QPs: destinations. */
#ifndef KIWARP_UD_PATH_H
#define KIWARP_UD_PATH_H

#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/socket.h>
#include <linux/types.h>

#include "kiwarp-abi.h"

struct kiw_ud;

/* Number of a group's queue pairs in verbs */
#define KIW_UD_GROUP_QPN 0xffffff

/**
 * struct kiw_ud_path - addresses of a datagram, as arguments of a socket
 * @to: destination
 * @to_len: bytes of @to
 * @control: source, hop limit, traffic class, and kiw_ud_path_segments()
 * @control_len: bytes of @control in use
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

/** kiw_ud_group_port() - UDP port of groups, for %KIW_UD_GROUP_QPN */
u16 kiw_ud_group_port(void);

/** kiw_ud_group_port_hold() - kiw_ud_group_port() for a membership, which keeps it from changing */
u16 kiw_ud_group_port_hold(void);

/** kiw_ud_group_port_release() - end that membership */
void kiw_ud_group_port_release(void);

/**
 * kiw_ud_path() - addresses for a request
 * @ud: QP's part, with its socket
 * @dest: destination in the request
 * @path: output
 *
 * Return: false: the request names no destination, or no fitting source.
 */
bool kiw_ud_path(const struct kiw_ud *ud, const struct kiw_ud_dest *dest, struct kiw_ud_path *path);

/** kiw_ud_to_group() - is it a group or broadcast; that of a subnet is not detected */
bool kiw_ud_to_group(const struct kiw_ud_dest *dest);

/** kiw_ud_path_room() - bytes of a datagram that fit the interface's MTU; 0 without interface */
u32 kiw_ud_path_room(const struct kiw_ud *ud, const struct kiw_ud_dest *dest);

/** kiw_ud_path_segments() - let UDP cut its data into datagrams of @size bytes; once only */
void kiw_ud_path_segments(struct kiw_ud_path *path, u16 size);

#endif /* KIWARP_UD_PATH_H */
