/* SPDX-License-Identifier: GPL-2.0 */
/* The peer of a queue pair that is connected by number. */
#ifndef KIWARP_PEER_H
#define KIWARP_PEER_H

#include <linux/in6.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "proto/number.h"

struct kiw_inbox;
struct kiw_manner;
struct kiw_qp;

/*
 * Other attributes of a peer named by number, as the program set them.
 * @mtu: enum ib_mtu
 * @timeout: with @retry_cnt, how long a peer may be silent
 * @rnr_retry: 7: the peer lets messages wait for a receive without limit
 */
struct kiw_path {
	u32	flow_label;
	u8	traffic_class;
	u8	hop_limit;
	u8	mtu;
	u8	timeout;
	u8	retry_cnt;
	u8	rnr_retry;
	u8	min_rnr_timer;
};

/**
 * struct kiw_watch - detects the silence of a peer by number
 * @work: checks periodically while there are a limit and a connection
 * @since: jiffies when the check first found the answer outstanding
 * @probes: TCP probes for the peer
 * @keep_time: saved keepalive_time; swapped with the socket's when @probes changes
 * @keep_intvl: same for keepalive_intvl
 * @keep_count: same for keepalive_probes
 * @keep_open: same for SOCK_KEEPOPEN
 */
struct kiw_watch {
	struct delayed_work	work;
	unsigned long		since;
	bool			probes;
	unsigned int		keep_time;
	unsigned int		keep_intvl;
	u8			keep_count;
	bool			keep_open;
};

/**
 * struct kiw_peer - the only QP to which a QP connects by number
 * @qp: the QP that connects
 * @local: our address, one of the interface's; IPv4 as a mapped one
 * @remote: the peer's address, of the same IP version
 * @ends: numbers of both QPs and PSNs, as sent to the peer
 * @gid_index: slot of @local when the peer was named
 * @path: see struct kiw_path
 * @ird: outstanding Reads of the peer, at most
 * @ord: our outstanding Reads, at most
 * @over: its connection ended: there is no other before RESET; changed while the QP is held
 * @limited: the peer's statement, see struct kiw_number; set before there is a stream
 * @untold: connected, and the peer expects the sq_psn @told_psn, which the program has not set yet
 * @told_psn: valid with @untold
 * @patient: a request waits for the connection, until @deadline
 * @deadline: jiffies
 * @late: work that checks @deadline
 * @watch: see struct kiw_watch
 * @begun: IB_EVENT_COMM_EST reported that the peer has begun; changed while the QP is held
 *
 * The mutex of the QP protects all but @over, @limited and @begun. Created by the first
 * modification that names a peer; freed with the QP.
 */
struct kiw_peer {
	struct kiw_qp		*qp;
	struct in6_addr		local;
	struct in6_addr		remote;
	struct kiw_number	ends;
	u8			gid_index;
	struct kiw_path		path;
	u16			ird;
	u16			ord;
	bool			over;
	bool			limited;
	bool			untold;
	u32			told_psn;
	bool			patient;
	bool			begun;
	unsigned long		deadline;
	struct delayed_work	late;
	struct kiw_watch	watch;
};

/* Manners of connections by rdma_cm, and by number; see protocol.md for the reasons. */
extern const struct kiw_manner kiw_manner_cm;
extern const struct kiw_manner kiw_manner_number;

/**
 * kiw_peer_expect() - name the peer in a change from INIT to RTR
 * @qp: QP; mutex held
 * @named: address, number and PSN
 * @late: work function for the end of the requests' time to wait
 *
 * Return: 0, -EINVAL in another state, or -ENOMEM.
 */
int kiw_peer_expect(struct kiw_qp *qp, const struct kiw_peer *named, work_func_t late);

/**
 * kiw_peer_ready() - change from RTR or RTS to RTS, connected or not
 * @qp: QP; mutex held
 * @attr: new attributes
 * @mask: IB_QP_* of @attr
 *
 * Return: 0; -EINVAL without a peer, without a PSN in RTR, or for too many Reads; -EACCES: the
 * connected peer expects another PSN.
 */
int kiw_peer_ready(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask);

/** kiw_peer_keep() - store a program's attributes of the path to its peer; mutex held */
void kiw_peer_keep(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask);

/**
 * kiw_peer_query() - return the attributes that a program set
 * @qp: QP, by number; mutex held
 * @attr: output
 * @mask: IB_QP_*; the peer's address and number, and both PSNs, are returned only if named here
 */
void kiw_peer_query(const struct kiw_qp *qp, struct ib_qp_attr *attr, int mask);

/** kiw_peer_forget() - as kiw_qp_forget_peer(); mutex held */
void kiw_peer_forget(struct kiw_qp *qp);

/** kiw_peer_free() - the QP goes and is unreachable; may sleep */
void kiw_peer_free(struct kiw_qp *qp);

/**
 * kiw_qp_peer() - get the peer of a QP
 * @qp: QP
 * @peer: output, except the works
 *
 * Return: false: there is none.
 */
bool kiw_qp_peer(struct kiw_qp *qp, struct kiw_peer *peer);

/**
 * kiw_qp_meet() - store the peer's statement on its messages
 * @qp: QP, bound to the endpoint that is about to open
 * @limited: see struct kiw_number
 */
void kiw_qp_meet(struct kiw_qp *qp, bool limited);

/**
 * kiw_qp_proved() - compare the sq_psn that the peer expects, once there is a stream
 * @qp: QP
 * @inbox: of the endpoint
 * @psn: the PSN; stored for a later change to RTS
 *
 * Return: false: the program set another one.
 */
bool kiw_qp_proved(struct kiw_qp *qp, const struct kiw_inbox *inbox, u32 psn);

/** kiw_peer_patience() - jiffies that requests wait for the peer; 0: no limit; mutex held */
unsigned long kiw_peer_patience(const struct kiw_peer *peer);

/**
 * kiw_qp_forget_peer() - stop connecting by number and end the current connection
 * @qp: QP
 *
 * Return: the inbox of the QP's endpoint, referenced for the caller, or NULL. The endpoint is told,
 * and the QP has a stream until it ends.
 */
struct kiw_inbox *kiw_qp_forget_peer(struct kiw_qp *qp);

/**
 * kiw_qp_watch() - detect the silence of the peer of a new stream
 * @qp: QP; mutex held
 */
void kiw_qp_watch(struct kiw_qp *qp);

#endif /* KIWARP_PEER_H */
