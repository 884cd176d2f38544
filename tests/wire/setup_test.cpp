// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Start-up by RFC 5044, and what of it RFC 6581 leaves as it is. The number in a test's name is that of its rule in
// "rules".
#include <numeric>

#include "session.hpp"

namespace {

Bytes octets(size_t n)
{
	Bytes b(n);

	std::iota(b.begin(), b.end(), uint8_t{1});
	return b;
}

// Sends what the other side may stop to read at any point
void try_deliver(Peer &peer, const Bytes &b, Cut &cut)
{
	cut.length = b.size();
	try {
		peer.deliver(b, cut);
	} catch (const Failure &) {
	}
}

// Runs for each way to cut what is delivered
void in_every_cut(const std::function<void(Cut &)> &run)
{
	size_t length = 1;

	for (size_t at = 0; at < length || at == Cut::bytewise; at = Cut::behind(at)) {
		Cut cut = {.at = at};
		SCOPED_TRACE(cut.text());
		run(cut);
		if (testing::Test::HasFailure())
			return;
		length = cut.length;
	}
}

// What is no Request has to end the connection, without an answer and without anybody being told.
void refused_request(const Bytes &b)
{

	in_every_cut([&](Cut &cut) {
		Peer peer(dial(listener().port()));
		try_deliver(peer, b, cut);
		EXPECT_EQ(peer.link.rest(true), Bytes());
	});
	EXPECT_TRUE(no_event(listener().events(), 0));
}

// What is no Reply has to end the attempt with an error, and kiwarp sends nothing more.
void refused_reply(const Bytes &b)
{
	const RawListener tcp;

	in_every_cut([&](Cut &cut) {
		const auto side = vt::start_connecting(tcp.port, {});
		Peer peer(tcp.take());
		peer.link.frame(request_key);
		try_deliver(peer, b, cut);
		EXPECT_EQ(peer.link.rest(true), Bytes());
		EXPECT_NE(side->events().wait_any(side->id()).type, RDMA_CM_EVENT_ESTABLISHED);
	});
}

// A Reply to what kiwarp asks by default
Frame good_reply()
{
	return {.key = reply_key,
		.flags = with_crc | enhanced,
		.revision = 2,
		.data = word(peer_to_peer | 4, rtr_write | 4)};
}

TEST(Setup, r001_request_key_comes_first)
{
	const RawListener tcp;
	const auto side = vt::start_connecting(tcp.port, {});
	Link link(tcp.take());
	const Bytes start = link.receive(16);

	EXPECT_EQ(std::string(start.begin(), start.end()), request_key);
}

TEST(Setup, r002_responder_is_silent_before_the_whole_request)
{
	const Bytes request = frame({.data = hello});

	for (size_t n = 0; n < request.size(); n++) {
		SCOPED_TRACE(n);
		Link link(dial(listener().port()));
		link.send(first(request, n));
		EXPECT_TRUE(link.silent(5));
	}
	EXPECT_TRUE(no_event(listener().events(), 0));
	Link link(dial(listener().port()));
	link.send(request);
	const auto [side, event] = next_request();
	EXPECT_TRUE(link.silent(20)) << "nobody has accepted yet";
}

TEST(Setup, r003_reply_key_comes_first)
{
	Link link(dial(listener().port()));

	link.send(frame({}));
	const auto side = accept_next();
	const Bytes start = link.receive(16);
	EXPECT_EQ(std::string(start.begin(), start.end()), reply_key);
}

TEST(Setup, r004_wrong_key_octet_at_every_place)
{
	for (size_t place = 0; place < request_key.size(); place++) {
		SCOPED_TRACE(place);
		Bytes b = frame({});
		b[place] ^= place % 2 ? 0x20 : 0x01;
		refused_request(b);
	}
}

TEST(Setup, r005_reply_instead_of_a_request)
{
	refused_request(frame({.key = reply_key}));
}

TEST(Setup, r006_request_instead_of_a_reply)
{
	Frame f = good_reply();

	f.key = request_key;
	refused_reply(frame(f));
	refused_reply(frame({}));
}

TEST(Setup, r007_too_much_private_data_is_not_waited_for)
{
	// Far longer than anybody is ready to wait
	const Parameter patience("mpa_timeout", "300");

	for (const int announced : {513, 514, 1024, 0x8000, 0xffff})
		refused_request(frame({.announced = announced}));
}

// Up to 255 octets reach the user; what librdmacm can't pass on is rejected, not broken off.
TEST(Setup, r008_most_private_data)
{

	for (const size_t n : {255, 256, 257, 511, 512})
		in_every_cut([&](Cut &cut) {
			SCOPED_TRACE(n);
			Peer peer(dial(listener().port()));
			peer.deliver(frame({.data = octets(n)}), cut);
			if (n <= 255) {
				const auto [side, event] = next_request();
				EXPECT_EQ(event.private_data, octets(n));
			} else {
				EXPECT_EQ(peer.link.frame(reply_key)[16] & rejected, rejected);
				EXPECT_EQ(peer.link.rest(), Bytes());
			}
		});
	EXPECT_TRUE(no_event(listener().events(), 0));
}

TEST(Setup, r009_private_data_of_every_length_both_ways)
{
	const RawListener tcp;

	for (size_t n = 0; n <= 255; n++) {
		SCOPED_TRACE(n);
		Link link(dial(listener().port()));
		link.send(frame({.data = octets(n)}));
		const auto [b, request] = next_request();
		EXPECT_EQ(request.private_data, octets(n));
		const Bytes answer = octets(255 - n);
		rdma_conn_param param = vt::parameters(answer, 4);
		ASSERT_EQ(rdma_accept(b->id(), &param), 0);
		const Bytes reply = link.frame(reply_key);
		EXPECT_EQ(Bytes(reply.begin() + 20, reply.end()), answer);

		vt::Options options;
		options.request_data = octets(n);
		const auto a = vt::start_connecting(tcp.port, options);
		Link raw(tcp.take());
		const Bytes asked = raw.frame(request_key);
		EXPECT_EQ(Bytes(asked.begin() + 24, asked.end()), octets(n));
		Frame f = good_reply();
		f.data = f.data + answer;
		raw.send(frame(f));
		EXPECT_EQ(a->events().wait(RDMA_CM_EVENT_ESTABLISHED, a->id()).private_data, answer);
	}
}

TEST(Setup, r010_request_in_any_pieces)
{

	in_every_cut([&](Cut &cut) {
		Peer peer(dial(listener().port()));
		peer.deliver(frame({.data = hello}), cut);
		const auto [side, event] = next_request();
		EXPECT_EQ(event.private_data, hello);
	});
}

TEST(Setup, r010_reply_in_any_pieces)
{
	const RawListener tcp;

	in_every_cut([&](Cut &cut) {
		const auto side = vt::start_connecting(tcp.port, {});
		Peer peer(tcp.take());
		peer.link.frame(request_key);
		Frame f = good_reply();
		f.data = f.data + hello;
		peer.deliver(frame(f), cut);
		EXPECT_EQ(side->events().wait(RDMA_CM_EVENT_ESTABLISHED, side->id()).private_data, hello);
	});
}

TEST(Setup, r011_octets_behind_a_request)
{
	Peer peer(-1);
	const Bytes early = peer.framed(send_segment(1, hello));

	// Together with it, or before the user has decided
	for (const Bytes &b : {Bytes{0}, early}) {
		Link together(dial(listener().port()));
		together.send(frame({}) + b);
		EXPECT_EQ(together.rest(true), Bytes());

		Link later(dial(listener().port()));
		later.send(frame({}));
		const auto [side, event] = next_request();
		later.send(b);
		EXPECT_EQ(later.rest(true), Bytes());
	}
}

TEST(Setup, r012_octets_behind_a_reply)
{
	const RawListener tcp;
	Peer forge(-1);

	for (const Bytes &b : {Bytes{0}, forge.framed(send_segment(1, hello))}) {
		const auto side = vt::start_connecting(tcp.port, {});
		Link link(tcp.take());
		link.frame(request_key);
		link.send(frame(good_reply()) + b);
		EXPECT_EQ(link.rest(true), Bytes());
		EXPECT_NE(side->events().wait_any(side->id()).type, RDMA_CM_EVENT_ESTABLISHED);
	}
}

TEST(Setup, r013_reject_bit_of_a_request_is_ignored)
{

	in_every_cut([&](Cut &cut) {
		Peer peer(dial(listener().port()));
		peer.deliver(frame({.flags = with_crc | rejected}), cut);
		const auto side = accept_next();
		EXPECT_EQ(peer.link.frame(reply_key)[16], with_crc);
	});
}

// The bits with which two kiwarps agree on more than the RFCs have are told apart, see Documentation/protocol.md.
constexpr uint8_t reserved_1 = 0x1f, reserved_2 = 0x0f, takes_large = 0x04;

TEST(Setup, r014_reserved_bits_are_sent_zero)
{
	const auto request_flags = [&] {
		// Of its own: an attempt that ends without a Reply is made again with revision 1.
		const RawListener tcp;
		const auto side = vt::start_connecting(tcp.port, {});
		Link link(tcp.take());
		return link.frame(request_key)[16];
	};
	const auto reply_flags = [&](uint8_t asked) {
		Link link(dial(listener().port()));
		link.send(frame({.flags = asked}));
		const auto side = accept_next();
		return link.frame(reply_key)[16];
	};

	EXPECT_EQ(request_flags() & reserved_2, takes_large | asks_for_extensions);
	EXPECT_EQ(reply_flags(with_crc) & reserved_1, 0);
	EXPECT_EQ(reply_flags(with_crc | (reserved_1 & ~takes_large & ~asks_for_extensions)) & reserved_1, 0);
	EXPECT_EQ(reply_flags(with_crc | asks_for_extensions) & reserved_1, has_extensions);

	const Parameter plain("large", "N");
	EXPECT_EQ(request_flags() & reserved_2, asks_for_extensions);
	EXPECT_EQ(reply_flags(with_crc | (reserved_1 & ~asks_for_extensions)) & reserved_1, 0);
}

TEST(Setup, r015_reserved_bits_are_ignored)
{
	const RawListener tcp;

	for (uint8_t bits = 0; bits <= reserved_1; bits++) {
		SCOPED_TRACE(int(bits));
		Peer peer(dial(listener().port()));
		peer.link.send(frame({.flags = uint8_t(with_crc | bits)}));
		const auto side = accept_next({}, [](const vt::Side &s) { s.receive_empty(1); });
		EXPECT_EQ(peer.link.frame(reply_key)[16] & rejected, 0);
		peer.send(send_segment(1, {}));
		EXPECT_WC(side->received(), 0, IBV_WC_SUCCESS);
	}
	for (uint8_t bits = 0; bits <= reserved_2; bits++) {
		SCOPED_TRACE(int(bits));
		const auto side = vt::start_connecting(tcp.port, {});
		side->receive_empty(1);
		Peer peer(tcp.take());
		peer.link.frame(request_key);
		Frame f = good_reply();
		f.flags |= bits;
		peer.link.send(frame(f));
		peer.expect(tagged_segment(op_write, 1, 0, {}));
		peer.send(send_segment(1, {}));
		EXPECT_WC(side->received(), 0, IBV_WC_SUCCESS);
	}
}

TEST(Setup, r016_old_request_gets_an_old_reply)
{
	Link link(dial(listener().port()));

	link.send(frame({.revision = 1}));
	const auto side = accept_next();
	const Bytes reply = link.frame(reply_key);
	EXPECT_EQ(reply[17], 1);
	EXPECT_EQ(reply[16], with_crc);
	EXPECT_EQ(reply.size(), 20);
}

TEST(Setup, r017_unusable_revisions)
{
	for (const int revision : {0, 3, 4, 128, 255}) {
		SCOPED_TRACE(revision);
		refused_request(frame({.revision = uint8_t(revision)}));
		Frame f = good_reply();
		f.revision = revision;
		refused_reply(frame(f));
	}
	const Parameter old("mpa_rev", "1");
	refused_request(frame({.revision = 2}));
	refused_request(frame({.flags = with_crc | enhanced, .revision = 2, .data = word(4, 4)}));
}

TEST(Setup, r018_rejection_carries_its_private_data)
{

	for (const size_t n : {0, 1, 4, 200, 255}) {
		Link link(dial(listener().port()));
		link.send(frame({}));
		const auto [side, event] = next_request();
		const Bytes why = octets(n);
		ASSERT_EQ(rdma_reject(side->id(), why.data(), uint8_t(n)), 0);
		const Bytes reply = link.frame(reply_key);
		EXPECT_EQ(reply[16] & rejected, rejected);
		EXPECT_EQ(Bytes(reply.begin() + 20, reply.end()), why);
		EXPECT_EQ(link.rest(), Bytes());
	}
}

TEST(Setup, r019_initiator_that_is_rejected_tells_why_and_sends_nothing)
{
	const RawListener tcp;

	in_every_cut([&](Cut &cut) {
		const auto side = vt::start_connecting(tcp.port, {});
		Peer peer(tcp.take());
		peer.link.frame(request_key);
		Frame f = good_reply();
		f.flags |= rejected;
		f.data = f.data + hello;
		peer.deliver(frame(f), cut);
		EXPECT_EQ(side->events().wait(RDMA_CM_EVENT_REJECTED, side->id()).private_data, hello);
		EXPECT_EQ(peer.link.rest(), Bytes());
	});
}

TEST(Setup, r020_no_fpdu_after_a_rejection)
{
	const RawListener tcp;
	Peer forge(-1);
	const Bytes fpdu = forge.framed(send_segment(1, hello));

	Link link(dial(listener().port()));
	link.send(frame({}));
	const auto [refusing, event] = next_request();
	ASSERT_EQ(rdma_reject(refusing->id(), nullptr, 0), 0);
	link.frame(reply_key);
	link.send(fpdu);
	EXPECT_EQ(link.rest(true), Bytes());

	const auto side = vt::start_connecting(tcp.port, {});
	side->receive_empty(1);
	Link raw(tcp.take());
	raw.frame(request_key);
	Frame f = good_reply();
	f.flags |= rejected;
	raw.send(frame(f) + fpdu);
	EXPECT_EQ(raw.rest(true), Bytes());
	side->events().wait(RDMA_CM_EVENT_REJECTED, side->id());
	for (const ibv_wc &wc : vt::poll_all(side->recv_cq()))
		EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Setup, r021_silent_peer_is_dropped)
{
	const Parameter patience("mpa_timeout", "1");
	const Bytes request = frame({.data = hello});

	for (const size_t n : {size_t{0}, size_t{1}, size_t{16}, size_t{20}, request.size() - 1}) {
		SCOPED_TRACE(n);
		Link link(dial(listener().port()));
		link.send(first(request, n));
		EXPECT_EQ(link.rest(true), Bytes());
	}
	EXPECT_TRUE(no_event(listener().events(), 0));
}

TEST(Setup, r022_reply_that_does_not_come)
{
	const Parameter patience("connect_timeout", "1");
	const RawListener tcp;
	const auto side = vt::start_connecting(tcp.port, {});
	Link link(tcp.take());

	link.frame(request_key);
	EXPECT_EQ(link.rest(true), Bytes());
	EXPECT_EQ(side->events().wait_any(side->id()).type, RDMA_CM_EVENT_UNREACHABLE);
}

TEST(Setup, r022_dripping_reply_does_not_hold_the_attempt_up)
{
	const Parameter patience("connect_timeout", "1");
	const RawListener tcp;
	const auto side = vt::start_connecting(tcp.port, {});
	Link link(tcp.take());
	Frame f = good_reply();

	link.frame(request_key);
	f.data = f.data + octets(255);
	// It would take many times as long as kiwarp has to wait.
	for (const uint8_t octet : frame(f)) {
		if (!link.silent(100))
			break;
		try {
			link.send({octet});
		} catch (const Failure &) {
			break; // the reset came after the look
		}
	}
	EXPECT_NE(side->events().wait_any(side->id()).type, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(link.rest(true), Bytes());
}

// A listening kiwarp with a message to send, and a Request that has been answered
class Waiting {
public:
	explicit Waiting(bool crc = true) : peer(dial(listener().port()))
	{
		peer.use(crc);
		peer.link.send(frame({.flags = uint8_t(crc ? with_crc : 0)}));
		side = accept_next({}, [](const vt::Side &s) { s.receive_empty(1); });
		peer.link.frame(reply_key);
		EXPECT_EQ(side->send(), 0);
	}

	Peer peer;
	std::unique_ptr<vt::Side> side;
};

TEST(Setup, r023_responder_waits_for_a_good_fpdu)
{
	for (const bool crc : {false, true}) {
		Waiting w(crc);
		const Bytes write = w.peer.framed(tagged_segment(op_write, 0, 0, {}));

		EXPECT_TRUE(w.peer.link.silent(100));
		w.peer.link.send(first(write, write.size() - 1));
		EXPECT_TRUE(w.peer.link.silent(100));
		w.peer.link.send({write.back()});
		w.peer.expect(send_segment(1, {}));
	}
}

TEST(Setup, r024_bad_first_fpdu_does_not_let_it_send)
{
	Waiting w;

	w.peer.send(send_segment(1, {}), {.crc = 0x10});
	w.peer.expect(terminate_segment(2, 0, 2));
	w.peer.expect_end();
}

} // namespace
