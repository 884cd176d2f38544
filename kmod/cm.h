/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connection management: iw_cm endpoints, from TCP connect or listen through the MPA start-up to
 * the end of the connection.
 *
 * An endpoint owns its socket. In full operation the socket's callbacks belong to the stream
 * (stream.h), which tells the endpoint what happened by kiw_ep_notify(); what has to be done about
 * it runs in the endpoint's own work item, so that nothing blocks a caller or another endpoint.
 */
#ifndef KIWARP_CM_H
#define KIWARP_CM_H

#include <linux/bits.h>

struct ib_qp;
struct iw_cm_conn_param;
struct iw_cm_id;
struct kiw_device;
struct kiw_ep;
struct sock;

/* Event bits of an endpoint that others may raise, see kiw_ep_notify(). */
#define KIW_EP_ESTABLISHED	BIT(0)	/* responder: the peer's first message was good */
#define KIW_EP_CLOSING		BIT(1)	/* an orderly end has begun: FIN sent or received */
#define KIW_EP_ENDED		BIT(2)	/* both directions are done, or the stream is dead */

/**
 * kiw_ep_notify() - tell an endpoint what happened to its stream or QP
 * @ep: endpoint; the caller holds a reference or is its stream
 * @events: KIW_EP_* bits
 *
 * Only records the bits and queues the endpoint's work. Any context, also under the socket lock.
 */
void kiw_ep_notify(struct kiw_ep *ep, unsigned long events);

/**
 * kiw_ep_abort() - give up a connection or a connection attempt
 * @ep: endpoint, reference held by the caller
 *
 * Used when the QP is destroyed or moved to error before there is a stream, and when the device
 * goes. The consumer gets the event that it waits for, with an error. Does not wait. Process
 * context.
 */
void kiw_ep_abort(struct kiw_ep *ep);

/**
 * kiw_sock_taken() - does somebody else handle what happens on a socket
 * @sk: socket that has no callbacks of ours; lock held
 *
 * A BPF program may put any socket of TCP into a sockmap as soon as it is connected. Callbacks and
 * operations of the socket are the map's then: both would lose what the other takes.
 *
 * Return: whether there is somebody.
 */
bool kiw_sock_taken(const struct sock *sk);

void kiw_ep_get(struct kiw_ep *ep);
void kiw_ep_put(struct kiw_ep *ep);

/* iw_cm operations of the device; see struct ib_device_ops. */
int kiw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int kiw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int kiw_reject(struct iw_cm_id *id, const void *pdata, u8 pdata_len);
int kiw_create_listen(struct iw_cm_id *id, int backlog);
int kiw_destroy_listen(struct iw_cm_id *id);

/**
 * kiw_cm_abort_device() - end every connection, attempt and listener of a device
 * @dev: device that goes, for whatever reason, with ep_closed set
 *
 * Returns when all of them let go of their sockets; one that is just being made does so in its
 * downcall. Waits for nothing but the connection manager's work. Process context.
 */
void kiw_cm_abort_device(struct kiw_device *dev);

int kiw_cm_init(void);
void kiw_cm_exit(void);

#endif /* KIWARP_CM_H */
