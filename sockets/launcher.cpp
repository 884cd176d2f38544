// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// kiwarp-sockets [-v] [-m MODE] PROGRAM...: runs a program with connections that may have lanes.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "tools/launch.hpp"

int main(int argc, char **argv)
{
	kiw::Launch launch("kiwarp-sockets");
	int option = 0;

	// The program has options of its own.
	while ((option = ::getopt(argc, argv, "+vm:h")) != -1)
		switch (option) {
		case 'v':
			(void)::setenv("IWARP_VERBOSE", "1", 1);
			break;
		case 'm':
			(void)::setenv("IWARP_MODE", ::optarg, 1);
			break;
		case 'h':
			(void)std::puts(
				"usage: kiwarp-sockets [-v] [-m MODE] PROGRAM [ARGUMENT...]\n"
				"Runs a program with TCP connections that may go by RDMA, where IWARP_PEERS or "
				"IWARP_PORTS\n"
				"say so, see kiwarp-sockets(1).\n"
				"  -m MODE  api (default): none; always: where there is RDMA; require: or not at all\n"
				"  -v       tell of each such connection at its end how its octets went");
			return 0;
		default:
			return 2;
		}
	if (!argv[::optind])
		launch.give_up(2, "there is no program; -h tells the usage");
	launch.find_program(argv[::optind]);
	launch.preload("libkiwarp-sockets.so.0");
	launch.run(argv + ::optind);
}
