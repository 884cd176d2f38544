/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Gathering: while bytes are unacknowledged or Reads unanswered, a process posts without doorbells,
 * and the requests leave together.
 *
 * The session finds its send ring empty and, if the carrier gathers, leaves KIW_RING_DRAINING set,
 * or sets KIW_RING_SMALL. From then on a timer is queued; its callback sends, see pump.c, and
 * bounds the wait of a request. Acknowledgments and answers of Reads send earlier. Each time the
 * stream decides again.
 */
#ifndef KIWARP_GATHER_H
#define KIWARP_GATHER_H

#include <linux/hrtimer.h>
#include <linux/types.h>

struct kiw_stream;

/**
 * struct kiw_gather - state of a stream; socket lock
 * @timer: queued while the stream gathers
 * @mark: next send request when it was started
 * @received: bytes of the peer by then
 * @seen: next send request when a gathering last could have begun
 * @over: its time is over, and nobody has decided since
 * @left_out: gatherings to leave out
 * @more: how many the last one in vain caused to be left out
 */
struct kiw_gather {
	struct hrtimer	timer;
	u32		mark;
	u32		received;
	u32		seen;
	bool		over;
	u16		left_out;
	u16		more;
};

/** kiw_gather_again() - start the timer; socket lock held, also by another thread than ours */
void kiw_gather_again(struct kiw_gather *g);

/** kiw_gather() - as kiw_carrier_gathers(); the timer is queued unless it returns 0 */
u32 kiw_gather(struct kiw_stream *s);

#endif /* KIWARP_GATHER_H */
