// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Start-up by RFC 6581: revision 2, Read depths, ready-to-receive messages.
#include "session.hpp"

namespace {

constexpr uint16_t unset = 0x3fff, depth = 0x3fff;
constexpr int rtr_by_send = 1, rtr_by_write = 2, rtr_by_read = 4; // as the parameter has them

// The word of revision 2, and what stands around it
struct Start {
	Bytes frame;
	uint8_t flags() const { return frame[16]; }
	uint8_t revision() const { return frame[17]; }
	bool has_word() const { return (flags() & enhanced) && frame.size() >= 24; }
	uint16_t first() const { return uint16_t(get(&frame[20], 2)); }
	uint16_t second() const { return uint16_t(get(&frame[22], 2)); }
	uint16_t ird() const { return first() & depth; }
	uint16_t ord() const { return second() & depth; }
	bool p2p() const { return first() & peer_to_peer; }
	// B, C and D
	bool send() const { return first() & rtr_send; }
	bool write() const { return second() & rtr_write; }
	bool read() const { return second() & rtr_read; }
	Bytes data() const { return {frame.begin() + (has_word() ? 24 : 20), frame.end()}; }
};

Bytes request(uint16_t ird, uint16_t ord, const Bytes &data = {})
{
	return frame({.flags = with_crc | enhanced, .revision = 2, .data = word(ird, ord) + data});
}

Bytes reply(uint16_t ird, uint16_t ord, const Bytes &data = {}, uint8_t flags = 0)
{
	return frame({.key = reply_key,
		.flags = uint8_t(with_crc | enhanced | flags),
		.revision = 2,
		.data = word(ird, ord) + data});
}

// kiwarp listens
class Responder {
public:
	explicit Responder(const Bytes &asked, uint8_t ird = 8, uint8_t ord = 8, const Bytes &data = {})
		: peer(dial(listener().port()))
	{
		peer.link.send(asked);
		Request request = next_request();
		event = request.event;
		side = std::move(request.side);
		side->receive_empty(4);
		rdma_conn_param param = vt::parameters(data, 0);
		param.responder_resources = ird;
		param.initiator_depth = ord;
		if (rdma_accept(side->id(), &param))
			vt::fail("rdma_accept", errno);
		start.frame = peer.link.frame(reply_key);
	}

	// The depths that the QP got
	std::pair<int, int> depths() const
	{
		ibv_qp_attr attr{};
		ibv_qp_init_attr init{};

		EXPECT_EQ(
			ibv_query_qp(side->qp(), &attr, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MAX_QP_RD_ATOMIC, &init), 0);
		return {attr.max_dest_rd_atomic, attr.max_rd_atomic};
	}

	Peer peer;
	vt::Event event;
	std::unique_ptr<vt::Side> side;
	Start start;
};

// kiwarp connects
class Initiator {
public:
	explicit Initiator(uint8_t ird = 4, uint8_t ord = 4, const Bytes &data = {})
	{
		vt::Caller caller(tcp.port);
		rdma_conn_param param = vt::parameters(data, 0);

		side = std::make_unique<vt::Side>(std::move(caller.id), caller.events, vt::Options{});
		side->receive_empty(4);
		param.responder_resources = ird;
		param.initiator_depth = ord;
		if (rdma_connect(side->id(), &param))
			vt::fail("rdma_connect", errno);
		peer = std::make_unique<Peer>(tcp.take());
		start.frame = peer->link.frame(request_key);
	}

	void established() const { side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id()); }
	void failed() const { EXPECT_NE(side->events().wait_any(side->id()).type, RDMA_CM_EVENT_ESTABLISHED); }

	const RawListener tcp;
	std::unique_ptr<vt::Side> side;
	std::unique_ptr<Peer> peer;
	Start start;
};

// Some memory to read into
class Sink {
public:
	explicit Sink(const vt::Side &side) : region(side.pd()) {}

	vt::Sges at(int n) const { return {region.sge(n * 16, 16)}; }
	Target region;
};

void post_reads(const vt::Side &side, const Sink &sink, int count)
{
	for (int i = 0; i < count; i++)
		ASSERT_EQ(side.read(sink.at(i), {.id = uint64_t(i), .remote = 0x1000, .rkey = 0x2345}), 0);
}

Bytes zero_write()
{
	return tagged_segment(op_write, 1, 0, {});
}

const Bytes hello = {'h', 'e', 'l', 'l', 'o'};

TEST(Enhanced, r025_length_of_private_data_counts_the_word)
{
	const Initiator i(4, 4, hello);
	EXPECT_EQ(get(&i.start.frame[18], 2), 4 + hello.size());
	EXPECT_EQ(i.start.data(), hello);

	const Responder r(request(4, 4), 8, 8, hello);
	EXPECT_EQ(get(&r.start.frame[18], 2), 4 + hello.size());
	EXPECT_EQ(r.start.data(), hello);
}

TEST(Enhanced, r026_word_has_every_bit_at_its_place)
{
	const Parameter all("rtr", std::to_string(rtr_by_send | rtr_by_write | rtr_by_read));

	EXPECT_EQ(Initiator(5, 3).start.first(), peer_to_peer | rtr_send | 5);
	EXPECT_EQ(Initiator(5, 3).start.second(), rtr_write | rtr_read | 3);
	// Each bit alone is understood as what it is.
	for (const int option : {rtr_by_send, rtr_by_write, rtr_by_read}) {
		const Responder r(request(peer_to_peer | (option == rtr_by_send ? rtr_send : 0) | 6,
					  (option == rtr_by_write	  ? rtr_write
						  : option == rtr_by_read ? rtr_read
									  : 0) |
						  7),
			2, 3);
		EXPECT_EQ(r.start.send(), option == rtr_by_send);
		EXPECT_EQ(r.start.write(), option == rtr_by_write);
		EXPECT_EQ(r.start.read(), option == rtr_by_read);
		EXPECT_EQ(r.event.initiator_depth, 6);
		EXPECT_EQ(r.event.responder_resources, 7);
	}
}

TEST(Enhanced, r027_enhanced_request_gets_an_enhanced_reply)
{
	const Responder r(request(4, 4));

	EXPECT_EQ(r.start.revision(), 2);
	EXPECT_EQ(r.start.flags() & enhanced, enhanced);
	EXPECT_EQ(get(&r.start.frame[18], 2), 4);
}

TEST(Enhanced, r028_plain_request_gets_a_plain_reply)
{
	for (const int revision : {1, 2}) {
		const Responder r(frame({.revision = uint8_t(revision)}));
		EXPECT_EQ(r.start.revision(), revision);
		EXPECT_EQ(r.start.flags() & enhanced, 0);
		EXPECT_EQ(r.start.frame.size(), 20);
	}
}

TEST(Enhanced, r029_model_of_the_request_is_that_of_the_reply)
{
	EXPECT_TRUE(Responder(request(peer_to_peer | 4, rtr_write | 4)).start.p2p());
	EXPECT_FALSE(Responder(request(4, 4)).start.p2p());
}

TEST(Enhanced, r030_no_options_without_peer_to_peer)
{
	const Responder r(request(rtr_send | 4, rtr_write | rtr_read | 4));
	EXPECT_EQ(r.start.first() & ~depth, 0);
	EXPECT_EQ(r.start.second() & ~depth, 0);

	const Parameter client_server("p2p", "N");
	const Initiator i(5, 3);
	EXPECT_EQ(i.start.first(), 5);
	EXPECT_EQ(i.start.second(), 3);
}

TEST(Enhanced, r031_options_without_peer_to_peer_are_ignored)
{
	// Established at once: no ready-to-receive message is waited for.
	const Responder r(request(rtr_send | 4, rtr_write | rtr_read | 4));
	r.side->events().wait(RDMA_CM_EVENT_ESTABLISHED, r.side->id());

	const Parameter client_server("p2p", "N");
	const Initiator i;
	i.peer->link.send(reply(rtr_send | 4, rtr_write | rtr_read | 4));
	i.established();
	ASSERT_EQ(i.side->send(), 0);
	i.peer->expect(send_segment(1, {})); // and none was sent
}

TEST(Enhanced, r032_reply_offers_something_even_if_nothing_matches)
{
	for (int able = 1; able < 8; able++) {
		const Parameter rtr("rtr", std::to_string(able));
		for (int asked = 0; asked < 8; asked++) {
			SCOPED_TRACE(std::to_string(able) + " of " + std::to_string(asked));
			const Responder r(request(peer_to_peer | (asked & rtr_by_send ? rtr_send : 0) | 4,
				(asked & rtr_by_write ? rtr_write : 0) | (asked & rtr_by_read ? rtr_read : 0) | 4));
			const int offered = (r.start.send() ? rtr_by_send : 0) | (r.start.write() ? rtr_by_write : 0) |
					    (r.start.read() ? rtr_by_read : 0);
			EXPECT_TRUE(r.start.p2p());
			EXPECT_NE(offered, 0);
			EXPECT_EQ(offered & ~able, 0);
			if (able & asked) {
				EXPECT_EQ(offered, able & asked);
			}
		}
	}
}

// What the initiator sends first
Bytes rtr_message(int option)
{
	switch (option) {
	case rtr_by_send:
		return send_segment(1, {});
	case rtr_by_write:
		return zero_write();
	default:
		return read_segment({.sink_stag = 1});
	}
}

uint16_t word_ird(int options, uint16_t ird)
{
	return peer_to_peer | (options & rtr_by_send ? rtr_send : 0) | ird;
}

uint16_t word_ord(int options, uint16_t ord)
{
	return (options & rtr_by_write ? rtr_write : 0) | (options & rtr_by_read ? rtr_read : 0) | ord;
}

TEST(Enhanced, r033_r034_first_fpdu_is_a_ready_to_receive_message_of_the_reply)
{
	for (int able = 1; able < 8; able++) {
		const Parameter rtr("rtr", std::to_string(able));
		for (int offered = 1; offered < 8; offered++) {
			if (!(able & offered))
				continue;
			SCOPED_TRACE(std::to_string(able) + " of " + std::to_string(offered));
			const Initiator i;
			i.peer->link.send(reply(word_ird(offered, 4), word_ord(offered, 4)));
			const Bytes b = i.peer->next();
			EXPECT_TRUE(((able & offered & rtr_by_send) && b == rtr_message(rtr_by_send)) ||
				    ((able & offered & rtr_by_write) && b == rtr_message(rtr_by_write)) ||
				    ((able & offered & rtr_by_read) && b == rtr_message(rtr_by_read)))
				<< hex(b);
		}
	}
}

TEST(Enhanced, r034_nothing_overtakes_the_ready_to_receive_message)
{
	const Initiator i;

	// Posting is refused before; afterwards it is behind.
	EXPECT_NE(i.side->send(), 0);
	i.peer->link.send(reply(word_ird(rtr_by_write, 4), word_ord(rtr_by_write, 4)));
	i.established();
	ASSERT_EQ(i.side->send(), 0);
	i.peer->expect(zero_write());
	i.peer->expect(send_segment(1, {}));
}

TEST(Enhanced, r035_reply_without_a_usable_option)
{
	for (const int able : {rtr_by_send, rtr_by_write, rtr_by_read, rtr_by_write | rtr_by_read}) {
		SCOPED_TRACE(able);
		const Parameter rtr("rtr", std::to_string(able));
		for (const int offered : {0, 7 & ~able}) {
			const Initiator i;
			i.peer->link.send(reply(word_ird(offered, 4), word_ord(offered, 4)));
			i.failed();
			i.peer->expect(terminate_segment(2, 0, 7));
			i.peer->expect_end();
		}
	}
}

TEST(Enhanced, r036_responder_lowers_its_ord_to_the_ird_of_the_request)
{
	for (const int theirs : {0, 1, 4, 8, 9, 200})
		for (const int ours : {0, 1, 8, 128}) {
			SCOPED_TRACE(std::to_string(theirs) + " for " + std::to_string(ours));
			const Responder r(request(theirs, 4), 8, ours);
			EXPECT_EQ(r.start.ord(), std::min(theirs, ours));
			EXPECT_EQ(r.start.flags() & rejected, 0);
		}
}

TEST(Enhanced, r037_responder_raises_its_ird_to_the_ord_of_the_request)
{
	for (const int theirs : {0, 1, 6, 8, 128})
		for (const int ours : {0, 1, 6, 8}) {
			SCOPED_TRACE(std::to_string(theirs) + " on " + std::to_string(ours));
			Responder r(request(4, theirs), ours, 4);
			EXPECT_EQ(r.start.ird(), std::max(theirs, ours));
			// It is no idle promise: so many Reads are taken at once.
			for (int n = 1; n <= theirs; n++)
				r.peer.send(read_segment({.number = uint32_t(n)}));
			for (int n = 1; n <= theirs; n++)
				r.peer.expect(tagged_segment(op_response, Read{}.sink_stag, 0, {}));
		}
}

// Beyond what it can hold it says how many that are; the initiator has to lower itself.
TEST(Enhanced, r037_ord_of_the_request_beyond_everything)
{
	const Responder r(request(4, 1000), 8, 4);

	EXPECT_EQ(r.start.ird(), 128);
}

// The Reads on the wire, until there is silence
int reads_seen(Peer &peer)
{
	int count = 0;

	while (!peer.link.silent(count ? 100 : 1000)) {
		const Bytes b = peer.next();
		EXPECT_EQ(b[1] & 0xf, op_read);
		count++;
	}
	return count;
}

TEST(Enhanced, r038_initiator_lowers_its_ord_to_the_ird_of_the_reply)
{
	for (const int theirs : {1, 2, 5, 6, 9}) {
		SCOPED_TRACE(theirs);
		const Initiator i(4, 6);
		const Sink sink(*i.side);
		EXPECT_EQ(i.start.ord(), 6);
		i.peer->link.send(reply(word_ird(rtr_by_write, theirs), word_ord(rtr_by_write, 4)));
		i.established();
		post_reads(*i.side, sink, 12);
		i.peer->expect(zero_write());
		EXPECT_EQ(reads_seen(*i.peer), std::min(theirs, 6));
	}
}

TEST(Enhanced, r039_ord_of_the_reply_beyond_our_ird)
{
	for (const int theirs : {5, 6, 128, 0x3ffe}) {
		SCOPED_TRACE(theirs);
		const Initiator i(4, 4);
		EXPECT_EQ(i.start.ird(), 4);
		i.peer->link.send(reply(word_ird(rtr_by_write, 4), word_ord(rtr_by_write, theirs)));
		i.failed();
		i.peer->expect(terminate_segment(2, 0, 6));
		i.peer->expect_end();
	}
}

TEST(Enhanced, r040_unset_ord_of_a_request_leaves_our_ird_alone)
{
	const Responder r(request(4, unset), 7, 3);

	EXPECT_EQ(r.start.ird(), unset);
	EXPECT_EQ(r.depths().first, 7);
}

TEST(Enhanced, r041_unset_ird_of_a_request_leaves_our_ord_alone)
{
	const Responder r(request(unset, 4), 7, 3);

	EXPECT_EQ(r.start.ord(), unset);
	EXPECT_EQ(r.depths().second, 3);
}

TEST(Enhanced, r042_unset_values_of_a_reply_leave_ours_alone)
{
	const Initiator i(4, 6);
	const Sink sink(*i.side);

	i.peer->link.send(reply(word_ird(rtr_by_write, unset), word_ord(rtr_by_write, unset)));
	i.established();
	post_reads(*i.side, sink, 12);
	i.peer->expect(zero_write());
	EXPECT_EQ(reads_seen(*i.peer), 6);
	// And so many of the peer's are taken.
	for (uint32_t n = 1; n <= 4; n++)
		i.peer->send(read_segment({.number = n}));
	for (int n = 1; n <= 4; n++)
		i.peer->expect(tagged_segment(op_response, Read{}.sink_stag, 0, {}));
}

// In rdma_cm's words a Request's IRD is the depth that the user may have as initiator, its ORD the resources to be had
// as responder. After a rejection rdma_cm has no room for them.
TEST(Enhanced, r043_depths_of_the_peer_reach_the_user)
{
	const Responder r(request(9, 11));
	EXPECT_EQ(r.event.initiator_depth, 9);
	EXPECT_EQ(r.event.responder_resources, 11);

	// Here they are what came of it, as the peer's: how many Reads we may issue, and how many it may.
	const Initiator i(9, 11);
	i.peer->link.send(reply(word_ird(rtr_by_write, 5), word_ord(rtr_by_write, 6)));
	const vt::Event up = i.side->events().wait(RDMA_CM_EVENT_ESTABLISHED, i.side->id());
	EXPECT_EQ(up.initiator_depth, 5);
	EXPECT_EQ(up.responder_resources, 9);
}

TEST(Enhanced, r044_read_that_says_ready_has_a_place_of_its_own)
{
	Responder r(request(word_ird(rtr_by_read, 4), word_ord(rtr_by_read, 0)), 0, 0);

	EXPECT_TRUE(r.start.read());
	EXPECT_GE(r.start.ird(), 1);
	r.peer.send(rtr_message(rtr_by_read));
	r.peer.expect(tagged_segment(op_response, 1, 0, {}));
	r.side->events().wait(RDMA_CM_EVENT_ESTABLISHED, r.side->id());
}

TEST(Enhanced, r045_read_that_says_ready_is_answered)
{
	Responder r(request(word_ird(rtr_by_read, 4), word_ord(rtr_by_read, 4)));

	r.peer.send(read_segment({.sink_stag = 0xdeadbeef, .sink_offset = 0x123456789abcdef0}));
	r.peer.expect(tagged_segment(op_response, 0xdeadbeef, 0x123456789abcdef0, {}));
	r.side->events().wait(RDMA_CM_EVENT_ESTABLISHED, r.side->id());
	EXPECT_TRUE(vt::poll_all(r.side->recv_cq()).empty());
}

TEST(Enhanced, r045_answer_to_our_own_completes_nothing)
{
	const Parameter rtr("rtr", std::to_string(rtr_by_read));
	const Initiator i;

	i.peer->link.send(reply(word_ird(rtr_by_read, 4), word_ord(rtr_by_read, 4)));
	i.peer->expect(rtr_message(rtr_by_read));
	i.established();
	ASSERT_EQ(i.side->send({}, {.id = 77}), 0);
	i.peer->send(tagged_segment(op_response, 1, 0, {}));
	i.peer->send(send_segment(1, {}));
	EXPECT_WC(i.side->received(), 0, IBV_WC_SUCCESS);
	EXPECT_WC(i.side->sent(), 77, IBV_WC_SUCCESS);
	EXPECT_TRUE(vt::poll_all(i.side->send_cq()).empty());
}

TEST(Enhanced, r046_message_behind_a_read_that_says_ready_has_number_2)
{
	{
		const Parameter rtr("rtr", std::to_string(rtr_by_read));
		const Initiator i;
		const Sink sink(*i.side);
		i.peer->link.send(reply(word_ird(rtr_by_read, 4), word_ord(rtr_by_read, 4)));
		i.established();
		post_reads(*i.side, sink, 1);
		i.peer->expect(rtr_message(rtr_by_read));
		const Bytes read = i.peer->next();
		EXPECT_EQ(read[1] & 0xf, op_read);
		EXPECT_EQ(get(&read[10], 4), 2);
	}
	Responder r(request(word_ird(rtr_by_read, 4), word_ord(rtr_by_read, 4)));
	r.peer.send(rtr_message(rtr_by_read));
	r.peer.send(read_segment({.number = 2, .sink_stag = 2}));
	r.peer.expect(tagged_segment(op_response, 1, 0, {}));
	r.peer.expect(tagged_segment(op_response, 2, 0, {}));
}

TEST(Enhanced, r046_message_behind_a_send_that_says_ready_has_number_2)
{
	const Parameter rtr("rtr", std::to_string(rtr_by_send));
	{
		const Initiator i;
		i.peer->link.send(reply(word_ird(rtr_by_send, 4), word_ord(rtr_by_send, 4)));
		i.established();
		ASSERT_EQ(i.side->send(), 0);
		i.peer->expect(rtr_message(rtr_by_send));
		i.peer->expect(send_segment(2, {}));
	}
	Responder r(request(word_ird(rtr_by_send, 4), word_ord(rtr_by_send, 4)));
	r.peer.send(rtr_message(rtr_by_send));
	r.peer.send(send_segment(2, {}));
	EXPECT_WC(r.side->received(), 0, IBV_WC_SUCCESS);
	EXPECT_WC(r.side->received(), 1, IBV_WC_SUCCESS);
}

TEST(Enhanced, r047_write_that_says_ready_may_have_any_address)
{
	for (const uint64_t offset : {uint64_t{0}, uint64_t{0x123456789}, ~uint64_t{0}})
		for (const uint32_t stag : {0u, 1u, 0xdeadbeefu, ~0u}) {
			Responder r(request(word_ird(rtr_by_write, 4), word_ord(rtr_by_write, 4)));
			r.peer.send(tagged_segment(op_write, stag, offset, {}));
			r.side->events().wait(RDMA_CM_EVENT_ESTABLISHED, r.side->id());
			EXPECT_TRUE(vt::poll_all(r.side->recv_cq()).empty());
			r.peer.send(send_segment(1, {}));
			EXPECT_WC(r.side->received(), 0, IBV_WC_SUCCESS);
		}
}

TEST(Enhanced, r048_established_only_by_the_ready_to_receive_message)
{
	for (const int option : {rtr_by_write, rtr_by_read}) {
		Responder r(request(word_ird(option, 4), word_ord(option, 4)));
		EXPECT_TRUE(no_event(r.side->events(), 100));
		const Bytes b = r.peer.framed(rtr_message(option));
		r.peer.link.send(first(b, b.size() - 1));
		EXPECT_TRUE(no_event(r.side->events(), 100));
		r.peer.link.send({b.back()});
		r.side->events().wait(RDMA_CM_EVENT_ESTABLISHED, r.side->id());
	}
}

TEST(Enhanced, r049_user_does_not_see_the_word)
{
	for (const size_t n : {0, 1, 4, 5, 251, 252, 255}) {
		SCOPED_TRACE(n);
		const Bytes data(n, 0x3c);
		const Responder r(request(4, 4, data));
		EXPECT_EQ(r.event.private_data, data);

		const Initiator i;
		i.peer->link.send(reply(word_ird(rtr_by_write, 4), word_ord(rtr_by_write, 4), data));
		EXPECT_EQ(i.side->events().wait(RDMA_CM_EVENT_ESTABLISHED, i.side->id()).private_data, data);
	}
}

TEST(Enhanced, r050_word_leaves_four_octets_less)
{
	// 508 and the word are a frame, though one that librdmacm can't pass on; one more isn't.
	Link most(dial(listener().port()));
	most.send(request(4, 4, Bytes(508)));
	EXPECT_EQ(most.frame(reply_key)[16] & rejected, rejected);
	EXPECT_EQ(most.rest(), Bytes());

	Link more(dial(listener().port()));
	more.send(request(4, 4, Bytes(509)));
	EXPECT_EQ(more.rest(true), Bytes());

	// The word is no part of what librdmacm counts.
	const Initiator i(4, 4, Bytes(255, 1));
	EXPECT_EQ(get(&i.start.frame[18], 2), 259);
	EXPECT_EQ(i.start.data(), Bytes(255, 1));
}

TEST(Enhanced, r051_peer_that_closes_is_asked_once_more_with_revision_1)
{
	for (const bool reset : {false, true}) {
		const Initiator i(4, 4, hello);
		EXPECT_EQ(i.start.revision(), 2);
		if (reset)
			i.peer->link.reset();
		else
			i.peer->link.finish();
		Peer again(i.tcp.take());
		const Bytes second = again.link.frame(request_key);
		EXPECT_EQ(second[16] & enhanced, 0);
		EXPECT_EQ(second[17], 1);
		EXPECT_EQ(Bytes(second.begin() + 20, second.end()), hello);
		again.link.send(frame({.key = reply_key}));
		i.established();
	}
}

} // namespace
