// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// In place of provider/doorbell.cpp: a doorbell is a call, of the queue that a command's address names.
#include "doorbell.hpp"

#include "objects.hpp"
#include "qp.hpp"
#include "srq.hpp"

namespace kiw {

Doorbell::Command Doorbell::make_command(std::uint32_t number, std::uint32_t handle, std::uint32_t) const
{
	const void *queue = number == IB_USER_VERBS_CMD_POST_SRQ_RECV
				    ? static_cast<const void *>(kiwu::find_srq(handle))
				    : static_cast<const void *>(kiwu::find_qp(handle));

	return {
		.header = {.command = number, .in_words = 0, .out_words = 0},
		.response = reinterpret_cast<std::uintptr_t>(queue),
		.handle = handle,
		.wr_count = 0,
		.sge_count = 0,
		.wqe_size = 0,
	};
}

void Doorbell::init(int cmd_fd, std::uint32_t qp_handle)
{
	fd_ = cmd_fd;
	send_ = make_command(IB_USER_VERBS_CMD_POST_SEND, qp_handle, 0);
	recv_ = make_command(IB_USER_VERBS_CMD_POST_RECV, qp_handle, 0);
}

void Doorbell::init_srq(int cmd_fd, std::uint32_t srq_handle)
{
	fd_ = cmd_fd;
	recv_ = make_command(IB_USER_VERBS_CMD_POST_SRQ_RECV, srq_handle, 0);
}

int Doorbell::ring(const Command &command)
{
	void *queue = reinterpret_cast<void *>(command.response); // NOLINT(performance-no-int-to-ptr)

	switch (command.header.command) {
	case IB_USER_VERBS_CMD_POST_SEND:
		return static_cast<kiwu::Qp *>(queue)->ring_send();
	case IB_USER_VERBS_CMD_POST_RECV:
		return static_cast<kiwu::Qp *>(queue)->ring_recv();
	default:
		static_cast<kiwu::Srq *>(queue)->doorbell();
		return 0;
	}
}

} // namespace kiw
