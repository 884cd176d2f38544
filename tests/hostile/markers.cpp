// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Streams with markers, and without: where we ask for them, and where the target does, by its parameter.
#include "server.hpp"

namespace {

void exchange(Link &link, Stream &out, uint32_t number, const Bytes &message, bool slowly = false)
{
	const Bytes b = out.fpdu(send_segment(number, message));

	if (slowly)
		link.send_slowly(b);
	else
		link.send(b);
	auto back = link.ulpdu();
	if (!back || *back != send_segment(number, message))
		throw Failure("the message didn't come back as it was");
}

// A message after which the next FPDU starts so many octets before a marker
void approach(Link &link, Stream &out, uint32_t number, uint32_t distance)
{
	for (size_t n = 0; n < marker_spacing; n += 4) {
		Stream trial = out;
		trial.fpdu(send_segment(number, Bytes(n, 1)));
		if ((trial.offset + distance) % marker_spacing == 0)
			return exchange(link, out, number, Bytes(n, 1));
	}
	throw Failure("no such message");
}

// An FPDU of one of these, which has no PAD, with a marker: before, in the headers, in the payload, before the CRC
const Bytes forty(40, 0x40);
constexpr uint32_t forty_length = 2 + 18 + 40;
constexpr uint32_t distances[] = {0, 8, 16, 20, 36, forty_length};

// Messages of all lengths, and frames as long as the region
template <uint8_t flags, bool asked>
void transfer(Link &link)
{
	Region region = start(link, flags, asked);
	Stream out{asked};
	Bytes data;

	if (flags & with_markers)
		link.expect(flags & with_crc, true);
	for (uint32_t i = 1; i <= 200; i++)
		exchange(link, out, i, Bytes(size_t{5} * i, i));
	for (uint32_t i = 0; i < 60000; i++)
		data.push_back(i ^ i >> 8);
	link.send(out.fpdu(tagged_segment(op_write, region.stag, region.address, data)));
	link.send(out.fpdu(read_segment(1, region.stag, region.address, data.size())));
	Bytes read;
	while (read.size() < data.size()) {
		auto b = link.ulpdu();
		if (!b || ((*b)[1] & 0xf) != op_response)
			throw Failure("no Read Response");
		read.insert(read.end(), b->begin() + 14, b->end());
	}
	if (read != data)
		throw Failure("what was written isn't what is read");
	link.finish();
	link.must_end();
}

template <uint8_t flags>
void slow_markers(Link &link)
{
	start(link, flags, true);
	Stream out{true};
	uint32_t number = 1;

	for (uint32_t distance : distances) {
		approach(link, out, number++, distance);
		exchange(link, out, number++, forty, true);
	}
	link.finish();
	link.must_end();
}

template <uint8_t flags>
void markers_to_ignore(Link &link)
{
	start(link, flags, true);
	Stream out{true};
	uint32_t number = 1;

	for (uint32_t distance : distances) {
		approach(link, out, number++, distance);
		link.send(out.fpdu(send_segment(number, forty), {.marker = [](uint32_t right) {
			return right | 0xffff0003;
		}}));
		auto back = link.ulpdu();
		if (!back || *back != send_segment(number++, forty))
			throw Failure("the message didn't come back as it was");
	}
	link.finish();
	link.must_end();
}

template <uint8_t flags, uint32_t distance, bool damaged = false>
void wrong_marker(Link &link)
{
	start(link, flags, true);
	Stream out{true};

	approach(link, out, 1, distance);
	link.send(out.fpdu(send_segment(2, forty), {.crc = damaged, .marker = [](uint32_t right) {
							    return right ^ 0x0004;
						    }}));
	link.must_terminate(2, 0, damaged ? 2 : 3);
	link.finish();
	link.must_end();
}

void marker_alone(Link &link)
{
	start(link, with_crc, true);
	link.send(Bytes(4, 0));
	link.finish();
	link.must_end();
}

const Scenario scenarios[] = {
	{"large_frames", transfer<with_crc, false>, "connects=1", "longer than a segment"},
	{"markers", transfer<with_markers | with_crc, false>, "connects=1", "wants markers"},
	{"markers_without_crc", transfer<with_markers, false>, "connects=1", "wants markers"},
	{"marked_both", transfer<with_markers | with_crc, true>, "connects=1", ""},
	{"marked_both_without_crc", transfer<with_markers, true>, "connects=1", ""},
	{"marked", transfer<with_crc, true>, "connects=1", ""},
	{"marked_without_crc", transfer<0, true>, "connects=1", ""},
	{"marked_slowly", slow_markers<with_crc>, "connects=1", "octet by octet, but right"},
	{"marked_slowly_without_crc", slow_markers<0>, "connects=1", ""},
	{"marked_reserved", markers_to_ignore<with_crc>, "connects=1", "bits that mean nothing"},
	{"marked_reserved_without_crc", markers_to_ignore<0>, "connects=1", ""},
	{"marked_wrong_before", wrong_marker<with_crc, 0>, failed, "in front of the FPDU"},
	{"marked_wrong_in", wrong_marker<with_crc, 36>, failed, "in the payload"},
	{"marked_wrong_behind", wrong_marker<with_crc, forty_length>, failed, "before the CRC"},
	{"marked_wrong_before_without_crc", wrong_marker<0, 0>, failed, ""},
	{"marked_wrong_in_without_crc", wrong_marker<0, 36>, failed, ""},
	{"marked_wrong_behind_without_crc", wrong_marker<0, forty_length>, failed, ""},
	{"marked_wrong_and_bad_crc", wrong_marker<with_crc, 36, true>,
		"connects=1 crc_errors=1 stream_errors=1 terminates_sent=1", ""},
	{"marked_half", marker_alone, "connects=1 connections_lost=1", "a marker, and FIN"},
};

} // namespace

const std::span<const Scenario> towards_server_markers = scenarios;
