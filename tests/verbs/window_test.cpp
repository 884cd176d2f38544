// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory windows: what a bind opens to the peer, what closes it again, and what is refused.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../lib/connection.hpp"
#include "../lib/link.hpp"
#include "child.hpp"

namespace vt {
namespace {

using Mw = std::unique_ptr<ibv_mw, Closer<ibv_mw, ibv_dealloc_mw>>;

constexpr int bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned int both = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
constexpr std::size_t page = 4096;

Mw make_mw(ibv_pd *pd, ibv_mw_type type)
{
	Mw mw(ibv_alloc_mw(pd, type));

	if (!mw)
		fail("ibv_alloc_mw", errno);
	return mw;
}

/// What a bind asks for.
struct Bind {
	ibv_mr *mr;
	std::uint64_t address;
	std::uint64_t length;
	unsigned int access = both;
	unsigned int flags = IBV_SEND_SIGNALED;
	std::uint64_t id = 7;

	ibv_mw_bind_info info() const { return {mr, address, length, access}; }
};

Bind all_of(const Region &region, unsigned int access = both)
{
	return {region.mr(), region.address(), region.size(), access};
}

int bind_1(const Side &side, ibv_mw *mw, const Bind &bind)
{
	ibv_mw_bind request = {bind.id, bind.flags, bind.info()};

	return ibv_bind_mw(side.qp(), mw, &request);
}

int bind_2(const Side &side, ibv_mw *mw, std::uint32_t rkey, const Bind &bind)
{
	ibv_send_wr wr{}, *bad = nullptr;

	wr.wr_id = bind.id;
	wr.opcode = IBV_WR_BIND_MW;
	wr.send_flags = bind.flags;
	wr.bind_mw = {mw, rkey, bind.info()};
	return ibv_post_send(side.qp(), &wr, &bad);
}

/// Posts a bind of a window of either type by that key; of type 1, by the next one.
int bind_any(const Side &side, ibv_mw *mw, const Bind &bind)
{
	return mw->type == IBV_MW_TYPE_1 ? bind_1(side, mw, bind) : bind_2(side, mw, mw->rkey, bind);
}

int invalidate(const Side &side, std::uint32_t rkey, unsigned int flags = IBV_SEND_SIGNALED)
{
	return side.post(IBV_WR_LOCAL_INV, {}, {.id = 8, .flags = flags, .invalidate = rkey});
}

void expect_completion(const Side &side, ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS)
{
	const ibv_wc wc = side.sent();

	EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
	if (wc.status == IBV_WC_SUCCESS) {
		EXPECT_EQ(wc.opcode, opcode);
	}
}

/// Of b's window; a is its peer.
class Windows : public testing::Test {
protected:
	/// Binds a window of either type by a new key, and returns the key.
	std::uint32_t bind(ibv_mw *mw, const Bind &bind)
	{
		const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);

		if (mw->type == IBV_MW_TYPE_2)
			mw->rkey = rkey; // a program's own affair
		EXPECT_EQ(bind_any(pair.b(), mw, bind), 0);
		EXPECT_EQ(mw->rkey, rkey);
		expect_completion(pair.b(), IBV_WC_BIND_MW);
		return rkey;
	}
	void write(Pair &by, std::uint32_t rkey, std::uint64_t remote, std::size_t length)
	{
		ASSERT_EQ(by.a().write({from.sge(0, length)}, {.remote = remote, .rkey = rkey}), 0);
	}
	/// A Write of that many octets arrives there.
	void expect_open(std::uint32_t rkey, std::uint64_t remote, const std::uint8_t *memory, std::size_t length)
	{
		from.fill_pattern(++seed);
		write(pair, rkey, remote, length);
		EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
		pair.sync();
		EXPECT_EQ(std::memcmp(from.data(), memory, length), 0);
	}
	void expect_open(std::uint32_t rkey) { expect_open(rkey, at_b.address(), at_b.data(), page); }
	/// A Write ends the connection and changes nothing.
	void expect_closed(std::uint32_t rkey, std::uint64_t remote, std::size_t length = 8)
	{
		at_b.fill(0x5a);
		write(pair, rkey, remote, length);
		pair.a().wait_disconnected();
		EXPECT_TRUE(all_equal(at_b.bytes(), 0x5a));
	}
	void expect_closed(std::uint32_t rkey) { expect_closed(rkey, at_b.address()); }

	Pair pair;
	const Region from{pair.a().pd(), 4 * page};
	const Region at_b{pair.b().pd(), 4 * page, bindable};
	std::uint32_t seed = 0;
};

/// The same with windows of both types.
class EveryWindow : public Windows, public testing::WithParamInterface<ibv_mw_type> {
protected:
	Mw mw = make_mw(pair.b().pd(), GetParam());
};

INSTANTIATE_TEST_SUITE_P(Type, EveryWindow, testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2),
	[](const auto &test) { return std::to_string(test.param); });

TEST(WindowAttributes, SayThatThereAreSome)
{
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(server_device(), &attr), 0);
	EXPECT_GT(attr.max_mw, 0);
	EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	EXPECT_FALSE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
}

TEST(WindowAttributes, OtherTypesAreRefused)
{
	const Pd pd = make_pd(server_device());

	for (const int type : {0, 3, 255}) {
		errno = 0;
		EXPECT_EQ(ibv_alloc_mw(pd.get(), static_cast<ibv_mw_type>(type)), nullptr);
		EXPECT_EQ(errno, EINVAL);
	}
}

TEST(WindowAttributes, AWindowKeepsItsDomain)
{
	Pd pd = make_pd(server_device());
	const Mw mw = make_mw(pd.get(), IBV_MW_TYPE_2);

	EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
}

TEST_P(EveryWindow, IsClosedBeforeItsBind)
{
	expect_closed(mw->rkey);
}

TEST_P(EveryWindow, OpensWhatTheRegionKeepsFromPeers)
{
	expect_open(bind(mw.get(), all_of(at_b)));
	expect_closed(at_b.rkey());
}

TEST_P(EveryWindow, EndsWhereItsBindSays)
{
	const std::uint64_t start = at_b.address(page - 100);

	const std::uint32_t rkey = bind(mw.get(), {at_b.mr(), start, page + 300});
	expect_open(rkey, start, at_b.data() + page - 100, page + 300);
	expect_open(rkey, start + page + 299, at_b.data() + 2 * page + 199, 1);
	expect_closed(rkey, start + page + 299, 2);
}

TEST_P(EveryWindow, BeginsWhereItsBindSays)
{
	const std::uint64_t start = at_b.address(page + 1);

	expect_closed(bind(mw.get(), {at_b.mr(), start, page}), start - 1, 2);
}

TEST_P(EveryWindow, CountsFromZeroIfAsked)
{
	constexpr unsigned int zero = both | IBV_ACCESS_ZERO_BASED;

	const std::uint32_t rkey = bind(mw.get(), {at_b.mr(), at_b.address(page + 24), page, zero});
	expect_open(rkey, 0, at_b.data() + page + 24, page);
	expect_open(rkey, page - 8, at_b.data() + 2 * page + 16, 8);
	expect_closed(rkey, at_b.address(page + 24));
}

TEST_P(EveryWindow, OnAZeroBasedRegionCountsAsThatDoes)
{
	const Region zero(pair.b().pd(), 2 * page, bindable | IBV_ACCESS_ZERO_BASED);

	const std::uint32_t rkey = bind(mw.get(), {zero.mr(), page, 1000});
	expect_open(rkey, page, zero.data() + page, 1000);
	expect_closed(rkey, page - 1);
	mw.reset();
}

TEST_P(EveryWindow, HasTheRightsOfItsBindAlone)
{
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b, IBV_ACCESS_REMOTE_READ));
	at_b.fill_pattern(77);
	ASSERT_EQ(pair.a().read({from.sge()}, {.remote = at_b.address(), .rkey = rkey}), 0);
	EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(at_b.bytes(), from.bytes()));
	expect_closed(rkey);
}

// Other devices take it, and programs ask for it.
TEST_P(EveryWindow, IgnoresALocalRight)
{
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE));

	expect_closed(rkey);
}

TEST_P(EveryWindow, WithoutRightsIsClosed)
{
	expect_closed(bind(mw.get(), all_of(at_b, 0)));
}

TEST_P(EveryWindow, IsReadInManySegments)
{
	const Region large(pair.b().pd(), 3 << 20, bindable), to(pair.a().pd(), 3 << 20);

	large.fill_pattern(5);
	const std::uint32_t rkey = bind(mw.get(), all_of(large));
	ASSERT_EQ(pair.a().read({to.sge()}, {.remote = large.address(), .rkey = rkey}), 0);
	EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(large.bytes(), to.bytes()));
	mw.reset();
}

TEST_P(EveryWindow, TakesAtomics)
{
	auto &word = *reinterpret_cast<std::uint64_t *>(at_b.data());
	word = 40;
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b, IBV_ACCESS_REMOTE_ATOMIC));

	ASSERT_EQ(pair.a().post(IBV_WR_ATOMIC_FETCH_AND_ADD, {from.sge(0, 8)},
			  {.remote = at_b.address(), .rkey = rkey, .compare_add = 2}),
		0);
	EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	EXPECT_EQ(word, 42);
}

TEST_P(EveryWindow, KeepsItsRegion)
{
	bind(mw.get(), all_of(at_b));
	EXPECT_EQ(ibv_dereg_mr(at_b.mr()), EBUSY);
	EXPECT_NE(ibv_rereg_mr(at_b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, bindable), 0);
	EXPECT_EQ(errno, EBUSY);
	expect_open(mw->rkey);
}

TEST_P(EveryWindow, IsClosedWhenItIsGone)
{
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b));

	mw.reset();
	expect_closed(rkey);
}

TEST_P(EveryWindow, IsNoBufferToSend)
{
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b));

	ASSERT_EQ(pair.b().send({{at_b.address(), 8, rkey}}), 0);
	EXPECT_EQ(pair.b().sent().status, IBV_WC_LOC_PROT_ERR);
}

TEST_P(EveryWindow, IsNoBufferToReceive)
{
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b));

	ASSERT_EQ(pair.b().receive({{at_b.address(), 8, rkey}}), 0);
	ASSERT_EQ(pair.a().send({from.sge(0, 8)}), 0);
	EXPECT_EQ(pair.b().received().status, IBV_WC_LOC_PROT_ERR);
}

TEST_P(EveryWindow, ThatIsUnsignalledIsBoundSilently)
{
	Bind silent = all_of(at_b);
	silent.flags = 0;

	ASSERT_EQ(bind_any(pair.b(), mw.get(), silent), 0);
	ASSERT_EQ(pair.a().receive(), 0);
	ASSERT_EQ(pair.b().send({}, {.id = 99}), 0);
	EXPECT_WC(pair.b().sent(), 99, IBV_WC_SUCCESS);
	EXPECT_WC(pair.a().received(), 0, IBV_WC_SUCCESS);
	expect_open(mw->rkey);
}

// A bind that is fenced waits for a Read, as any request does.
TEST_P(EveryWindow, ComesBehindAReadIfFenced)
{
	const Region to(pair.b().pd(), page), source(pair.a().pd(), page);
	Bind fenced = all_of(at_b);
	fenced.flags |= IBV_SEND_FENCE;

	ASSERT_EQ(pair.b().read({to.sge()}, {.id = 1, .remote = source.address(), .rkey = source.rkey()}), 0);
	ASSERT_EQ(bind_any(pair.b(), mw.get(), fenced), 0);
	EXPECT_WC(pair.b().sent(), 1, IBV_WC_SUCCESS);
	expect_completion(pair.b(), IBV_WC_BIND_MW);
	expect_open(mw->rkey);
}

// --- what a bind may not have ---------------------------------------------------------------------

struct BadBind {
	const char *name;
	std::function<Bind(const Region &region)> make;
	int region_access = bindable;
};

Bind changed(const Region &region, const std::function<void(Bind &)> &change)
{
	Bind bind = all_of(region);

	change(bind);
	return bind;
}

const std::vector<BadBind> bad_binds = {
	{"RegionWithoutTheRight", [](const Region &r) { return all_of(r); }, IBV_ACCESS_LOCAL_WRITE},
	{"WritesWithoutLocalOnes", [](const Region &r) { return all_of(r); }, IBV_ACCESS_MW_BIND},
	{"AtomicsWithoutLocalWrites", [](const Region &r) { return all_of(r, IBV_ACCESS_REMOTE_ATOMIC); },
		IBV_ACCESS_MW_BIND},
	{"OneByteTooMany",
		[](const Region &r) {
			return changed(r, [](Bind &b) { b.length++; });
		}},
	{"OneByteBefore",
		[](const Region &r) {
			return changed(r, [](Bind &b) { b.address--; });
		}},
	{"ALengthThatWraps",
		[](const Region &r) {
			return changed(r, [](Bind &b) { b.length = UINT64_MAX; });
		}},
	{"ALengthOfFourGigabytes",
		[](const Region &r) {
			return changed(r, [](Bind &b) { b.length = std::uint64_t{1} << 32; });
		}},
	{"TheRightToBind",
		[](const Region &r) {
			return all_of(r, both | IBV_ACCESS_MW_BIND);
		}},
};

class BadBinds : public testing::TestWithParam<std::tuple<ibv_mw_type, BadBind>> {};

INSTANTIATE_TEST_SUITE_P(Windows, BadBinds,
	testing::Combine(testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2), testing::ValuesIn(bad_binds)),
	[](const auto &test) { return std::to_string(std::get<0>(test.param)) + std::get<1>(test.param).name; });

TEST_P(BadBinds, CompleteWithAnErrorAndLeaveTheWindowAlone)
{
	const auto &[type, bad] = GetParam();
	Pair pair;
	const Region region(pair.b().pd(), 2 * page, bad.region_access);
	const Mw mw = make_mw(pair.b().pd(), type);

	ASSERT_EQ(bind_any(pair.b(), mw.get(), bad.make(region)), 0);
	EXPECT_WC(pair.b().sent(), 7, IBV_WC_MW_BIND_ERR);
	pair.a().wait_disconnected();
}

TEST_F(Windows, OfAnotherDomainAreNotBound)
{
	const Pd other = make_pd(pair.b().context());
	const Mw mw = make_mw(other.get(), IBV_MW_TYPE_2);

	ASSERT_EQ(bind_2(pair.b(), mw.get(), mw->rkey, all_of(at_b)), 0);
	EXPECT_WC(pair.b().sent(), 7, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, AreNotBoundToRegionsOfAnotherDomain)
{
	const Pd other = make_pd(pair.b().context());
	const Region region(other.get(), page, bindable);
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);

	ASSERT_EQ(bind_2(pair.b(), mw.get(), mw->rkey, all_of(region)), 0);
	EXPECT_WC(pair.b().sent(), 7, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, AreNotBoundToWindows)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2), second = make_mw(pair.b().pd(), IBV_MW_TYPE_2);
	ibv_mr false_mr = *at_b.mr();

	false_mr.lkey = bind(mw.get(), all_of(at_b));
	ASSERT_EQ(bind_2(pair.b(), second.get(), second->rkey, {&false_mr, at_b.address(), page}), 0);
	EXPECT_WC(pair.b().sent(), 7, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, AreNotBoundWhenTheyAreGone)
{
	Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);
	ibv_mw gone = *mw;

	mw.reset();
	ASSERT_EQ(bind_2(pair.b(), &gone, gone.rkey, all_of(at_b)), 0);
	EXPECT_WC(pair.b().sent(), 7, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, WhatIsNoRequestToBindIsNotPosted)
{
	const Mw one = make_mw(pair.b().pd(), IBV_MW_TYPE_1), two = make_mw(pair.b().pd(), IBV_MW_TYPE_2);
	const Bind good = all_of(at_b);
	Bind bad = good;

	EXPECT_EQ(bind_1(pair.b(), two.get(), good), EINVAL);
	EXPECT_EQ(bind_2(pair.b(), one.get(), one->rkey, good), EINVAL);
	EXPECT_EQ(bind_2(pair.b(), two.get(), two->rkey ^ 0x100, good), EINVAL);
	bad.mr = nullptr;
	EXPECT_EQ(bind_2(pair.b(), two.get(), two->rkey, bad), EINVAL);
	EXPECT_EQ(bind_1(pair.b(), one.get(), bad), EINVAL);
	bad = good;
	bad.flags = IBV_SEND_INLINE;
	EXPECT_EQ(bind_2(pair.b(), two.get(), two->rkey, bad), EINVAL);
	EXPECT_EQ(bind_1(pair.b(), one.get(), bad), EINVAL);
	EXPECT_EQ(pair.b().post(IBV_WR_LOCAL_INV, {at_b.sge()}, {.invalidate = two->rkey}), EINVAL);
	pair.sync();
}

// --- type 1 ---------------------------------------------------------------------------------------

TEST_F(Windows, ANewKeyMakesTheOldOneInvalid)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_1);
	const std::uint32_t old = bind(mw.get(), all_of(at_b));

	const std::uint32_t now = bind(mw.get(), {at_b.mr(), at_b.address(), page});
	EXPECT_NE(old, now);
	EXPECT_EQ(old >> 8, now >> 8);
	expect_open(now);
	expect_closed(old);
}

TEST_F(Windows, GoFromOneRegionToAnother)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_1);
	const Region other(pair.b().pd(), page, bindable);

	bind(mw.get(), all_of(at_b));
	bind(mw.get(), all_of(other));
	EXPECT_EQ(ibv_dereg_mr(other.mr()), EBUSY);
	// The first is free again
	EXPECT_EQ(ibv_rereg_mr(at_b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, bindable), 0);
	expect_open(mw->rkey, other.address(), other.data(), page);
	bind(mw.get(), {nullptr, 0, 0, 0});
}

TEST_F(Windows, WithoutLengthAreTakenOffTheirRegion)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_1);
	const std::uint32_t old = bind(mw.get(), all_of(at_b));

	bind(mw.get(), {nullptr, 0, 0, 0});
	EXPECT_EQ(ibv_rereg_mr(at_b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, bindable), 0);
	EXPECT_NE(old, mw->rkey);
	expect_closed(mw->rkey);
}

// No wait between a bind and the message that tells the peer of the key
TEST_F(Windows, AreBoundBeforeTheSendBehindThem)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_1);
	const Region told(pair.a().pd(), 8), telling(pair.b().pd(), 8);

	for (int round = 0; round < 300; round++) {
		ASSERT_EQ(pair.a().receive({told.sge(0, 4)}), 0);
		ASSERT_EQ(bind_1(pair.b(), mw.get(), {at_b.mr(), at_b.address(round % page), page, both, 0}), 0);
		std::memcpy(telling.data(), &mw->rkey, 4);
		ASSERT_EQ(pair.b().send({telling.sge(0, 4)}), 0);
		ASSERT_EQ(pair.b().sent().status, IBV_WC_SUCCESS);
		ASSERT_EQ(pair.a().received().status, IBV_WC_SUCCESS);
		std::uint32_t rkey = 0;
		std::memcpy(&rkey, told.data(), 4);
		expect_open(rkey, at_b.address(round % page), at_b.data() + round % page, page);
	}
}

TEST_F(Windows, OfTypeOneAreNotInvalidatedByRequests)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_1);

	ASSERT_EQ(invalidate(pair.b(), bind(mw.get(), all_of(at_b))), 0);
	EXPECT_WC(pair.b().sent(), 8, IBV_WC_LOC_PROT_ERR);
}

TEST_F(Windows, OfTypeOneAreNotInvalidatedByPeers)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_1);
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b));

	ASSERT_EQ(pair.b().receive(), 0);
	ASSERT_EQ(pair.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = rkey}), 0);
	EXPECT_EQ(pair.b().received().status, IBV_WC_REM_INV_REQ_ERR);
	EXPECT_EQ(ibv_dereg_mr(at_b.mr()), EBUSY);
}

// --- type 2 ---------------------------------------------------------------------------------------

TEST_F(Windows, OfTypeTwoAreInvalidatedByRequests)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b));

	expect_open(rkey);
	ASSERT_EQ(invalidate(pair.b(), rkey), 0);
	expect_completion(pair.b(), IBV_WC_LOCAL_INV);
	// Once more, as where the peer was faster
	ASSERT_EQ(invalidate(pair.b(), rkey), 0);
	expect_completion(pair.b(), IBV_WC_LOCAL_INV);
	EXPECT_EQ(ibv_rereg_mr(at_b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, bindable), 0);
	expect_closed(rkey);
}

TEST_F(Windows, OfTypeTwoAreInvalidatedByPeers)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);

	for (int round = 0; round < 3; round++) {
		const std::uint32_t rkey = bind(mw.get(), all_of(at_b));

		expect_open(rkey);
		ASSERT_EQ(pair.b().receive({}, 5), 0);
		ASSERT_EQ(pair.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = rkey}), 0);
		const ibv_wc wc = pair.b().received();
		EXPECT_WC(wc, 5, IBV_WC_SUCCESS);
		EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
		EXPECT_EQ(wc.invalidated_rkey, rkey);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	}
	EXPECT_EQ(ibv_rereg_mr(at_b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, bindable), 0);
	expect_closed(mw->rkey);
}

TEST_F(Windows, OfTypeTwoAreNotInvalidatedTwiceByPeers)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);
	const std::uint32_t rkey = bind(mw.get(), all_of(at_b));

	pair.b().receive_empty(2);
	ASSERT_EQ(pair.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = rkey}), 0);
	EXPECT_WC(pair.b().received(), 0, IBV_WC_SUCCESS);
	ASSERT_EQ(pair.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = rkey}), 0);
	EXPECT_WC(pair.b().received(), 1, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Windows, OfTypeTwoAreBoundOnlyWhileInvalid)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);

	bind(mw.get(), all_of(at_b));
	ASSERT_EQ(bind_2(pair.b(), mw.get(), ibv_inc_rkey(mw->rkey), all_of(at_b)), 0);
	EXPECT_WC(pair.b().sent(), 7, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, OfTypeTwoAreNotBoundWithoutLength)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);

	ASSERT_EQ(bind_2(pair.b(), mw.get(), mw->rkey, {at_b.mr(), at_b.address(), 0}), 0);
	EXPECT_WC(pair.b().sent(), 7, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, OtherThingsAreNotInvalidated)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);
	const std::uint32_t wrong_key = bind(mw.get(), all_of(at_b)) ^ 1;

	for (const std::uint32_t rkey : {at_b.rkey(), wrong_key, 0U, 0x12345678U}) {
		Pair other;

		ASSERT_EQ(invalidate(other.b(), rkey), 0);
		EXPECT_WC(other.b().sent(), 8, IBV_WC_LOC_PROT_ERR);
	}
	expect_open(mw->rkey);
}

TEST_F(Windows, OfTypeTwoGoWithTheirQueuePair)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);

	bind(mw.get(), all_of(at_b));
	EXPECT_EQ(ibv_dereg_mr(at_b.mr()), EBUSY);
	pair.b().destroy_qp();
	EXPECT_EQ(ibv_rereg_mr(at_b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, bindable), 0);
}

TEST_F(Windows, OfTypeTwoGoWithAReset)
{
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);

	bind(mw.get(), all_of(at_b));
	ASSERT_EQ(pair.b().modify(IBV_QPS_ERR), 0);
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
	EXPECT_EQ(ibv_dereg_mr(at_b.mr()), EBUSY);
	wait_until([&] { return pair.b().modify(IBV_QPS_RESET) == 0; }, "a reset");
	EXPECT_EQ(ibv_rereg_mr(at_b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, bindable), 0);
}

// --- two queue pairs of one domain ----------------------------------------------------------------

class SharedDomain : public testing::Test {
protected:
	static Options with(ibv_srq *srq)
	{
		Options options;

		options.srq = srq;
		return options;
	}
	static void write(Pair &by, const Region &from, std::uint64_t remote, std::uint32_t rkey)
	{
		ASSERT_EQ(by.a().write({from.sge()}, {.remote = remote, .rkey = rkey}), 0);
	}

	const Pd pd = make_pd(server_device());
	const Srq srq = make_srq(pd.get(), 64);
	Pair first{{}, with(srq.get())}, second{{}, with(srq.get())};
	const Region from_first{first.a().pd(), 64}, from_second{second.a().pd(), 64};
	const Region region{pd.get(), page, bindable};
};

TEST_F(SharedDomain, AWindowOfTypeOneIsGoodForBoth)
{
	const Mw mw = make_mw(pd.get(), IBV_MW_TYPE_1);

	ASSERT_EQ(bind_1(first.b(), mw.get(), all_of(region)), 0);
	expect_completion(first.b(), IBV_WC_BIND_MW);
	from_first.fill_pattern(1);
	from_second.fill_pattern(2);
	write(first, from_first, region.address(), mw->rkey);
	EXPECT_EQ(first.a().sent().status, IBV_WC_SUCCESS);
	write(second, from_second, region.address(100), mw->rkey);
	EXPECT_EQ(second.a().sent().status, IBV_WC_SUCCESS);
	wait_until([&] { return same(from_first.bytes(), region.bytes(0, 64)); }, "the first Write");
	wait_until([&] { return same(from_second.bytes(), region.bytes(100, 64)); }, "the second Write");
}

TEST_F(SharedDomain, AWindowOfTypeTwoIsGoodForOne)
{
	const Mw mw = make_mw(pd.get(), IBV_MW_TYPE_2);

	region.fill(0);
	ASSERT_EQ(bind_2(first.b(), mw.get(), mw->rkey, all_of(region)), 0);
	expect_completion(first.b(), IBV_WC_BIND_MW);
	from_second.fill(0xff);
	write(second, from_second, region.address(), mw->rkey);
	second.a().wait_disconnected();
	EXPECT_TRUE(all_equal(region.bytes(), 0));
	from_first.fill_pattern(3);
	write(first, from_first, region.address(), mw->rkey);
	wait_until([&] { return same(from_first.bytes(), region.bytes(0, 64)); }, "the Write");
}

TEST_F(SharedDomain, AWindowOfTypeTwoIsInvalidatedByItsQueuePairAlone)
{
	const Mw mw = make_mw(pd.get(), IBV_MW_TYPE_2);

	ASSERT_EQ(bind_2(first.b(), mw.get(), mw->rkey, all_of(region)), 0);
	expect_completion(first.b(), IBV_WC_BIND_MW);
	ASSERT_EQ(invalidate(second.b(), mw->rkey), 0);
	EXPECT_WC(second.b().sent(), 8, IBV_WC_LOC_PROT_ERR);

	Pair third({}, with(srq.get()));
	ibv_recv_wr wr{}, *bad = nullptr;
	ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
	ASSERT_EQ(third.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = mw->rkey}), 0);
	EXPECT_EQ(third.b().received().status, IBV_WC_REM_INV_REQ_ERR);

	from_first.fill_pattern(4);
	write(first, from_first, region.address(), mw->rkey);
	wait_until([&] { return same(from_first.bytes(), region.bytes(0, 64)); }, "the Write");
}

/// Writes over and over until the connection ends.
void write_until_closed(
	Pair &pair, const Region &from, std::uint64_t remote, std::uint32_t rkey, std::atomic<bool> &begun)
{
	for (std::uint64_t id = 0;; id++) {
		if (pair.a().write({from.sge()}, {.id = id, .remote = remote, .rkey = rkey}))
			return;
		if (pair.a().sent().status != IBV_WC_SUCCESS)
			return;
		begun = begun || id == 4;
	}
}

// The window goes from one half of the region to the other while a peer writes by the old key: when the bind has
// completed, the half that it left doesn't change any more.
TEST_F(SharedDomain, NobodyWritesByAnOldKeyWhenABindIsDone)
{
	constexpr std::size_t half = 128 << 10;
	const Region target(pd.get(), 2 * half, bindable);
	const Mw mw = make_mw(pd.get(), IBV_MW_TYPE_1);

	for (int round = 0; round < 60; round++) {
		Pair writer({}, with(srq.get()));
		const Region from(writer.a().pd(), half);
		std::atomic<bool> begun = false;

		ASSERT_EQ(bind_1(first.b(), mw.get(), {target.mr(), target.address(), half}), 0);
		expect_completion(first.b(), IBV_WC_BIND_MW);
		from.fill(static_cast<std::uint8_t>(round + 1));
		std::thread peer(
			[&, rkey = mw->rkey] { write_until_closed(writer, from, target.address(), rkey, begun); });
		while (!begun)
			std::this_thread::yield();
		ASSERT_EQ(bind_1(first.b(), mw.get(), {target.mr(), target.address(half), half}), 0);
		expect_completion(first.b(), IBV_WC_BIND_MW);
		std::memset(target.data(), 0, half);
		peer.join();
		EXPECT_TRUE(all_equal(target.bytes(0, half), 0)) << "round " << round;
	}
}

TEST_F(SharedDomain, APeerMayInvalidateWhatARequestInvalidates)
{
	const Mw mw = make_mw(pd.get(), IBV_MW_TYPE_2);

	for (int round = 0; round < 200; round++) {
		ibv_recv_wr wr{}, *bad = nullptr;

		mw->rkey = ibv_inc_rkey(mw->rkey);
		ASSERT_EQ(bind_2(first.b(), mw.get(), mw->rkey, all_of(region)), 0);
		expect_completion(first.b(), IBV_WC_BIND_MW);
		ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
		ASSERT_EQ(first.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = mw->rkey}), 0);
		const ibv_wc received = first.b().received();
		ASSERT_EQ(received.status, IBV_WC_SUCCESS);
		ASSERT_EQ(first.a().sent().status, IBV_WC_SUCCESS);
		ASSERT_EQ(invalidate(first.b(), mw->rkey), 0);
		expect_completion(first.b(), IBV_WC_LOCAL_INV);
	}
}

// --- builders -------------------------------------------------------------------------------------

TEST(WindowBuilders, BindAndInvalidate)
{
	Options options;
	options.send_ops = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	Pair pair({}, options);
	const Region region(pair.b().pd(), page, bindable);
	const Mw mw = make_mw(pair.b().pd(), IBV_MW_TYPE_2);
	const ibv_mw_bind_info info = all_of(region).info();
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(pair.b().qp());

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = 1;
	ibv_wr_bind_mw(ex, mw.get(), mw->rkey, &info);
	ex->wr_id = 2;
	ibv_wr_local_inv(ex, mw->rkey);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	ibv_wc wc = pair.b().sent();
	EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
	wc = pair.b().sent();
	EXPECT_WC(wc, 2, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);

	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, mw.get(), mw->rkey, &info);
	ibv_wr_set_sge(ex, region.mr()->lkey, region.address(), 8);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, mw.get(), mw->rkey + 0x100, &info);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

// Windows and regions go with their process, whichever was made first.
TEST(WindowLife, EndsWithTheProcess)
{
	for (const char *first : {"region", "window"}) {
		Child child({"part-windows", first});

		child.wait_stopped();
		child.kill();
	}
}

} // namespace

int part_windows(const std::string &first)
{
	Pair pair;
	Mw mw = first == "window" ? make_mw(pair.b().pd(), IBV_MW_TYPE_1) : Mw();
	const Region region(pair.b().pd(), page, bindable);

	if (!mw)
		mw = make_mw(pair.b().pd(), IBV_MW_TYPE_1);
	if (bind_1(pair.b(), mw.get(), all_of(region)) || pair.b().sent().status != IBV_WC_SUCCESS)
		_exit(1);
	(void)raise(SIGSTOP);
	for (;;)
		pause();
}

} // namespace vt
