// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "raw.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <string>
#include <unistd.h>

#include "support.hpp"

namespace vt {

int open_uverbs(const ibv_device *device)
{
	const std::string path = std::string("/dev/infiniband/") + device->dev_name;
	const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);

	if (fd < 0)
		fail(path, errno);
	return fd;
}

namespace {

/// Carries out a command of write() with words of the driver behind the core's own. Return: 0 or an errno
template <typename Command, typename Response>
int call(int fd, std::uint32_t number, Command &command, Response &response, const std::vector<std::uint32_t> &own)
{
	const std::size_t size = offsetof(Command, own) + own.size() * sizeof(own[0]);

	command.header.command = number;
	command.header.in_words = static_cast<std::uint16_t>(size / 4);
	command.header.out_words = sizeof(response) / 4;
	command.response = reinterpret_cast<std::uintptr_t>(&response);
	std::copy(own.begin(), own.end(), command.own.begin());
	return ::write(fd, &command, size) < 0 ? errno : 0;
}

} // namespace

int get_context(int fd, const std::vector<std::uint32_t> &own, kiw_get_context_resp &told)
{
	struct {
		std::uint32_t async_fd, num_comp_vectors; // those of ib_uverbs_get_context_resp
		kiw_get_context_resp own;
	} response{};
	struct {
		ib_uverbs_cmd_hdr header;
		std::uint64_t response;
		std::array<std::uint32_t, 4> own;
	} command{};

	const int error = call(fd, IB_USER_VERBS_CMD_GET_CONTEXT, command, response, own);
	if (!error)
		::close(static_cast<int>(response.async_fd));
	told = response.own;
	return error;
}

int make_cq(int fd, const std::vector<std::uint32_t> &own)
{
	struct {
		std::uint32_t handle, entries; // those of ib_uverbs_create_cq_resp
		kiw_create_cq_resp own;
	} response{};
	struct {
		ib_uverbs_cmd_hdr header;
		std::uint64_t response, user_handle;
		std::uint32_t entries, vector;
		std::int32_t channel;
		std::uint32_t reserved;
		std::array<std::uint32_t, 4> own;
	} command{};

	command.entries = 8;
	command.channel = -1;
	return call(fd, IB_USER_VERBS_CMD_CREATE_CQ, command, response, own);
}

} // namespace vt
