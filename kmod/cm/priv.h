/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interfaces inside the connection manager; cm.h is for others.
 *
 *	number.c	connections by queue pair number
 *	port.c	the port of a link for these
 *	listen.c	listeners
 *	accept.c	start-up of the responder
 *	connect.c	start-up of the initiator
 *	queue.c	requests that wait for their listener's user
 *	early.c	requests by number that wait for their QP
 *	ep.c		endpoints: lifetime, reports to iw_cm, end
 *	param.c	parameters, and options of a link
 *	sock.c	sockets, addresses, start-up frames in and out
 *
 * Each calls those below it; ep.c calls the role of an endpoint through struct kiw_ep_ops.
 *
 * An endpoint is one TCP socket and one state machine. Callbacks, timer, stream and downcalls only
 * post events to the endpoint's inbox. Its only work item reads the state and does everything that
 * needs no waiting. Events cannot be lost, whatever a peer sends, and a stalled peer costs its
 * endpoint and one timer.
 *
 *	CONNECTING -> REPLY_WAIT ------------------------------------------.
 *	DIAL_WAIT <-> CONNECTING		(by rdma_cm: where TCP refuses)
 *	DIAL_WAIT <-> CONNECTING, REPLY_WAIT	(by QP number: until it succeeds)
 *	REQUEST_WAIT -> REQUEST_READY -> REQUESTED -> REPLY_SEND -> RTR_WAIT -> OPEN -> CLOSING
 *
 * and from each to DEAD, which keeps only the pending reports to iw_cm. A connection that sent its
 * FIN first enters LINGER, which keeps only the socket, until the peer acknowledged all data and
 * the FIN.
 *
 * Works of different endpoints run concurrently on any CPU; the single work item of an endpoint
 * serializes that endpoint.
 *
 * Locks, outermost first:
 *	kiw_ep.mutex		everything in the endpoint but events; a listener's before that of
 *				a connection that it accepts
 *	kiw_listener.lock	the listener's cm_id, its endpoints and their order
 *	kiw_qp.mutex, socket lock, sk_callback_lock
 *	innermost: kiw_device.ep_lock, the lock of the requests' index, and iw_cm's spinlock, which
 *	its event handler takes; iw_cm calls nothing that takes our locks under it
 *
 * References to an endpoint (kiw_inbox.ref):
 * - its being alive: from kiw_ep_create() until the work finds it DEAD with nothing to report. The
 *   socket's sk_user_data, the timer, the device's lists, the listener's list and the requests'
 *   index rely on this one; each is cleared before it is dropped.
 * - the work while it is queued
 * - the bound QP, and the stream while it runs
 * - the cm_id of a listener, by its provider_data, or the device, by its port
 * - a downcall while it uses the endpoint
 * An endpoint holds a reference to its listener's until the user has decided.
 */
#ifndef KIWARP_CM_PRIV_H
#define KIWARP_CM_PRIV_H

#include <linux/in6.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/rbtree.h>
#include <linux/socket.h>
#include <linux/timer.h>
#include <net/sock.h>
#include <rdma/iw_cm.h>

#include "cm.h"
#include "types.h"
#include "inbox.h"
#include "qp.h"
#include "proto/mpa.h"

struct kiw_stream;

/* Events of an endpoint besides those of inbox.h */
#define KIW_EP_SOCKET		BIT(16)	/* the socket's state may have changed */
#define KIW_EP_TIMER		BIT(17)	/* the timer fired */

/* Seconds without a further acknowledgment after which a closing connection is reset */
#define KIW_CLOSE_SECS		10
/*
 * Seconds for a user to accept or reject. No peer waits that long; the limit exists because iw_cm
 * drops requests silently when their listener goes.
 */
#define KIW_DECIDE_SECS		600
/*
 * Jiffies that a request waits while its user's backlog of undecided requests is full. rdma_cm
 * rejects requests beyond the backlog, where TCP would let the peer wait: a burst would be
 * rejected.
 */
#define KIW_READY_PATIENCE	(HZ / 2)
/*
 * Jiffies that a complete Request waits for those of earlier connections of the same host, from
 * TCP's accept of these: longer than works at either end wait for a CPU, and short enough that
 * connections without a Request do no harm.
 */
#define KIW_ORDER_PATIENCE	DIV_ROUND_UP(HZ, 50)

/* Pending reports to iw_cm; sent in rising bit order */
#define KIW_OWED_REPLY		BIT(0)
#define KIW_OWED_ESTABLISHED	BIT(1)
#define KIW_OWED_DISCONNECT	BIT(2)
#define KIW_OWED_CLOSE		BIT(3)

/**
 * enum kiw_end - how to leave a connection
 * @KIW_END_DONE: the stream ended already; TCP delivers its data
 * @KIW_END_FIN: TCP delivers its data; a stream is broken off
 * @KIW_END_RESET: at once
 */
enum kiw_end {
	KIW_END_DONE,
	KIW_END_FIN,
	KIW_END_RESET,
};

struct kiw_ep;
struct kiw_listener;

/**
 * struct kiw_early_key - what a QP expects of its peer's Request, see struct kiw_number_said
 * @local: address that it comes to; IPv4 as a mapped one
 * @remote: address that it comes from
 */
struct kiw_early_key {
	struct in6_addr	local;
	struct in6_addr	remote;
	u32		from;
	u32		to;
	u32		psn;
	u32		ready;
};

/**
 * struct kiw_early - a Request by number that waits for its QP
 * @node: in the device's @number.early; protected by its ep_lock
 * @inbox: of its endpoint
 * @key: what it says
 */
struct kiw_early {
	struct rb_node		node;
	struct kiw_inbox	*inbox;
	struct kiw_early_key	key;
};

/**
 * enum kiw_turn - when a listener reports a connection's Request
 * @KIW_TURN_NONE: not complete, and no later connection waits for it; or reported
 * @KIW_TURN_AWAITED: not complete, and to be reported before those of later connections of its host
 * @KIW_TURN_HELD: complete, but that of an earlier connection comes first
 * @KIW_TURN_NEXT: complete, and held by no other
 */
enum kiw_turn {
	KIW_TURN_NONE,
	KIW_TURN_AWAITED,
	KIW_TURN_HELD,
	KIW_TURN_NEXT,
};

/**
 * struct kiw_startup - state of the start-up only
 * @cfg: wishes of this side
 * @req: the Request as sent or received
 * @terms: agreed terms
 * @stream: allocated for them, until it starts
 * @local: initiator: address to bind; then the connection's own
 * @remote: initiator: address to connect to; then the connection's own
 * @in_have: bytes in @in
 * @out_len: bytes in @out
 * @out_sent: bytes of @out that TCP took
 * @in: received part of the peer's frame
 * @out: our frame
 *
 * Of the initiator:
 * @retried: revision 2 found no answer, this is the attempt with revision 1
 * @refusals: times that TCP refused
 * @next: jiffies of the next attempt, in state DIAL_WAIT
 * @status: for KIW_OWED_REPLY
 * @tell: the peer's private data for the user, in @in
 * @tell_len: bytes at @tell
 * @pd_len: bytes at @pd
 * @pd: the user's private data
 *
 * Of the responder:
 * @reject: the Reply in @out is a rejection
 * @cookie: index in the table of requests, or 0
 * @ep: its endpoint
 * @listener: until the user has decided, reference held, or NULL
 * @told: the Request is reported to @listener's user and undecided
 * @link: in @listener->waiting unless @told; protected by the listener's lock, as the next two
 * @turn: see enum kiw_turn
 * @node: in @listener->order or ->next, by @turn
 * @number: position in the order of TCP's accept
 * @accepted: jiffies of TCP's accept
 * @ready: jiffies when the Request was complete
 * @peer: the peer's address
 * @early: dialed end, while its Request waits for its QP
 */
struct kiw_startup {
	struct kiw_mpa_cfg	cfg;
	struct kiw_mpa_frame	req;
	struct kiw_mpa_result	terms;
	struct kiw_stream	*stream;
	struct sockaddr_storage	local;
	struct sockaddr_storage	remote;
	u16			in_have;
	u16			out_len;
	u16			out_sent;
	u8			in[KIW_MPA_FRAME_MAX];
	u8			out[KIW_MPA_FRAME_MAX];
	union {
		struct {
			bool		retried;
			u8		refusals;
			unsigned long	next;
			int		status;
			const u8	*tell;
			u8		tell_len;
			u16		pd_len;
			u8		pd[KIW_MPA_PD_MAX];
		};
		struct {
			bool			reject;
			u32			cookie;
			struct kiw_ep		*ep;
			struct kiw_listener	*listener;
			bool			told;
			struct list_head	link;
			enum kiw_turn		turn;
			struct rb_node		node;
			u32			number;
			unsigned long		accepted;
			unsigned long		ready;
			struct in6_addr		peer;
			struct kiw_early	early;
		};
	};
};

/* Callbacks of a socket, as in struct sock. */
struct kiw_sk_ops {
	void	(*data_ready)(struct sock *sk);
	void	(*state_change)(struct sock *sk);
	void	(*write_space)(struct sock *sk);
};

/**
 * struct kiw_ep_ops - role of an endpoint
 * @run: continue the start-up, or listening, after events; mutex held
 * @prepare: initialize a new endpoint that nobody can find yet; may be NULL
 * @leave: the endpoint ends: release the role's resources; mutex held; may be NULL
 * @size: bytes of its structure, which begins with a struct kiw_ep
 * @initiates: it connects
 * @listens: a listener, without a start-up
 * @quiet: unknown to iw_cm
 */
struct kiw_ep_ops {
	void	(*run)(struct kiw_ep *ep, unsigned long events);
	void	(*prepare)(struct kiw_ep *ep);
	void	(*leave)(struct kiw_ep *ep);
	size_t	size;
	bool	initiates;
	bool	listens;
	bool	quiet;
};

/**
 * struct kiw_ep - endpoint
 * @inbox: events, references, and the work, which alone runs the state machine and calls iw_cm
 * @ops: role
 * @dev: device; its ep_count keeps it while the endpoint exists
 * @dev_link: in @dev->eps; protected by @dev->ep_lock
 * @timer: fires at @deadline, or earlier for a retry
 * @mutex: protects all below
 * @state: enum kiw_ep_state, see above
 * @announced: a connection is reported to iw_cm, or the report is pending: its close will follow
 * @final: the last report to iw_cm is sent or pending
 * @retired: the reference for being alive is dropped
 * @hooked: the socket's callbacks are ours
 * @retry: the work must run again at @again
 * @timed: @deadline is valid
 * @owed: KIW_OWED_*
 * @ird: for the next event
 * @ord: for the next event
 * @retransmits: of the connection, already in the device's counter
 * @acked: TCP's snd_una when @deadline was set, in CLOSING and LINGER
 * @user: in LINGER, the user that created the queue pair
 * @again: jiffies, valid with @retry
 * @deadline: jiffies when the time in the current state is over
 * @sock: the connection, or the listening socket
 * @saved: its own callbacks, valid while @hooked
 * @stream: the running connection, reference held
 * @qp: bound QP, reference held
 * @id: iw_cm's side of a connection, reference held; a listener keeps it elsewhere
 * @su: NULL in a listener, and once the start-up is over and reported
 */
struct kiw_ep {
	struct kiw_inbox	inbox;
	const struct kiw_ep_ops	*ops;
	struct kiw_device	*dev;
	struct list_head	dev_link;
	struct timer_list	timer;

	struct mutex		mutex;
	u8			state;
	bool			announced;
	bool			final;
	bool			retired;
	bool			hooked;
	bool			retry;
	bool			timed;
	u8			owed;
	u8			ird;
	u8			ord;
	u32			retransmits;
	u32			acked;
	kuid_t			user;
	unsigned long		again;
	unsigned long		deadline;
	struct socket		*sock;
	struct kiw_sk_ops	saved;
	struct kiw_stream	*stream;
	struct kiw_qp		*qp;
	struct iw_cm_id		*id;
	struct kiw_startup	*su;
};

/**
 * struct kiw_listener - listening endpoint
 * @ep: common part; first, so that both are freed alike
 * @lock: protects the rest
 * @serves: role of the endpoints of its connections
 * @id: iw_cm's listening side, reference held; NULL once stopped, or without iw_cm
 * @waiting: endpoints with a Request that is not reported yet, or not complete
 * @order: of these, those in turn AWAITED and HELD, by host and number
 * @next: of these, those in turn NEXT, by number
 * @next_number: for the next connection
 * @num_waiting: entries of @waiting
 * @max_waiting: further connections are closed when TCP hands them over
 * @num_told: undecided requests
 * @max_told: the user's backlog; @num_told exceeds it only after %KIW_READY_PATIENCE
 */
struct kiw_listener {
	struct kiw_ep		ep;
	struct mutex		lock;
	const struct kiw_ep_ops	*serves;
	struct iw_cm_id		*id;
	struct list_head	waiting;
	struct rb_root		order;
	struct rb_root_cached	next;
	u32			next_number;
	u32			num_waiting;
	u32			max_waiting;
	u32			num_told;
	u32			max_told;
};

static_assert(offsetof(struct kiw_listener, ep) == 0);

static inline void kiw_ep_get(struct kiw_ep *ep)
{
	kiw_inbox_get(&ep->inbox);
}

static inline void kiw_ep_put(struct kiw_ep *ep)
{
	kiw_inbox_put(&ep->inbox);
}

/* param.c */
void kiw_ep_config(const struct kiw_device *dev, struct kiw_startup *su);
bool kiw_responder_sends_first(const struct kiw_device *dev);
unsigned int kiw_keepalive_secs(const struct kiw_device *dev);
unsigned int kiw_connect_secs(const struct kiw_device *dev);
unsigned int kiw_mpa_secs(const struct kiw_device *dev);
enum kiw_number_mode kiw_number_mode(const struct kiw_device *dev);

/* ep.c */
struct kiw_ep *kiw_ep_create(struct kiw_device *dev, const struct kiw_ep_ops *ops);
int kiw_ep_take_sock(struct kiw_ep *ep, struct socket *sock);
void kiw_ep_deadline(struct kiw_ep *ep, unsigned int secs);
void kiw_ep_again(struct kiw_ep *ep, unsigned long when);
void kiw_ep_again_soon(struct kiw_ep *ep);
void kiw_ep_enter(struct kiw_ep *ep, enum kiw_ep_state state);
bool kiw_ep_expired(const struct kiw_ep *ep, unsigned long events);
int kiw_ep_bind_qp(struct kiw_ep *ep, const struct iw_cm_id *id, u32 qpn);
void kiw_ep_drop_qp(struct kiw_ep *ep);
void kiw_ep_set_id(struct kiw_ep *ep, struct iw_cm_id *id);
int kiw_ep_prepare(struct kiw_ep *ep, const struct kiw_mpa_result *terms);
int kiw_ep_open(struct kiw_ep *ep);
void kiw_ep_established(struct kiw_ep *ep);
void kiw_ep_closing(struct kiw_ep *ep);
void kiw_ep_fail(struct kiw_ep *ep, int status);
void kiw_ep_end(struct kiw_ep *ep, int status, enum kiw_end how);
void kiw_ep_abort(struct kiw_ep *ep);

/* sock.c */
const struct net *kiw_id_net(const struct iw_cm_id *id);
struct net *kiw_sock_net(struct kiw_device *dev, const struct iw_cm_id *id,
			 const struct sockaddr_storage *local);
int kiw_sock_create(struct kiw_device *dev, struct net *net, const struct iw_cm_id *id,
		    const struct sockaddr_storage *local, struct socket **res);
int kiw_sock_stay(struct kiw_device *dev, struct socket *sock,
		  const struct sockaddr_storage *local);
int kiw_sock_roam(struct socket *sock);
void kiw_sock_set_tos(struct socket *sock, u8 tos);
int kiw_sock_bind(struct socket *sock, const struct sockaddr_storage *addr);
void kiw_sock_disconnect(struct socket *sock);
void kiw_sock_close(struct socket *sock, bool reset);
bool kiw_sock_drop(struct socket *sock);
void kiw_sock_keepalive(struct socket *sock, int secs);
int kiw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		   struct sockaddr_storage *remote);
int kiw_addr_check(struct kiw_device *dev, struct sockaddr_storage *addr);
int kiw_addr_len(const struct sockaddr_storage *addr);
void kiw_addr_unmap(struct sockaddr_storage *addr);
int kiw_ep_hook(struct kiw_ep *ep, const struct kiw_sk_ops *saved);
void kiw_ep_unhook(struct kiw_ep *ep);
bool kiw_ep_excess(struct kiw_ep *ep);
int kiw_ep_push(struct kiw_ep *ep);
int kiw_ep_pull(struct kiw_ep *ep, enum kiw_mpa_kind kind, struct kiw_mpa_frame *frame);

/* queue.c */
bool kiw_listener_add(struct kiw_listener *l, struct kiw_ep *ep);
int kiw_listener_tell(struct kiw_ep *ep, struct iw_cm_event *event);
void kiw_listener_ready(struct kiw_ep *ep);
void kiw_listener_leave(struct kiw_ep *ep);
void kiw_listener_abort(struct kiw_listener *l);

/* early.c */
void kiw_early_add(struct kiw_ep *ep, const struct kiw_number_said *said,
		   const struct in6_addr *local, const struct in6_addr *remote);
void kiw_early_remove(struct kiw_ep *ep);
void kiw_early_tell(struct kiw_device *dev, const struct kiw_peer *peer);

/* accept.c */
extern const struct kiw_ep_ops kiw_accept_ops;
void kiw_responder_start(struct kiw_listener *l, struct socket *sock);
void kiw_refuse(struct kiw_ep *ep, const char *why, const void *pd, u16 pd_len);
void kiw_reply_compose(struct kiw_ep *ep, struct kiw_mpa_frame *rep, const void *pd, u16 pd_len);
int kiw_reply_send(struct kiw_ep *ep);

/* connect.c */
int kiw_request_compose(struct kiw_startup *su);
int kiw_request_step(struct kiw_ep *ep, struct kiw_mpa_frame *rep);
int kiw_dial(struct kiw_ep *ep);

/* listen.c */
struct kiw_listener *kiw_listener_open(struct kiw_device *dev, struct sockaddr_storage *addr,
				       int backlog, const struct kiw_ep_ops *serves,
				       struct iw_cm_id *id, bool anywhere);
bool kiw_listener_hears(struct kiw_listener *l);
void kiw_listener_end(struct kiw_listener *l);

/* port.c */
/** kiw_port() - TCP port for connections by number, the same on all hosts */
u16 kiw_port(void);

/** kiw_port_init() - prepare a new device; @serves: role of its connections' endpoints */
void kiw_port_init(struct kiw_device *dev, const struct kiw_ep_ops *serves);

/** kiw_port_ask() - kiw_port_settle(), quicker if the device already listens */
int kiw_port_ask(struct kiw_device *dev);

/**
 * kiw_port_near() - does another link of this host own an address
 * @dev: device
 * @addr: address
 * @port: on true, port of that link's inner listener, or 0 without one
 *
 * Return: true if so, and a socket bound to its interface cannot reach it.
 */
bool kiw_port_near(struct kiw_device *dev, const struct in6_addr *addr, u16 *port);

#endif /* KIWARP_CM_PRIV_H */
