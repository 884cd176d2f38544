// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Whose a connection is: its socket belongs to the control group of the process that connects, whichever attempt it is
// that succeeds. TCP's memory is charged to that group, and its BPF programs see the packets.
#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../lib/by_number.hpp"
#include "../lib/link.hpp"

namespace {

using namespace number;

/// This process in a control group of its own, for a scope
class OwnGroup {
public:
	OwnGroup()
	{
		if (!mkdtemp(top_.data()))
			vt::fail("mkdtemp", errno);
		if (mount("none", top_.data(), "cgroup2", 0, nullptr))
			vt::fail("mount", errno);
		if (mkdir(folder().c_str(), 0755))
			vt::fail("mkdir", errno);
		enter(folder());
	}
	~OwnGroup()
	{
		enter(top_.data());
		EXPECT_EQ(rmdir(folder().c_str()), 0);
		EXPECT_EQ(umount(top_.data()), 0);
		rmdir(top_.data());
	}
	OwnGroup(const OwnGroup &) = delete;
	OwnGroup &operator=(const OwnGroup &) = delete;

	/// As ss shows it
	static constexpr const char *shown = "cgroup:/kiwarp-number";

private:
	std::string folder() const { return std::string(top_.data()) + "/kiwarp-number"; }
	static void enter(const std::string &group)
	{
		EXPECT_TRUE(std::ofstream(group + "/cgroup.procs") << getpid() << std::flush);
	}

	std::array<char, 32> top_ = {"/tmp/kiwarp-group.XXXXXX"};
};

// The right end dials, since it has the greater address.

/// Connections that its TCP has begun so far
std::uint64_t begun()
{
	const vt::InNamespace inside(vt::server_end().netns);
	std::ifstream table("/proc/thread-self/net/snmp");
	std::string word;
	std::uint64_t value = 0;

	// A line with names, then one with values, the fifth of which it is.
	for (int lines = 0; lines < 2 && table >> word;)
		lines += word == "Tcp:";
	for (int i = 0; i < 5; i++)
		table >> value;
	if (!table)
		vt::fail("no count of connections");
	return value;
}

/// Is there such a word in what ss says of the connection that it made?
bool shown(const std::string &word)
{
	return vt::run(
		vt::in(vt::server_end()) + "ss -Htn --cgroup state established 'dport = :19287' | grep -q " + word);
}

class Group : public testing::TestWithParam<Addresses> {
protected:
	void must_have_it() const
	{
		exchange(left, right);
		// Without CONFIG_SOCK_CGROUP_DATA, as in the kernels of User-Mode Linux here, a socket has no group to
		// tell.
		if (!shown("cgroup:"))
			GTEST_SKIP() << "this kernel doesn't tell the control group of a socket";
		EXPECT_TRUE(shown(OwnGroup::shown));
	}

	const OwnGroup group;
	End left{"kiw0", GetParam().left}, right{"kiw1", GetParam().right};
};

TEST_P(Group, HasTheSocketOfTheFirstAttempt)
{
	left.connect(right.name());
	right.connect(left.name());
	must_have_it();
}

TEST_P(Group, HasTheSocketOfALaterAttempt)
{
	const std::uint64_t before = begun();

	right.connect(left.name());
	vt::wait_until([&] { return begun() >= before + 4; }, "four attempts");
	left.connect(right.name());
	must_have_it();
}

std::string name_of(const testing::TestParamInfo<Addresses> &info)
{
	return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Hosts, Group, testing::Values(ipv4, ipv6), name_of);

} // namespace
