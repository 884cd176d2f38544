// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The one device, and what is open of it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#include "context.hpp"
#include "events.hpp"

namespace kiwu {

extern ibv_device device;

/// An open device: the provider's context, and what the kernel has of a file.
struct OpenDevice {
	kiw::Context context;
	EventQueue async;

	static OpenDevice &from(ibv_context *context)
	{
		return reinterpret_cast<OpenDevice &>(kiw::Context::from(context));
	}
};

/// A completion channel
struct Channel {
	ibv_comp_channel ibv{};
	EventQueue queue;

	static Channel &from(ibv_comp_channel *channel) { return *reinterpret_cast<Channel *>(channel); }
};

/// An event of a device that waits to be fetched
struct AsyncEvent {
	Event event;
	ibv_async_event told{};
};

/// Has the device look as the user wants it. Returns false, after a line on stderr, where that is unknown.
bool show_device();

/// The device's number, in network order
std::uint64_t node_guid();

/// Address of a GID's slot. Returns false for a slot beyond the table; an empty slot is zeros.
bool query_gid(std::uint32_t index, ibv_gid &gid);
/// Index of the interface with the address in a slot, or 0
std::uint32_t interface_of(std::uint32_t index);
/// Hardware address of an interface, padded with zeros
ibv_gid hardware_gid();
/// The own address for a path to another one, from a slot; slot 0 is the first address of the other's IP version.
/// interface: of a link-local address. Returns 0, EINVAL, or ENODATA: the slot is empty.
int find_path(std::uint32_t index, const in6_addr &to, in6_addr &from, std::uint32_t &interface);

/// Whether it is the address of a multicast group
inline bool is_group(const in6_addr &address)
{
	return IN6_IS_ADDR_MULTICAST(&address) ||
	       (IN6_IS_ADDR_V4MAPPED(&address) && (address.s6_addr[12] & 0xf0) == 0xe0);
}

void query_device(ibv_device_attr_ex &attr, std::size_t size);
void query_port(ibv_port_attr &attr, std::size_t size);

/// Has the process told of an event.
void raise(ibv_context *context, const ibv_async_event &event);
/// Takes events back that a predicate names.
template <typename Predicate>
void forget_events(ibv_context *context, const Predicate &predicate)
{
	OpenDevice::from(context).async.drop(
		[&](const Event &event) { return predicate(reinterpret_cast<const AsyncEvent &>(event).told); },
		[](Event &event) { std::free(&event); });
}

/// In a child of fork(): threads of the parent may have had its lock.
void forget_gids();

} // namespace kiwu
