/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connection management: iw_cm endpoints, from TCP connect or listen through the MPA start-up to
 * the end of the connection.
 *
 * An endpoint owns its socket. In full operation the socket's callbacks belong to the stream
 * (stream.h), which posts events to the endpoint's inbox (inbox.h). The endpoint's own work item
 * handles them, so nothing blocks a caller or another endpoint.
 */
#ifndef KIWARP_CM_H
#define KIWARP_CM_H

#include <linux/types.h>

/* States of an endpoint, see priv.h */
enum kiw_ep_state {
	KIW_ST_NEW,		/* its downcall has not returned */
	KIW_ST_LISTEN,
	KIW_ST_DIAL_WAIT,	/* initiator: between two attempts */
	KIW_ST_CONNECTING,	/* initiator: SYN sent */
	KIW_ST_REPLY_WAIT,	/* initiator: Request (being) sent */
	KIW_ST_REQUEST_WAIT,	/* responder: accepted by TCP */
	KIW_ST_REQUEST_READY,	/* responder: Request complete, not reported yet */
	KIW_ST_REQUESTED,	/* responder: the user decides */
	KIW_ST_REPLY_SEND,	/* responder: part of the Reply waits for room */
	/* from here on the start-up is over */
	KIW_ST_RTR_WAIT,	/* responder: stream runs, awaits the RTR message */
	KIW_ST_OPEN,
	KIW_ST_CLOSING,		/* a FIN was sent or received */
	KIW_ST_LINGER,		/* stream is gone, FIN not acknowledged yet */
	KIW_ST_DEAD,
};

struct iw_cm_conn_param;
struct iw_cm_id;
struct kiw_device;
struct kiw_inbox;

/* iw_cm operations of the device; see struct ib_device_ops. */
int kiw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int kiw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int kiw_reject(struct iw_cm_id *id, const void *pdata, u8 pdata_len);
int kiw_create_listen(struct iw_cm_id *id, int backlog);
int kiw_destroy_listen(struct iw_cm_id *id);

/**
 * kiw_cm_abort_device() - end all connections, attempts and listeners of a device
 * @dev: device that goes, with ep_closed set
 *
 * Returns when all have released their sockets; a downcall that is creating one releases it itself.
 * Waits only for the connection manager's work. Process context.
 */
void kiw_cm_abort_device(struct kiw_device *dev);

/** kiw_ep_release() - free an endpoint without references; for kiw_inbox_start() */
void kiw_ep_release(struct kiw_inbox *inbox);

void kiw_cm_exit(void);

#endif /* KIWARP_CM_H */
