/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kiwarp: what the kernel module and the libibverbs provider share.
 *
 * Rings
 * -----
 * A QP has a send ring and a receive ring (struct kiw_wq_ring), an SRQ has a receive ring, a CQ has
 * a completion ring (struct kiw_cq_ring). Each is a header, then `entries` slots of `stride` bytes.
 * `entries` is a power of two. Indexes are free-running 32-bit counters; slot = index & (entries -
 * 1). Where a ring is and its geometry come back from create_qp, create_srq and create_cq: small
 * rings of a context share mappings, large ones have one each. A mapping lives as long as any ring
 * in it.
 *
 * Writers, and which store pairs with which load
 * ----------------------------------------------
 * Work rings: the process writes slots and `prod`, the kernel writes `cons` and `flags`.
 *
 *   process                                      kernel
 *   -------                                      ------
 *   write the slot                               p = load prod             (acquire)
 *   store prod             (release)  ------->   copy the slot out once, check the copy
 *   fence                  (seq_cst)
 *   load flags             (relaxed)             clear KIW_RING_DRAINING
 *   if not DRAINING: ring the doorbell <------   full barrier, load prod again: new work goes on
 *
 * The last pair is a store-load handshake: either the kernel sees the new `prod`, or the process
 * sees the flag cleared and rings. Hence the full fence on both sides.
 *
 * Completion rings: the kernel writes slots and `prod`, the process writes `cons` and `arm`.
 *
 *   kernel                                       process
 *   ------                                       -------
 *   c = load cons          (acquire)  <-------   store cons                (release)
 *   write the slots                              p = load prod             (acquire)
 *   store prod             (release)  ------->   read the slots below p
 *   full barrier                                 store arm                 (relaxed)
 *   load arm; if set, exchange with 0            fence                     (seq_cst)
 *   and notify                                   poll once more before sleeping
 *
 * The kernel never trusts the contents of a mapping: a slot is copied out once and only the copy
 * is used. An invalid index (more than `entries` outstanding) puts that QP, or that CQ, into the
 * error state and touches nothing else; that of an SRQ ends each QP that takes a request from it.
 * The kernel never reads back what it wrote: it keeps its own
 * indexes. It reads the process's indexes of receive and completion rings only when the value that
 * it saw last doesn't suffice: no request to take, or no room.
 *
 * A slot of a queue pair's work ring belongs to the kernel from the store of `prod` until a
 * completion with `wq_index` at or past it has been polled.
 *
 * The requests of an SRQ complete in no order, so `wq_index` says nothing. The kernel copies a
 * request when it takes it: a slot of an SRQ belongs to the kernel until `cons` is past it.
 *
 * Doorbell
 * --------
 * The uverbs commands POST_SEND, POST_RECV and POST_SRQ_RECV with no work request in them.
 * POST_SEND: look at the send ring. The others are needed only while KIW_RING_FLUSH is set in the
 * receive ring's flags. All rings demand the doorbell for everything posted while KIW_RING_FLUSH is
 * set: those requests complete with a flush error, or messages wait for them.
 */
#ifndef KIWARP_ABI_H
#define KIWARP_ABI_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/build_bug.h>
#elif !defined(__cplusplus)
#include <assert.h>
#endif

#define KIWARP_ABI_VERSION 2
/* Not an allocated id of the kernel tree: "KIWA". */
#define KIWARP_DRIVER_ID 0x4b495741

/*
 * What module and provider may know beyond version 2, as bits of a word that each tells the other.
 * Both use only what both know, so that neighbouring versions work together.
 */
#define KIW_FEATURE_UD     0x1 /* datagram QPs: struct kiw_ud_dest in the send ring, KIW_CQE_GRH */
#define KIW_FEATURE_SRQ    0x2 /* shared receive queues */
#define KIW_FEATURE_RECORD 0x4 /* Write-Record: the members of kiw_create_qp_req behind flags */
#define KIW_FEATURE_IMM    0x8 /* immediate data: KIW_WR_SEND_IMM, KIW_WR_WRITE_IMM */
#define KIW_FEATURE_ATOMIC 0x10 /* KIW_WR_CMP_SWAP, KIW_WR_FETCH_ADD; slots have room for them */
#define KIW_FEATURE_MW     0x20 /* memory windows: KIW_WR_BIND_MW, KIW_WR_LOCAL_INV, with room */
#define KIW_FEATURE_SRQ_RESIZE 0x40 /* struct kiw_modify_srq_req */
#define KIW_FEATURE_UD_IMM 0x80 /* KIW_WR_SEND_IMM of datagram QPs, and what comes of it */
#define KIW_FEATURE_CQ_TIME 0x100 /* struct kiw_create_cq_req */
#define KIW_FEATURES                                                                         \
	(KIW_FEATURE_UD | KIW_FEATURE_SRQ | KIW_FEATURE_RECORD | KIW_FEATURE_IMM |           \
	 KIW_FEATURE_ATOMIC | KIW_FEATURE_MW | KIW_FEATURE_SRQ_RESIZE | KIW_FEATURE_UD_IMM | \
	 KIW_FEATURE_CQ_TIME)

/* Appended to the get_context request; a provider may leave it out, and then knows no feature. */
struct kiw_get_context_req {
	__u32 features; /* KIW_FEATURES of the provider */
	__u32 reserved; /* must be 0 */
};

/* Appended to the core part of the get_context response. */
struct kiw_get_context_resp {
	__u32 max_inline; /* bytes, the most that create_qp grants */
	__u32 max_send_sge;
	__u32 max_recv_sge;
	__u32 features; /* those of the provider that the module knows, too */
};

/*
 * Attribute of the method UVERBS_METHOD_QUERY_CONTEXT, numbered as those of drivers are: gets a
 * struct kiw_get_context_resp, that of the provider which has opened the device.
 */
#define KIW_ATTR_QUERY_CONTEXT_RESP 0x1000

struct kiw_ring_geometry {
	__aligned_u64 mmap_offset; /* to mmap() with */
	__aligned_u64 mmap_size;
	__aligned_u64 mapping; /* its number, never used again in the context */
	__u32 offset;          /* of the ring in the mapping, a multiple of KIW_RING_ALIGN */
	__u32 entries;         /* 0: no such ring */
	__u32 stride;
	__u32 reserved;
};

/* Appended to the create_cq response. */
struct kiw_create_cq_resp {
	struct kiw_ring_geometry ring;
};

/*
 * Appended to the resize_cq response. The new ring has the completions that the process has not
 * consumed, with the same indexes, `cons` and `arm`; nothing comes to the old one any more.
 */
struct kiw_resize_cq_resp {
	struct kiw_ring_geometry ring;
};

/* Bits of kiw_create_qp_req.flags, of datagram QPs only. */
#define KIW_QP_RECORD 0x1 /* peers may write into regions, and each message is recorded */

/*
 * Appended to the create_qp request. A provider without KIW_FEATURE_RECORD may end it behind
 * reserved. All but cookie must be 0 for other QPs than datagram ones.
 */
struct kiw_create_qp_req {
	__aligned_u64 cookie; /* comes back in each completion, not looked at */
	__u32 flags;          /* KIW_QP_* */
	__u16 udp_port;       /* the QP's number; 0: an ephemeral port */
	__u16 reserved;       /* must be 0 */
	__u32 seg_size;       /* of Writes that are sent, bytes; 0: KIW_RECORD_SEG_SIZE */
	__u32 record_timeout; /* of messages that stay incomplete, ms; 0: KIW_RECORD_TIMEOUT */
};

/* Bytes of the request of a provider without KIW_FEATURE_RECORD */
#define KIW_CREATE_QP_REQ_MIN 16

/* What fits into an Ethernet frame of 1500 bytes, also with IPv6, in multiples of 64 */
#define KIW_RECORD_SEG_SIZE 1408
/* The longest segment: one datagram of IPv4 */
#define KIW_RECORD_MAX_SEG_SIZE 65467
#define KIW_RECORD_MAX_SEGS     1024
#define KIW_RECORD_TIMEOUT      1000  /* ms */
#define KIW_RECORD_MAX_TIMEOUT  60000 /* ms */

/* Bits of kiw_create_cq_req.flags. */
#define KIW_CQ_TIME 0x1 /* completions have their time */

/* Appended to the create_cq request; a provider may leave it out. */
struct kiw_create_cq_req {
	__u32 flags;    /* KIW_CQ_* */
	__u32 reserved; /* must be 0 */
};

/* Appended to the create_qp response. */
struct kiw_create_qp_resp {
	struct kiw_ring_geometry sq;
	struct kiw_ring_geometry rq;
};

/* Appended to the create_srq response. */
struct kiw_create_srq_resp {
	struct kiw_ring_geometry ring;
};

/*
 * Appended to a modify_srq request with IB_SRQ_MAX_WR. That command has no response, so the module
 * writes one to the memory that is named here. The new ring has the requests that the module has
 * not taken, with the same indexes; it takes nothing out of the old one any more. The process
 * posts nothing meanwhile: the command fails if it does.
 */
struct kiw_modify_srq_req {
	__aligned_u64 response; /* address of a struct kiw_create_srq_resp */
};

/* Bits of kiw_wq_ring.flags. */
#define KIW_RING_DRAINING 0x1 /* the kernel will look at prod again before it stops */
#define KIW_RING_FLUSH    0x2 /* the kernel waits for what is posted: it needs a doorbell */

/* Bytes from the start of a ring to its first slot. */
#define KIW_RING_HEADER 128
#define KIW_RING_ALIGN  128

/* Header of a send, receive or shared receive ring. */
struct kiw_wq_ring {
	__u32 prod; /* process */
	__u32 reserved0[15];
	__u32 cons;  /* kernel: requests that are done, or that it took out of a receive ring */
	__u32 flags; /* kernel */
	__u32 reserved1[14];
};

/* Values of kiw_cq_ring.arm. */
#define KIW_ARM_NONE      0
#define KIW_ARM_SOLICITED 1
#define KIW_ARM_NEXT      2

/* Header of a completion ring. */
struct kiw_cq_ring {
	__u32 prod; /* kernel */
	__u32 reserved0[15];
	__u32 cons; /* process */
	__u32 arm;  /* process; the kernel resets it when it notifies */
	__u32 reserved1[14];
};

struct kiw_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

enum kiw_wr_op {
	KIW_WR_SEND = 0,
	KIW_WR_SEND_INV = 1,
	KIW_WR_WRITE = 2,
	KIW_WR_READ = 3,
	KIW_WR_RECV = 4,   /* in completions only */
	KIW_WR_RECORD = 5, /* in completions only: a peer has written, see struct kiw_cqe_record */
	KIW_WR_SEND_IMM = 6,
	KIW_WR_WRITE_IMM = 7,
	KIW_WR_RECV_IMM = 8, /* in completions only: a receive that a KIW_WR_WRITE_IMM has taken */
	KIW_WR_CMP_SWAP = 9,
	KIW_WR_FETCH_ADD = 10,
	KIW_WR_BIND_MW = 11,
	KIW_WR_LOCAL_INV = 12,
};

/* Bits of kiw_wqe.flags. */
#define KIW_WQE_SIGNALED  0x01
#define KIW_WQE_SOLICITED 0x02
#define KIW_WQE_FENCE     0x04
#define KIW_WQE_INLINE    0x08
#define KIW_WQE_FLAGS     0x0f

/*
 * Send ring slot: this header, then num_sge times struct kiw_sge or, with KIW_WQE_INLINE,
 * inline_len bytes of payload. A slot has at least 32 bytes plus the larger of both maxima, rounded
 * up to 16, with KIW_FEATURE_ATOMIC room for an atomic, and with KIW_FEATURE_MW for a bind; the
 * ring's geometry says how many it has. Reserved fields must be 0, or the request is refused.
 */
struct kiw_wqe {
	__u8 opcode; /* enum kiw_wr_op; of a datagram QP KIW_WR_SEND, SEND_IMM and WRITE only */
	__u8 flags;  /* KIW_WQE_* */
	__u8 num_sge;
	__u8 reserved;
	__u32 inline_len;
	__aligned_u64 wr_id;
	__aligned_u64 remote_addr; /* Write, Read, atomics */
	__u32 rkey;                /* that of remote_addr; to invalidate; a window's new one */
	__be32 imm;                /* with immediate data, 0 for others */
};

/*
 * Of an atomic, behind its only struct kiw_sge, which names 8 bytes for what the peer's memory had
 * before. Numbers are those of the hosts' CPUs.
 */
struct kiw_atomic_args {
	__aligned_u64 compare_add; /* what to compare with, or to add */
	__aligned_u64 swap;        /* KIW_WR_CMP_SWAP */
};

/*
 * Of KIW_WR_BIND_MW, behind the header: there are no buffers. The window is the one with the index
 * in the upper 24 bits of the header's rkey. Length 0 takes a window of type 1 off its region.
 */
struct kiw_bind_args {
	__aligned_u64 addr; /* of the first byte, as the region counts */
	__aligned_u64 length;
	__u32 lkey;   /* of the region */
	__u32 access; /* values of enum ib_uverbs_access_flags: IBV_ACCESS_REMOTE_*, ZERO_BASED */
};

/*
 * Of a datagram QP (IB_QPT_UD), behind the header of each send ring slot, before the buffers. The
 * kernel looks all of it up and checks it when it sends.
 */
struct kiw_ud_dest {
	__u8 dgid[16];       /* address; those of IPv4 are mapped into IPv6 */
	__u32 qpn;           /* UDP port */
	__u32 qkey;          /* with the top bit set, the QP's own counts */
	__u8 sgid_index;     /* slot of the GID table with the source */
	__u8 hop_limit;      /* 0: the system's */
	__u8 traffic_class;  /* 0: the system's */
	__u8 reserved[5];
};

/* Payload of the longest message between datagram QPs, bytes: one datagram of IPv4 */
#define KIW_UD_MAX_MSG 65483
/* The same with immediate data */
#define KIW_UD_MAX_IMM_MSG 65475

/* Bytes in front of what arrives at a datagram QP: its IP header in the form of InfiniBand's GRH */
#define KIW_GRH_LEN 40

/*
 * Receive ring slot: this header, then num_sge times struct kiw_sge; room for the maximum at least.
 * Reserved fields must be 0, or the request is refused.
 */
struct kiw_rqe {
	__aligned_u64 wr_id;
	__u8 num_sge;
	__u8 reserved[7];
};

/* Bits of kiw_cqe.flags. */
#define KIW_CQE_SOLICITED 0x01 /* receive: the sender asked for an event */
#define KIW_CQE_WITH_INV  0x02 /* receive: inv_stag was invalidated */
#define KIW_CQE_GRH       0x04 /* receive of a datagram: has src_qp, byte_len with KIW_GRH_LEN */
#define KIW_CQE_WITH_IMM  0x08 /* receive: has imm */
#define KIW_CQE_VOID      0x80 /* skip this one; set by the process, and in kiw_cqe_record */

/* Completion ring slot. */
struct kiw_cqe {
	__aligned_u64 wr_id;
	__aligned_u64 cookie; /* of kiw_create_qp_req */
	__u32 qp_num;
	__u32 byte_len;
	__u32 wq_index; /* of its request in the QP's ring: everything up to it is free again */
	union {
		__u32 inv_stag; /* with KIW_CQE_WITH_INV */
		__u32 src_qp;   /* with KIW_CQE_GRH: the sender's UDP port */
	};
	__u8 opcode; /* enum kiw_wr_op */
	__u8 status; /* values of enum ib_wc_status, which are those of enum ibv_wc_status */
	__u8 flags;  /* KIW_CQE_* */
	__u8 reserved0;
	__be32 imm; /* with KIW_CQE_WITH_IMM */
	__aligned_u64 time; /* of a queue with KIW_CQ_TIME: CLOCK_REALTIME when it was added, ns */
	__u8 reserved[16];
};

/* Bits of kiw_cqe_record.map */
#define KIW_RECORD_MAP_BITS 128

/*
 * Second slot of the completion of a record. The first is a struct kiw_cqe with KIW_WR_RECORD, in
 * which byte_len are the bytes that have arrived, wq_index is the number of the message, and src_qp
 * the sender's UDP port. Both are published together.
 *
 * The message has ceil(length / seg_size) segments, at least one. A bit of the map stands for
 * ceil(segments / KIW_RECORD_MAP_BITS) of them, in order, from the lowest bit of map[0] on. It is
 * set when all of them have arrived.
 */
struct kiw_cqe_record {
	__aligned_u64 addr;   /* of the first byte of the message, as the sender named it */
	__aligned_u64 cookie; /* as in the first slot */
	__aligned_u64 map[KIW_RECORD_MAP_BITS / 64];
	__u8 opcode; /* KIW_WR_RECORD */
	__u8 status; /* as in the first slot */
	__u8 flags;  /* KIW_CQE_VOID: programs that know no records skip it */
	__u8 reserved;
	__u32 seg_size;
	__u8 sgid[16]; /* the sender's address; those of IPv4 are mapped into IPv6 */
	__u32 rkey;
	__u32 length; /* of the message, bytes */
};

#define KIW_ABI_ASSERT(expression) static_assert(expression, #expression)

KIW_ABI_ASSERT(sizeof(struct kiw_get_context_req) == 8);
KIW_ABI_ASSERT(sizeof(struct kiw_get_context_resp) == 16);
KIW_ABI_ASSERT(sizeof(struct kiw_create_cq_resp) == 40);
KIW_ABI_ASSERT(sizeof(struct kiw_resize_cq_resp) == 40);
KIW_ABI_ASSERT(sizeof(struct kiw_create_qp_req) == 24);
KIW_ABI_ASSERT(sizeof(struct kiw_create_qp_resp) == 80);
KIW_ABI_ASSERT(sizeof(struct kiw_create_srq_resp) == 40);
KIW_ABI_ASSERT(sizeof(struct kiw_modify_srq_req) == 8);
KIW_ABI_ASSERT(sizeof(struct kiw_wq_ring) == KIW_RING_HEADER);
KIW_ABI_ASSERT(sizeof(struct kiw_cq_ring) == KIW_RING_HEADER);
KIW_ABI_ASSERT(sizeof(struct kiw_sge) == 16);
KIW_ABI_ASSERT(sizeof(struct kiw_wqe) == 32);
KIW_ABI_ASSERT(sizeof(struct kiw_atomic_args) == 16);
KIW_ABI_ASSERT(sizeof(struct kiw_bind_args) == 24);
KIW_ABI_ASSERT(sizeof(struct kiw_ud_dest) == 32);
KIW_ABI_ASSERT(sizeof(struct kiw_rqe) == 16);
KIW_ABI_ASSERT(sizeof(struct kiw_cqe) == 64);
KIW_ABI_ASSERT(sizeof(struct kiw_cqe_record) == sizeof(struct kiw_cqe));

#endif /* KIWARP_ABI_H */
