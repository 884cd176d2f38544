// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What a user without rights is shown of the connections of another one. With both PSNs of a queue pair that waits for
// its peer, and the peer's address, one is its peer; an STag, on a connection, opens a region; a Q_Key lets datagrams
// in.
#include <array>
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

#include "../lib/by_number.hpp"
#include "../lib/link.hpp"
#include "../lib/stranger.hpp"
#include "user.hpp"

namespace {

using namespace identity;
using namespace number;

/// Is there such a number in a text, in any of the forms in which programs print it?
bool has(const std::string &text, std::uint32_t value)
{
	std::array<char, 40> hex{};

	std::snprintf(hex.data(), hex.size(), "(0x)?0*%x", value);
	const std::regex word("(^|[^0-9a-fA-Fx])(" + std::to_string(value) + "|" + hex.data() + ")($|[^0-9a-fA-F])",
		std::regex::icase);
	return std::regex_search(text, word);
}

/// A connection of root's, one that waits for its peer, and a datagram queue pair
class Learn : public testing::Test {
protected:
	void SetUp() override
	{
		ibv_qp_attr attr{};

		left.connect(right.name());
		right.connect(left.name());
		exchange(left, right);
		waits.connect(absent.name());
		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qkey = qkey;
		ASSERT_EQ(ibv_modify_qp(ud.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
			0);
	}

	/// Nothing of what a thief could use is in there.
	void expect_no_secret(const std::string &text) const
	{
		for (const End *end : {&left, &right, &waits, &absent})
			EXPECT_FALSE(has(text, end->name().psn)) << end->name().psn << " in:\n" << text;
		for (const End *end : {&left, &right, &waits}) {
			EXPECT_FALSE(has(text, end->memory().rkey())) << std::hex << end->memory().rkey() << " in:\n"
								      << text;
		}
		EXPECT_FALSE(has(text, qkey)) << text;
		// Addresses of the kernel
		EXPECT_FALSE(std::regex_search(text, std::regex("[^0-9a-f]ffff[89a-f][0-9a-f]{11}"))) << text;
	}

	static constexpr std::uint32_t qkey = 0x1badcafe;
	End left{"kiw0", ipv4.left}, right{"kiw1", ipv4.right}, waits{"kiw0", ipv4.left}, absent{"kiw1", ipv4.right};
	vt::Qp ud = make_ud();

private:
	vt::Qp make_ud() const
	{
		ibv_qp_init_attr attr{};

		attr.send_cq = attr.recv_cq = left.cq();
		attr.qp_type = IBV_QPT_UD;
		attr.cap = {4, 4, 1, 1, 0};
		vt::Qp qp(ibv_create_qp(left.pd(), &attr));
		if (!qp)
			vt::fail("ibv_create_qp", errno);
		return qp;
	}
};

TEST_F(Learn, ResourcesShowNoSecret)
{
	for (const char *kind : {"qp", "cq", "mr", "pd", "cm_id", "ctx", "srq"}) {
		const std::string shown = run_as(nobody, std::string("rdma -dd resource show ") + kind);

		SCOPED_TRACE(kind);
		expect_no_secret(shown);
		if (kind == std::string("qp")) {
			// That they exist, their own number and state: allowed.
			EXPECT_TRUE(has(shown, waits.name().qpn)) << shown;
			// Which peer they wait for isn't.
			EXPECT_FALSE(std::regex_search(
				shown, std::regex("rqpn " + std::to_string(absent.name().qpn) + "($|[^0-9])")))
				<< shown;
		}
	}
}

// The administrator sees keys: RDMA core shows them to CAP_NET_ADMIN.
TEST_F(Learn, ResourcesShowKeysToTheAdministratorAlone)
{
	const std::string mine = run_as(0, "rdma -dd resource show mr");

	EXPECT_TRUE(has(mine, left.memory().rkey())) << mine;
}

TEST_F(Learn, CountersShowNoSecret)
{
	const std::string shown = run_as(nobody, "rdma statistic show; rdma statistic qp show; rdma statistic mr show");

	EXPECT_NE(shown.find("connects"), std::string::npos) << shown;
	expect_no_secret(shown);
}

TEST_F(Learn, SysfsShowsNoSecret)
{
	const std::string shown =
		run_as(nobody, "cd /sys/class/infiniband && grep -rsI . kiw0/ kiw1/ /sys/module/kiwarp/parameters");

	EXPECT_NE(shown.find("hca_type:kiwarp"), std::string::npos) << shown;
	expect_no_secret(shown);
}

// With all messages of the module on, and the log open to users
TEST_F(Learn, TheLogShowsNoSecret)
{
	ASSERT_TRUE(vt::run("sysctl -qw kernel.dmesg_restrict=0"));
	const bool messages = vt::run("mount -t debugfs none /sys/kernel/debug 2>/dev/null; echo 'module kiwarp +p' "
				      ">/sys/kernel/debug/dynamic_debug/control");
	const Stranger stranger("right", "10.77.0.1");

	stranger.say(request(private_data({absent.name().qpn, waits.name().qpn, absent.name().psn ^ 1})));
	EXPECT_TRUE(is_rejection(stranger.answer()));
	const std::string shown = run_as(nobody, "dmesg | grep kiw");
	EXPECT_FALSE(shown.empty());
	expect_no_secret(shown);
	if (messages)
		EXPECT_TRUE(vt::run("echo 'module kiwarp -p' >/sys/kernel/debug/dynamic_debug/control"));
	else
		std::cout << "this kernel has no dynamic messages\n";
}

TEST_F(Learn, TracesAreTheAdministrators)
{
	const std::string shown = run_as(nobody, "cat /sys/kernel/tracing/trace /sys/kernel/debug/tracing/trace");

	EXPECT_EQ(shown.find("kiw_"), std::string::npos) << shown;
	expect_no_secret(shown);
}

// As for all of TCP's connections: allowed.
TEST_F(Learn, AddressesAndPortsOfConnectionsAreKnown)
{
	EXPECT_NE(run_as(nobody, "cat /proc/net/tcp /proc/net/tcp6", "left").find(":4B57"), std::string::npos);
}

} // namespace
