/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagram QPs in groups: multicast groups of IPv4 and IPv6, and broadcast addresses.
 *
 * Each membership is a UDP socket of its own, bound to the group and the port of groups, so that
 * UDP gives each QP of a group its copy, and none what it hasn't asked for. It only receives; the
 * datagrams come to the same callback as those for the QP's own port.
 */
#ifndef KIWARP_UD_GROUP_H
#define KIWARP_UD_GROUP_H

#include <rdma/ib_verbs.h>

struct kiw_ud;

/**
 * kiw_ud_join() - make a QP a member of a group
 * @ud: QP's part; RDMA core lets one thread at a time join or leave
 * @gid: the group
 *
 * A QP that is a member already, by another LID, has one membership more and gets one copy.
 *
 * Return: 0; -ENOMEM; -EADDRINUSE when another socket has the port of groups; or what IP says.
 */
int kiw_ud_join(struct kiw_ud *ud, const union ib_gid *gid);

/** kiw_ud_leave() - end a membership; -EINVAL if there is none. RDMA core ends all that go */
int kiw_ud_leave(struct kiw_ud *ud, const union ib_gid *gid);

#endif /* KIWARP_UD_GROUP_H */
