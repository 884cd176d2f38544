// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Peers that connect to a server and misbehave during the start-up, and in what TCP carries for them.
#include "server.hpp"

namespace {

// --- start-up ---

void start_up(Link &link, const Bytes &b)
{
	link.send(b);
	link.must_end();
}

void reset_during_request(Link &link)
{
	link.send(first(frame({}), 11));
	link.reset();
}

void fin_during_request(Link &link)
{
	link.send_slowly(first(frame({}), 11));
	link.finish();
	link.must_end();
}

void reset_after_request(Link &link)
{
	link.send(frame({}));
	link.reset();
}

void much_private_data(Link &link)
{
	link.send(frame({.data = Bytes(512, 7)}));
	Bytes reply = link.frame(reply_key);
	if (!(reply[16] & rejected))
		throw Failure("accepted, though the server can't have seen the private data");
	link.must_end();
}

void reserved_bits(Link &link)
{
	// But for those with which our own kind says what it takes beyond the RFCs, which have an answer
	link.send(frame({.flags = with_crc | 0x13}));
	Bytes reply = link.frame(reply_key);
	if (reply[16] & 0x1f)
		throw Failure("reserved bits came back");
	echo(link, 1, hello);
}

void slow_request(Link &link)
{
	link.send_slowly(frame({}));
	link.frame(reply_key);
	echo(link, 1, hello);
	link.finish();
	link.must_end();
}

void slow_request_2(Link &link)
{
	link.send_slowly(
		frame({.flags = with_crc | enhanced, .revision = 2, .data = word(peer_to_peer | 4, rtr_write | 4)}));
	Bytes reply = link.frame(reply_key);
	if (!(reply[16] & enhanced) || reply[17] != 2)
		throw Failure("revision 2 wasn't answered as such");
	link.send_slowly(fpdu(tagged_segment(op_write, 1, 0, {})));
	echo(link, 1, hello);
}

void no_rtr(Link &link)
{
	link.send(frame({.flags = with_crc | enhanced, .revision = 2, .data = word(peer_to_peer | 4, rtr_write | 4)}));
	link.frame(reply_key);
	link.must_end();
}

void wrong_rtr(Link &link)
{
	link.send(frame({.flags = with_crc | enhanced, .revision = 2, .data = word(peer_to_peer | 4, rtr_write | 4)}));
	link.frame(reply_key);
	link.send(fpdu(untagged_segment(op_terminate, 5, 1, 0, {})));
	link.must_end();
}

void reset_instead_of_rtr(Link &link)
{
	link.send(frame({.flags = with_crc | enhanced, .revision = 2, .data = word(peer_to_peer | 4, rtr_write | 4)}));
	link.frame(reply_key);
	link.reset();
}

// --- frames ---

void good(Link &link)
{
	Region region = start(link);

	for (uint32_t i = 1; i <= 20; i++)
		echo(link, i, Bytes(size_t{7} * i, i));
	link.send(fpdu(tagged_segment(op_write, region.stag, region.address, page)));
	link.send(fpdu(read_segment(1, region.stag, region.address, page.size())));
	Bytes read;
	while (read.size() < page.size()) {
		auto b = link.ulpdu();
		if (!b || ((*b)[1] & 0xf) != op_response)
			throw Failure("no Read Response");
		read.insert(read.end(), b->begin() + 14, b->end());
	}
	if (read != page)
		throw Failure("what was written isn't what is read");
	link.finish();
	link.must_end();
}

void slow_frames(Link &link)
{
	Region region = start(link);

	link.send_slowly(fpdu(tagged_segment(op_write, region.stag, region.address, hello)));
	for (uint32_t i = 1; i <= 4; i++) { // each number of pad octets
		Bytes message(i, i);
		link.send_slowly(fpdu(send_segment(i, message)));
		auto back = link.ulpdu();
		if (!back || *back != send_segment(i, message))
			throw Failure("the message didn't come back as it was");
	}
	link.finish();
	link.must_end();
}

void bad_crc(Link &link)
{
	start(link);
	link.send(fpdu(send_segment(1, hello), 0x100));
	link.must_terminate(2, 0, 2);
	link.finish();
	link.must_end();
}

void bad_crc_of_write(Link &link)
{
	Region region = start(link);

	// A damaged header must not choose an address: this one would be wrong in itself.
	link.send(fpdu(tagged_segment(op_write, region.stag ^ 0x1000, region.address, page), 1));
	link.must_terminate(2, 0, 2);
	link.finish();
	link.must_end();
}

// Every length that has no room for a header
template <size_t octets, bool is_tagged>
void short_frame(Link &link)
{
	Region region = start(link);
	Bytes whole = is_tagged ? tagged_segment(op_write, region.stag, region.address, {}) : send_segment(1, {});

	link.send(fpdu(first(whole, octets)));
	link.must_end();
}

void reset_during_frame(Link &link)
{
	start(link);
	link.send(first(fpdu(send_segment(1, page)), 100));
	link.reset();
}

void fin_during_frame(Link &link)
{
	start(link);
	link.send(first(fpdu(send_segment(1, page)), 100));
	link.finish();
	link.must_end();
}

void fin_behind_much(Link &link)
{
	Region region = start(link);
	const Bytes frame = fpdu(tagged_segment(op_write, region.stag, region.address, page));

	for (int i = 0; i < 400; i++)
		link.send(frame);
	link.finish();
	link.must_end();
}

void reset_after_start(Link &link)
{
	start(link);
	link.reset();
}

void garbage_after_start(Link &link)
{
	start(link);
	Bytes noise;
	for (uint32_t i = 0, x = 12345; i < 20000; i++, x = x * 1664525 + 1013904223)
		noise.push_back(x >> 24);
	try {
		link.send(noise);
	} catch (const Failure &) {
		// It may end while we are still sending.
	}
	link.finish();
	link.must_end();
}

void garbage_without_crc(Link &link)
{
	start(link, 0);
	link.send(Bytes(4096, 0xff));
	link.finish();
	link.must_end();
}

void urgent(Link &link)
{
	start(link);
	echo(link, 1, hello);
	link.send_urgent('!');
	link.send(fpdu(send_segment(2, hello)));
	link.finish();
	link.must_end();
}

constexpr const char *malformed = "mpa_malformed=1";

const Scenario scenarios[] = {
	{"garbage", [](Link &l) { start_up(l, Bytes(64, 0xa5)); }, malformed, "no MPA at all"},
	{"http",
		[](Link &l) {
			start_up(l, {'G', 'E', 'T', ' ', '/', '\r', '\n', '\r', '\n'});
		},
		malformed, "another protocol"},
	{"silence", [](Link &l) { l.must_end(); }, "mpa_timeouts=1", "connects and says nothing"},
	{"half_request", [](Link &l) { start_up(l, first(frame({}), 10)); }, "mpa_timeouts=1", "stops in the key"},
	{"half_private_data", [](Link &l) { start_up(l, frame({.data = hello, .announced = 10})); }, "mpa_timeouts=1",
		"stops in the private data"},
	{"reply_key", [](Link &l) { start_up(l, frame({.key = reply_key})); }, malformed, "sends a Reply"},
	{"revision_0", [](Link &l) { start_up(l, frame({.revision = 0})); }, malformed, ""},
	{"revision_3", [](Link &l) { start_up(l, frame({.revision = 3})); }, malformed, ""},
	{"private_data_513", [](Link &l) { start_up(l, frame({.data = Bytes(513, 1)})); }, malformed, ""},
	{"private_data_65535", [](Link &l) { start_up(l, frame({.announced = 65535})); }, malformed, ""},
	{"short_word",
		[](Link &l) {
			start_up(l, frame({.flags = enhanced, .revision = 2, .data = {1, 2, 3}}));
		},
		malformed, "revision 2, no room for its word"},
	{"too_early", [](Link &l) { start_up(l, frame({}) + fpdu(send_segment(1, hello))); }, malformed,
		"goes on before the Reply"},
	{"reset_at_once", [](Link &l) { l.reset(); }, "", ""},
	{"fin_at_once",
		[](Link &l) {
			l.finish();
			l.must_end();
		},
		"", ""},
	{"reset_during_request", reset_during_request, "", ""},
	{"fin_during_request", fin_during_request, "", "octet by octet"},
	{"reset_after_request", reset_after_request, "*", "the server may or may not see it in time"},
	{"much_private_data", much_private_data, "mpa_rejects=1", "more than a server could be told"},
	{"reserved_bits", reserved_bits, "connects=1 *", "are to be ignored"},
	{"slow_request", slow_request, "connects=1", "octet by octet, but right"},
	{"slow_request_2", slow_request_2, "connects=1 *", "the same with revision 2 and a ready-to-receive Write"},
	{"no_rtr", no_rtr, "mpa_timeouts=1", "never says that it is ready to receive"},
	{"wrong_rtr", wrong_rtr, "stream_errors=1 *", "says something else instead"},
	{"reset_instead_of_rtr", reset_instead_of_rtr, "connections_lost=1", ""},

	{"good", good, "connects=1", "everything right"},
	{"slow_frames", slow_frames, "connects=1", "octet by octet, but right"},
	{"bad_crc", bad_crc, "connects=1 crc_errors=1 stream_errors=1 terminates_sent=1", "of a Send"},
	{"bad_crc_of_write", bad_crc_of_write, "connects=1 crc_errors=1 stream_errors=1 terminates_sent=1", ""},
	{"no_header", short_frame<0, false>, "connects=1 stream_errors=1 *", "a ULPDU of no octets"},
	{"one_octet", short_frame<1, false>, "connects=1 stream_errors=1 *", ""},
	{"two_octets", short_frame<2, true>, "connects=1 stream_errors=1 *", ""},
	{"short_tagged", short_frame<13, true>, "connects=1 stream_errors=1 *", "an octet less than a header"},
	{"short_untagged", short_frame<17, false>, "connects=1 stream_errors=1 *", "an octet less than a header"},
	{"reset_after_start", reset_after_start, "connects=1 connections_lost=1", ""},
	{"reset_during_frame", reset_during_frame, "connects=1 connections_lost=1", ""},
	{"fin_behind_much", fin_behind_much, "connects=1", "of good frames"},
	{"fin_during_frame", fin_during_frame, "connects=1 connections_lost=1", ""},
	{"garbage_after_start", garbage_after_start, "connects=1 stream_errors=1 *", ""},
	{"garbage_without_crc", garbage_without_crc, "connects=1 stream_errors=1 *", ""},
	{"urgent", urgent, "connects=1 *", "TCP's urgent data in between"},
};

} // namespace

const std::span<const Scenario> towards_server = scenarios;
