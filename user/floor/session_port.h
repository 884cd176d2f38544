/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The types that the library gives to its sessions, see kmod/session/port.h: memory of the process
 * in place of pages, iovecs in place of page fragments, and a stage or the socket itself in
 * place of a socket's queue. The functions are in batch.cpp, carrier.cpp, cq.cpp, cursor.cpp and region.cpp.
 */
#ifndef KIW_USER_SESSION_PORT_H
#define KIW_USER_SESSION_PORT_H

#include <infiniband/verbs.h>

#include "kiwarp-abi.h"
#include "proto/fault.h"
#include "proto/receive.h"
#include "session/os.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kiw_carrier_now() counts milliseconds. */
#define KIW_CARRIER_SECOND 1000

/* The kernel's words for what libibverbs has under other names */
enum ib_wc_status {
	IB_WC_SUCCESS = IBV_WC_SUCCESS,
	IB_WC_LOC_LEN_ERR = IBV_WC_LOC_LEN_ERR,
	IB_WC_LOC_QP_OP_ERR = IBV_WC_LOC_QP_OP_ERR,
	IB_WC_LOC_PROT_ERR = IBV_WC_LOC_PROT_ERR,
	IB_WC_WR_FLUSH_ERR = IBV_WC_WR_FLUSH_ERR,
	IB_WC_MW_BIND_ERR = IBV_WC_MW_BIND_ERR,
	IB_WC_REM_INV_REQ_ERR = IBV_WC_REM_INV_REQ_ERR,
	IB_WC_REM_ACCESS_ERR = IBV_WC_REM_ACCESS_ERR,
	IB_WC_REM_OP_ERR = IBV_WC_REM_OP_ERR,
	IB_WC_RETRY_EXC_ERR = IBV_WC_RETRY_EXC_ERR,
};

enum ib_event_type {
	IB_EVENT_QP_FATAL = IBV_EVENT_QP_FATAL,
	IB_EVENT_QP_ACCESS_ERR = IBV_EVENT_QP_ACCESS_ERR,
};

enum {
	IB_QPS_RESET = IBV_QPS_RESET,
	IB_QPS_INIT = IBV_QPS_INIT,
	IB_QPS_RTR = IBV_QPS_RTR,
	IB_QPS_RTS = IBV_QPS_RTS,
};

enum {
	IB_ACCESS_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	IB_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	IB_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	IB_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
};

/* Rare events, named as the module's counters */
enum kiw_stat {
	KIW_STAT_CONNECTS,
	KIW_STAT_CONNECT_FAILS,
	KIW_STAT_MPA_REJECTS,
	KIW_STAT_MPA_MALFORMED,
	KIW_STAT_MPA_TIMEOUTS,
	KIW_STAT_CRC_ERRORS,
	KIW_STAT_STREAM_ERRORS,
	KIW_STAT_TERM_SENT,
	KIW_STAT_TERM_RECEIVED,
	KIW_STAT_LLP_LOST,
	KIW_STAT_CQ_OVERFLOWS,
	KIW_STAT_RING_ERRORS,
	KIW_STAT_UD_MALFORMED,
	KIW_STAT_UD_VERSIONS,
	KIW_STAT_UD_CRC_ERRORS,
	KIW_STAT_UD_NOT_READY,
	KIW_STAT_UD_QKEY_ERRORS,
	KIW_STAT_UD_STRAYS,
	KIW_STAT_UD_NO_RECEIVES,
	KIW_STAT_UD_TOO_LONG,
	KIW_STAT_UD_BAD_RECEIVES,
	KIW_STAT_UD_RECORD_REFUSED,
	KIW_STAT_UD_RECORD_FULL,
	KIW_STAT_UD_RECORD_LATE,
	KIW_STAT_UD_RECORD_TIMEOUTS,
	KIW_STAT_NUM,
};

/* Nobody watches single FPDUs. */
static inline void trace_kiw_fpdu_out(u32 num, u8 op, bool last, u32 n)
{
	(void)num, (void)op, (void)last, (void)n;
}

static inline void trace_kiw_fpdu_in(u32 num, u8 op, bool last, u32 n)
{
	(void)num, (void)op, (void)last, (void)n;
}

static inline void trace_kiw_term_received(u32 num, u8 layer, u8 etype, u8 code)
{
	(void)num, (void)layer, (void)etype, (void)code;
}

static inline void trace_kiw_stream_fail(u32 num, u8 layer, u8 etype, u8 code)
{
	(void)num, (void)layer, (void)etype, (void)code;
}

static inline void trace_kiw_qp_state(u32 num, int event, u8 from, u8 to)
{
	(void)num, (void)event, (void)from, (void)to;
}

struct kiw_cq;
struct kiw_loan;

/* --- memory that an STag leads to: region.hpp ------------------------------------------------ */

struct kiw_domain;
struct kiw_region;

/**
 * struct kiw_owner - a queue pair, as memory and completions know it
 * @pd: protection domain: no other region may be used
 * @cookie: of the process, for completions
 * @num: number of the queue pair
 * @access: IB_ACCESS_REMOTE_* that it allows at all; may change at any time
 *
 * Windows of type 2B belong to it by its address.
 */
struct kiw_owner {
	struct kiw_domain	*pd;
	u64			cookie;
	u32			num;
	u8			access;
};

struct kiw_region_use {
	struct kiw_region	*region;
};

enum kiw_region_fault kiw_region_begin(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use);
enum kiw_region_fault kiw_region_check(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len);
enum kiw_region_fault kiw_region_go_on(const struct kiw_owner *owner, u32 stag, int access,
				       u64 addr, u32 len, struct kiw_region_use *use);
enum kiw_region_fault kiw_region_invalidate(const struct kiw_owner *owner, u32 stag);
enum kiw_region_fault kiw_region_invalidate_own(const struct kiw_owner *owner, u32 stag);
enum kiw_region_fault kiw_region_bind(const struct kiw_owner *owner, u32 stag,
				      const struct kiw_bind_args *args);
/* There are no consumers in the kernel here. */
static inline enum kiw_region_fault kiw_region_register(const struct kiw_owner *owner, u32 stag,
							const struct kiw_bind_args *args)
{
	(void)owner, (void)stag, (void)args;
	return KIW_REGION_STAG;
}
void kiw_region_end(struct kiw_region_use *use);
void kiw_region_set_aside(struct kiw_region_use *use);

/** kiw_region_offset() - the process's address of a byte, which tells how it is aligned */
u64 kiw_region_offset(const struct kiw_region *region, u64 addr);
void *kiw_region_chunk(const struct kiw_region *region, u64 addr, u32 *len);

static inline void kiw_region_unmap(void *p)
{
	(void)p;
}

/* --- FPDUs on their way out: batch.hpp ------------------------------------------------------- */

struct kiw_batch_memory;

/**
 * struct kiw_batch - what is being sent; the lock of the queue pair protects it
 * @mem: what the batch lies in: only between kiw_carrier_begin() and kiw_carrier_end(), or as long
 *	as TCP has not taken all of it
 * @loan: not NULL where pieces are the process's own memory
 * @use: of the region that was copied from last, until TCP gets the batch
 * @pieces: iovecs of @mem that are in use
 * @used: bytes of @mem that are in use
 * @len: bytes in the batch
 * @lent: those of them that are the process's own memory
 * @fpdus: FPDUs in it
 * @sent: bytes that TCP has taken
 * @offset: bytes of the stream up to the end of the batch, markers included, modulo 2^32
 */
struct kiw_batch {
	struct kiw_batch_memory	*mem;
	struct kiw_loan		*loan;
	struct kiw_region_use	use;
	u32			pieces;
	u32			used;
	u32			len;
	u32			lent;
	u32			fpdus;
	u32			sent;
	u32			offset;
};

struct kiw_batch_mark {
	u32	pieces;
	u32	last_len;
	u32	used;
	u32	len;
	u32	lent;
};

bool kiw_batch_open(const struct kiw_batch *b);

static inline bool kiw_batch_whole(const struct kiw_batch *b)
{
	return !b->sent;
}

static inline bool kiw_batch_unsent(const struct kiw_batch *b)
{
	return b->sent < b->len;
}

void *kiw_batch_room(struct kiw_batch *b, u32 least, gfp_t gfp, u32 *room);
void kiw_batch_grow(struct kiw_batch *b, u32 n);
void kiw_batch_lend(struct kiw_batch *b, const struct kiw_region *region, u64 addr, u32 n);
struct kiw_batch_mark kiw_batch_mark(const struct kiw_batch *b);
void kiw_batch_cut(struct kiw_batch *b, const struct kiw_batch_mark *mark);
void kiw_batch_clear(struct kiw_batch *b);

/*
 * Copy a payload into a batch, aligned to 4 bytes there: glibc copies 2 KB and more by an
 * instruction that is slow then.
 */
static inline void kiw_batch_copy(void *to, const void *from, u32 n)
{
	const u32 piece = 1024;
	u32 at;

	for (at = 0; n - at > piece; at += piece)
		memcpy((u8 *)to + at, (const u8 *)from + at, piece);
	memcpy((u8 *)to + at, (const u8 *)from + at, n - at);
}

/* A loan is over when sendmsg() returns: TCP copies. */
static inline bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region, u64 addr, u32 n)
{
	(void)loan, (void)region, (void)addr, (void)n;
	return true;
}

static inline void kiw_loan_put(struct kiw_loan *loan, bool any)
{
	(void)loan, (void)any;
}

/* --- bytes that came in: cursor.cpp ---------------------------------------------------------- */

/*
 * @n: bytes up to the end
 * @p: the first @staged of them; the others, of a payload, are in the socket, and kiw_source_copy()
 *	alone gets them
 * @fd: socket
 * @stage, @room: memory that @p may point into; kiw_source_copy() fills it with what follows in the
 *	socket
 * @left: how much the socket has beyond that, as its last call with TCP_INQ told; or -1
 */
struct kiw_cursor {
	struct kiw_source	source;
	const u8		*p;
	u32			n;
	u32			staged;
	int			fd;
	u8			*stage;
	u32			room;
	int			left;
	struct kiw_cursor	*ahead;
};

static inline struct kiw_cursor *to_kiw_cursor(struct kiw_source *src)
{
	return (struct kiw_cursor *)src;
}

static inline bool kiw_cursor_fill(struct kiw_cursor *c)
{
	return c->n;
}

/* Step over staged bytes. */
static inline void kiw_cursor_skip(struct kiw_cursor *c, u32 n)
{
	c->p += n;
	c->staged -= n;
	c->n -= n;
	c->source.seq += n;
}

bool kiw_cq_add(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n);

#ifdef __cplusplus
}
#endif

#endif /* KIW_USER_SESSION_PORT_H */
