/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The types that the tests give to their sessions, see kmod/session/port.h: memory of the process in place of pages, and
 * bytes in one piece in place of a socket's queue. The functions are in side.cpp.
 */
#ifndef KIW_TESTS_SESSION_PORT_H
#define KIW_TESTS_SESSION_PORT_H

#include "kiwarp-abi.h"
#include "proto/fault.h"
#include "proto/receive.h"
#include "session/os.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KIW_CARRIER_SECOND 1000

enum ib_wc_status {
	IB_WC_SUCCESS = 0,
	IB_WC_LOC_LEN_ERR = 1,
	IB_WC_LOC_QP_OP_ERR = 2,
	IB_WC_LOC_PROT_ERR = 4,
	IB_WC_WR_FLUSH_ERR = 5,
	IB_WC_MW_BIND_ERR = 6,
	IB_WC_REM_INV_REQ_ERR = 9,
	IB_WC_REM_ACCESS_ERR = 10,
	IB_WC_REM_OP_ERR = 11,
	IB_WC_RETRY_EXC_ERR = 12,
};

enum ib_event_type { IB_EVENT_QP_FATAL = 1, IB_EVENT_QP_ACCESS_ERR = 3 };
enum { IB_QPS_RTR = 2, IB_QPS_RTS = 3 };
enum {
	IB_ACCESS_LOCAL_WRITE = 1,
	IB_ACCESS_REMOTE_WRITE = 2,
	IB_ACCESS_REMOTE_READ = 4,
	IB_ACCESS_REMOTE_ATOMIC = 8,
};

enum kiw_stat {
	KIW_STAT_CRC_ERRORS,
	KIW_STAT_STREAM_ERRORS,
	KIW_STAT_TERM_SENT,
	KIW_STAT_TERM_RECEIVED,
	KIW_STAT_LLP_LOST,
	KIW_STAT_RING_ERRORS,
	KIW_STAT_NUM,
};

void trace_kiw_fpdu_out(u32 num, u8 op, bool last, u32 n);
void trace_kiw_fpdu_in(u32 num, u8 op, bool last, u32 n);
void trace_kiw_term_received(u32 num, u8 layer, u8 etype, u8 code);
void trace_kiw_stream_fail(u32 num, u8 layer, u8 etype, u8 code);
void trace_kiw_qp_state(u32 num, int event, u8 from, u8 to);

struct kiw_cq;
struct kiw_loan;

/* Bytes that an STag names, from the address @iova on */
struct kiw_region {
	u32 stag;
	int access;
	u64 iova;
	u64 length;
	u8 *bytes;
	bool valid;
	bool may_be_invalidated;
	bool foreign; /* belongs to another protection domain */
};

struct kiw_region_use {
	struct kiw_region *region;
};

/* @regions of them are at @region. */
struct kiw_owner {
	struct kiw_region *region;
	u32 regions;
	u64 cookie;
	u32 num;
	u8 access;
};

enum kiw_region_fault kiw_region_begin(const struct kiw_owner *owner, u32 stag, int access, u64 addr, u32 len,
				       struct kiw_region_use *use);
enum kiw_region_fault kiw_region_check(const struct kiw_owner *owner, u32 stag, int access, u64 addr, u32 len);
enum kiw_region_fault kiw_region_go_on(const struct kiw_owner *owner, u32 stag, int access, u64 addr, u32 len,
				       struct kiw_region_use *use);
enum kiw_region_fault kiw_region_invalidate(const struct kiw_owner *owner, u32 stag);
enum kiw_region_fault kiw_region_invalidate_own(const struct kiw_owner *owner, u32 stag);
enum kiw_region_fault kiw_region_bind(const struct kiw_owner *owner, u32 stag, const struct kiw_bind_args *args);
enum kiw_region_fault kiw_region_register(const struct kiw_owner *owner, u32 stag, const struct kiw_bind_args *args);
void kiw_region_end(struct kiw_region_use *use);
void kiw_region_set_aside(struct kiw_region_use *use);
u64 kiw_region_offset(const struct kiw_region *region, u64 addr);
void *kiw_region_chunk(const struct kiw_region *region, u64 addr, u32 *len);
void kiw_region_unmap(void *p);

#define BATCH_ROOM (256U << 10)

struct kiw_batch {
	struct kiw_loan *loan;
	struct kiw_region_use use;
	u32 len;
	u32 lent;
	u32 fpdus;
	u32 sent;
	u32 offset;
	u8 bytes[BATCH_ROOM];
};

struct kiw_batch_mark {
	u32 len;
	u32 lent;
};

bool kiw_batch_open(const struct kiw_batch *b);
bool kiw_batch_whole(const struct kiw_batch *b);
bool kiw_batch_unsent(const struct kiw_batch *b);
void *kiw_batch_room(struct kiw_batch *b, u32 least, gfp_t gfp, u32 *room);
void kiw_batch_grow(struct kiw_batch *b, u32 n);
void kiw_batch_lend(struct kiw_batch *b, const struct kiw_region *region, u64 addr, u32 n);
struct kiw_batch_mark kiw_batch_mark(const struct kiw_batch *b);
void kiw_batch_cut(struct kiw_batch *b, const struct kiw_batch_mark *mark);
void kiw_batch_clear(struct kiw_batch *b);
static inline void kiw_batch_copy(void *to, const void *from, u32 n)
{
	memcpy(to, from, n);
}
bool kiw_loan_use(struct kiw_loan *loan, struct kiw_region *region, u64 addr, u32 n);
void kiw_loan_put(struct kiw_loan *loan, bool any);

/* The library's, of user/floor/session_port.h. */
struct kiw_cursor {
	struct kiw_source source;
	const u8 *p;
	u32 n;
	u32 staged;
	int fd;
	u8 *stage;
	u32 room;
	int left;
	struct kiw_cursor *ahead;
};

static inline struct kiw_cursor *to_kiw_cursor(struct kiw_source *src)
{
	return (struct kiw_cursor *)src;
}

bool kiw_cursor_fill(struct kiw_cursor *c);
void kiw_cursor_skip(struct kiw_cursor *c, u32 n);

bool kiw_cq_add(struct kiw_cq *cq, const struct kiw_cqe *cqe, unsigned int n);

#ifdef __cplusplus
}
#endif

#endif
