/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of a device, for all files; stats.c shows them. */
#ifndef KIWARP_COUNT_H
#define KIWARP_COUNT_H

#include <linux/atomic.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/tcp.h>
#include <linux/types.h>

/* Names in stats_names (stats.c), same order. */
enum kiw_stat {
	KIW_STAT_CONNECTS,		/* connections in full operation, both roles */
	KIW_STAT_CONNECT_FAILS,		/* failed attempts of ours */
	KIW_STAT_MPA_REJECTS,		/* requests refused by a user or for lack of resources */
	KIW_STAT_MPA_MALFORMED,		/* start-up frames that are not MPA, both roles */
	KIW_STAT_MPA_TIMEOUTS,		/* peers that did not finish the start-up in time */
	KIW_STAT_CRC_ERRORS,
	KIW_STAT_STREAM_ERRORS,		/* streams ended by a protocol or protection error */
	KIW_STAT_TERM_SENT,
	KIW_STAT_TERM_RECEIVED,
	KIW_STAT_LLP_LOST,		/* streams reset, timed out, or closed too early */
	KIW_STAT_CQ_OVERFLOWS,
	KIW_STAT_RING_ERRORS,		/* QPs with nonsense in their mapped rings */
	KIW_STAT_TCP_RETRANSMITS,	/* segments, see kiw_stream_count_retransmits() */
	/* Dropped datagrams, each for the first reason that applies */
	KIW_STAT_UD_MALFORMED,		/* other protocol, or bad headers */
	KIW_STAT_UD_VERSIONS,		/* other version */
	KIW_STAT_UD_CRC_ERRORS,
	KIW_STAT_UD_NOT_READY,		/* the QP does not receive in its state */
	KIW_STAT_UD_QKEY_ERRORS,
	KIW_STAT_UD_STRAYS,		/* to a group or by broadcast, for a QP's own number */
	KIW_STAT_UD_NO_RECEIVES,	/* no receive request */
	/* Datagrams that failed a receive request */
	KIW_STAT_UD_TOO_LONG,
	KIW_STAT_UD_BAD_RECEIVES,	/* buffers not writable */
	/* Dropped segments of Write-Record */
	KIW_STAT_UD_RECORD_REFUSED,	/* no target, bad STag or range, or unlike their message */
	KIW_STAT_UD_RECORD_FULL,	/* no room for a record or its completion */
	KIW_STAT_UD_RECORD_LATE,	/* duplicate, or message finished */
	KIW_STAT_UD_RECORD_TIMEOUTS,	/* incomplete messages */
	KIW_STAT_NUM
};

/**
 * struct kiw_traffic - traffic of streams in full operation and of datagrams; per CPU
 * @sent_bytes: FPDUs that TCP took, with headers, CRCs and markers; datagrams that UDP took
 * @lent_bytes: of these, without a copy
 * @sent_fpdus: number of FPDUs and datagrams
 * @received_bytes: FPDUs, even incomplete ones; datagrams that were not dropped
 * @received_fpdus: number of complete ones
 */
struct kiw_traffic {
	u64	sent_bytes;
	u64	lent_bytes;
	u64	sent_fpdus;
	u64	received_bytes;
	u64	received_fpdus;
};

/**
 * struct kiw_stats - all counters
 * @v: rare events
 * @retransmits: protects the share of streams; taken by readers and at the end of a stream
 * @traffic: added to once per sent batch and per run of the receive pump
 */
struct kiw_stats {
	atomic64_t			v[KIW_STAT_NUM];
	spinlock_t			retransmits;
	struct kiw_traffic __percpu	*traffic;
};

static inline void kiw_stat_inc(struct kiw_stats *stats, enum kiw_stat which)
{
	atomic64_inc(&stats->v[which]);
}

static inline void kiw_stat_add(struct kiw_stats *stats, enum kiw_stat which, u32 n)
{
	atomic64_add(n, &stats->v[which]);
}

/**
 * kiw_stat_retransmits() - count new retransmissions of a connection
 * @stats: counters
 * @sk: socket
 * @before: segments counted already
 *
 * Return: newly counted segments; 0 for a disconnected socket, which forgot them.
 */
static inline u32 kiw_stat_retransmits(struct kiw_stats *stats, const struct sock *sk, u32 before)
{
	s32 more = READ_ONCE(tcp_sk(sk)->total_retrans) - before;

	if (more <= 0)
		return 0;
	kiw_stat_add(stats, KIW_STAT_TCP_RETRANSMITS, more);
	return more;
}

static inline void kiw_traffic_sent(struct kiw_stats *stats, u32 bytes, u32 lent, u32 fpdus)
{
	this_cpu_add(stats->traffic->sent_bytes, bytes);
	if (lent)
		this_cpu_add(stats->traffic->lent_bytes, lent);
	this_cpu_add(stats->traffic->sent_fpdus, fpdus);
}

static inline void kiw_traffic_received(struct kiw_stats *stats, u32 bytes, u32 fpdus)
{
	this_cpu_add(stats->traffic->received_bytes, bytes);
	this_cpu_add(stats->traffic->received_fpdus, fpdus);
}

/* kiw_stats_init() - make zeroed counters usable; 0 or -ENOMEM */
static inline int kiw_stats_init(struct kiw_stats *stats)
{
	spin_lock_init(&stats->retransmits);
	stats->traffic = alloc_percpu(struct kiw_traffic);
	return stats->traffic ? 0 : -ENOMEM;
}

static inline void kiw_stats_exit(struct kiw_stats *stats)
{
	free_percpu(stats->traffic);
}

#endif /* KIWARP_COUNT_H */
