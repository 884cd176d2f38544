// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Segments that the target has to refuse, and what its Terminate has to say of them.
#include <unistd.h>

#include "server.hpp"

namespace {

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
	const Bytes offender = untagged_segment(op_send, 0, 1, 1024, Bytes(128, 1), ddp_1);
	link.send(fpdu(offender));
	link.must_terminate(1, 2, 5, offender);
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
	// Which of them is one too many depends on how fast the first ones are answered.
	link.must_terminate([&](auto &, auto &terminate) {
		const uint32_t number = terminate.size() < 38 ? 0 : get(&terminate[34], 4);
		if (number < 5 || number > 400)
			throw Failure("the Terminate names no Read that is one too many");
		return terminate_segment(1, 2, 2, read_segment(number, region.stag, region.address, region.length));
	});
	link.finish();
	link.must_end();
}

// The answers to these don't fit into the target's socket: it has to wait, in the middle of one.
constexpr uint32_t stuck_reads = 4, stuck_size = 60000;

Region get_stuck(Link &link)
{
	link.receive_little();
	Region region = start(link);

	for (uint32_t i = 1; i <= stuck_reads; i++)
		link.send(fpdu(read_segment(i, region.stag, region.address, stuck_size)));
	sleep(2);
	return region;
}

size_t octets_read(const std::vector<Bytes> &before)
{
	size_t sum = 0;

	for (auto &b : before)
		sum += b.size() - 14;
	return sum;
}

void stuck(Link &link)
{
	Region region = get_stuck(link);
	const Bytes offender = tagged_segment(op_write, region.stag ^ 1, region.address, hello);

	link.send(fpdu(offender));
	sleep(1);
	link.receive_as_usual();
	link.must_terminate([&](auto &before, auto &) {
		if (octets_read(before) >= stuck_reads * stuck_size)
			throw Failure("all answers came, those too that were due after the error");
		return terminate_segment(1, 1, 0, offender);
	});
	link.finish();
	link.must_end();
}

void stuck_for_ever(Link &link)
{
	Region region = get_stuck(link);

	link.send(fpdu(tagged_segment(op_write, region.stag ^ 1, region.address, hello)));
	link.must_reset();
}

// The region goes while it is being read: the Terminate speaks of what is left of that Read.
void forgotten(Link &link)
{
	Region region = get_stuck(link);

	link.send(fpdu(send_segment(1, {'f', 'o', 'r', 'g', 'e', 't'})));
	sleep(1);
	link.receive_as_usual();
	link.must_terminate([&](auto &before, auto &) {
		const uint32_t whole = octets_read(before) / stuck_size, done = octets_read(before) % stuck_size;
		if (whole >= stuck_reads)
			throw Failure("all Reads were answered");
		return terminate_segment(
			0, 1, 0, read_segment(whole + 1, region.stag, region.address + done, stuck_size - done, done));
	});
	link.finish();
	link.must_end();
}

// Errors of the target's own: nothing is said of any segment.
void spoilt(Link &link)
{
	start(link);
	link.send(fpdu(send_segment(1, {'s', 'p', 'o', 'i', 'l'})));
	link.must_terminate(0, 0, 0xff);
	link.finish();
	link.must_end();
}

void stopped(Link &link)
{
	start(link);
	link.send(fpdu(send_segment(1, {'s', 't', 'o', 'p'})));
	link.must_terminate(0, 0, 0xff);
	link.finish();
	link.must_end();
}

void two_errors(Link &link) // and much in between; only the first counts
{
	Region region = start(link);
	const Bytes offender = tagged_segment(op_write, region.stag ^ 1, region.address, hello);
	Bytes more;

	for (uint32_t i = 0; i < 100; i++)
		more = more + fpdu(tagged_segment(op_write, region.stag, region.address, page));
	link.send(fpdu(offender) + more + fpdu(send_segment(7, hello)) + more);
	link.must_terminate(1, 1, 0, offender);
	link.send(fpdu(send_segment(1, hello)));
	link.finish();
	link.must_end();
}

void write_without_right(Link &link)
{
	refused(link, 0, 1, 2, [](Region r) { return tagged_segment(op_write, r.read_only, r.address, hello); });
}

void read_without_right(Link &link)
{
	refused(link, 0, 1, 2, [](Region r) { return read_segment(1, r.write_only, r.address, 16); });
}

void read_wrap(Link &link)
{
	refused(link, 0, 1, 4, [](Region r) { return read_segment(1, r.stag, ~uint64_t(3), 16); });
}

void short_read(Link &link)
{
	refused(link, 0, 2, 7, [](Region r) {
		const Bytes whole = read_segment(1, r.stag, r.address, 16);
		return first(whole, whole.size() - 1);
	});
}

void long_read(Link &link)
{
	refused(link, 1, 2, 5, [](Region r) { return read_segment(1, r.stag, r.address, 16) + Bytes{0}; });
}

void invalidate(Link &link)
{
	refused(link, 0, 2, 9,
		[](Region r) { return untagged_segment(op_send_inv, 0, 1, 0, hello, last | ddp_1, rdmap_1, r.stag); });
}

void response_unasked(Link &link)
{
	refused(link, 0, 2, 6, [](Region) { return tagged_segment(op_response, 0x1234, 0, hello); });
}

void tagged_send(Link &link)
{
	refused(link, 0, 2, 6, [](Region r) { return tagged_segment(op_send, r.stag, r.address, hello); });
}

void terminate(Link &link)
{
	start(link);
	link.send(fpdu(terminate_segment(0, 0, 0xff)));
	if (link.ulpdu())
		throw Failure("there is an answer");
	link.finish();
}

// However many octets it has, and whatever it says of itself: it is the end, and there is no answer.
template <size_t octets>
void odd_terminate(Link &link)
{
	start(link);
	link.send(fpdu(untagged_segment(op_terminate, 2, 1, 0, Bytes(octets, 0xff))));
	if (link.ulpdu())
		throw Failure("there is an answer");
	link.finish();
}

// Nothing of it is for memory, wherever it says that it belongs.
void terminate_far_behind(Link &link)
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

// The other side has said all it has to say, and waits for our FIN, but not for ever.
void never_closes(Link &link)
{
	const Bytes late = send_segment(2, hello);

	start(link);
	link.send(fpdu(late));
	link.must_terminate(1, 2, 3, late);
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

const Scenario scenarios[] = {
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
	{"response_unasked", response_unasked, failed, "to no Read"},
	{"tagged_send", tagged_send, failed, ""},
	{"write_without_right", write_without_right, failed, ""},
	{"read_without_right", read_without_right, failed, ""},
	{"read_wrap", read_wrap, failed, "around the end of all addresses"},
	{"short_read", short_read, failed, "an octet less than a Read Request has"},
	{"long_read", long_read, failed, "an octet more"},
	{"invalidate", invalidate, failed, "a region that no peer may invalidate"},
	{"two_errors", two_errors, failed, "and much in between"},
	{"stuck", stuck, failed, "reads nothing until the target has an error to tell"},
	{"stuck_for_ever", stuck_for_ever, "connects=1 stream_errors=1 *", "reads nothing at all"},
	{"forgotten", forgotten, failed, "the target's region goes in the middle of a Read"},
	{"spoilt", spoilt, failed, "the target's own request is bad"},
	{"stopped", stopped, failed, "the target's user wants a Terminate"},
	{"terminate", terminate, "connects=1 terminates_received=1", ""},
	{"terminate_of_no_octets", odd_terminate<0>, "connects=1 terminates_received=1", ""},
	{"terminate_of_2_octets", odd_terminate<2>, "connects=1 terminates_received=1", "shorter than it may be"},
	{"terminate_of_20_octets", odd_terminate<20>, "connects=1 terminates_received=1", "shorter than it says"},
	{"terminate_of_1000_octets", odd_terminate<1000>, "connects=1 terminates_received=1", "longer than it may be"},
	{"terminate_far_behind", terminate_far_behind, "connects=1 terminates_received=1", "all buffers, by its MO"},
	{"terminate_within_a_message", terminate_within_a_message, "connects=1 terminates_received=1",
		"with a receive taken"},
	{"never_closes", never_closes, failed, "its direction, after an error"},
};

} // namespace

const std::span<const Scenario> towards_server_segments = scenarios;
