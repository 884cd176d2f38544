// SPDX-License-Identifier: GPL-2.0
/*
 * A request becomes a datagram, or several, in memory of ours: nobody can change what a CRC covers.
 * UDP is called without waiting. Once it has the last, the request is complete; where datagrams get
 * is nobody's promise.
 */
#include "ud_tx.h"

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/moduleparam.h>
#include <linux/socket.h>
#include <net/sock.h>

#include "builder.h"
#include "cqe.h"
#include "gid.h"
#include "qp.h"
#include "ud.h"
#include "proto/dgram.h"

/* What verbs have for the number of a group's queue pairs */
#define UDTX_GROUP_QPN 0xffffff

static int udtx_set_port(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, U16_MAX);
}

/* Neither an ephemeral port nor one that anybody has had assigned */
static const struct kernel_param_ops port_ops = { .set = udtx_set_port, .get = param_get_uint };
static unsigned int group_port = 64791;
module_param_cb(group_port, &port_ops, &group_port, 0644);
MODULE_PARM_DESC(group_port,
		 "UDP port of datagrams to groups, the same on all hosts (default: 64791)");

u16 kiw_ud_group_port(void)
{
	return READ_ONCE(group_port);
}

/* --- where to ------------------------------------------------------------------------------- */

/*
 * struct udtx_path - addresses of a datagram, as a socket takes them
 * @to: destination
 * @to_len: bytes of it
 * @control: source, hop limit and traffic class
 * @control_len: bytes of them
 */
struct udtx_path {
	union {
		struct sockaddr_in	four;
		struct sockaddr_in6	six;
	} to;
	int	to_len;
	u8	control[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int))]
		__aligned(__alignof__(struct cmsghdr));
	u32	control_len;
};

static void udtx_control(struct udtx_path *path, int level, int type, const void *data, u32 len)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(path->control + path->control_len);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), data, len);
	path->control_len += CMSG_SPACE(len);
}

static void udtx_control_int(struct udtx_path *path, int level, int type, int value)
{
	if (value)
		udtx_control(path, level, type, &value, sizeof(value));
}

static void udtx_path_ipv4(struct udtx_path *path, u16 port, __be32 from, __be32 to)
{
	struct in_pktinfo info = { .ipi_spec_dst.s_addr = from };

	path->to.four.sin_family = AF_INET;
	path->to.four.sin_port = htons(port);
	path->to.four.sin_addr.s_addr = to;
	path->to_len = sizeof(path->to.four);
	udtx_control(path, SOL_IP, IP_PKTINFO, &info, sizeof(info));
}

/* A socket of IPv6 takes mapped addresses. The scope is that of the interface it is bound to. */
static void udtx_path_ipv6(struct udtx_path *path, u16 port, int ifindex,
			   const struct in6_addr *from, const struct in6_addr *to)
{
	struct in6_pktinfo info = { .ipi6_addr = *from };

	path->to.six.sin6_family = AF_INET6;
	path->to.six.sin6_port = htons(port);
	path->to.six.sin6_addr = *to;
	if (ipv6_addr_type(to) & IPV6_ADDR_LINKLOCAL)
		path->to.six.sin6_scope_id = ifindex;
	path->to_len = sizeof(path->to.six);
	udtx_control(path, SOL_IPV6, IPV6_PKTINFO, &info, sizeof(info));
}

/* Return: false if the request names no destination, or no source that fits. */
static bool udtx_path(struct kiw_ud *ud, struct udtx_path *path)
{
	const struct kiw_ud_dest *dest = &ud->req.dest;
	struct kiw_device *dev = ud->qp->dev;
	struct in6_addr from, to;
	u32 port = dest->qpn;

	memset(path, 0, sizeof(*path));
	memcpy(&to, dest->dgid, sizeof(to));
	if (port == UDTX_GROUP_QPN)
		port = kiw_ud_group_port();
	if (!port || port > U16_MAX || !kiw_gid_path(dev, dest->sgid_index, &to, &from))
		return false;
	if (ud->sock->sk->sk_family == AF_INET6)
		udtx_path_ipv6(path, port, dev->ifindex, &from, &to);
	else if (ipv6_addr_v4mapped(&to))
		udtx_path_ipv4(path, port, from.s6_addr32[3], to.s6_addr32[3]);
	else
		return false;

	if (ipv6_addr_v4mapped(&to)) {
		udtx_control_int(path, SOL_IP, IP_TTL, dest->hop_limit);
		udtx_control_int(path, SOL_IP, IP_TOS, dest->traffic_class);
	} else {
		udtx_control_int(path, SOL_IPV6, IPV6_HOPLIMIT, dest->hop_limit);
		udtx_control_int(path, SOL_IPV6, IPV6_TCLASS, dest->traffic_class);
	}
	return true;
}

/* --- one datagram --------------------------------------------------------------------------- */

/*
 * Put @n bytes of the request's payload, from @skip on, into the datagram. Return: 0, -ENOMEM or
 * -EFAULT.
 */
static int udtx_put_payload(struct kiw_ud *ud, struct kiw_builder *f, u32 skip, u32 n)
{
	const struct kiw_send_req *req = &ud->req;
	enum kiw_region_fault fault;
	const struct kiw_sge *sge;
	int ret = 0;
	u32 part;

	if (req->wqe.flags & KIW_WQE_INLINE)
		return kiw_fpdu_put(f, req->inline_data + skip, n);
	for (sge = req->sge; !ret && n; sge++) {
		if (skip >= sge->length) {
			skip -= sge->length;
			continue;
		}
		part = min(n, sge->length - skip);
		ret = kiw_fpdu_put_region(f, sge->lkey, 0, sge->addr + skip, part, &fault);
		n -= part;
		skip = 0;
	}
	return ret;
}

static bool udtx_is_write(const struct kiw_ud *ud)
{
	return ud->req.wqe.opcode == KIW_WR_WRITE;
}

/* Is the destination one that several receive at? That of a subnet's broadcast the target sees. */
static bool udtx_to_group(const struct kiw_ud_dest *dest)
{
	const struct in6_addr *to = (const struct in6_addr *)dest->dgid;

	if (dest->qpn == UDTX_GROUP_QPN)
		return true;
	if (!ipv6_addr_v4mapped(to))
		return ipv6_addr_is_multicast(to);
	return ipv4_is_multicast(to->s6_addr32[3]) || ipv4_is_lbcast(to->s6_addr32[3]);
}

/* The Write that was taken; more bytes than segments have room for make them longer. */
static struct kiw_dgram_write udtx_write(const struct kiw_ud *ud)
{
	return (struct kiw_dgram_write){
		.stag = ud->req.wqe.rkey,
		.to = ud->req.wqe.remote_addr,
		.id = ud->write_id,
		.length = ud->req.len,
		.seg_size = max_t(u32, ud->seg_size,
				  DIV_ROUND_UP(ud->req.len, KIW_DGRAM_MAX_SEGS)),
	};
}

/* Controlled keys, which have the top bit set, only privileged programs can give to a QP. */
static u32 udtx_qkey(const struct kiw_ud *ud)
{
	return ud->req.dest.qkey & BIT(31) ? READ_ONCE(ud->qkey) : ud->req.dest.qkey;
}

/*
 * Write the header of the next datagram. Return: its length, and in @payload how many bytes follow;
 * or 0, and in @payload the request's status.
 */
static u32 udtx_build_header(struct kiw_ud *ud, u8 *hdr, u32 *payload)
{
	const struct kiw_send_req *req = &ud->req;
	struct kiw_dgram_write w;

	*payload = IB_WC_LOC_QP_OP_ERR;
	if (memchr_inv(req->dest.reserved, 0, sizeof(req->dest.reserved)))
		return 0;
	if (req->wqe.opcode == KIW_WR_SEND) {
		*payload = req->len;
		if (req->len <= KIW_UD_MAX_MSG)
			return kiw_dgram_build(hdr, req->wqe.flags & KIW_WQE_SOLICITED,
					       udtx_qkey(ud), ud->msn);
		*payload = IB_WC_LOC_LEN_ERR;
		return 0;
	}
	if (!udtx_is_write(ud) || udtx_to_group(&req->dest) ||
	    req->wqe.remote_addr + req->len < req->len)
		return 0;
	w = udtx_write(ud);
	if (w.seg_size > KIW_DGRAM_MAX_SEG) {
		*payload = IB_WC_LOC_LEN_ERR;
		return 0;
	}
	*payload = kiw_dgram_seg_len(&w, ud->write_done);
	return kiw_dgram_build_write(hdr, &w, ud->write_done, udtx_qkey(ud));
}

/* Return: the request's status, or -ENOMEM. */
static int udtx_build(struct kiw_ud *ud)
{
	struct kiw_builder f = {
		.batch = &ud->batch,
		.qp = ud->qp,
		.gfp = ud->sock->sk->sk_allocation,
	};
	u8 hdr[KIW_DGRAM_HDR_MAX];
	u32 hdr_len, payload;
	int ret;

	BUILD_BUG_ON(KIW_UD_MAX_MSG != KIW_DGRAM_MAX_MSG);
	hdr_len = udtx_build_header(ud, hdr, &payload);
	if (!hdr_len)
		return payload;
	ret = kiw_fpdu_begin_datagram(&f, hdr, hdr_len);
	if (!ret)
		ret = udtx_put_payload(ud, &f, ud->write_done, payload);
	if (!ret)
		ret = kiw_fpdu_end_datagram(&f);
	if (ret)
		kiw_fpdu_undo(&f);
	return ret == -EFAULT ? IB_WC_LOC_PROT_ERR : ret;
}

/* Return: what UDP says. */
static int udtx_hand_over(struct kiw_ud *ud, struct udtx_path *path)
{
	const struct kiw_batch *b = &ud->batch;
	struct msghdr msg = {
		.msg_name = &path->to,
		.msg_namelen = path->to_len,
		.msg_control = path->control,
		.msg_controllen = path->control_len,
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
	};

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, b->mem.piece, b->pieces, b->len);
	return sock_sendmsg(ud->sock, &msg);
}

/*
 * Send the request that was taken. Return: its status; or -EAGAIN when UDP has no room, or -ENOMEM:
 * what was built then stays.
 */
static int udtx_send_one(struct kiw_ud *ud)
{
	struct kiw_stats *stats = &ud->qp->dev->stats;
	struct udtx_path path;
	int ret;

	if (!ud->batch.len) {
		ret = udtx_build(ud);
		if (ret)
			return ret;
	}
	if (!udtx_path(ud, &path))
		return IB_WC_LOC_QP_OP_ERR;
	ret = udtx_hand_over(ud, &path);
	if (ret == -EAGAIN || ret == -ENOMEM)
		return ret;
	if (ret == -ENOBUFS)	/* so UDP says, too, when there is no memory */
		return -ENOMEM;
	if (ret < 0)		/* no way leads there, or a packet filter doesn't want it */
		return IB_WC_GENERAL_ERR;
	kiw_traffic_sent(stats, ud->batch.len, 1);
	ud->msn += !udtx_is_write(ud);
	return IB_WC_SUCCESS;
}

void kiw_ud_unsend(struct kiw_ud *ud)
{
	lockdep_assert_held(&ud->qp->mutex);
	kiw_batch_clear(&ud->batch);
	if (ud->taken && udtx_is_write(ud))
		ud->write_id++;
	ud->write_done = 0;
	ud->taken = false;
}

/* UDP has taken a datagram. Return: whether there is more of the request. */
static bool udtx_more(struct kiw_ud *ud)
{
	struct kiw_dgram_write w;

	if (!udtx_is_write(ud))
		return false;
	w = udtx_write(ud);
	ud->write_done += kiw_dgram_seg_len(&w, ud->write_done);
	kiw_batch_clear(&ud->batch);
	return ud->write_done < ud->req.len;
}

/* --- the ring ------------------------------------------------------------------------------- */

/*
 * UDP had no room. Return: whether it has now, and calls back no more. Either the callback sees the
 * flag, or we see what it made room of.
 */
static bool udtx_stall(struct kiw_ud *ud)
{
	const struct sock *sk = ud->sock->sk;

	WRITE_ONCE(ud->stalled, true);
	smp_mb();	/* pairs with that of the write-space callback */
	return sk_wmem_alloc_get(sk) < READ_ONCE(sk->sk_sndbuf);
}

/* Return: KIW_UD_SENT_SOME if there may be more to send. */
static enum kiw_ud_sent udtx_next(struct kiw_ud *ud)
{
	struct kiw_sq *sq = &ud->qp->sq;
	int status;

	if (!ud->taken) {
		switch (kiw_sq_take(sq, &ud->req)) {
		case KIW_TAKE_NONE:
			return KIW_UD_SENT_ALL;
		case KIW_TAKE_ONE:
			ud->taken = true;
			break;
		case KIW_TAKE_BAD:
			kiw_sq_done(sq, ud->req.index, IB_WC_LOC_QP_OP_ERR);
			return KIW_UD_SENT_SOME;
		case KIW_TAKE_RING:
			kiw_stat_inc(&ud->qp->dev->stats, KIW_STAT_RING_ERRORS);
			return KIW_UD_SENT_BROKEN;
		}
	}
	status = udtx_send_one(ud);
	if (status == -EAGAIN)
		return KIW_UD_SENT_STALLED;
	if (status == -ENOMEM)
		return KIW_UD_SENT_STARVED;
	if (status == IB_WC_SUCCESS && udtx_more(ud))
		return KIW_UD_SENT_SOME;
	kiw_ud_unsend(ud);
	kiw_sq_done(sq, ud->req.index, status);
	return KIW_UD_SENT_SOME;
}

static enum kiw_ud_sent udtx_run(struct kiw_ud *ud, int budget)
{
	struct kiw_sq *sq = &ud->qp->sq;
	enum kiw_ud_sent sent = KIW_UD_SENT_SOME;

	WRITE_ONCE(ud->stalled, false);
	kiw_sq_flag(sq, KIW_RING_DRAINING);
	while (sent == KIW_UD_SENT_SOME && budget--) {
		sent = udtx_next(ud);
		if (sq->next - sq->done >= KIW_CQE_BATCH || sent != KIW_UD_SENT_SOME) {
			if (!kiw_sq_complete(ud->qp))
				return KIW_UD_SENT_BROKEN;
		}
		if (sent == KIW_UD_SENT_ALL && kiw_sq_rest(sq)) {
			kiw_sq_flag(sq, KIW_RING_DRAINING);
			sent = KIW_UD_SENT_SOME;
		}
	}
	if (sent == KIW_UD_SENT_STALLED && udtx_stall(ud))
		sent = KIW_UD_SENT_SOME;
	return sent;
}

enum kiw_ud_sent kiw_ud_send(struct kiw_ud *ud, int budget)
{
	enum kiw_ud_sent sent = KIW_UD_SENT_STARVED;

	lockdep_assert_held(&ud->qp->mutex);
	if (kiw_batch_begin(&ud->batch, ud->sock->sk->sk_allocation))
		sent = udtx_run(ud, budget);
	kiw_batch_end(&ud->batch);
	return sent;
}
