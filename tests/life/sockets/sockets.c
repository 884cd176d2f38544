// SPDX-License-Identifier: GPL-2.0
/*
 * What others may do to sockets of TCP while they are kiwarp's, for tests. It acts on a socket of
 * the caller's network namespace, by its local port:
 *	kill		ends it, as `ss -K` does
 *	hold		has its lock until a signal comes, as a process may that gets no CPU
 *	take		puts a mark into sk_user_data of the connections that a listener gets
 *			before they are accepted, as a BPF program does for a sockmap
 * Loading fails but for the last, which goes on until it is unloaded.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched/signal.h>
#include <net/inet_connection_sock.h>
#include <net/inet_hashtables.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

static char *what = "kill";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "kill, hold or take");

static ushort port;
module_param(port, ushort, 0);
MODULE_PARM_DESC(port, "the socket's local port");

static bool listening;
module_param(listening, bool, 0);
MODULE_PARM_DESC(listening, "whether a listener is meant, or a connection");

static uint done;
module_param(done, uint, 0444);
MODULE_PARM_DESC(done, "how often it was done");

/* What sk_user_data of a socket that was taken points to */
static u64 mark;
static struct sock *sk;
static void (*saved_data_ready)(struct sock *sk);

static bool is_meant(const struct sock *at)
{
	return net_eq(sock_net(at), current->nsproxy->net_ns) && at->sk_num == port;
}

static struct sock *find(const struct hlist_nulls_head *head, int state)
{
	const struct hlist_nulls_node *node;
	struct sock *at;

	sk_nulls_for_each_rcu(at, node, head) {
		if (inet_sk_state_load(at) == state && is_meant(at) &&
		    refcount_inc_not_zero(&at->sk_refcnt))
			return at;
	}
	return NULL;
}

static struct sock *find_any(const struct inet_hashinfo *hashes)
{
	struct sock *at = NULL;
	unsigned int i;

	rcu_read_lock();
	if (listening) {
		for (i = 0; !at && i <= hashes->lhash2_mask; i++)
			at = find(&hashes->lhash2[i].nulls_head, TCP_LISTEN);
	} else {
		for (i = 0; !at && i <= hashes->ehash_mask; i++)
			at = find(&hashes->ehash[i].chain, TCP_ESTABLISHED);
	}
	rcu_read_unlock();
	return at;
}

static void hold(void)
{
	lock_sock(sk);
	WRITE_ONCE(done, 1);
	while (!signal_pending(current))
		msleep_interruptible(1000);
	release_sock(sk);
}

/* Also of the sockets that TCP makes for the listener, which have the same callbacks */
static void data_ready(struct sock *listener)
{
	struct request_sock_queue *queue = &inet_csk(listener)->icsk_accept_queue;
	struct request_sock *req;

	if (inet_sk_state_load(listener) != TCP_LISTEN) {
		saved_data_ready(listener);
		return;
	}
	spin_lock_bh(&queue->rskq_lock);
	for (req = queue->rskq_accept_head; req; req = req->dl_next) {
		if (!rcu_access_pointer(__sk_user_data(req->sk))) {
			__rcu_assign_sk_user_data_with_flags(req->sk, &mark, SK_USER_DATA_NOCOPY |
							     SK_USER_DATA_PSOCK);
			WRITE_ONCE(done, done + 1);
		}
	}
	spin_unlock_bh(&queue->rskq_lock);
	saved_data_ready(listener);
}

static void set_data_ready(void (*to)(struct sock *sk))
{
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_data_ready, to);
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
}

static int __init sockets_init(void)
{
	sk = find_any(current->nsproxy->net_ns->ipv4.tcp_death_row.hashinfo);
	if (!sk)
		return -ENOENT;
	if (!strcmp(what, "take")) {
		saved_data_ready = sk->sk_data_ready;
		set_data_ready(data_ready);
		return 0;
	}
	if (!strcmp(what, "hold"))
		hold();
	else
		tcp_abort(sk, ECONNABORTED);
	sock_put(sk);
	return -EAGAIN;
}
module_init(sockets_init);

static void __exit sockets_exit(void)
{
	set_data_ready(saved_data_ready);
	/* TCP calls it without the lock. */
	synchronize_net();
	sock_put(sk);
}
module_exit(sockets_exit);

MODULE_DESCRIPTION("Others at kiwarp's sockets, for tests");
MODULE_LICENSE("GPL");
