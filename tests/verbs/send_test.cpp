// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Sends and receives.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "../lib/connection.hpp"

namespace vt {
namespace {

constexpr std::uint8_t untouched = 0xee;

// Around the sizes of segments, pages, inline data and FPDUs.
const std::vector<std::size_t> sizes = {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 63, 64, 65, 127, 128, 255, 256, 257, 512, 1023,
	1024, 1400, 1432, 1460, 1461, 4095, 4096, 4097, 8960, 32767, 32768, 65000, 65535, 65536, 65537, 131072,
	1000000};

class Send : public testing::Test {
protected:
	/// Sends one message between regions and expects that it and nothing else changed at b.
	void transfer(const Sges &from, const Sges &to, std::size_t length, unsigned int flags = IBV_SEND_SIGNALED)
	{
		ASSERT_EQ(pair.b().receive(to, 1), 0);
		ASSERT_EQ(pair.a().send(from, {.id = 2, .flags = flags}), 0);
		const ibv_wc received = pair.b().received();
		EXPECT_WC(received, 1, IBV_WC_SUCCESS);
		EXPECT_EQ(received.opcode, IBV_WC_RECV);
		EXPECT_EQ(received.byte_len, length);
		EXPECT_EQ(received.qp_num, pair.b().qp()->qp_num);
		EXPECT_EQ(received.wc_flags, 0);
		const ibv_wc sent = pair.a().sent();
		EXPECT_WC(sent, 2, IBV_WC_SUCCESS);
		EXPECT_EQ(sent.opcode, IBV_WC_SEND);
		EXPECT_EQ(sent.qp_num, pair.a().qp()->qp_num);
	}

	Pair pair;
};

TEST_F(Send, SizesAtOddOffsets)
{
	constexpr std::size_t margin = 8192;
	const Region from(pair.a().pd(), sizes.back() + 2 * margin);
	const Region to(pair.b().pd(), sizes.back() + 2 * margin);

	from.fill_pattern(1);
	for (const std::size_t size : sizes) {
		for (const auto &[source, sink] :
			{std::pair<std::size_t, std::size_t>(0, 0), {1, 3}, {4095, 4093}, {4090, 1}}) {
			SCOPED_TRACE(testing::Message() << size << " octets from " << source << " to " << sink);
			const std::size_t end = std::min(sink + size + 4096, to.size());
			std::fill_n(to.data(), end, untouched);
			transfer({from.sge(source, size)}, {to.sge(sink, size)}, size);
			EXPECT_TRUE(same(from.bytes(source, size), to.bytes(sink, size)));
			EXPECT_TRUE(all_equal(to.bytes(0, sink), untouched));
			EXPECT_TRUE(all_equal(to.bytes(sink + size, end - sink - size), untouched));
		}
	}
}

TEST_F(Send, SeveralMegabytes)
{
	constexpr std::size_t size = 7 * 1024 * 1024 + 13;
	const Region from(pair.a().pd(), size);
	const Region to(pair.b().pd(), size + 100);

	from.fill_pattern(3);
	to.fill(untouched);
	transfer({from.sge()}, {to.sge()}, size);
	EXPECT_TRUE(same(from.bytes(), to.bytes(0, size)));
	EXPECT_TRUE(all_equal(to.bytes(size, 100), untouched));
}

TEST_F(Send, BufferLargerThanTheMessage)
{
	const Region from(pair.a().pd(), 100);
	const Region to(pair.b().pd(), 5000);

	from.fill_pattern(4);
	to.fill(untouched);
	transfer({from.sge()}, {to.sge()}, 100);
	EXPECT_TRUE(same(from.bytes(), to.bytes(0, 100)));
	EXPECT_TRUE(all_equal(to.bytes(100, 4900), untouched));
}

TEST_F(Send, GatherAndScatterInSixteenPieces)
{
	const Region from(pair.a().pd(), 300000);
	const Region to(pair.b().pd(), 300000);
	// Lengths that cut the message at different places on both sides, zero included.
	const std::vector<std::size_t> gather = {1, 0, 3, 4096, 17, 100, 65536, 2, 1, 8191, 0, 1460, 5, 20000, 7, 333};
	std::vector<std::size_t> scatter = {7, 65536, 0, 1, 2, 4095, 1459, 3, 10000, 1, 1, 1, 6000, 0, 999, 0};
	std::vector<std::uint8_t> expected;
	Sges from_list;
	Sges to_list;

	from.fill_pattern(5);
	to.fill(untouched);
	std::size_t offset = 1;
	for (const std::size_t length : gather) {
		from_list.push_back(from.sge(offset, length));
		expected.insert(expected.end(), from.data() + offset, from.data() + offset + length);
		offset += length + 11;
	}
	std::size_t total = 0;
	for (const std::size_t length : scatter)
		total += length;
	scatter.back() = expected.size() - total;
	offset = 3;
	for (const std::size_t length : scatter) {
		to_list.push_back(to.sge(offset, length));
		offset += length + 5;
	}
	transfer(from_list, to_list, expected.size());

	std::size_t done = 0;
	offset = 3;
	for (const std::size_t length : scatter) {
		EXPECT_TRUE(same(to.bytes(offset, length), std::span(expected).subspan(done, length)));
		EXPECT_TRUE(all_equal(to.bytes(offset + length, 5), untouched));
		done += length;
		offset += length + 5;
	}
}

void set_mtu(const char *name, int mtu)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ifreq request{};

	std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	request.ifr_mtu = mtu;
	EXPECT_EQ(ioctl(fd, SIOCSIFMTU, &request), 0) << strerror(errno);
	close(fd);
}

/// TCP cuts segments to half of the window that the peer has had, and thinks of that anew when the MTU changes. On lo
/// they are as long as they can be after this.
void widen(Pair &pair)
{
	const Region from(pair.a().pd(), 4 << 20);
	const Region to(pair.b().pd(), from.size());

	for (const int mtu : {65536, 65535}) {
		for (int i = 0; i < 4; i++) {
			ASSERT_EQ(pair.b().receive({to.sge()}), 0);
			ASSERT_EQ(pair.a().send({from.sge()}), 0);
			EXPECT_WC(pair.b().received(), 0, IBV_WC_SUCCESS);
			EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
		}
		set_mtu("lo", mtu);
	}
}

// The most pieces of pages that one FPDU can have: runs that begin and end within pages, and short ones between.
TEST(SendOfOneSegment, GathersFromAsManyPagesAsThereCanBe)
{
	constexpr std::size_t pages = 4;
	Options options;

	options.parameters = {{"large", "0"}};
	Pair pair(options);
	widen(pair);
	const Region from(pair.a().pd(), std::size_t(options.cap.max_send_sge) * pages * 4096);
	const Region to(pair.b().pd(), from.size());
	std::vector<std::uint8_t> expected;
	Sges list;

	from.fill_pattern(6);
	for (const std::size_t length : {4099, 2 * 4096 - 1}) {
		list.clear();
		expected.clear();
		for (std::size_t i = 0; i < options.cap.max_send_sge; i++) {
			// In every third the copy of a few octets has to begin a new piece.
			const std::size_t offset = i * pages * 4096 + 4095;
			const std::size_t n = i % 3 == 2 ? 40 : length;

			if (expected.size() + n > 65000)
				break;
			list.push_back(from.sge(offset, n));
			std::ranges::copy(from.bytes(offset, n), std::back_inserter(expected));
		}
		for (int repeat = 0; repeat < 3; repeat++) {
			to.fill(untouched);
			ASSERT_EQ(pair.b().receive({to.sge()}), 0);
			ASSERT_EQ(pair.a().send(list), 0);
			EXPECT_WC(pair.b().received(), 0, IBV_WC_SUCCESS);
			EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
			EXPECT_TRUE(same(to.bytes(0, expected.size()), expected));
		}
	}
}

// Two FPDUs, handed to TCP at once unless the first has left too little room. Each buffer has a piece in three pages.
TEST(SendOfOneSegment, FindsRoomForItsPiecesBesideAnother)
{
	constexpr std::size_t pages = 4;
	constexpr std::size_t length = 4099;
	constexpr std::array<std::size_t, 2> buffers = {8, 15};
	Options options;

	options.parameters = {{"large", "0"}};
	Pair pair(options);
	widen(pair);
	const Region from(pair.a().pd(), (buffers[0] + buffers[1]) * pages * 4096);
	const Region to(pair.b().pd(), (buffers[0] + buffers[1]) * length);
	std::array<Sges, 2> lists;
	std::array<ibv_send_wr, 2> requests{};
	std::vector<std::uint8_t> expected;
	ibv_send_wr *bad = nullptr;

	from.fill_pattern(8);
	to.fill(untouched);
	for (std::size_t i = 0, page = 0; i < requests.size(); i++) {
		for (std::size_t n = 0; n < buffers[i]; n++, page += pages) {
			lists[i].push_back(from.sge(page * 4096 + 4095, length));
			std::ranges::copy(from.bytes(page * 4096 + 4095, length), std::back_inserter(expected));
		}
		requests[i].wr_id = i;
		requests[i].sg_list = lists[i].data();
		requests[i].num_sge = int(lists[i].size());
		requests[i].opcode = IBV_WR_SEND;
		requests[i].send_flags = IBV_SEND_SIGNALED;
	}
	requests[0].next = &requests[1];
	ASSERT_EQ(pair.b().receive({to.sge(0, buffers[0] * length)}), 0);
	ASSERT_EQ(pair.b().receive({to.sge(buffers[0] * length, buffers[1] * length)}, 1), 0);
	ASSERT_EQ(ibv_post_send(pair.a().qp(), requests.data(), &bad), 0);
	for (std::uint64_t i = 0; i < requests.size(); i++) {
		EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
	}
	EXPECT_TRUE(same(to.bytes(), expected));
}

TEST_F(Send, PiecesFromSeveralRegions)
{
	const Region one(pair.a().pd(), 5000);
	const Region two(pair.a().pd(), 5000);
	const Region to(pair.b().pd(), 10000);

	one.fill_pattern(6);
	two.fill_pattern(7);
	transfer({one.sge(), two.sge()}, {to.sge()}, 10000);
	EXPECT_TRUE(same(to.bytes(0, 5000), one.bytes()));
	EXPECT_TRUE(same(to.bytes(5000, 5000), two.bytes()));
}

TEST_F(Send, InlineDataIsTakenWhenPosted)
{
	const Region to(pair.b().pd(), 4096);
	const std::uint32_t max = pair.a().cap().max_inline_data;
	ASSERT_GE(max, 256);

	for (const std::uint32_t size : {0U, 1U, 3U, 64U, 255U, 256U, max}) {
		SCOPED_TRACE(size);
		std::vector<std::uint8_t> memory(size + 1, 0x11);
		to.fill(untouched);
		ASSERT_EQ(pair.b().receive({to.sge()}), 0);
		// Not registered, and gone when the call returns.
		ASSERT_EQ(
			pair.a().send(
				{{.addr = reinterpret_cast<std::uintptr_t>(memory.data()), .length = size, .lkey = 0}},
				{.flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED}),
			0);
		std::fill(memory.begin(), memory.end(), std::uint8_t{0x22});
		EXPECT_EQ(pair.b().received().byte_len, size);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		EXPECT_TRUE(all_equal(to.bytes(0, size), 0x11));
		EXPECT_TRUE(all_equal(to.bytes(size, to.size() - size), untouched));
	}
}

TEST_F(Send, BufferCanBeUsedAgainAfterTheCompletion)
{
	constexpr std::size_t size = 100000;
	const Region from(pair.a().pd(), size);
	const Region to(pair.b().pd(), size);

	for (std::uint32_t round = 0; round < 50; round++) {
		std::vector<std::uint8_t> expected(size);
		from.fill_pattern(round);
		std::copy_n(from.data(), size, expected.begin());
		ASSERT_EQ(pair.b().receive({to.sge()}), 0);
		ASSERT_EQ(pair.a().send({from.sge()}), 0);
		EXPECT_EQ(pair.a().sent().status, IBV_WC_SUCCESS);
		from.fill(untouched);
		EXPECT_EQ(pair.b().received().status, IBV_WC_SUCCESS);
		ASSERT_TRUE(same(to.bytes(), expected)) << round;
	}
}

TEST_F(Send, MessagesArriveInOrderAndApart)
{
	const Region from(pair.a().pd(), 64 * 1000);
	const Region to(pair.b().pd(), 64 * 1000);

	from.fill_pattern(8);
	for (std::size_t i = 0; i < 64; i++)
		ASSERT_EQ(pair.b().receive({to.sge(i * 1000, 1000)}, i), 0);
	for (std::size_t i = 0; i < 64; i++)
		ASSERT_EQ(pair.a().send({from.sge(i * 1000, i * 15)}, {.id = i}), 0);
	for (std::size_t i = 0; i < 64; i++) {
		const ibv_wc wc = pair.b().received();
		EXPECT_WC(wc, i, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.byte_len, i * 15);
		EXPECT_TRUE(same(from.bytes(i * 1000, i * 15), to.bytes(i * 1000, i * 15)));
		EXPECT_WC(pair.a().sent(), i, IBV_WC_SUCCESS);
	}
}

TEST_F(Send, BothDirectionsAtOnce)
{
	const Region at_a(pair.a().pd(), 200000);
	const Region at_b(pair.b().pd(), 200000);

	at_a.fill_pattern(9);
	at_b.fill_pattern(10);
	for (int round = 0; round < 20; round++) {
		const Region from_b(pair.a().pd(), 200000);
		const Region from_a(pair.b().pd(), 200000);
		ASSERT_EQ(pair.a().receive({from_b.sge()}), 0);
		ASSERT_EQ(pair.b().receive({from_a.sge()}), 0);
		ASSERT_EQ(pair.a().send({at_a.sge()}), 0);
		ASSERT_EQ(pair.b().send({at_b.sge()}), 0);
		for (const ibv_wc &wc : {pair.a().sent(), pair.b().sent(), pair.a().received(), pair.b().received()})
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		ASSERT_TRUE(same(at_a.bytes(), from_a.bytes()));
		ASSERT_TRUE(same(at_b.bytes(), from_b.bytes()));
	}
}

TEST_F(Send, MessageThatIsTooLongBreaksTheConnection)
{
	const Region from(pair.a().pd(), 10000);
	const Region to(pair.b().pd(), 10000);

	from.fill_pattern(11);
	to.fill(untouched);
	ASSERT_EQ(pair.b().receive({to.sge(0, 5000)}, 1), 0);
	ASSERT_EQ(pair.b().receive({to.sge(0, 5000)}, 2), 0);
	ASSERT_EQ(pair.a().send({from.sge(0, 5001)}), 0);
	EXPECT_WC(pair.b().received(), 1, IBV_WC_LOC_LEN_ERR);
	EXPECT_WC(pair.b().received(), 2, IBV_WC_WR_FLUSH_ERR);
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
	EXPECT_TRUE(all_equal(to.bytes(5000, 5000), untouched));
}

TEST_F(Send, AMessageWaitsForAReceive)
{
	const Region from(pair.a().pd(), 4096);
	const Region to(pair.b().pd(), 8 * 4096);

	from.fill_pattern(12);
	for (int round = 0; round < 3; round++) {
		for (std::size_t i = 0; i < 8; i++)
			ASSERT_EQ(pair.a().send({from.sge()}), 0);
		std::this_thread::sleep_for(std::chrono::milliseconds(50));
		EXPECT_TRUE(poll_all(pair.b().recv_cq()).empty());
		for (std::size_t i = 0; i < 8; i++) {
			ASSERT_EQ(pair.b().receive({to.sge(i * 4096, 4096)}, i), 0);
			EXPECT_WC(pair.b().received(), i, IBV_WC_SUCCESS);
			EXPECT_TRUE(same(to.bytes(i * 4096, 4096), from.bytes()));
			EXPECT_WC(pair.a().sent(), 0, IBV_WC_SUCCESS);
		}
		EXPECT_TRUE(poll_all(pair.b().recv_cq()).empty());
	}
	pair.sync();
}

TEST_F(Send, AMessageWaitsThoughThePeerHasClosed)
{
	const Region to(pair.b().pd(), 1);

	ASSERT_EQ(pair.a().send(), 0);
	ASSERT_EQ(rdma_disconnect(pair.a().id()), 0);
	std::this_thread::sleep_for(std::chrono::milliseconds(50));
	ASSERT_EQ(pair.b().receive({to.sge()}, 4), 0);
	EXPECT_WC(pair.b().received(), 4, IBV_WC_SUCCESS);
	pair.b().wait_disconnected();
}

TEST_F(Send, WithoutAReceiveTheConnectionBreaksInTime)
{
	const Parameters wait("receive_wait", "2");
	const auto start = std::chrono::steady_clock::now();

	ASSERT_EQ(pair.a().send(), 0);
	pair.a().wait_disconnected();
	EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
	pair.a().wait_state(IBV_QPS_ERR);
	pair.b().wait_state(IBV_QPS_ERR);
}

TEST_F(Send, WithoutAReceiveTheConnectionBreaks)
{
	const Parameters wait("receive_wait", "0");

	ASSERT_EQ(pair.a().receive({}, 5), 0);
	ASSERT_EQ(pair.a().send(), 0);
	EXPECT_WC(pair.a().received(), 5, IBV_WC_WR_FLUSH_ERR);
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
	pair.a().wait_state(IBV_QPS_ERR);
	pair.b().wait_state(IBV_QPS_ERR);
	EXPECT_TRUE(poll_all(pair.b().recv_cq()).empty());
}

TEST_F(Send, ReceiveWithoutBuffersTakesAnEmptyMessageOnly)
{
	const Region from(pair.a().pd(), 1);

	pair.sync();
	ASSERT_EQ(pair.b().receive({}, 3), 0);
	ASSERT_EQ(pair.a().send({from.sge()}), 0);
	EXPECT_WC(pair.b().received(), 3, IBV_WC_LOC_LEN_ERR);
}

TEST_F(Send, InvalidatingAnUnknownStagBreaksTheConnection)
{
	ASSERT_EQ(pair.b().receive({}, 4), 0);
	ASSERT_EQ(pair.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = 0x12345678}), 0);
	EXPECT_WC(pair.b().received(), 4, IBV_WC_REM_INV_REQ_ERR);
	pair.a().wait_disconnected();
	pair.b().wait_disconnected();
}

TEST_F(Send, RegionOfAProcessCannotBeInvalidatedByThePeer)
{
	const Region to(pair.b().pd(), 100);
	Pair other;

	ASSERT_EQ(pair.b().receive({}, 4), 0);
	ASSERT_EQ(pair.a().post(IBV_WR_SEND_WITH_INV, {}, {.invalidate = to.rkey()}), 0);
	EXPECT_WC(pair.b().received(), 4, IBV_WC_REM_INV_REQ_ERR);
	pair.b().wait_disconnected();
}

} // namespace
} // namespace vt
