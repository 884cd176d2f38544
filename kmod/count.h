/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of one device: every file counts by these; stats.c shows them. */
#ifndef KIWARP_COUNT_H
#define KIWARP_COUNT_H

#include <linux/atomic.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/tcp.h>
#include <linux/types.h>

/* Names in stats_names (stats.c), same order. */
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
	KIW_STAT_RING_ERRORS,		/* QPs with nonsense in their mapped rings */
	KIW_STAT_TCP_RETRANSMITS,	/* segments, see kiw_stream_count_retransmits() */
	/* Datagrams that were dropped, each for the first reason that applies */
	KIW_STAT_UD_MALFORMED,		/* not of our protocol, or with headers that it hasn't */
	KIW_STAT_UD_VERSIONS,		/* of another version */
	KIW_STAT_UD_CRC_ERRORS,
	KIW_STAT_UD_NOT_READY,		/* the QP doesn't receive in its state */
	KIW_STAT_UD_QKEY_ERRORS,
	KIW_STAT_UD_STRAYS,		/* to a group or by broadcast, to a QP's own number */
	KIW_STAT_UD_NO_RECEIVES,	/* nothing was posted for them */
	/* Datagrams that completed a receive request with an error */
	KIW_STAT_UD_TOO_LONG,
	KIW_STAT_UD_BAD_RECEIVES,	/* the request's buffers can't be written to */
	/* Segments of Write-Record that were dropped */
	KIW_STAT_UD_RECORD_REFUSED,	/* no target, a bad STag or range, unlike their message */
	KIW_STAT_UD_RECORD_FULL,	/* no room for a record, or for its completion */
	KIW_STAT_UD_RECORD_LATE,	/* they had arrived, or their message is over */
	KIW_STAT_UD_RECORD_TIMEOUTS,	/* messages that stayed incomplete */
	KIW_STAT_NUM
};

/**
 * struct kiw_traffic - what streams have carried in full operation, and datagrams; one for each CPU
 * @sent_bytes: FPDUs that TCP has taken, with their headers, CRCs and markers; the same of UDP
 * @lent_bytes: those of them that TCP was handed without a copy
 * @sent_fpdus: their number
 * @received_bytes: FPDUs that have been received, also those under way; datagrams that weren't
 *	dropped
 * @received_fpdus: the number of those that are complete
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
 * @retransmits: protects what streams have told of theirs; taken by readers and when one ends
 * @traffic: added to once for each batch that is sent, and each run of the receive pump
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
 * kiw_stat_retransmits() - count the segments that TCP has sent again on a connection
 * @stats: counters
 * @sk: socket of the connection
 * @before: those of them that have been counted
 *
 * Return: the number of the others. A socket that was disconnected has forgotten all.
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

/* kiw_stats_exit() - free the memory of kiw_stats_init(), if there is any */
static inline void kiw_stats_exit(struct kiw_stats *stats)
{
	free_percpu(stats->traffic);
}

#endif /* KIWARP_COUNT_H */
