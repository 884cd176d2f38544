// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// How a stream ends: Terminates sent and received, FIN, RST. That nothing follows a Terminate, and that its octets are
// exactly the right ones, is looked at by refused() for every error in all tests.
#include <array>
#include <thread>

#include "session.hpp"

namespace {

// One cause of each layer and type; octets are spelt out here once, without the words that the other tests use.
TEST(Terminate, r141_r142_r143_r144_r145_octets_of_each_kind)
{
	struct Kind {
		const char *what;
		std::function<Bytes(Session &)> segment;
		std::array<uint8_t, 4> control;
		size_t header; // octets of the segment that come back
		uint32_t damage = 0;
		int access = vt::all_access;
	};
	const Kind kinds[] = {
		{"RDMAP, protection, a Read", [](Session &s) { return read_segment(1, s.target().stag() ^ 1, 0, 9); },
			{0x01, 0x00, 0xe0, 0}, 46},
		{"RDMAP, protection, a Write",
			[](Session &s) { return write_segment(s.target().stag(), s.target().address(), hello); },
			{0x01, 0x02, 0xc0, 0}, 14, 0, 0},
		{"RDMAP, operation, untagged", [](Session & /*s*/) { return untagged_segment(0xc, 0, 1, 0, hello); },
			{0x02, 0x06, 0xc0, 0}, 18},
		{"RDMAP, operation, tagged", [](Session & /*s*/) { return tagged_segment(0xc, 1, 2, hello); },
			{0x02, 0x06, 0xc0, 0}, 14},
		{"RDMAP, operation, invalidation",
			[](Session & /*s*/) {
				return untagged_segment(op_send_inv, 0, 1, 0, {}, last | ddp_1, rdmap_1, 0x1234);
			},
			{0x02, 0x09, 0xc0, 0}, 18},
		{"DDP, catastrophic",
			[](Session & /*s*/) {
				return Bytes{0x41, 0x43, 0};
			},
			{0x10, 0x00, 0, 0}, 0},
		{"DDP, tagged",
			[](Session &s) { return write_segment(s.target().stag() ^ 1, 0x123456789, pattern(300)); },
			{0x11, 0x00, 0xc0, 0}, 14},
		{"DDP, untagged", [](Session & /*s*/) { return send_segment(7, pattern(300)); }, {0x12, 0x03, 0xc0, 0},
			18},
		{"DDP, untagged, a Read", [](Session &s) { return read_segment(7, s.target().stag(), 0, 9); },
			{0x12, 0x03, 0xc0, 0}, 18},
		{"MPA", [](Session & /*s*/) { return send_segment(1, hello); }, {0x20, 0x02, 0, 0}, 0, 1},
	};

	for (Terms t : all_terms())
		for (const Kind &kind : kinds) {
			if (kind.damage && !t.crc)
				continue;
			SCOPED_TRACE(kind.what);
			t.access = kind.access;
			Session s(t);
			const Bytes segment = kind.segment(s);
			Bytes wanted = {0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0};
			for (uint8_t octet : kind.control)
				put(wanted, octet, 1);
			if (kind.header) {
				put(wanted, segment.size(), 2);
				wanted = wanted + first(segment, kind.header);
			}
			s.peer().send(segment, {.crc = kind.damage});
			s.expect_terminate(wanted);
		}
}

TEST(Terminate, r141_r143_wish_of_the_user)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		s.sync(1);
		ASSERT_EQ(s.kiwarp().modify(IBV_QPS_SQE), 0);
		s.expect_terminate(terminate_segment(0, 0, 0xff));
	}
}

TEST(Terminate, r142_reserved_bits_of_a_received_one_are_ignored)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		ASSERT_EQ(s.kiwarp().read({s.target().sge(0, 8)}, {.id = 5, .remote = 1, .rkey = 2}), 0);
		const Bytes read = s.peer().next();
		Bytes terminate = terminate_segment({0, 1, 0}, Headers::rdmap, read);
		terminate[20] |= 0x1f;
		terminate[21] = 0xff;
		s.peer().send(terminate);
		EXPECT_WC(s.kiwarp().sent(), 5, IBV_WC_REM_ACCESS_ERR);
		s.peer().expect_end();
	}
}

// The region goes while the Response is under way: what comes back is what is left to do. The Read before it was
// answered. What TCP has of the region without a copy, the peer has to acknowledge before the region is gone.
TEST(Terminate, r145_header_of_a_partly_answered_read_is_advanced)
{
	for (const bool crc : {false, true}) {
		Session s({.crc = crc});
		vt::Region much(s.kiwarp().pd(), 32 << 20);
		Read r = {.number = 2,
			.sink_stag = 9,
			.sink_offset = 0x5000,
			.size = uint32_t(much.size()),
			.stag = much.rkey(),
			.offset = much.address()};

		s.peer().link.receive_little();
		s.peer().send(read_segment(1, s.target().stag(), s.target().address(), 10));
		s.peer().expect(tagged_segment(op_response, Read().sink_stag, 0, Target::fresh(0, 10)));
		s.peer().send(read_segment(r));
		s.sync(1);
		Bytes b = s.peer().next();
		const std::jthread owner([&much] { much.deregister(); });
		while ((b[1] & 0xf) == op_response) {
			EXPECT_EQ(b[0] & last, 0);
			EXPECT_EQ(get(&b[6], 8), r.sink_offset);
			r.sink_offset += b.size() - 14;
			r.offset += b.size() - 14;
			r.size -= b.size() - 14;
			b = s.peer().next();
		}
		EXPECT_EQ(hex(b), hex(terminate_segment({0, 1, 0}, Headers::rdmap, read_segment(r))));
		s.peer().expect_end();
	}
}

TEST(Terminate, r146_first_of_two_errors_is_reported)
{
	// In one segment, in the order of the layers
	refused({.code = {1, 2, 6}, .segment = [](Session & /*s*/) {
			 return untagged_segment(0xf, 9, 9, 9, hello, last | 2, 0x80);
		 }});
	refused({.code = {0, 2, 5}, .segment = [](Session & /*s*/) {
			 return untagged_segment(0xf, 9, 9, 9, hello, last | ddp_1, 0x80);
		 }});
	refused({.code = {1, 2, 1}, .segment = [](Session & /*s*/) {
			 return untagged_segment(op_send, 9, 9, 9, hello);
		 }});
	refused({.code = {1, 2, 3}, .segment = [](Session & /*s*/) {
			 return untagged_segment(op_send, 0, 9, 9, hello);
		 }});
	// In two, which may arrive together
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		const Bytes bad = write_segment(s.target().stag(), s.target().address(Target::size), hello);
		s.peer().deliver(
			s.peer().framed(bad) + s.peer().framed(write_segment(s.target().stag() ^ 1, 0, hello)), cut);
		s.expect_terminate(terminate_segment({1, 1, 1}, Headers::ddp, bad));
	});
}

TEST(Terminate, r147_nothing_is_sent_behind_it)
{
	for (const bool crc : {false, true}) {
		Session s({.crc = crc});
		vt::Region much(s.kiwarp().pd(), 8 << 20);
		s.peer().link.receive_little();
		s.greet();
		// Requests of its own and Responses wait for room.
		for (uint64_t id = 0; id < 8; id++)
			ASSERT_EQ(s.kiwarp().send({much.sge()}, {.id = id}), 0);
		for (uint32_t n = 1; n <= 4; n++)
			s.peer().send(read_segment({.number = n,
				.size = uint32_t(much.size()),
				.stag = much.rkey(),
				.offset = much.address()}));
		const Bytes bad = send_segment(99, {});
		s.peer().send(bad);
		s.kiwarp().wait_state(IBV_QPS_SQE);
		Bytes b = s.peer().next();
		size_t octets = 0;
		for (; (b[1] & 0xf) != op_terminate; b = s.peer().next())
			octets += b.size();
		EXPECT_LT(octets, much.size()); // far from all that there was
		EXPECT_EQ(hex(b), hex(terminate_segment({1, 2, 3}, Headers::ddp, bad)));
		s.peer().expect_end();
	}
}

TEST(Terminate, r148_one_is_enough)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const Bytes bad = send_segment(99, {});
		s.peer().send(bad);
		s.kiwarp().wait_state(IBV_QPS_SQE);
		EXPECT_EQ(s.kiwarp().modify(IBV_QPS_SQE), 0);
		s.peer().send(write_segment(1, 2, hello));
		s.expect_terminate(terminate_segment({1, 2, 3}, Headers::ddp, bad));
	}
}

TEST(Terminate, r149_peer_that_goes_on_sending_can_read_it)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		const Bytes bad = send_segment(99, {});
		s.peer().send(bad);
		for (int n = 0; n < 1000; n++)
			s.peer().send(write_segment(s.target().stag(), s.target().address(), pattern(1000)));
		s.expect_terminate(terminate_segment({1, 2, 3}, Headers::ddp, bad));
		EXPECT_TRUE(s.target().untouched_but());
	}
}

TEST(Terminate, r150_received_one_ends_everything_and_is_not_answered)
{
	in_every_way(all_terms(), [](Session &s, Cut &cut) {
		s.greet();
		for (uint64_t id = 0; id < 3; id++)
			ASSERT_EQ(s.kiwarp().read({s.target().sge(8 * id, 8)}, {.id = id, .remote = 1, .rkey = 2}), 0);
		ASSERT_EQ(s.kiwarp().send({}, {.id = 3, .flags = 0}), 0);
		for (int n = 0; n < 4; n++)
			s.peer().next();
		s.peer().deliver(s.peer().framed(terminate_segment(0, 0, 0xff)), cut);
		s.peer().expect_end();
		s.peer().link.finish();
		const ibv_async_event event = vt::wait_async(s.kiwarp().context(),
			[&](const ibv_async_event &e) { return e.element.qp == s.kiwarp().qp(); });
		EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
		s.kiwarp().wait_state(IBV_QPS_ERR);
		for (uint64_t id = 0; id < 3; id++)
			EXPECT_WC(s.kiwarp().sent(), id, IBV_WC_WR_FLUSH_ERR);
		// The Send had been sent, and nobody wanted to know.
		for (int n = 0; n < s.terms.receives; n++)
			EXPECT_WC(s.kiwarp().received(), n, IBV_WC_WR_FLUSH_ERR);
	});
}

TEST(Terminate, r150_read_that_it_names_completes_with_the_reason)
{
	struct Reason {
		Code code;
		ibv_wc_status status;
	};

	for (const Reason &reason : {Reason{{0, 1, 0}, IBV_WC_REM_ACCESS_ERR}, {{0, 1, 2}, IBV_WC_REM_ACCESS_ERR},
		     {{0, 2, 7}, IBV_WC_REM_OP_ERR}}) {
		Session s({});
		s.greet();
		for (uint64_t id = 0; id < 3; id++)
			ASSERT_EQ(s.kiwarp().read({s.target().sge(8 * id, 8)}, {.id = id, .remote = 1, .rkey = 2}), 0);
		const Bytes named = s.peer().next();
		s.peer().send(terminate_segment(reason.code, Headers::rdmap, named));
		EXPECT_WC(s.kiwarp().sent(), 0, reason.status);
		for (uint64_t id = 1; id < 3; id++)
			EXPECT_WC(s.kiwarp().sent(), id, IBV_WC_WR_FLUSH_ERR);
	}
}

TEST(Terminate, r151_claims_of_one_that_is_too_short)
{
	const Bytes full = terminate_segment({0, 1, 0}, Headers::rdmap, read_segment(1, 0x1234, 0, 16));

	for (const Terms &t : all_terms())
		for (size_t n = 18; n <= full.size(); n++) {
			SCOPED_TRACE(n);
			Session s(t);
			s.peer().send(first(full, n));
			s.peer().expect_end();
			s.peer().link.finish();
			s.kiwarp().wait_state(IBV_QPS_ERR);
		}
}

TEST(Terminate, r152_own_buffer_that_is_none)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		ibv_sge bad = s.own().sge(0, 8);
		bad.lkey ^= 0x100;
		s.greet();
		ASSERT_EQ(s.kiwarp().send({s.own().sge(0, 8)}, {.id = 1}), 0);
		ASSERT_EQ(s.kiwarp().send({bad}, {.id = 2}), 0);
		ASSERT_EQ(s.kiwarp().send({s.own().sge(0, 8)}, {.id = 3}), 0);
		s.peer().expect(send_segment(1, Target::fresh(0, 8)));
		s.expect_terminate(terminate_segment(0, 0, 0xff));
		EXPECT_WC(s.kiwarp().sent(), 1, IBV_WC_SUCCESS);
		EXPECT_WC(s.kiwarp().sent(), 2, IBV_WC_LOC_PROT_ERR);
		EXPECT_WC(s.kiwarp().sent(), 3, IBV_WC_WR_FLUSH_ERR);
	}
}

// --- FIN and RST ---

// Everything that was posted comes back, flushed, and once.
void expect_flush(Session &s, uint64_t sends)
{
	s.kiwarp().wait_state(IBV_QPS_ERR);
	for (uint64_t id = 0; id < sends; id++)
		EXPECT_WC(s.kiwarp().sent(), id, IBV_WC_WR_FLUSH_ERR);
	for (int n = 0; n < s.terms.receives; n++)
		EXPECT_WC(s.kiwarp().received(), n, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(vt::poll_all(s.kiwarp().send_cq()).empty());
	EXPECT_TRUE(vt::poll_all(s.kiwarp().recv_cq()).empty());
	s.kiwarp().wait_disconnected();
}

TEST(Terminate, r153_reset_flushes_everything)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		for (uint64_t id = 0; id < 4; id++)
			ASSERT_EQ(s.kiwarp().read({s.target().sge(0, 8)}, {.id = id, .remote = 1, .rkey = 2}), 0);
		s.peer().next();
		s.peer().link.reset();
		expect_flush(s, 4);
	}
}

TEST(Terminate, r154_fin_within_an_fpdu)
{
	for (const Terms &t : all_terms()) {
		const size_t length = 60;
		for (size_t n = 1; n < length; n++) {
			SCOPED_TRACE(n);
			Session s(t);
			const Bytes b = s.peer().framed(send_segment(1, pattern(36)));
			ASSERT_EQ(b.size(), length);
			s.peer().link.send(first(b, n));
			s.peer().link.finish();
			EXPECT_EQ(s.peer().link.rest(true), Bytes());
			expect_flush(s, 0);
		}
	}
}

TEST(Terminate, r155_data_while_it_is_closing)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		s.sync(1);
		ASSERT_EQ(rdma_disconnect(s.kiwarp().id()), 0);
		s.peer().expect_end(); // its FIN; ours is yet to come
		s.peer().send(send_segment(2, hello));
		EXPECT_EQ(s.peer().link.rest(true), Bytes());
		s.kiwarp().wait_state(IBV_QPS_ERR);
		EXPECT_TRUE(s.nothing_received());
		for (const ibv_wc &wc : vt::poll_all(s.kiwarp().recv_cq()))
			EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
}

TEST(Terminate, r169_fin_with_empty_queues)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		s.sync(1);
		s.close();
		// Flushed, and no more: the QP can be used again.
		for (int n = 1; n < t.receives; n++)
			EXPECT_WC(s.kiwarp().received(), n, IBV_WC_WR_FLUSH_ERR);
		EXPECT_NE(s.kiwarp().state(), IBV_QPS_ERR);
		EXPECT_FALSE(vt::readable(s.kiwarp().context()->async_fd));
	}
}

TEST(Terminate, r170_fin_with_open_reads)
{
	for (const Terms &t : all_terms()) {
		Session s(t);
		s.greet();
		for (uint64_t id = 0; id < 2; id++)
			ASSERT_EQ(s.kiwarp().read({s.target().sge(0, 8)}, {.id = id, .remote = 1, .rkey = 2}), 0);
		s.peer().next();
		s.peer().next();
		s.peer().link.finish();
		expect_flush(s, 2);
	}
}

TEST(Terminate, r170_fin_with_requests_that_wait)
{
	Session s({});
	const vt::Region much(s.kiwarp().pd(), 16 << 20);

	s.peer().link.receive_little();
	s.greet();
	for (uint64_t id = 0; id < 3; id++)
		ASSERT_EQ(s.kiwarp().send({much.sge()}, {.id = id}), 0);
	s.peer().next();
	s.peer().link.finish();
	expect_flush(s, 3);
}

} // namespace
