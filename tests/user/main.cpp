// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The GoogleTests; or, as "user_test --peer ROLE...", the other end of one of them in a process of its own.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "peer.hpp"

int main(int argc, char **argv)
{
	// Some of the processes end early.
	std::signal(SIGPIPE, SIG_IGN);
	if (argc > 2 && std::strcmp(argv[1], "--peer") == 0)
		return user::play(argv[2], argv + 3);
	// A machine under load takes its time to post what a peer waits for.
	const char *options = std::getenv("KIWARP_USER");
	::setenv("KIWARP_USER", (std::string("receive_wait=60 ") + (options ? options : "")).c_str(), 1);
	testing::InitGoogleTest(&argc, argv);
	const int failed = RUN_ALL_TESTS();
#ifdef __SANITIZE_ADDRESS__
	// Children of fork() forget what their parent had: for them, nobody looks for leaks at exit().
	return __lsan_do_recoverable_leak_check() || failed;
#endif
	return failed;
}
