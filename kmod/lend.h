/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sending registered pages as they are.
 *
 * A loan is what TCP has been handed of registered pages in one batch. Lifetime is the kernel's own
 * rule, that of MSG_ZEROCOPY: every packet buffer with these pages, clones included, counts in a
 * struct ubuf_info; when the last buffer is freed, because the peer has acknowledged it or the
 * connection is gone, the loan is over. Where a packet goes to a local receiver, or to a packet
 * socket, the kernel copies the pages first, and tells us: then the stream lends no more. So the
 * first loan of a stream is one FPDU, and there is no other before it has come back uncopied.
 *
 * Until its loan is over a request doesn't complete, neither as done nor as flushed, and its region
 * can't be deregistered. A loan counts in its stream and in its regions, and holds a reference to
 * the stream.
 */
#ifndef KIWARP_LEND_H
#define KIWARP_LEND_H

#include <linux/list.h>
#include <linux/skbuff.h>
#include <linux/types.h>

struct kiw_loan;
struct kiw_region;
struct kiw_stream;

/* Messages of so many bytes are lent: of shorter ones a copy costs less than to wait for the ACK */
#define KIW_LEND_MIN (256U << 10)
/* Regions that one loan may have pages of */
#define KIW_LOAN_REGIONS 4

/**
 * struct kiw_loan - see above
 * @ubuf: counts the buffers, and the batch until TCP has all of it
 * @s: stream, reference held until the loan is over
 * @link: in the loans of the stream, oldest first; socket lock
 * @end: send requests before this are complete when this and all older loans are over; socket lock
 * @seq: what TCP has numbered the byte behind the batch; set when TCP has all of it; socket lock
 * @charged: see kiw_loan_charge(); socket lock
 * @copied: the kernel had to copy the pages
 * @over: the last buffer is gone
 * @num_regions: entries of @region
 * @region: that have pages in it
 */
struct kiw_loan {
	struct ubuf_info	ubuf;
	struct kiw_stream	*s;
	struct list_head	link;
	u32			end;
	u32			seq;
	u32			charged;
	bool			copied;
	bool			over;
	u8			num_regions;
	struct kiw_region	*region[KIW_LOAN_REGIONS];
};

/**
 * struct kiw_lend - the loans of a stream
 * @loans: oldest first; socket lock
 * @count: those that are not over, including that of the batch under construction
 * @acked: what the peer had acknowledged when that was looked at, see kiw_stream_press(), or when
 *	@loans got its first; socket lock
 * @since: since when that hasn't changed, in jiffies; socket lock
 * @proved: a loan has come back uncopied; socket lock
 * @off: the kernel copies the pages on their way: no more; socket lock
 * @lost: TCP has given back pages that the peer has not acknowledged; socket lock
 */
struct kiw_lend {
	struct list_head	loans;
	atomic_t		count;
	u32			acked;
	unsigned long		since;
	bool			proved;
	bool			off;
	bool			lost;
};

/**
 * kiw_lend_for() - may a message be sent without a copy
 * @s: stream; socket lock held
 * @len: bytes of the message
 *
 * With a CRC the payload is copied: nobody may change what the CRC covers. Where TCP looks for the
 * path's MTU by probes, too: a probe has the pages, but doesn't count in the loan.
 *
 * Return: the loan of the batch under construction, or NULL: copy.
 */
struct kiw_loan *kiw_lend_for(struct kiw_stream *s, u32 len);

/**
 * kiw_loan_use() - pages of a region become part of a loan
 * @loan: of the batch under construction
 * @region: region of a use
 *
 * Return: false when the loan is full: copy.
 */
bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region);

/**
 * kiw_loan_charge() - account for what a batch has between the pages that are lent
 * @loan: of the batch, which goes to TCP
 * @copied: bytes of it that are no registered pages
 *
 * TCP accounts for no byte of a buffer of which it has copied nothing itself. These bytes are
 * memory of the socket until the stream is through with the loan. The socket is locked.
 *
 * Return: false when TCP may have no more memory.
 */
bool kiw_loan_charge(struct kiw_loan *loan, u32 copied);

/** kiw_loan_put() - the batch is done with its loan; NULL is none */
void kiw_loan_put(struct kiw_loan *loan);

/**
 * kiw_lend_stalled() - has the peer acknowledged nothing for some time
 * @s: stream with loans; socket lock held
 * @time: jiffies
 *
 * What it has acknowledged is looked at in each call, and when the first of the loans was made.
 *
 * Return: whether that is so.
 */
bool kiw_lend_stalled(struct kiw_stream *s, unsigned long time);

/** kiw_lend_has() - has the stream pages of a region lent; socket lock held */
bool kiw_lend_has(const struct kiw_stream *s, const struct kiw_region *region);

/** kiw_lend_hold() - send requests before @end complete with the youngest loan; socket lock held */
void kiw_lend_hold(struct kiw_stream *s, u32 end);

/**
 * kiw_lend_over() - take the loans that are over off the stream
 * @s: stream; socket lock held
 * @end: send requests before this are complete, as far as loans are concerned
 *
 * A connection that is no more gives pages back that the peer hasn't got: from the first of these
 * loans on, no request is complete.
 *
 * Return: whether any is.
 */
bool kiw_lend_over(struct kiw_stream *s, u32 *end);

/**
 * kiw_lend_wait() - wait until loans are over; may sleep, socket unlocked
 * @count: of a stream or a region
 * @timeout: jiffies
 *
 * Return: whether they are.
 */
bool kiw_lend_wait(atomic_t *count, unsigned long timeout);

/** kiw_lend_exit() - wait until no loan is left; the streams are gone, but buffers may not be */
void kiw_lend_exit(void);

#endif /* KIWARP_LEND_H */
