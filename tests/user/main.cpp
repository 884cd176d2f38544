// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The GoogleTests; or, as "user_test --peer ROLE...", the other end of one of them in a process of its own.
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>

#include "peer.hpp"

int main(int argc, char **argv)
{
	// Some of the processes end early.
	std::signal(SIGPIPE, SIG_IGN);
	if (argc > 2 && std::strcmp(argv[1], "--peer") == 0)
		return user::play(argv[2], argv + 3);
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
