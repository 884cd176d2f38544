// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Fetch and add, compare and swap.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "../lib/connection.hpp"

namespace vt {
namespace {

constexpr int atomic_access = all_access | IBV_ACCESS_REMOTE_ATOMIC;

std::uint64_t word(const Region &region, std::size_t offset = 0)
{
	std::uint64_t value = 0;

	std::memcpy(&value, region.data() + offset, sizeof(value));
	return value;
}

void set_word(const Region &region, std::uint64_t value, std::size_t offset = 0)
{
	std::memcpy(region.data() + offset, &value, sizeof(value));
}

int add(const Side &side, const ibv_sge &result, const Region &target, std::uint64_t value, std::size_t offset = 0,
	std::uint64_t id = 1, unsigned int flags = IBV_SEND_SIGNALED)
{
	return side.post(IBV_WR_ATOMIC_FETCH_AND_ADD, {result},
		{.id = id,
			.flags = flags,
			.remote = target.address(offset),
			.rkey = target.rkey(),
			.compare_add = value});
}

int swap(const Side &side, const ibv_sge &result, const Region &target, std::uint64_t compare, std::uint64_t value,
	std::size_t offset = 0, std::uint64_t id = 1)
{
	return side.post(IBV_WR_ATOMIC_CMP_AND_SWP, {result},
		{.id = id,
			.remote = target.address(offset),
			.rkey = target.rkey(),
			.compare_add = compare,
			.swap = value});
}

class Atomic : public testing::Test {
protected:
	void expect_done(ibv_wc_opcode opcode, std::uint64_t old, std::uint64_t id = 1)
	{
		const ibv_wc wc = pair.a().sent();

		EXPECT_WC(wc, id, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.opcode, opcode);
		EXPECT_EQ(wc.byte_len, 8U);
		EXPECT_EQ(word(at_a), old);
	}
	/// The peer refuses it, and nothing has changed.
	void expect_refused(ibv_wc_status status)
	{
		EXPECT_WC(pair.a().sent(), 1, status);
		pair.a().wait_state(IBV_QPS_ERR);
		pair.b().wait_state(IBV_QPS_ERR);
		EXPECT_TRUE(all_equal(at_b.bytes(), 0));
	}

	Pair pair;
	Region at_a{pair.a().pd(), 4 * 4096};
	Region at_a2{pair.a().pd(), 4096};
	Region at_b{pair.b().pd(), 4 * 4096, atomic_access};
};

TEST_F(Atomic, AddsAndTellsWhatWasThere)
{
	std::uint64_t expected = 5;

	set_word(at_b, expected);
	for (const std::uint64_t value : {std::uint64_t{1}, std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0},
		     std::uint64_t{0x8000000000000000}, std::uint64_t{0x0123456789abcdef}}) {
		ASSERT_EQ(add(pair.a(), at_a.sge(0, 8), at_b, value), 0);
		expect_done(IBV_WC_FETCH_ADD, expected);
		expected += value;
		EXPECT_EQ(word(at_b), expected);
	}
	EXPECT_TRUE(all_equal(at_b.bytes(8, 4 * 4096 - 8), 0));
	EXPECT_TRUE(all_equal(at_a.bytes(8, 4 * 4096 - 8), 0));
}

TEST_F(Atomic, SwapsWhereItIsEqual)
{
	set_word(at_b, 7, 4088);
	ASSERT_EQ(swap(pair.a(), at_a.sge(0, 8), at_b, 7, 0xffffffff00000001, 4088), 0);
	expect_done(IBV_WC_COMP_SWAP, 7);
	EXPECT_EQ(word(at_b, 4088), 0xffffffff00000001);
	ASSERT_EQ(swap(pair.a(), at_a.sge(0, 8), at_b, 0xff, 9, 4088), 0);
	expect_done(IBV_WC_COMP_SWAP, 0xffffffff00000001);
	EXPECT_EQ(word(at_b, 4088), 0xffffffff00000001);
	// A half that is equal isn't enough.
	ASSERT_EQ(swap(pair.a(), at_a.sge(0, 8), at_b, 1, 9, 4088), 0);
	expect_done(IBV_WC_COMP_SWAP, 0xffffffff00000001);
	EXPECT_EQ(word(at_b, 4088), 0xffffffff00000001);
}

// The result's place needn't be aligned, and may lie in two pages.
TEST_F(Atomic, ResultsGoAnywhere)
{
	set_word(at_b, 0x1122334455667788);
	for (const std::size_t place : {1UL, 3UL, 4089UL, 4092UL, 4095UL, 8191UL}) {
		at_a.fill(0xee);
		ASSERT_EQ(add(pair.a(), at_a.sge(place, 8), at_b, 0), 0);
		EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
		EXPECT_EQ(word(at_a, place), 0x1122334455667788U);
		EXPECT_TRUE(all_equal(at_a.bytes(0, place), 0xee));
		EXPECT_TRUE(all_equal(at_a.bytes(place + 8, 64), 0xee));
	}
}

// Three CPUs' worth of adders, one of them the program that owns the memory.
TEST_F(Atomic, NothingIsLost)
{
	constexpr std::uint64_t rounds = 20000;
	Pair other;
	auto &counter = *reinterpret_cast<std::uint64_t *>(at_b.data());
	std::atomic_ref<std::uint64_t> shared(counter);
	// The same memory, registered once more, since the other connection has a domain of its own
	const Mr again(ibv_reg_mr(other.b().pd(), at_b.data(), 4096, atomic_access));
	ASSERT_NE(again, nullptr);
	const Region other_a(other.a().pd(), 4096);
	const auto hammer = [&](Pair &from, const Region &result, std::uint32_t rkey) {
		for (std::uint64_t i = 0; i < rounds / 16; i++) {
			for (std::uint64_t n = 0; n < 16; n++)
				EXPECT_EQ(from.a().post(IBV_WR_ATOMIC_FETCH_AND_ADD, {result.sge(8 * n, 8)},
						  {.id = n,
							  .flags = n == 15 ? unsigned{IBV_SEND_SIGNALED} : 0,
							  .remote = at_b.address(),
							  .rkey = rkey,
							  .compare_add = 1}),
					0);
			EXPECT_WC(from.a().sent(), 15, IBV_WC_SUCCESS);
		}
	};

	{
		const std::jthread first([&] { hammer(pair, at_a, at_b.rkey()); });
		const std::jthread second([&] { hammer(other, other_a, again->rkey); });
		for (std::uint64_t i = 0; i < rounds; i++)
			shared.fetch_add(1);
	}
	EXPECT_EQ(shared.load(), 3 * rounds);
}

// A lock that clients of one counter take and give back
TEST_F(Atomic, CompareAndSwapMakesALock)
{
	constexpr int rounds = 500;
	Pair other;
	const Mr again(ibv_reg_mr(other.b().pd(), at_b.data(), 4096, atomic_access));
	ASSERT_NE(again, nullptr);
	const Region other_a(other.a().pd(), 4096);
	const auto client = [&](Pair &from, const Region &own, std::uint32_t rkey, std::uint64_t name) {
		const auto run = [&](ibv_wr_opcode opcode, std::size_t offset, std::uint64_t compare,
					 std::uint64_t value) {
			EXPECT_EQ(from.a().post(opcode, {own.sge(0, 8)},
					  {.id = 1,
						  .remote = at_b.address(offset),
						  .rkey = rkey,
						  .compare_add = compare,
						  .swap = value}),
				0);
			EXPECT_WC(from.a().sent(), 1, IBV_WC_SUCCESS);
			return word(own);
		};
		for (int i = 0; i < rounds; i++) {
			while (run(IBV_WR_ATOMIC_CMP_AND_SWP, 0, 0, name) != 0)
				std::this_thread::yield();
			const std::uint64_t count = run(IBV_WR_RDMA_READ, 8, 0, 0);
			set_word(own, count + 1);
			run(IBV_WR_RDMA_WRITE, 8, 0, 0);
			EXPECT_EQ(run(IBV_WR_ATOMIC_CMP_AND_SWP, 0, name, 0), name);
		}
	};

	{
		const std::jthread first([&] { client(pair, at_a, at_b.rkey(), 1); });
		const std::jthread second([&] { client(other, other_a, again->rkey, 2); });
	}
	EXPECT_EQ(word(at_b, 8), 2U * rounds);
}

// A Read that was posted before brings what was there before, however long it takes.
TEST_F(Atomic, ReadsAndAtomicsKeepTheirOrder)
{
	constexpr std::size_t large = 4 * 4096;
	const Region &result = at_a2;

	for (std::uint64_t round = 0; round < 300; round++) {
		set_word(at_b, round, large - 8);
		ASSERT_EQ(pair.a().read({at_a.sge(0, large)},
				  {.id = 1, .flags = 0, .remote = at_b.address(), .rkey = at_b.rkey()}),
			0);
		ASSERT_EQ(add(pair.a(), result.sge(0, 8), at_b, 1000, large - 8, 2, 0), 0);
		ASSERT_EQ(pair.a().read({result.sge(8, 8)},
				  {.id = 3, .remote = at_b.address(large - 8), .rkey = at_b.rkey()}),
			0);
		EXPECT_WC(pair.a().sent(), 3, IBV_WC_SUCCESS);
		EXPECT_EQ(word(at_a, large - 8), round);
		EXPECT_EQ(word(result), round);
		EXPECT_EQ(word(result, 8), round + 1000);
	}
}

TEST_F(Atomic, MoreThanMayBeOutstandingWait)
{
	constexpr std::uint64_t many = 60;

	for (std::uint64_t i = 0; i < many; i++)
		ASSERT_EQ(add(pair.a(), at_a.sge(8 * i, 8), at_b, 1, 0, i), 0);
	for (std::uint64_t i = 0; i < many; i++) {
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		EXPECT_EQ(word(at_a, 8 * i), i);
	}
	EXPECT_EQ(word(at_b), many);
}

TEST_F(Atomic, AFenceWaitsForIt)
{
	set_word(at_b, 3);
	ASSERT_EQ(pair.b().receive({at_b.sge(4096, 64)}, 5), 0);
	ASSERT_EQ(add(pair.a(), at_a.sge(0, 8), at_b, 1, 0, 1, 0), 0);
	ASSERT_EQ(pair.a().send({at_a.sge(0, 8)}, {.id = 2, .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}), 0);
	EXPECT_WC(pair.b().received(), 5, IBV_WC_SUCCESS);
	EXPECT_EQ(word(at_b, 4096), 3U);
}

TEST_F(Atomic, BothWays)
{
	const Region back(pair.a().pd(), 4096, atomic_access);

	for (std::uint64_t i = 0; i < 500; i++) {
		ASSERT_EQ(add(pair.a(), at_a.sge(0, 8), at_b, 1), 0);
		ASSERT_EQ(add(pair.b(), at_b.sge(4096, 8), back, 2), 0);
		EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
		EXPECT_WC(pair.b().sent(), 1, IBV_WC_SUCCESS);
		EXPECT_EQ(word(at_a), i);
		EXPECT_EQ(word(at_b, 4096), 2 * i);
	}
}

TEST_F(Atomic, UnalignedTargetsAreRefused)
{
	ASSERT_EQ(add(pair.a(), at_a.sge(0, 8), at_b, 1, 4), 0);
	expect_refused(IBV_WC_REM_OP_ERR);
}

TEST_F(Atomic, TargetsOutsideTheRegionAreRefused)
{
	ASSERT_EQ(add(pair.a(), at_a.sge(0, 8), at_b, 1, at_b.size()), 0);
	expect_refused(IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Atomic, RegionsWithoutTheRightAreRefused)
{
	const Region plain(pair.b().pd(), 4096);

	ASSERT_EQ(add(pair.a(), at_a.sge(0, 8), plain, 1), 0);
	expect_refused(IBV_WC_REM_ACCESS_ERR);
	EXPECT_TRUE(all_equal(plain.bytes(), 0));
}

TEST_F(Atomic, QueuePairsWithoutTheRightRefuse)
{
	ibv_qp_attr attr{};

	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	ASSERT_EQ(ibv_modify_qp(pair.b().qp(), &attr, IBV_QP_ACCESS_FLAGS), 0);
	ASSERT_EQ(swap(pair.a(), at_a.sge(0, 8), at_b, 0, 1), 0);
	expect_refused(IBV_WC_REM_ACCESS_ERR);
}

// The address as named is aligned, the memory behind it isn't.
TEST_F(Atomic, MemoryThatIsNotAlignedIsRefused)
{
	const Mr shifted(ibv_reg_mr(pair.b().pd(), at_b.data() + 4, 4096, atomic_access | IBV_ACCESS_ZERO_BASED));

	ASSERT_NE(shifted, nullptr);
	ASSERT_EQ(pair.a().post(IBV_WR_ATOMIC_FETCH_AND_ADD, {at_a.sge(0, 8)},
			  {.id = 1, .remote = 0, .rkey = shifted->rkey, .compare_add = 1}),
		0);
	expect_refused(IBV_WC_REM_OP_ERR);
}

TEST_F(Atomic, ResultsThatCannotBeStoredEndTheConnection)
{
	const Region readable_only(pair.a().pd(), 4096, IBV_ACCESS_REMOTE_READ);

	ASSERT_EQ(add(pair.a(), readable_only.sge(0, 8), at_b, 1), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_LOC_PROT_ERR);
	pair.b().wait_state(IBV_QPS_ERR);
}

TEST_F(Atomic, OneBufferOfEightOctets)
{
	for (const Sges &wrong :
		{Sges{}, {at_a.sge(0, 4)}, {at_a.sge(0, 16)}, {at_a.sge(0, 4), at_a.sge(8, 4)}, {at_a.sge(0, 0)}})
		EXPECT_EQ(pair.a().post(IBV_WR_ATOMIC_FETCH_AND_ADD, wrong,
				  {.id = 1, .remote = at_b.address(), .rkey = at_b.rkey(), .compare_add = 1}),
			EINVAL);
	EXPECT_EQ(pair.a().post(IBV_WR_ATOMIC_CMP_AND_SWP, {at_a.sge(0, 8)},
			  {.id = 1, .flags = IBV_SEND_INLINE, .remote = at_b.address(), .rkey = at_b.rkey()}),
		EINVAL);
	pair.sync();
	EXPECT_TRUE(all_equal(at_b.bytes(), 0));
}

TEST_F(Atomic, InErrorTheyAreFlushed)
{
	ASSERT_EQ(pair.a().modify(IBV_QPS_ERR), 0);
	ASSERT_EQ(add(pair.a(), at_a.sge(0, 8), at_b, 1), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_WR_FLUSH_ERR);
}

TEST(AtomicRights, TheDeviceSaysThatItHasThem)
{
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(server_device(), &attr), 0);
	EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_GLOB);
}

// A queue pair that holds one buffer and no inline data has room for one, too.
TEST(AtomicExtended, Builders)
{
	Options client;

	client.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	client.send_ops = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	Pair pair(client, {});
	const Region near(pair.a().pd(), 4096), far(pair.b().pd(), 4096, atomic_access);
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair.a().qp());

	ASSERT_NE(ex, nullptr);
	for (std::uint64_t round = 0; round < 20; round++) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ex->wr_id = 1;
		ibv_wr_atomic_fetch_add(ex, far.rkey(), far.address(), 5);
		ibv_wr_set_sge(ex, near.mr()->lkey, near.address(), 8);
		ex->wr_id = 2;
		ibv_wr_atomic_cmp_swp(ex, far.rkey(), far.address(), round + 5, round + 1);
		ibv_wr_set_sge(ex, near.mr()->lkey, near.address(8), 8);
		ASSERT_EQ(ibv_wr_complete(ex), 0);
		const ibv_wc added = pair.a().sent(), swapped = pair.a().sent();
		EXPECT_WC(added, 1, IBV_WC_SUCCESS);
		EXPECT_EQ(added.opcode, IBV_WC_FETCH_ADD);
		EXPECT_WC(swapped, 2, IBV_WC_SUCCESS);
		EXPECT_EQ(swapped.opcode, IBV_WC_COMP_SWAP);
		EXPECT_EQ(word(near), round);
		EXPECT_EQ(word(near, 8), round + 5);
		EXPECT_EQ(word(far), round + 1);
	}
}

} // namespace
} // namespace vt
