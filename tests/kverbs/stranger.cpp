// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// kverbs_stranger ADDRESS PORT QPN: calls rdma_connect() for a queue pair that the process has not made. Status 0: that
// was refused with EINVAL; 1: it was not, or failed otherwise; 2: there was no connection to ask for.
#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

namespace {

constexpr int milliseconds = 10000;

bool told(rdma_event_channel *channel, rdma_cm_event_type type)
{
	rdma_cm_event *event = nullptr;

	if (rdma_get_cm_event(channel, &event))
		return false;
	const bool right = event->event == type;
	rdma_ack_cm_event(event);
	return right;
}

} // namespace

int main(int argc, char **argv)
{
	sockaddr_in to{};
	rdma_cm_id *id = nullptr;
	rdma_conn_param param{};

	if (argc != 4 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	to.sin_family = AF_INET;
	to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[2])));
	param.qp_num = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 0));

	rdma_event_channel *channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) ||
		rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&to), milliseconds) ||
		!told(channel, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, milliseconds) ||
		!told(channel, RDMA_CM_EVENT_ROUTE_RESOLVED))
		return 2;
	return rdma_connect(id, &param) && errno == EINVAL ? 0 : 1;
}
