// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What a user without rights can do to the connections of another one.
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../lib/by_number.hpp"
#include "../lib/link.hpp"
#include "../lib/stranger.hpp"
#include "user.hpp"

namespace {

using namespace identity;
using namespace number;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A link is made anew: no queue pair has been dialed on it.
void make_anew(const std::string &link, const std::string &host, const std::string &interface)
{
	ASSERT_TRUE(vt::run("rdma link delete " + link + " && ip netns exec " + host + " rdma link add " + link +
			    " type kiwarp netdev " + interface));
}

/// What another user gets that wants the port on the host of the end that is dialed
int squat(const char *address)
{
	const auto listen = [&] {
		return Squatter("", address).error();
	};

	return Process(nobody, listen, "left").status();
}

void must_refuse_squatters()
{
	for (const char *address : {"0.0.0.0", "10.77.0.1"})
		EXPECT_EQ(squat(address), EADDRINUSE) << address;
}

TEST(Port, IsTheLinksFromItsCreationOn)
{
	make_anew("kiw0", "left", "veth0");
	must_refuse_squatters();
}

TEST(Port, IsTheLinksWhateverBecomesOfTheInterface)
{
	ASSERT_TRUE(vt::run("ip -n left link set veth0 down"));
	EXPECT_EQ(squat("0.0.0.0"), EADDRINUSE);
	ASSERT_TRUE(vt::run("ip -n left link set veth0 up"));
	must_refuse_squatters();
	ASSERT_TRUE(vt::run("ip -n left addr del 10.77.0.1/24 dev veth0"));
	EXPECT_EQ(squat("0.0.0.0"), EADDRINUSE);
	ASSERT_TRUE(vt::run(
		"ip -n left addr add 10.77.0.1/24 dev veth0; ip -n left addr replace fd77::1/64 dev veth0 nodad"));
	must_refuse_squatters();
	const End left("kiw0", ipv4.left), right("kiw1", ipv4.right);
	left.connect(right.name());
	right.connect(left.name());
	exchange(left, right);
}

// The administrator turns it off; then it is anybody's, and nobody is dialed on this link.
TEST(Port, IsAnybodysWhereTheLinkDoesntConnectByNumber)
{
	const vt::LinkOption off("kiw0", "number", "0");
	const End left("kiw0", ipv4.left), right("kiw1", ipv4.right);

	EXPECT_EQ(squat("10.77.0.1"), 0);
	EXPECT_EQ(left.rtr(right.name()), EOPNOTSUPP);
}

// Somebody was there before the link. rdma_cm doesn't need the port, and so the link comes; the log says what is wrong.
TEST(Port, OfAnotherProgramIsTakenAsSoonAsItIsFree)
{
	ASSERT_TRUE(vt::run("rdma link delete kiw0"));
	{
		const Squatter before("left", "10.77.0.1");

		ASSERT_EQ(before.error(), 0);
		ASSERT_TRUE(vt::run("ip netns exec left rdma link add kiw0 type kiwarp netdev veth0"));
		EXPECT_TRUE(vt::run("dmesg | tail -5 | grep -q 'kiw0.*TCP port 19287 is taken'"));
		const End left("kiw0", ipv4.left), right("kiw1", ipv4.right);
		EXPECT_EQ(left.rtr(right.name()), EADDRINUSE);
		EXPECT_EQ(left.state(), IBV_QPS_INIT);
	}
	const End left("kiw0", ipv4.left), right("kiw1", ipv4.right);
	left.connect(right.name());
	right.connect(left.name());
	exchange(left, right);
	must_refuse_squatters();
}

// The end that is dialed needs no right to the port of the link.
TEST(Users, ConnectByTheirOwn)
{
	Process other(nobody, [] {
		const End left("kiw0", ipv4.left), right("kiw1", ipv4.right);

		left.connect(right.name());
		right.connect(left.name());
		exchange(left, right);
		return testing::Test::HasFailure() ? 1 : 0;
	});

	EXPECT_EQ(other.status(), 0);
}

// Of the host of the peer, without RDMA: he can send from the peer's address.
TEST(Stranger, DoesntGetAConnectionByWhatHeIsShown)
{
	const End waits("kiw0", ipv4.left), comes("kiw1", ipv4.right);
	waits.connect(comes.name());
	const auto guess = [&] {
		int accepted = 0;

		// The numbers are known, and can be guessed; the PSNs are those that programs like to take.
		for (const std::uint32_t psn : {0U, 1U, waits.name().qpn, comes.name().qpn, 0xffffffU}) {
			for (const std::uint8_t flags : {0, 1}) {
				const Stranger stranger("", "10.77.0.1");

				stranger.say(request(private_data({comes.name().qpn, waits.name().qpn, psn, flags})));
				accepted += is_acceptance(stranger.answer());
			}
		}
		return accepted;
	};
	EXPECT_EQ(Process(nobody, guess, "right").status(), 0);
	comes.connect(waits.name());
	exchange(waits, comes);
}

/// Queue pairs of another user that dial a peer which never comes
class Flood : public testing::Test {
protected:
	/// Time that a connection of this user takes, with a message each way
	static Clock::duration connection()
	{
		const End left("kiw0", ipv4.left), right("kiw1", ipv4.right);
		const auto start = Clock::now();

		left.connect(right.name());
		right.connect(left.name());
		exchange(left, right);
		return Clock::now() - start;
	}

	/// A user that dials by so many queue pairs, and tells how many there are
	static int flood(int number, const Pipe &ready)
	{
		const rlimit memory{64 << 20, 64 << 20};
		const vt::Context context = vt::open_device("kiw1");
		const vt::Pd pd = vt::make_pd(context.get());
		const vt::Cq cq = vt::make_cq(context.get(), 16);
		const End one("kiw1", ipv4.right);
		Name nobody_there = one.name();
		std::vector<ibv_qp *> qps;

		setrlimit(RLIMIT_MEMLOCK, &memory);
		nobody_there.gid.raw[15] = 1;
		nobody_there.qpn = 0xfffff0;
		ibv_qp_attr attr = one.rtr_attr(nobody_there), initial{};
		initial.qp_state = IBV_QPS_INIT;
		initial.port_num = 1;
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq.get();
		init.qp_type = IBV_QPT_RC;
		init.cap = {1, 1, 1, 1, 0};
		for (int i = 0; i < number; i++) {
			ibv_qp *qp = ibv_create_qp(pd.get(), &init);

			if (!qp ||
				ibv_modify_qp(qp, &initial,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
				ibv_modify_qp(qp, &attr, End::rtr_mask))
				break;
			qps.push_back(qp);
		}
		ready.tell(static_cast<std::uint32_t>(qps.size()));
		pause();
		return 0;
	}

	/// Part of the processors' time that was in use for a while
	static double busy(std::chrono::seconds time)
	{
		const auto now = [] {
			std::ifstream file("/proc/stat");
			std::string word;
			double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0;

			file >> word >> user >> nice >> system >> idle >> wait >> irq >> softirq;
			return std::pair{user + nice + system + irq + softirq, idle + wait};
		};
		const auto before = now();

		std::this_thread::sleep_for(time);
		const auto after = now();
		const double used = after.first - before.first;
		return used / (used + after.second - before.second);
	}
};

/// A user namespace of a user, with 65536 subordinate user IDs; becomes the root of it.
void enter_user_namespace(const Pipe &created, const Pipe &mapped)
{
	if (unshare(CLONE_NEWUSER))
		vt::fail("unshare", errno);
	created.tell(0);
	mapped.hear();
	if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
		vt::fail("setresuid", errno);
}

/// What newuidmap does for such a namespace
void map_users(pid_t pid)
{
	for (const char *map : {"/uid_map", "/gid_map"})
		ASSERT_TRUE(std::ofstream("/proc/" + std::to_string(pid) + map) << "0 100000 65536" << std::flush);
}

/// Connections that were made to a host
unsigned long accepted(const std::string &host)
{
	return std::stoul(run_as(0, "nstat -asz TcpPassiveOpens | tail -n 1 | tr -s \" \" | cut -d \" \" -f 2", host));
}

TEST_F(Flood, OfSubordinateUsersIsTheirCreators)
{
	constexpr int users = 64, each = 64;
	const Pipe ready, created, mapped;
	std::uint32_t made = 0;

	const Process creator(nobody, [&] {
		std::vector<std::unique_ptr<Process>> all;

		enter_user_namespace(created, mapped);
		for (unsigned uid = 1; uid <= users; uid++)
			all.push_back(std::make_unique<Process>(uid, [&] { return flood(each, ready); }));
		pause();
		return 0;
	});
	created.hear();
	map_users(creator.pid());
	mapped.tell(0);
	for (int i = 0; i < users; i++)
		made += ready.hear();
	ASSERT_EQ(made, std::uint32_t{users * each});
	// By then each has made its first attempts, and pauses for its turn.
	std::this_thread::sleep_for(20s);
	const unsigned long before = accepted("left");
	std::this_thread::sleep_for(10s);
	const unsigned long attempts = accepted("left") - before;
	std::cout << attempts << " attempts in 10 s\n";
	// 250 a second; users of their own would make four times as many.
	EXPECT_LT(attempts, 4000U);
	EXPECT_GT(attempts, 0U);
}

TEST_F(Flood, OfOneUserDelaysNoOther)
{
	const Pipe ready;

	std::cout << "a connection before: " << std::chrono::duration<double, std::milli>(connection()).count()
		  << " ms\n";
	const Process other(nobody, [&] { return flood(16000, ready); });
	const std::uint32_t made = ready.hear();
	ASSERT_GT(made, 4000U);
	for (int i = 0; i < 3; i++) {
		const auto time = connection();

		std::cout << "while " << made << " queue pairs of another user dial: "
			  << std::chrono::duration<double, std::milli>(time).count() << " ms\n";
		EXPECT_LT(time, 3s);
		std::this_thread::sleep_for(1s);
	}
	// The first attempts are one in a millisecond.
	std::this_thread::sleep_for(std::chrono::milliseconds(made));
	const double part = busy(5s);
	std::cout << "of the processors' time, " << 100 * part << " % is in use\n";
	EXPECT_LT(part, 0.5);
}

} // namespace
