/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sending registered pages as they are.
 *
 * A loan is what TCP has been handed of registered pages in one batch. Lifetime is the kernel's own
 * rule, that of MSG_ZEROCOPY: every packet buffer with these pages, clones included, counts in a
 * struct ubuf_info, and holds references to the pages; when the last buffer is freed, because the
 * peer acknowledged it or the connection is gone, the loan is over. Where a packet goes to a
 * local receiver, or to a packet socket, the kernel copies the pages first, and tells us: then the
 * stream lends no more. So the first loan of a stream is one FPDU, and there is no other before it
 * came back uncopied. A request with loans completes when they are over.
 *
 * Nothing waits for a peer's acknowledgments. Where the process is to have its pages back, because
 * requests are flushed, a region goes or the queue pair does, the loans are called back:
 * kiw_lend_copy() gives TCP's own buffers copies, as the kernel does for a local receiver. What
 * TCP sends from then on, for the first time or again, is what was in the pages at that time.
 *
 * What remains are packets that left TCP: those in a queue of this machine, which may be that
 * of a container or a virtual machine. They get a limited time (pump.c, mr.c, qp.c). Then the loan
 * is left to itself: kiw_lend_leave() takes it off its stream, and kiw_lent_leave() off its region,
 * and the process gets its memory back. Such a packet holds references to its pages, as one of
 * MSG_ZEROCOPY does, and the pages count for the process until it is gone.
 *
 * References. A loan is held by its buffers and by the stream's list. It holds one to the
 * stream, and one to the struct kiw_lent of each region with pages in it. Any context may drop
 * the last one. The module stays as long as there are loans (kiw_lend_exit()).
 */
#ifndef KIWARP_LEND_H
#define KIWARP_LEND_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct kiw_loan;
struct kiw_region;
struct kiw_stream;
struct mm_struct;

/* Messages of so many bytes are lent: of shorter ones a copy costs less than to wait for the ACK */
#define KIW_LEND_MIN (256U << 10)
/* Regions that one loan may have pages of */
#define KIW_LOAN_REGIONS 4

/**
 * struct kiw_lent - pages of one region that TCP holds
 * @ref: of the region until kiw_lent_leave(), and one of each of @parts
 * @lock: protects @parts and @mm; innermost
 * @parts: of loans with pages of the region
 * @loans: how many these are; changed under @lock
 * @mm: the region is gone, and this is what its memory belongs to, with a reference: the pages of
 *	@parts count there as pinned. Else NULL
 * @work: lets go of @mm
 */
struct kiw_lent {
	struct kref		ref;
	spinlock_t		lock;
	struct list_head	parts;
	atomic_t		loans;
	struct mm_struct	*mm;
	struct work_struct	work;
};

/**
 * struct kiw_loan_part - pages of one region in a loan
 * @link: in @lent->parts until the loan is over
 * @loan: the loan
 * @lent: the region's, reference held until the loan is over
 * @pages: at most so many; fixed when the batch is with TCP
 * @asked: kiw_lent_next() returned the loan's stream; protected by @lent->lock
 */
struct kiw_loan_part {
	struct list_head	link;
	struct kiw_loan		*loan;
	struct kiw_lent		*lent;
	u32			pages;
	bool			asked;
};

/**
 * struct kiw_loan - see above
 * @ubuf: counts the buffers, and the batch until TCP has all of it
 * @ref: references
 * @s: stream, reference held as long as the loan exists
 * @link: in the loans of the stream, oldest first; socket lock
 * @end: send requests before this are complete when this and all older loans are over; socket lock
 * @seq: what TCP has numbered the byte behind the batch; set when TCP has all of it; socket lock
 * @charged: see kiw_loan_charge(); socket lock
 * @copied: the kernel had to copy the pages
 * @called: TCP was made to copy them, or got nothing of the batch; socket lock
 * @over: the last buffer is gone; set under the lock of &struct kiw_lend
 * @left: the stream is done with it; protected by the same lock
 * @num_parts: entries of @part; socket lock, fixed when TCP gets the batch
 * @part: its pages, by region
 */
struct kiw_loan {
	struct ubuf_info	ubuf;
	struct kref		ref;
	struct kiw_stream	*s;
	struct list_head	link;
	u32			end;
	u32			seq;
	u32			charged;
	bool			copied;
	bool			called;
	bool			over;
	bool			left;
	u8			num_parts;
	struct kiw_loan_part	part[KIW_LOAN_REGIONS];
};

/**
 * struct kiw_lend - the loans of a stream
 * @loans: oldest first; socket lock
 * @lock: of what ends a loan in any context, see &struct kiw_loan; innermost
 * @count: those that are not over, including that of the batch under construction
 * @give_up: with @ending, when @loans are left to themselves; jiffies, socket lock
 * @ending: what waits for the loans is to end; socket lock
 * @proved: a loan has come back uncopied; socket lock
 * @off: the kernel copies the pages on their way: no more; socket lock
 * @lost: TCP has given back pages that the peer has not acknowledged; socket lock
 */
struct kiw_lend {
	struct list_head	loans;
	spinlock_t		lock;
	atomic_t		count;
	unsigned long		give_up;
	bool			ending;
	bool			proved;
	bool			off;
	bool			lost;
};

/** kiw_lend_init() - prepare a zeroed structure */
void kiw_lend_init(struct kiw_lend *lend);

/**
 * kiw_lend_for() - may a message be sent without a copy
 * @s: stream; socket lock held
 * @len: bytes of the message
 *
 * With a CRC the payload is copied: nobody may change what the CRC covers. Where TCP looks for the
 * path's MTU by probes, too: a probe holds the pages, but doesn't count in the loan.
 *
 * Return: the loan of the batch under construction, or NULL: copy.
 */
struct kiw_loan *kiw_lend_for(struct kiw_stream *s, u32 len);

/**
 * kiw_loan_use() - pages of a region become part of a loan
 * @loan: of the batch under construction
 * @region: region of a use
 * @addr: first byte that is used
 * @n: bytes
 *
 * Return: false when the loan is full, or for want of memory: copy.
 */
bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region, u64 addr, u32 n);

/**
 * kiw_loan_charge() - account for the bytes between lent pages
 * @loan: of the batch, which goes to TCP
 * @copied: bytes of it that are no registered pages
 *
 * TCP accounts for no byte of a buffer in which it copied nothing itself. These bytes are
 * memory of the socket until the stream is through with the loan. The socket is locked.
 *
 * Return: false when TCP may have no more memory.
 */
bool kiw_loan_charge(struct kiw_loan *loan, u32 copied);

/**
 * kiw_loan_put() - the batch is done with its loan
 * @loan: loan, or NULL for none; socket lock held
 * @any: TCP got something of the batch
 */
void kiw_loan_put(struct kiw_loan *loan, bool any);

/** kiw_lend_hold() - send requests before @end complete with the youngest loan; socket lock held */
void kiw_lend_hold(struct kiw_stream *s, u32 end);

/**
 * kiw_lend_over() - take the loans that are over off the stream
 * @s: stream; socket lock held
 * @end: nobody needs the buffers of send requests before this; stays as it is if there is no news
 *
 * A connection that is no more gives pages back that the peer hasn't got: from the first of these
 * loans on, no request completes. While there is a connection, the peer also acknowledges a
 * loan before it is over, unless it was copied: TCP must not repeat pages that the process got
 * back.
 */
void kiw_lend_over(struct kiw_stream *s, u32 *end);

/**
 * kiw_lend_copy() - call all loans of a stream back: what TCP keeps of them becomes TCP's own
 * @s: stream; socket lock held, as owner
 *
 * The batch isn't TCP's: see kiw_tx_call_back(). Afterwards only packets that are on their way have
 * the pages, and the loans that no packet holds are over.
 *
 * Return: false if that isn't so, for want of memory: only the end of the connection helps.
 */
bool kiw_lend_copy(struct kiw_stream *s);

/**
 * kiw_lend_leave() - leave the loans of a stream to themselves
 * @s: stream; socket lock held, without a batch
 *
 * They don't touch the stream any more when they end, and kiw_stream_lends() says that there is
 * none.
 */
void kiw_lend_leave(struct kiw_stream *s);

/**
 * kiw_lend_wait() - wait until loans are over; may sleep, socket unlocked
 * @count: of a stream or a region
 * @timeout: jiffies; a fatal signal ends it, too
 */
void kiw_lend_wait(atomic_t *count, unsigned long timeout);

/** kiw_lent_loans() - how many loans have pages of a region; the region stays */
u32 kiw_lent_loans(const struct kiw_region *region);

/**
 * kiw_lent_next() - a stream with pages of a region that no use can find any more
 * @lent: of the region
 *
 * Return: with a reference for the caller, one that no earlier call returned for its loans, or
 * NULL.
 */
struct kiw_stream *kiw_lent_next(struct kiw_lent *lent);

/**
 * kiw_lent_leave() - the region is gone
 * @lent: of the region; the caller lets go of it
 * @mm: what its memory belongs to: there the pages that packets still have count as pinned
 *
 * Return: how many pages that are, at most.
 */
u64 kiw_lent_leave(struct kiw_lent *lent, struct mm_struct *mm);

/** kiw_lend_exit() - wait until no loan is left; the streams are gone, but buffers may not be */
void kiw_lend_exit(void);

#endif /* KIWARP_LEND_H */
