// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Markers. Peer::ulpdu() looks at every marker that arrives: its place, its pointer, and that the CRC covers it.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "session.hpp"

namespace {

// Each with and without CRC, in both roles: kiwarp sends markers, receives them, or both
std::vector<Terms> with_markers_in(bool in, bool out)
{
	std::vector<Terms> all = all_terms();

	for (Terms &t : all) {
		t.markers_in = in;
		t.markers_out = out;
	}
	return all;
}

TEST(Markers, r068_stream_begins_with_one)
{
	for (const Terms &t : with_markers_in(true, false)) {
		SCOPED_TRACE(t.text());
		Session s(t);
		if (t.kiwarp_connects) { // its ready-to-receive message has been looked at
			EXPECT_EQ(s.peer().link.arrived.markers, 1);
			continue;
		}
		s.greet();
		ASSERT_EQ(s.kiwarp().send(), 0);
		EXPECT_EQ(s.peer().link.receive(4), Bytes(4));
	}
}

TEST(Markers, r069_none_where_none_are_wanted)
{
	for (const bool out : {false, true})
		for (const Terms &t : with_markers_in(false, out)) {
			SCOPED_TRACE(t.text());
			Session s(t);
			const Bytes data = Target::fresh(0, 2000);
			s.greet();
			ASSERT_EQ(s.kiwarp().write({s.own().sge(0, 2000)}, {.remote = 5, .rkey = 6}), 0);
			EXPECT_EQ(s.peer().message().payload, data);
			EXPECT_EQ(s.peer().link.arrived.markers, 0);
		}
}

// Many messages of all lengths, so that markers come to lie everywhere
void check_stream(Session &s, size_t octets)
{
	const vt::Region memory(s.kiwarp().pd(), 300000);
	uint32_t number = 1;
	size_t length = 0;

	memory.fill_pattern(3);
	s.greet();
	while (s.peer().link.arrived.octets < octets) {
		length = (length * 5 + 7919) % memory.size();
		ASSERT_EQ(s.kiwarp().send({memory.sge(0, length)}), 0);
		const Peer::Message m = s.peer().message();
		EXPECT_EQ(get(&m.header[10], 4), number++);
		EXPECT_TRUE(vt::same(m.payload, memory.bytes(0, length)));
		EXPECT_WC(s.kiwarp().sent(), 0, IBV_WC_SUCCESS);
		if (testing::Test::HasFailure())
			return;
	}
	EXPECT_EQ(s.peer().link.arrived.markers, (s.peer().link.arrived.octets - 1) / 512 + 1);
}

TEST(Markers, r070_r071_r075_every_512_octets_over_ten_megabytes)
{
	for (const Terms &t : with_markers_in(true, false)) {
		SCOPED_TRACE(t.text());
		Session s(t);
		check_stream(s, t.crc && !t.kiwarp_connects ? 10000000 : 1000000);
	}
}

// kiwarp's own numbers begin where TCP likes; those of the peer can be set.
TEST(Markers, r070_grid_holds_where_tcps_numbers_wrap)
{
	for (const bool crc : {false, true}) {
		Session s({.crc = crc, .markers_out = true, .receives = 1, .receive_size = 1024, .socket = [](int fd) {
				   const int on = 1;
				   const int queue = TCP_SEND_QUEUE;
				   const uint32_t first_number = ~0u - 3000;
				   const int off = TCP_REPAIR_OFF_NO_WP;
				   ASSERT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)), 0);
				   ASSERT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)), 0);
				   ASSERT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &first_number,
						     sizeof(first_number)),
					   0);
				   ASSERT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off)), 0);
			   }});
		for (uint32_t n = 0; n < 20; n++) {
			const Bytes data = pattern(700 + n);
			s.peer().send(write_segment(s.target().stag(), s.target().address(n * 8), data));
			s.peer().send(send_segment(n + 1, data));
			const ibv_wc wc = s.kiwarp().received();
			EXPECT_WC(wc, 0, IBV_WC_SUCCESS);
			EXPECT_EQ(s.target().octets(n * 8, data.size()), data);
			EXPECT_TRUE(s.has_received(0, data));
			s.repost(0);
		}
	}
}

// A Send that makes the stream's length a given one: its FPDU has 24 octets beside payload and markers.
void fill_to(Session &s, uint64_t length, uint32_t &number)
{
	const uint64_t at = s.peer().link.arrived.octets;
	const uint64_t markers = (length + 511) / 512 - (at + 511) / 512;
	const uint64_t n = length - at - 24 - 4 * markers;

	ASSERT_EQ(s.kiwarp().send({s.own().sge(0, n)}), 0);
	s.peer().expect(send_segment(number++, Target::fresh(0, n)));
	EXPECT_WC(s.kiwarp().sent(), 0, IBV_WC_SUCCESS);
	EXPECT_EQ(s.peer().link.arrived.octets, length);
}

TEST(Markers, r072_between_two_fpdus)
{
	for (const Terms &t : with_markers_in(true, false)) {
		SCOPED_TRACE(t.text());
		Session s(t);
		uint32_t number = 1;
		s.greet();
		fill_to(s, 512, number);
		// None comes alone: it waits for the next FPDU.
		EXPECT_TRUE(s.peer().link.silent(50));
		fill_to(s, 1024, number);
		EXPECT_EQ(s.peer().link.arrived.between, 1);
		fill_to(s, 2048, number);
		EXPECT_EQ(s.peer().link.arrived.between, 2);
		ASSERT_EQ(s.kiwarp().send(), 0);
		s.peer().expect(send_segment(number, {}));
		EXPECT_EQ(s.peer().link.arrived.between, 3);
	}
}

TEST(Markers, r073_between_pad_and_crc)
{
	for (const Terms &t : with_markers_in(true, false)) {
		SCOPED_TRACE(t.text());
		Session s(t);
		uint32_t number = 1;
		s.greet();
		// The CRC is all that lies behind the marker at 512 and its 4 octets.
		fill_to(s, 512 + 4 + 4, number);
		EXPECT_EQ(s.peer().link.arrived.markers, 2);
		EXPECT_EQ(s.peer().link.arrived.between, 0);
	}
}

TEST(Markers, r074_many_in_one_fpdu)
{
	const Mtu jumbo(9000);

	for (const Terms &t : with_markers_in(true, false)) {
		SCOPED_TRACE(t.text());
		Session s(t);
		s.greet();
		const size_t before = s.peer().link.arrived.markers;
		ASSERT_EQ(s.kiwarp().send({s.own().sge(0, 8000)}), 0);
		s.peer().expect(send_segment(1, Target::fresh(0, 8000)));
		EXPECT_GE(s.peer().link.arrived.markers - before, 15);
	}
}

TEST(Markers, r075_received_markers_reach_no_memory)
{
	for (const bool in : {false, true})
		for (const Terms &t : with_markers_in(in, true)) {
			SCOPED_TRACE(t.text());
			for (const size_t n : {1, 400, 486, 488, 490, 508, 1000, 1400, 8000}) {
				SCOPED_TRACE(n);
				Session s(t);
				const Bytes data = pattern(n);
				s.peer().send(write_segment(s.target().stag(), s.target().address(64), data));
				s.sync(1);
				EXPECT_EQ(s.target().octets(64, n), data);
				EXPECT_TRUE(s.target().untouched_but(64, n));
			}
		}
}

// In every place of the header, and between all else, a marker may come: the message before decides where.
TEST(Markers, r075_marker_at_every_place_of_an_fpdu)
{
	for (const Terms &t : with_markers_in(false, true)) {
		SCOPED_TRACE(t.text());
		// The first FPDU takes the marker at 0 and 512 - distance octets in all.
		for (size_t distance = 0; distance <= 60; distance += 4) {
			SCOPED_TRACE(distance);
			Session s(t);
			const Bytes filling = pattern(512 - distance - 4 - 20);
			const Bytes data = pattern(20);
			s.peer().send(write_segment(s.target().stag(), s.target().address(0), filling));
			s.peer().send(send_segment(1, data));
			s.peer().send(read_segment(1, s.target().stag(), s.target().address(4000), 30));
			s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 0, Target::fresh(4000, 30)));
			EXPECT_EQ(s.target().octets(0, filling.size()), filling);
			EXPECT_EQ(s.kiwarp().received().byte_len, data.size());
			EXPECT_TRUE(s.has_received(0, data));
		}
	}
}

TEST(Markers, r061_frame_with_markers_cut_anywhere)
{
	in_every_way(with_markers_in(true, true), [](Session &s, Cut &cut) {
		// 488 octets in front, so that the one cut has a marker inside.
		const Bytes filling = pattern(464);
		const Bytes data = pattern(30);
		s.peer().send(write_segment(s.target().stag(), s.target().address(0), filling));
		s.peer().deliver(s.peer().framed(send_segment(1, data)), cut);
		s.sync(2);
		EXPECT_TRUE(s.has_received(0, data));
		EXPECT_EQ(s.target().octets(0, filling.size()), filling);
	});
}

TEST(Markers, r076_low_bits_of_a_pointer_are_ignored)
{
	for (const uint32_t bits : {1, 2, 3}) {
		const Spoil flipped = {.marker = [=](uint32_t right) {
			return right ^ bits;
		}};
		in_every_way(
			with_markers_in(false, true),
			[&](Session &s, Cut &cut) {
				const Bytes data = pattern(30);
				s.peer().send(
					write_segment(s.target().stag(), s.target().address(0), pattern(464)), flipped);
				s.peer().deliver(s.peer().framed(send_segment(1, data), flipped), cut);
				s.sync(2);
				EXPECT_TRUE(s.has_received(0, data));
			},
			bits == 3 ? Cuts::all : Cuts::few);
	}
}

TEST(Markers, r077_reserved_half_of_a_marker_is_ignored)
{
	const Spoil reserved = {.marker = [](uint32_t right) {
		return right | 0xa5ff0000;
	}};

	in_every_way(with_markers_in(false, true), [&](Session &s, Cut &cut) {
		const Bytes data = pattern(30);
		s.peer().send(write_segment(s.target().stag(), s.target().address(0), pattern(464)), reserved);
		s.peer().deliver(s.peer().framed(send_segment(1, data), reserved), cut);
		s.sync(2);
		EXPECT_TRUE(s.has_received(0, data));
	});
}

TEST(Markers, r078_pointer_to_a_wrong_place)
{
	Refusal first_one = {.code = {2, 0, 3},
		.headers = Headers::none,
		.segment = [](Session & /*s*/) { return send_segment(1, pattern(10)); },
		.spoil = {.marker = [](uint32_t right) {
			return right ^ 0x10;
		}}};
	refused(first_one, with_markers_in(false, true));

	Refusal within = first_one;
	within.segment = [](Session & /*s*/) {
		return send_segment(1, pattern(30));
	};
	within.before = [](Session &s) {
		s.peer().send(write_segment(s.target().stag(), s.target().address(), Target::fresh(0, 464)));
	};
	within.spoil.marker = [](uint32_t right) {
		return right ^ 0x40;
	};
	for (const Terms &t : with_markers_in(false, true)) {
		// Without a CRC octets are placed as they come, up to the marker; what was placed isn't delivered.
		within.received = t.crc ? 0 : 30;
		refused(within, {t});
	}
}

TEST(Markers, r079_each_direction_for_itself)
{
	for (const bool in : {false, true})
		for (const bool out : {false, true})
			for (const Terms &t : with_markers_in(in, out)) {
				SCOPED_TRACE(t.text());
				Session s(t);
				const Bytes data = pattern(3000);
				s.peer().send(write_segment(s.target().stag(), s.target().address(0), data));
				s.peer().send(read_segment(1, s.target().stag(), s.target().address(0), 3000));
				EXPECT_EQ(s.peer().message().payload, data);
				ASSERT_EQ(s.kiwarp().send({s.own().sge(0, 5000)}), 0);
				EXPECT_EQ(s.peer().message().payload, Target::fresh(0, 5000));
				EXPECT_EQ(s.peer().link.arrived.markers > 0, in);
				s.sync(1);
			}
}

TEST(Markers, r065_ulpdus_leave_room_for_them)
{
	const Mtu jumbo(9000);

	for (const int mss : {536, 1448, 1460, 8948}) {
		SCOPED_TRACE(mss);
		Session s({.crc = true, .markers_in = true, .socket = [=](int fd) {
				   const int size = mss + 12; // TCP's time stamps
				   ASSERT_EQ(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &size, sizeof(size)), 0);
			   }});
		s.greet();
		ASSERT_EQ(s.kiwarp().write({s.own().sge(0, Target::size)}, {.remote = 5, .rkey = 6}), 0);
		const Peer::Message m = s.peer().message();
		EXPECT_EQ(m.longest, mss - (6 + 4 * ((mss + 511) / 512) + mss % 4));
		EXPECT_EQ(m.payload, Target::fresh(0, Target::size));
	}
}

} // namespace
