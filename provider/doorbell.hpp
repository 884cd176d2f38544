// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// How the kernel is told to look at a ring: the uverbs commands POST_SEND and POST_RECV without any
// work request in them.
//
// The fast way is write(2) on the uverbs file. uverbs refuses it with EACCES to a thread whose credentials aren't those
// that opened the file, equal ones included: after setresuid(2) it never works again. The same command by ioctl(2) has
// no such check. It takes longer, so it is used from the first such refusal on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <rdma/ib_user_verbs.h>

namespace kiw {

/// The two commands of one QP, built once.
class Doorbell {
public:
	void init(int cmd_fd, std::uint32_t qp_handle);

	/// Both return 0 or an errno value. EIO: the device is gone.
	int ring_send() { return ring(send_); }
	int ring_recv() { return ring(recv_); }

private:
	struct Command {
		ib_uverbs_cmd_hdr header;
		std::uint64_t response;
		std::uint32_t qp_handle;
		std::uint32_t wr_count;
		std::uint32_t sge_count;
		std::uint32_t wqe_size;
	};

	int ring(const Command &command);
	/// Both return 0 or an errno value, after one try.
	int by_write(const Command &command) const;
	int by_ioctl(const Command &command) const;

	Command send_;
	Command recv_;
	int fd_;
	std::uint32_t bad_wr_; // the kernel's answer to both; nobody reads it
	std::atomic<bool> write_refused_ = false;
};

} // namespace kiw
