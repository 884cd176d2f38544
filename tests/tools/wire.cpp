// SPDX-License-Identifier: GPL-2.0
// wire listen|connect PATH FD COMMAND...: becomes COMMAND, with one end of a wire between two guests as descriptor FD.
// The guest that connects waits for the one that listens. Frames keep their bounds, and none is lost.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

namespace {

// About 25 of TCP's long packets
constexpr int buffer = 1 << 20;

void check(bool good, const char *what)
{
	if (!good)
		throw std::system_error(errno, std::generic_category(), what);
}

int open_socket()
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	check(fd >= 0, "socket");
	return fd;
}

int accept_at(const sockaddr_un &name)
{
	const int listener = open_socket();

	check(bind(listener, reinterpret_cast<const sockaddr *>(&name), sizeof(name)) == 0, "bind");
	check(listen(listener, 1) == 0, "listen");
	const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
	check(fd >= 0, "accept");
	return fd;
}

int connect_to(const sockaddr_un &name)
{
	const int fd = open_socket();

	while (connect(fd, reinterpret_cast<const sockaddr *>(&name), sizeof(name)) != 0) {
		check(errno == ENOENT || errno == ECONNREFUSED, "connect");
		usleep(10000);
	}
	return fd;
}

} // namespace

int main(int argc, char **argv)
try {
	sockaddr_un name{};

	if (argc < 5 || std::strlen(argv[2]) >= sizeof(name.sun_path)) {
		std::cerr << "usage: wire listen|connect PATH FD COMMAND...\n";
		return 2;
	}
	name.sun_family = AF_UNIX;
	std::strcpy(name.sun_path, argv[2]);
	const int fd = std::string_view(argv[1]) == "listen" ? accept_at(name) : connect_to(name);
	check(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)) == 0, "SO_SNDBUFFORCE");
	check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
	check(dup2(fd, static_cast<int>(std::strtol(argv[3], nullptr, 10))) >= 0, "dup2");
	execvp(argv[4], argv + 4);
	check(false, argv[4]);
} catch (const std::exception &e) {
	std::cerr << "wire: " << e.what() << '\n';
	return 1;
}
