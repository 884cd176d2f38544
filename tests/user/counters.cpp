// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// To preload beside the library: writes the counters of the process into the file KIWARP_TEST_COUNTERS, as NAME:VALUE,
// when SIGUSR1 comes, and when the process ends.
#include <array>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "../../user/kiwarp-user.h"

namespace {

// Sorted
constexpr std::array names = {"connect_fails", "connections_lost", "connects", "cq_overflows", "crc_errors",
	"mpa_malformed", "mpa_rejects", "mpa_timeouts", "ring_errors", "stream_errors", "terminates_received",
	"terminates_sent"};

decltype(kiwarp_user_get_counter) *get_counter;
std::array<char, PATH_MAX> file; // leaves room for the name of a draft

// Called by a signal's handler
void write_all(int)
{
	std::array<char, 4096> text{};
	char *at = text.data();

	for (const char *name : names) {
		std::uint64_t value = 0;

		if (get_counter(name, &value))
			std::abort();
		at = stpcpy(at, name);
		*at++ = ':';
		at = std::to_chars(at, text.data() + text.size() - 1, value).ptr;
		*at++ = '\n';
	}
	const auto length = static_cast<std::size_t>(at - text.data());
	// Two threads may be at it.
	std::array<char, PATH_MAX> draft = file;
	at = stpcpy(draft.data() + std::strlen(draft.data()), ".");
	*std::to_chars(at, draft.data() + draft.size() - 1, gettid()).ptr = '\0';
	const int fd = open(draft.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text.data(), length) < 0 || rename(draft.data(), file.data()))
		std::abort();
	close(fd);
}

[[gnu::constructor]] void begin()
{
	const char *path = std::getenv("KIWARP_TEST_COUNTERS");
	struct sigaction action {};

	get_counter = reinterpret_cast<decltype(get_counter)>(dlsym(RTLD_DEFAULT, "kiwarp_user_get_counter"));
	// kiwarp-user itself and other helpers of a test get it, too.
	if (!path || !get_counter) {
		get_counter = nullptr;
		return;
	}
	std::snprintf(file.data(), file.size() - 16, "%s", path);
	action.sa_handler = write_all;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
}

[[gnu::destructor]] void end()
{
	if (get_counter)
		write_all(0);
}

} // namespace

// Where two threads end a process at once, as rping's do, no destructor may run.
extern "C" void exit(int status)
{
	end();
	reinterpret_cast<decltype(exit) *>(dlsym(RTLD_NEXT, "exit"))(status);
	std::abort();
}
