// SPDX-License-Identifier: GPL-2.0
// Two connected sockets.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace session {

class Sockets {
public:
	Sockets()
	{
		if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_.data()))
			throw std::runtime_error("socketpair");
	}
	~Sockets()
	{
		::close(fds_[0]);
		::close(fds_[1]);
	}
	Sockets(const Sockets &) = delete;
	Sockets &operator=(const Sockets &) = delete;

	/// One call of recvmsg() gets nothing of what is written later.
	void write(std::span<std::uint8_t> bytes) const
	{
		// Descriptors come one message at a time.
		alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
		iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
		msghdr message{};

		message.msg_iov = &part;
		message.msg_iovlen = 1;
		message.msg_control = control.data();
		message.msg_controllen = control.size();
		*CMSG_FIRSTHDR(&message) = {
			.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds_.data(), sizeof(int));
		if (::sendmsg(fds_[1], &message, 0) != static_cast<ssize_t>(bytes.size()))
			throw std::runtime_error("sendmsg");
	}
	/// What nobody has read, at most 64 KB of it
	[[nodiscard]] std::vector<std::uint8_t> rest() const
	{
		std::vector<std::uint8_t> bytes(1 << 16);
		const ssize_t got = ::recv(fds_[0], bytes.data(), bytes.size(), MSG_DONTWAIT);

		bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
		return bytes;
	}
	[[nodiscard]] int fd() const { return fds_[0]; }

private:
	std::array<int, 2> fds_{};
};

} // namespace session
