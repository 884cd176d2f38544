// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// netem_wire NETNS TAP NETNS TAP [EVERY]: a wire between two tap interfaces. In each EVERY-th long TCP segment it swaps
// two neighbouring words of 16 bits, which TCP's checksum can't see. Writes "up" once it forwards; until it is killed.
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace {

constexpr std::size_t longest = 65536;
// A segment of which the middle surely is payload
constexpr std::size_t long_segment = 600;

[[noreturn]] void fail(const std::string &what)
{
	std::cerr << what << ": " << std::strerror(errno) << '\n';
	std::exit(1);
}

int open_tap(const std::string &netns, const std::string &name)
{
	const int there = open(("/run/netns/" + netns).c_str(), O_RDONLY | O_CLOEXEC);
	if (there < 0 || setns(there, CLONE_NEWNET))
		fail(netns);
	close(there);

	const int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	ifreq request{};
	request.ifr_flags = IFF_TAP | IFF_NO_PI;
	name.copy(request.ifr_name, IFNAMSIZ - 1);
	if (tap < 0 || ioctl(tap, TUNSETIFF, &request))
		fail(name);
	return tap;
}

bool is_long_tcp(const std::array<std::uint8_t, longest> &frame, std::size_t length)
{
	const bool ipv4 = frame[12] == 0x08 && frame[13] == 0x00;

	return length >= long_segment && ipv4 && frame[23] == IPPROTO_TCP;
}

// Return: whether there was a difference to make.
bool swap_words(std::array<std::uint8_t, longest> &frame, std::size_t length)
{
	const std::size_t at = length / 2 / 2 * 2;

	std::swap(frame[at], frame[at + 2]);
	std::swap(frame[at + 1], frame[at + 3]);
	return frame[at] != frame[at + 2] || frame[at + 1] != frame[at + 3];
}

void forward(int from, int to, unsigned long every)
{
	static std::array<std::uint8_t, longest> frame;
	static unsigned long segments = 0;
	const ssize_t length = read(from, frame.data(), frame.size());

	if (length <= 0)
		fail("read");
	if (every && is_long_tcp(frame, static_cast<std::size_t>(length)) && ++segments % every == 0 &&
		!swap_words(frame, static_cast<std::size_t>(length)))
		segments--;
	// What finds no room is lost, as on other wires.
	if (write(to, frame.data(), static_cast<std::size_t>(length)) < 0 && errno != EAGAIN && errno != EIO)
		fail("write");
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 5) {
		std::cerr << "usage: netem_wire NETNS TAP NETNS TAP [EVERY]\n";
		return 2;
	}
	const unsigned long every = argc > 5 ? std::strtoul(argv[5], nullptr, 10) : 0;
	const int one = open_tap(argv[1], argv[2]);
	const int other = open_tap(argv[3], argv[4]);
	std::array<pollfd, 2> ends = {{{.fd = one, .events = POLLIN}, {.fd = other, .events = POLLIN}}};

	std::cout << "up" << std::endl;
	while (poll(ends.data(), ends.size(), -1) > 0) {
		if (ends[0].revents)
			forward(one, other, every);
		if (ends[1].revents)
			forward(other, one, every);
	}
	fail("poll");
}
