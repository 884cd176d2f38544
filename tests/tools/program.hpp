// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// How the small programs begin that run beside a test until SIGTERM tells them to end: NAME ADDRESS PORT.
#pragma once

#include <csignal>
#include <cstdlib>
#include <netdb.h>

/// Whether SIGTERM has come
inline volatile std::sig_atomic_t over;

/// The address of the command line, for the life of the process; exits with 2 where it is none.
inline sockaddr *begin_program(int argc, char **argv)
{
	addrinfo hints = {};
	addrinfo *ai = nullptr;
	struct sigaction act = {};

	hints.ai_flags = AI_NUMERICHOST;
	if (argc != 3 || getaddrinfo(argv[1], argv[2], &hints, &ai))
		std::exit(2); // NOLINT(concurrency-mt-unsafe)
	act.sa_handler = [](int) {
		over = 1;
	};
	sigaction(SIGTERM, &act, nullptr);
	return ai->ai_addr;
}
