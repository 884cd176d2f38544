// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The one device, and what is open of it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <infiniband/verbs.h>

#include "context.hpp"
#include "events.hpp"
#include "gids.hpp"

namespace kiwu {

extern ibv_device &device;

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

} // namespace kiwu
