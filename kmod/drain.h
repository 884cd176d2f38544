/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Draining send rings from another processor.
 *
 * Whoever posts rings the doorbell and sends in its system call. Where one posts and posts, a
 * worker can do the sending instead: it looks at the ring again and again, so that posting is no
 * more than a write to memory, and the sender's time is the sender's own. That takes a processor,
 * and is faster or slower by what the system call costs, what else there is to run, and how much
 * there is to send. So it is tried, and kept where it moves more.
 *
 * Each processor has a drainer for those who post there. A stream is handed to it in the middle of
 * a run of doorbells, and leaves it when nothing has moved for a while.
 *
 * It never keeps a stream from ending: one that was stopped has no QP any more, which it finds
 * under the socket lock. Locks and references: helper.h.
 */
#ifndef KIWARP_DRAIN_H
#define KIWARP_DRAIN_H

#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/types.h>

struct kiw_stream;

/* Requests sent for each segment of the peer where two don't take turns. */
#define KIW_DRAIN_HEARD		16U

/**
 * struct kiw_drain - what a stream has to do with a drainer; socket lock, but for @node
 * @node: in the drainer's lists; the helper's lock, then its thread's own
 * @on: a drainer looks at the send ring
 * @leaving: only for what was posted before the process was told to ring again
 * @heard: how often the peer was lately, see kiw_drain_heard()
 * @index: of the next send request, when it was looked at last
 * @offset: octets of the stream sent by then
 * @moved: when one of them was found to have changed, ns
 * @patience: the drainer lets go when nothing has moved for so long, ns
 * @until: when a trial may be made again, jiffies
 * @again: for how long it wasn't to be, jiffies; 0 if the last one paid
 */
struct kiw_drain {
	struct list_head	node;
	bool			on;
	bool			leaving;
	u32			heard;
	u32			index;
	u32			offset;
	u64			moved;
	u32			patience;
	unsigned long		until;
	unsigned long		again;
};

/**
 * kiw_drain_heard() - a segment of the peer was through, other than of a Read's Request or Response
 * @d: of a stream; socket lock held
 *
 * Each counts as much as so many requests that are sent. Who hears more takes turns with the peer.
 */
static inline void kiw_drain_heard(struct kiw_drain *d)
{
	d->heard = min(d->heard + KIW_DRAIN_HEARD, 4 * KIW_DRAIN_HEARD);
}

/**
 * kiw_drain_rung() - a doorbell rang; hand the stream to a drainer, if that seems good
 * @s: stream with a QP in RTS; socket lock held by kiw_stream_lock()
 */
void kiw_drain_rung(struct kiw_stream *s);

/** kiw_drain_pause() - the doorbell ends; until the next one it is the process's time */
void kiw_drain_pause(void);

void kiw_drain_init(void);
void kiw_drain_exit(void);

#endif /* KIWARP_DRAIN_H */
