// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "doorbell.hpp"

#include <cerrno>
#include <unistd.h>

namespace kiw {

namespace {

// uverbs allocates a little before it gets to us.
constexpr int tries = 8;

constexpr bool transient(int error)
{
	return error == EINTR || error == EAGAIN || error == ENOMEM;
}

} // namespace

void Doorbell::init(int cmd_fd, std::uint32_t qp_handle)
{
	static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + offsetof(ib_uverbs_post_send, send_wr));
	static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + offsetof(ib_uverbs_post_recv, recv_wr));
	static_assert(offsetof(Command, qp_handle) == 8 + offsetof(ib_uverbs_post_send, qp_handle));
	static_assert(offsetof(Command, wqe_size) == 8 + offsetof(ib_uverbs_post_send, wqe_size));
	static_assert(sizeof(bad_wr_) == sizeof(ib_uverbs_post_send_resp));
	static_assert(sizeof(bad_wr_) == sizeof(ib_uverbs_post_recv_resp));

	const auto command = [&](std::uint32_t number, std::uint32_t wqe_size) {
		return Command{
			.header = {.command = number,
				.in_words = sizeof(Command) / 4,
				.out_words = sizeof(bad_wr_) / 4},
			.response = reinterpret_cast<std::uintptr_t>(&bad_wr_),
			.qp_handle = qp_handle,
			.wr_count = 0,
			.sge_count = 0,
			.wqe_size = wqe_size,
		};
	};

	fd_ = cmd_fd;
	send_ = command(IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_send_wr));
	recv_ = command(IB_USER_VERBS_CMD_POST_RECV, sizeof(ib_uverbs_recv_wr));
}

int Doorbell::write(const Command &command) const
{
	for (int i = 1;; i++) {
		if (::write(fd_, &command, sizeof(command)) == sizeof(command)) [[likely]]
			return 0;
		if (!transient(errno) || i == tries)
			return errno;
	}
}

} // namespace kiw
