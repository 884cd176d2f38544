// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Messages that one queue pair writes through another, over a good network and over a bad one.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../lib/link.hpp"
#include "../lib/record.hpp"

namespace record {
namespace {

constexpr std::uint32_t default_seg_size = 1408;

class Write : public testing::TestWithParam<ud::Addresses> {
protected:
	ud::To to() const { return {ah.get(), right.number()}; }

	Writer left;
	Target right;
	ud::Ah ah = left.ah(GetParam().left, right, GetParam().right);
};

INSTANTIATE_TEST_SUITE_P(, Write, testing::Values(ud::ipv4, ud::ipv6, ud::link_local),
	[](const auto &each) { return std::string(each.param.name); });

TEST_P(Write, OneSegmentIsPlacedAndRecorded)
{
	left.memory().fill_pattern(1);
	left.write(to(), right.remote(5000), right.rkey(), 100, 1000);
	const auto [status, opcode, record] = right.arrived();
	EXPECT_EQ(status, IBV_WC_SUCCESS);
	EXPECT_EQ(opcode, IBV_WC_DRIVER1);
	EXPECT_EQ(record.src_qp, left.number());
	EXPECT_EQ(std::memcmp(record.sgid.raw, left.gid(GetParam().left).gid.raw, 16), 0);
	EXPECT_EQ(record.rkey, right.rkey());
	EXPECT_EQ(record.addr, right.remote(5000));
	EXPECT_EQ(record.length, 1000);
	EXPECT_EQ(record.valid, 1000);
	EXPECT_EQ(record.seg_size, default_seg_size);
	EXPECT_EQ(record.segs, 1);
	EXPECT_EQ(record.unit, 1);
	EXPECT_EQ(record.map[0], 1);
	EXPECT_EQ(record.map[1], 0);
	EXPECT_TRUE(vt::same(left.bytes(100, 1000), right.bytes(5000, 1000)));
	EXPECT_TRUE(vt::all_equal(right.bytes(4000, 1000), 0));
	EXPECT_TRUE(vt::all_equal(right.bytes(6000, 1000), 0));
}

// Up to the longest that 128 bits tell exactly, and around segments' ends
TEST_P(Write, EverySizeArrives)
{
	left.memory().fill_pattern(2);
	for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1407}, std::size_t{1408},
		     std::size_t{1409}, std::size_t{2816}, std::size_t{2817}, std::size_t{65536},
		     std::size_t{128 * 1408}, std::size_t{128 * 1408 + 1}, std::size_t{500000}}) {
		right.memory().fill(0xee);
		left.write(to(), right.remote(8), right.rkey(), 5, size);
		const auto [status, opcode, record] = right.arrived();
		EXPECT_EQ(status, IBV_WC_SUCCESS);
		EXPECT_EQ(record.length, size);
		EXPECT_EQ(record.valid, size);
		EXPECT_EQ(record.unit, size > 128 * 1408 ? (record.segs + 127) / 128 : 1);
		EXPECT_TRUE(holes(record).empty());
		EXPECT_EQ(valid(record), size ? Ranges({{0, size}}) : Ranges());
		EXPECT_TRUE(vt::same(left.bytes(5, size), right.bytes(8, size))) << size;
		EXPECT_TRUE(vt::all_equal(right.bytes(0, 8), 0xee));
		EXPECT_TRUE(vt::all_equal(right.bytes(8 + size, 1000), 0xee));
	}
	EXPECT_TRUE(right.quiet());
}

// 1408 bytes and what is around them fit 45 times into what UDP takes.
TEST_P(Write, SegmentsGoToUdpTogether)
{
	left.memory().fill_pattern(2);
	const std::uint64_t before = ud::calls_to_udp("left");
	left.write(to(), right.remote(), right.rkey(), 0, 90 * 1408);
	EXPECT_EQ(ud::calls_to_udp("left") - before, 2);
	EXPECT_EQ(right.arrived().record.valid, 90 * 1408);
	EXPECT_TRUE(vt::same(left.bytes(0, 90 * 1408), right.bytes(0, 90 * 1408)));
}

TEST_P(Write, LongSegmentsGoByFragmentsOfIp)
{
	Writer wide(65467);

	wide.memory().fill_pattern(3);
	wide.write(to(), right.remote(), right.rkey(), 0, 1000000);
	const auto [status, opcode, record] = right.arrived();
	EXPECT_EQ(record.seg_size, 65467);
	EXPECT_EQ(record.segs, 16);
	EXPECT_EQ(record.map[0], 0xffff);
	EXPECT_TRUE(vt::same(wide.bytes(0, 1000000), right.bytes(0, 1000000)));
}

/// Over IPv4
class Writes : public testing::Test {
protected:
	ud::To to() const { return {ah.get(), right.number()}; }

	Writer left;
	Target right;
	ud::Ah ah = left.ah(ud::ipv4.left, right, ud::ipv4.right);
};

TEST_F(Writes, GatheredAndInlineDataAreCutIntoSegments)
{
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(left.qp());
	std::array<ibv_sge, 4> list{left.memory().sge(10, 1000), left.memory().sge(0, 0), left.memory().sge(5000, 3000),
		left.memory().sge(20000, 1)};
	std::array<char, 100> text{};

	left.memory().fill_pattern(4);
	text.fill('t');
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, right.rkey(), right.remote());
	ibv_wr_set_ud_addr(ex, ah.get(), right.number(), some_key);
	ibv_wr_set_sge_list(ex, list.size(), list.data());
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, right.rkey(), right.remote(10000));
	ibv_wr_set_ud_addr(ex, ah.get(), right.number(), some_key);
	ibv_wr_set_inline_data(ex, text.data(), text.size());
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	text.fill('x');
	EXPECT_EQ(left.sent().status, IBV_WC_SUCCESS);
	EXPECT_EQ(right.arrived().record.length, 4001);
	EXPECT_EQ(right.arrived().record.length, 100);
	EXPECT_TRUE(vt::same(left.bytes(10, 1000), right.bytes(0, 1000)));
	EXPECT_TRUE(vt::same(left.bytes(5000, 3000), right.bytes(1000, 3000)));
	EXPECT_TRUE(vt::same(left.bytes(20000, 1), right.bytes(4000, 1)));
	EXPECT_TRUE(vt::all_equal(right.bytes(10000, 100), 't'));
}

TEST_F(Writes, MessagesAreNumberedAndManyArrive)
{
	constexpr int count = 2000;
	std::uint32_t last = 0;

	for (int i = 0; i < count; i++) {
		std::memcpy(left.memory().data(), &i, sizeof(i));
		left.write(to(), right.remote(i % 16 * 4096), right.rkey(), 0, 2000);
		const kiwarpdv_record record = right.arrived().record;
		int value = -1;
		std::memcpy(&value, right.memory().data() + i % 16 * 4096, sizeof(value));
		ASSERT_EQ(value, i);
		ASSERT_TRUE(i == 0 || record.msg_id == last + 1) << record.msg_id;
		last = record.msg_id;
	}
}

TEST_F(Writes, SendsAndWritesGoThroughTheSameQueuePair)
{
	const ud::To peer = to();

	right.receive(7, 100000, 100);
	ASSERT_EQ(left.try_send(peer, {left.memory().sge(0, 100)}), 0);
	EXPECT_EQ(left.sent().opcode, IBV_WC_SEND);
	ibv_wc wc{};
	ASSERT_EQ(kiwarpdv_poll_cq(right.recv_cq(), 1, &wc, 30'000'000), 1);
	EXPECT_WC(wc, 7, IBV_WC_SUCCESS);
	left.write(peer, right.remote(), right.rkey(), 0, 100);
	EXPECT_EQ(right.arrived().record.length, 100);
}

// A program that knows no records
TEST_F(Writes, PlainPollingShowsACompletionWithoutARequest)
{
	std::array<ibv_wc, 8> wc{};

	right.receive(7, 100000, 100);
	left.write(to(), right.remote(), right.rkey(), 0, 3000);
	left.write(to(), right.remote(), right.rkey(), 0, 10);
	ASSERT_EQ(left.try_send(to(), {left.memory().sge(0, 100)}), 0);
	int found = 0;
	vt::wait_until(
		[&] {
			found += ibv_poll_cq(right.recv_cq(), 1, &wc.at(found));
			return found == 3;
		},
		"three completions");
	for (int i = 0; i < 2; i++) {
		EXPECT_WC(wc.at(i), 0, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.at(i).opcode, IBV_WC_DRIVER1);
		EXPECT_EQ(wc.at(i).byte_len, i ? 10 : 3000);
		EXPECT_EQ(wc.at(i).src_qp, left.number());
		EXPECT_EQ(wc.at(i).wc_flags, 0);
	}
	EXPECT_WC(wc[2], 7, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_poll_cq(right.recv_cq(), 8, wc.data()), 0);
}

TEST_F(Writes, WhatCannotBeReadIsNotSent)
{
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(left.qp());

	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, right.rkey(), right.remote());
	ibv_wr_set_ud_addr(ex, ah.get(), right.number(), some_key);
	ibv_wr_set_sge(ex, left.memory().mr()->lkey ^ 1, left.memory().address(), 5000);
	ASSERT_EQ(ibv_wr_complete(ex), 0);
	EXPECT_WC(left.sent(), 3, IBV_WC_LOC_PROT_ERR);
	left.write(to(), right.remote(), right.rkey(), 0, 100);
	EXPECT_EQ(right.arrived().record.length, 100);
}

TEST_F(Writes, LongerThanTheLongestIsRefused)
{
	EXPECT_EQ(left.post(to(), 0, right.rkey(), 0, 0, 1), 0);
	EXPECT_EQ(left.sent().status, IBV_WC_SUCCESS);
	right.arrived(); // of no bytes, to wherever
	ibv_qp_ex *ex = ibv_qp_to_qp_ex(left.qp());
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, right.rkey(), right.remote());
	ibv_wr_set_ud_addr(ex, ah.get(), right.number(), some_key);
	ibv_wr_set_sge(ex, left.memory().mr()->lkey, left.memory().address(), 1024 * 65467 + 1);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

TEST_F(Writes, AddressesThatWrapAreRefused)
{
	ASSERT_EQ(left.post(to(), ~std::uint64_t{0} - 10, right.rkey(), 0, 100, 4), 0);
	EXPECT_WC(left.sent(), 4, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(Writes, GroupsAreNotWrittenTo)
{
	ibv_gid group{};
	group.raw[10] = group.raw[11] = 0xff;
	group.raw[12] = 239;
	group.raw[15] = 3;
	const ud::Gid from = left.gid(ud::ipv4.left);
	const ud::Ah to_group = left.make_ah(from, group);
	ASSERT_NE(to_group, nullptr);
	ASSERT_EQ(left.post({to_group.get(), 0xffffff}, right.remote(), right.rkey(), 0, 100, 5), 0);
	EXPECT_WC(left.sent(), 5, IBV_WC_LOC_QP_OP_ERR);
	ASSERT_EQ(left.post({to_group.get(), right.number()}, right.remote(), right.rkey(), 0, 100, 6), 0);
	EXPECT_WC(left.sent(), 6, IBV_WC_LOC_QP_OP_ERR);
	std::memset(&group.raw[12], 0xff, 4);
	const ud::Ah to_all = left.make_ah(from, group);
	ASSERT_EQ(left.post({to_all.get(), right.number()}, right.remote(), right.rkey(), 0, 100, 7), 0);
	EXPECT_WC(left.sent(), 7, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_TRUE(right.quiet());
}

// The broadcast address of a subnet, which only the target can know as one
TEST_F(Writes, BroadcastsAreNotPlaced)
{
	const std::uint64_t before = right.counter("ud_strays");
	ibv_gid group{};
	group.raw[10] = group.raw[11] = 0xff;
	group.raw[12] = 10;
	group.raw[13] = 77;
	group.raw[15] = 255;
	const ud::Ah to_subnet = left.make_ah(left.gid(ud::ipv4.left), group);
	left.write({to_subnet.get(), right.number()}, right.remote(), right.rkey(), 0, 100);
	right.expect_counter("ud_strays", before + 1);
	EXPECT_TRUE(right.quiet());
}

/// What a network does, as netem is told
struct Network {
	std::string name;
	std::string how;
};

class BadNetwork : public testing::TestWithParam<Network> {};

INSTANTIATE_TEST_SUITE_P(, BadNetwork,
	testing::Values(Network{"Loses01", "netem loss 0.1%"}, Network{"Loses05", "netem loss 0.5%"},
		Network{"Loses1", "netem loss 1%"}, Network{"Loses5", "netem loss 5%"},
		Network{"Duplicates", "netem duplicate 20%"}, Network{"Reorders", "netem delay 2ms 2ms"},
		Network{"DoesItAll", "netem delay 1ms 1ms loss 3% duplicate 10%"}),
	[](const auto &each) { return each.param.name; });

// Each message is to a place of its own, and filled before: what the map says is there, and nothing else is.
TEST_P(BadNetwork, MapsTellWhatHasArrived)
{
	constexpr std::uint32_t messages = 40;
	constexpr std::uint32_t length = 20000;
	Writer left;
	Target right({.timeout = 300});
	const ud::Ah ah = left.ah(ud::ipv4.left, right, ud::ipv4.right);
	const vt::HeldBack network(vt::client_end(), "pfifo");
	network.set_for_each(GetParam().how);
	std::uint64_t lost = 0;
	std::vector<bool> seen(messages);

	left.memory().fill_pattern(6);
	right.memory().fill(0);
	for (std::uint32_t i = 0; i < messages; i++)
		left.write({ah.get(), right.number()}, right.remote(i * length), right.rkey(), i * length, length);
	ibv_poll_cq_attr attr{};
	while (kiwarpdv_start_poll(right.recv_cq_ex(), &attr, 2'000'000) == 0) {
		kiwarpdv_record record{};
		ASSERT_EQ(kiwarpdv_read_record(right.recv_cq_ex(), &record, sizeof(record)), 0);
		ibv_end_poll(right.recv_cq_ex());
		const std::size_t at = record.addr - right.remote();
		ASSERT_FALSE(seen.at(at / length));
		seen.at(at / length) = true;
		std::uint64_t there = 0;
		for (const auto &[from, bytes] : valid(record)) {
			EXPECT_TRUE(vt::same(left.bytes(at + from, bytes), right.bytes(at + from, bytes)));
			there += bytes;
		}
		for (const auto &[from, bytes] : holes(record))
			EXPECT_TRUE(vt::all_equal(right.bytes(at + from, bytes), 0));
		EXPECT_EQ(there, record.valid);
		lost += record.length - record.valid;
	}
	// Only a network that loses loses, and no message as a whole: 15 segments don't go all together.
	EXPECT_TRUE(lost == 0 || GetParam().how.find("loss") != std::string::npos) << lost;
	EXPECT_EQ(std::count(seen.begin(), seen.end(), true), messages);
	std::printf("lost %u of %u bytes\n", static_cast<unsigned>(lost), messages * length);
}

// --- objects -------------------------------------------------------------------------------------

TEST(RecordQp, OtherQueuePairsAreNoTargets)
{
	Writer left;
	const Target right({.flags = 0});
	const ud::Ah ah = left.ah(ud::ipv4.left, right, ud::ipv4.right);
	const std::uint64_t before = right.counter("ud_record_refused");

	left.write({ah.get(), right.number()}, right.remote(), right.rkey(), 0, 100);
	right.expect_counter("ud_record_refused", before + 1);
	EXPECT_TRUE(right.quiet());
	EXPECT_TRUE(vt::all_equal(right.bytes(0, 100), 0));
}

TEST(RecordQp, HasTheNumberThatIsAskedFor)
{
	const Target right({.udp_port = 23477});

	EXPECT_EQ(right.number(), 23477);
	EXPECT_THROW(Target({.udp_port = 23477}), std::exception);
}

TEST(RecordQp, ValuesOutOfRangeAreRefused)
{
	const vt::Context context = vt::open_device("kiw1");
	const vt::Pd pd = vt::make_pd(context.get());
	const vt::Cq cq = vt::make_cq(context.get(), 16);
	ibv_qp_init_attr_ex attr{};
	const auto refused = [&](const kiwarpdv_qp_init_attr &dv, std::size_t size, int error) {
		errno = 0;
		EXPECT_EQ(kiwarpdv_create_qp(context.get(), &attr, &dv, size), nullptr);
		EXPECT_EQ(errno, error);
	};

	attr.send_cq = attr.recv_cq = cq.get();
	attr.cap = {4, 4, 1, 1, 0};
	attr.qp_type = IBV_QPT_UD;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd.get();
	refused({.flags = 2}, sizeof(kiwarpdv_qp_init_attr), EOPNOTSUPP);
	refused({.udp_port = 65536}, sizeof(kiwarpdv_qp_init_attr), EINVAL);
	refused({.udp_port = 64791}, sizeof(kiwarpdv_qp_init_attr), EADDRINUSE); // of groups
	refused({.seg_size = 65468}, sizeof(kiwarpdv_qp_init_attr), EINVAL);
	refused({.record_timeout = 60001}, sizeof(kiwarpdv_qp_init_attr), EINVAL);
	struct {
		kiwarpdv_qp_init_attr known;
		std::uint32_t later;
	} newer{};
	newer.later = 1;
	errno = 0;
	EXPECT_EQ(kiwarpdv_create_qp(context.get(), &attr, &newer.known, sizeof(newer)), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	newer.later = 0;
	const vt::Qp qp(kiwarpdv_create_qp(context.get(), &attr, &newer.known, sizeof(newer)));
	EXPECT_NE(qp, nullptr);
	attr.qp_type = IBV_QPT_RC;
	refused({}, sizeof(kiwarpdv_qp_init_attr), EINVAL);
}

TEST(RecordDevice, SaysWhatItHas)
{
	const vt::Context context = vt::open_device("kiw1");
	struct {
		kiwarpdv_attr known;
		std::uint32_t later;
	} attr{};

	attr.later = 7;
	ASSERT_EQ(kiwarpdv_query_device(context.get(), &attr.known, sizeof(attr)), 0);
	EXPECT_EQ(attr.known.caps, KIWARPDV_CAP_WRITE_RECORD | KIWARPDV_CAP_UD_PORT);
	EXPECT_EQ(attr.known.max_send, ud::longest);
	EXPECT_EQ(attr.known.max_write, 1024 * 65467);
	EXPECT_EQ(attr.known.max_seg_size, 65467);
	EXPECT_EQ(attr.known.default_seg_size, default_seg_size);
	EXPECT_EQ(attr.known.max_segs, 1024);
	EXPECT_EQ(attr.later, 0);
	attr.known.max_send = 7;
	ASSERT_EQ(kiwarpdv_query_device(context.get(), &attr.known, sizeof(attr.known.caps)), 0);
	EXPECT_EQ(attr.known.max_send, 7);
}

// --- waiting -------------------------------------------------------------------------------------

double seconds(clockid_t clock)
{
	timespec now{};

	clock_gettime(clock, &now);
	return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

TEST(PollWithTimeout, SleepsUntilTheTimeIsOver)
{
	const Target right;
	ibv_wc wc{};
	const double began = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);

	EXPECT_EQ(kiwarpdv_poll_cq(right.recv_cq(), 1, &wc, 500'000), 0);
	EXPECT_GE(seconds(CLOCK_MONOTONIC) - began, 0.5);
	EXPECT_LT(seconds(CLOCK_THREAD_CPUTIME_ID) - cpu, 0.1);
	EXPECT_EQ(kiwarpdv_poll_cq(right.recv_cq(), 1, &wc, 0), 0);
	ibv_poll_cq_attr attr{};
	EXPECT_EQ(kiwarpdv_start_poll(right.recv_cq_ex(), &attr, 1000), ENOENT);
	EXPECT_EQ(kiwarpdv_poll_cq(right.send_cq(), 1, &wc, 1000), -EINVAL); // without a channel
}

TEST(PollWithTimeout, WakesWhenThereIsSomething)
{
	Writer left;
	const Target right;
	const ud::Ah ah = left.ah(ud::ipv4.left, right, ud::ipv4.right);

	for (int i = 0; i < 200; i++) {
		std::thread writer([&] {
			left.write({ah.get(), right.number()}, right.remote(), right.rkey(), 0, 3000);
		});
		ibv_poll_cq_attr attr{};
		ASSERT_EQ(kiwarpdv_start_poll(right.recv_cq_ex(), &attr, i % 2 ? -1 : 30'000'000), 0);
		ibv_end_poll(right.recv_cq_ex());
		writer.join();
	}
}

// Each call ends in its time, and what came together wakes as many threads as there are messages.
TEST(PollWithTimeout, SeveralThreadsShareAQueue)
{
	constexpr int messages = 300;
	Writer left;
	const Target right;
	const ud::Ah ah = left.ah(ud::ipv4.left, right, ud::ipv4.right);
	std::atomic<int> arrived = 0;
	std::atomic<bool> late = false;
	std::vector<std::jthread> threads;

	for (int i = 0; i < 3; i++)
		threads.emplace_back([&](const std::stop_token &stop) {
			while (!stop.stop_requested()) {
				ibv_poll_cq_attr attr{};
				const double began = seconds(CLOCK_MONOTONIC);
				const int error = kiwarpdv_start_poll(right.recv_cq_ex(), &attr, 100'000);
				if (seconds(CLOCK_MONOTONIC) - began > 20)
					late = true;
				if (error) {
					ASSERT_EQ(error, ENOENT);
					continue;
				}
				arrived++;
				ibv_end_poll(right.recv_cq_ex());
			}
		});
	for (int i = 1; i <= messages; i++) {
		left.write({ah.get(), right.number()}, right.remote(), right.rkey(), 0, 3000);
		vt::wait_until([&] { return arrived > i - 50; }, "messages");
	}
	vt::wait_until([&] { return arrived == messages; }, "all messages");
	threads.clear();
	EXPECT_FALSE(late);
}

} // namespace
} // namespace record
