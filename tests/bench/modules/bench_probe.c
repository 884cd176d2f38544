// SPDX-License-Identifier: GPL-2.0
/*
 * The upper bound of a path over TCP that copies once: messages go from one kernel
 * socket to another, sent as the pages they are (MSG_SPLICE_PAGES), and placed by one
 * copy in TCP's receive callback. There is no protocol, no check and no completion.
 *
 * Two processes write one line each to /dev/bench_probe, in the network namespaces
 * where their sockets are to be:
 *
 *	receive PORT OCTETS			until the sender closes
 *	send ADDRESS PORT OCTETS MESSAGES	the descriptor then reads "OCTETS NANOSECONDS"
 *
 * The time ends when the last octet is placed. There is one receiver at a time.
 */
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/in.h>
#include <linux/inet.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <net/sock.h>
#include <net/tcp.h>

#define MESSAGE_MAX (1 << 20)
#define PATIENCE (60 * HZ)
/*
 * Octets, doubled by the kernel. TCP's own choice begins with room for one segment of the greatest
 * MTU, each of which is then acknowledged by a timer.
 */
#define RECEIVE_BUFFER (2 << 20)

struct answer {
	char text[64];
	size_t length;
};

static struct {
	struct mutex busy;
	wait_queue_head_t wait;
	/* Under the receiving socket's lock */
	u8 *memory;
	size_t octets;
	size_t at;
	/* Written there, read by the sender */
	u64 placed;
	u64 expected;
} receiver = {
	.busy = __MUTEX_INITIALIZER(receiver.busy),
	.wait = __WAIT_QUEUE_HEAD_INITIALIZER(receiver.wait),
};

static int place(read_descriptor_t *desc, struct sk_buff *skb, unsigned int offset, size_t len)
{
	struct skb_seq_state walk;
	size_t done = 0, n;
	const u8 *p;

	skb_prepare_seq_read(skb, offset, offset + len, &walk);
	while ((n = skb_seq_read(done, &p, &walk))) {
		/* It stops behind the end, but what it returns may go beyond. */
		n = min(n, len - done);
		done += n;
		while (n) {
			const size_t run = min(n, receiver.octets - receiver.at);

			memcpy(receiver.memory + receiver.at, p, run);
			receiver.at += run;
			if (receiver.at == receiver.octets)
				receiver.at = 0;
			p += run;
			n -= run;
		}
	}
	return done;
}

/* Takes what has arrived; the caller holds the socket's lock. */
static void take(struct sock *sk)
{
	read_descriptor_t desc = { .count = 1 };
	const int n = tcp_read_sock(sk, &desc, place);

	if (n <= 0)
		return;
	WRITE_ONCE(receiver.placed, receiver.placed + n);
	if (receiver.placed == READ_ONCE(receiver.expected))
		wake_up(&receiver.wait);
}

static void data_ready(struct sock *sk)
{
	read_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_user_data)
		take(sk);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void state_change(struct sock *sk)
{
	wake_up(&receiver.wait);
}

/* Before the socket is released: its end would call into freed memory */
static void set_callbacks(struct sock *sk, void *user, void (*ready)(struct sock *sk),
			  void (*change)(struct sock *sk))
{
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = user;
	sk->sk_data_ready = ready;
	sk->sk_state_change = change;
	write_unlock_bh(&sk->sk_callback_lock);
}

static int receive_from(struct socket *socket)
{
	struct sock *sk = socket->sk;
	void (*ready)(struct sock *sk) = sk->sk_data_ready;
	void (*change)(struct sock *sk) = sk->sk_state_change;
	long ret;

	set_callbacks(sk, &receiver, data_ready, state_change);
	lock_sock(sk);
	take(sk);
	release_sock(sk);
	ret = wait_event_interruptible_timeout(receiver.wait,
					       READ_ONCE(sk->sk_state) != TCP_ESTABLISHED,
					       PATIENCE);
	set_callbacks(sk, NULL, ready, change);
	return ret < 0 ? ret : ret ? 0 : -ETIMEDOUT;
}

static int new_socket(struct socket **socket)
{
	struct net *net = current->nsproxy->net_ns;

	return sock_create_kern(net, AF_INET, SOCK_STREAM, IPPROTO_TCP, socket);
}

static int listen_and_receive(u16 port)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct socket *listener, *socket;
	int ret;

	ret = new_socket(&listener);
	if (ret)
		return ret;
	sock_set_reuseaddr(listener->sk);
	sock_set_rcvbuf(listener->sk, RECEIVE_BUFFER);
	ret = kernel_bind(listener, (void *)&here, sizeof(here));
	if (!ret)
		ret = kernel_listen(listener, 1);
	if (!ret)
		ret = kernel_accept(listener, &socket, 0);
	if (!ret) {
		ret = receive_from(socket);
		sock_release(socket);
	}
	sock_release(listener);
	return ret;
}

static int receive(u16 port, size_t octets)
{
	int ret;

	if (!mutex_trylock(&receiver.busy))
		return -EBUSY;
	receiver.memory = kvzalloc(octets, GFP_KERNEL);
	receiver.octets = octets;
	receiver.at = 0;
	receiver.placed = 0;
	ret = receiver.memory ? listen_and_receive(port) : -ENOMEM;
	kvfree(receiver.memory);
	receiver.memory = NULL;
	mutex_unlock(&receiver.busy);
	return ret;
}

static int send_message(struct socket *socket, struct bio_vec *pages, size_t octets)
{
	struct msghdr msg = { .msg_flags = MSG_SPLICE_PAGES };
	int ret;

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, pages, octets / PAGE_SIZE, octets);
	while (msg_data_left(&msg)) {
		ret = sock_sendmsg(socket, &msg);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int send_all(struct socket *socket, struct bio_vec *pages, size_t octets,
		    unsigned int messages, struct answer *answer)
{
	const u64 total = (u64)octets * messages;
	const ktime_t start = ktime_get();
	long ret;

	WRITE_ONCE(receiver.expected, total);
	while (messages--) {
		ret = send_message(socket, pages, octets);
		if (ret)
			return ret;
	}
	ret = wait_event_interruptible_timeout(receiver.wait, READ_ONCE(receiver.placed) >= total,
					       PATIENCE);
	if (ret <= 0)
		return ret ?: -ETIMEDOUT;
	answer->length = scnprintf(answer->text, sizeof(answer->text), "%llu %lld\n", total,
				   ktime_to_ns(ktime_sub(ktime_get(), start)));
	return 0;
}

static int connect_and_send(__be32 address, u16 port, struct bio_vec *pages, size_t octets,
			    unsigned int messages, struct answer *answer)
{
	struct sockaddr_in there = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = address,
	};
	struct socket *socket;
	int ret;

	ret = new_socket(&socket);
	if (ret)
		return ret;
	tcp_sock_set_nodelay(socket->sk);
	ret = kernel_connect(socket, (void *)&there, sizeof(there), 0);
	if (!ret)
		ret = send_all(socket, pages, octets, messages, answer);
	sock_release(socket);
	return ret;
}

static int send(__be32 address, u16 port, size_t octets, unsigned int messages,
		struct answer *answer)
{
	const size_t count = octets / PAGE_SIZE;
	struct bio_vec *pages;
	int ret = -ENOMEM;
	size_t i, made;

	pages = kcalloc(count, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (made = 0; made < count; made++) {
		struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

		if (!page)
			goto free;
		bvec_set_page(&pages[made], page, PAGE_SIZE, 0);
	}
	ret = connect_and_send(address, port, pages, octets, messages, answer);
free:
	/* What TCP still has in its queues keeps a reference of its own. */
	for (i = 0; i < made; i++)
		put_page(pages[i].bv_page);
	kfree(pages);
	return ret;
}

static int probe_open(struct inode *inode, struct file *file)
{
	struct answer *answer = kzalloc(sizeof(*answer), GFP_KERNEL);

	file->private_data = answer;
	return answer ? 0 : -ENOMEM;
}

static int probe_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static bool usable(unsigned int port, unsigned int octets)
{
	return port && port <= U16_MAX && octets && octets <= MESSAGE_MAX &&
	       octets % PAGE_SIZE == 0;
}

static ssize_t probe_write(struct file *file, const char __user *from, size_t n, loff_t *pos)
{
	unsigned int port, octets, messages;
	char line[64], address[16];
	int ret = -EINVAL;

	if (n >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, n))
		return -EFAULT;
	line[n] = '\0';
	if (sscanf(line, "receive %u %u", &port, &octets) == 2) {
		if (usable(port, octets))
			ret = receive(port, octets);
	} else if (sscanf(line, "send %15s %u %u %u", address, &port, &octets, &messages) == 4) {
		if (usable(port, octets) && messages)
			ret = send(in_aton(address), port, octets, messages,
				   file->private_data);
	}
	/* A signal ends the call: there is nothing to begin anew. */
	if (ret == -ERESTARTSYS)
		ret = -EINTR;
	return ret ?: n;
}

static ssize_t probe_read(struct file *file, char __user *to, size_t n, loff_t *pos)
{
	struct answer *answer = file->private_data;
	loff_t start = 0;
	ssize_t ret = simple_read_from_buffer(to, n, &start, answer->text, answer->length);

	if (ret > 0)
		answer->length = 0;
	return ret;
}

static const struct file_operations probe_fops = {
	.owner = THIS_MODULE,
	.open = probe_open,
	.release = probe_release,
	.write = probe_write,
	.read = probe_read,
};

static struct miscdevice probe_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "bench_probe",
	.fops = &probe_fops,
	.mode = 0600,
};
module_misc_device(probe_device);

MODULE_DESCRIPTION("Upper bound for messages over TCP that are copied once");
MODULE_LICENSE("GPL");
