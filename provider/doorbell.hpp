// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Doorbells make the kernel look at a ring. They are the uverbs commands POST_SEND, POST_RECV and POST_SRQ_RECV without
// a work request.
//
// write(2) on the uverbs file is the fast way. uverbs refuses it with EACCES to a thread with other credentials than
// those that opened the file, even if they are equal: after setresuid(2) it never works again. ioctl(2) runs the same
// command without this check but takes longer. It is used after the first such refusal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <rdma/ib_user_verbs.h>

namespace kiw {

/// The two commands of one QP, or the one of an SRQ, built once.
class Doorbell {
public:
	void init(int cmd_fd, std::uint32_t qp_handle);
	/// Of an SRQ: ring_recv() is its doorbell, and there is no other.
	void init_srq(int cmd_fd, std::uint32_t srq_handle);

	/// Both return 0 or an errno value. EIO: the device is gone.
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
	/// Both return 0 or an errno value, after one try.
	int by_write(const Command &command) const;
	int by_ioctl(const Command &command) const;

	Command send_;
	Command recv_;
	int fd_;
	std::uint32_t bad_wr_; // the kernel's answer to both, never read
	std::atomic<bool> write_refused_ = false;
};

} // namespace kiw
