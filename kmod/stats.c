// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_verbs.h>

#include "device.h"
#include "stats.h"

static const struct rdma_stat_desc kiw_stat_names[KIW_STAT_NUM] = {
	[KIW_STAT_CONNECTS].name	= "connects",
	[KIW_STAT_CONNECT_FAILS].name	= "connect_fails",
	[KIW_STAT_MPA_REJECTS].name	= "mpa_rejects",
	[KIW_STAT_MPA_MALFORMED].name	= "mpa_malformed",
	[KIW_STAT_MPA_TIMEOUTS].name	= "mpa_timeouts",
	[KIW_STAT_CRC_ERRORS].name	= "crc_errors",
	[KIW_STAT_STREAM_ERRORS].name	= "stream_errors",
	[KIW_STAT_TERM_SENT].name	= "terminates_sent",
	[KIW_STAT_TERM_RECEIVED].name	= "terminates_received",
	[KIW_STAT_LLP_LOST].name	= "connections_lost",
	[KIW_STAT_CQ_OVERFLOWS].name	= "cq_overflows",
	[KIW_STAT_RING_ERRORS].name	= "ring_errors",
};

struct rdma_hw_stats *kiw_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	/* Reading them costs next to nothing: never show an old value. */
	return rdma_alloc_hw_stats_struct(kiw_stat_names, KIW_STAT_NUM, 0);
}

int kiw_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct kiw_device *dev = to_kiw_device(ibdev);
	unsigned int i;

	if (!port)
		return -EINVAL;
	for (i = 0; i < KIW_STAT_NUM; i++)
		stats->value[i] = atomic64_read(&dev->stats.v[i]);
	return KIW_STAT_NUM;
}
