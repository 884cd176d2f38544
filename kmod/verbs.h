/* SPDX-License-Identifier: GPL-2.0 */
/* Verbs that differ by the kind of a queue pair */
#ifndef KIWARP_VERBS_H
#define KIWARP_VERBS_H

#include <rdma/ib_verbs.h>

/* Verbs; see struct ib_device_ops. */
int kiw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int kiw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int kiw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
int kiw_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad);
int kiw_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int kiw_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
struct ib_mr *kiw_get_dma_mr(struct ib_pd *pd, int access);

#endif /* KIWARP_VERBS_H */
