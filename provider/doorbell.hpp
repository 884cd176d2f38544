// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Doorbells make the kernel look at a ring: uverbs commands POST_SEND, POST_RECV and POST_SRQ_RECV without a work
// request.
//
// write(2) on the uverbs file is fast. uverbs refuses it with EACCES to a thread with other credentials than the
// opener's, even equal ones: after setresuid(2) it never works again. ioctl(2) runs the same command without this
// check, but slower; it is used after the first refusal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <rdma/ib_user_verbs.h>

namespace kiw {

/// The two commands of a QP, or the one of an SRQ, built once.
class Doorbell {
public:
	void init(int cmd_fd, std::uint32_t qp_handle);
	/// SRQ: ring_recv() is its only doorbell.
	void init_srq(int cmd_fd, std::uint32_t srq_handle);

	/// Return 0 or an errno value. EIO: the device is gone.
	int ring_send() { return ring(send_); }
	int ring_recv() { return ring(recv_); }

private:
	struct Command {
		ib_uverbs_cmd_hdr header;
		std::uint64_t response;
		std::uint32_t handle;
		std::uint32_t wr_count;
		std::uint32_t sge_count;
		std::uint32_t wqe_size;
	};

	Command make_command(std::uint32_t number, std::uint32_t handle, std::uint32_t wqe_size) const;
	int ring(const Command &command);
	/// Return 0 or an errno value, after one try.
	int by_write(const Command &command) const;
	int by_ioctl(const Command &command) const;

	Command send_;
	Command recv_;
	int fd_;
	std::uint32_t bad_wr_; // the kernel's answer, never read
	std::atomic<bool> write_refused_ = false;
};

} // namespace kiw
