// SPDX-License-Identifier: GPL-2.0
#include "group.h"

#include <linux/igmp.h>
#include <linux/inet.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/ipv6.h>
#include <net/route.h>

#include "compat.h"
#include "ud.h"
#include "path.h"

/**
 * struct ud_group - a QP's membership of a group; protected by kiw_qp.mutex
 * @link: in kiw_ud.groups
 * @gid: group, as in the verb
 * @users: attachments: RDMA core counts one per LID, which means nothing here
 * @sock: its socket
 */
struct ud_group {
	struct list_head	link;
	union ib_gid		gid;
	u32			users;
	struct socket		*sock;
};

/*
 * Verbs refuses a non-multicast address of IPv4 as a group: ff0e::ffff:A.B.C.D stands for the
 * broadcast address A.B.C.D.
 */
static bool group_is_broadcast(const union ib_gid *gid)
{
	static const u8 prefix[12] = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static bool group_is_ipv4(const union ib_gid *gid)
{
	return group_is_broadcast(gid) || ipv6_addr_v4mapped((const struct in6_addr *)gid->raw);
}

static int group_bind_ipv4(struct socket *sock, u16 port, __be32 group, bool join, int ifindex)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = group,
	};
	struct ip_mreqn mreq = { .imr_multiaddr.s_addr = group, .imr_ifindex = ifindex };
	int err;

	if (!join && inet_addr_type(sock_net(sock->sk), group) != RTN_BROADCAST)
		return -EINVAL;
	err = kernel_bind(sock, kiw_sockaddr(&addr), sizeof(addr));
	if (err || !join)
		return err;
	rtnl_lock();
	lock_sock(sock->sk);
	err = ip_mc_join_group(sock->sk, &mreq);
	release_sock(sock->sk);
	rtnl_unlock();
	return err;
}

static int group_bind_ipv6(struct socket *sock, u16 port, const struct in6_addr *group, int ifindex)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct sockaddr_in6 addr = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = *group,
		.sin6_scope_id = ifindex,
	};
	int err;

	err = kernel_bind(sock, kiw_sockaddr(&addr), sizeof(addr));
	if (err)
		return err;
	rtnl_lock();
	lock_sock(sock->sk);
	err = ipv6_sock_mc_join(sock->sk, ifindex, group);
	release_sock(sock->sk);
	rtnl_unlock();
	return err;
#else
	return -EAFNOSUPPORT;
#endif
}

static int group_open(struct kiw_ud *ud, struct ud_group *group, u16 port)
{
	bool four = group_is_ipv4(&group->gid);
	struct kiw_device *dev = ud->dev;
	struct in6_addr addr;
	int err;

	memcpy(&addr, group->gid.raw, sizeof(addr));
	err = sock_create_kern(dev->net, four ? AF_INET : AF_INET6, SOCK_DGRAM, IPPROTO_UDP,
			       &group->sock);
	if (err)
		return err;
	err = sock_bindtoindex(group->sock->sk, dev->ifindex, true);
	if (err)
		goto release;
	/* All QPs of a group share the port. */
	sock_set_reuseaddr(group->sock->sk);
	kiw_ud_listen(ud, group->sock);
	err = four ? group_bind_ipv4(group->sock, port, addr.s6_addr32[3],
				     !group_is_broadcast(&group->gid), dev->ifindex) :
		     group_bind_ipv6(group->sock, port, &addr, dev->ifindex);
	if (err)
		goto release;
	return 0;

release:
	kiw_ud_unlisten(group->sock);
	return err;
}

static struct ud_group *group_find(struct kiw_ud *ud, const union ib_gid *gid)
{
	struct ud_group *group;

	lockdep_assert_held(ud->mutex);
	list_for_each_entry(group, &ud->groups, link) {
		if (!memcmp(&group->gid, gid, sizeof(*gid)))
			return group;
	}
	return NULL;
}

/* Count one more user of a membership. Return: false: the QP is no member yet. */
static bool group_join_again(struct kiw_ud *ud, const union ib_gid *gid)
{
	struct ud_group *group;

	mutex_lock(ud->mutex);
	group = group_find(ud, gid);
	if (group)
		group->users++;
	mutex_unlock(ud->mutex);
	return group;
}

/* RDMA core serializes attach and detach of a QP. */
int kiw_ud_join(struct kiw_ud *ud, const union ib_gid *gid)
{
	struct ud_group *group;
	u16 port;
	int err;

	if (group_join_again(ud, gid))
		return 0;
	if (!kiw_count_up(&ud->dev->num_group, KIW_MAX_GROUP))
		return -ENOMEM;
	group = kzalloc(sizeof(*group), GFP_KERNEL_ACCOUNT);
	if (!group) {
		err = -ENOMEM;
		goto uncount;
	}
	group->gid = *gid;
	group->users = 1;
	port = kiw_ud_group_port_hold();
	err = group_open(ud, group, port);
	if (err)
		goto release;
	mutex_lock(ud->mutex);
	list_add(&group->link, &ud->groups);
	mutex_unlock(ud->mutex);
	return 0;

release:
	if (err == -EADDRINUSE)
		ibdev_warn_ratelimited(&ud->dev->ibdev,
				       "no membership of %pI6c: a socket that is none of a member has UDP port %u, see \"ss -ulnp\"\n",
				       gid->raw, port);
	kiw_ud_group_port_release();
	kfree(group);
uncount:
	atomic_dec(&ud->dev->num_group);
	return kiw_ud_error(err);
}

int kiw_ud_leave(struct kiw_ud *ud, const union ib_gid *gid)
{
	struct ud_group *group;
	bool last = false;

	mutex_lock(ud->mutex);
	group = group_find(ud, gid);
	if (group && !--group->users) {
		list_del(&group->link);
		last = true;
	}
	mutex_unlock(ud->mutex);
	if (!group)
		return -EINVAL;
	if (last) {
		kiw_ud_unlisten(group->sock);
		kiw_ud_group_port_release();
		kfree(group);
		atomic_dec(&ud->dev->num_group);
	}
	return 0;
}
