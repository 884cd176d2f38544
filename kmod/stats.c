// SPDX-License-Identifier: GPL-2.0
#include "stats.h"

#include <linux/build_bug.h>
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_verbs.h>

#include "attach.h"
#include "qp.h"
#include "types.h"

/* Traffic, after enum kiw_stat */
enum {
	STATS_SENT_FPDUS = KIW_STAT_NUM,
	STATS_RECEIVED_FPDUS,
	STATS_SENT_BYTES,
	STATS_RECEIVED_BYTES,
	STATS_LENT_BYTES,
	STATS_COPIED_BYTES,
	STATS_NUM
};

static const struct rdma_stat_desc stats_names[STATS_NUM] = {
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
	[KIW_STAT_TCP_RETRANSMITS].name	= "tcp_retransmits",
	[KIW_STAT_UD_MALFORMED].name	= "ud_malformed",
	[KIW_STAT_UD_VERSIONS].name	= "ud_versions",
	[KIW_STAT_UD_CRC_ERRORS].name	= "ud_crc_errors",
	[KIW_STAT_UD_NOT_READY].name	= "ud_not_ready",
	[KIW_STAT_UD_QKEY_ERRORS].name	= "ud_qkey_errors",
	[KIW_STAT_UD_STRAYS].name	= "ud_strays",
	[KIW_STAT_UD_NO_RECEIVES].name	= "ud_no_receives",
	[KIW_STAT_UD_TOO_LONG].name	= "ud_too_long",
	[KIW_STAT_UD_BAD_RECEIVES].name	= "ud_bad_receives",
	[KIW_STAT_UD_RECORD_REFUSED].name = "ud_record_refused",
	[KIW_STAT_UD_RECORD_FULL].name	= "ud_record_full",
	[KIW_STAT_UD_RECORD_LATE].name	= "ud_record_late",
	[KIW_STAT_UD_RECORD_TIMEOUTS].name = "ud_record_timeouts",
	[STATS_SENT_FPDUS].name		= "sent_fpdus",
	[STATS_RECEIVED_FPDUS].name	= "received_fpdus",
	[STATS_SENT_BYTES].name		= "sent_bytes",
	[STATS_RECEIVED_BYTES].name	= "received_bytes",
	[STATS_LENT_BYTES].name		= "lent_bytes",
	[STATS_COPIED_BYTES].name	= "copied_bytes",
};

/* Sum over all possible CPUs, not a snapshot */
static struct kiw_traffic stats_traffic_sum(const struct kiw_stats *stats)
{
	struct kiw_traffic sum = {};
	int cpu;

	/* First: a part of @sent_bytes */
	for_each_possible_cpu(cpu)
		sum.lent_bytes += READ_ONCE(per_cpu_ptr(stats->traffic, cpu)->lent_bytes);
	for_each_possible_cpu(cpu) {
		const struct kiw_traffic *t = per_cpu_ptr(stats->traffic, cpu);

		sum.sent_bytes += READ_ONCE(t->sent_bytes);
		sum.sent_fpdus += READ_ONCE(t->sent_fpdus);
		sum.received_bytes += READ_ONCE(t->received_bytes);
		sum.received_fpdus += READ_ONCE(t->received_fpdus);
	}
	return sum;
}

static void stats_count_retransmits(struct kiw_device *dev)
{
	unsigned long qpn = 0;
	struct kiw_stream *s;
	struct kiw_qp *qp;

	while ((qp = kiw_qp_next_of(dev, &qpn))) {
		s = kiw_stream_of(qp);
		if (s) {
			kiw_stream_count_retransmits(s, false);
			kiw_stream_put(s);
		}
		kiw_qp_put(qp);
		cond_resched();
	}
}

struct rdma_hw_stats *kiw_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	/* Cheap to read: never show an old value. */
	return rdma_alloc_hw_stats_struct(stats_names, STATS_NUM, 0);
}

int kiw_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct kiw_device *dev = to_kiw_device(ibdev);
	struct kiw_traffic sum;
	unsigned int i;

	if (!port)
		return -EINVAL;
	stats_count_retransmits(dev);
	for (i = 0; i < KIW_STAT_NUM; i++)
		stats->value[i] = atomic64_read(&dev->stats.v[i]);
	sum = stats_traffic_sum(&dev->stats);
	stats->value[STATS_SENT_FPDUS] = sum.sent_fpdus;
	stats->value[STATS_RECEIVED_FPDUS] = sum.received_fpdus;
	stats->value[STATS_SENT_BYTES] = sum.sent_bytes;
	stats->value[STATS_RECEIVED_BYTES] = sum.received_bytes;
	stats->value[STATS_LENT_BYTES] = sum.lent_bytes;
	stats->value[STATS_COPIED_BYTES] = sum.sent_bytes - min(sum.sent_bytes, sum.lent_bytes);
	return STATS_NUM;
}

static void stats_put_class_info(u8 *data)
{
	struct ib_class_port_info *info = (struct ib_class_port_info *)data;

	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = 1;
	info->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH;
}

/* Narrow counters saturate. Data counts in units of four bytes. */
static void stats_put_counters(u8 *data, const struct kiw_stats *stats)
{
	struct ib_pma_portcounters *c = (struct ib_pma_portcounters *)data;
	struct kiw_traffic sum = stats_traffic_sum(stats);
	u64 errors = atomic64_read(&stats->v[KIW_STAT_CRC_ERRORS]);

	c->port_rcv_errors = cpu_to_be16(min_t(u64, errors, U16_MAX));
	c->port_xmit_data = cpu_to_be32(min_t(u64, sum.sent_bytes / 4, U32_MAX));
	c->port_rcv_data = cpu_to_be32(min_t(u64, sum.received_bytes / 4, U32_MAX));
	c->port_xmit_packets = cpu_to_be32(min_t(u64, sum.sent_fpdus, U32_MAX));
	c->port_rcv_packets = cpu_to_be32(min_t(u64, sum.received_fpdus, U32_MAX));
}

static void stats_put_counters_ext(u8 *data, const struct kiw_stats *stats)
{
	struct ib_pma_portcounters_ext *c = (struct ib_pma_portcounters_ext *)data;
	struct kiw_traffic sum = stats_traffic_sum(stats);

	c->port_xmit_data = cpu_to_be64(sum.sent_bytes / 4);
	c->port_rcv_data = cpu_to_be64(sum.received_bytes / 4);
	c->port_xmit_packets = cpu_to_be64(sum.sent_fpdus);
	c->port_rcv_packets = cpu_to_be64(sum.received_fpdus);
	c->port_unicast_xmit_packets = c->port_xmit_packets;
	c->port_unicast_rcv_packets = c->port_rcv_packets;
}

int kiw_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		    size_t *out_size, u16 *out_pkey_index)
{
	const struct kiw_stats *stats = &to_kiw_device(ibdev)->stats;
	struct ib_pma_mad *pma = (struct ib_pma_mad *)out;

	BUILD_BUG_ON(sizeof(*pma) != sizeof(*out));
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MAD_RESULT_FAILURE;

	memset(out, 0, sizeof(*out));
	out->mad_hdr = in->mad_hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	switch (in->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		stats_put_class_info(pma->data);
		break;
	case IB_PMA_PORT_COUNTERS:
		stats_put_counters(pma->data, stats);
		break;
	case IB_PMA_PORT_COUNTERS_EXT:
		stats_put_counters_ext(pma->data, stats);
		break;
	default:
		return IB_MAD_RESULT_FAILURE;
	}
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
