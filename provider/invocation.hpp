// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Methods of uverbs, called by ioctl(2).
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include "kiwarp-abi.h"

namespace kiw {

/// Header of the ioctl, without its flexible array, and attributes
template <std::size_t count>
struct Invocation {
	std::uint16_t length;
	std::uint16_t object_id;
	std::uint16_t method_id;
	std::uint16_t num_attrs;
	std::uint64_t reserved1;
	std::uint32_t driver_id;
	std::uint32_t reserved2;
	ib_uverbs_attr attrs[count];
};

static_assert(offsetof(Invocation<1>, attrs) == sizeof(ib_uverbs_ioctl_hdr));
static_assert(offsetof(Invocation<1>, driver_id) == offsetof(ib_uverbs_ioctl_hdr, driver_id));
static_assert(sizeof(ib_uverbs_attr) == 16);

constexpr ib_uverbs_attr attribute(std::uint16_t id, std::uint16_t length, std::uint64_t data)
{
	return {.attr_id = id, .len = length, .flags = UVERBS_ATTR_F_MANDATORY, .attr_data = {}, .data = data};
}

inline std::uint64_t address(const void *object)
{
	return reinterpret_cast<std::uintptr_t>(object);
}

/// Calls a method. Returns 0 or an errno value.
template <typename... Attributes>
int invoke(int fd, std::uint16_t object, std::uint16_t method, const Attributes &...attributes)
{
	// uverbs marks the attributes that it answered.
	Invocation<sizeof...(attributes)> invocation = {
		.length = sizeof(invocation),
		.object_id = object,
		.method_id = method,
		.num_attrs = sizeof...(attributes),
		.reserved1 = 0,
		.driver_id = KIWARP_DRIVER_ID,
		.reserved2 = 0,
		.attrs = {attributes...},
	};

	return ::ioctl(fd, RDMA_VERBS_IOCTL, &invocation) == 0 ? 0 : errno;
}

} // namespace kiw
