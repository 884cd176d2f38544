// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "user.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <grp.h>
#include <iostream>
#include <memory>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/support.hpp"

namespace identity {

std::string run_as(unsigned uid, const std::string &command, const std::string &netns)
{
	const std::string id = std::to_string(uid);
	const std::string whole = (netns.empty() ? "" : "ip netns exec " + netns + " ") + "setpriv --reuid " + id +
				  " --regid " + id + " --clear-groups sh -c '" + command + "' 2>&1";
	const std::unique_ptr<FILE, int (*)(FILE *)> pipe(popen(whole.c_str(), "r"), pclose);
	std::array<char, 4096> buffer{};
	std::string all;

	if (!pipe)
		vt::fail("popen", errno);
	while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe.get()))
		all.append(buffer.data(), n);
	return all;
}

Process::Process(unsigned uid, const std::function<int()> &run, const std::string &netns) : pid_(fork())
{
	if (pid_ < 0)
		vt::fail("fork", errno);
	if (pid_)
		return;
	int status = 99;
	const vt::InNamespace in(netns);
	// Whose end the kernel tells is forgotten with the user.
	if (!setgroups(0, nullptr) && !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid) &&
		!prctl(PR_SET_PDEATHSIG, SIGKILL)) {
		try {
			status = run();
		} catch (const std::exception &e) {
			std::cerr << e.what() << '\n';
			status = 98;
		}
	}
	_exit(status);
}

Process::~Process()
{
	if (pid_ <= 0)
		return;
	kill(pid_, SIGKILL);
	waitpid(pid_, nullptr, 0);
}

int Process::status()
{
	int status = 0;

	waitpid(pid_, &status, 0);
	pid_ = -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Pipe::Pipe()
{
	if (pipe(ends_.data()))
		vt::fail("pipe", errno);
}

Pipe::~Pipe()
{
	for (const int fd : ends_)
		close(fd);
}

void Pipe::tell(std::uint32_t number) const
{
	if (write(ends_[1], &number, sizeof(number)) != sizeof(number))
		vt::fail("write", errno);
}

std::uint32_t Pipe::hear() const
{
	std::uint32_t number = 0;

	if (read(ends_[0], &number, sizeof(number)) != sizeof(number))
		vt::fail("read", errno);
	return number;
}

} // namespace identity
