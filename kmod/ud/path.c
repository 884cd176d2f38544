// SPDX-License-Identifier: GPL-2.0
#include "path.h"

#include <linux/moduleparam.h>
#include <linux/netdevice.h>
#include <linux/spinlock.h>
#include <linux/udp.h>
#include <net/ipv6.h>
#include <net/sock.h>

#include "gid.h"
#include "ud.h"

/* Protects all below. Readers of the port need it only for a membership. */
static DEFINE_SPINLOCK(group_lock);
static unsigned int group_port = 64791;
static unsigned long group_members;

/* Members' sockets are bound to the current port. */
static int path_set_port(const char *val, const struct kernel_param *kp)
{
	unsigned int port;
	int err = kstrtouint(val, 0, &port);

	if (err || !port || port > U16_MAX)
		return -EINVAL;
	spin_lock(&group_lock);
	if (group_members && port != group_port)
		err = -EBUSY;
	else
		WRITE_ONCE(group_port, port);
	spin_unlock(&group_lock);
	return err;
}

/* Neither ephemeral nor assigned to a service */
static const struct kernel_param_ops port_ops = { .set = path_set_port, .get = param_get_uint };
module_param_cb(group_port, &port_ops, &group_port, 0644);
MODULE_PARM_DESC(group_port,
		 "UDP port of datagrams to groups, the same on all hosts (default: 64791)");

u16 kiw_ud_group_port(void)
{
	return READ_ONCE(group_port);
}

u16 kiw_ud_group_port_hold(void)
{
	u16 port;

	spin_lock(&group_lock);
	group_members++;
	port = group_port;
	spin_unlock(&group_lock);
	return port;
}

void kiw_ud_group_port_release(void)
{
	spin_lock(&group_lock);
	group_members--;
	spin_unlock(&group_lock);
}

static void path_control(struct kiw_ud_path *path, int level, int type, const void *data, u32 len)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(path->control + path->control_len);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), data, len);
	path->control_len += CMSG_SPACE(len);
}

static void path_control_int(struct kiw_ud_path *path, int level, int type, int value)
{
	if (value)
		path_control(path, level, type, &value, sizeof(value));
}

static void path_ipv4(struct kiw_ud_path *path, u16 port, __be32 from, __be32 to)
{
	struct in_pktinfo info = { .ipi_spec_dst.s_addr = from };

	path->to.four.sin_family = AF_INET;
	path->to.four.sin_port = htons(port);
	path->to.four.sin_addr.s_addr = to;
	path->to_len = sizeof(path->to.four);
	path_control(path, SOL_IP, IP_PKTINFO, &info, sizeof(info));
}

/* A socket of IPv6 accepts mapped addresses. The scope is its interface. */
static void path_ipv6(struct kiw_ud_path *path, u16 port, int ifindex,
		      const struct in6_addr *from, const struct in6_addr *to)
{
	struct in6_pktinfo info = { .ipi6_addr = *from };

	path->to.six.sin6_family = AF_INET6;
	path->to.six.sin6_port = htons(port);
	path->to.six.sin6_addr = *to;
	if (ipv6_addr_type(to) & IPV6_ADDR_LINKLOCAL)
		path->to.six.sin6_scope_id = ifindex;
	path->to_len = sizeof(path->to.six);
	path_control(path, SOL_IPV6, IPV6_PKTINFO, &info, sizeof(info));
}

bool kiw_ud_path(const struct kiw_ud *ud, const struct kiw_ud_dest *dest, struct kiw_ud_path *path)
{
	struct kiw_device *dev = ud->dev;
	struct in6_addr from, to;
	u32 port = dest->qpn;

	memset(path, 0, sizeof(*path));
	memcpy(&to, dest->dgid, sizeof(to));
	if (port == KIW_UD_GROUP_QPN)
		port = kiw_ud_group_port();
	if (!port || port > U16_MAX || !kiw_gid_path(dev, dest->sgid_index, &to, &from))
		return false;
	if (ud->sock->sk->sk_family == AF_INET6)
		path_ipv6(path, port, dev->ifindex, &from, &to);
	else if (ipv6_addr_v4mapped(&to))
		path_ipv4(path, port, from.s6_addr32[3], to.s6_addr32[3]);
	else
		return false;

	if (ipv6_addr_v4mapped(&to)) {
		path_control_int(path, SOL_IP, IP_TTL, dest->hop_limit);
		path_control_int(path, SOL_IP, IP_TOS, dest->traffic_class);
	} else {
		path_control_int(path, SOL_IPV6, IPV6_HOPLIMIT, dest->hop_limit);
		path_control_int(path, SOL_IPV6, IPV6_TCLASS, dest->traffic_class);
	}
	return true;
}

/* The target detects the broadcast address of a subnet. */
bool kiw_ud_to_group(const struct kiw_ud_dest *dest)
{
	const struct in6_addr *to = (const struct in6_addr *)dest->dgid;

	if (dest->qpn == KIW_UD_GROUP_QPN)
		return true;
	if (!ipv6_addr_v4mapped(to))
		return ipv6_addr_is_multicast(to);
	return ipv4_is_multicast(to->s6_addr32[3]) || ipv4_is_lbcast(to->s6_addr32[3]);
}

u32 kiw_ud_path_room(const struct kiw_ud *ud, const struct kiw_ud_dest *dest)
{
	bool four = ipv6_addr_v4mapped((const struct in6_addr *)dest->dgid);
	u32 ip = four ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	u32 headers = ip + sizeof(struct udphdr);
	const struct kiw_device *dev = ud->dev;
	const struct net_device *ndev;
	u32 mtu = 0;

	rcu_read_lock();
	ndev = dev_get_by_index_rcu(dev->net, dev->ifindex);
	if (ndev)
		mtu = READ_ONCE(ndev->mtu);
	rcu_read_unlock();
	return mtu > headers ? mtu - headers : 0;
}

void kiw_ud_path_segments(struct kiw_ud_path *path, u16 size)
{
	path_control(path, SOL_UDP, UDP_SEGMENT, &size, sizeof(size));
}
