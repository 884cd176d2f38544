// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// RDMAP: opcodes, Reads, Sends.
#include "session.hpp"

namespace {

Code protection_error(uint8_t code)
{
	return {0, 1, code};
}

Code operation_error(uint8_t code)
{
	return {0, 2, code};
}

// --- version and opcode ---

TEST(Rdmap, r110_version)
{
	for (const uint8_t version : {0x00, 0x80, 0xc0}) {
		refused({.code = operation_error(5),
				.segment =
					[=](Session & /*s*/) {
						return untagged_segment(op_send, 0, 1, 0, hello, last | ddp_1, version);
					}},
			all_terms(), version ? Cuts::few : Cuts::all);
		refused({.code = operation_error(5),
				.segment =
					[=](Session &s) {
						Bytes b = write_segment(s.target().stag(), s.target().address(), hello);
						b[1] = version | op_write;
						return b;
					}},
			all_terms(), version ? Cuts::few : Cuts::all);
	}
}

TEST(Rdmap, r112_r167_opcodes_that_are_not_known)
{
	refused({.code = operation_error(6), .segment = [](Session & /*s*/) {
			 return untagged_segment(0xc, 0, 1, 0, hello);
		 }});
	for (uint8_t op = 0x8; op <= 0xf; op++) {
		refused_too({.code = operation_error(6), .segment = [=](Session & /*s*/) {
				     return untagged_segment(op, 0, 1, 0, pattern(8));
			     }});
		refused_too({.code = operation_error(6), .segment = [=](Session &s) {
				     return tagged_segment(op, s.target().stag(), s.target().address(), hello);
			     }});
	}
	// Where and as long as RFC 7306 wants them
	refused_too({.code = operation_error(6), .segment = [](Session & /*s*/) {
			     return untagged_segment(0xa, 1, 1, 0, pattern(52));
		     }});
	refused_too({.code = operation_error(6), .segment = [](Session & /*s*/) {
			     return untagged_segment(0xb, 3, 1, 0, pattern(12));
		     }});
}

TEST(Rdmap, r114_opcode_on_the_wrong_kind_of_buffer)
{
	for (const uint8_t op : {op_read, op_send, op_send_inv, op_send_se, op_send_se_inv, op_terminate})
		refused_too({.code = operation_error(6), .segment = [=](Session &s) {
				     return tagged_segment(op, s.target().stag(), s.target().address(), hello);
			     }});
	for (const uint8_t op : {op_write, op_response})
		refused_too({.code = operation_error(6), .segment = [=](Session & /*s*/) {
				     return untagged_segment(op, 0, 1, 0, hello);
			     }});
}

TEST(Rdmap, r115_invalidate_field_of_others_is_ignored)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		constexpr uint32_t garbage = 0xa5a5a5a5;
		Bytes read = read_segment(1, s.target().stag(), s.target().address(), 5);
		for (int i = 2; i < 6; i++)
			read[i] = 0xa5;
		s.peer().deliver(
			s.peer().framed(untagged_segment(op_send, 0, 1, 0, hello, last | ddp_1, rdmap_1, garbage)) +
				s.peer().framed(untagged_segment(
					op_send_se, 0, 2, 0, hello, last | ddp_1, rdmap_1, s.target().stag())) +
				s.peer().framed(read),
			cut);
		s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 0, Target::fresh(0, 5)));
		for (int n = 0; n < 2; n++) {
			const ibv_wc wc = s.kiwarp().received();
			EXPECT_WC(wc, n, IBV_WC_SUCCESS);
			EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_INV, 0);
		}
		// The region is still there.
		s.peer().send(write_segment(s.target().stag(), s.target().address(), hello));
		s.sync(3);
		EXPECT_EQ(s.target().octets(0, 5), hello);
	});
}

// --- Reads that kiwarp answers ---

Read read_of(Session &s, uint32_t size)
{
	return {.sink_stag = 0x1234abcd,
		.sink_offset = 0xfedcba9876543210,
		.size = size,
		.stag = s.target().stag(),
		.offset = s.target().address()};
}

Bytes answer(const Read &r, const Bytes &data)
{
	return tagged_segment(op_response, r.sink_stag, r.sink_offset, data);
}

TEST(Rdmap, r117_response_goes_where_the_request_says)
{
	for (const uint32_t n : {1u, 5u})
		in_every_way(
			all_terms(),
			[=](Session &s, Cut &cut) {
				const Read r = read_of(s, n);
				s.peer().deliver(s.peer().framed(read_segment(r)), cut);
				s.peer().expect(answer(r, Target::fresh(0, n)));
			},
			n == 5 ? Cuts::all : Cuts::few);
}

TEST(Rdmap, r118_empty_read_is_not_checked)
{
	for (const uint32_t stag : {0u, 0xdeadbeefu})
		in_every_way(
			all_terms(),
			[=](Session &s, Cut &cut) {
				Read r = read_of(s, 0);
				r.stag = stag;
				r.offset = ~uint64_t{0};
				s.peer().deliver(s.peer().framed(read_segment(r)), cut);
				s.peer().expect(answer(r, {}));
				s.sync(1);
			},
			stag ? Cuts::all : Cuts::few);
}

TEST(Rdmap, r119_empty_read_has_a_number_and_a_place)
{
	Session s({.reads = 2});
	const Read r = read_of(s, 0);

	s.peer().send(read_segment(r));
	s.peer().expect(answer(r, {}));
	const Bytes repeated = read_segment(r);
	s.peer().send(repeated);
	s.expect_terminate(terminate_segment({1, 2, 3}, Headers::ddp, repeated));

	// Ours: no more than the negotiated two are under way.
	Session ours({.kiwarp_connects = true, .reads = 2});
	for (uint64_t id = 0; id < 4; id++)
		ASSERT_EQ(ours.kiwarp().read({}, {.id = id}), 0);
	for (uint32_t n = 1; n <= 2; n++)
		EXPECT_EQ(get(&ours.peer().next()[10], 4), n);
	EXPECT_TRUE(ours.peer().link.silent(100));
	ours.peer().send(tagged_segment(op_response, 0, 0, {}));
	EXPECT_EQ(get(&ours.peer().next()[10], 4), 3);
}

Refusal refused_read(uint8_t code, const std::function<void(Session &, Read &)> &spoil)
{
	return {.code = protection_error(code), .headers = Headers::rdmap, .segment = [=](Session &s) {
			Read r = read_of(s, 16);
			spoil(s, r);
			return read_segment(r);
		}};
}

TEST(Rdmap, r120_read_of_an_unknown_region)
{
	for (const uint32_t change : {0x01u, 0x100u, 0x7fff0000u})
		refused_too(refused_read(0, [=](Session & /*s*/, Read &r) { r.stag ^= change; }));
	refused(refused_read(0, [](Session &s, Read & /*r*/) { s.target().deregister(); }));
}

TEST(Rdmap, r121_read_without_the_right)
{
	for (const int access : {0, int(IBV_ACCESS_LOCAL_WRITE), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE}) {
		std::vector<Terms> terms = all_terms();
		for (Terms &t : terms)
			t.access = access;
		refused_too(refused_read(2, [](Session & /*s*/, Read & /*r*/) {}), terms);
	}
}

TEST(Rdmap, r122_read_of_a_foreign_protection_domain)
{
	for (const Terms &t : all_terms())
		for (const size_t at : {Cut::whole, Cut::bytewise}) {
			Session s(t);
			Cut cut = {.at = at};
			const vt::Pd foreign = vt::make_pd(s.kiwarp().context());
			const Target other(foreign.get());
			const Bytes read = read_segment({.size = 1, .stag = other.stag(), .offset = other.address()});
			s.peer().deliver(s.peer().framed(read), cut);
			s.expect_terminate(terminate_segment(protection_error(3), Headers::rdmap, read));
		}
}

TEST(Rdmap, r123_read_out_of_bounds)
{
	for (const int64_t offset : {int64_t{-1}, int64_t{Target::size - 15}, int64_t{Target::size}, int64_t{-100000}})
		refused_too(refused_read(1, [=](Session & /*s*/, Read &r) { r.offset += offset; }));
	refused(refused_read(1, [](Session & /*s*/, Read &r) { r.size = Target::size + 1; }));
	refused_too(refused_read(1, [](Session & /*s*/, Read &r) { r.size = 0xffffffff; }));
}

TEST(Rdmap, r123_read_around_the_end_of_all_addresses)
{
	for (const uint64_t offset : {~uint64_t{0}, ~uint64_t{14}})
		refused(refused_read(4, [=](Session & /*s*/, Read &r) { r.offset = offset; }));
}

TEST(Rdmap, r124_responses_in_the_order_of_the_requests)
{
	for (Terms t : all_terms()) {
		t.reads = 32;
		Session s(t);
		Bytes all;
		for (uint32_t n = 1; n <= 32; n++)
			all = all + s.peer().framed(read_segment({.number = n,
					    .sink_stag = n,
					    .size = n * 100 % 1300,
					    .stag = s.target().stag(),
					    .offset = s.target().address(n)}));
		s.peer().link.send(all);
		for (uint32_t n = 1; n <= 32; n++)
			s.peer().expect(tagged_segment(op_response, n, 0, Target::fresh(n, n * 100 % 1300)));
	}
}

// So much that Responses pile up while nobody takes them, and more Requests than are agreed on
TEST(Rdmap, r125_reads_beyond_what_was_agreed_on)
{
	for (const uint32_t depth : {1u, 4u}) {
		Session other({});
		Session s({.crc = false, .reads = uint8_t(depth)});
		vt::Region much(s.kiwarp().pd(), 16 << 20);
		Bytes beyond;

		s.peer().link.receive_little();
		// The first one is never done before they are all there.
		for (uint32_t n = 1; n <= depth; n++)
			s.peer().send(read_segment({.number = n,
				.size = uint32_t(much.size()),
				.stag = much.rkey(),
				.offset = much.address()}));
		s.sync(1); // so many are in order
		beyond = read_segment({.number = depth + 1, .size = 0});
		s.peer().send(beyond);
		s.kiwarp().wait_state(IBV_QPS_SQE);
		// Its beginning is under way and can't be taken back; then comes the Terminate, and nothing else.
		Bytes b = s.peer().next();
		while ((b[1] & 0xf) == op_response)
			b = s.peer().next();
		EXPECT_EQ(b, terminate_segment({1, 2, 2}, Headers::ddp, beyond));
		s.peer().expect_end();
		other.sync(1);
	}
}

TEST(Rdmap, r127_read_behind_a_send_comes_after_it)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const Bytes all = pattern(20);
		// The message lacks its last segment when the Request is behind it in the stream.
		s.peer().send(untagged_segment(op_send, 0, 1, 0, all, ddp_1));
		s.peer().send(untagged_segment(op_send, 0, 1, 20, all));
		s.peer().send(read_segment(1, s.target().stag(), s.target().address(), 5));
		s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 0, Target::fresh(0, 5)));
		// At this point the message has been delivered.
		const auto done = vt::poll_all(s.kiwarp().recv_cq());
		ASSERT_EQ(done.size(), 1);
		EXPECT_WC(done[0], 0, IBV_WC_SUCCESS);
	}
}

TEST(Rdmap, r128_read_sees_the_write_before_it)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		s.peer().deliver(s.peer().framed(write_segment(s.target().stag(), s.target().address(3), hello)) +
					 s.peer().framed(read_segment(1, s.target().stag(), s.target().address(3), 5)),
			cut);
		s.peer().expect(tagged_segment(op_response, Read{}.sink_stag, 0, hello));
	});
}

// --- Reads that kiwarp asks for ---

// One Read of kiwarp's, as it is on the wire
Bytes ask(Session &s, uint32_t octets, uint64_t id = 1, unsigned int flags = IBV_SEND_SIGNALED)
{
	EXPECT_EQ(s.kiwarp().read(
			  {s.target().sge(0, octets)}, {.id = id, .flags = flags, .remote = 0x1000, .rkey = 0x2000}),
		0);
	return s.peer().next();
}

uint32_t sink_stag(const Bytes &read)
{
	return uint32_t(get(&read[18], 4));
}

uint64_t sink_offset(const Bytes &read)
{
	return get(&read[22], 8);
}

// A part of the answer
Bytes part(const Bytes &read, uint64_t offset, const Bytes &data, bool last_one)
{
	return tagged_segment(
		op_response, sink_stag(read), sink_offset(read) + offset, data, tagged | ddp_1 | (last_one ? last : 0));
}

TEST(Rdmap, r116_fields_of_a_read_request)
{
	Session s({});

	s.greet();
	ASSERT_EQ(s.kiwarp().read({s.target().sge(100, 50)}, {.remote = 0x1122334455667788, .rkey = 0xaabbccdd}), 0);
	s.peer().expect(read_segment({.sink_stag = s.target().stag(),
		.sink_offset = s.target().address(100),
		.size = 50,
		.stag = 0xaabbccdd,
		.offset = 0x1122334455667788}));
}

TEST(Rdmap, r126_no_more_reads_than_agreed_on)
{
	for (Terms t : all_terms()) {
		t.reads = 3;
		Session s(t);
		s.greet();
		for (uint64_t id = 0; id < 4; id++)
			ASSERT_EQ(s.kiwarp().read({s.target().sge(id * 8, 8)}, {.id = id, .remote = 1, .rkey = 2}), 0);
		ASSERT_EQ(s.kiwarp().send({}, {.id = 4}), 0);
		std::vector<Bytes> reads;
		for (int n = 0; n < 3; n++)
			reads.push_back(s.peer().next());
		// Neither the fourth nor what is behind it
		EXPECT_TRUE(s.peer().link.silent(100));
		s.peer().send(part(reads[0], 0, Bytes(8, 1), true));
		const Bytes fourth = s.peer().next();
		EXPECT_EQ(fourth[1] & 0xf, op_read);
		EXPECT_EQ(get(&fourth[10], 4), 4);
		s.peer().expect(send_segment(1, {}));
	}
}

TEST(Rdmap, r129_read_completes_with_its_last_segment)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		const Bytes data = pattern(60);
		s.greet();
		const Bytes read = ask(s, 60);
		s.peer().send(part(read, 0, first(data, 25), false));
		s.peer().send(part(read, 25, Bytes(data.begin() + 25, data.begin() + 40), false));
		s.sync(1); // all that has arrived
		EXPECT_TRUE(vt::poll_all(s.kiwarp().send_cq()).empty());
		const Bytes end = s.peer().framed(part(read, 40, Bytes(data.begin() + 40, data.end()), true));
		s.peer().deliver(end, cut);
		const ibv_wc wc = s.kiwarp().sent();
		EXPECT_WC(wc, 1, IBV_WC_SUCCESS);
		EXPECT_EQ(s.target().octets(0, 60), data);
		EXPECT_TRUE(s.target().untouched_but(0, 60));
	});
}

// A Response has to be what was asked for: nothing else may reach the sink, nothing beyond it.
TEST(Rdmap, r129_response_that_is_not_the_one_asked_for)
{
	struct Wrong {
		const char *what;
		Code code;
		std::function<Bytes(const Bytes &read)> segment;
	};
	const Wrong all[] = {
		{"STag", {1, 1, 0},
			[](const Bytes &r) {
				return tagged_segment(op_response, sink_stag(r) ^ 1, sink_offset(r), Bytes(16, 1));
			}},
		{"offset", {1, 1, 1},
			[](const Bytes &r) {
				return part(r, 4, Bytes(12, 1), true);
			}},
		{"too long", {1, 1, 1},
			[](const Bytes &r) {
				return part(r, 0, Bytes(17, 1), true);
			}},
		{"too long, not the last", {1, 1, 1},
			[](const Bytes &r) {
				return part(r, 0, Bytes(17, 1), false);
			}},
		{"too short", {1, 1, 1},
			[](const Bytes &r) {
				return part(r, 0, Bytes(15, 1), true);
			}},
		{"empty", {1, 1, 1},
			[](const Bytes &r) {
				return part(r, 0, {}, true);
			}},
	};

	for (const Wrong &wrong : all) {
		SCOPED_TRACE(wrong.what);
		Bytes read;
		refused_too({.code = wrong.code,
			.segment = [&](Session & /*s*/) { return wrong.segment(read); },
			.before =
				[&](Session &s) {
					s.greet();
					read = ask(s, 16);
				}});
	}
	refused({.code = operation_error(6), .segment = [](Session &s) {
			 return tagged_segment(op_response, s.target().stag(), s.target().address(), hello);
		 }});
}

TEST(Rdmap, r130_send_behind_a_read_completes_after_it)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		const Bytes read = ask(s, 16, 1);
		ASSERT_EQ(s.kiwarp().send({}, {.id = 2}), 0);
		s.peer().expect(send_segment(1, {})); // it is gone, but hasn't completed
		s.sync(1);
		EXPECT_TRUE(vt::poll_all(s.kiwarp().send_cq()).empty());
		s.peer().send(part(read, 0, Bytes(16, 1), true));
		EXPECT_WC(s.kiwarp().sent(), 1, IBV_WC_SUCCESS);
		EXPECT_WC(s.kiwarp().sent(), 2, IBV_WC_SUCCESS);
	}
}

TEST(Rdmap, r131_fenced_send_waits_for_the_response)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		const Bytes read = ask(s, 16, 1);
		ASSERT_EQ(s.kiwarp().send({}, {.id = 2, .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}), 0);
		EXPECT_TRUE(s.peer().link.silent(100));
		const Bytes end = s.peer().framed(part(read, 0, Bytes(16, 1), true));
		s.peer().link.send(first(end, end.size() - 1));
		EXPECT_TRUE(s.peer().link.silent(100));
		s.peer().link.send({end.back()});
		s.peer().expect(send_segment(1, {}));
	}
}

TEST(Rdmap, r132_requests_complete_in_the_order_of_posting)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		const vt::Sges some = {s.own().sge(0, 100)};
		uint64_t id = 0;
		for (int round = 0; round < 3; round++) {
			ASSERT_EQ(s.kiwarp().send(some, {.id = id++}), 0);
			ASSERT_EQ(s.kiwarp().read({s.target().sge(0, 16)}, {.id = id++, .remote = 1, .rkey = 2}), 0);
			ASSERT_EQ(s.kiwarp().write(some, {.id = id++, .remote = 3, .rkey = 4}), 0);
		}
		std::vector<Bytes> reads;
		for (uint64_t n = 0; n < id; n++) {
			const Bytes b = s.peer().next();
			if ((b[1] & 0xf) == op_read)
				reads.push_back(b);
		}
		for (const Bytes &read : reads)
			s.peer().send(part(read, 0, Bytes(16, 1), true));
		for (uint64_t n = 0; n < id; n++)
			EXPECT_WC(s.kiwarp().sent(), n, IBV_WC_SUCCESS);
	}
}

// --- Sends ---

TEST(Rdmap, r133_send_completes_when_earlier_writes_are_placed)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		const Bytes data = pattern(40);
		s.peer().deliver(s.peer().framed(write_segment(s.target().stag(), s.target().address(), data)) +
					 s.peer().framed(send_segment(1, {})),
			cut);
		EXPECT_WC(s.kiwarp().received(), 0, IBV_WC_SUCCESS);
		EXPECT_EQ(s.target().octets(0, 40), data);
	});
}

TEST(Rdmap, r134_write_completes_nothing_at_the_receiver)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		for (int n = 0; n < 10; n++)
			s.peer().send(write_segment(s.target().stag(), s.target().address(), hello));
		s.sync(1);
		EXPECT_TRUE(vt::poll_all(s.kiwarp().recv_cq()).empty());
		EXPECT_TRUE(vt::poll_all(s.kiwarp().send_cq()).empty());
	}
}

TEST(Rdmap, r135_empty_send_takes_a_receive_request)
{
	for (Terms t : all_terms()) {
		t.receives = 1;
		Session s(t);
		s.sync(1);
		const Bytes second = send_segment(2, {});
		s.peer().send(second);
		s.expect_terminate(terminate_segment({1, 2, 2}, Headers::ddp, second));
	}
}

TEST(Rdmap, r138_r140_invalidation_of_a_region_that_a_process_has_registered)
{
	// It was never said that a peer may, and several streams could share it.
	for (const uint8_t op : {op_send_inv, op_send_se_inv})
		refused_too({.code = operation_error(9),
			.segment =
				[=](Session &s) {
					return untagged_segment(
						op, 0, 1, 0, {}, last | ddp_1, rdmap_1, s.target().stag());
				},
			.next = 2});
}

TEST(Rdmap, r138_invalidation_of_an_unknown_region)
{
	for (const uint32_t change : {0x01u, 0x100u})
		refused({.code = operation_error(9),
			.segment =
				[=](Session &s) {
					return untagged_segment(op_send_inv, 0, 1, 0, {}, last | ddp_1, rdmap_1,
						s.target().stag() ^ change);
				},
			.next = 2});
}

TEST(Rdmap, r138_invalidation_of_a_foreign_region)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const vt::Pd foreign = vt::make_pd(s.kiwarp().context());
		const Target other(foreign.get());
		const Bytes bad = untagged_segment(op_send_inv, 0, 1, 0, {}, last | ddp_1, rdmap_1, other.stag());
		s.peer().send(bad);
		s.expect_terminate(terminate_segment(protection_error(9), Headers::ddp, bad));
	}
}

// Another stream of the same protection domain writes to what a peer tried to invalidate.
TEST(Rdmap, r140_region_survives_the_attempt_to_invalidate_it)
{
	Session s({});

	s.peer().send(untagged_segment(op_send_inv, 0, 1, 0, {}, last | ddp_1, rdmap_1, s.target().stag()));
	s.kiwarp().wait_state(IBV_QPS_SQE);
	Peer second(dial(listener().port()));
	second.link.send(frame({}));
	auto [id, event] = listener().request();
	ibv_qp_init_attr attr{};
	attr.send_cq = s.kiwarp().send_cq();
	attr.recv_cq = s.kiwarp().recv_cq();
	attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	attr.qp_type = IBV_QPT_RC;
	ASSERT_EQ(rdma_create_qp(id.get(), s.kiwarp().pd(), &attr), 0);
	rdma_conn_param param = vt::parameters({}, 1);
	ASSERT_EQ(rdma_accept(id.get(), &param), 0);
	second.link.frame(reply_key);
	second.send(write_segment(s.target().stag(), s.target().address(), hello));
	second.send(read_segment(1, s.target().stag(), s.target().address(), 5));
	second.expect(tagged_segment(op_response, Read{}.sink_stag, 0, hello));
	rdma_destroy_qp(id.get());
}

} // namespace
