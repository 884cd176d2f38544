// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Protection: what a peer, or a wrong buffer, must not reach. After each violation the memory is as it
// was, both ends are in error, and what they had posted is flushed.
#include <algorithm>
#include <cstdint>

#include "../lib/connection.hpp"

namespace vt {
namespace {

constexpr std::uint8_t untouched = 0xee;
constexpr std::size_t size = 8192;

/// A remote operation that b has to refuse.
struct Violation {
	const char *name;
	int access; // of b's region
	bool other_pd;
	bool deregistered;
	std::uint32_t key_change; // xor
	std::size_t offset;
	std::uint64_t address; // instead of an offset into the region, if not 0
	std::uint32_t length;
};

constexpr int no_remote = IBV_ACCESS_LOCAL_WRITE;
constexpr int read_only = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr int write_only = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

const std::vector<Violation> common_violations = {
	{"NoRemoteRight", no_remote, false, false, 0, 0, 0, 8},
	{"NoRightAtAll", 0, false, false, 0, 0, 0, 8},
	{"WrongKey", all_access, false, false, 0x01, 0, 0, 8},
	{"OtherKeyBits", all_access, false, false, 0x80, 0, 0, 8},
	{"WrongIndex", all_access, false, false, 0x5a5a5a00, 0, 0, 8},
	{"OtherPd", all_access, true, false, 0, 0, 0, 8},
	{"Deregistered", all_access, false, true, 0, 0, 0, 8},
	{"OneBeforeTheBase", all_access, false, false, 0, SIZE_MAX, 0, 8},
	{"OnePastTheEnd", all_access, false, false, 0, size - 7, 0, 8},
	{"BehindTheEnd", all_access, false, false, 0, size, 0, 1},
	{"LongerThanTheRegion", all_access, false, false, 0, 0, 0, size + 1},
	{"EndWrapsToZero", all_access, false, false, 0, 0, UINT64_MAX - 7, 8},
	{"EndWrapsBeyondZero", all_access, false, false, 0, 0, UINT64_MAX - 3, 8},
	{"AddressZero", all_access, false, false, 0, 0, 0x1, 8},
};

std::vector<Violation> with(std::vector<Violation> list, const Violation &more)
{
	list.push_back(more);
	return list;
}

void PrintTo(const Violation &violation, std::ostream *out)
{
	*out << violation.name;
}

std::string name_of(const testing::TestParamInfo<Violation> &info)
{
	return info.param.name;
}

class RemoteViolation : public testing::TestWithParam<Violation> {
protected:
	RemoteViolation()
		: other_pd(make_pd(pair.b().context())),
		  at_a(pair.a().pd(), 2 * size),
		  at_b(GetParam().other_pd ? other_pd.get() : pair.b().pd(), size, GetParam().access)
	{
		const Violation &violation = GetParam();

		at_a.fill_pattern(1);
		at_b.fill(untouched);
		work.id = 1;
		work.remote = violation.address ? violation.address : at_b.address(violation.offset);
		work.rkey = at_b.rkey() ^ violation.key_change;
		if (violation.deregistered)
			at_b.deregister();
		if (pair.a().receive({}, 10) || pair.b().receive({}, 20))
			fail("ibv_post_recv");
	}

	/// Both ends notice, and flush.
	void expect_the_end()
	{
		EXPECT_WC(pair.a().received(), 10, IBV_WC_WR_FLUSH_ERR);
		EXPECT_WC(pair.b().received(), 20, IBV_WC_WR_FLUSH_ERR);
		pair.a().wait_disconnected();
		pair.b().wait_disconnected();
		pair.a().wait_state(IBV_QPS_ERR);
		pair.b().wait_state(IBV_QPS_ERR);
	}

	Pair pair;
	Pd other_pd;
	Region at_a;
	Region at_b;
	Work work;
};

class WriteViolation : public RemoteViolation {};
class ReadViolation : public RemoteViolation {};

// The peer's refusal comes after a Write has completed.
TEST_P(WriteViolation, IsRefused)
{
	ASSERT_EQ(pair.a().write({at_a.sge(0, GetParam().length)}, work), 0);
	EXPECT_EQ(pair.a().sent().wr_id, 1);
	expect_the_end();
	EXPECT_TRUE(all_equal(at_b.bytes(), untouched));
	EXPECT_TRUE(poll_all(pair.a().send_cq()).empty());
}

TEST_P(ReadViolation, IsRefused)
{
	const std::uint32_t length = GetParam().length;
	at_a.fill(untouched);
	ASSERT_EQ(pair.a().read({at_a.sge(0, length)}, work), 0);
	ASSERT_EQ(pair.a().read({at_a.sge(0, length)}, {.id = 2, .remote = work.remote, .rkey = work.rkey}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_REM_ACCESS_ERR);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_WR_FLUSH_ERR);
	expect_the_end();
	EXPECT_TRUE(all_equal(at_a.bytes(), untouched));
}

INSTANTIATE_TEST_SUITE_P(Access, WriteViolation,
	testing::ValuesIn(with(common_violations, {"ReadOnly", read_only, false, false, 0, 0, 0, 8})), name_of);
INSTANTIATE_TEST_SUITE_P(Access, ReadViolation,
	testing::ValuesIn(with(common_violations, {"WriteOnly", write_only, false, false, 0, 0, 0, 8})), name_of);

/// A local buffer that a must not use.
struct BadBuffer {
	const char *name;
	bool other_pd;
	bool deregistered;
	std::uint32_t key_change;
	std::int64_t offset;
	std::uint32_t length;
};

const std::vector<BadBuffer> bad_buffers = {
	{"WrongKey", false, false, 1, 0, 8},
	{"WrongIndex", false, false, 0x5a5a5a00, 0, 8},
	{"OtherPd", true, false, 0, 0, 8},
	{"Deregistered", false, true, 0, 0, 8},
	{"OneBeforeTheBase", false, false, 0, -1, 8},
	{"OnePastTheEnd", false, false, 0, size - 7, 8},
};

// A receive is only checked where the message reaches.
const std::vector<BadBuffer> too_long_buffers = {
	{"LongerThanTheRegion", false, false, 0, 0, size + 1},
	{"MuchLongerThanTheRegion", false, false, 0, 0, 1U << 30},
};

void PrintTo(const BadBuffer &buffer, std::ostream *out)
{
	*out << buffer.name;
}

std::string buffer_name(const testing::TestParamInfo<BadBuffer> &info)
{
	return info.param.name;
}

class LocalBuffer : public testing::TestWithParam<BadBuffer> {
protected:
	ibv_sge bad_sge(const Side &side, const ibv_pd *)
	{
		const BadBuffer &param = GetParam();

		other_pd = make_pd(side.context());
		region = std::make_unique<Region>(param.other_pd ? other_pd.get() : side.pd(), size);
		ibv_sge sge = {.addr = region->address() + static_cast<std::uint64_t>(param.offset),
			.length = param.length,
			.lkey = region->mr()->lkey ^ param.key_change};
		region->fill(untouched);
		if (param.deregistered)
			region->deregister();
		return sge;
	}

	Pair pair;
	Pd other_pd;
	std::unique_ptr<Region> region;
};

class SourceBuffer : public LocalBuffer {};

TEST_P(SourceBuffer, IsNotSent)
{
	const Region at_b(pair.b().pd(), size);
	const ibv_sge sge = bad_sge(pair.a(), pair.a().pd());

	at_b.fill(untouched);
	ASSERT_EQ(pair.b().receive({at_b.sge()}, 20), 0);
	ASSERT_EQ(pair.a().send({sge}, {.id = 1, .flags = 0}), 0); // errors are always signalled
	ASSERT_EQ(pair.a().send({}, {.id = 2, .flags = 0}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_LOC_PROT_ERR);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_WC(pair.b().received(), 20, IBV_WC_WR_FLUSH_ERR);
	pair.b().wait_disconnected();
	EXPECT_TRUE(all_equal(at_b.bytes(), untouched));
}

TEST_P(SourceBuffer, IsNotWritten)
{
	const Region at_b(pair.b().pd(), size);
	const ibv_sge sge = bad_sge(pair.a(), pair.a().pd());

	at_b.fill(untouched);
	ASSERT_EQ(pair.a().write({sge}, {.id = 1, .remote = at_b.address(), .rkey = at_b.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_LOC_PROT_ERR);
	pair.a().wait_state(IBV_QPS_ERR);
	pair.b().wait_disconnected();
	EXPECT_TRUE(all_equal(at_b.bytes(), untouched));
}

class SinkBuffer : public LocalBuffer {};

TEST_P(SinkBuffer, TakesNoMessage)
{
	const Region at_a(pair.a().pd(), 8);
	const ibv_sge sge = bad_sge(pair.b(), pair.b().pd());

	at_a.fill_pattern(1);
	ASSERT_EQ(pair.b().receive({sge}, 20), 0);
	ASSERT_EQ(pair.b().receive({}, 21), 0);
	ASSERT_EQ(pair.a().send({at_a.sge()}), 0);
	EXPECT_WC(pair.b().received(), 20, IBV_WC_LOC_PROT_ERR);
	EXPECT_WC(pair.b().received(), 21, IBV_WC_WR_FLUSH_ERR);
	pair.a().wait_disconnected();
	EXPECT_TRUE(all_equal(region->bytes(), untouched));
}

TEST_P(SinkBuffer, TakesNoReadResponse)
{
	const Region at_b(pair.b().pd(), 2 * size);
	const ibv_sge sge = bad_sge(pair.a(), pair.a().pd());

	at_b.fill_pattern(1);
	ASSERT_EQ(pair.a().read({sge}, {.id = 1, .remote = at_b.address(), .rkey = at_b.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_LOC_PROT_ERR);
	pair.a().wait_state(IBV_QPS_ERR);
	EXPECT_TRUE(all_equal(region->bytes(), untouched));
}

INSTANTIATE_TEST_SUITE_P(Access, SourceBuffer, testing::ValuesIn(bad_buffers), buffer_name);
INSTANTIATE_TEST_SUITE_P(AccessLength, SourceBuffer, testing::ValuesIn(too_long_buffers), buffer_name);
INSTANTIATE_TEST_SUITE_P(Access, SinkBuffer, testing::ValuesIn(bad_buffers), buffer_name);

TEST(Access, ReadLongerThanItsSinkStopsAtTheEnd)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 3 * size);
	const Region at_b(pair.b().pd(), 3 * size);
	const Mr half(ibv_reg_mr(pair.a().pd(), at_a.data(), size, all_access));

	at_a.fill(untouched);
	at_b.fill_pattern(1);
	const ibv_sge sge = {.addr = at_a.address(), .length = 2 * size, .lkey = half->lkey};
	ASSERT_EQ(pair.a().read({sge}, {.id = 1, .remote = at_b.address(), .rkey = at_b.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_LOC_PROT_ERR);
	pair.a().wait_state(IBV_QPS_ERR);
	EXPECT_TRUE(all_equal(at_a.bytes(size, 2 * size), untouched));
}

TEST(Access, MessageLongerThanARegionStopsAtTheEnd)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 2 * size);
	const Region at_b(pair.b().pd(), 3 * size);
	const Mr half(ibv_reg_mr(pair.b().pd(), at_b.data(), size, all_access));

	at_a.fill_pattern(1);
	at_b.fill(untouched);
	ASSERT_EQ(pair.b().receive({{.addr = at_b.address(), .length = 2 * size, .lkey = half->lkey}}, 1), 0);
	ASSERT_EQ(pair.a().send({at_a.sge()}), 0);
	EXPECT_WC(pair.b().received(), 1, IBV_WC_LOC_PROT_ERR);
	EXPECT_TRUE(all_equal(at_b.bytes(size, 2 * size), untouched));
}

TEST(Access, ReceiveNeedsTheRightToWrite)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 100);
	const Region at_b(pair.b().pd(), 100, IBV_ACCESS_REMOTE_READ);

	at_a.fill_pattern(1);
	at_b.fill(untouched);
	ASSERT_EQ(pair.b().receive({at_b.sge()}, 1), 0);
	ASSERT_EQ(pair.a().send({at_a.sge()}), 0);
	EXPECT_WC(pair.b().received(), 1, IBV_WC_LOC_PROT_ERR);
	EXPECT_TRUE(all_equal(at_b.bytes(), untouched));
}

TEST(Access, ReadNeedsTheRightToWriteItsSink)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 100, IBV_ACCESS_REMOTE_READ);
	const Region at_b(pair.b().pd(), 100);

	at_a.fill(untouched);
	at_b.fill_pattern(1);
	ASSERT_EQ(pair.a().read({at_a.sge()}, {.id = 1, .remote = at_b.address(), .rkey = at_b.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 1, IBV_WC_LOC_PROT_ERR);
	EXPECT_TRUE(all_equal(at_a.bytes(), untouched));
}

TEST(Access, SendNeedsNoRight)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 100, 0);

	at_a.fill_pattern(1);
	const Region at_b(pair.b().pd(), 100, IBV_ACCESS_LOCAL_WRITE);
	ASSERT_EQ(pair.b().receive({at_b.sge()}, 1), 0);
	ASSERT_EQ(pair.a().send({at_a.sge()}), 0);
	EXPECT_WC(pair.b().received(), 1, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(at_a.bytes(), at_b.bytes()));
}

TEST(Access, SecondSgeIsCheckedToo)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 100);
	const Region at_b(pair.b().pd(), 100);
	ibv_sge bad = at_a.sge();

	bad.lkey ^= 1;
	ASSERT_EQ(pair.b().receive({at_b.sge()}, 1), 0);
	ASSERT_EQ(pair.a().send({at_a.sge(0, 10), bad}, {.id = 2}), 0);
	EXPECT_WC(pair.a().sent(), 2, IBV_WC_LOC_PROT_ERR);
	EXPECT_WC(pair.b().received(), 1, IBV_WC_WR_FLUSH_ERR);
}

TEST(Access, ViolationOfOneConnectionLeavesOthersAlone)
{
	Pair good;
	Pair bad;
	const Region at_a(bad.a().pd(), 100);

	good.sync();
	ASSERT_EQ(bad.a().write({at_a.sge()}, {.remote = 0x1000, .rkey = 0x12345678}), 0);
	bad.a().wait_disconnected();
	bad.b().wait_disconnected();
	for (int i = 0; i < 10; i++)
		good.sync();
}

TEST(Access, KeyOfOnePairIsWorthlessToAnother)
{
	Pair one;
	Pair two;
	const Region secret(one.b().pd(), 100);
	const Region sink(two.a().pd(), 100);

	secret.fill_pattern(1);
	sink.fill(untouched);
	ASSERT_EQ(two.a().read({sink.sge()}, {.id = 1, .remote = secret.address(), .rkey = secret.rkey()}), 0);
	EXPECT_WC(two.a().sent(), 1, IBV_WC_REM_ACCESS_ERR);
	EXPECT_TRUE(all_equal(sink.bytes(), untouched));
	one.sync();
}

TEST(Access, RegionCanGoWhileThePeerWritesToIt)
{
	for (int round = 0; round < 10; round++) {
		Pair pair;
		const Region at_a(pair.a().pd(), 100000);
		Region at_b(pair.b().pd(), 100000);
		for (int i = 0; i < 30; i++)
			ASSERT_EQ(pair.a().write(
					  {at_a.sge()}, {.flags = 0, .remote = at_b.address(), .rkey = at_b.rkey()}),
				0);
		at_b.deregister();
		at_b.fill(untouched);
		// Once the registration is gone, nothing arrives any more.
		(void)pair.a().write({at_a.sge()}, {.remote = at_b.address(), .rkey = 0x12345678});
		pair.b().wait_disconnected();
		EXPECT_TRUE(all_equal(at_b.bytes(), untouched));
	}
}

TEST(Access, RegionCanGoWhileItIsBeingSent)
{
	for (int round = 0; round < 10; round++) {
		Pair pair;
		Region at_a(pair.a().pd(), 4 << 20);
		const Region at_b(pair.b().pd(), 4 << 20);
		at_a.fill(0x11);
		at_b.fill(0x22);
		for (std::uint64_t i = 0; i < 16; i++)
			ASSERT_EQ(
				pair.a().write({at_a.sge()}, {.id = i, .remote = at_b.address(), .rkey = at_b.rkey()}),
				0);
		at_a.deregister();
		at_a.fill(untouched);
		ibv_wc_status last = IBV_WC_SUCCESS;
		for (std::uint64_t i = 0; i < 16; i++) {
			const ibv_wc wc = pair.a().sent();
			EXPECT_EQ(wc.wr_id, i);
			// Some of them went before; the first that didn't says why, the rest is flushed.
			if (last == IBV_WC_SUCCESS)
				EXPECT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR);
			else
				EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
			last = wc.status;
		}
		if (last != IBV_WC_SUCCESS)
			pair.b().wait_disconnected();
		else
			pair.sync();
		const auto octets = at_b.bytes();
		EXPECT_EQ(std::ranges::find(octets, untouched), octets.end());
	}
}

} // namespace
} // namespace vt
