// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// RDMA Write and RDMA Read.
#include <algorithm>

#include "../lib/connection.hpp"

namespace vt {
namespace {

constexpr std::uint8_t untouched = 0xee;

const std::vector<std::size_t> sizes = {
	1, 2, 3, 4, 5, 31, 32, 33, 100, 1023, 1024, 1460, 4095, 4096, 4097, 65535, 65536, 65537, 200001, 1000000};
const std::vector<std::pair<std::size_t, std::size_t>> offsets = {{0, 0}, {1, 2}, {4095, 4094}, {3, 4096}};

class Rdma : public testing::Test {
protected:
	static constexpr std::size_t space = 1000000 + 16384;

	Work remote(std::size_t offset = 0, std::uint64_t id = 0, unsigned int flags = IBV_SEND_SIGNALED) const
	{
		return {.id = id, .flags = flags, .remote = at_b.address(offset), .rkey = at_b.rkey()};
	}

	Pair pair;
	Region at_a{pair.a().pd(), space};
	Region at_b{pair.b().pd(), space};
};

TEST_F(Rdma, WriteSizesAtOddOffsets)
{
	at_a.fill_pattern(1);
	for (const std::size_t size : sizes) {
		for (const auto &[source, sink] : offsets) {
			SCOPED_TRACE(testing::Message() << size << " octets from " << source << " to " << sink);
			const std::size_t end = sink + size + 4096;
			std::fill_n(at_b.data(), end, untouched);
			ASSERT_EQ(pair.a().write({at_a.sge(source, size)}, remote(sink, 3)), 0);
			const ibv_wc wc = pair.a().sent();
			EXPECT_WC(wc, 3, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
			pair.sync();
			EXPECT_TRUE(same(at_a.bytes(source, size), at_b.bytes(sink, size)));
			EXPECT_TRUE(all_equal(at_b.bytes(0, sink), untouched));
			EXPECT_TRUE(all_equal(at_b.bytes(sink + size, 4096), untouched));
		}
	}
}

TEST_F(Rdma, ReadSizesAtOddOffsets)
{
	at_b.fill_pattern(2);
	for (const std::size_t size : sizes) {
		for (const auto &[source, sink] : offsets) {
			SCOPED_TRACE(testing::Message() << size << " octets from " << source << " to " << sink);
			const std::size_t end = sink + size + 4096;
			std::fill_n(at_a.data(), end, untouched);
			ASSERT_EQ(pair.a().read({at_a.sge(sink, size)}, remote(source, 4)), 0);
			const ibv_wc wc = pair.a().sent();
			EXPECT_WC(wc, 4, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
			EXPECT_EQ(wc.byte_len, size);
			EXPECT_TRUE(same(at_b.bytes(source, size), at_a.bytes(sink, size)));
			EXPECT_TRUE(all_equal(at_a.bytes(0, sink), untouched));
			EXPECT_TRUE(all_equal(at_a.bytes(sink + size, 4096), untouched));
		}
	}
}

TEST_F(Rdma, FewOctetsAcrossTheEdgeOfAPage)
{
	at_a.fill_pattern(3);
	for (const std::size_t size : {1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 64, 127, 128}) {
		for (std::size_t place = 4096 - 128; place <= 4096; place++) {
			SCOPED_TRACE(testing::Message() << size << " octets at " << place);
			std::fill_n(at_b.data() + 3840, 512, untouched);
			ASSERT_EQ(pair.a().write({at_a.sge(place, size)}, remote(place, 1, 0)), 0);
			// Back into the next two pages
			ASSERT_EQ(pair.a().read({at_a.sge(8192 + place, size)}, remote(place, 2)), 0);
			EXPECT_WC(pair.a().sent(), 2, IBV_WC_SUCCESS);
			EXPECT_TRUE(same(at_a.bytes(place, size), at_b.bytes(place, size)));
			EXPECT_TRUE(same(at_a.bytes(place, size), at_a.bytes(8192 + place, size)));
			EXPECT_TRUE(all_equal(at_b.bytes(3840, place - 3840), untouched));
			EXPECT_TRUE(all_equal(at_b.bytes(place + size, 4352 - place - size), untouched));
		}
	}
}

TEST_F(Rdma, WriteGathersSixteenPieces)
{
	Sges pieces;
	std::vector<std::uint8_t> expected;

	at_a.fill_pattern(3);
	for (std::size_t i = 0; i < 16; i++) {
		const std::size_t offset = i * 10007;
		const std::size_t length = i * i * 17;
		pieces.push_back(at_a.sge(offset, length));
		expected.insert(expected.end(), at_a.data() + offset, at_a.data() + offset + length);
	}
	ASSERT_EQ(pair.a().write(pieces, remote(5)), 0);
	EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	pair.sync();
	EXPECT_TRUE(same(at_b.bytes(5, expected.size()), expected));
}

TEST_F(Rdma, ReadScattersIntoSixteenPieces)
{
	Sges pieces;
	std::size_t total = 0;

	at_b.fill_pattern(4);
	at_a.fill(untouched);
	for (std::size_t i = 0; i < 16; i++) {
		const std::size_t length = (15 - i) * 1009 % 7000;
		pieces.push_back(at_a.sge(i * 8000 + 3, length));
		total += length;
	}
	ASSERT_EQ(pair.a().read(pieces, remote(7, 9)), 0);
	const ibv_wc wc = pair.a().sent();
	EXPECT_WC(wc, 9, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, total);
	std::size_t done = 7;
	for (std::size_t i = 0; i < 16; i++) {
		EXPECT_TRUE(same(at_a.bytes(i * 8000 + 3, pieces[i].length), at_b.bytes(done, pieces[i].length))) << i;
		EXPECT_TRUE(all_equal(at_a.bytes(i * 8000 + 3 + pieces[i].length, 500), untouched)) << i;
		done += pieces[i].length;
	}
}

TEST_F(Rdma, ReadIntoMemoryThatOnlyWeMayWrite)
{
	const Region sink(pair.a().pd(), 5000, IBV_ACCESS_LOCAL_WRITE);

	at_b.fill_pattern(5);
	ASSERT_EQ(pair.a().read({sink.sge()}, remote()), 0);
	EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(sink.bytes(), at_b.bytes(0, 5000)));
}

TEST_F(Rdma, InlineWrite)
{
	std::vector<std::uint8_t> memory(pair.a().cap().max_inline_data, 0x33);

	at_b.fill(untouched);
	Work work = remote(1);
	work.flags |= IBV_SEND_INLINE;
	ASSERT_EQ(pair.a().write({{.addr = reinterpret_cast<std::uintptr_t>(memory.data()),
					 .length = static_cast<std::uint32_t>(memory.size()),
					 .lkey = 0}},
			  work),
		0);
	std::fill(memory.begin(), memory.end(), std::uint8_t{0x44});
	EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	pair.sync();
	EXPECT_TRUE(all_equal(at_b.bytes(1, memory.size()), 0x33));
	EXPECT_EQ(at_b.data()[0], untouched);
	EXPECT_EQ(at_b.data()[1 + memory.size()], untouched);
}

TEST_F(Rdma, NothingIsCheckedForLengthZero)
{
	for (const std::uint32_t rkey : {0U, 0xffffffffU, at_b.rkey() ^ 1}) {
		for (const std::uint64_t address : {std::uint64_t{0}, UINT64_MAX}) {
			ASSERT_EQ(pair.a().write({}, {.id = 1, .remote = address, .rkey = rkey}), 0);
			EXPECT_WC(pair.a().sent(), 1, IBV_WC_SUCCESS);
			ASSERT_EQ(pair.a().read({}, {.id = 2, .remote = address, .rkey = rkey}), 0);
			const ibv_wc wc = pair.a().sent();
			EXPECT_WC(wc, 2, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.byte_len, 0);
			ASSERT_EQ(pair.a().write({{.addr = 1, .length = 0, .lkey = 0xbad}},
					  {.id = 3, .remote = address, .rkey = rkey}),
				0);
			EXPECT_WC(pair.a().sent(), 3, IBV_WC_SUCCESS);
		}
	}
	pair.sync();
}

TEST_F(Rdma, LastOctetOfARegionCanBeReached)
{
	const Region exact(pair.b().pd(), 12345);

	at_a.fill_pattern(6);
	for (const std::size_t length : {1, 2, 100, 12345}) {
		ASSERT_EQ(pair.a().write({at_a.sge(0, length)},
				  {.remote = exact.address(12345 - length), .rkey = exact.rkey()}),
			0);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		ASSERT_EQ(pair.a().read({at_a.sge(20000, length)},
				  {.remote = exact.address(12345 - length), .rkey = exact.rkey()}),
			0);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		EXPECT_TRUE(same(at_a.bytes(0, length), at_a.bytes(20000, length)));
	}
}

TEST_F(Rdma, ReadSeesTheWriteBeforeIt)
{
	at_a.fill_pattern(7);
	for (std::size_t i = 0; i < 100; i++) {
		const std::size_t length = 1 + i * 37;
		ASSERT_EQ(pair.a().write({at_a.sge(i, length)}, remote(0, 0, 0)), 0);
		ASSERT_EQ(pair.a().read({at_a.sge(500000, length)}, remote()), 0);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		EXPECT_TRUE(same(at_a.bytes(i, length), at_a.bytes(500000, length)));
	}
}

TEST_F(Rdma, SendAnnouncesTheWriteBeforeIt)
{
	for (std::uint32_t i = 0; i < 200; i++) {
		at_a.data()[0] = at_a.data()[99999] = static_cast<std::uint8_t>(i);
		ASSERT_EQ(pair.b().receive({}, i), 0);
		ASSERT_EQ(pair.a().write({at_a.sge(0, 100000)}, remote(0, 0, 0)), 0);
		ASSERT_EQ(pair.a().send({}, {.id = i}), 0);
		EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
		EXPECT_EQ(at_b.data()[0], static_cast<std::uint8_t>(i));
		EXPECT_EQ(at_b.data()[99999], static_cast<std::uint8_t>(i));
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
	}
}

TEST_F(Rdma, FencedSendWaitsForAllReadsBeforeIt)
{
	constexpr std::size_t piece = 30000;

	at_b.fill_pattern(8);
	for (std::uint64_t round = 0; round < 20; round++) {
		const Region back(pair.b().pd(), 4 * piece);
		at_a.fill(untouched);
		ASSERT_EQ(pair.b().receive({back.sge()}), 0);
		for (std::size_t i = 0; i < 4; i++)
			ASSERT_EQ(pair.a().read({at_a.sge(i * piece, piece)}, remote(i * piece, i)), 0);
		ASSERT_EQ(
			pair.a().send({at_a.sge(0, 4 * piece)}, {.id = 4, .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}),
			0);
		for (std::uint64_t i = 0; i < 5; i++)
			EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		EXPECT_EQ(pair.b().received().status, IBV_WC_SUCCESS);
		ASSERT_TRUE(same(back.bytes(), at_b.bytes(0, 4 * piece)));
	}
}

TEST_F(Rdma, CompletionsOfReadsAndWritesAreInPostingOrder)
{
	at_b.fill_pattern(9);
	for (std::uint64_t i = 0; i < 60; i++) {
		const int error = i % 3 == 0 ? pair.a().read({at_a.sge(i * 10000, 10000)}, remote(i * 10000, i))
					     : pair.a().write({at_a.sge(900000, 100)}, remote(900000, i));
		ASSERT_EQ(error, 0);
	}
	for (std::uint64_t i = 0; i < 60; i++)
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
}

TEST(RdmaDepth, MoreReadsThanMayBeOutstanding)
{
	for (const std::uint8_t depth : {1, 2, 4, 16}) {
		SCOPED_TRACE(depth);
		Options options;
		options.reads = depth;
		Pair pair(options);
		const Region at_a(pair.a().pd(), 64 * 1000);
		const Region at_b(pair.b().pd(), 64 * 1000);
		at_b.fill_pattern(depth);
		for (std::size_t i = 0; i < 64; i++)
			ASSERT_EQ(pair.a().read({at_a.sge(i * 1000, 1000)},
					  {.id = i, .remote = at_b.address(i * 1000), .rkey = at_b.rkey()}),
				0);
		for (std::size_t i = 0; i < 64; i++)
			EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		EXPECT_TRUE(same(at_a.bytes(), at_b.bytes()));
	}
}

TEST(RdmaDepth, ReadsInBothDirectionsAtOnce)
{
	Pair pair;
	const Region at_a(pair.a().pd(), 32 * 20000);
	const Region at_b(pair.b().pd(), 32 * 20000);
	const Region to_a(pair.a().pd(), 32 * 20000);
	const Region to_b(pair.b().pd(), 32 * 20000);

	at_a.fill_pattern(1);
	at_b.fill_pattern(2);
	for (std::size_t i = 0; i < 32; i++) {
		ASSERT_EQ(pair.a().read({to_a.sge(i * 20000, 20000)},
				  {.id = i, .remote = at_b.address(i * 20000), .rkey = at_b.rkey()}),
			0);
		ASSERT_EQ(pair.b().read({to_b.sge(i * 20000, 20000)},
				  {.id = i, .remote = at_a.address(i * 20000), .rkey = at_a.rkey()}),
			0);
	}
	for (std::size_t i = 0; i < 32; i++) {
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
		EXPECT_WC(pair.b().sent(), i, IBV_WC_SUCCESS);
	}
	EXPECT_TRUE(same(to_a.bytes(), at_b.bytes()));
	EXPECT_TRUE(same(to_b.bytes(), at_a.bytes()));
}

TEST(RdmaDepth, EveryPairOfDepthsConnects)
{
	for (const std::uint8_t calls : {0, 1, 2, 127, 128}) {
		for (const std::uint8_t serves : {0, 1, 2, 127, 128}) {
			SCOPED_TRACE(testing::Message() << int{calls} << " and " << int{serves});
			Pair pair({.reads = calls}, {.reads = serves});
			const Region at_a(pair.a().pd(), 100);
			const Region at_b(pair.b().pd(), 100);
			pair.sync();
			ibv_qp_attr attr{};
			ibv_qp_init_attr init{};
			ASSERT_EQ(ibv_query_qp(pair.a().qp(), &attr, IBV_QP_MAX_QP_RD_ATOMIC, &init), 0);
			at_b.fill_pattern(calls);
			ASSERT_EQ(pair.a().read({at_a.sge()}, {.remote = at_b.address(), .rkey = at_b.rkey()}), 0);
			if (attr.max_rd_atomic) {
				EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
				EXPECT_TRUE(same(at_a.bytes(), at_b.bytes()));
			} else {
				EXPECT_WC(pair.a().sent(), 0, IBV_WC_LOC_QP_OP_ERR);
			}
		}
	}
}

TEST(RdmaDepth, WithoutAReceiveRingTheRestWorks)
{
	Options options;
	options.cap.max_recv_wr = 0;
	options.cap.max_recv_sge = 0;
	Pair pair({}, options);
	const Region at_a(pair.a().pd(), 5000);
	const Region at_b(pair.b().pd(), 5000);

	at_a.fill_pattern(1);
	at_b.fill(untouched);
	ASSERT_EQ(pair.a().write({at_a.sge()}, {.flags = 0, .remote = at_b.address(), .rkey = at_b.rkey()}), 0);
	ASSERT_EQ(pair.a().read({at_a.sge()}, {.remote = at_b.address(), .rkey = at_b.rkey()}), 0);
	EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
	EXPECT_TRUE(same(at_a.bytes(), at_b.bytes()));
	ASSERT_EQ(pair.a().send(), 0);
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
}

TEST(RdmaDepth, ReadsOfThePeerLeaveTurnsToOwnMessages)
{
	constexpr std::size_t each = 1 << 20;
	constexpr std::uint64_t messages = 8;
	Pair pair;
	const Region from(pair.a().pd(), each);
	const Region to(pair.b().pd(), each);
	const auto read = [&] {
		return pair.b().read({to.sge()}, {.remote = from.address(), .rkey = from.rkey()});
	};
	std::size_t received = 0;

	pair.b().receive_empty(messages);
	for (int i = 0; i < 16; i++)
		ASSERT_EQ(read(), 0);
	for (std::uint64_t i = 0; i < messages; i++)
		ASSERT_EQ(pair.a().send({}, {.id = i}), 0);
	// There is always another Read to answer.
	wait_until(
		[&] {
			for (const ibv_wc &wc : poll_all(pair.b().send_cq())) {
				EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
				EXPECT_EQ(read(), 0);
			}
			for (const ibv_wc &wc : poll_all(pair.b().recv_cq()))
				EXPECT_WC(wc, received++, IBV_WC_SUCCESS);
			return received == messages;
		},
		"the messages between the Responses");
}

// Octets are counted modulo 2^32: what was sent without a copy once must not be waited for again, when its region goes.
TEST(Volume, DeregistersGigabytesAfterARead)
{
	constexpr std::size_t large = 65536, part = 4000;
	constexpr std::uint64_t octets = 9ULL << 28; // 2.25 GB
	Pair pair;
	Region source(pair.a().pd(), large);
	const Region from(pair.a().pd(), part);
	const Region to(pair.b().pd(), large);
	const Sges copied(16, from.sge()); // too little in one run for anything else

	ASSERT_EQ(pair.b().read({to.sge()}, {.remote = source.address(), .rkey = source.rkey()}), 0);
	EXPECT_WC(pair.b().sent(), 0, IBV_WC_SUCCESS);
	for (std::uint64_t sent = 0; sent < octets; sent += copied.size() * part) {
		ASSERT_EQ(pair.a().write(copied, {.remote = to.address(), .rkey = to.rkey()}), 0);
		ASSERT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
	}
	source.deregister();
	pair.sync();
}

} // namespace
} // namespace vt
