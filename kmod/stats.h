/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters as users see them: all in `rdma statistic` and hw_counters of sysfs, the traffic in
 * counters, under InfiniBand's names.
 */
#ifndef KIWARP_STATS_H
#define KIWARP_STATS_H

#include <linux/types.h>

struct ib_device;
struct ib_grh;
struct ib_mad;
struct ib_wc;
struct rdma_hw_stats;

struct rdma_hw_stats *kiw_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int kiw_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

/*
 * Answers a management datagram; see struct ib_device_ops.
 *
 * iWARP carries no management datagrams. RDMA core uses them to fill counters of a port:
 * performance management (InfiniBand architecture, volume 1, chapter 16.1), ClassPortInfo,
 * PortCounters and PortCountersExtended only.
 *
 * Return: IB_MAD_RESULT_*.
 */
int kiw_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		    size_t *out_size, u16 *out_pkey_index);

#endif /* KIWARP_STATS_H */
