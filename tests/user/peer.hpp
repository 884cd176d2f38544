// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The other end of a test in a process of its own, which does what it is told by lines.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <sys/types.h>
#include <vector>

#include "pair.hpp"

namespace user {

/// What a side tells its peer of its memory, as private data
struct Told {
	std::uint64_t address;
	std::uint32_t rkey;
	std::uint32_t length;
};

// What a process does, by its role:
//	target			listens on 127.0.0.1, says "port NUMBER", accepts a connection, says "up", and obeys:
//				"sleep SECONDS" (says "slept"), "spin SECONDS" likewise, "sum" (says "sum NUMBER"
//				of its memory's bytes), "unmap" (says "unmapped": 64 KB of it are gone), "exit"
//	source PORT END		connects to it, says "up"; on "send COUNT LENGTH" sends so many messages, and says
//				"completed COUNT" when nothing completes any more; on "end" ends by END, which
//				is exit, _exit or kill
//	sockets			says "sockets COUNT": those that it was started with
int play(const std::string &role, char **arguments);

/// Such a process
class Peer {
public:
	explicit Peer(std::vector<std::string> arguments);
	~Peer();
	Peer(const Peer &) = delete;
	Peer &operator=(const Peer &) = delete;

	void say(const std::string &line);
	/// The next line, without its end; empty: there is none, as the process has ended.
	std::string hear();
	/// The number behind a word, which has to be that of the next line
	unsigned long hear(const std::string &word);
	/// Whether a line is there
	bool has_said() const;
	void signal(int number) const;
	/// Stops it, and waits until it is.
	void stop() const;
	/// As waitpid() tells it
	int wait();

private:
	pid_t pid_ = -1;
	std::FILE *to_ = nullptr, *from_ = nullptr;
};

/// Connects an end to a target's port, and hears of the target's memory.
void connect(End &end, const std::string &port, Told &told, std::uint32_t depth = 64);

} // namespace user
