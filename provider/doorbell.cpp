// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "doorbell.hpp"

#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "invocation.hpp"

namespace kiw {

namespace {

// uverbs allocates a little memory before it calls the module.
constexpr int tries = 8;

constexpr bool transient(int error)
{
	return error == EINTR || error == EAGAIN || error == ENOMEM;
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
	// Not write(), a cancellation point: other threads would wait for a thread that ended here, see WorkQueue.
	return ::syscall(SYS_write, fd_, &command, sizeof(command)) == sizeof(command) ? 0 : errno;
}

int Doorbell::by_ioctl(const Command &command) const
{
	return invoke(fd_, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE,
		// The rest after the header of a write
		attribute(UVERBS_ATTR_CORE_IN, sizeof(command) - sizeof(command.header), address(&command.response)),
		attribute(UVERBS_ATTR_CORE_OUT, sizeof(bad_wr_), address(&bad_wr_)),
		attribute(UVERBS_ATTR_WRITE_CMD, sizeof(std::uint64_t), command.header.command));
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
