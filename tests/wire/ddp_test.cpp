// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Segments: what every one that kiwarp sends has to be, and what it does with those it gets.
#include "session.hpp"

namespace {

const Bytes hello = {'h', 'e', 'l', 'l', 'o'};
constexpr uint8_t ddp_reserved = 0x3c;

Code tagged_error(uint8_t code)
{
	return {1, 1, code};
}

Code untagged_error(uint8_t code)
{
	return {1, 2, code};
}

// --- control octet ---

TEST(Ddp, r080_r111_reserved_bits_are_ignored)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		Bytes write = write_segment(s.target().stag(), s.target().address(), hello);
		Bytes send = send_segment(1, hello);
		Bytes read = read_segment(1, s.target().stag(), s.target().address(), 5);
		for (Bytes *b : {&write, &send, &read}) {
			(*b)[0] |= ddp_reserved;
			(*b)[1] |= 0x30;
		}
		s.peer().deliver(s.peer().framed(write) + s.peer().framed(send) + s.peer().framed(read), cut);
		s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 0, hello));
		s.sync(2);
		EXPECT_TRUE(s.has_received(0, hello));
	});
}

// All that kiwarp ever sends, octet by octet: reserved bits, versions, opcodes, queue, fields that must be zero
TEST(Ddp, r080_r081_r082_r083_r111_r113_r115_headers_that_it_sends)
{
	for (const Terms &t : all_terms()) {
		SCOPED_TRACE(t.text());
		Session s(t);
		const Bytes data = Target::fresh(0, 5);
		const vt::Sges five = {s.own().sge(0, 5)};

		s.greet();
		ASSERT_EQ(s.kiwarp().send(five), 0);
		ASSERT_EQ(s.kiwarp().send(five, {.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED}), 0);
		ASSERT_EQ(s.kiwarp().post(IBV_WR_SEND_WITH_INV, five, {.invalidate = 0x12345678}), 0);
		ASSERT_EQ(s.kiwarp().post(IBV_WR_SEND_WITH_INV, five,
				  {.flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, .invalidate = 0x9abcdef0}),
			0);
		ASSERT_EQ(s.kiwarp().write(five, {.remote = 0x123456789abcdef0, .rkey = 0x87654321}), 0);
		ASSERT_EQ(s.kiwarp().read(five, {.remote = 0x0fedcba987654321, .rkey = 0x13579bdf}), 0);

		s.peer().expect(untagged_segment(op_send, 0, 1, 0, data));
		s.peer().expect(untagged_segment(op_send_se, 0, 2, 0, data));
		s.peer().expect(untagged_segment(op_send_inv, 0, 3, 0, data, last | ddp_1, rdmap_1, 0x12345678));
		s.peer().expect(untagged_segment(op_send_se_inv, 0, 4, 0, data, last | ddp_1, rdmap_1, 0x9abcdef0));
		s.peer().expect(tagged_segment(op_write, 0x87654321, 0x123456789abcdef0, data));
		s.peer().expect(read_segment({.sink_stag = five[0].lkey,
			.sink_offset = five[0].addr,
			.size = 5,
			.stag = 0x13579bdf,
			.offset = 0x0fedcba987654321}));
		s.peer().send(read_segment({.sink_stag = 0x24680ace,
			.sink_offset = 0x1122334455667788,
			.size = 5,
			.stag = s.target().stag(),
			.offset = s.target().address()}));
		s.peer().expect(tagged_segment(op_response, 0x24680ace, 0x1122334455667788, Target::fresh(0, 5)));
		ASSERT_EQ(s.kiwarp().modify(IBV_QPS_SQE), 0);
		s.peer().expect(terminate_segment(0, 0, 0xff));
	}
}

TEST(Ddp, r081_version_of_a_tagged_segment)
{
	for (const uint8_t version : {0, 2, 3})
		refused({.code = tagged_error(4),
				.segment =
					[=](Session &s) {
						return tagged_segment(op_write, s.target().stag(), s.target().address(),
							hello, tagged | last | version);
					}},
			all_terms(), version ? Cuts::few : Cuts::all);
}

TEST(Ddp, r081_version_of_an_untagged_segment)
{
	for (const uint8_t version : {0, 2, 3})
		refused({.code = untagged_error(6),
				.segment =
					[=](Session & /*s*/) {
						return untagged_segment(op_send, 0, 1, 0, hello, last | version);
					}},
			all_terms(), version ? Cuts::few : Cuts::all);
}

// --- messages of several segments, sent ---

TEST(Ddp, r082_r084_r086_r087_segments_of_a_long_send)
{
	for (const Terms &t : all_terms()) {
		SCOPED_TRACE(t.text());
		Session s(t);
		s.greet();
		// Peer::message() compares the headers of a message's segments.
		for (uint32_t n = 1; n <= 3; n++) {
			ASSERT_EQ(
				s.kiwarp().post(IBV_WR_SEND_WITH_INV, {s.own().sge(n, 10000)}, {.invalidate = n << 8}),
				0);
			const Peer::Message m = s.peer().message();
			EXPECT_GT(m.segments, 6);
			EXPECT_EQ(m.payload, Target::fresh(n, 10000));
			Bytes header = untagged_segment(op_send_inv, 0, n, 0, {}, ddp_1, rdmap_1, n << 8);
			EXPECT_EQ(m.header, header);
		}
	}
}

TEST(Ddp, r082_r086_r088_segments_of_a_long_write)
{
	for (const Terms &t : all_terms()) {
		SCOPED_TRACE(t.text());
		Session s(t);
		s.greet();
		ASSERT_EQ(s.kiwarp().write({s.own().sge(0, 10000)}, {.remote = 0xfffff000, .rkey = 0x77}), 0);
		const Peer::Message m = s.peer().message();
		EXPECT_GT(m.segments, 6);
		EXPECT_EQ(m.payload, Target::fresh(0, 10000));
		EXPECT_EQ(m.header, tagged_segment(op_write, 0x77, 0xfffff000, {}, tagged | ddp_1));
	}
}

TEST(Ddp, r082_r086_r088_segments_of_a_long_response)
{
	for (const Terms &t : all_terms()) {
		SCOPED_TRACE(t.text());
		Session s(t);
		s.peer().send(read_segment({.sink_stag = 0x99,
			.sink_offset = 0xffffffff,
			.size = 10000,
			.stag = s.target().stag(),
			.offset = s.target().address(1)}));
		const Peer::Message m = s.peer().message();
		EXPECT_GT(m.segments, 6);
		EXPECT_EQ(m.payload, Target::fresh(1, 10000));
		EXPECT_EQ(m.header, tagged_segment(op_response, 0x99, 0xffffffff, {}, tagged | ddp_1));
	}
}

TEST(Ddp, r082_r089_empty_messages_are_one_segment)
{
	Session s({});

	s.greet();
	ASSERT_EQ(s.kiwarp().send(), 0);
	ASSERT_EQ(s.kiwarp().write({}, {.remote = 1, .rkey = 2}), 0);
	ASSERT_EQ(s.kiwarp().read({}, {.remote = 3, .rkey = 4}), 0);
	ASSERT_EQ(s.kiwarp().send({}, {.id = 9}), 0);
	s.peer().expect(send_segment(1, {}));
	s.peer().expect(tagged_segment(op_write, 2, 1, {}));
	const Bytes read = s.peer().next();
	EXPECT_EQ(get(&read[30], 4), 0);
	s.peer().expect(send_segment(2, {}));
}

// --- messages of several segments, received ---

Bytes send_part(uint32_t number, uint32_t offset, const Bytes &all, size_t n, bool last_one)
{
	return untagged_segment(op_send, 0, number, offset, Bytes(all.data() + offset, all.data() + offset + n),
		last_one ? last | ddp_1 : ddp_1);
}

TEST(Ddp, r108_length_of_a_message_is_that_of_all_its_segments)
{
	for (const size_t tail : {0, 1, 20})
		in_every_way(
			all_terms(),
			[&](Session &s, Cut &cut) {
				const Bytes all = pattern(30 + tail);
				s.peer().deliver(s.peer().framed(send_part(1, 0, all, 20, false)) +
							 s.peer().framed(send_part(1, 20, all, 10, false)) +
							 s.peer().framed(send_part(1, 30, all, tail, true)),
					cut);
				const ibv_wc wc = s.kiwarp().received();
				EXPECT_WC(wc, 0, IBV_WC_SUCCESS);
				EXPECT_EQ(wc.byte_len, all.size());
				EXPECT_TRUE(s.has_received(0, all));
				EXPECT_TRUE(s.nothing_received(all.size()));
			},
			tail == 1 ? Cuts::all : Cuts::few);
}

// Tagged segments may come between those of an untagged message, RFC 5041 doesn't forbid it.
TEST(Ddp, r109_messages_are_delivered_in_order_and_once)
{
	for (Terms t : all_terms()) {
		t.receives = 8;
		Session s(t);
		const Bytes all = pattern(60);
		std::vector<ibv_wc> done;
		const auto look = [&] {
			for (const ibv_wc &wc : vt::poll_all(s.kiwarp().recv_cq()))
				done.push_back(wc);
		};
		for (uint32_t n = 1; n <= 8; n++)
			for (uint32_t part = 0; part < 3; part++) {
				s.peer().send(send_part(n, part * 20, all, 20, part == 2));
				s.peer().send(
					write_segment(s.target().stag(), s.target().address(n * 8), {uint8_t(n)}));
				look();
				EXPECT_LE(done.size(), part == 2 ? n : n - 1);
			}
		vt::wait_until([&] { return look(), done.size() >= 8; }, "all messages");
		for (int n = 0; n < 8; n++) {
			EXPECT_WC(done[n], n, IBV_WC_SUCCESS);
			EXPECT_EQ(done[n].byte_len, 60);
			EXPECT_TRUE(s.has_received(n, all));
		}
		s.close();
		look();
		EXPECT_EQ(done.size(), 8);
	}
}

// --- untagged: number, offset, buffer ---

TEST(Ddp, r090_number_that_is_not_the_next)
{
	refused({.code = untagged_error(3), .segment = [](Session & /*s*/) {
			 return send_segment(2, hello);
		 }});
	for (const uint32_t number : {0u, 3u, 0x80000001u, 0xffffffffu})
		refused_too({.code = untagged_error(3), .segment = [=](Session & /*s*/) {
				     return send_segment(number, hello);
			     }});
	// Reads have numbers of their own.
	refused({.code = untagged_error(3), .segment = [](Session &s) {
			 return read_segment(2, s.target().stag(), s.target().address(), 4);
		 }});
}

TEST(Ddp, r091_number_that_was_there_already)
{
	refused({.code = untagged_error(3),
		.segment = [](Session & /*s*/) { return send_segment(1, hello); },
		.before = [](Session &s) { s.sync(1); },
		.next = 2});
	refused_too({.code = untagged_error(3),
		.segment = [](Session &s) { return read_segment(1, s.target().stag(), s.target().address(), 4); },
		.before =
			[](Session &s) {
				s.peer().send(read_segment(1, 0, 0, 0));
				s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 0, {}));
			}});
}

TEST(Ddp, r092_offset_that_is_not_the_next)
{
	refused({.code = untagged_error(4), .segment = [](Session & /*s*/) {
			 return untagged_segment(op_send, 0, 1, 1, hello);
		 }});
	for (const uint32_t offset : {0u, 39u, 41u, 0xfffffff0u})
		refused_too({.code = untagged_error(4),
			.segment = [=](Session & /*s*/) { return untagged_segment(op_send, 0, 1, offset, hello); },
			.before =
				[](Session &s) {
					s.peer().send(untagged_segment(op_send, 0, 1, 0, pattern(40), ddp_1));
				},
			.received = 40});
}

TEST(Ddp, r093_no_receive_request)
{
	std::vector<Terms> none = all_terms();

	for (Terms &t : none)
		t.receives = 0;
	refused({.code = untagged_error(2),
			.segment =
				[](Session & /*s*/) {
					return send_segment(1, hello);
				}},
		none);
	refused_too({.code = untagged_error(2),
			    .segment =
				    [](Session & /*s*/) {
					    return send_segment(1, {});
				    }},
		none);
	for (Terms &t : none)
		t.receives = 2;
	refused_too({.code = untagged_error(2),
			    .segment = [](Session & /*s*/) { return send_segment(3, hello); },
			    .before =
				    [](Session &s) {
					    s.sync(1);
					    s.sync(2);
				    },
			    .next = 4},
		none);
}

TEST(Ddp, r094_message_one_octet_too_long)
{
	const uint32_t room = Terms{}.receive_size;

	refused_too({.code = untagged_error(5), .segment = [=](Session & /*s*/) {
			     return send_segment(1, pattern(room + 1));
		     }});
	refused({.code = untagged_error(5),
		.segment = [=](Session & /*s*/) { return untagged_segment(op_send, 0, 1, room - 4, hello); },
		.before =
			[=](Session &s) {
				s.peer().send(untagged_segment(op_send, 0, 1, 0, pattern(room - 4), ddp_1));
			},
		.received = room - 4});
}

TEST(Ddp, r094_message_that_just_fits)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		const Bytes all = pattern(s.terms.receive_size);
		s.peer().send(send_part(1, 0, all, all.size() - 5, false));
		s.peer().deliver(s.peer().framed(send_part(1, all.size() - 5, all, 5, true)), cut);
		EXPECT_EQ(s.kiwarp().received().byte_len, all.size());
		EXPECT_TRUE(s.has_received(0, all));
		EXPECT_TRUE(s.nothing_received(all.size()));
	});
}

TEST(Ddp, r095_queue_that_is_none_or_another_opcodes)
{
	refused({.code = untagged_error(1), .segment = [](Session & /*s*/) {
			 return untagged_segment(op_send, 4, 1, 0, hello);
		 }});
	for (const uint32_t queue : {1u, 2u, 3u, 9u, 0x100u, 0xffffffffu})
		refused_too({.code = untagged_error(1), .segment = [=](Session & /*s*/) {
				     return untagged_segment(op_send, queue, 1, 0, hello);
			     }});
	for (const uint32_t queue : {0u, 2u, 3u, 4u})
		refused_too({.code = untagged_error(1), .segment = [=](Session &s) {
				     Bytes b = read_segment(1, s.target().stag(), s.target().address(), 4);
				     b[9] = uint8_t(queue);
				     return b;
			     }});
}

// --- tagged: STag, bounds, rights ---

Refusal refused_write(uint8_t code, const std::function<Bytes(Session &)> &segment)
{
	return {.code = tagged_error(code), .segment = segment};
}

TEST(Ddp, r096_write_to_an_unknown_index)
{
	for (const uint32_t change : {0x100u, 0x7fff0000u, 0x80000000u})
		refused_too(refused_write(0, [=](Session &s) {
			return write_segment(s.target().stag() ^ change, s.target().address(), hello);
		}));
	refused(refused_write(0, [](Session &s) { return write_segment(0, s.target().address(), hello); }));
}

TEST(Ddp, r097_write_with_a_wrong_key)
{
	refused(refused_write(
		0, [](Session &s) { return write_segment(s.target().stag() ^ 1, s.target().address(), hello); }));
	for (const uint32_t change : {0x80u, 0xffu})
		refused_too(refused_write(0, [=](Session &s) {
			return write_segment(s.target().stag() ^ change, s.target().address(), hello);
		}));
}

TEST(Ddp, r098_write_to_a_region_that_is_no_more)
{
	refused(refused_write(0, [](Session &s) {
		const uint32_t stag = s.target().stag();
		s.target().deregister();
		return write_segment(stag, s.target().address(), hello);
	}));
}

TEST(Ddp, r099_write_to_a_foreign_protection_domain)
{
	for (const Terms &t : all_terms())
		for (const size_t at : {Cut::whole, Cut::bytewise}) {
			Session s(t);
			Cut cut = {.at = at};
			const vt::Pd foreign = vt::make_pd(s.kiwarp().context());
			const Target other(foreign.get());
			const Bytes write = write_segment(other.stag(), other.address(), hello);
			s.peer().deliver(s.peer().framed(write), cut);
			s.expect_terminate(terminate_segment(tagged_error(2), Headers::ddp, write));
			EXPECT_TRUE(other.untouched_but());
		}
}

TEST(Ddp, r100_write_out_of_bounds)
{
	refused(refused_write(
		1, [](Session &s) { return write_segment(s.target().stag(), s.target().address() - 1, hello); }));
	refused(refused_write(1, [](Session &s) {
		return write_segment(s.target().stag(), s.target().address(Target::size - 4), hello);
	}));

	struct Range {
		int64_t offset;
		size_t octets;
	};

	for (const Range &r :
		{Range{-1, 1}, {Target::size, 1}, {Target::size + 100, 5}, {-100000, 5}, {-5, 5}, {-2, 1000}})
		refused_too(refused_write(1, [=](Session &s) {
			return write_segment(s.target().stag(), s.target().address() + r.offset, pattern(r.octets));
		}));
}

TEST(Ddp, r101_write_that_just_fills_the_region)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const Bytes all = pattern(Target::size);
		s.peer().send(write_segment(s.target().stag(), s.target().address(), all));
		s.sync(1);
		EXPECT_EQ(s.target().octets(0, all.size()), all);
		EXPECT_TRUE(s.target().untouched_but(0, all.size()));
	}
	// Its first and its last octet
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		const Bytes one = {'x'};
		s.peer().deliver(s.peer().framed(write_segment(s.target().stag(), s.target().address(), one)) +
					 s.peer().framed(write_segment(
						 s.target().stag(), s.target().address(Target::size - 1), one)),
			cut);
		s.sync(1);
		EXPECT_EQ(s.target().octets(0, 1), one);
		EXPECT_EQ(s.target().octets(Target::size - 1, 1), one);
	});
}

TEST(Ddp, r102_write_around_the_end_of_all_addresses)
{
	refused(refused_write(
		3, [](Session &s) { return write_segment(s.target().stag(), ~uint64_t{3}, pattern(8)); }));
	for (const uint64_t offset : {~uint64_t{6}, ~uint64_t{0}})
		refused_too(refused_write(
			3, [=](Session &s) { return write_segment(s.target().stag(), offset, pattern(8)); }));
}

TEST(Ddp, r103_write_without_the_right)
{
	for (const int access : {0, int(IBV_ACCESS_LOCAL_WRITE), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ}) {
		std::vector<Terms> terms = all_terms();
		for (Terms &t : terms)
			t.access = access;
		refused_too({.code = {0, 1, 2},
				    .segment =
					    [](Session &s) {
						    return write_segment(
							    s.target().stag(), s.target().address(), hello);
					    }},
			terms);
	}
}

TEST(Ddp, r104_empty_write_is_not_checked)
{
	for (const uint32_t stag : {0u, 1u, 0xdeadbeefu, 0xffffffffu})
		in_every_way(all_terms(), [=](Session &s, Cut &cut) {
			s.peer().deliver(s.peer().framed(write_segment(stag, ~uint64_t{0}, {})), cut);
			s.sync(1);
			EXPECT_TRUE(s.target().untouched_but());
		});
}

TEST(Ddp, r105_write_that_is_bad_in_its_second_segment)
{
	const Bytes all = pattern(100);

	refused({.code = tagged_error(1),
		.segment =
			[](Session &s) {
				return write_segment(s.target().stag(), s.target().address(Target::size), hello);
			},
		.before =
			[=](Session &s) {
				s.peer().send(tagged_segment(
					op_write, s.target().stag(), s.target().address(), all, tagged | ddp_1));
			},
		.written = all.size()});
	// What was good stays.
	Session s({});
	s.peer().send(tagged_segment(op_write, s.target().stag(), s.target().address(), all, tagged | ddp_1));
	const Bytes bad = write_segment(s.target().stag() ^ 1, s.target().address(100), hello);
	s.peer().send(bad);
	s.expect_terminate(terminate_segment(tagged_error(0), Headers::ddp, bad));
	EXPECT_EQ(s.target().octets(0, 100), all);
}

TEST(Ddp, r106_region_that_goes_between_two_segments)
{
	const Bytes all = pattern(100);

	refused({.code = tagged_error(0),
		.segment =
			[](Session &s) {
				const uint32_t stag = s.target().stag();
				s.target().deregister();
				return write_segment(stag, s.target().address(100), hello);
			},
		.before =
			[=](Session &s) {
				s.peer().send(tagged_segment(
					op_write, s.target().stag(), s.target().address(), all, tagged | ddp_1));
				s.sync(1);
			},
		.next = 2,
		.written = all.size()});
}

// refused() has this behind every error, too.
TEST(Ddp, r107_after_an_error_all_else_is_dropped)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const Bytes bad = write_segment(s.target().stag() ^ 1, s.target().address(), hello);
		s.peer().send(bad);
		for (uint32_t n = 1; n <= 20; n++) {
			s.peer().send(send_segment(1, hello));
			s.peer().send(write_segment(s.target().stag(), s.target().address(), hello));
			s.peer().send(read_segment(1, s.target().stag(), s.target().address(), 4));
			s.peer().send(send_segment(77, hello));
			s.peer().send(send_segment(1, hello), {.crc = 1});
		}
		s.expect_terminate(terminate_segment(tagged_error(0), Headers::ddp, bad));
		EXPECT_TRUE(s.target().untouched_but());
		EXPECT_TRUE(s.nothing_received());
	}
}

} // namespace
