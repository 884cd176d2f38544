/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagram queue pairs: a UDP socket in place of a stream. Its port is the QP's number, and it is
 * bound to the interface of the device. No datagram is ever answered, and none ends the QP.
 *
 * Locks, outermost first:
 *	kiw_qp.mutex	the send queue, sending, and each change by a verb
 *	kiw_ud.lock	the receive queue, @state, @qkey, @open, @fatal, @last; taken with BH off,
 *			also by UDP's callbacks
 *	kiw_srq.lock	one shared receive queue
 *	kiw_cq.lock	one completion queue
 * "The QP is held" means the first for functions of the send queue, the second for those of the
 * receive queue.
 *
 * References: only the QP's. Callbacks of the socket find struct kiw_ud under RCU and check @open
 * under the lock before any other member; kiw_ud_close() clears @open, and frees the memory a grace
 * period later.
 */
#ifndef KIWARP_UD_H
#define KIWARP_UD_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "batch.h"
#include "types.h"
#include "session/session.h"

struct kiw_device;
struct kiw_ud_records;

/* Datagrams that a caller sends before the work sends the rest */
#define KIW_UD_BUDGET 256

/**
 * struct kiw_ud_train - datagrams for one call of UDP; protected by kiw_qp.mutex
 * @batch: their bytes; if empty, all else is invalid
 * @dest: destination of all
 * @size: bytes of each but the last
 * @last: bytes of the last, at most @size
 * @room: bytes of a datagram that fit the interface's MTU: longer ones go alone
 */
struct kiw_ud_train {
	struct kiw_batch	batch;
	struct kiw_ud_dest	dest;
	u32			size;
	u32			last;
	u32			room;
};

/**
 * struct kiw_ud - part of a datagram QP, in place of a stream; see above for locks
 * @ibqp: queue pair
 * @dev: device
 * @core: queues
 * @mutex: kiw_qp.mutex
 * @sock: UDP socket
 * @own: its struct sock, to compare with those of groups; never dereferenced
 * @lock: see above
 * @open: kiw_ud_close() has not begun
 * @state: IB_QPS_RESET, INIT, RTR, RTS or ERR
 * @qkey: datagrams with another one are dropped
 * @sq_psn: the process's number of its first datagram; only for queries
 * @recv: receive request of the datagram that is being placed
 * @req: current send request
 * @taken: there is one, and not all of it is in @train
 * @train: datagrams that UDP did not get yet
 * @seg_size: bytes of a segment of a Write
 * @write_id: number of the current or next Write
 * @write_done: bytes of the current Write that reached @train
 * @msn: messages that reached @train
 * @stalled: UDP had no room: kiw_ud_write_space() must queue the work
 * @fatal: report to the process that the QP is in error
 * @last: report to the process that the QP uses no more requests of an SRQ
 * @saved_write_space: the socket's own callback
 * @records: of received Writes, if the QP is a target; see record.h
 * @groups: memberships of groups, see group.c; protected by kiw_qp.mutex
 * @work: sends the rest after a doorbell, or ends the QP after a callback found it broken
 * @rcu: callbacks may still use the structure
 * @sge: for @req and @recv
 */
struct kiw_ud {
	struct ib_qp		*ibqp;
	struct kiw_device	*dev;
	struct kiw_core		*core;
	struct mutex		*mutex;
	struct socket		*sock;
	const struct sock	*own;
	spinlock_t		lock;
	bool			open;
	enum ib_qp_state	state;
	u32			qkey;
	u32			sq_psn;
	struct kiw_recv_req	recv;

	struct kiw_send_req	req;
	struct kiw_ud_train	train;
	bool			taken;
	u32			seg_size;
	u32			write_id;
	u32			write_done;
	u32			msn;
	bool			stalled;
	bool			fatal;
	bool			last;
	void			(*saved_write_space)(struct sock *sk);
	struct kiw_ud_records	*records;
	struct list_head	groups;
	struct delayed_work	work;
	struct rcu_head		rcu;
	struct kiw_sge		sge[];
};

/**
 * kiw_ud_open() - give a new QP its socket
 * @ibqp: QP; all but its number is set
 * @core: its queues
 * @mutex: see above
 * @req: request of the process
 *
 * Return: the QP's part, or a negative errno.
 */
struct kiw_ud *kiw_ud_open(struct ib_qp *ibqp, struct kiw_core *core, struct mutex *mutex,
			   const struct kiw_create_qp_req *req);

/** kiw_ud_port() - UDP port of a QP, which is its number */
u16 kiw_ud_port(const struct kiw_ud *ud);

/** kiw_ud_close() - release the socket; no callback uses the QP afterwards; may sleep */
void kiw_ud_close(struct kiw_ud *ud);

/** kiw_ud_modify() - the verb; see struct ib_device_ops */
int kiw_ud_modify(struct kiw_ud *ud, const struct ib_qp_attr *attr, int mask);

/** kiw_ud_query() - add attributes of datagrams; secrets only if @mask names them */
void kiw_ud_query(const struct kiw_ud *ud, struct ib_qp_attr *attr, int mask);

/**
 * kiw_ud_doorbell() - process a ring
 * @ud: QP's part
 * @send: the send ring, else the receive ring
 *
 * Return: 0, or -EINVAL: this state forbids posting.
 */
int kiw_ud_doorbell(struct kiw_ud *ud, bool send);

/** kiw_ud_error() - map socket errnos for "no memory" to ENOMEM */
static inline int kiw_ud_error(int err)
{
	return err == -ENFILE || err == -ENOBUFS ? -ENOMEM : err;
}

/** kiw_ud_listen() - deliver datagrams of a new UDP socket to a QP */
void kiw_ud_listen(struct kiw_ud *ud, struct socket *sock);

/** kiw_ud_unlisten() - end delivery and release the socket, even a half-prepared one */
void kiw_ud_unlisten(struct socket *sock);

int kiw_ud_init(void);
void kiw_ud_exit(void);

#endif /* KIWARP_UD_H */
