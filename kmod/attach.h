/* SPDX-License-Identifier: GPL-2.0 */
/* The beginning and the end of a stream: a queue pair and a connection come together, and part. */
#ifndef KIWARP_ATTACH_H
#define KIWARP_ATTACH_H

#include "qp.h"
#include "stream.h"

struct socket;

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

/** kiw_stream_of() - take a reference to the stream of a QP; NULL when it has none */
static inline struct kiw_stream *kiw_stream_of(struct kiw_qp *qp)
{
	return kiw_stream_find(&qp->stream);
}

/**
 * kiw_stream_start() - begin full operation on a connection
 * @qp: QP bound to the endpoint, still idle
 * @inbox: of the endpoint, which has taken its own callbacks off the socket
 * @sock: connected socket; stays the endpoint's, but nobody else may touch it until
 *	kiw_stream_stop()
 * @neg: outcome of the MPA start-up
 * @first: we don't wait for the peer's first FPDU, as the initiator doesn't; we then send the RTR
 *	message, if one was agreed on
 * @attached: called when the QP has the stream; its mutex is held
 *
 * Moves the QP to RTS, takes the socket's callbacks and looks at what has arrived. May sleep.
 *
 * Return: the stream with a reference for the caller, -ENOMEM, -EISCONN when the QP isn't idle any
 * more (moved to error, say), or -EBUSY when the socket is somebody else's, see kiw_sock_taken().
 */
struct kiw_stream *kiw_stream_start(struct kiw_qp *qp, struct kiw_inbox *inbox, struct socket *sock,
				    const struct kiw_mpa_result *neg, bool first,
				    void (*attached)(struct kiw_qp *qp));

/**
 * kiw_stream_stop() - end full operation
 * @s: stream
 * @orderly: the connection came to its regular end; otherwise a QP that still works goes to the
 *	error state
 *
 * Gives the socket its callbacks back, detaches the QP, moves it to its final state and flushes
 * what is left in its queues. When it returns no callback or work of the stream runs any more, and
 * the socket is the endpoint's alone: to be kept until TCP has delivered what it holds if @fin_sent
 * is set, else to be reset. Idempotent. May sleep, takes the QP's mutex.
 */
void kiw_stream_stop(struct kiw_stream *s, bool orderly);

/**
 * kiw_stream_call_back() - TCP is not to have pages of a process any more
 * @s: stream
 *
 * May sleep. Afterwards only packets that are on their way have some (lend.h). The connection goes
 * on, unless there is no memory for copies.
 */
void kiw_stream_call_back(struct kiw_stream *s);

#endif /* KIWARP_ATTACH_H */
