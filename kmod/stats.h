/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of one device, shown by `rdma statistic` and in sysfs. */
#ifndef KIWARP_STATS_H
#define KIWARP_STATS_H

#include <linux/atomic.h>
#include <linux/types.h>

struct ib_device;
struct rdma_hw_stats;

/* Names in kiw_stat_names, same order. */
enum kiw_stat {
	KIW_STAT_CONNECTS,		/* connections that reached full operation, both roles */
	KIW_STAT_CONNECT_FAILS,		/* attempts of ours that failed */
	KIW_STAT_MPA_REJECTS,		/* requests refused by a user or for want of resources */
	KIW_STAT_MPA_MALFORMED,		/* start-up frames that were not MPA, both roles */
	KIW_STAT_MPA_TIMEOUTS,		/* peers that did not finish the start-up in time */
	KIW_STAT_CRC_ERRORS,
	KIW_STAT_STREAM_ERRORS,		/* streams that ended by a protocol or protection error */
	KIW_STAT_TERM_SENT,
	KIW_STAT_TERM_RECEIVED,
	KIW_STAT_LLP_LOST,		/* streams reset, timed out, or closed too early */
	KIW_STAT_CQ_OVERFLOWS,
	KIW_STAT_RING_ERRORS,		/* QPs whose mapped rings held nonsense */
	KIW_STAT_NUM
};

struct kiw_stats {
	atomic64_t	v[KIW_STAT_NUM];
};

static inline void kiw_stat_inc(struct kiw_stats *stats, enum kiw_stat which)
{
	atomic64_inc(&stats->v[which]);
}

struct rdma_hw_stats *kiw_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int kiw_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

#endif /* KIWARP_STATS_H */
