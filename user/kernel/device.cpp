// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "device.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <new>
#include <unistd.h>

#include "kiwarp-abi.h"
#include "limits.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "session/sq.h"
#include "sys.hpp"

namespace kiwu {

namespace {

// As the module's; uapi and limits.md explain them.
constexpr std::uint32_t vendor_id = 0x726977, vendor_part_id = 1;

// --- GIDs -----------------------------------------------------------------------------------------

/// One slot for each address, which it keeps as long as the host has it. Slot 0 is the first address, which it is for
/// as long as the host has it, unless a better one comes; the last is the hardware address of an interface, padded with
/// zeros, as that of all iWARP devices.
struct Gids {
	kiw::Lock lock;
	ibv_gid slot[limits::gids];
	std::uint32_t interface[limits::gids];
	bool seen[limits::gids];
	std::uint32_t first[2]; // slots of the first addresses of IPv6 and IPv4, or 0
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
	refresh_gids();
	gid = gids.slot[index];
	return true;
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

int find_path(std::uint32_t index, const in6_addr &to, in6_addr &from, std::uint32_t &interface)
{
	const bool four = IN6_IS_ADDR_V4MAPPED(&to);
	kiw::Guard guard(gids.lock);

	if (index >= hardware_slot || IN6_IS_ADDR_UNSPECIFIED(&to) || (four && !to.s6_addr32[3]))
		return EINVAL;
	refresh_gids();
	const std::uint32_t slot = index ? index : gids.first[four];
	if (is_zero(gids.slot[slot]))
		return ENODATA;
	from = address_in(slot);
	interface = gids.interface[slot];
	return IN6_IS_ADDR_V4MAPPED(&from) == four ? 0 : EINVAL;
}

std::uint64_t node_guid()
{
	ibv_gid gid;
	std::uint8_t guid[8];
	std::uint64_t value = 0;

	// The hardware address, around what tells that it was made of one
	query_gid(hardware_slot, gid);
	std::copy_n(gid.raw, 3, guid);
	guid[0] |= 2;
	guid[3] = 0xff;
	guid[4] = 0xfe;
	std::copy_n(gid.raw + 3, 3, guid + 5);
	std::memcpy(&value, guid, sizeof(value));
	return value;
}

// --- attributes -----------------------------------------------------------------------------------

void query_device(ibv_device_attr_ex &attr, std::size_t size)
{
	ibv_device_attr_ex all{};
	ibv_device_attr &base = all.orig_attr;

	(void)std::snprintf(base.fw_ver, sizeof(base.fw_ver), "user-%s", KIWARP_VERSION);
	base.node_guid = base.sys_image_guid = node_guid();
	base.vendor_id = vendor_id;
	base.vendor_part_id = vendor_part_id;
	base.max_mr_size = limits::mr_size;
	base.page_size_cap = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
	base.max_qp = limits::qp;
	base.max_qp_wr = limits::qp_wr;
	base.max_sge = limits::sge;
	base.max_sge_rd = limits::sge;
	base.max_srq = limits::srq;
	base.max_srq_wr = limits::qp_wr;
	base.max_srq_sge = limits::sge;
	base.max_cq = limits::cq;
	base.max_cqe = limits::cqe;
	base.max_mr = limits::mr;
	base.max_mw = limits::mw;
	base.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE;
	base.max_pd = limits::pd;
	base.max_pkeys = 1;
	base.max_qp_rd_atom = limits::rd_atom;
	base.max_qp_init_rd_atom = limits::rd_atom;
	base.max_res_rd_atom = limits::rd_atom * limits::qp;
	base.atomic_cap = IBV_ATOMIC_GLOB;
	base.phys_port_cnt = 1;
	all.device_cap_flags_ex = base.device_cap_flags;
	all.cq_mod_caps.max_cq_count = UINT16_MAX;
	all.cq_mod_caps.max_cq_period = UINT16_MAX;
	std::memcpy(&attr, &all, std::min(size, sizeof(all)));
}

void query_port(ibv_port_attr &attr, std::size_t size)
{
	ibv_port_attr all{};

	all.state = IBV_PORT_ACTIVE;
	all.phys_state = 5; // link up
	all.max_mtu = IBV_MTU_4096;
	// What Ethernet's usual frames carry
	all.active_mtu = IBV_MTU_1024;
	all.gid_tbl_len = limits::gids;
	all.pkey_tbl_len = 1;
	all.max_msg_sz = KIW_MAX_MSG;
	all.max_vl_num = 1;
	all.active_width = 1; // 1x
	all.active_speed = 1; // SDR: TCP's path has no rate of its own
	all.link_layer = IBV_LINK_LAYER_ETHERNET;
	std::memcpy(&attr, &all, std::min(size, sizeof(all)));
}

// --- the device and its events -------------------------------------------------------------------------------

ibv_device device = {
	._ops = {},
	.node_type = IBV_NODE_RNIC,
	.transport_type = IBV_TRANSPORT_IWARP,
	.name = "kiwu0",
	.dev_name = "kiwu0",
	.dev_path = "",
	.ibdev_path = "",
};

void forget_gids()
{
	gids.lock.~Lock();
	::new (&gids.lock) kiw::Lock;
}

bool show_device()
{
	if (!read_options())
		return false;
	device.node_type = options.roce ? IBV_NODE_CA : IBV_NODE_RNIC;
	device.transport_type = options.roce ? IBV_TRANSPORT_IB : IBV_TRANSPORT_IWARP;
	return true;
}

void raise(ibv_context *context, const ibv_async_event &told)
{
	auto event = kiw::make<AsyncEvent>();

	// As in the kernel, one for which there is no memory is lost.
	if (!event)
		return;
	event->told = told;
	OpenDevice::from(context).async.add(event.release()->event);
}

} // namespace kiwu
