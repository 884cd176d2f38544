/* SPDX-License-Identifier: GPL-2.0 */
/* Attach a connection to a queue pair as its stream, and detach it. */
#ifndef KIWARP_ATTACH_H
#define KIWARP_ATTACH_H

#include "qp.h"
#include "stream.h"

struct socket;

/**
 * kiw_sock_taken() - does another user own the socket
 * @sk: socket without callbacks of ours; lock held
 *
 * A BPF program may put any TCP socket into a sockmap once it is connected. Then the map owns its
 * callbacks and operations: each user would lose the data that the other reads.
 *
 * Return: true: another user owns it.
 */
bool kiw_sock_taken(const struct sock *sk);

static inline struct kiw_stream *kiw_stream_of(struct kiw_qp *qp)
{
	return kiw_stream_find(&qp->stream);
}

/**
 * kiw_stream_new() - allocate the stream of a connection
 * @qp: QP bound to the endpoint
 * @sock: connected socket; the stream holds its struct sock
 * @neg: outcome of the MPA start-up
 *
 * A QP keeps its manner while it is bound; kiw_stream_start() refuses one that no longer is.
 *
 * Return: the stream, referenced for the caller, or NULL.
 */
struct kiw_stream *kiw_stream_new(struct kiw_qp *qp, struct socket *sock,
				  const struct kiw_mpa_result *neg);

/**
 * kiw_stream_start() - begin full operation on a connection
 * @s: new stream
 * @qp: QP bound to the endpoint, still idle
 * @inbox: of the endpoint, which has restored the socket's own callbacks
 * @sock: connected socket; stays the endpoint's, but only the stream uses it until
 *	kiw_stream_stop()
 * @first: do not wait for the peer's first FPDU, as an initiator; sends the RTR message, if agreed
 * @attached: called when the QP has the stream; its mutex is held
 *
 * Moves the QP to RTS, sets the socket's callbacks and handles received data. May sleep.
 *
 * Return: 0; -EISCONN: the QP is no longer idle, such as in error; -EBUSY: another user owns the
 * socket, see kiw_sock_taken().
 */
int kiw_stream_start(struct kiw_stream *s, struct kiw_qp *qp, struct kiw_inbox *inbox,
		     struct socket *sock, bool first, void (*attached)(struct kiw_qp *qp));

/**
 * kiw_stream_stop() - end full operation
 * @s: stream
 * @orderly: the connection ended regularly; otherwise a working QP enters the error state
 *
 * Restores the socket's callbacks, detaches the QP, moves it to its final state and flushes its
 * queues. Afterwards no callback or work of the stream runs, and the socket is the endpoint's
 * alone: to keep until TCP has delivered its data if @fin_sent is set, else to reset. Idempotent.
 * May sleep, takes the QP's mutex.
 */
void kiw_stream_stop(struct kiw_stream *s, bool orderly);

/**
 * kiw_stream_call_back() - take back all pages of a process from TCP
 * @s: stream
 *
 * May sleep. Afterwards only packets on their way hold pages (lend.h). The connection goes on,
 * unless there is no memory for copies.
 */
void kiw_stream_call_back(struct kiw_stream *s);

#endif /* KIWARP_ATTACH_H */
