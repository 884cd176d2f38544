// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Multicast groups and broadcast.
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <list>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/datagram.hpp"
#include "../lib/link.hpp"
#include "../lib/udp.hpp"

namespace ud {
namespace {

/// The number of a group's queue pairs, as InfiniBand has it
constexpr std::uint32_t everybody = 0xffffff;
constexpr std::uint32_t group_port = 64791;

ibv_gid gid_of(const std::string &text)
{
	ibv_gid gid{};

	if (inet_pton(AF_INET6, text.c_str(), gid.raw) != 1)
		vt::fail("no address: " + text);
	return gid;
}

/// What is attached to, where datagrams are sent, and from which address of left.
struct Group {
	const char *name;
	const char *attach;
	const char *send;
	const char *from;
};

int attach(const End &end, const std::string &group, std::uint16_t lid = 0)
{
	const ibv_gid gid = gid_of(group);

	return ibv_attach_mcast(end.qp(), &gid, lid);
}

int detach(const End &end, const std::string &group, std::uint16_t lid = 0)
{
	const ibv_gid gid = gid_of(group);

	return ibv_detach_mcast(end.qp(), &gid, lid);
}

/// An attachment; a queue pair can't be destroyed before it ends.
class Member {
public:
	Member(const End &end, const std::string &group) : end_(end), group_(group)
	{
		if (const int error = attach(end, group))
			vt::fail("ibv_attach_mcast", error);
	}
	~Member() { EXPECT_EQ(detach(end_, group_), 0); }
	Member(const Member &) = delete;
	Member &operator=(const Member &) = delete;

private:
	const End &end_;
	std::string group_;
};

class Groups : public testing::TestWithParam<Group> {
protected:
	Groups()
	{
		ah = left.make_ah(left.gid(GetParam().from), gid_of(GetParam().send));
		if (!ah)
			vt::fail("ibv_create_ah", errno);
		for (const End *end : {&left, &first, &second, &stranger})
			for (int i = 0; i < 8; i++)
				end->receive(i, i * 256, 100);
	}
	/// Sends one; both members get it once.
	void expect_both()
	{
		left.memory().fill_pattern(++seed);
		left.send({ah.get(), everybody}, 0, 100);
		for (const End *end : {&first, &second}) {
			const ibv_wc wc = end->received();

			EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.src_qp, left.number());
			EXPECT_EQ(wc.qp_num, end->number());
			EXPECT_TRUE(vt::same(left.bytes(0, 100), end->bytes(wc.wr_id * 256 + grh, 100)));
		}
	}
	/// What was sent before a datagram to its own number has come.
	static void expect_nothing(const End &from, const End &to)
	{
		const Ah direct = from.ah(ipv4.left, to, to.device() == "kiw0" ? ipv4.left : ipv4.right);

		from.send({direct.get(), to.number()}, 0, 1);
		EXPECT_EQ(to.received().byte_len, grh + 1);
		EXPECT_TRUE(vt::poll_all(to.recv_cq()).empty());
	}

	End left{"kiw0"};
	End first{"kiw1"};
	End second{"kiw1"};
	End stranger{"kiw1"};
	Ah ah;
	std::uint32_t seed = 100;
};

TEST_P(Groups, ReachesEachMemberOnce)
{
	const Member stays(second, GetParam().attach);
	{
		const Member leaves(first, GetParam().attach);

		for (int i = 0; i < 3; i++)
			expect_both();
		// Neither a queue pair beside them nor the sender
		for (const End *end : {&first, &second, &stranger, &left})
			expect_nothing(left, *end);
	}
	left.send({ah.get(), everybody}, 0, 100);
	EXPECT_EQ(second.received().byte_len, grh + 100);
	expect_nothing(left, first);
	EXPECT_EQ(detach(first, GetParam().attach), EINVAL);
}

TEST_P(Groups, ReachesMembersOnTheSendersHost)
{
	const End beside("kiw0");

	beside.receive(1, 0, 100);
	const Member member(beside, GetParam().attach);
	left.send({ah.get(), everybody}, 0, 100);
	EXPECT_EQ(beside.received().src_qp, left.number());
}

TEST_P(Groups, TheKeyCounts)
{
	const std::uint64_t before = first.counter("ud_qkey_errors");

	const Member member(first, GetParam().attach);
	left.send({ah.get(), everybody, some_key + 1}, 0, 100);
	first.expect_counter("ud_qkey_errors", before + 1);
	expect_nothing(left, first);
}

TEST_P(Groups, TheHeaderHasTheGroup)
{
	const ibv_gid group = gid_of(GetParam().send);

	const Member member(first, GetParam().attach);
	left.send({ah.get(), everybody}, 0, 100);
	ASSERT_EQ(first.received().status, IBV_WC_SUCCESS);
	EXPECT_EQ(std::memcmp(first.bytes(8, 16).data(), left.gid(GetParam().from).gid.raw, 16), 0);
	EXPECT_EQ(std::memcmp(first.bytes(24, 16).data(), group.raw, 16), 0);
}

TEST_P(Groups, OnceMoreIsTheSameAsOnce)
{
	const Member member(first, GetParam().attach);

	ASSERT_EQ(attach(first, GetParam().attach), 0);
	left.send({ah.get(), everybody}, 0, 100);
	EXPECT_EQ(first.received().status, IBV_WC_SUCCESS);
	expect_nothing(left, first);
}

// InfiniBand's LID means nothing here, but each needs its own detachment.
TEST_P(Groups, TwoLidsAreOneMembership)
{
	const char *group = GetParam().attach;

	ASSERT_EQ(attach(first, group, 0), 0);
	ASSERT_EQ(attach(first, group, 0xc000), 0);
	for (const std::uint16_t lid : {0, 0xc000}) {
		left.send({ah.get(), everybody}, 0, 100);
		EXPECT_EQ(first.received().byte_len, grh + 100);
		expect_nothing(left, first);
		ASSERT_EQ(detach(first, group, lid), 0);
	}
	left.send({ah.get(), everybody}, 0, 100);
	expect_nothing(left, first);
	EXPECT_EQ(detach(first, group, 0xc000), EINVAL);
}

INSTANTIATE_TEST_SUITE_P(, Groups,
	testing::Values(Group{"IPv4", "::ffff:239.77.0.1", "::ffff:239.77.0.1", ipv4.left},
		Group{"IPv6", "ff05::77", "ff05::77", ipv6.left}, Group{"LinkLocal", "ff02::77:1", "ff02::77:1", ""},
		Group{"Broadcast", "ff0e::ffff:255.255.255.255", "::ffff:255.255.255.255", ipv4.left},
		Group{"BroadcastOfTheSubnet", "ff0e::ffff:10.77.0.255", "::ffff:10.77.0.255", ipv4.left}),
	[](const auto &each) { return std::string(each.param.name); });

TEST(Group, SeveralOfOneQueuePair)
{
	const End left("kiw0");
	const End right("kiw1");

	for (int i = 0; i < 64; i++)
		right.receive(i, 0, 100);
	std::list<Member> members;
	for (int i = 1; i <= 40; i++)
		members.emplace_back(right, "::ffff:239.77.1." + std::to_string(i));
	for (int i = 1; i <= 41; i++) {
		const Ah ah = left.make_ah(left.gid(ipv4.left), gid_of("::ffff:239.77.1." + std::to_string(i)));

		left.send({ah.get(), everybody}, 0, 100);
		if (i <= 40) {
			ASSERT_EQ(right.received().status, IBV_WC_SUCCESS);
			EXPECT_EQ(right.bytes(36, 4)[3], i);
		}
	}
	EXPECT_TRUE(vt::poll_all(right.recv_cq()).empty());
}

TEST(Group, AMemberCannotBeDestroyed)
{
	const End right("kiw1");
	const Member member(right, "::ffff:239.77.0.1");

	EXPECT_EQ(ibv_destroy_qp(right.qp()), EBUSY);
}

// What a process leaves behind, RDMA core detaches.
TEST(Group, MembershipsEndWithTheProcess)
{
	for (int i = 0; i < 10; i++) {
		const pid_t child = fork();

		if (child == 0) {
			const End right("kiw1");

			for (const char *group : {"::ffff:239.77.0.1", "ff05::77", "ff0e::ffff:255.255.255.255"})
				if (attach(right, group))
					_exit(1);
			_exit(0);
		}
		int status = -1;
		waitpid(child, &status, 0);
		EXPECT_EQ(status, 0);
	}
	EXPECT_FALSE(vt::run("ip netns exec right grep -q :FD17 /proc/net/udp /proc/net/udp6"));
}

TEST(Group, OthersAreRefused)
{
	const End right("kiw1");

	for (const char *address : {"::ffff:10.77.0.2", "fd77::2", "::ffff:255.255.255.255", "ff0e::ffff:192.0.2.1",
		     "ff0e::ffff:10.77.0.2", "ff0e::ffff:239.77.0.1"})
		EXPECT_NE(attach(right, address), 0) << address;
	EXPECT_NE(detach(right, "::ffff:239.77.0.1"), 0);
}

// A plain socket is a member like any other, and its datagrams are judged like any others.
TEST(Group, PlainSocketsSendToIt)
{
	const End right("kiw1");
	const Socket socket("left", "10.77.0.1");
	const std::uint64_t before = right.counter("ud_malformed");

	right.receive(1, 0, 100);
	const Member member(right, "::ffff:239.77.2.1");
	socket.send("239.77.2.1", group_port, Bytes(100, 0x55));
	right.expect_counter("ud_malformed", before + 1);
	socket.send("239.77.2.1", group_port, datagram(some_key, Bytes(10)));
	EXPECT_EQ(right.received().src_qp, socket.port());
	EXPECT_TRUE(socket.received().empty());
}

TEST(Group, AnotherSocketsPortIsTold)
{
	const End right("kiw1");
	{
		const Socket socket("right", "0.0.0.0", group_port);
		EXPECT_EQ(attach(right, "::ffff:239.77.2.4"), EADDRINUSE);
		EXPECT_TRUE(
			vt::run("dmesg | grep -q 'kiw1: no membership of ::ffff:239.77.2.4: .* has UDP port 64791'"));
	}
	const Member member(right, "::ffff:239.77.2.4");
}

/// Writes the parameter, for all devices; 0 or an errno value.
int set_group_port(std::uint32_t port)
{
	const std::string text = std::to_string(port);
	const int fd = open("/sys/module/kiwarp/parameters/group_port", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		vt::fail("group_port", errno);
	const int error = write(fd, text.data(), text.size()) < 0 ? errno : 0;
	close(fd);
	return error;
}

// Senders would take another port than members that there are.
TEST(Group, ThePortStaysWhileThereAreMembers)
{
	const End left("kiw0"), right("kiw1");
	const Ah ah = left.make_ah(left.gid("::ffff:10.77.0.1"), gid_of("::ffff:239.77.2.3"));
	const auto expect_a_member = [&] {
		const Member member(right, "::ffff:239.77.2.3");

		right.receive(1, 0, 100);
		left.send({ah.get(), everybody}, 0, 10);
		EXPECT_EQ(right.received().byte_len, grh + 10);
		EXPECT_EQ(set_group_port(group_port + 2), EBUSY);
		right.receive(2, 0, 100);
		left.send({ah.get(), everybody}, 0, 20);
		EXPECT_EQ(right.received().byte_len, grh + 20);
	};

	expect_a_member();
	ASSERT_EQ(set_group_port(group_port + 1), 0);
	expect_a_member();
	EXPECT_EQ(set_group_port(0), EINVAL);
	EXPECT_EQ(set_group_port(65536), EINVAL);
	ASSERT_EQ(set_group_port(group_port), 0);
	expect_a_member();
}

// All hosts of the link are members of the first two, and another queue pair is one of the next two.
TEST(Group, OwnNumbersHaveNoGroups)
{
	const End left("kiw0"), right("kiw1"), other("kiw1");
	const Member of_ipv4(other, "::ffff:239.77.2.2"), of_ipv6(other, "ff05::77:2");
	const std::uint64_t before = right.counter("ud_strays");

	for (int i = 0; i < 8; i++)
		right.receive(i, i * 256, 100);
	for (const std::string to : {"::ffff:224.0.0.1", "ff02::1", "::ffff:239.77.2.2", "ff05::77:2",
		     "::ffff:10.77.0.255", "::ffff:255.255.255.255"}) {
		const bool four = to.starts_with("::ffff:");
		const Ah ah = left.make_ah(left.gid(four ? "::ffff:10.77.0.1" : "fd77::1"), gid_of(to));

		ASSERT_NE(ah, nullptr) << to;
		left.send({ah.get(), right.number()}, 0, 10);
	}
	const Ah ah = left.ah(ipv4.left, right, ipv4.right);
	left.send({ah.get(), right.number()}, 0, 20);
	EXPECT_EQ(right.received().byte_len, grh + 20);
	right.expect_counter("ud_strays", before + 2); // UDP itself gives it no group
}

} // namespace
} // namespace ud
