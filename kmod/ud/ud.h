/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagram queue pairs: a UDP socket in place of a stream. Its port is the QP's number, and it is
 * bound to the interface of the device. Nothing that arrives is ever answered, and nothing that
 * arrives ends the QP.
 *
 * Locks, outermost first:
 *   kiw_qp.mutex	the send queue, what sends, and every change by a verb
 *   kiw_ud.lock	the receive queue, @state, @qkey, @open, @fatal, @last; taken with BH off,
 *			also by UDP when it calls back
 *   kiw_srq.lock	one shared receive queue
 *   kiw_cq.lock	one completion queue
 * "The QP is held" means the first for functions of the send queue, the second for those of the
 * receive queue.
 *
 * References: the QP has the only one. Callbacks of the socket find it under RCU and look at @open
 * under the lock before they touch anything else; kiw_ud_close() clears that, and the memory goes
 * a grace period later.
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

/* Datagrams that one caller sends, before the rest is left to the work */
#define KIW_UD_BUDGET 256

/**
 * struct kiw_ud_train - datagrams that UDP gets in one call; protected by kiw_qp.mutex
 * @batch: their bytes; nothing else is valid while there are none
 * @dest: where all of them go
 * @size: bytes of each but the last
 * @last: bytes of the last, at most @size
 * @room: bytes of a datagram that the interface's MTU has room for: longer ones go alone
 */
struct kiw_ud_train {
	struct kiw_batch	batch;
	struct kiw_ud_dest	dest;
	u32			size;
	u32			last;
	u32			room;
};

/**
 * struct kiw_ud - what a datagram QP has in place of a stream; see above for what protects what
 * @ibqp: queue pair
 * @dev: its device
 * @core: its queues
 * @mutex: kiw_qp.mutex
 * @sock: UDP socket
 * @own: its part of UDP, to tell it from those of groups; never followed
 * @lock: see above
 * @open: kiw_ud_close() has not begun
 * @state: IB_QPS_RESET, INIT, RTR, RTS or ERR
 * @qkey: datagrams with another one are dropped
 * @sq_psn: what the process calls its first datagram; it is only told it again
 * @recv: the receive request of the datagram that is being placed
 * @req: the send request that was taken
 * @taken: there is one, and not all of it is in @train
 * @train: what UDP doesn't have yet
 * @seg_size: bytes of a segment of a Write
 * @write_id: number of the next Write, or of the one that was taken
 * @write_done: bytes of it that are in @train, or were
 * @msn: messages that are in @train, or were
 * @stalled: UDP had no room: kiw_ud_write_space() has the work go on
 * @fatal: the process is to be told that the QP is in error
 * @last: the process is to be told that the QP takes no request of an SRQ any more
 * @saved_write_space: the socket's own callback
 * @records: of Writes that arrive, if the QP is a target; see record.h
 * @groups: memberships of groups, see group.c; protected by kiw_qp.mutex
 * @work: sends what a doorbell couldn't, or ends what a callback found broken
 * @rcu: callbacks may be on their way out
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
 * @req: what the process asks for
 *
 * Return: the QP's part, or a negative errno.
 */
struct kiw_ud *kiw_ud_open(struct ib_qp *ibqp, struct kiw_core *core, struct mutex *mutex,
			   const struct kiw_create_qp_req *req);

/** kiw_ud_port() - UDP port of a QP, which is its number */
u16 kiw_ud_port(const struct kiw_ud *ud);

/** kiw_ud_close() - take the socket away; no callback uses the QP any more; may sleep */
void kiw_ud_close(struct kiw_ud *ud);

/** kiw_ud_modify() - the verb; see struct ib_device_ops */
int kiw_ud_modify(struct kiw_ud *ud, const struct ib_qp_attr *attr, int mask);

/** kiw_ud_query() - add what datagrams have to the attributes of a QP; secrets that @mask names */
void kiw_ud_query(const struct kiw_ud *ud, struct ib_qp_attr *attr, int mask);

/**
 * kiw_ud_doorbell() - look at a ring
 * @ud: QP's part
 * @send: at the send ring, else at the receive ring
 *
 * Return: 0, or -EINVAL when nothing may be sent in this state.
 */
int kiw_ud_doorbell(struct kiw_ud *ud, bool send);

/** kiw_ud_error() - an errno of sockets, which have several for want of memory, as verbs has it */
static inline int kiw_ud_error(int err)
{
	return err == -ENFILE || err == -ENOBUFS ? -ENOMEM : err;
}

/** kiw_ud_listen() - have a new UDP socket give its datagrams to a QP */
void kiw_ud_listen(struct kiw_ud *ud, struct socket *sock);

/** kiw_ud_unlisten() - end that, or what has come of it, and release the socket */
void kiw_ud_unlisten(struct socket *sock);

int kiw_ud_init(void);
void kiw_ud_exit(void);

#endif /* KIWARP_UD_H */
