// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Another user of the machine, without any right.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>

namespace identity {

constexpr unsigned nobody = 65534;

/// What a command of the shell writes, both streams, when that user runs it in a namespace of the network, or in this
/// one
std::string run_as(unsigned uid, const std::string &command, const std::string &netns = {});

/// A process of that user, in a namespace of the network or in this one. Its status is what the function returns; it is
/// killed when the object or its parent goes.
class Process {
public:
	explicit Process(unsigned uid, const std::function<int()> &run, const std::string &netns = {});
	~Process();
	Process(const Process &) = delete;
	Process &operator=(const Process &) = delete;

	pid_t pid() const { return pid_; }
	/// Waits for its end; -1 where a signal ended it
	int status();

private:
	pid_t pid_;
};

/// Numbers from one process to another
class Pipe {
public:
	Pipe();
	~Pipe();
	Pipe(const Pipe &) = delete;
	Pipe &operator=(const Pipe &) = delete;

	void tell(std::uint32_t number) const;
	/// Waits for the next.
	std::uint32_t hear() const;

private:
	std::array<int, 2> ends_{};
};

} // namespace identity
