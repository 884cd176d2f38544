// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Regions that are registered once more: with other memory, other rights, in another domain.
#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "../lib/connection.hpp"

namespace vt {
namespace {

class Reregistered : public testing::Test {
protected:
	int change(int flags, ibv_pd *pd, void *address, std::size_t length, int access) const
	{
		errno = 0;
		return ibv_rereg_mr(at_b.mr(), flags, pd, address, length, access);
	}
	int write(std::uint64_t remote, std::uint32_t rkey)
	{
		if (const int error = pair.a().write({from.sge()}, {.remote = remote, .rkey = rkey}))
			fail("ibv_post_send", error);
		return pair.a().sent().status;
	}
	/// A Write by that key ends the connection.
	void expect_refused(std::uint32_t rkey)
	{
		(void)pair.a().write({from.sge()}, {.remote = at_b.address(), .rkey = rkey});
		pair.a().wait_disconnected();
	}
	void expect_written(const Region &to, std::uint32_t rkey)
	{
		from.fill_pattern(++seed);
		EXPECT_EQ(write(to.address(), rkey), IBV_WC_SUCCESS);
		pair.sync();
		EXPECT_TRUE(same(from.bytes(), to.bytes(0, from.size())));
	}

	Pair pair;
	const Region from{pair.a().pd(), 1000};
	const Region at_b{pair.b().pd(), 4096};
	std::uint32_t seed = 0;
};

TEST_F(Reregistered, WithOtherMemory)
{
	const Region other(pair.b().pd(), 4096);
	const std::uint32_t old = at_b.rkey();

	at_b.fill(0xee);
	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), other.size(), 0), 0);
	EXPECT_NE(at_b.rkey(), old);
	EXPECT_EQ(at_b.mr()->lkey, at_b.mr()->rkey);
	EXPECT_EQ(at_b.mr()->addr, other.data());
	expect_written(other, at_b.rkey());
	EXPECT_TRUE(all_equal(at_b.bytes(), 0xee));
	expect_refused(old);
}

// Peers have been told the key of this memory.
TEST_F(Reregistered, WithOtherRights)
{
	const std::uint32_t old = at_b.rkey();

	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	ASSERT_EQ(pair.b().receive({at_b.sge()}, 3), 0);
	ASSERT_EQ(pair.a().send({from.sge()}), 0);
	EXPECT_WC(pair.b().received(), 3, IBV_WC_SUCCESS);
	EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, all_access), 0);
	EXPECT_EQ(at_b.rkey(), old);
	expect_written(at_b, old);
	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), 0);
	EXPECT_EQ(at_b.rkey(), old);
	expect_refused(old);
}

// A peer that is allowed to write all the time never finds that there is no region.
TEST_F(Reregistered, WhileAPeerWrites)
{
	std::atomic<int> refused = 0;
	{
		const std::jthread owner([&](const std::stop_token &stop) {
			for (bool all = false; !stop.stop_requested(); all = !all)
				refused += change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
						   all ? all_access
						       : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) != 0;
		});

		for (int i = 0; i < 500; i++)
			expect_written(at_b, at_b.rkey());
	}
	EXPECT_EQ(refused, 0);
}

TEST_F(Reregistered, InAnotherDomain)
{
	const std::uint32_t old = at_b.rkey();
	Pd other = make_pd(pair.b().context());

	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
	EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_PD, pair.b().pd(), nullptr, 0, 0), 0);
	EXPECT_EQ(at_b.rkey(), old);
	expect_written(at_b, old);
	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
	expect_refused(old);
	ASSERT_EQ(change(IBV_REREG_MR_CHANGE_PD, pair.b().pd(), nullptr, 0, 0), 0);
}

TEST_F(Reregistered, WhatIsRefusedLeavesTheOldOne)
{
	const std::uint32_t old = at_b.rkey();

	EXPECT_NE(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 4096, 0), 0);
	EXPECT_NE(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), 0);
	EXPECT_NE(change(1 << 3, nullptr, nullptr, 0, 0), 0);
	EXPECT_NE(change(0, nullptr, nullptr, 0, 0), 0);
	EXPECT_EQ(at_b.rkey(), old);
	expect_written(at_b, old);
}

TEST_F(Reregistered, GivesTheOldPagesBack)
{
	const std::size_t before = pinned();

	for (int i = 0; i < 100; i++)
		ASSERT_EQ(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, all_access), 0);
	EXPECT_EQ(pinned(), before);
}

} // namespace
} // namespace vt
