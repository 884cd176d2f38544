// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// FPDUs and their CRC.
#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "session.hpp"

namespace {

const Bytes hello = {'h', 'e', 'l', 'l', 'o'};

Bytes pattern(size_t n)
{
	Bytes b(n);

	for (size_t i = 0; i < n; i++)
		b[i] = uint8_t(i * 31 >> 3 ^ i);
	return b;
}

// Peer::ulpdu() looks at what is said here of every FPDU that arrives, in all tests.
TEST(Framing, r052_r053_fpdus_of_every_pad_are_multiples_of_four)
{
	for (const Terms &t : both_crcs()) {
		Session s(t);
		s.greet();
		for (uint32_t n = 0; n <= 64; n++) {
			const Bytes data = Target::fresh(0, n);
			const vt::Sges sges = {s.own().sge(0, n)};
			ASSERT_EQ(s.kiwarp().send(n ? sges : vt::Sges{}), 0);
			const uint64_t before = s.peer().link.arrived.octets;
			s.peer().expect(send_segment(n + 1, data));
			EXPECT_WC(s.kiwarp().sent(), 0, IBV_WC_SUCCESS);
			EXPECT_EQ((s.peer().link.arrived.octets - before) % 4, 0);
			EXPECT_EQ(s.peer().link.arrived.octets - before, (2 + 18 + n + 3) / 4 * 4 + 4);
		}
	}
}

TEST(Framing, r052_received_pad_may_be_anything)
{
	for (size_t n = 1; n <= 4; n++)
		in_every_way(
			both_crcs(),
			[&](Session &s, Cut &cut) {
				const Bytes data = pattern(n);
				s.peer().deliver(s.peer().framed(send_segment(1, data), {.pad = 0xff}), cut);
				s.sync(2);
				EXPECT_TRUE(s.has_received(0, data));
				EXPECT_TRUE(s.nothing_received(n));
			},
			n == 2 ? Cuts::all : Cuts::few);
}

TEST(Framing, r054_one_wish_for_crc_is_enough)
{
	for (const bool listening : {true, false})
		for (const bool ours : {false, true})
			for (const bool theirs : {false, true}) {
				SCOPED_TRACE(std::string(listening ? "it listens" : "it connects") +
					     (ours ? ", it wants" : "") + (theirs ? ", the peer wants" : ""));
				const Parameter wish("crc", ours ? "Y" : "N");
				const Terms t = {.kiwarp_connects = !listening, .crc = theirs};
				{
					Session s(t);
					s.peer().use(ours || theirs);
					s.greet();
					ASSERT_EQ(s.kiwarp().send(), 0);
					s.peer().expect(send_segment(1, {}));
					EXPECT_EQ(s.peer().link.arrived.crc != 0, ours || theirs);
					s.sync(1);
				}
				// A wrong one matters exactly where it is in use.
				Session s(t);
				s.peer().use(ours || theirs);
				s.peer().send(send_segment(1, {}), {.crc = 0x1000});
				if (ours || theirs)
					s.expect_terminate(terminate_segment(2, 0, 2));
				else
					EXPECT_EQ(s.kiwarp().received().status, IBV_WC_SUCCESS);
			}
}

TEST(Framing, r054_reply_says_that_crc_is_in_use)
{
	const auto flags = [&](uint8_t asked) {
		Link link(dial(listener().port()));
		link.send(frame({.flags = asked}));
		const auto side = accept_next();
		return link.frame(reply_key)[16] & with_crc;
	};

	EXPECT_EQ(flags(0), 0);
	EXPECT_EQ(flags(with_crc), with_crc);
	const Parameter wish("crc", "Y");
	EXPECT_EQ(flags(0), with_crc);
}

TEST(Framing, r055_without_crc_its_field_may_be_anything)
{
	in_every_way({{.crc = false}}, [](Session &s, Cut &cut) {
		s.peer().deliver(s.peer().framed(send_segment(1, hello), {.crc = 0xdeadbeef}), cut);
		s.sync(2);
		EXPECT_TRUE(s.has_received(0, hello));
	});
}

TEST(Framing, r056_field_is_there_without_crc)
{
	Session s({.crc = false});

	s.greet();
	ASSERT_EQ(s.kiwarp().send(), 0);
	// Length, header, CRC, with nothing to pad
	EXPECT_EQ(s.peer().link.receive(24), Bytes({0, 18}) + send_segment(1, {}) + Bytes(4));
}

TEST(Framing, r057_octets_of_a_known_fpdu)
{
	Session s({.crc = true});
	const Bytes send5 = {0x00, 0x17, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x01, 0x00, 0x00, 0x00, 0x00, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x00, 0x00, 0x00, 0xb9, 0x90, 0xb1, 0x0c};

	s.own().set(0, hello);
	s.greet();
	ASSERT_EQ(s.kiwarp().send({s.own().sge(0, hello.size())}), 0);
	EXPECT_EQ(s.peer().link.receive(send5.size()), send5);
	s.peer().link.send(send5);
	EXPECT_EQ(s.kiwarp().received().status, IBV_WC_SUCCESS);
	EXPECT_TRUE(s.has_received(0, hello));
}

const std::vector<Terms> with_crc_only = {{.crc = true}, {.kiwarp_connects = true, .crc = true}};

Bytes good_write(Session &s)
{
	return write_segment(s.target().stag(), s.target().address(), pattern(13));
}

Bytes good_send(Session & /*s*/)
{
	return send_segment(1, hello);
}

constexpr Code bad_crc = {2, 0, 2};

TEST(Framing, r058_r060_one_wrong_bit_of_a_write)
{
	refused({.code = bad_crc, .headers = Headers::none, .segment = good_write, .spoil = {.flip = 16}},
		with_crc_only);
	// In STag, offset and payload
	for (const size_t place : {5, 13, 28})
		refused_too(
			{.code = bad_crc, .headers = Headers::none, .segment = good_write, .spoil = {.flip = place}},
			with_crc_only);
}

TEST(Framing, r058_r060_one_wrong_bit_of_a_send)
{
	for (const size_t place : {3, 17, 20, 24})
		refused_too({.code = bad_crc, .headers = Headers::none, .segment = good_send, .spoil = {.flip = place}},
			with_crc_only);
}

TEST(Framing, r058_every_single_bit_of_a_frame_matters)
{
	const size_t length = 32;

	for (size_t bit = 16; bit < 8 * length; bit++) { // behind the length
		SCOPED_TRACE(bit);
		Session s({.crc = true});
		Bytes b = s.peer().framed(good_send(s));
		ASSERT_EQ(b.size(), length);
		b[bit / 8] ^= 1 << bit % 8;
		s.peer().link.send(b);
		s.expect_terminate(terminate_segment(2, 0, 2));
		EXPECT_TRUE(s.nothing_received());
	}
}

TEST(Framing, r059_wrong_pad_bit)
{
	// 2 + 18 + 5 octets, then PAD
	for (const size_t place : {25, 26, 27})
		refused_too({.code = bad_crc, .headers = Headers::none, .segment = good_send, .spoil = {.flip = place}},
			with_crc_only);
}

TEST(Framing, r059_wrong_length_bit)
{
	for (int bit = 0; bit < 16; bit++) {
		SCOPED_TRACE(bit);
		Session s({.crc = true});
		Bytes b = s.peer().framed(good_write(s));
		b[1 - bit / 8] ^= 1 << bit % 8;
		// As much as it now claims to have
		s.peer().link.send(b + Bytes(70000, 0xa5));
		s.expect_terminate(terminate_segment(2, 0, 2));
		EXPECT_TRUE(s.target().untouched_but());
		EXPECT_TRUE(s.nothing_received());
	}
}

TEST(Framing, r061_frame_cut_anywhere)
{
	for (const size_t n : {0, 1, 2, 3})
		in_every_way(all_terms(), [&](Session &s, Cut &cut) {
			const Bytes data = pattern(n);
			s.peer().deliver(s.peer().framed(send_segment(1, data)), cut);
			s.peer().send(write_segment(s.target().stag(), s.target().address(100), data));
			s.sync(2);
			EXPECT_TRUE(s.has_received(0, data));
			EXPECT_TRUE(s.nothing_received(n));
			EXPECT_EQ(s.target().octets(100, n), data);
			EXPECT_TRUE(s.target().untouched_but(100, n));
		});
}

TEST(Framing, r061_cut_anywhere_for_every_opcode)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		const Bytes data = pattern(3);
		Bytes all = s.peer().framed(write_segment(s.target().stag(), s.target().address(), data));
		uint32_t number = 1;
		for (const uint8_t op : {op_send, op_send_se})
			all = all + s.peer().framed(untagged_segment(op, 0, number++, 0, data));
		all = all + s.peer().framed(read_segment(1, s.target().stag(), s.target().address(), 3));
		s.peer().deliver(all, cut);
		s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 0, data));
		s.sync(3);
		EXPECT_TRUE(s.has_received(0, data));
		EXPECT_TRUE(s.has_received(1, data));
	});
}

TEST(Framing, r061_ten_fpdus_in_one_segment)
{
	for (Terms t : all_terms()) {
		t.receives = 10;
		Session s(t);
		Bytes all;
		for (uint32_t n = 1; n <= 10; n++)
			all = all + s.peer().framed(send_segment(n, pattern(n)));
		ASSERT_LT(all.size(), 1400);
		const uint32_t before = s.peer().link.segments();
		s.peer().link.send(all);
		EXPECT_EQ(s.peer().link.segments() - before, 1);
		for (int n = 0; n < 10; n++) {
			const ibv_wc wc = s.kiwarp().received();
			EXPECT_WC(wc, n, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.byte_len, n + 1);
			EXPECT_TRUE(s.has_received(n, pattern(n + 1)));
		}
	}
}

TEST(Framing, r062_length_without_room_for_a_header)
{
	const Bytes write = tagged_segment(op_write, 1, 0, {});
	const Bytes send = send_segment(1, {});

	for (size_t n = 0; n < 14; n++)
		refused_too({.code = {1, 0, 0}, .headers = Headers::none, .segment = [&](Session & /*s*/) {
				     return first(write, n);
			     }});
	for (size_t n = 0; n < 17; n++)
		refused_too({.code = {1, 0, 0}, .headers = Headers::none, .segment = [&](Session & /*s*/) {
				     return first(send, n);
			     }});
	refused({.code = {1, 0, 0}, .headers = Headers::none, .segment = [&](Session & /*s*/) {
			 return first(send, 17);
		 }});
}

TEST(Framing, r063_fpdus_far_beyond_our_own)
{
	for (Terms t : all_terms()) {
		for (const uint32_t length : {1443u, 1454u, 8942u, 64768u, 65535u}) {
			t.receives = 1;
			Session s(t);
			const vt::Region memory(s.kiwarp().pd(), 65536);
			const Bytes data = pattern(length - 14);
			s.peer().send(write_segment(memory.rkey(), memory.address(), data));
			s.sync(1);
			EXPECT_TRUE(vt::same(memory.bytes(0, data.size()), data));

			memory.fill(0);
			ASSERT_EQ(s.kiwarp().receive({memory.sge()}, 9), 0);
			const Bytes message = pattern(length - 18);
			s.peer().send(send_segment(2, message));
			EXPECT_WC(s.kiwarp().received(), 9, IBV_WC_SUCCESS);
			EXPECT_TRUE(vt::same(memory.bytes(0, message.size()), message));
		}
	}
}

// With time stamps TCP leaves 12 octets less than the size that the peer announces.
std::function<void(int)> announcing(int mss)
{
	return [mss](int fd) {
		const int size = mss + 12;
		ASSERT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &size, sizeof(size)), 0);
	};
}

// The lengths of the ULPDUs in which kiwarp sends a long message
std::vector<size_t> lengths(Session &s, ibv_wr_opcode opcode, uint32_t octets)
{
	const vt::Region memory(s.kiwarp().pd(), octets);
	std::vector<size_t> all;
	size_t header = 18;

	if (opcode == IBV_WR_RDMA_WRITE)
		header = 14;
	memory.fill_pattern(octets);
	EXPECT_EQ(s.kiwarp().post(opcode, {memory.sge()}, {.remote = 0x1000, .rkey = 0x1234}), 0);
	for (size_t done = 0; done < octets;) {
		const Bytes b = s.peer().next();
		EXPECT_TRUE(vt::same(memory.bytes(done, b.size() - header), Bytes(b.begin() + header, b.end())));
		done += b.size() - header;
		all.push_back(b.size());
	}
	EXPECT_WC(s.kiwarp().sent(), 0, IBV_WC_SUCCESS);
	return all;
}

// What TCP may send at once to a peer that announced so much, without markers
size_t largest_ulpdu(size_t mss)
{
	return std::max<size_t>(mss - 6 - mss % 4, 128);
}

TEST(Framing, r064_r065_ulpdus_are_as_long_as_a_segment_allows)
{
	const Mtu jumbo(9000);

	for (const bool crc : {false, true})
		for (const int mss : {536, 537, 538, 539, 1448, 1460, 8948}) {
			SCOPED_TRACE(mss);
			Session s({.crc = crc, .socket = announcing(mss)});
			s.greet();
			for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE}) {
				const auto all = lengths(s, opcode, 100000);
				for (size_t i = 0; i + 1 < all.size(); i++)
					EXPECT_EQ(all[i], largest_ulpdu(mss));
				EXPECT_LE(all.back(), largest_ulpdu(mss));
			}
		}
}

TEST(Framing, r064_ulpdus_of_responses_too)
{
	Session s({.crc = true, .socket = announcing(536)});

	s.peer().send(read_segment(1, s.target().stag(), s.target().address(), Target::size));
	const Peer::Message m = s.peer().message();
	EXPECT_EQ(m.longest, largest_ulpdu(536));
	EXPECT_EQ(m.payload, Target::fresh(0, Target::size));
}

TEST(Framing, r064_never_beyond_the_protocols_limit)
{
	const Mtu huge(65535);
	Session s({.crc = false});

	s.greet();
	for (const size_t n : lengths(s, IBV_WR_RDMA_WRITE, 1000000))
		EXPECT_LE(n, 64768);
}

TEST(Framing, r066_ulpdus_are_never_cut_below_128)
{
	// The least that TCP lets a peer announce
	Session s({.crc = true, .socket = announcing(88 - 12)});
	s.greet();
	const auto all = lengths(s, IBV_WR_SEND, 3000);
	for (size_t i = 0; i + 1 < all.size(); i++)
		EXPECT_EQ(all[i], 128);
}

TEST(Framing, r067_segment_that_shrinks_in_mid_stream)
{
	const Mtu jumbo(9000);
	// Far more than fits into TCP's buffers: its beginning waits there while the rest isn't yet made.
	const uint32_t octets = 8000000;
	Session s({.crc = true, .socket = [](int fd) {
			   const int size = 100000;
			   ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
		   }});
	const vt::Region memory(s.kiwarp().pd(), octets);

	s.greet();
	memory.fill_pattern(7);
	ASSERT_EQ(s.kiwarp().send({memory.sge()}), 0);
	size_t done = 0;
	size_t longest = 0;
	Bytes last_one;
	bool shrunk = false;
	while (done < octets) {
		last_one = s.peer().next();
		EXPECT_EQ(get(&last_one[14], 4), done);
		EXPECT_TRUE(vt::same(
			memory.bytes(done, last_one.size() - 18), Bytes(last_one.begin() + 18, last_one.end())));
		done += last_one.size() - 18;
		if (done < octets / 10)
			longest = std::max(longest, last_one.size());
		if (!shrunk && done > octets / 10) {
			Mtu::server(1500);
			shrunk = true;
		}
		if (done < octets && done > octets - 100000) {
			EXPECT_LE(last_one.size(), largest_ulpdu(1448));
		}
	}
	EXPECT_EQ(longest, largest_ulpdu(8948));
	EXPECT_WC(s.kiwarp().sent(), 0, IBV_WC_SUCCESS);
}

} // namespace
