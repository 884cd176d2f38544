// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "gids.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <iterator>
#include <net/if.h>
#include <netpacket/packet.h>
#include <new>

#include "limits.hpp"
#include "lock.hpp"

namespace kiwu {

namespace {

/// One slot for each address, which it keeps as long as the host has it. Slot 0 is the first address, which it is for
/// as long as the host has it, unless a better one comes; the last is the hardware address of an interface, padded with
/// zeros, as that of all iWARP devices.
struct Gids {
	kiw::Lock lock;
	ibv_gid slot[limits::gids];
	std::uint32_t interface[limits::gids];
	bool seen[limits::gids];
	std::uint32_t first[2]; // slots of the first addresses of IPv6 and IPv4, or 0
	Time looked;		// when the host was asked last
};

constexpr std::uint32_t hardware_slot = limits::gids - 1;

constinit Gids gids{};

bool is_zero(const ibv_gid &gid)
{
	return !gid.global.subnet_prefix && !gid.global.interface_id;
}

bool to_gid(const sockaddr *address, ibv_gid &gid)
{
	gid = {};
	if (address->sa_family == AF_INET6) {
		std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr, sizeof(gid.raw));
		return true;
	}
	if (address->sa_family != AF_INET)
		return false;
	gid.raw[10] = gid.raw[11] = 0xff;
	std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in *>(address)->sin_addr, 4);
	return true;
}

void see(const ibv_gid &gid, std::uint32_t interface)
{
	std::uint32_t empty = 0;

	for (std::uint32_t i = 1; i < hardware_slot; i++) {
		if (gids.interface[i] == interface && std::memcmp(&gids.slot[i], &gid, sizeof(gid)) == 0) {
			gids.seen[i] = true;
			return;
		}
		if (!empty && is_zero(gids.slot[i]) && !gids.seen[i])
			empty = i;
	}
	if (!empty)
		return;
	gids.slot[empty] = gid;
	gids.interface[empty] = interface;
	gids.seen[empty] = true;
}

void see_hardware(const ifaddrs &interface)
{
	const auto *link = reinterpret_cast<const sockaddr_ll *>(interface.ifa_addr);
	ibv_gid mac{};

	if (link->sll_halen != 6)
		return;
	std::memcpy(mac.raw, link->sll_addr, 6);
	if (!is_zero(mac) && is_zero(gids.slot[hardware_slot]))
		gids.slot[hardware_slot] = mac;
}

in6_addr address_in(std::uint32_t slot)
{
	in6_addr address{};

	std::memcpy(&address, gids.slot[slot].raw, sizeof(address));
	return address;
}

/// How far an address reaches: not beyond the host, not beyond the link, or further
int reach(std::uint32_t slot)
{
	const in6_addr address = address_in(slot);

	if (IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127))
		return 0;
	return IN6_IS_ADDR_LINKLOCAL(&address) ? 1 : 2;
}

void choose_first()
{
	for (std::uint32_t i = 1; i < hardware_slot; i++) {
		const in6_addr address = address_in(i);
		std::uint32_t &first = gids.first[IN6_IS_ADDR_V4MAPPED(&address)];

		if (!is_zero(gids.slot[i]) && (!first || reach(i) > reach(first)))
			first = i;
	}
	const std::uint32_t first = gids.first[1] ? gids.first[1] : gids.first[0];
	gids.slot[0] = first ? gids.slot[first] : ibv_gid{};
	gids.interface[0] = first ? gids.interface[first] : 0;
}

void refresh_gids()
{
	ifaddrs *list = nullptr;

	if (::getifaddrs(&list))
		return;
	gids.looked = now();
	std::fill(std::begin(gids.seen), std::end(gids.seen), false);
	gids.slot[hardware_slot] = {};
	for (const ifaddrs *each = list; each; each = each->ifa_next) {
		ibv_gid gid;

		if (!each->ifa_addr || !(each->ifa_flags & IFF_UP))
			continue;
		if (each->ifa_addr->sa_family == AF_PACKET)
			see_hardware(*each);
		else if (to_gid(each->ifa_addr, gid))
			see(gid, ::if_nametoindex(each->ifa_name));
	}
	::freeifaddrs(list);
	for (std::uint32_t i = 1; i < hardware_slot; i++)
		if (!gids.seen[i]) {
			gids.slot[i] = {};
			gids.interface[i] = 0;
			std::replace(std::begin(gids.first), std::end(gids.first), i, 0U);
		}
	choose_first();
	// A host without such an interface: made up, and locally administered.
	if (is_zero(gids.slot[hardware_slot]))
		gids.slot[hardware_slot].raw[0] = 2;
}

} // namespace

bool query_gid(std::uint32_t index, ibv_gid &gid)
{
	kiw::Guard guard(gids.lock);

	if (index >= limits::gids)
		return false;
	if (!index || now() - gids.looked > 10 * millisecond)
		refresh_gids();
	gid = gids.slot[index];
	return true;
}

int find_gid(const ibv_gid &gid)
{
	kiw::Guard guard(gids.lock);

	refresh_gids();
	for (std::uint32_t i = 0; i < hardware_slot; i++)
		if (std::memcmp(&gids.slot[i], &gid, sizeof(gid)) == 0)
			return static_cast<int>(i);
	return -1;
}

std::uint32_t interface_of(std::uint32_t index)
{
	kiw::Guard guard(gids.lock);

	return index < limits::gids ? gids.interface[index] : 0;
}

ibv_gid hardware_gid()
{
	ibv_gid gid;

	query_gid(hardware_slot, gid);
	return gid;
}

int find_path(std::uint32_t index, const in6_addr &to, in6_addr &from, std::uint32_t &interface, Time age)
{
	const bool four = IN6_IS_ADDR_V4MAPPED(&to);
	kiw::Guard guard(gids.lock);

	if (index >= hardware_slot || IN6_IS_ADDR_UNSPECIFIED(&to) || (four && !to.s6_addr32[3]))
		return EINVAL;
	if (!age || now() - gids.looked > age)
		refresh_gids();
	const std::uint32_t slot = index ? index : gids.first[four];
	if (is_zero(gids.slot[slot]))
		return ENODATA;
	from = address_in(slot);
	interface = gids.interface[slot];
	return IN6_IS_ADDR_V4MAPPED(&from) == four ? 0 : EINVAL;
}

void forget_gids()
{
	gids.lock.~Lock();
	::new (&gids.lock) kiw::Lock;
}

} // namespace kiwu
