// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Peers that connect to a server and misbehave at each step. The server is hostile_target.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "link.hpp"

namespace {

// What the target tells in its Reply about the region that we may use
struct Region {
	uint64_t address;
	uint32_t stag;
	uint32_t length;
};

Region start(Link &link, uint8_t flags = with_crc)
{
	link.send(frame({.flags = flags}));
	Bytes reply = link.frame(reply_key);
	if (reply[16] & rejected || reply.size() != 20 + 16)
		throw Failure("the target didn't accept");
	return {get(&reply[20], 8), uint32_t(get(&reply[28], 4)), uint32_t(get(&reply[32], 4))};
}

// The target sends back what it gets.
void echo(Link &link, uint32_t number, const Bytes &message)
{
	link.send(fpdu(send_segment(number, message)));
	auto back = link.ulpdu();
	if (!back || *back != send_segment(number, message))
		throw Failure("the message didn't come back as it was");
}

// What the target may not take: it has to say why, and to end
template <typename Make>
void refused(Link &link, uint8_t layer, uint8_t type, uint8_t code, Make make)
{
	Region region = start(link);

	link.send(fpdu(make(region)));
	link.must_terminate(layer, type, code);
	link.finish();
	link.must_end();
}

const Bytes hello = {'h', 'e', 'l', 'l', 'o'};
const Bytes page(4096, 0x55);

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

void markers(Link &link)
{
	link.send(frame({.flags = with_crc | with_markers}));
	Bytes reply = link.frame(reply_key);
	if (!(reply[16] & rejected))
		throw Failure("accepted, but nobody there inserts markers");
	link.must_end();
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
	// But for the one with which our own kind says that it takes large FPDUs, which has an answer
	link.send(frame({.flags = with_crc | 0x1b}));
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

void delay(const char *how)
{
	const std::string command = std::string("tc qdisc replace dev veth0 root netem delay 30ms limit 100000 ") + how;

	if (std::system(command.c_str()))
		throw Failure("tc");
}

// The end of the stream comes together with more than is taken at once: all of it was waiting behind one lost frame.
void fin_behind_a_gap(Link &link)
{
	struct Restore {
		~Restore() { (void)!std::system("tc qdisc delete dev veth0 root"); }
	} restore;
	Region region = start(link, 0);
	Bytes one = fpdu(tagged_segment(op_write, region.stag, region.address, Bytes(60000, 1)));

	delay("");
	// So that the windows grow
	for (int i = 0; i < 1000; i++)
		link.send(one);
	link.send_slowly(fpdu(tagged_segment(op_write, region.stag, region.address, {})));
	delay("loss 100%");
	link.send(fpdu(tagged_segment(op_write, region.stag, region.address, hello)));
	usleep(50000);
	delay("");
	for (int i = 0; i < 60; i++)
		link.send(one);
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

// --- segments ---

void opcode(Link &link)
{
	refused(link, 0, 2, 6, [](Region) { return untagged_segment(0xc, 0, 1, 0, hello); });
}

void rdmap_version(Link &link)
{
	refused(link, 0, 2, 5, [](Region) { return untagged_segment(op_send, 0, 1, 0, hello, last | ddp_1, 0x80); });
}

void ddp_version(Link &link)
{
	refused(link, 1, 2, 6, [](Region) { return untagged_segment(op_send, 0, 1, 0, hello, last | 2); });
}

void tagged_ddp_version(Link &link)
{
	refused(link, 1, 1, 4,
		[](Region r) { return tagged_segment(op_write, r.stag, r.address, hello, tagged | last | 2); });
}

void queue_number(Link &link)
{
	refused(link, 1, 2, 1, [](Region) { return untagged_segment(op_send, 9, 1, 0, hello); });
}

void message_number(Link &link)
{
	refused(link, 1, 2, 3, [](Region) { return send_segment(2, hello); });
}

void message_offset(Link &link)
{
	refused(link, 1, 2, 4, [](Region) { return untagged_segment(op_send, 0, 1, 64, hello); });
}

void long_message(Link &link) // the target's buffers have 1024 octets
{
	refused(link, 1, 2, 5, [](Region) { return send_segment(1, Bytes(1400, 1)); });
}

void no_receive(Link &link)
{
	start(link);
	// The target has 8 buffers, and gives them back only when it runs: one message that never ends takes one, but
	// its next parts go on to the buffer's end.
	for (uint32_t i = 0; i < 8; i++)
		link.send(fpdu(untagged_segment(op_send, 0, 1, i * 128, Bytes(128, 1), ddp_1)));
	link.send(fpdu(untagged_segment(op_send, 0, 1, 1024, Bytes(128, 1), ddp_1)));
	link.must_terminate(1, 2, 5);
	link.finish();
	link.must_end();
}

void write_stag(Link &link)
{
	refused(link, 1, 1, 0, [](Region r) { return tagged_segment(op_write, r.stag ^ 1, r.address, hello); });
}

void write_index(Link &link)
{
	refused(link, 1, 1, 0,
		[](Region r) { return tagged_segment(op_write, r.stag ^ 0x7fff0000, r.address, hello); });
}

void write_before(Link &link)
{
	refused(link, 1, 1, 1, [](Region r) { return tagged_segment(op_write, r.stag, r.address - 1, hello); });
}

void write_behind(Link &link)
{
	refused(link, 1, 1, 1,
		[](Region r) { return tagged_segment(op_write, r.stag, r.address + r.length - 4, hello); });
}

void write_wrap(Link &link)
{
	refused(link, 1, 1, 3, [](Region r) { return tagged_segment(op_write, r.stag, ~uint64_t(3), Bytes(8, 1)); });
}

void read_stag(Link &link)
{
	refused(link, 0, 1, 0, [](Region r) { return read_segment(1, r.stag ^ 1, r.address, 16); });
}

void read_behind(Link &link)
{
	refused(link, 0, 1, 1, [](Region r) { return read_segment(1, r.stag, r.address + 16, r.length); });
}

void read_flood(Link &link)
{
	link.receive_little();
	Region region = start(link);

	// Far more than the target has agreed to hold. While nobody takes the answers they pile up.
	for (uint32_t i = 1; i <= 400; i++)
		link.send(fpdu(read_segment(i, region.stag, region.address, region.length)));
	link.must_terminate(1, 2, 2);
	link.finish();
	link.must_end();
}

// The other side has said all it has to say, and waits for our FIN, but not for ever.
void never_closes(Link &link)
{
	start(link);
	link.send(fpdu(send_segment(2, hello)));
	link.must_terminate(1, 2, 3);
	link.must_end();
	for (int i = 0; i < 60000; i++) {
		try {
			link.send({0});
		} catch (const Failure &) {
			return;
		}
		usleep(1000);
	}
	throw Failure("the connection is still there");
}

void response_unasked(Link &link)
{
	start(link);
	link.send(fpdu(tagged_segment(op_response, 0x1234, 0, hello)));
	link.must_end();
}

void terminate(Link &link)
{
	start(link);
	link.send(fpdu(terminate_segment(0, 0, 0xff)));
	link.must_end();
}

void terminate_with_little(Link &link)
{
	start(link);
	link.send(fpdu(untagged_segment(op_terminate, 2, 1, 0, {0, 0})));
	link.must_end();
}

// Nothing of it is for memory, however much there is and wherever it says that it belongs.
void terminate_with_much(Link &link)
{
	Region region = start(link);

	link.send(fpdu(tagged_segment(op_write, region.stag, region.address, hello)));
	link.send(fpdu(untagged_segment(op_terminate, 2, 1, 0x7ffff000, Bytes(1000, 0x5a))));
	link.must_end();
}

void terminate_within_a_message(Link &link)
{
	start(link);
	link.send(fpdu(untagged_segment(op_send, 0, 1, 0, hello, ddp_1)));
	link.send(fpdu(untagged_segment(op_terminate, 2, 1, 512, Bytes(1000, 0x5a))));
	link.must_end();
}

constexpr const char *failed = "connects=1 stream_errors=1 terminates_sent=1";
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
	{"markers", markers, "mpa_rejects=1", "wants markers"},
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
	{"fin_during_frame", fin_during_frame, "connects=1 connections_lost=1", ""},
	{"fin_behind_a_gap", fin_behind_a_gap, "connects=1", "with megabytes in between"},
	{"garbage_after_start", garbage_after_start, "connects=1 stream_errors=1 *", ""},
	{"garbage_without_crc", garbage_without_crc, "connects=1 stream_errors=1 *", ""},
	{"urgent", urgent, "connects=1 *", "TCP's urgent data in between"},

	{"opcode", opcode, failed, ""},
	{"rdmap_version", rdmap_version, failed, ""},
	{"ddp_version", ddp_version, failed, "of an untagged segment"},
	{"tagged_ddp_version", tagged_ddp_version, failed, ""},
	{"queue_number", queue_number, failed, ""},
	{"message_number", message_number, failed, "not the next"},
	{"message_offset", message_offset, failed, "not the next"},
	{"long_message", long_message, failed, "does not fit the buffer"},
	{"endless_message", no_receive, failed, "each part fits, all of them don't"},
	{"write_key", write_stag, failed, "wrong key octet"},
	{"write_index", write_index, failed, "unknown STag"},
	{"write_before", write_before, failed, "the region"},
	{"write_behind", write_behind, failed, "the region"},
	{"write_wrap", write_wrap, failed, "around the end of all addresses"},
	{"read_key", read_stag, failed, "wrong key octet"},
	{"read_behind", read_behind, failed, "the region"},
	{"read_flood", read_flood, failed, "more Reads than agreed on"},
	{"response_unasked", response_unasked, "connects=1 stream_errors=1 *", "to no Read"},
	{"never_closes", never_closes, failed, "its direction, after an error"},
	{"terminate", terminate, "connects=1 terminates_received=1", ""},
	{"terminate_with_little", terminate_with_little, "connects=1 *", "shorter than it may be"},
	{"terminate_with_much", terminate_with_much, "connects=1 terminates_received=1", "longer than it may be"},
	{"terminate_within_a_message", terminate_within_a_message, "connects=1 terminates_received=1",
		"the same, with a receive taken"},
};

} // namespace

const std::span<const Scenario> towards_server = scenarios;
