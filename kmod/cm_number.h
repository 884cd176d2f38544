/* SPDX-License-Identifier: GPL-2.0 */
/* Connecting by queue pair number, without rdma_cm. */
#ifndef KIWARP_CM_NUMBER_H
#define KIWARP_CM_NUMBER_H

struct ib_qp;
struct ib_qp_attr;
struct ib_udata;

/**
 * kiw_modify_qp() - change a queue pair; see struct ib_device_ops
 * @ibqp: QP
 * @attr: what to change
 * @mask: IB_QP_*, which of @attr
 * @udata: of the process, unused
 *
 * A change of a connected QP to RTR that names an address and a number has it connected to that QP,
 * without waiting for it.
 *
 * Return: 0; -EINVAL for what can't be, an address that isn't one of IP or isn't this device's
 * among it; -EOPNOTSUPP for attributes that no device here has; -ENOMEM; -ENODEV when the device is
 * going; -EADDRINUSE when another program has the TCP port that the device has to listen on.
 */
int kiw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);

#endif /* KIWARP_CM_NUMBER_H */
