// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// kiwarp-user [--drop-in] PROGRAM...: runs a program with the user-level device.
#include <cstdio>
#include <cstring>

#include "tools/launch.hpp"

int main(int argc, char **argv)
{
	kiw::Launch launch("kiwarp-user");
	const bool drop_in = argc > 1 && std::strcmp(argv[1], "--drop-in") == 0;
	char **command = argv + 1 + drop_in;

	if (!*command || std::strcmp(*command, "-h") == 0 || std::strcmp(*command, "--help") == 0) {
		(void)std::fprintf(*command ? stdout : stderr,
			"usage: kiwarp-user [--drop-in] PROGRAM [ARGUMENT...]\n"
			"Runs a program with the RDMA device kiwu0, which needs no kernel module and no rights.\n"
			"  --drop-in  in place of libibverbs.so.1 and librdmacm.so.1, not in front of them\n"
			"KIWARP_USER has its options, see kiwarp-user(7).\n");
		return *command ? 0 : 2;
	}
	if (**command == '-')
		launch.give_up(2, "there is no option %s", *command);
	launch.find_program(*command);
	if (drop_in)
		launch.prefer_folder_of("drop-in/libibverbs.so.1");
	launch.preload("libkiwarp-user.so.0");
	launch.run(command);
}
