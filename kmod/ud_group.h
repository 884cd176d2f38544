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

/*
 * Verbs; see struct ib_device_ops. RDMA core attaches no QP twice to a group by one LID, and
 * detaches all that go.
 */
int kiw_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int kiw_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

#endif /* KIWARP_UD_GROUP_H */
