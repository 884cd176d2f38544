// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagrams that no kiwarp sends, from plain sockets. Each is counted for what is wrong with it and dropped; nothing is
// answered; and the queue pair goes on.
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "../lib/datagram.hpp"
#include "../lib/udp.hpp"

namespace ud {
namespace {

const std::vector<std::string> counters{"ud_malformed", "ud_versions", "ud_crc_errors", "ud_not_ready",
	"ud_qkey_errors", "ud_no_receives", "ud_too_long", "ud_bad_receives"};

class Hostile : public testing::Test {
protected:
	Hostile()
	{
		for (const std::string &name : counters)
			before.push_back(right.counter(name));
		right.memory().fill(0xee);
	}
	~Hostile() override
	{
		EXPECT_TRUE(socket.received().empty()) << "something was answered";
		EXPECT_EQ(right.state(), IBV_QPS_RTS);
	}

	void send(const Bytes &bytes) const { socket.send("10.77.0.2", right.number(), bytes); }
	/// A good one behind the others: when it has come, they have been judged.
	void expect_good() const
	{
		const Bytes payload{'g', 'o', 'o', 'd'};

		right.receive(99, 4096, 100);
		send(datagram(some_key, payload));
		const ibv_wc wc = right.received();
		EXPECT_WC(wc, 99, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.byte_len, grh + 4);
		EXPECT_EQ(wc.src_qp, socket.port());
		EXPECT_TRUE(vt::same(right.bytes(4096 + grh, 4), payload));
	}
	/// Sends all of them: none may arrive, and so many count for what the counter says.
	void expect_dropped(const std::vector<Bytes> &all, const std::string &counter) const
	{
		for (const Bytes &one : all)
			send(one);
		expect_good();
		for (std::size_t i = 0; i < counters.size(); i++)
			right.expect_counter(counters[i], before[i] + (counters[i] == counter ? all.size() : 0));
		EXPECT_TRUE(vt::all_equal(right.bytes(0, 4096), 0xee));
	}

	End right{"kiw1"};
	Socket socket{"left", "10.77.0.1"};
	std::vector<std::uint64_t> before;
};

// They come in one packet until UDP cuts it up: each is judged by itself.
TEST_F(Hostile, AmongGoodOnes)
{
	const Bytes payload(100, 'p');
	std::vector<Bytes> all(5, datagram(some_key, payload));

	all[1].back() ^= 1;
	all[3] = datagram(some_key + 1, payload);
	all.push_back(closed(Bytes(20)));
	for (std::uint64_t i = 0; i < 3; i++)
		right.receive(i, i * 1000, 100);
	const std::uint64_t calls = calls_to_udp("left");
	socket.send_together("10.77.0.2", right.number(), all);
	EXPECT_EQ(calls_to_udp("left") - calls, 1);
	for (std::uint64_t i = 0; i < 3; i++) {
		EXPECT_WC(right.received(), i, IBV_WC_SUCCESS);
		EXPECT_TRUE(vt::same(right.bytes(i * 1000 + grh, 100), payload));
	}
	expect_good();
	for (std::size_t i = 0; i < counters.size(); i++)
		right.expect_counter(
			counters[i], before[i] + (counters[i] == "ud_crc_errors" || counters[i] == "ud_qkey_errors" ||
							 counters[i] == "ud_malformed"));
}

TEST_F(Hostile, TooShort)
{
	const Bytes good = datagram(some_key, {});
	std::vector<Bytes> all;

	for (std::size_t n = 0; n < good.size(); n++)
		all.emplace_back(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));
	for (std::size_t n = 0; n < 20; n++)
		all.push_back(closed(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n))));
	// A Send of that length is good; immediate data would reach into the CRC, or behind it.
	for (std::size_t n = 20; n < 28; n++) {
		const Bytes whole = datagram_imm(some_key, 1, {});

		all.push_back(closed(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))));
	}
	expect_dropped(all, "ud_malformed");
}

TEST_F(Hostile, OtherTraffic)
{
	std::vector<Bytes> all;

	for (int first = 0; first < 256; first++)
		if (first != 0x0d)
			all.push_back(datagram(
				some_key, Bytes(10), [&](Bytes &b) { b[0] = static_cast<std::uint8_t>(first); }));
	all.push_back(Bytes(65507, 0x55));
	expect_dropped(all, "ud_malformed");
}

TEST_F(Hostile, OtherVersions)
{
	std::vector<Bytes> all;

	for (int version = 0; version < 256; version++)
		if (version != 0x10)
			all.push_back(datagram(
				some_key, Bytes(10), [&](Bytes &b) { b[1] = static_cast<std::uint8_t>(version); }));
	expect_dropped(all, "ud_versions");
}

// The octets of DDP and RDMAP: other versions, tagged, not the last segment, every other opcode
TEST_F(Hostile, WrongHeaders)
{
	std::vector<Bytes> all;
	const auto add = [&](std::size_t at, int value) {
		all.push_back(
			datagram(some_key, Bytes(60), [&](Bytes &b) { b[at] = static_cast<std::uint8_t>(value); }));
	};

	for (const int ddp : {0x40, 0x42, 0x43, 0x01, 0xc1, 0x81})
		add(2, ddp);
	for (const int version : {0x00, 0x80, 0xc0})
		add(3, version | 0x03);
	for (int opcode = 0; opcode < 16; opcode++)
		if (opcode != 3 && opcode != 5 && opcode != 8 && opcode != 9)
			add(3, 0x40 | opcode);
	for (const std::size_t at : {11, 19}) // queue and offset, with immediate data
		all.push_back(datagram_imm(some_key, 1, Bytes(60), [&](Bytes &b) { b[at] = 1; }));
	for (const int ddp : {0x01, 0x40, 0xc1}) // not the last, another version, tagged
		all.push_back(
			datagram_imm(some_key, 1, Bytes(60), [&](Bytes &b) { b[2] = static_cast<std::uint8_t>(ddp); }));
	add(11, 1);   // queue
	add(8, 0x80); // the same
	add(19, 1);   // offset
	add(16, 0xff);
	expect_dropped(all, "ud_malformed");
}

TEST_F(Hostile, WrongCrc)
{
	const Bytes good = datagram(some_key, Bytes(30, 7));
	std::vector<Bytes> all;

	// Wherever a bit is wrong, behind the octets that are looked at before
	for (std::size_t at = 4; at < 8; at++) {
		all.push_back(good);
		all.back()[at] ^= 1;
	}
	for (std::size_t at = 20; at < good.size(); at++) {
		all.push_back(good);
		all.back()[at] ^= 0x80;
	}
	// Longer than what the CRC covers
	all.push_back(good);
	all.back().push_back(0);
	expect_dropped(all, "ud_crc_errors");
}

TEST_F(Hostile, WrongKey)
{
	std::vector<Bytes> all;

	for (int bit = 0; bit < 32; bit++)
		all.push_back(datagram(some_key ^ 1U << bit, Bytes(10)));
	all.push_back(datagram(0x80000000, Bytes(10)));
	expect_dropped(all, "ud_qkey_errors");
}

TEST_F(Hostile, WrongKeyOrCrcWithImmediateData)
{
	std::vector<Bytes> all;

	for (std::size_t at = 20; at < 33; at++) {
		all.push_back(datagram_imm(some_key, 1, Bytes(1)));
		all.back()[at] ^= 1;
	}
	expect_dropped(all, "ud_crc_errors");
	before[2] += all.size();
	expect_dropped({datagram_imm(some_key + 1, 1, Bytes(10))}, "ud_qkey_errors");
}

TEST_F(Hostile, LongestDatagramsAreLikeOthers)
{
	right.receive(1, 8192, longest);
	send(datagram(some_key, Bytes(longest, 0x5a)));
	const ibv_wc wc = right.received();
	EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, grh + longest);
	EXPECT_TRUE(vt::all_equal(right.bytes(8192 + grh, longest), 0x5a));

	// The CRC of a long one is wrong in its last octet.
	Bytes bad = datagram(some_key, Bytes(longest, 0x5a));
	bad.back() ^= 1;
	expect_dropped({bad}, "ud_crc_errors");
}

// UDP leaves its own checksum to readers, but that of the shortest.
TEST_F(Hostile, UdpsChecksumCounts)
{
	const std::uint64_t wrong = udp_counter("right", "InCsumErrors"), errors = udp_counter("right", "InErrors");
	const std::uint64_t good = calls_of_udp("right");

	const std::uint64_t none = right.counter("ud_no_receives");
	Spoofer("left").send(
		"10.77.0.1", 12345, "10.77.0.2", right.number(), datagram(some_key, Bytes(1000, 1)), 0x1234);
	expect_good();
	EXPECT_EQ(udp_counter("right", "InCsumErrors") - wrong, 1);
	EXPECT_EQ(udp_counter("right", "InErrors") - errors, 1);
	EXPECT_EQ(calls_of_udp("right") - good, 1);
	right.expect_counter("ud_no_receives", none);
}

// A source is a claim: it is reported, and nobody is told.
TEST_F(Hostile, SpoofedSource)
{
	const Socket victim("left", "10.77.0.1");

	right.receive(1, 8192, 100);
	send_spoofed("left", "10.77.0.1", victim.port(), "10.77.0.2", right.number(), datagram(some_key, Bytes(10, 1)));
	EXPECT_EQ(right.received().src_qp, victim.port());
	right.receive(2, 8192, 100);
	send_spoofed("left", "10.77.0.200", 12345, "10.77.0.2", right.number(), datagram(some_key, Bytes(10, 1)));
	EXPECT_EQ(right.received().src_qp, 12345);
	EXPECT_EQ(right.bytes(8192 + 20, 4)[3], 200);
	// As its own
	send_spoofed("left", "10.77.0.2", static_cast<std::uint16_t>(right.number()), "10.77.0.2", right.number(),
		datagram(some_key, Bytes(10, 1)));
	expect_good();
	EXPECT_TRUE(victim.received().empty());
}

TEST_F(Hostile, Garbage)
{
	std::uint32_t state = 1;
	const auto random = [&] {
		state = state * 1664525 + 1013904223;
		return static_cast<std::uint8_t>(state >> 24);
	};

	right.receive(1, 0, 1000);
	for (int i = 0; i < 2000; i++) {
		Bytes bytes(random() * 4 + random());
		for (std::uint8_t &byte : bytes)
			byte = random();
		if (i % 2 && bytes.size() > 24) { // what gets past the first looks
			bytes[0] = 0x0d;
			bytes[1] = 0x10;
			if (i % 4 == 3) {
				bytes[2] = 0x41;
				bytes[3] = 0x43;
			}
		}
		send(i % 8 == 7 ? closed(bytes) : bytes);
		if (i % 200 == 0)
			(void)right.counter("ud_malformed"); // lets the receiver catch up
	}
	std::uint64_t dropped = 0;
	vt::wait_until(
		[&] {
			dropped = 0;
			for (std::size_t i = 0; i < counters.size(); i++)
				dropped += right.counter(counters[i]) - before[i];
			return dropped == 2000;
		},
		"all of it to be dropped");
	EXPECT_TRUE(vt::poll_all(right.recv_cq()).empty());
	EXPECT_TRUE(vt::all_equal(right.bytes(0, 4096), 0xee));
	// The receive is still there for a good one.
	send(datagram(some_key, Bytes(4, 1)));
	EXPECT_WC(right.received(), 1, IBV_WC_SUCCESS);
}

// What kiwarp sends, octet by octet
TEST_F(Hostile, APlainSocketUnderstandsWhatKiwarpSends)
{
	const End left("kiw0");
	const Ah ah = left.ah(ipv4.left, right, ipv4.right);
	const Socket plain("right", "10.77.0.2");
	const Bytes text{'d', 'a', 't', 'a'};

	std::copy(text.begin(), text.end(), left.memory().data());
	left.send({ah.get(), plain.port()}, 0, text.size());
	EXPECT_EQ(plain.receive(), datagram(some_key, text));
	ASSERT_EQ(left.try_send({ah.get(), plain.port(), 7}, {left.memory().sge(0, 4)}, 0,
			  IBV_SEND_SIGNALED | IBV_SEND_SOLICITED),
		0);
	EXPECT_EQ(plain.receive(), datagram(7, text, [](Bytes &b) {
		b[3] = 0x45;
		b[15] = 1; // the second message
	}));
}

} // namespace
} // namespace ud
