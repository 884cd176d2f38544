// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// older PROGRAM ARGUMENT...: runs it as on a kernel, or in a sandbox, without epoll_pwait2() (Linux 5.11) and TCP_INQ
// (Linux 4.18). Ends with 125 if they are still there, and with 127 if there is no such program.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr std::uint32_t call = offsetof(seccomp_data, nr);
// The lower half of an argument, where bytes come in that order
constexpr std::uint32_t argument(std::size_t index)
{
	return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t));
}

constexpr sock_filter load(std::uint32_t offset)
{
	return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}

/// The next statement, or, if what was loaded isn't that value, so many later
constexpr sock_filter unless(std::uint32_t value, std::uint8_t skipped)
{
	return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

constexpr sock_filter end_with(std::uint32_t action)
{
	return BPF_STMT(BPF_RET | BPF_K, action);
}

bool lack_them()
{
	std::array filter = {
		load(call),
		unless(SYS_epoll_pwait2, 1),
		end_with(SECCOMP_RET_ERRNO | ENOSYS),
		unless(SYS_setsockopt, 5),
		load(argument(1)),
		unless(IPPROTO_TCP, 3),
		load(argument(2)),
		unless(TCP_INQ, 1),
		end_with(SECCOMP_RET_ERRNO | ENOPROTOOPT),
		end_with(SECCOMP_RET_ALLOW),
	};
	const sock_fprog program = {.len = filter.size(), .filter = filter.data()};

	return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool are_there()
{
	constexpr int one = 1;
	const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
	const bool option = ::setsockopt(fd, IPPROTO_TCP, TCP_INQ, &one, sizeof(one)) == 0 || errno != ENOPROTOOPT;

	::close(fd);
	return option || ::syscall(SYS_epoll_pwait2, -1, nullptr, 1, nullptr, nullptr, 0) == 0 || errno != ENOSYS;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 2 || !lack_them() || are_there()) {
		std::perror("older");
		return 125;
	}
	::execvp(argv[1], argv + 1);
	std::perror(argv[1]);
	return 127;
}
