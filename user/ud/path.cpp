// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "path.hpp"

#include <cstring>
#include <netinet/udp.h>

#include "gids.hpp"
#include "sys.hpp"

namespace kiwu {

namespace {

void add_int(UdPath &path, int level, int type, int value)
{
	if (value)
		path.add(level, type, &value, sizeof(value));
}

in6_addr destination(const kiw_ud_dest &dest)
{
	in6_addr to{};

	std::memcpy(&to, dest.dgid, sizeof(to));
	return to;
}

} // namespace

void tell_addresses(int fd, bool six)
{
	constexpr int on = 1, off = 0;

	if (six) {
		sys::set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, off);
		sys::set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, on);
		sys::set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, on);
		sys::set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, on);
	}
	sys::set(fd, IPPROTO_IP, IP_MULTICAST_ALL, off);
	sys::set(fd, IPPROTO_IP, IP_PKTINFO, on);
	sys::set(fd, IPPROTO_IP, IP_RECVTTL, on);
	sys::set(fd, IPPROTO_IP, IP_RECVTOS, on);
}

void UdPath::add(int level, int type, const void *data, std::size_t length)
{
	auto *message = reinterpret_cast<cmsghdr *>(control + control_length);

	message->cmsg_level = level;
	message->cmsg_type = type;
	message->cmsg_len = CMSG_LEN(length);
	std::memcpy(CMSG_DATA(message), data, length);
	control_length += CMSG_SPACE(length);
}

void UdPath::cut(std::uint16_t size)
{
	add(SOL_UDP, UDP_SEGMENT, &size, sizeof(size));
}

bool find_ud_path(const kiw_ud_dest &dest, bool six, Time age, UdPath &path)
{
	const in6_addr to = destination(dest);
	const bool four = IN6_IS_ADDR_V4MAPPED(&to);
	const std::uint32_t port = dest.qpn == group_number ? group_port : dest.qpn;
	std::uint32_t interface = 0;
	in6_addr from{};

	if (!port || port > UINT16_MAX || find_path(dest.sgid_index, to, from, interface, age) || (!six && !four))
		return false;
	if (six) {
		const in6_pktinfo info = {
			.ipi6_addr = from, .ipi6_ifindex = IN6_IS_ADDR_LINKLOCAL(&to) || is_group(to) ? interface : 0};

		path.to.v6.sin6_family = AF_INET6;
		path.to.v6.sin6_port = htons(static_cast<std::uint16_t>(port));
		path.to.v6.sin6_addr = to;
		if (IN6_IS_ADDR_LINKLOCAL(&to))
			path.to.v6.sin6_scope_id = interface;
		path.add(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	} else {
		in_pktinfo info{};

		path.to.v4.sin_family = AF_INET;
		path.to.v4.sin_port = htons(static_cast<std::uint16_t>(port));
		std::memcpy(&path.to.v4.sin_addr, to.s6_addr + 12, 4);
		std::memcpy(&info.ipi_spec_dst, from.s6_addr + 12, 4);
		if (is_group(to))
			info.ipi_ifindex = static_cast<int>(interface);
		path.add(IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	}
	add_int(path, four ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, four ? IP_TTL : IPV6_HOPLIMIT, dest.hop_limit);
	add_int(path, four ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, four ? IP_TOS : IPV6_TCLASS, dest.traffic_class);
	return true;
}

bool is_to_group(const kiw_ud_dest &dest)
{
	const in6_addr to = destination(dest);

	return dest.qpn == group_number || is_group(to) ||
	       (IN6_IS_ADDR_V4MAPPED(&to) && to.s6_addr32[3] == htonl(INADDR_BROADCAST));
}

} // namespace kiwu
