// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagram queue pairs in groups: multicast groups of IPv4 and IPv6, and broadcast addresses. UDP gives each socket
// that is bound to a group its copy.
#include <cerrno>
#include <cstring>
#include <net/if.h>
#include <utility>

#include "datagram.hpp"
#include "gids.hpp"
#include "limits.hpp"
#include "memory.hpp"
#include "path.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

constinit limits::Count num_group;

/// Verbs refuses an address of IPv4 that isn't multicast as a group: ff0e::ffff:A.B.C.D stands for a broadcast address.
bool is_broadcast(const ibv_gid &gid)
{
	constexpr std::uint8_t prefix[12] = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return std::memcmp(gid.raw, prefix, sizeof(prefix)) == 0;
}

bool may_be_broadcast(in_addr address)
{
	ibv_gid mapped{};

	mapped.raw[10] = mapped.raw[11] = 0xff;
	std::memcpy(mapped.raw + 12, &address, sizeof(address));
	return !IN_MULTICAST(ntohl(address.s_addr)) && find_gid(mapped) < 0;
}

/// Joins on every interface of the host. Returns 0 or an errno value: none of them could.
template <typename Request>
int join_everywhere(int fd, int level, int option, Request request, int Request::*interface)
{
	struct if_nameindex *all = ::if_nameindex();
	int error = ENODEV;

	if (!all)
		return ENOMEM;
	for (const struct if_nameindex *each = all; each->if_index; each++) {
		request.*interface = static_cast<int>(each->if_index);
		const int result = -sys::set(fd, level, option, request);

		if (!result || error)
			error = result;
	}
	::if_freenameindex(all);
	return error;
}

int bind_four(int fd, const ibv_gid &gid)
{
	Address address;
	ip_mreqn request{};

	address.v4.sin_family = AF_INET;
	address.v4.sin_port = htons(group_port);
	std::memcpy(&address.v4.sin_addr, gid.raw + 12, 4);
	// UDP takes groups and the host's own addresses alike; others than broadcasts are refused here, or by it.
	if (is_broadcast(gid) && !may_be_broadcast(address.v4.sin_addr))
		return EINVAL;
	const int error = -sys::bind(fd, &address.any, address.length());
	if (error || is_broadcast(gid))
		return error;
	request.imr_multiaddr = address.v4.sin_addr;
	return join_everywhere(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, request, &ip_mreqn::imr_ifindex);
}

/// As the kernel's struct ipv6_mreq, with an index of the type of ip_mreqn's
struct MembershipSix {
	in6_addr group;
	int interface;
};

int bind_six(int fd, const ibv_gid &gid)
{
	Address address;
	MembershipSix request{};

	address.v6.sin6_family = AF_INET6;
	address.v6.sin6_port = htons(group_port);
	std::memcpy(&address.v6.sin6_addr, gid.raw, sizeof(gid.raw));
	request.group = address.v6.sin6_addr;
	const int error = -sys::bind(fd, &address.any, address.length());
	return error ? error
		     : join_everywhere(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, request, &MembershipSix::interface);
}

int open_group(const ibv_gid &gid, int &fd)
{
	in6_addr address{};
	constexpr int on = 1;

	std::memcpy(&address, gid.raw, sizeof(address));
	const bool four = is_broadcast(gid) || IN6_IS_ADDR_V4MAPPED(&address);
	fd = sys::socket(four ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -fd;
	// All members of a host share the port.
	sys::set(fd, SOL_SOCKET, SO_REUSEADDR, on);
	tell_addresses(fd, !four);
	const int error = four ? bind_four(fd, gid) : bind_six(fd, gid);
	if (error)
		sys::close(fd);
	return error;
}

} // namespace

/// There is something for the queue pair.
static void on_event(Watched &watched, std::uint32_t)
{
	understudy::queue(reinterpret_cast<Group &>(watched).qp->watched);
}

static void on_release(Watched &watched)
{
	auto &group = reinterpret_cast<Group &>(watched);

	group.qp->watched.put();
	kiw::destroy(&group);
}

Group::Group() noexcept : watched(on_event, on_release) {}

/// The first behind a place, of a group, that a predicate names; nullptr: there is none.
template <typename Predicate>
static Group *find(Group *first, const ibv_gid &gid, const Predicate &predicate)
{
	for (Group *each = first; each; each = each->next)
		if (std::memcmp(&each->gid, &gid, sizeof(gid)) == 0 && predicate(*each))
			return each;
	return nullptr;
}

void forget_groups()
{
	num_group.clear();
}

int DatagramQp::join(const ibv_gid &gid, std::uint16_t lid)
{
	Turn turn(lock);

	if (find(groups_, gid, [&](const Group &group) { return group.lid == lid; }))
		return 0;
	auto made = kiw::make<Group>();
	if (!made || !num_group.up(limits::groups))
		return ENOMEM;
	made->qp = this;
	made->gid = gid;
	made->lid = lid;
	int error = 0;
	if (!find(groups_, gid, [](const Group &) { return true; })) {
		error = open_group(gid, made->fd);
		if (!error) {
			error = understudy::watch(made->watched, made->fd, EPOLLIN);
			if (error)
				sys::close(made->fd);
		}
	}
	if (error) {
		num_group.down();
		return error;
	}
	watched.get();
	made->next = groups_;
	groups_ = made.release();
	return 0;
}

int DatagramQp::leave(const ibv_gid &gid, std::uint16_t lid)
{
	Turn turn(lock);
	Group *leaves = find(groups_, gid, [&](const Group &group) { return group.lid == lid; });

	if (!leaves)
		return EINVAL;
	// The socket stays as long as there is another attachment.
	if (Group *other = find(groups_, gid, [&](const Group &group) { return group.lid != lid; });
		other && leaves->fd >= 0) {
		std::swap(leaves->lid, other->lid);
		leaves = other;
	}
	Group **link = &groups_;
	while (*link != leaves)
		link = &(*link)->next;
	*link = leaves->next;
	if (leaves->fd >= 0) {
		understudy::unwatch(leaves->watched, leaves->fd);
		sys::close(leaves->fd);
	}
	leaves->watched.put();
	num_group.down();
	return 0;
}

bool DatagramQp::is_member()
{
	Turn turn(lock);

	return groups_;
}

} // namespace kiwu
