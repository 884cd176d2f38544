/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests of consumers in the kernel. They go into the same rings as those of processes; this side
 * writes the slots and moves the index, as a process's provider does.
 */
#ifndef KIWARP_POST_H
#define KIWARP_POST_H

#include <rdma/ib_verbs.h>

#include "qp.h"
#include "srq.h"

/**
 * kiw_qp_post_send() - post send requests
 * @qp: queue pair of a consumer in the kernel
 * @wr: list of requests
 * @bad: on failure, the first that was not posted; those before it are posted
 *
 * Any context. In the error state the requests are flushed behind all others, also without a
 * connection.
 *
 * Return: 0; -ENOMEM: the ring is full; -EINVAL: an unknown opcode, a flag that the opcode does not
 * take, too many buffers or too much inline data, another key to invalidate than that of the only
 * buffer of a Read, or never connected.
 */
int kiw_qp_post_send(struct kiw_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);

/**
 * kiw_qp_post_recv() - post receive requests
 * @qp: queue pair of a consumer in the kernel
 * @wr: list of requests
 * @bad: on failure, the first that was not posted; those before it are posted
 *
 * Any context, in all states but RESET.
 *
 * Return: 0; -ENOMEM: the ring is full; -EINVAL: too many buffers, state RESET, or a shared receive
 * queue.
 */
int kiw_qp_post_recv(struct kiw_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);

/**
 * kiw_srq_post_recv() - post receive requests to a shared receive queue
 * @srq: queue of a consumer in the kernel
 * @wr: list of requests
 * @bad: on failure, the first that was not posted; those before it are posted
 *
 * Any context.
 *
 * Return: 0; -ENOMEM: the ring is full; -EINVAL: too many buffers.
 */
int kiw_srq_post_recv(struct kiw_srq *srq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad);

#endif /* KIWARP_POST_H */
