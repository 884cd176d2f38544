// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Segments from plain sockets: some missing, again, in another order, wrong, too many. Nothing is answered, nothing is
// written that isn't recorded, and the queue pair goes on.
#include <chrono>
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "../lib/record.hpp"
#include "cq.hpp"

namespace record {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t size = 100; // of a segment

class Forgery : public testing::Test {
protected:
	explicit Forgery(const TargetOptions &options = {}) : right(options)
	{
		for (const std::string &name : names)
			before.push_back(right.counter(name));
		right.memory().fill(0xee);
	}
	~Forgery() override { EXPECT_TRUE(socket.received().empty()) << "something was answered"; }

	/// A message of so many segments at the start of the memory
	Forged message(std::uint32_t segs, std::uint32_t id = 1) const
	{
		return {.rkey = right.rkey(),
			.remote = right.remote(),
			.length = segs * size,
			.seg_size = size,
			.id = id};
	}
	void send(const ud::Bytes &bytes) const { socket.send("10.77.0.2", right.number(), bytes); }
	void send(const Forged &all, std::uint32_t n) const
	{
		send(segment(all, n * size, static_cast<std::uint8_t>(n + 1)));
	}
	/// How many segments were dropped so since the beginning
	void expect_dropped(const std::string &name, std::uint64_t count) const
	{
		for (std::size_t i = 0; i < names.size(); i++)
			if (names[i] == name)
				right.expect_counter(name, before[i] + count);
	}
	/// A message behind all others: when it has come, they have been judged.
	void expect_good() const
	{
		Forged good = message(1, good_id++);
		good.remote += 100000;
		send(good, 0);
		EXPECT_EQ(right.arrived().record.msg_id, good.id);
		EXPECT_EQ(right.state(), IBV_QPS_RTS);
	}
	bool segment_is(std::uint32_t n, std::uint8_t value) const
	{
		return vt::all_equal(right.bytes(n * std::size_t{size}, size), value);
	}

	const std::vector<std::string> names{"ud_record_refused", "ud_record_full", "ud_record_late",
		"ud_record_timeouts", "ud_malformed", "ud_qkey_errors", "ud_crc_errors"};
	Target right;
	ud::Socket socket{"left", "10.77.0.1"};
	std::vector<std::uint64_t> before;

private:
	mutable std::uint32_t good_id = 0x77777777;
};

TEST_F(Forgery, AnyOrderIsGood)
{
	const Forged all = message(5);

	for (const std::uint32_t n : {4, 1, 3, 0, 2})
		send(all, n);
	const auto [status, opcode, record] = right.arrived();
	EXPECT_EQ(status, IBV_WC_SUCCESS);
	EXPECT_EQ(record.valid, 500);
	EXPECT_EQ(record.map[0], 0x1f);
	EXPECT_EQ(record.src_qp, socket.port());
	EXPECT_EQ(record.msg_id, 1);
	for (std::uint32_t n = 0; n < 5; n++)
		EXPECT_TRUE(segment_is(n, static_cast<std::uint8_t>(n + 1)));
}

// They come in one packet, and share the look-up of their region: what one may, the next may not.
TEST_F(Forgery, EachOfATrainIsChecked)
{
	const vt::Region other(right.pd(), size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	const vt::Region locals(right.pd(), size, IBV_ACCESS_LOCAL_WRITE);
	std::vector<ud::Bytes> all;
	const auto add = [&](std::uint32_t id, std::uint32_t rkey, std::uint64_t remote) {
		all.push_back(
			segment({.rkey = rkey, .remote = remote, .length = size, .seg_size = size, .id = id}, 0, 0x99));
	};

	add(1, right.rkey(), right.remote());
	add(2, right.rkey() ^ 1, right.remote() + size);
	add(3, right.rkey(), right.remote() + right.memory().size() - size + 1);
	add(4, right.rkey(), right.remote() - 1);
	add(5, locals.rkey(), locals.address());
	add(6, other.rkey(), other.address() + 1);
	add(7, other.rkey(), other.address());
	add(8, right.rkey(), right.remote() + 2 * size);
	socket.send_together("10.77.0.2", right.number(), all);
	for (const std::uint32_t id : {1, 7, 8})
		EXPECT_EQ(right.arrived().record.msg_id, id);
	expect_good();
	expect_dropped("ud_record_refused", 5);
	EXPECT_TRUE(segment_is(0, 0x99));
	EXPECT_TRUE(segment_is(1, 0xee));
	EXPECT_TRUE(segment_is(2, 0x99));
	EXPECT_TRUE(vt::all_equal(right.bytes(right.memory().size() - size, size), 0xee));
}

TEST_F(Forgery, AgainIsNotPlacedAgain)
{
	const Forged all = message(3);

	send(all, 0);
	send(segment(all, 0, 0x99));
	send(all, 2);
	send(segment(all, 2 * size, 0x99));
	send(all, 1);
	EXPECT_EQ(right.arrived().record.valid, 300);
	send(segment(all, 0, 0x99)); // late
	expect_good();
	expect_dropped("ud_record_late", 3);
	EXPECT_TRUE(segment_is(0, 1));
	EXPECT_TRUE(segment_is(2, 3));
	EXPECT_TRUE(right.quiet());
}

// However many messages of this sender and of others come in between
TEST_F(Forgery, AMessageThatIsOverStaysSo)
{
	const ud::Socket other("left", "10.77.0.1");
	const auto whole = [&](const ud::Socket &from, std::uint32_t id) {
		Forged all = message(2, id);
		all.remote += 1000;
		for (const std::uint32_t n : {0, 1})
			from.send("10.77.0.2", right.number(), segment(all, n * size, 1));
		EXPECT_EQ(right.arrived().record.msg_id, id);
	};

	for (const std::uint32_t n : {0, 1})
		send(message(2, 5000), n);
	EXPECT_EQ(right.arrived().record.msg_id, 5000);
	for (std::uint32_t i = 1; i <= 400; i++) {
		whole(socket, 5000 + i * 7);
		whole(other, 90000 + i);
	}
	for (const std::uint32_t n : {0, 1})
		send(segment(message(2, 5000), n * size, 0x99));
	for (const std::uint32_t n : {0, 1})
		send(segment(message(2, 5001), n * size, 0x99)); // too far behind by now
	expect_good();
	expect_dropped("ud_record_late", 4);
	EXPECT_TRUE(segment_is(0, 1));
	EXPECT_TRUE(segment_is(1, 2));
	EXPECT_TRUE(right.quiet());
}

TEST_F(Forgery, AMessageOfOneSegmentComesOnce)
{
	send(message(1, 9), 0);
	EXPECT_EQ(right.arrived().record.msg_id, 9);
	send(segment(message(1, 9), 0, 0x99));
	expect_good();
	expect_dropped("ud_record_late", 1);
	EXPECT_TRUE(segment_is(0, 1));
	EXPECT_TRUE(right.quiet());
}

// The network may let later messages overtake.
TEST_F(Forgery, MessagesComeInAnyOrder)
{
	for (const std::uint32_t id : {0xfffffff0U, 1000U, 20U, 0xfffffff5U, 999U}) {
		for (const std::uint32_t n : {1, 0})
			send(message(2, id), n);
		EXPECT_EQ(right.arrived().record.msg_id, id);
	}
	expect_dropped("ud_record_late", 0);
}

// A program that got the port of another begins at a number that isn't near.
TEST_F(Forgery, ASenderThatBeginsAnewIsHeard)
{
	const auto expect_arrival = [&](std::uint32_t id) {
		send(message(1, id), 0);
		EXPECT_EQ(right.arrived().record.msg_id, id);
	};

	for (const std::uint32_t id : {0x80000000U, 0x10000000U, 0xf0000000U, 0x0fe00000U})
		expect_arrival(id);
	for (const std::uint32_t id : {0x80000000U, 0x10000000U, 0xf0000000U, 0x0fe00000U})
		send(segment(message(1, id), 0, 0x99));
	expect_arrival(0x80000001);
	expect_dropped("ud_record_late", 4);
	EXPECT_TRUE(segment_is(0, 1));
}

// There is room for 256 senders. The one that said nothing for the longest is forgotten, and no other.
TEST_F(Forgery, AsManySendersAsThereIsRoomForAreRemembered)
{
	const ud::Spoofer spoofer("left");
	const auto others = [&](std::uint16_t first, std::uint16_t count) {
		for (std::uint16_t i = 0; i < count; i++) {
			Forged all = message(1, 7);
			all.remote += 1000;
			spoofer.send("10.77.0.1", first + i, "10.77.0.2", right.number(), segment(all, 0, 5));
			EXPECT_EQ(right.arrived().record.src_qp, first + i);
		}
	};

	spoofer.send("10.77.0.1", 19000, "10.77.0.2", right.number(), segment(message(1, 7), 0, 1));
	EXPECT_EQ(right.arrived().record.src_qp, 19000);
	others(20000, 255);
	spoofer.send("10.77.0.1", 19000, "10.77.0.2", right.number(), segment(message(1, 7), 0, 0x99));
	expect_dropped("ud_record_late", 1);
	EXPECT_TRUE(segment_is(0, 1));
	others(30000, 1);
	spoofer.send("10.77.0.1", 20000, "10.77.0.2", right.number(), segment(message(1, 7), 0, 0x99));
	expect_dropped("ud_record_late", 2);
	spoofer.send("10.77.0.1", 19000, "10.77.0.2", right.number(), segment(message(1, 7), 0, 0x42));
	EXPECT_EQ(right.arrived().record.src_qp, 19000);
	EXPECT_TRUE(segment_is(0, 0x42));
}

TEST_F(Forgery, ContradictionsAreRefused)
{
	const Forged all = message(5);
	Forged other = all;

	send(all, 0);
	other.length -= 1;
	send(segment(other, 4 * size, 0x99));
	other = all;
	other.seg_size = 2 * size; // overlaps with two
	send(segment(other, 0, 0x99));
	other = all;
	other.remote += 50;
	send(segment(other, size, 0x99));
	other = all;
	other.rkey ^= 1;
	send(segment(other, size, 0x99));
	expect_good();
	expect_dropped("ud_record_refused", 4);
	EXPECT_TRUE(segment_is(0, 1));
	for (std::uint32_t n = 1; n < 6; n++)
		EXPECT_TRUE(segment_is(n, 0xee));
	for (std::uint32_t n = 1; n < 5; n++)
		send(all, n);
	EXPECT_EQ(right.arrived().record.valid, 500);
}

TEST_F(Forgery, OtherSendersHaveOtherMessages)
{
	const ud::Socket other("left", "10.77.0.1");
	const Forged all = message(2);

	send(all, 0);
	other.send("10.77.0.2", right.number(), segment(all, size, 0x99));
	expect_good();
	EXPECT_TRUE(right.quiet());
	send(all, 1);
	EXPECT_EQ(right.arrived().record.src_qp, socket.port());
}

TEST_F(Forgery, WhatIsNotAllowedIsNotWritten)
{
	const vt::Pd other_pd = vt::make_pd(right.context());
	const vt::Region other(other_pd.get(), 4096);
	const vt::Region local(right.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	std::uint64_t refused = 0;

	for (const std::uint32_t segs : {1, 3}) {
		const auto expect_refused = [&](const Forged &all) {
			send(segment(all, 0, 0x99));
			refused++;
		};
		Forged all = message(segs);
		all.rkey ^= 1; // another key
		expect_refused(all);
		all = message(segs);
		all.rkey ^= 0x100; // another index
		expect_refused(all);
		all = message(segs);
		all.rkey = 0;
		expect_refused(all);
		all = message(segs);
		all.remote -= 1;
		expect_refused(all);
		// The first segment lies inside, the last doesn't.
		all = message(segs);
		all.remote += right.memory().size() - segs * size + 1;
		expect_refused(all);
		all = message(segs);
		all.remote = ~std::uint64_t{0} - size;
		expect_refused(all);
		all = message(segs);
		all.rkey = other.rkey();
		all.remote = other.address();
		expect_refused(all);
		all.rkey = local.rkey();
		all.remote = local.address();
		expect_refused(all);
	}
	expect_good();
	expect_dropped("ud_record_refused", refused);
	EXPECT_TRUE(vt::all_equal(right.bytes(0, 100000), 0xee));
	EXPECT_TRUE(vt::all_equal(right.bytes(right.memory().size() - 4096, 4096), 0xee));
	EXPECT_TRUE(vt::all_equal(other.bytes(), 0));
	EXPECT_TRUE(vt::all_equal(local.bytes(), 0));
	EXPECT_TRUE(right.quiet());
}

TEST_F(Forgery, WrongKeyOrCrcIsDropped)
{
	Forged all = message(1);

	all.key++;
	send(all, 0);
	ud::Bytes bytes = segment(message(1), 0, 0x99);
	bytes.back() ^= 1;
	send(bytes);
	expect_good();
	expect_dropped("ud_qkey_errors", 1);
	expect_dropped("ud_crc_errors", 1);
	EXPECT_TRUE(segment_is(0, 0xee));
}

// Every header octet but the key's, the message's number and the STag, with the CRC made good again
TEST_F(Forgery, HeadersThatDisagreeAreMalformed)
{
	const Forged all = message(3);
	std::uint64_t malformed = 0;
	const auto change = [&](std::size_t at, std::uint8_t value) {
		ud::Bytes bytes = segment(all, size, 0x99);
		bytes.resize(bytes.size() - 4);
		bytes[at] = value;
		send(ud::closed(bytes));
		malformed++;
	};

	change(2, 0xc1); // the last
	change(2, 0x80); // another version of DDP
	for (const std::uint8_t opcode : {1, 2, 3, 5, 7, 15})
		change(3, 0x40 | opcode);
	change(26, 0);	  // of 44 bytes: it has no such segment
	change(31, 0x65); // no multiple
	change(30, 0x02); // likewise, and behind the end
	change(35, 0);	  // no segment
	change(35, 99);
	change(35, 101);
	expect_good();
	expect_dropped("ud_malformed", malformed);
	EXPECT_TRUE(right.quiet());
	EXPECT_TRUE(vt::all_equal(right.bytes(0, 1000), 0xee));
}

// What a stranger needs for a completion is an STag, also where there is nothing to place.
TEST_F(Forgery, EmptyMessagesNeedARegion)
{
	const vt::Pd other_pd = vt::make_pd(right.context());
	const vt::Region other(other_pd.get(), 4096);
	const vt::Region local(right.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	for (const std::uint32_t rkey : {std::uint32_t{5}, right.rkey() ^ 1, other.rkey(), local.rkey()})
		send(segment({.rkey = rkey, .remote = right.remote(), .length = 0, .seg_size = 1}, 0, 0));
	expect_good();
	expect_dropped("ud_record_refused", 4);
	// No bytes of it could be outside.
	send(segment({.rkey = right.rkey(), .remote = 7, .length = 0, .seg_size = 1}, 0, 0));
	const kiwarpdv_record record = right.arrived().record;
	EXPECT_EQ(record.length, 0);
	EXPECT_EQ(record.rkey, right.rkey());
	EXPECT_EQ(record.map[0], 1);
	EXPECT_TRUE(holes(record).empty());
	EXPECT_TRUE(valid(record).empty());
	EXPECT_TRUE(right.quiet());
}

TEST_F(Forgery, GroupsAreNotWrittenTo)
{
	const std::uint64_t strays = right.counter("ud_strays");
	ibv_gid group{};
	group.raw[10] = group.raw[11] = 0xff;
	group.raw[12] = 239;
	group.raw[15] = 9;
	ASSERT_EQ(ibv_attach_mcast(right.qp(), &group, 0), 0);
	socket.send("239.0.0.9", 64791, segment(message(1), 0, 0x99));
	socket.send("10.77.0.255", right.number(), segment(message(1), 0, 0x99));
	expect_dropped("ud_record_refused", 1);
	right.expect_counter("ud_strays", strays + 1);
	expect_good();
	EXPECT_TRUE(segment_is(0, 0xee));
	EXPECT_EQ(ibv_detach_mcast(right.qp(), &group, 0), 0);
}

// Room is kept for the completion of an incomplete message, while the process says that it took more than there was.
TEST_F(Forgery, NonsenseInTheQueueIsNotCopied)
{
	send(message(2), 0);
	expect_good();
	kiw::Cq &queue = kiw::Cq::from(right.recv_cq());
	const std::uint32_t consumed = queue.consumed;

	queue.ring.consume(queue.ring.produced() + 1);
	EXPECT_EQ(ibv_resize_cq(right.recv_cq(), 1024), EINVAL);
	queue.ring.consume(consumed);
	send(message(2), 1);
	EXPECT_EQ(right.arrived().record.valid, 2 * size);
}

TEST_F(Forgery, ARegionThatGoesLeavesAMessageIncomplete)
{
	auto region = std::make_unique<vt::Region>(right.pd(), 4096);
	Forged all = message(2);

	all.rkey = region->rkey();
	all.remote = region->address();
	send(all, 0);
	expect_good();
	EXPECT_TRUE(vt::all_equal(region->bytes(0, size), 1));
	region->deregister();
	region->fill(0xdd);
	send(all, 1);
	expect_good();
	expect_dropped("ud_record_refused", 1);
	EXPECT_TRUE(vt::all_equal(region->bytes(), 0xdd));
}

TEST_F(Forgery, TheErrorStateReportsWhatIsIncomplete)
{
	send(message(3), 1);
	expect_good();
	ASSERT_EQ(right.modify(IBV_QPS_ERR), 0);
	const auto [status, opcode, record] = right.arrived();
	EXPECT_EQ(status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(record.valid, size);
	EXPECT_EQ(holes(record), Ranges({{0, size}, {2 * size, size}}));
	send(message(3), 2);
	EXPECT_TRUE(right.quiet());
}

TEST_F(Forgery, AResetForgetsWhatIsIncomplete)
{
	send(message(3), 1);
	expect_good();
	ASSERT_EQ(right.modify(IBV_QPS_RESET), 0);
	right.go_to(IBV_QPS_RTS);
	EXPECT_TRUE(right.quiet());
	expect_good();
}

/// Messages that stay incomplete don't for long.
class Impatient : public Forgery {
protected:
	Impatient() : Forgery({.timeout = 1000}) {}
};

TEST_F(Impatient, AfterAWhileThatIsReported)
{
	const Forged all = message(6);

	for (const std::uint32_t n : {0, 2, 3})
		send(all, n);
	const auto [status, opcode, record] = right.arrived();
	EXPECT_EQ(status, IBV_WC_SUCCESS);
	EXPECT_EQ(record.valid, 300);
	EXPECT_EQ(record.map[0], 0xd);
	EXPECT_EQ(holes(record), Ranges({{size, size}, {4 * size, 2 * size}}));
	EXPECT_EQ(valid(record), Ranges({{0, size}, {2 * size, 2 * size}}));
	expect_dropped("ud_record_timeouts", 1);
	// The memory is the program's now.
	for (const std::uint32_t n : {0, 1, 4, 5})
		send(segment(all, n * size, 0x99));
	expect_good();
	expect_dropped("ud_record_late", 4);
	EXPECT_TRUE(segment_is(0, 1));
	EXPECT_TRUE(segment_is(1, 0xee));
	EXPECT_TRUE(right.quiet());
}

// Revoking the STag is what a program can do about a peer that keeps records in use.
TEST_F(Impatient, SegmentsThatAreRefusedGiveNoTime)
{
	auto region = std::make_unique<vt::Region>(right.pd(), 4096);
	const Forged all = {.rkey = region->rkey(), .remote = region->address(), .length = 2 * size, .seg_size = size};
	const auto began = std::chrono::steady_clock::now();
	std::jthread peer;

	send(all, 0);
	vt::wait_until([&] { return region->bytes(0, 1)[0] == 1; }, "the first segment");
	region.reset();
	// Well below the time-out, and far longer
	peer = std::jthread([&](const std::stop_token &stop) {
		while (!stop.stop_requested() && std::chrono::steady_clock::now() - began < 25s) {
			send(all, 1);
			std::this_thread::sleep_for(20ms);
		}
	});
	const auto [status, opcode, record] = right.arrived();
	EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
	EXPECT_EQ(status, IBV_WC_SUCCESS);
	EXPECT_EQ(record.valid, size);
	expect_dropped("ud_record_timeouts", 1);
}

TEST_F(Impatient, AsManyAsThereAreRecords)
{
	for (std::uint32_t id = 1; id <= 65; id++)
		send(message(2, id), 0);
	expect_dropped("ud_record_full", 1);
	std::vector<bool> seen(65);
	for (int i = 0; i < 64; i++) {
		const kiwarpdv_record record = right.arrived().record;
		ASSERT_LE(record.msg_id, 64);
		EXPECT_FALSE(seen.at(record.msg_id));
		seen.at(record.msg_id) = true;
		EXPECT_EQ(record.valid, size);
	}
	expect_dropped("ud_record_timeouts", 64);
	// There is room again, also for the one that found none.
	send(message(2, 65), 0);
	send(message(2, 65), 1);
	EXPECT_EQ(right.arrived().record.valid, 2 * size);
}

/// Half of eight entries is room for two.
class SmallQueue : public Forgery {
protected:
	SmallQueue() : Forgery({.timeout = 1000, .completions = 8}) {}
};

TEST_F(SmallQueue, WithoutRoomForTheCompletionNothingIsWritten)
{
	Forged all = message(1);
	for (std::uint32_t n = 0; n < 4; n++) {
		all.id = n + 1;
		all.remote = right.remote(n * std::size_t{size});
		send(segment(all, 0, static_cast<std::uint8_t>(n + 1)));
	}
	expect_dropped("ud_record_full", 2);
	EXPECT_TRUE(segment_is(1, 2));
	EXPECT_TRUE(segment_is(2, 0xee));
	EXPECT_TRUE(segment_is(3, 0xee));
	// Requests have the other half.
	for (std::uint64_t id = 0; id < 4; id++)
		right.receive(id, 200000, 100);
	for (int i = 0; i < 4; i++)
		send(ud::datagram(some_key, ud::Bytes(10)));
	EXPECT_EQ(right.arrived().record.msg_id, 1);
	EXPECT_EQ(right.arrived().record.msg_id, 2);
	for (std::uint64_t id = 0; id < 4; id++) {
		ibv_wc wc{};
		ASSERT_EQ(kiwarpdv_poll_cq(right.recv_cq(), 1, &wc, 30'000'000), 1);
		EXPECT_WC(wc, id, IBV_WC_SUCCESS);
	}
	expect_good();
}

TEST_F(SmallQueue, RoomIsKeptFromTheFirstSegmentOn)
{
	send(message(2, 1), 0);
	send(message(2, 2), 0);
	send(message(2, 3), 0);
	send(message(1, 4), 0);
	expect_dropped("ud_record_full", 2);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(right.arrived().record.valid, size);
	expect_good();
}

// What a queue pair kept room for is there for others when it goes.
TEST_F(SmallQueue, RoomComesBackWithTheQueuePair)
{
	ibv_qp_init_attr_ex attr{};
	const kiwarpdv_qp_init_attr dv = {.flags = KIWARPDV_QP_RECORD};

	attr.send_cq = right.send_cq();
	attr.recv_cq = right.recv_cq();
	attr.cap = {4, 4, 1, 1, 0};
	attr.qp_type = IBV_QPT_UD;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = right.pd();
	for (int i = 0; i < 10; i++) {
		const vt::Qp other(kiwarpdv_create_qp(right.context(), &attr, &dv, sizeof(dv)));
		ASSERT_NE(other, nullptr);
		for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR}) {
			ibv_qp_attr to{};
			to.qp_state = state;
			to.port_num = 1;
			to.qkey = some_key;
			ASSERT_EQ(ibv_modify_qp(other.get(), &to,
					  state == IBV_QPS_INIT
						  ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
						  : IBV_QP_STATE),
				0);
		}
		Forged all = message(2, 1);
		right.memory().fill(0xee);
		socket.send("10.77.0.2", other->qp_num, segment(all, 0, 1));
		all.id = 2;
		all.remote += 1000;
		socket.send("10.77.0.2", other->qp_num, segment(all, 0, 1));
		vt::wait_until([&] { return right.bytes(1000, 1)[0] == 1; }, "both to begin");
	}
	EXPECT_TRUE(right.quiet());
	expect_good();
}

TEST(KilledTarget, LeavesNothingBehind)
{
	constexpr std::uint32_t port = 23478;
	int pipes[2];
	ASSERT_EQ(pipe(pipes), 0);
	const pid_t child = fork();
	if (child == 0) {
		const Target right({.udp_port = port});
		const std::uint64_t told[2] = {right.rkey(), right.remote()};
		(void)!write(pipes[1], told, sizeof(told));
		for (;;)
			pause();
	}
	std::uint64_t told[2]{};
	ASSERT_EQ(read(pipes[0], told, sizeof(told)), static_cast<ssize_t>(sizeof(told)));
	const ud::Socket socket("left", "10.77.0.1");
	const auto flood = [&] {
		for (std::uint32_t id = 0; id < 100; id++)
			socket.send("10.77.0.2", port,
				segment({.rkey = static_cast<std::uint32_t>(told[0]),
						.remote = told[1],
						.length = 200,
						.seg_size = 100,
						.id = id},
					0, 1));
	};
	flood();
	kill(child, SIGKILL);
	flood();
	int status = 0;
	waitpid(child, &status, 0);
	close(pipes[0]);
	close(pipes[1]);
	const Target next({.udp_port = port});
	const std::uint64_t before = next.counter("ud_record_refused");
	flood();
	next.expect_counter("ud_record_refused", before + 100);
	EXPECT_TRUE(next.quiet());
}

} // namespace
} // namespace record
