/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Direct verbs of kiwarp: what datagram queue pairs have that verbs can't say. Link with -lkiwarp -libverbs.
 * Documentation/kiwarpdv.md shows how the calls belong together.
 *
 * Structures may grow at their end. Each call that takes or fills one takes its size, by which it knows the version of
 * the caller: members that the library doesn't know must be 0, those that the caller doesn't know aren't touched.
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

/** What a device has */
struct kiwarpdv_attr {
	uint32_t caps;		   /**< enum kiwarpdv_caps */
	uint32_t max_send;	   /**< bytes of the longest Send of a datagram queue pair */
	uint32_t max_write;	   /**< bytes of the longest RDMA Write of one, 0 without KIWARPDV_CAP_WRITE_RECORD */
	uint32_t max_seg_size;	   /**< bytes of the longest segment of such a Write */
	uint32_t default_seg_size; /**< bytes, where seg_size is 0 */
	uint32_t max_segs;	   /**< segments of the longest Write */
};

/**
 * Fills in what a device has.
 *
 * @param attr size bytes; members beyond what the library knows become 0
 * @return 0; EOPNOTSUPP if it isn't a device of kiwarp
 */
int kiwarpdv_query_device(struct ibv_context *context, struct kiwarpdv_attr *attr, size_t size);

/** Bits of kiwarpdv_qp_init_attr.flags */
enum kiwarpdv_qp_flags {
	KIWARPDV_QP_RECORD = 1 << 0, /**< peers may write into regions; each message is recorded */
};

/** What a datagram queue pair may be besides ibv_qp_init_attr_ex */
struct kiwarpdv_qp_init_attr {
	uint32_t flags;	   /**< enum kiwarpdv_qp_flags */
	uint32_t udp_port; /**< its number, 1 to 65535, which is free and not that of groups; 0: an ephemeral
			      port */
	uint32_t seg_size; /**< bytes of the segments of its Writes, up to max_seg_size; 0: the default */
	uint32_t record_timeout; /**< ms without a new segment until an incomplete message completes, up to 60000;
				      0: 1000 */
};

/**
 * Creates a datagram queue pair (IBV_QPT_UD), as ibv_create_qp_ex() does.
 *
 * @param attr as for ibv_create_qp_ex(); the capacities become those granted
 * @param dv_attr size bytes
 * @return the queue pair, or NULL and errno: EOPNOTSUPP if it isn't a device of kiwarp, or it hasn't what is asked for;
 *	EINVAL for values out of range and other types of queue pairs; EADDRINUSE, EACCES about the port; and those of
 *	ibv_create_qp_ex()
 */
struct ibv_qp *kiwarpdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
	const struct kiwarpdv_qp_init_attr *dv_attr, size_t size);

/** Bits of kiwarpdv_record.map */
#define KIWARPDV_MAP_BITS 128

/** What has arrived of one message that a peer wrote */
struct kiwarpdv_record {
	union ibv_gid sgid; /**< address of the sender; those of IPv4 are mapped into IPv6 */
	uint32_t src_qp;    /**< its number, the UDP port */
	uint32_t msg_id;    /**< number of the message among those of this sender */
	uint64_t addr;	    /**< of its first byte, as the sender named it */
	uint32_t rkey;	    /**< of the region */
	uint32_t length;    /**< of the message, bytes */
	uint32_t valid;	    /**< bytes that have arrived */
	uint32_t seg_size;  /**< bytes of each segment but the last */
	uint32_t segs;	    /**< segments of the message, at least 1 */
	uint32_t unit;	    /**< segments that a bit of the map stands for; the last bit perhaps for fewer */
	uint64_t map[KIWARPDV_MAP_BITS / 64]; /**< a bit is set when all of them have arrived; from the lowest bit of
						   map[0] on */
};

/** Whether the current completion of ibv_start_poll() is that of a message that a peer wrote. */
bool kiwarpdv_is_record(struct ibv_cq_ex *cq);

/**
 * Reads the current completion of ibv_start_poll() or ibv_next_poll().
 *
 * @param record size bytes; members beyond what the library knows become 0
 * @return 0; EINVAL if the completion is another one
 */
int kiwarpdv_read_record(struct ibv_cq_ex *cq, struct kiwarpdv_record *record, size_t size);

/**
 * Is told of a range of bytes.
 *
 * @param argument as passed
 * @param addr first byte
 * @param length bytes, not 0
 * @return 0 to go on
 */
typedef int (*kiwarpdv_range_fn)(void *argument, uint64_t addr, uint32_t length);

/**
 * Tells of the bytes of a message that have not arrived, in order, each range as long as it can be. Where a bit of the
 * map stands for several segments, some of them may be there.
 *
 * @return 0, or what the function returned when it wasn't 0
 */
int kiwarpdv_for_each_hole(const struct kiwarpdv_record *record, kiwarpdv_range_fn tell, void *argument);

/** Likewise of the bytes that have arrived. */
int kiwarpdv_for_each_valid(const struct kiwarpdv_record *record, kiwarpdv_range_fn tell, void *argument);

/** Which bytes of a stretch of memory have been written, by whatever messages; not for several threads at once */
struct kiwarpdv_validity;

/**
 * Begins with nothing written.
 *
 * @param addr first byte, as peers name it
 * @param length bytes, at least 1
 * @param granule bytes that are valid together or not at all, at least 1: one bit of memory each
 * @return NULL and errno: EINVAL, ENOMEM
 */
struct kiwarpdv_validity *kiwarpdv_create_validity(uint64_t addr, uint64_t length, uint32_t granule);
void kiwarpdv_destroy_validity(struct kiwarpdv_validity *validity);

/**
 * Adds what has arrived of a message. A granule becomes valid when all of its bytes lie in one run of arrived bytes of
 * this message. What lies outside is left alone.
 */
void kiwarpdv_add_record(struct kiwarpdv_validity *validity, const struct kiwarpdv_record *record);

/** Whether all of a range is valid; false where a part of it is outside, true for no bytes. */
bool kiwarpdv_is_valid(const struct kiwarpdv_validity *validity, uint64_t addr, uint64_t length);

/** Makes the granules invalid that have bytes in a range. */
void kiwarpdv_invalidate(struct kiwarpdv_validity *validity, uint64_t addr, uint64_t length);

/**
 * Polls as ibv_poll_cq(), and sleeps while there is nothing.
 *
 * Several threads may call this. The queue needs a completion channel that no other queue uses, and of which nothing
 * else reads events meanwhile. It is armed while this sleeps, and may be afterwards. Between ibv_start_poll() and
 * ibv_end_poll() of another thread this waits for that, and then the time doesn't count.
 *
 * @param max at least 1
 * @param timeout_us microseconds at most, 0: as ibv_poll_cq(), negative: for ever
 * @return how many, 0 when the time is over, or negative: -EINVAL without such a channel, -EINTR after a signal, and
 *those of ibv_poll_cq()
 */
int kiwarpdv_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc, int64_t timeout_us);

/**
 * The same as ibv_start_poll().
 *
 * @return 0; ENOENT when the time is over; EINVAL, EINTR, and those of ibv_start_poll()
 */
int kiwarpdv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr, int64_t timeout_us);

#ifdef __cplusplus
}
#endif

#endif
