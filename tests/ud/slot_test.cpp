// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagrams from slot 0 of the GID table, which stands for the first address of the interface, whichever that is.
#include <gtest/gtest.h>

#include "../lib/datagram.hpp"
#include "../lib/link.hpp"

namespace ud {
namespace {

class SlotZero : public testing::Test {
protected:
	SlotZero()
	{
		link.address("add fd74::1/64 nodad", "kiwz0", "fd74::1");
		link.address("add fd74::2/64 nodad", "kiwz1", "fd74::2");
	}
	static Ah ah_to(const End &left, const End &right, const std::string &to)
	{
		Ah ah = left.make_ah({0, {}}, right.gid(to).gid);

		EXPECT_TRUE(ah);
		return ah;
	}
	/// One datagram, and the address that it comes from
	static void expect_from(const End &left, const End &right, const Ah &ah, const std::string &from)
	{
		right.receive(1, 0, 10);
		left.send({ah.get(), right.number()}, 0, 10);
		EXPECT_WC(right.received(), 1, IBV_WC_SUCCESS);
		EXPECT_TRUE(vt::same(right.bytes(8, 16), left.gid(from).gid.raw));
	}

	vt::SpareLink link;
};

TEST_F(SlotZero, KeepsItsSourceWhenAnAddressOfTheOtherIpComes)
{
	const End left("kiwz0"), right("kiwz1");
	const Ah six = ah_to(left, right, "fd74::2");

	expect_from(left, right, six, "fd74::1");
	link.address("add 10.74.0.1/24", "kiwz0", "::ffff:10.74.0.1");
	link.address("add 10.74.0.2/24", "kiwz1", "::ffff:10.74.0.2");
	expect_from(left, right, six, "fd74::1");
	const Ah four = ah_to(left, right, "::ffff:10.74.0.2");
	expect_from(left, right, four, "::ffff:10.74.0.1");
	link.address("del 10.74.0.1/24", "kiwz0", "fd74::1");
	EXPECT_EQ(left.try_send({four.get(), right.number()}, {left.memory().sge(0, 10)}, 2), 0);
	EXPECT_WC(left.sent(), 2, IBV_WC_LOC_QP_OP_ERR);
	expect_from(left, right, six, "fd74::1");
}

TEST_F(SlotZero, TakesTheNextAddressWhenTheFirstGoes)
{
	const End left("kiwz0"), right("kiwz1");
	const Ah ah = ah_to(left, right, "fd74::2");

	link.address("add fd74::11/64 nodad", "kiwz0");
	left.gid("fd74::11");
	expect_from(left, right, ah, "fd74::1");
	link.address("del fd74::1/64", "kiwz0", "fd74::11");
	expect_from(left, right, ah, "fd74::11");
}

} // namespace
} // namespace ud
