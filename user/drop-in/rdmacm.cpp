// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// As ibverbs.cpp, in place of librdmacm
#include <array>
#include <rdma/rdma_cma.h>

#include "names.hpp"

namespace {

constexpr std::array cm_events = {"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR",
	"RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST",
	"RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE",
	"RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
	"RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",
	"RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT", "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
	"RDMA_CM_EVENT_ADDRINFO_ERROR"};
// The last two are younger than the headers of rdma-core 44.
static_assert(cm_events.size() == RDMA_CM_EVENT_TIMEWAIT_EXIT + 3);

} // namespace

KIW_NAME const char *rdma_event_str(rdma_cm_event_type event)
{
	const auto index = static_cast<std::size_t>(event);

	return index < cm_events.size() ? cm_events[index] : "UNKNOWN EVENT";
}
