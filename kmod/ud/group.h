/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagram QPs in groups: multicast groups of IPv4 and IPv6, and broadcast addresses.
 *
 * Each membership is a UDP socket bound to the group and the port of groups: UDP gives each QP of a
 * group its copy, and nothing else. The socket only receives, by the same callback as the QP's own
 * port.
 */
#ifndef KIWARP_UD_GROUP_H
#define KIWARP_UD_GROUP_H

#include <rdma/ib_verbs.h>

struct kiw_ud;

/**
 * kiw_ud_join() - add a QP to a group
 * @ud: QP's part; RDMA core serializes joins and leaves of a QP
 * @gid: group
 *
 * A member that joins again, by another LID, counts one more membership and gets one copy. May
 * sleep.
 *
 * Return: 0; -ENOMEM; -EADDRINUSE: another socket holds the port of groups; or IP's error.
 */
int kiw_ud_join(struct kiw_ud *ud, const union ib_gid *gid);

/** kiw_ud_leave() - end a membership; -EINVAL without one. RDMA core ends all of a QP that goes */
int kiw_ud_leave(struct kiw_ud *ud, const union ib_gid *gid);

#endif /* KIWARP_UD_GROUP_H */
