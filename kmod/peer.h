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

/**
 * struct kiw_path - what else a program sets for a peer that it names by number
 * @flow_label: as it was set
 * @traffic_class: likewise
 * @hop_limit: likewise
 * @mtu: enum ib_mtu, likewise
 * @timeout: likewise; with @retry_cnt, how long a peer may be silent
 * @retry_cnt: likewise
 * @rnr_retry: likewise; with 7 the peer lets messages wait for a receive without limit
 * @min_rnr_timer: likewise
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
 * struct kiw_watch - how long has a peer by number been silent
 * @work: looks at that from time to time, as long as there is a limit and a connection
 * @since: jiffies of the first look at which something may have been awaited all the time since
 * @probes: TCP probes for the peer
 * @keep_time: what TCP's socket gets when @probes changes, and what it had until then: its
 *	keepalive_time
 * @keep_intvl: likewise: keepalive_intvl
 * @keep_count: likewise: keepalive_probes
 * @keep_open: likewise: SOCK_KEEPOPEN
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
 * struct kiw_peer - the one QP that a QP connects to, by number
 * @qp: the QP that connects
 * @local: our address, one of the interface's; IPv4 ones are mapped
 * @remote: the peer's, of the same IP
 * @ends: the numbers of both QPs and the PSNs, as the peer is told
 * @gid_index: slot of @local when it was named
 * @path: see struct kiw_path
 * @ird: Reads that the peer may have outstanding
 * @ord: Reads that we may have outstanding
 * @over: its connection has ended: there is no other before RESET; changed while the QP is held
 * @limited: as the peer says, see struct kiw_number; set before there is a stream
 * @untold: the connection stands, and the peer expects the sq_psn @told_psn, which the program
 *	hasn't said yet
 * @told_psn: valid with @untold
 * @patient: a request waits for the connection, until @deadline
 * @deadline: jiffies
 * @late: the work that looks whether the wait is over
 * @watch: see struct kiw_watch
 * @begun: the program knows by IB_EVENT_COMM_EST that the peer has; changed while the QP is held
 *
 * The mutex of the QP protects it, but for @over, @limited and @begun. It is made by the
 * first modification that names a peer, and goes with the QP.
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

/* The manner of connections by rdma_cm, and of those by number; protocol.md has the reasons. */
extern const struct kiw_manner kiw_manner_cm;
extern const struct kiw_manner kiw_manner_number;

/**
 * kiw_peer_expect() - a change from INIT to RTR names a peer
 * @qp: QP; mutex held
 * @named: address, number and PSN
 * @late: what runs when requests have waited for it long enough
 *
 * Return: 0, -EINVAL in another state, or -ENOMEM.
 */
int kiw_peer_expect(struct kiw_qp *qp, const struct kiw_peer *named, work_func_t late);

/**
 * kiw_peer_ready() - a change from RTR or RTS to RTS, connected by now or not
 * @qp: QP; mutex held
 * @attr: what is set
 * @mask: IB_QP_*, which of @attr
 *
 * Return: 0; -EINVAL without a peer, without a PSN in RTR, or for more Reads than there can be;
 * -EACCES when the peer that is connected expects another PSN.
 */
int kiw_peer_ready(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask);

/** kiw_peer_keep() - keep what a program sets for the path to its peer; mutex held */
void kiw_peer_keep(struct kiw_qp *qp, const struct ib_qp_attr *attr, int mask);

/**
 * kiw_peer_query() - return the attributes that a program set
 * @qp: QP, by number; mutex held
 * @attr: gets it
 * @mask: IB_QP_*; the peer's address and number, and both PSNs, only where it names them
 */
void kiw_peer_query(const struct kiw_qp *qp, struct ib_qp_attr *attr, int mask);

/** kiw_peer_forget() - as kiw_qp_forget_peer(), mutex held */
void kiw_peer_forget(struct kiw_qp *qp);

/** kiw_peer_free() - the QP goes, and nobody else refers to it; may sleep */
void kiw_peer_free(struct kiw_qp *qp);

/**
 * kiw_qp_peer() - which QP is it to be connected to
 * @qp: QP
 * @peer: gets what is known by now, but for the work
 *
 * Return: false when none was named.
 */
bool kiw_qp_peer(struct kiw_qp *qp, struct kiw_peer *peer);

/**
 * kiw_qp_meet() - what the peer says of its messages
 * @qp: QP, bound to the endpoint that is about to open
 * @limited: see struct kiw_number
 */
void kiw_qp_meet(struct kiw_qp *qp, bool limited);

/**
 * kiw_qp_proved() - compare the sq_psn that the peer expects, once the stream is there
 * @qp: QP
 * @inbox: of the endpoint
 * @psn: the PSN; it is kept for the change to RTS, if that is yet to come
 *
 * Return: false when the program said another one.
 */
bool kiw_qp_proved(struct kiw_qp *qp, const struct kiw_inbox *inbox, u32 psn);

/** kiw_peer_patience() - jiffies that requests wait for the peer, or 0 for no limit; mutex held */
unsigned long kiw_peer_patience(const struct kiw_peer *peer);

/**
 * kiw_qp_forget_peer() - no connection by number is made any more, and one that there is ends
 * @qp: QP
 *
 * Return: the inbox of the endpoint that the QP had for that, with a reference for the caller, or
 * NULL. When its work is through, the QP has no stream.
 */
struct kiw_inbox *kiw_qp_forget_peer(struct kiw_qp *qp);

/**
 * kiw_qp_watch() - a stream was attached: notice if its peer falls silent
 * @qp: QP; mutex held
 */
void kiw_qp_watch(struct kiw_qp *qp);

#endif /* KIWARP_PEER_H */
