/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inside of the connection manager; cm.h is its outside.
 *
 *	number.c	connections by queue pair number
 *	port.c	the port of a link for these
 *	listen.c	listeners
 *	accept.c	start-up of the responder
 *	connect.c	start-up of the initiator
 *	queue.c	requests that wait for their listener's user
 *	ep.c		endpoints: life, what iw_cm is told, the end
 *	param.c	parameters, and options of a link
 *	sock.c	sockets, addresses, start-up frames in and out
 *
 * Each calls those below it; ep.c calls the role of an endpoint by its struct kiw_ep_ops.
 *
 * An endpoint is one TCP socket and one state machine. Callbacks, timer, stream and downcalls only
 * leave events in the endpoint's inbox. Its only work item looks at the state and
 * does what can be done without waiting. Events can't get lost, whatever the peer sends and however
 * often, and a peer that stalls costs its endpoint and one timer.
 *
 *	CONNECTING -> REPLY_WAIT ------------------------------------------.
 *	DIAL_WAIT <-> CONNECTING, REPLY_WAIT	(by QP number: until it succeeds)
 *	REQUEST_WAIT -> REQUEST_READY -> REQUESTED -> REPLY_SEND -> RTR_WAIT -> OPEN -> CLOSING
 *
 * and from everywhere to DEAD, which keeps nothing but what iw_cm still has to be told. A
 * connection that has sent its FIN goes there by way of LINGER, which keeps the socket, and nothing
 * else, until the peer has acknowledged all that it was sent.
 *
 * The works of different endpoints run at the same time, on any CPU. Each endpoint has one, so for
 * one endpoint nothing runs twice at once.
 *
 * Locks, outermost first:
 *	kiw_ep.mutex		everything in the endpoint but events; a listener's before that of
 *				a connection that it accepts
 *	kiw_listener.lock	the listener's cm_id, the endpoints on its behalf and their order
 *	kiw_qp.mutex, socket lock, sk_callback_lock
 *	innermost: kiw_device.ep_lock, the lock of the requests' index, and iw_cm's own spinlock,
 *	which its event handler takes and under which it calls nothing that takes one of ours
 *
 * References to an endpoint (kiw_inbox.ref):
 *	- its being alive: from kiw_ep_create() until the work finds it DEAD with nothing left to
 *	  tell. The socket's sk_user_data, the timer, the device's lists, the listener's list and
 *	  the requests' index rely on this one; each is cleared before it is dropped.
 *	- the work while it is queued
 *	- the QP that is bound to it, and the stream while it runs
 *	- the cm_id of a listener, by its provider_data, or the device, by its port
 *	- a downcall while it uses the endpoint
 * An endpoint holds a reference to its listener's until the user has decided.
 */
#ifndef KIWARP_CM_PRIV_H
#define KIWARP_CM_PRIV_H

#include <linux/cred.h>
#include <linux/in6.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/net.h>
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

/* Events of an endpoint beside those of inbox.h */
#define KIW_EP_SOCKET		BIT(16)	/* something happened on the socket: look at it */
#define KIW_EP_TIMER		BIT(17)	/* the timer fired */

/* Seconds that an end may go on without the peer acknowledging anything more, then it is reset. */
#define KIW_CLOSE_SECS		10
/*
 * A user gets this long to accept or reject. No peer waits that long; the limit is there because
 * iw_cm drops requests without a word when their listener goes.
 */
#define KIW_DECIDE_SECS		600
/*
 * A user with as many undecided requests as its backlog gets this long before it is told of one
 * more, in jiffies. rdma_cm refuses requests beyond the backlog, where TCP would have let the peer
 * wait, so that a burst would be answered by rejections.
 */
#define KIW_READY_PATIENCE	(HZ / 2)
/*
 * A complete Request waits this long for those of connections that the same host made earlier, in
 * jiffies from TCP's accept of those: longer than works at either end wait for a CPU, and so short
 * that connections without a Request cost nobody anything.
 */
#define KIW_ORDER_PATIENCE	DIV_ROUND_UP(HZ, 50)

/* What iw_cm is owed; told in rising bit order */
#define KIW_OWED_REPLY		BIT(0)
#define KIW_OWED_ESTABLISHED	BIT(1)
#define KIW_OWED_DISCONNECT	BIT(2)
#define KIW_OWED_CLOSE		BIT(3)

/**
 * enum kiw_end - how to leave a connection
 * @KIW_END_DONE: the stream is at its end already; TCP delivers what it was given
 * @KIW_END_FIN: TCP delivers what it was given; a stream is broken off
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
 * struct kiw_startup - what only the start-up needs
 * @cfg: what this side wants
 * @req: the Request as sent or received
 * @terms: what was agreed on
 * @local: initiator: address to bind; then the connection's own
 * @remote: initiator: address to connect to; then the connection's own
 * @retried: initiator: revision 2 found no answer, this is the attempt with revision 1
 * @reject: responder: the Reply in @out is a rejection
 * @held: responder: the Request is complete, one of an earlier connection has to be told first;
 *	protected by the listener's lock
 * @number: responder: of the connection in the order of TCP's accept
 * @accepted: responder: jiffies at which TCP's connection was accepted
 * @ready: responder: jiffies at which the Request was complete
 * @peer: responder: the peer's address
 * @pd_len: bytes at @pd
 * @tell_len: bytes at @tell
 * @in_have: bytes in @in
 * @out_len: bytes in @out
 * @out_sent: those of them that TCP has taken
 * @tell: the peer's private data for the user, in @in
 * @pd: initiator: the user's private data
 * @in: the peer's frame as it arrives
 * @out: our frame
 */
struct kiw_startup {
	struct kiw_mpa_cfg	cfg;
	struct kiw_mpa_frame	req;
	struct kiw_mpa_result	terms;
	struct sockaddr_storage	local;
	struct sockaddr_storage	remote;
	bool			retried;
	bool			reject;
	bool			held;
	u32			number;
	unsigned long		accepted;
	unsigned long		ready;
	struct in6_addr		peer;
	u16			pd_len;
	u8			tell_len;
	u16			in_have;
	u16			out_len;
	u16			out_sent;
	const u8		*tell;
	u8			pd[KIW_MPA_PD_MAX];
	u8			in[KIW_MPA_FRAME_MAX];
	u8			out[KIW_MPA_FRAME_MAX];
};

/**
 * struct kiw_sk_ops - callbacks of a socket
 * @data_ready: of struct sock
 * @state_change: likewise
 * @write_space: likewise
 */
struct kiw_sk_ops {
	void	(*data_ready)(struct sock *sk);
	void	(*state_change)(struct sock *sk);
	void	(*write_space)(struct sock *sk);
};

/**
 * struct kiw_ep_ops - role of an endpoint
 * @run: go on with the start-up, or with listening, with what happened; the mutex is held
 * @prepare: the endpoint is just made, and not known to anybody yet. May be NULL
 * @leave: the endpoint ends: let go of what is this role's; the mutex is held. May be NULL
 * @size: bytes of its structure, which begins with a struct kiw_ep
 * @initiates: the one that connects
 * @listens: a listener, which has no start-up
 * @quiet: iw_cm doesn't know of it
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
 * @inbox: what happened, references, and the work: the only place where the state machine runs and
 *	iw_cm is called
 * @ops: role
 * @dev: device; exists as long as the endpoint, by its ep_count
 * @dev_link: in @dev->eps; protected by @dev->ep_lock
 * @timer: fires at @deadline, or earlier to try something again
 * @mutex: protects all that follows
 * @state: see above
 * @announced: iw_cm was told, or is owed, a connection: it will be owed its close as well
 * @final: the last that iw_cm is ever to be told is told or owed
 * @retired: the reference for being alive is dropped
 * @hooked: the socket's callbacks are ours
 * @retry: the work has to come back by @again
 * @timed: @deadline is valid
 * @told: @listener's user knows of the request and hasn't decided yet
 * @owed: KIW_OWED_*
 * @ird: for the next event
 * @ord: likewise
 * @status: for KIW_OWED_REPLY
 * @cookie: index in the table of requests, or 0
 * @retransmits: of the connection, those that the device's counter has
 * @acked: TCP's snd_una when @deadline was set, in CLOSING and LINGER
 * @user: in LINGER, the user that made the queue pair
 * @again: jiffies, valid with @retry
 * @deadline: jiffies at which the patience with the current state ends
 * @sock: the connection, or the listening socket
 * @saved: its own callbacks, valid while @hooked
 * @stream: the running connection, reference held
 * @qp: bound QP, reference held
 * @id: iw_cm's side of a connection, reference held; a listener has its own
 * @listener: until the user has decided, reference held, or NULL
 * @wait_link: in @listener->waiting or ->ready unless @told; protected by @listener->lock
 * @su: NULL once the start-up is over and has been told, and in a listener
 */
struct kiw_ep {
	struct kiw_inbox	inbox;
	const struct kiw_ep_ops	*ops;
	struct kiw_device	*dev;
	struct list_head	dev_link;
	struct timer_list	timer;

	struct mutex		mutex;
	enum kiw_ep_state	state;
	bool			announced;
	bool			final;
	bool			retired;
	bool			hooked;
	bool			retry;
	bool			timed;
	bool			told;
	u8			owed;
	u8			ird;
	u8			ord;
	int			status;
	u32			cookie;
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
	struct kiw_listener	*listener;
	struct list_head	wait_link;
	struct kiw_startup	*su;
};

/**
 * struct kiw_listener - listening endpoint
 * @ep: what it has in common with the others; first, so that both are freed alike
 * @lock: protects the rest
 * @serves: role of the endpoints of its connections
 * @id: iw_cm's listening side, reference held, or NULL once it stopped, or if iw_cm has no part in
 *	it
 * @waiting: endpoints without a complete Request, in the order of their numbers
 * @ready: endpoints with a complete Request that the user isn't told of yet, in the order of their
 *	numbers
 * @next_number: for the next connection
 * @num_waiting: how many there are in @waiting and @ready
 * @max_waiting: more are closed as soon as TCP hands them over
 * @num_told: requests that the user hasn't decided on
 * @max_told: the user's backlog; @num_told goes beyond only after %KIW_READY_PATIENCE
 */
struct kiw_listener {
	struct kiw_ep		ep;
	struct mutex		lock;
	const struct kiw_ep_ops	*serves;
	struct iw_cm_id		*id;
	struct list_head	waiting;
	struct list_head	ready;
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
kuid_t kiw_payer(const struct cred *cred);
int kiw_ep_take_sock(struct kiw_ep *ep, struct socket *sock);
void kiw_ep_deadline(struct kiw_ep *ep, unsigned int secs);
void kiw_ep_again(struct kiw_ep *ep, unsigned long when);
void kiw_ep_again_soon(struct kiw_ep *ep);
void kiw_ep_enter(struct kiw_ep *ep, enum kiw_ep_state state);
bool kiw_ep_expired(const struct kiw_ep *ep, unsigned long events);
int kiw_ep_bind_qp(struct kiw_ep *ep, u32 qpn);
void kiw_ep_drop_qp(struct kiw_ep *ep);
void kiw_ep_set_id(struct kiw_ep *ep, struct iw_cm_id *id);
int kiw_ep_open(struct kiw_ep *ep, const struct kiw_mpa_result *terms);
void kiw_ep_established(struct kiw_ep *ep);
void kiw_ep_closing(struct kiw_ep *ep);
void kiw_ep_fail(struct kiw_ep *ep, int status);
void kiw_ep_end(struct kiw_ep *ep, int status, enum kiw_end how);

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
/** kiw_port() - the TCP port that all hosts know */
u16 kiw_port(void);

/** kiw_port_init() - prepare a new device; @serves is the role of its connections' endpoints */
void kiw_port_init(struct kiw_device *dev, const struct kiw_ep_ops *serves);

/** kiw_port_ask() - as kiw_port_settle(), and quicker if the device listens already */
int kiw_port_ask(struct kiw_device *dev);

/**
 * kiw_port_near() - is an address that of another link of this host
 * @dev: device
 * @addr: address
 * @port: gets the port of that link's inner listener, or 0 while there is none
 *
 * Return: whether it is, and can't be reached by a socket that stays on its interface.
 */
bool kiw_port_near(struct kiw_device *dev, const struct in6_addr *addr, u16 *port);

#endif /* KIWARP_CM_PRIV_H */
