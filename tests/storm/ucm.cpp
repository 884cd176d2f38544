// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "ucm.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
// It and <rdma/rdma_cma.h> declare the same names.
#include <rdma/rdma_user_cm.h>
#include <system_error>
#include <unistd.h>

namespace storm {

namespace {

std::uint64_t address_of(const void *object)
{
	return reinterpret_cast<std::uintptr_t>(object);
}

std::uint16_t size_of(const sockaddr_storage &address)
{
	return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

template <typename Request>
int call(int fd, std::uint32_t command, const Request &request, std::size_t answer = 0)
{
	std::array<std::uint8_t, sizeof(rdma_ucm_cmd_hdr) + sizeof(Request)> whole{};
	const rdma_ucm_cmd_hdr header = {
		.cmd = command, .in = sizeof(Request), .out = static_cast<std::uint16_t>(answer)};

	std::memcpy(whole.data(), &header, sizeof(header));
	std::memcpy(whole.data() + sizeof(header), &request, sizeof(request));
	return write(fd, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()) ? 0 : errno;
}

rdma_ucm_conn_param conn_param(const Ucm::Param &param)
{
	return {.qp_num = param.qp_num,
		.private_data_len = param.private_data_len,
		.responder_resources = param.responder_resources,
		.initiator_depth = param.initiator_depth,
		.valid = 1};
}

} // namespace

Ucm::Ucm() : fd_(open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK))
{
	if (fd_ < 0)
		throw std::system_error(errno, std::generic_category(), "rdma_cm");
}
Ucm::~Ucm()
{
	close(fd_);
}

int Ucm::create(std::uint32_t &id) const
{
	rdma_ucm_create_id_resp answer{};
	const rdma_ucm_create_id request = {
		.response = address_of(&answer), .ps = RDMA_PS_TCP, .qp_type = 2 /* IB_QPT_RC */};
	const int error = call(fd_, RDMA_USER_CM_CMD_CREATE_ID, request, sizeof(answer));

	id = answer.id;
	return error;
}
int Ucm::destroy(std::uint32_t id) const
{
	rdma_ucm_destroy_id_resp answer{};

	return call(fd_, RDMA_USER_CM_CMD_DESTROY_ID, rdma_ucm_destroy_id{.response = address_of(&answer), .id = id},
		sizeof(answer));
}

int Ucm::bind(std::uint32_t id, const sockaddr_storage &address) const
{
	rdma_ucm_bind request = {.id = id, .addr_size = size_of(address)};

	std::memcpy(&request.addr, &address, sizeof(address));
	return call(fd_, RDMA_USER_CM_CMD_BIND, request);
}
int Ucm::resolve_addr(std::uint32_t id, const sockaddr_storage &from, const sockaddr_storage &to) const
{
	rdma_ucm_resolve_addr request = {
		.id = id, .timeout_ms = 200, .src_size = size_of(from), .dst_size = size_of(to)};

	std::memcpy(&request.src_addr, &from, sizeof(from));
	std::memcpy(&request.dst_addr, &to, sizeof(to));
	return call(fd_, RDMA_USER_CM_CMD_RESOLVE_ADDR, request);
}
int Ucm::resolve_route(std::uint32_t id) const
{
	return call(fd_, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = id, .timeout_ms = 2000});
}
int Ucm::listen(std::uint32_t id, std::uint32_t backlog) const
{
	return call(fd_, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = id, .backlog = backlog});
}

int Ucm::connect(std::uint32_t id, const Param &param) const
{
	return call(fd_, RDMA_USER_CM_CMD_CONNECT, rdma_ucm_connect{.conn_param = conn_param(param), .id = id});
}
int Ucm::accept(std::uint32_t id, const Param &param) const
{
	return call(
		fd_, RDMA_USER_CM_CMD_ACCEPT, rdma_ucm_accept{.uid = id, .conn_param = conn_param(param), .id = id});
}
int Ucm::reject(std::uint32_t id, std::uint8_t private_data_len) const
{
	return call(fd_, RDMA_USER_CM_CMD_REJECT, rdma_ucm_reject{.id = id, .private_data_len = private_data_len});
}
int Ucm::disconnect(std::uint32_t id) const
{
	return call(fd_, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{.id = id});
}

int Ucm::init_qp_attr(std::uint32_t id, std::uint32_t state) const
{
	ib_uverbs_qp_attr answer{};
	const rdma_ucm_init_qp_attr request = {.response = address_of(&answer), .id = id, .qp_state = state};

	return call(fd_, RDMA_USER_CM_CMD_INIT_QP_ATTR, request, sizeof(answer));
}
int Ucm::query(std::uint32_t id, std::uint32_t option) const
{
	std::array<std::uint8_t, 1024> answer{};
	const rdma_ucm_query request = {.response = address_of(answer.data()), .id = id, .option = option};

	return call(fd_, RDMA_USER_CM_CMD_QUERY, request, answer.size());
}
int Ucm::set_option(
	std::uint32_t id, std::uint32_t level, std::uint32_t name, std::span<const std::uint8_t> value) const
{
	const rdma_ucm_set_option request = {.optval = address_of(value.data()),
		.id = id,
		.level = level,
		.optname = name,
		.optlen = static_cast<std::uint32_t>(value.size())};

	return call(fd_, RDMA_USER_CM_CMD_SET_OPTION, request);
}
int Ucm::migrate(std::uint32_t id, const Ucm &from) const
{
	rdma_ucm_migrate_resp answer{};
	const rdma_ucm_migrate_id request = {
		.response = address_of(&answer), .id = id, .fd = static_cast<std::uint32_t>(from.fd_)};

	return call(fd_, RDMA_USER_CM_CMD_MIGRATE_ID, request, sizeof(answer));
}

int Ucm::get_event(Event &event) const
{
	rdma_ucm_event_resp answer{};
	const int error = call(
		fd_, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = address_of(&answer)}, sizeof(answer));

	event = {.type = answer.event, .id = answer.id};
	return error;
}

} // namespace storm
