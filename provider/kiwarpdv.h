/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Direct verbs of kiwarp: features of datagram queue pairs beyond verbs. Link with -lkiwarp -libverbs.
 * Documentation/kiwarpdv.md shows how the calls belong together.
 *
 * Structures may grow at their end. A call that reads or fills one gets its size, which tells the caller's version:
 * unknown members must be 0, and members beyond the size stay untouched.
 */
#ifndef KIWARPDV_H
#define KIWARPDV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bits of kiwarpdv_attr.caps */
enum kiwarpdv_caps {
	KIWARPDV_CAP_WRITE_RECORD = 1 << 0, /**< RDMA Write over datagrams, and KIWARPDV_QP_RECORD */
	KIWARPDV_CAP_UD_PORT = 1 << 1,	    /**< kiwarpdv_qp_init_attr.udp_port */
};

/** Properties of a device */
struct kiwarpdv_attr {
	uint32_t caps;		   /**< enum kiwarpdv_caps */
	uint32_t max_send;	   /**< bytes of a datagram queue pair's longest Send */
	uint32_t max_write;	   /**< bytes of its longest RDMA Write, 0 without KIWARPDV_CAP_WRITE_RECORD */
	uint32_t max_seg_size;	   /**< bytes of the longest segment of a Write */
	uint32_t default_seg_size; /**< bytes, used for a seg_size of 0 */
	uint32_t max_segs;	   /**< segments of the longest Write */
};

/**
 * Queries a device.
 *
 * @param attr size bytes; members beyond the library's version become 0
 * @return 0; EOPNOTSUPP if the device is not kiwarp's
 */
int kiwarpdv_query_device(struct ibv_context *context, struct kiwarpdv_attr *attr, size_t size);

/** Bits of kiwarpdv_qp_init_attr.flags */
enum kiwarpdv_qp_flags {
	KIWARPDV_QP_RECORD = 1 << 0, /**< peers may write into regions; each message is recorded */
};

/** Attributes of a datagram queue pair besides ibv_qp_init_attr_ex */
struct kiwarpdv_qp_init_attr {
	uint32_t flags;		 /**< enum kiwarpdv_qp_flags */
	uint32_t udp_port;	 /**< queue pair number, 1 to 65535, free and not that of groups; 0: ephemeral port */
	uint32_t seg_size;	 /**< bytes of its Writes' segments, up to max_seg_size; 0: default */
	uint32_t record_timeout; /**< ms without a new segment that end an incomplete message, up to 60000; 0: 1000 */
};

/**
 * Creates a datagram queue pair (IBV_QPT_UD), as ibv_create_qp_ex() does.
 *
 * @param attr as for ibv_create_qp_ex(); gets the granted capacities
 * @param dv_attr size bytes
 * @return queue pair, or NULL and errno: EOPNOTSUPP for another device or a missing feature; EINVAL for values out of
 *	range and other types of queue pairs; EADDRINUSE, EACCES for the port; and those of ibv_create_qp_ex()
 */
struct ibv_qp *kiwarpdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
	const struct kiwarpdv_qp_init_attr *dv_attr, size_t size);

/** Bits of kiwarpdv_record.map */
#define KIWARPDV_MAP_BITS 128

/** Arrived parts of a message that a peer wrote */
struct kiwarpdv_record {
	union ibv_gid sgid;		      /**< address of the sender; IPv4 mapped into IPv6 */
	uint32_t src_qp;		      /**< sender's number, the UDP port */
	uint32_t msg_id;		      /**< number of the message at this sender */
	uint64_t addr;			      /**< first byte, as the sender named it */
	uint32_t rkey;			      /**< of the region */
	uint32_t length;		      /**< bytes of the message */
	uint32_t valid;			      /**< bytes that arrived */
	uint32_t seg_size;		      /**< bytes of each segment but the last */
	uint32_t segs;			      /**< segments, at least 1 */
	uint32_t unit;			      /**< segments per bit of the map; the last bit may stand for fewer */
	uint64_t map[KIWARPDV_MAP_BITS / 64]; /**< bits of segments that all arrived, from the lowest of map[0] on */
};

/** Whether ibv_start_poll()'s current completion is a message that a peer wrote. */
bool kiwarpdv_is_record(struct ibv_cq_ex *cq);

/**
 * Reads the current completion of ibv_start_poll() or ibv_next_poll().
 *
 * @param record size bytes; members beyond the library's version become 0
 * @return 0; EINVAL for another completion
 */
int kiwarpdv_read_record(struct ibv_cq_ex *cq, struct kiwarpdv_record *record, size_t size);

/**
 * Called with a range of bytes.
 *
 * @param argument as passed
 * @param addr first byte
 * @param length bytes, not 0
 * @return 0 to go on
 */
typedef int (*kiwarpdv_range_fn)(void *argument, uint64_t addr, uint32_t length);

/**
 * Reports the missing bytes of a message, in order, in the longest ranges. If a bit of the map stands for several
 * segments, some of them may have arrived.
 *
 * @return 0, or the first other result of the function
 */
int kiwarpdv_for_each_hole(const struct kiwarpdv_record *record, kiwarpdv_range_fn tell, void *argument);

/** Reports the bytes that arrived in the same way. */
int kiwarpdv_for_each_valid(const struct kiwarpdv_record *record, kiwarpdv_range_fn tell, void *argument);

/** Bytes of memory written by any messages; not for several threads at once */
struct kiwarpdv_validity;

/**
 * Starts with nothing written.
 *
 * @param addr first byte, as peers name it
 * @param length bytes, at least 1
 * @param granule bytes that become valid together, at least 1: one bit of memory each
 * @return NULL and errno: EINVAL, ENOMEM
 */
struct kiwarpdv_validity *kiwarpdv_create_validity(uint64_t addr, uint64_t length, uint32_t granule);
void kiwarpdv_destroy_validity(struct kiwarpdv_validity *validity);

/**
 * Adds the arrived bytes of a message. A granule becomes valid when one run of them covers it. Ignores bytes outside.
 */
void kiwarpdv_add_record(struct kiwarpdv_validity *validity, const struct kiwarpdv_record *record);

/** Whether a whole range is valid; false if a part is outside, true for no bytes. */
bool kiwarpdv_is_valid(const struct kiwarpdv_validity *validity, uint64_t addr, uint64_t length);

/** Makes granules with bytes in a range invalid. */
void kiwarpdv_invalidate(struct kiwarpdv_validity *validity, uint64_t addr, uint64_t length);

/**
 * Polls as ibv_poll_cq(), and sleeps while the queue is empty.
 *
 * For several threads. The queue needs a completion channel of its own, without other readers of events meanwhile. The
 * call arms the queue, which may stay armed. Between ibv_start_poll() and ibv_end_poll() of another thread it waits for
 * that thread, beyond the time.
 *
 * @param max at least 1
 * @param timeout_us microseconds at most, 0: as ibv_poll_cq(), negative: for ever
 * @return number, 0 after the time, or negative: -EINVAL without such a channel, -EINTR after a signal, and those of
 *	ibv_poll_cq()
 */
int kiwarpdv_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc, int64_t timeout_us);

/**
 * ibv_start_poll() with kiwarpdv_poll_cq()'s waiting.
 *
 * @return 0; ENOENT after the time; EINVAL, EINTR, and those of ibv_start_poll()
 */
int kiwarpdv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr, int64_t timeout_us);

#ifdef __cplusplus
}
#endif

#endif
