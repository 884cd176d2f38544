/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Zero copy: registered pages sent without a copy.
 *
 * A loan is the set of region pages in one batch. Its lifetime is the kernel's rule for
 * MSG_ZEROCOPY: each packet buffer with these pages, clones included, counts in a struct ubuf_info
 * and holds references to the pages. When the last buffer is freed, after an acknowledgment or the
 * end of the connection, the loan is over. For a local receiver or a packet socket the kernel
 * copies the pages first and reports that; the stream then lends no more. So the first loan of a
 * stream is one FPDU, and the next follows when that came back uncopied. A request with loans
 * completes when they are over.
 *
 * Nothing waits for acknowledgments of a peer. If the process needs its pages back, because
 * requests are flushed, or a region or queue pair goes, its loans are called back: kiw_lend_copy()
 * gives TCP's own buffers copies, as the kernel does for a local receiver. TCP sends and resends
 * the contents of that moment.
 *
 * Packets that left TCP remain: those in a queue of this machine, of a container or of a virtual
 * machine. They get a limited time (pump.c, mr.c, qp.c). Then kiw_lend_leave() takes the loan off
 * its stream, kiw_lent_leave() takes it off its region, and the process gets its memory back. Such
 * a packet holds references to its pages, as with MSG_ZEROCOPY, and they count as pinned by the
 * process until it is gone.
 *
 * References: the buffers and the stream's list hold a loan. A loan holds the stream, and the
 * struct kiw_lent of each region with pages in it. Any context may drop the last reference. The
 * module stays while loans exist (kiw_lend_exit()).
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

/* Shortest request to lend, bytes: of less, a copy completes sooner than the ACK comes */
#define KIW_LEND_MIN (256U << 10)
/* Shortest message to lend if others are posted behind it, and shortest Read Response */
#define KIW_LEND_MIN_MANY (64U << 10)
/* Most regions of a loan */
#define KIW_LOAN_REGIONS 4

/**
 * struct kiw_lent - pages of one region that TCP holds
 * @ref: of the region until kiw_lent_leave(), and of each of @parts
 * @lock: protects @parts and @mm; innermost
 * @parts: of loans with pages of the region
 * @loans: number of @parts; changed under @lock
 * @mm: NULL until the region is gone; then the counted owner of its memory, where pages of @parts
 *	count as pinned
 * @work: drops @mm
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
 * @loan: loan
 * @lent: of the region; reference held until the loan is over
 * @pages: upper bound; fixed when TCP gets the batch
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
 * struct kiw_loan - region pages of one batch
 * @ubuf: counts the buffers, and the batch until TCP took all of it
 * @ref: references
 * @s: stream; reference held while the loan exists
 * @link: in the stream's loans, oldest first; socket lock
 * @end: send requests before it complete when this and all older loans are over; socket lock
 * @seq: TCP sequence number after the last byte of the batch; set when TCP took all; socket lock
 * @charged: see kiw_loan_charge(); socket lock
 * @copied: the kernel had to copy the pages
 * @called: TCP was made to copy them, or got nothing of the batch; socket lock
 * @over: the last buffer is gone; set under the lock of &struct kiw_lend
 * @left: the stream abandoned it; same lock
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
 * struct kiw_lend - loans of a stream
 * @loans: oldest first; socket lock
 * @lock: for the end of a loan in any context, see &struct kiw_loan; innermost
 * @count: loans that are not over, including that of the batch under construction
 * @give_up: with @ending, when to abandon @loans; jiffies, socket lock
 * @ending: the end of the stream waits for @loans; socket lock
 * @proved: a loan came back uncopied; socket lock
 * @off: the kernel copies the pages: lend no more; socket lock
 * @lost: TCP gave back pages that the peer has not acknowledged; socket lock
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
 * kiw_lend_for() - choose between zero copy and copy for a message
 * @s: stream; socket lock held
 * @len: bytes of the message
 *
 * Copies with a CRC, since nobody may change the bytes that it covers, and if TCP probes for the
 * path's MTU: a probe holds the pages but does not count in the loan.
 *
 * Return: the loan of the current batch, or NULL: copy.
 */
struct kiw_loan *kiw_lend_for(struct kiw_stream *s, u32 len);

/** kiw_loan_use() - add pages of a region in use. Return: false: full, or no memory: copy */
bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region, u64 addr, u32 n);

/**
 * kiw_loan_charge() - account for the bytes between lent pages
 * @loan: of a batch that goes to TCP; socket locked
 * @copied: bytes of it that are not registered pages
 *
 * TCP does not account for buffers into which it copied nothing. These bytes count as memory of the
 * socket until the stream drops the loan.
 *
 * Return: false if TCP may have no more memory.
 */
bool kiw_loan_charge(struct kiw_loan *loan, u32 copied);

/** kiw_loan_put() - detach @loan or NULL; @any: TCP took some of the batch; socket lock held */
void kiw_loan_put(struct kiw_loan *loan, bool any);

/** kiw_lend_hold() - send requests before @end wait for the youngest loan; socket lock held */
void kiw_lend_hold(struct kiw_stream *s, u32 end);

/**
 * kiw_lend_over() - remove finished loans from the stream
 * @s: stream; socket lock held
 * @end: requests before it have free buffers; unchanged if there is no news
 *
 * The end of a connection also gives back pages that the peer did not receive: no request completes
 * from the first such loan on. While connected, a loan also needs the peer's acknowledgment, unless
 * it was copied: TCP must not resend pages that the process got back.
 */
void kiw_lend_over(struct kiw_stream *s, u32 *end);

/**
 * kiw_lend_copy() - call back all loans of a stream: TCP gets copies
 * @s: stream; socket lock held, as owner
 *
 * Leaves the batch alone, see pump_own_batch(). Afterwards only packets on their way hold pages;
 * loans without such packets are over.
 *
 * Return: false if memory is short: only the end of the connection helps.
 */
bool kiw_lend_copy(struct kiw_stream *s);

/**
 * kiw_lend_leave() - abandon the loans of a stream
 * @s: stream; socket lock held, without a batch
 *
 * They no longer touch the stream, and kiw_stream_lends() returns false.
 */
void kiw_lend_leave(struct kiw_stream *s);

/** kiw_lend_wait() - sleep until @count is 0, @timeout jiffies, a fatal signal; unlocked */
void kiw_lend_wait(atomic_t *count, unsigned long timeout);

/** kiw_lent_loans() - number of loans with pages of a region that stays */
u32 kiw_lent_loans(const struct kiw_region *region);

/** kiw_lent_next() - a stream, referenced, with pages of an unreachable region; once per loan */
struct kiw_stream *kiw_lent_next(struct kiw_lent *lent);

/**
 * kiw_lent_leave() - detach loans from a region that is gone
 * @lent: of the region; drops the caller's reference
 * @mm: owner of the memory, where the remaining pages count as pinned
 *
 * Return: upper bound of these pages.
 */
u64 kiw_lent_leave(struct kiw_lent *lent, struct mm_struct *mm);

/** kiw_lend_exit() - wait for the last loan; streams are gone, but buffers may remain */
void kiw_lend_exit(void);

#endif /* KIWARP_LEND_H */
