// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Servers that misbehave while a client (rping) connects to them
#include "scenarios.hpp"

namespace {

// Revision 2, peer to peer, as the client asks for it; the ready-to-receive message is to be a Write. rping wants one
// Read at a time either way.
Frame reply()
{
	return {.key = reply_key,
		.flags = with_crc | enhanced,
		.revision = 2,
		.data = word(peer_to_peer | 1, rtr_write | 1)};
}

void answer(Link &link, const Frame &f)
{
	link.frame(request_key);
	link.send(frame(f));
	link.must_end();
}

// The client sent its ready-to-receive message and, as rping does, a Send: the connection is up.
void must_be_up(Link &link)
{
	for (uint8_t op : {op_write, op_send}) {
		auto b = link.ulpdu();
		if (!b || b->size() < 14 || ((*b)[1] & 0xf) != op)
			throw Failure("the client didn't go on as it has to");
	}
}

template <int octets>
void short_word(Link &link)
{
	Frame f = reply();

	f.data.resize(octets);
	answer(link, f);
}

void no_answer(Link &link)
{
	link.frame(request_key);
	link.must_end();
}

void half_answer(Link &link)
{
	link.frame(request_key);
	link.send(first(frame(reply()), 18));
	link.must_end();
}

void wrong_key(Link &link)
{
	Frame f = reply();

	f.key = request_key;
	answer(link, f);
}

void wrong_revision(Link &link)
{
	Frame f = reply();

	f.revision = 3;
	answer(link, f);
}

void long_private_data(Link &link)
{
	Frame f = reply();

	f.announced = 600;
	answer(link, f);
}

void client_server(Link &link) // without peer-to-peer, which was asked for
{
	Frame f = reply();

	f.data = word(1, 1);
	answer(link, f);
}

void reject(Link &link)
{
	Frame f = reply();

	f.flags |= rejected;
	f.data = f.data + Bytes{'n', 'o'};
	answer(link, f);
}

void garbage(Link &link)
{
	link.frame(request_key);
	link.send(Bytes(100, 0x5a));
	link.must_end();
}

void fin_at_once(Link &link)
{
	link.finish();
	link.must_end();
}

void reset_at_once(Link &link)
{
	link.reset();
}

void reset_after_request(Link &link)
{
	link.frame(request_key);
	link.reset();
}

void reset_during_reply(Link &link)
{
	link.frame(request_key);
	link.send(first(frame(reply()), 22));
	link.reset();
}

void slow_reply(Link &link)
{
	link.frame(request_key);
	link.send_slowly(frame(reply()));
	must_be_up(link);
	link.finish();
	link.must_end();
}

void markers(Link &link)
{
	Frame f = reply();

	f.flags |= with_markers;
	link.frame(request_key);
	link.send(frame(f));
	link.expect(true, true);
	must_be_up(link);
	link.finish();
	link.must_end();
}

void asked_for_markers(Link &link) // by the client's parameter, and only in the octets that it receives
{
	if (!(link.frame(request_key)[16] & with_markers))
		throw Failure("the client doesn't ask for markers");
	link.send(frame(reply()));
	must_be_up(link);
	link.send(Stream{true}.fpdu(terminate_segment(0, 0, 0xff)));
	link.must_end();
}

void reset_when_up(Link &link)
{
	link.frame(request_key);
	link.send(frame(reply()));
	must_be_up(link);
	link.reset();
}

void goes_on(Link &link) // before it heard from the client
{
	link.frame(request_key);
	link.send(frame(reply()) + Bytes(100, 0x5a));
	link.finish();
	link.must_end();
}

// With a CRC it is the beginning of a long frame that never comes, without one it is a bad header.
template <int flags>
void garbage_when_up(Link &link)
{
	Frame f = reply();

	f.flags = flags;
	link.frame(request_key);
	link.send(frame(f));
	must_be_up(link);
	link.send(Bytes(100, 0x5a));
	link.finish();
	link.must_end();
}

void too_many_reads(Link &link) // more than the client said it holds
{
	Frame f = reply();

	f.data = word(peer_to_peer | 1, rtr_write | 8);
	link.frame(request_key);
	link.send(frame(f));
	link.must_terminate(2, 0, 6);
	link.finish();
	link.must_end();
}

void terminate_when_up(Link &link)
{
	link.frame(request_key);
	link.send(frame(reply()));
	must_be_up(link);
	link.send(fpdu(terminate_segment(0, 0, 0xff)));
	link.must_end();
}

constexpr const char *malformed = "connect_fails=1 mpa_malformed=1";
constexpr const char *failed = "connect_fails=1";

const Scenario scenarios[] = {
	{"garbage", garbage, malformed, "instead of a Reply"},
	{"request_key", wrong_key, malformed, "answers with a Request"},
	{"revision_3", wrong_revision, malformed, ""},
	{"private_data_600", long_private_data, malformed, ""},
	{"short_word_0", short_word<0>, malformed, "revision 2, no room for its word"},
	{"short_word_1", short_word<1>, malformed, ""},
	{"short_word_2", short_word<2>, malformed, ""},
	{"short_word_3", short_word<3>, malformed, ""},
	{"client_server", client_server, "connect_fails=1 *", "not the model that was asked for"},
	{"too_many_reads", too_many_reads, "connect_fails=1 stream_errors=1 terminates_sent=1 *", ""},
	{"no_answer", no_answer, "connect_fails=1 mpa_timeouts=1", ""},
	{"half_answer", half_answer, "connect_fails=1 mpa_timeouts=1", ""},
	{"reject", reject, failed, ""},
	{"fin_at_once", fin_at_once, failed, ""},
	{"reset_at_once", reset_at_once, failed, ""},
	{"reset_after_request", reset_after_request, failed, ""},
	{"reset_during_reply", reset_during_reply, failed, ""},
	{"slow_reply", slow_reply, "connects=1 *", "octet by octet, but right"},
	{"markers", markers, "connects=1 *", "wants markers"},
	{"marked", asked_for_markers, "connects=1 terminates_received=1", ""},
	{"reset_when_up", reset_when_up, "connects=1 connections_lost=1", ""},
	{"goes_on", goes_on, malformed, "doesn't wait for the client's first frame"},
	{"garbage_when_up", garbage_when_up<enhanced>, "connects=1 stream_errors=1 terminates_sent=1", ""},
	{"garbage_when_up_crc", garbage_when_up<with_crc | enhanced>, "connects=1 connections_lost=1", ""},
	{"terminate_when_up", terminate_when_up, "connects=1 terminates_received=1", ""},
};

} // namespace

const std::span<const Scenario> towards_client = scenarios;
