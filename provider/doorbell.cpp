// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "doorbell.hpp"

#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kiwarp-abi.h"

namespace kiw {

namespace {

// uverbs allocates a little memory before it calls the module.
constexpr int tries = 8;

constexpr bool transient(int error)
{
	return error == EINTR || error == EAGAIN || error == ENOMEM;
}

/// The header of the ioctl, without its flexible array, and the attributes behind it
struct Invocation {
	std::uint16_t length;
	std::uint16_t object_id;
	std::uint16_t method_id;
	std::uint16_t num_attrs;
	std::uint64_t reserved1;
	std::uint32_t driver_id;
	std::uint32_t reserved2;
	ib_uverbs_attr attrs[3];
};

static_assert(offsetof(Invocation, attrs) == sizeof(ib_uverbs_ioctl_hdr));
static_assert(offsetof(Invocation, driver_id) == offsetof(ib_uverbs_ioctl_hdr, driver_id));
static_assert(sizeof(ib_uverbs_attr) == 16);

constexpr ib_uverbs_attr attribute(std::uint16_t id, std::uint16_t length, std::uint64_t data)
{
	return {.attr_id = id, .len = length, .flags = UVERBS_ATTR_F_MANDATORY, .attr_data = {}, .data = data};
}

std::uint64_t address(const void *object)
{
	return reinterpret_cast<std::uintptr_t>(object);
}

} // namespace

Doorbell::Command Doorbell::make_command(std::uint32_t number, std::uint32_t handle, std::uint32_t wqe_size) const
{
	static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + offsetof(ib_uverbs_post_send, send_wr));
	static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + offsetof(ib_uverbs_post_recv, recv_wr));
	static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + offsetof(ib_uverbs_post_srq_recv, recv));
	static_assert(offsetof(Command, handle) == 8 + offsetof(ib_uverbs_post_send, qp_handle));
	static_assert(offsetof(Command, handle) == 8 + offsetof(ib_uverbs_post_srq_recv, srq_handle));
	static_assert(offsetof(Command, wqe_size) == 8 + offsetof(ib_uverbs_post_send, wqe_size));
	static_assert(sizeof(bad_wr_) == sizeof(ib_uverbs_post_send_resp));
	static_assert(sizeof(bad_wr_) == sizeof(ib_uverbs_post_recv_resp));
	static_assert(sizeof(bad_wr_) == sizeof(ib_uverbs_post_srq_recv_resp));

	return {
		.header = {.command = number, .in_words = sizeof(Command) / 4, .out_words = sizeof(bad_wr_) / 4},
		.response = address(&bad_wr_),
		.handle = handle,
		.wr_count = 0,
		.sge_count = 0,
		.wqe_size = wqe_size,
	};
}

void Doorbell::init(int cmd_fd, std::uint32_t qp_handle)
{
	fd_ = cmd_fd;
	send_ = make_command(IB_USER_VERBS_CMD_POST_SEND, qp_handle, sizeof(ib_uverbs_send_wr));
	recv_ = make_command(IB_USER_VERBS_CMD_POST_RECV, qp_handle, sizeof(ib_uverbs_recv_wr));
}

void Doorbell::init_srq(int cmd_fd, std::uint32_t srq_handle)
{
	fd_ = cmd_fd;
	recv_ = make_command(IB_USER_VERBS_CMD_POST_SRQ_RECV, srq_handle, sizeof(ib_uverbs_recv_wr));
}

int Doorbell::by_write(const Command &command) const
{
	// Not write(), which is a cancellation point: other threads would wait for a thread that ended here, see
	// WorkQueue.
	return ::syscall(SYS_write, fd_, &command, sizeof(command)) == sizeof(command) ? 0 : errno;
}

int Doorbell::by_ioctl(const Command &command) const
{
	// uverbs marks the attributes that it answered.
	Invocation invocation = {
		.length = sizeof(invocation),
		.object_id = UVERBS_OBJECT_DEVICE,
		.method_id = UVERBS_METHOD_INVOKE_WRITE,
		.num_attrs = 3,
		.reserved1 = 0,
		.driver_id = KIWARP_DRIVER_ID,
		.reserved2 = 0,
		.attrs =
			{
				// What follows the header of a write
				attribute(UVERBS_ATTR_CORE_IN, sizeof(command) - sizeof(command.header),
					address(&command.response)),
				attribute(UVERBS_ATTR_CORE_OUT, sizeof(bad_wr_), address(&bad_wr_)),
				attribute(UVERBS_ATTR_WRITE_CMD, sizeof(std::uint64_t), command.header.command),
			},
	};

	return ::ioctl(fd_, RDMA_VERBS_IOCTL, &invocation) == 0 ? 0 : errno;
}

int Doorbell::ring(const Command &command)
{
	for (int i = 1;; i++) {
		int error = EACCES;

		if (!write_refused_.load(std::memory_order_relaxed)) [[likely]]
			error = by_write(command);
		if (error == EACCES) {
			write_refused_.store(true, std::memory_order_relaxed);
			error = by_ioctl(command);
		}
		if (!transient(error) || i == tries)
			return error;
	}
}

} // namespace kiw
