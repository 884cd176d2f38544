/* SPDX-License-Identifier: GPL-2.0 */
/* Details of our objects for "rdma resource show". */
#ifndef KIWARP_RES_H
#define KIWARP_RES_H

#include <rdma/ib_verbs.h>

struct sk_buff;

/*
 * Operations of struct ib_device_ops. Return: 0, -EMSGSIZE, or -EAGAIN for an object under
 * destruction.
 */
int kiw_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int kiw_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int kiw_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int kiw_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif /* KIWARP_RES_H */
