/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kiwarp: interface of the kernel module and the libibverbs provider.
 *
 * Rings
 * -----
 * A QP uses a send ring and a receive ring (struct kiw_wq_ring), an SRQ a receive ring, a CQ a
 * completion ring (struct kiw_cq_ring): a header, then `entries` slots of `stride` bytes. `entries`
 * is a power of two. Indexes are free-running 32-bit counters; slot = index & (entries - 1).
 * create_qp, create_srq and create_cq return the geometry. Small rings of a context share mappings,
 * large ones get one each. A mapping lives as long as any ring in it.
 *
 * Writers, and pairs of stores and loads
 * --------------------------------------
 * Work rings: the process writes slots and `prod`, the kernel writes `cons` and `flags`.
 *
 *   process                                      kernel
 *   -------                                      ------
 *   load cons              (acquire)  <-------   store cons                (release)
 *   write the slot                               p = load prod             (acquire)
 *   store prod             (release)  ------->   copy the slot out once, check the copy
 *   fence                  (seq_cst)
 *   load flags             (relaxed)             clear KIW_RING_DRAINING
 *   if not DRAINING: ring the doorbell <------   full barrier, load prod again: new work goes on
 *
 * The last pair is a store-load handshake: either the kernel sees the new `prod`, or the process
 * sees the flag cleared and rings. Hence the full fence on both sides. The kernel may leave the
 * flag set in an empty ring while a timer or an acknowledgment will make it look again; or it sets
 * KIW_RING_SMALL in its place, with the same barrier, and lists and longer requests ring. An
 * earlier process does not know that flag, and rings.
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
 * The kernel does not trust a mapping: it copies a slot out once and uses the copy. An invalid
 * index (more than `entries` outstanding) puts the QP or CQ into the error state and touches
 * nothing else; that of an SRQ ends each QP that takes a request from it. The kernel keeps its own
 * indexes and never reads them back. It reads the process's indexes of receive and completion rings
 * only if the last value does not suffice: no request, or no room.
 *
 * The kernel owns a slot of a QP's work ring from the store of `prod` until the process polled a
 * completion with `wq_index` at or past it.
 *
 * SRQ requests complete in any order, and `wq_index` means nothing. The kernel copies a request
 * when it takes it, and owns the slot until `cons` is past it.
 *
 * Doorbell
 * --------
 * The uverbs commands POST_SEND, POST_RECV and POST_SRQ_RECV without a work request. POST_SEND:
 * look at the send ring. The others are needed only while the receive ring's flags hold
 * KIW_RING_FLUSH. While it is set, each request in any ring needs a doorbell: it is flushed, or
 * messages wait for it.
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
/* "KIWA": not an allocated id of the kernel tree */
#define KIWARP_DRIVER_ID 0x4b495741

/*
 * Capabilities beyond version 2. Module and provider exchange their masks and use common bits only,
 * so that neighbouring versions work together.
 */
#define KIW_FEATURE_UD     0x1 /* datagram QPs: struct kiw_ud_dest in the send ring, KIW_CQE_GRH */
#define KIW_FEATURE_SRQ    0x2 /* shared receive queues */
#define KIW_FEATURE_RECORD 0x4 /* Write-Record: members of kiw_create_qp_req after reserved */
#define KIW_FEATURE_IMM    0x8 /* immediate data: KIW_WR_SEND_IMM, KIW_WR_WRITE_IMM */
#define KIW_FEATURE_ATOMIC 0x10 /* KIW_WR_CMP_SWAP, KIW_WR_FETCH_ADD, and room in slots */
#define KIW_FEATURE_MW     0x20 /* memory windows: KIW_WR_BIND_MW, KIW_WR_LOCAL_INV, and room */
#define KIW_FEATURE_SRQ_RESIZE 0x40 /* struct kiw_modify_srq_req */
#define KIW_FEATURE_UD_IMM 0x80 /* KIW_WR_SEND_IMM of datagram QPs, and its completions */
#define KIW_FEATURE_CQ_TIME 0x100 /* struct kiw_create_cq_req */
#define KIW_FEATURES                                                                         \
	(KIW_FEATURE_UD | KIW_FEATURE_SRQ | KIW_FEATURE_RECORD | KIW_FEATURE_IMM |           \
	 KIW_FEATURE_ATOMIC | KIW_FEATURE_MW | KIW_FEATURE_SRQ_RESIZE | KIW_FEATURE_UD_IMM | \
	 KIW_FEATURE_CQ_TIME)

/* Appended to the get_context request; optional: a provider without it uses no feature. */
struct kiw_get_context_req {
	__u32 features; /* KIW_FEATURES of the provider */
	__u32 reserved; /* must be 0 */
};

/* Appended to the get_context response. */
struct kiw_get_context_resp {
	__u32 max_inline; /* bytes, maximum of create_qp */
	__u32 max_send_sge;
	__u32 max_recv_sge;
	__u32 features; /* common KIW_FEATURES */
};

/*
 * Driver attribute of UVERBS_METHOD_QUERY_CONTEXT: gets the struct kiw_get_context_resp of the
 * provider that opened the device.
 */
#define KIW_ATTR_QUERY_CONTEXT_RESP 0x1000

struct kiw_ring_geometry {
	__aligned_u64 mmap_offset; /* for mmap() */
	__aligned_u64 mmap_size;
	__aligned_u64 mapping; /* number, unique in the context */
	__u32 offset;          /* of the ring in the mapping, a multiple of KIW_RING_ALIGN */
	__u32 entries;         /* 0: no ring */
	__u32 stride;
	__u32 reserved;
};

/* Appended to the create_cq response. */
struct kiw_create_cq_resp {
	struct kiw_ring_geometry ring;
};

/*
 * Appended to the resize_cq response. The new ring contains the unconsumed completions, with the
 * same indexes, `cons` and `arm`; the old one gets no more.
 */
struct kiw_resize_cq_resp {
	struct kiw_ring_geometry ring;
};

/* Bits of kiw_create_qp_req.flags, datagram QPs only. */
#define KIW_QP_RECORD 0x1 /* peers may write into regions; each message is recorded */

/*
 * Appended to the create_qp request. Ends after reserved without KIW_FEATURE_RECORD. All but cookie
 * must be 0 for other QPs than datagram ones.
 */
struct kiw_create_qp_req {
	__aligned_u64 cookie; /* copied to each completion */
	__u32 flags;          /* KIW_QP_* */
	__u16 udp_port;       /* QP number; 0: ephemeral port */
	__u16 reserved;       /* must be 0 */
	__u32 seg_size;       /* bytes of Writes' segments; 0: KIW_RECORD_SEG_SIZE */
	__u32 record_timeout; /* ms, of incomplete messages; 0: KIW_RECORD_TIMEOUT */
};

/* Bytes of that request without KIW_FEATURE_RECORD */
#define KIW_CREATE_QP_REQ_MIN 16

/* Fits an Ethernet frame of 1500 bytes, even with IPv6; a multiple of 64 */
#define KIW_RECORD_SEG_SIZE 1408
/* Longest segment: one datagram of IPv4 */
#define KIW_RECORD_MAX_SEG_SIZE 65467
#define KIW_RECORD_MAX_SEGS     1024
#define KIW_RECORD_TIMEOUT      1000  /* ms */
#define KIW_RECORD_MAX_TIMEOUT  60000 /* ms */

/* Bits of kiw_create_cq_req.flags. */
#define KIW_CQ_TIME 0x1 /* completions carry their time */

/* Appended to the create_cq request; optional. */
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
 * Appended to a modify_srq request with IB_SRQ_MAX_WR. That command returns nothing, so the module
 * writes a response to an address. The new ring contains the requests that were not taken, with the
 * same indexes; none is taken from the old one any more. The command fails if the process posts
 * meanwhile.
 */
struct kiw_modify_srq_req {
	__aligned_u64 response; /* of a struct kiw_create_srq_resp */
};

/* Bits of kiw_wq_ring.flags. */
#define KIW_RING_DRAINING 0x1 /* the kernel will look at prod again before it stops */
#define KIW_RING_FLUSH    0x2 /* the kernel waits for requests: ring the doorbell */
#define KIW_RING_SMALL    0x4 /* as DRAINING, for a post of one request of up to ..._SMALL_MAX */
#define KIW_RING_SMALL_MAX 1024 /* bytes */

/* Bytes from the start of a ring to its first slot */
#define KIW_RING_HEADER 128
#define KIW_RING_ALIGN  128

/* Header of a send, receive or shared receive ring */
struct kiw_wq_ring {
	__u32 prod; /* process */
	__u32 reserved0[15];
	__u32 cons;  /* kernel: completed, or taken from a receive ring */
	__u32 flags; /* kernel */
	__u32 reserved1[14];
};

/* Values of kiw_cq_ring.arm */
#define KIW_ARM_NONE      0
#define KIW_ARM_SOLICITED 1
#define KIW_ARM_NEXT      2

/* Header of a completion ring */
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
	KIW_WR_RECV = 4,   /* completions only */
	KIW_WR_RECORD = 5, /* completions only: a peer wrote, see struct kiw_cqe_record */
	KIW_WR_SEND_IMM = 6,
	KIW_WR_WRITE_IMM = 7,
	KIW_WR_RECV_IMM = 8, /* completions only: receive consumed by KIW_WR_WRITE_IMM */
	KIW_WR_CMP_SWAP = 9,
	KIW_WR_FETCH_ADD = 10,
	KIW_WR_BIND_MW = 11,
	KIW_WR_LOCAL_INV = 12,
};

/* Bits of kiw_wqe.flags */
#define KIW_WQE_SIGNALED  0x01
#define KIW_WQE_SOLICITED 0x02
#define KIW_WQE_FENCE     0x04
#define KIW_WQE_INLINE    0x08
#define KIW_WQE_FLAGS     0x0f

/*
 * Send ring slot: this header, then num_sge times struct kiw_sge or, with KIW_WQE_INLINE,
 * inline_len bytes. A slot holds at least 32 bytes plus the larger of both maxima, rounded up to
 * 16, and with KIW_FEATURE_ATOMIC an atomic, with KIW_FEATURE_MW a bind; see the ring's geometry.
 * Reserved fields must be 0, or the request is refused.
 */
struct kiw_wqe {
	__u8 opcode; /* enum kiw_wr_op; datagram QP: KIW_WR_SEND, SEND_IMM, WRITE */
	__u8 flags;  /* KIW_WQE_* */
	__u8 num_sge;
	__u8 reserved;
	__u32 inline_len;
	__aligned_u64 wr_id;
	__aligned_u64 remote_addr; /* Write, Read, atomics */
	__u32 rkey;                /* of remote_addr; to invalidate; new one of a window */
	__be32 imm;                /* immediate data, else 0 */
};

/*
 * Arguments of an atomic, after its struct kiw_sge, the 8 bytes for the former value of the peer's
 * memory. In byte order of the hosts' CPUs.
 */
struct kiw_atomic_args {
	__aligned_u64 compare_add; /* to compare with, or to add */
	__aligned_u64 swap;        /* KIW_WR_CMP_SWAP */
};

/*
 * Arguments of KIW_WR_BIND_MW, after the header, in place of buffers. The index in the upper 24
 * bits of the header's rkey names the window. Length 0 takes a window of type 1 off its region.
 */
struct kiw_bind_args {
	__aligned_u64 addr; /* first byte, in the region's addresses */
	__aligned_u64 length;
	__u32 lkey;   /* of the region */
	__u32 access; /* enum ib_uverbs_access_flags: IBV_ACCESS_REMOTE_*, ZERO_BASED */
};

/*
 * Destination of a datagram QP (IB_QPT_UD), between header and buffers of each send ring slot. The
 * kernel checks it when it sends.
 */
struct kiw_ud_dest {
	__u8 dgid[16];       /* address; IPv4 mapped into IPv6 */
	__u32 qpn;           /* UDP port */
	__u32 qkey;          /* with the top bit set, the QP's own is used */
	__u8 sgid_index;     /* GID table slot of the source */
	__u8 hop_limit;      /* 0: system's default */
	__u8 traffic_class;  /* 0: system's default */
	__u8 reserved[5];
};

/* Longest payload between datagram QPs, bytes: one datagram of IPv4 */
#define KIW_UD_MAX_MSG 65483
/* Longest payload with immediate data */
#define KIW_UD_MAX_IMM_MSG 65475

/* Bytes before a received datagram: its IP header in the form of InfiniBand's GRH */
#define KIW_GRH_LEN 40

/*
 * Receive ring slot: this header, then room for at least the maximum of struct kiw_sge, num_sge in
 * use. Reserved fields must be 0, or the request is refused.
 */
struct kiw_rqe {
	__aligned_u64 wr_id;
	__u8 num_sge;
	__u8 reserved[7];
};

/* Bits of kiw_cqe.flags */
#define KIW_CQE_SOLICITED 0x01 /* receive: the sender asked for an event */
#define KIW_CQE_WITH_INV  0x02 /* receive: inv_stag was invalidated */
#define KIW_CQE_GRH       0x04 /* received datagram: src_qp is valid, byte_len counts KIW_GRH_LEN */
#define KIW_CQE_WITH_IMM  0x08 /* receive: imm is valid */
#define KIW_CQE_VOID      0x80 /* skip; set by the process, and in kiw_cqe_record */

/* Completion ring slot */
struct kiw_cqe {
	__aligned_u64 wr_id;
	__aligned_u64 cookie; /* of kiw_create_qp_req */
	__u32 qp_num;
	__u32 byte_len;
	__u32 wq_index; /* its request in the QP's ring; frees all slots up to it */
	union {
		__u32 inv_stag; /* with KIW_CQE_WITH_INV */
		__u32 src_qp;   /* with KIW_CQE_GRH: UDP port of the sender */
	};
	__u8 opcode; /* enum kiw_wr_op */
	__u8 status; /* enum ib_wc_status, equal to enum ibv_wc_status */
	__u8 flags;  /* KIW_CQE_* */
	__u8 reserved0;
	__be32 imm; /* with KIW_CQE_WITH_IMM */
	__aligned_u64 time; /* with KIW_CQ_TIME: CLOCK_REALTIME of its addition, ns */
	__u8 reserved[16];
};

/* Bits of kiw_cqe_record.map */
#define KIW_RECORD_MAP_BITS 128

/*
 * Second slot of a record's completion, published with the first. The first is a struct kiw_cqe
 * with KIW_WR_RECORD; byte_len: bytes that arrived, wq_index: number of the message, src_qp: UDP
 * port of the sender.
 *
 * The message consists of ceil(length / seg_size) segments, at least one. A bit of the map stands
 * for ceil(segments / KIW_RECORD_MAP_BITS) of them, in order, from the lowest bit of map[0] on. It
 * is set when all of them have arrived.
 */
struct kiw_cqe_record {
	__aligned_u64 addr;   /* first byte of the message, as the sender named it */
	__aligned_u64 cookie; /* as in the first slot */
	__aligned_u64 map[KIW_RECORD_MAP_BITS / 64];
	__u8 opcode; /* KIW_WR_RECORD */
	__u8 status; /* as in the first slot */
	__u8 flags;  /* KIW_CQE_VOID: programs without support for records skip it */
	__u8 reserved;
	__u32 seg_size;
	__u8 sgid[16]; /* address of the sender; IPv4 mapped into IPv6 */
	__u32 rkey;
	__u32 length; /* bytes of the message */
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
