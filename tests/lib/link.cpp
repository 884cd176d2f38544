// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "link.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <ifaddrs.h>
#include <sstream>
#include <unistd.h>

namespace vt {

bool run(const std::string &command)
{
	return std::system(command.c_str()) == 0; // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

std::string in(const Where &where)
{
	return where.netns.empty() ? "" : "ip netns exec " + where.netns + " ";
}

std::string interface_of(const Where &where)
{
	const InNamespace inside(where.netns);
	ifaddrs *all = nullptr;
	std::string name;

	if (getifaddrs(&all))
		fail("getifaddrs", errno);
	for (const ifaddrs *one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || one->ifa_addr->sa_family != where.address.ss_family)
			continue;
		const bool four = where.address.ss_family == AF_INET;
		const std::size_t at = four ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
		if (!std::memcmp(reinterpret_cast<const char *>(one->ifa_addr) + at,
			    reinterpret_cast<const char *>(&where.address) + at, four ? 4 : 16))
			name = one->ifa_name;
	}
	freeifaddrs(all);
	if (name.empty())
		fail("no interface has the address");
	return name;
}

std::uint64_t counter(ibv_context *context, const std::string &name)
{
	if (const auto get = OF_LIBRARY(kiwarp_user_get_counter)) {
		std::uint64_t value = 0;

		if (const int error = get(name.c_str(), &value))
			fail("counter " + name, error);
		return value;
	}
	std::ifstream file(std::string("/sys/class/infiniband/") + ibv_get_device_name(context->device) +
			   "/ports/1/hw_counters/" + name);
	std::uint64_t value = 0;

	file >> value;
	if (!file)
		fail("no counter " + name);
	return value;
}

LinkOption::LinkOption(const std::string &device, const std::string &name, const std::string &value)
	: file_("/sys/class/infiniband/" + device + "/" + name)
{
	if (const int error = set(value))
		fail(file_, error);
}

LinkOption::~LinkOption()
{
	EXPECT_EQ(set("default"), 0);
}

int LinkOption::set(const std::string &value) const
{
	const int fd = open(file_.c_str(), O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	const int error = write(fd, value.data(), value.size()) < 0 ? errno : 0;
	close(fd);
	return error;
}

HeldBack::HeldBack(const Where &where, const std::string &how) : in_(in(where)), interface_(interface_of(where))
{
	set(how);
}

HeldBack::~HeldBack()
{
	EXPECT_TRUE(run(in_ + "tc qdisc delete dev " + interface_ + " root"));
}

void HeldBack::set(const std::string &how) const
{
	tc("replace", "root", how);
}

// TBF cuts up what is longer than its bucket.
void HeldBack::set_for_each(const std::string &how) const
{
	tc("replace", "root", "handle 1: tbf rate 100gbit burst 2000 limit 100000000");
	tc("add", "parent 1:", how);
}

void HeldBack::tc(const std::string &verb, const std::string &where, const std::string &how) const
{
	if (!run(in_ + "tc qdisc " + verb + " dev " + interface_ + " " + where + " " + how))
		fail("tc refuses " + how);
}

SpareLink::SpareLink()
{
	if (!run("ip link add kiwz0 netns left type veth peer name kiwz1 netns right"))
		fail("no interfaces can be made here");
	for (const char *end : {"left kiwz0", "right kiwz1"})
		if (!run(std::string("set -- ") + end +
			    "; ip -n $1 link set $2 addrgenmode none && ip -n $1 link set $2 up && "
			    "ip netns exec $1 rdma link add $2 type kiwarp netdev $2"))
			fail("no device can be made here");
}

SpareLink::~SpareLink()
{
	EXPECT_TRUE(run("ip -n left link delete kiwz0"));
	wait_until([] { return !run("rdma link show | grep -q kiwz"); }, "the spare links to go");
}

void SpareLink::address(const std::string &arguments, const std::string &device, const std::string &first)
{
	const std::string file = "/sys/class/infiniband/" + device + "/ports/1/gids/0";
	std::array<char, INET6_ADDRSTRLEN> text{};
	in6_addr address{};

	const std::string host = device == "kiwz0" ? "left" : "right";
	if (!run("ip -n " + host + " address " + arguments + " dev " + device))
		fail("ip address " + arguments);
	wait_until(
		[&] {
			std::ifstream gid(file);
			std::string line;
			std::getline(gid, line);
			return first.empty() ||
			       (inet_pton(AF_INET6, line.c_str(), &address) == 1 &&
				       inet_ntop(AF_INET6, &address, text.data(), text.size()) == first);
		},
		"slot 0 of " + device + " to be " + first);
}

namespace {

/// A line of /proc/net/tcp.
struct Line {
	std::uint16_t local;
	std::uint16_t remote;
	int state;
};

void each_line(const Where &where, const std::function<void(const Line &)> &take)
{
	const InNamespace inside(where.netns);
	const bool four = where.address.ss_family == AF_INET;
	std::ifstream table(std::string("/proc/thread-self/net/") + (four ? "tcp" : "tcp6"));
	const auto port = [](const std::string &address) {
		return static_cast<std::uint16_t>(std::stoul(address.substr(address.find(':') + 1), nullptr, 16));
	};
	std::string text;

	std::getline(table, text);
	while (std::getline(table, text)) {
		std::istringstream words(text);
		std::string number;
		std::string local;
		std::string remote;
		std::string state;
		words >> number >> local >> remote >> state;
		take({.local = port(local), .remote = port(remote), .state = std::stoi(state, nullptr, 16)});
	}
}

} // namespace

int tcp_state(const Where &where, std::uint16_t remote_port)
{
	int state = 0;

	each_line(where, [&](const Line &line) {
		if (line.remote == remote_port)
			state = line.state;
	});
	return state;
}

int tcp_listeners(const Where &where, std::uint16_t port)
{
	int found = 0;

	each_line(where, [&](const Line &line) { found += line.local == port && line.state == tcp_listen; });
	return found;
}

} // namespace vt
