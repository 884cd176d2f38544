// SPDX-License-Identifier: GPL-2.0
#include <algorithm>
#include <cstdio>

#include "model.hpp"

namespace model {

// RFC 5044 sections 4.1 to 4.4: every octet of the stream is either one of a marker, which starts wherever the grid has
// a line, or belongs to the FPDU. A marker on the line where an FPDU ends is left to the next.
Fpdu take_fpdu(Octets stream, size_t at, uint32_t base, bool markers)
{
	Bytes plain;
	Fpdu f;
	size_t length = 0, whole = 0;

	while (!f.complete) {
		if (markers && (base + uint32_t(at)) % 512 == 0) {
			if (stream.size() < at + 4)
				break;
			f.markers_at.push_back(at);
			at += 4;
		}
		if (at >= stream.size())
			break;
		if (plain.empty())
			f.start = at;
		if (f.has_length && plain.size() == whole - 4)
			f.crc_at = at;
		plain.push_back(stream[at++]);
		if (plain.size() == 2) {
			length = size_t(get(plain.data(), 2));
			f.has_length = true;
			whole = 2 + length;
			while (whole % 4)
				whole++;
			whole += 4;
		}
		f.complete = f.has_length && plain.size() == whole;
	}
	f.end = at;
	for (size_t i = 2; f.has_length && i < plain.size() && i < 2 + length; i++)
		f.ulpdu.push_back(plain[i]);
	return f;
}

// Markers that point elsewhere than at ULPDU_Length
static std::vector<size_t> astray(const Fpdu &f, Octets stream)
{
	std::vector<size_t> wrong;

	for (const size_t where : f.markers_at) {
		const auto said = uint16_t(get(&stream[where + 2], 2));
		const auto is = where < f.start ? uint16_t(0) : uint16_t(where - f.start);
		if ((said & 0xfffc) != is)
			wrong.push_back(where);
	}
	return wrong;
}

static bool crc_good(const Fpdu &f, Octets stream, size_t at)
{
	const uint32_t sum = crc32c({stream.begin() + ptrdiff_t(at), stream.begin() + ptrdiff_t(f.crc_at)});
	bool good = true;

	for (size_t i = 0; i < 4; i++)
		good &= stream[f.crc_at + i] == uint8_t(sum >> (8 * i));
	return good;
}

namespace {

// What the stream has brought so far
struct State {
	struct Queue {
		uint32_t number = 1;
		uint64_t offset = 0;
	} queues[4];
	unsigned receives, reads, atomics;
	bool receiving = false;
};

// RFC 5041 section 7.1: the checks of an untagged segment, in their order
std::optional<Error> sequence(State &state, const Segment &s, const Receiver &r)
{
	State::Queue &q = state.queues[s.queue];

	if (s.number != q.number)
		return Error{1, 2, 0x03};
	unsigned &buffers = s.queue == 0 ? state.receives : s.queue == 1 ? state.reads : state.atomics;
	if (!(s.queue == 0 && state.receiving)) {
		if (buffers == 0)
			return Error{1, 2, 0x02};
		buffers--;
		state.receiving |= s.queue == 0;
	}
	if (s.message_offset != q.offset || (s.single && s.message_offset))
		return Error{1, 2, 0x04};
	if (!s.single && s.message_offset + uint64_t(s.payload) > r.room)
		return Error{1, 2, 0x05};
	if (s.last) {
		q.number++;
		q.offset = 0;
		if (s.queue == 0)
			state.receiving = false;
	} else {
		q.offset += s.payload;
	}
	return std::nullopt;
}

// The event of one ULPDU
Event deliver(State &state, Octets ulpdu, const Receiver &r)
{
	const Parsed p = segment(ulpdu, r.caps);
	Event e;

	e.error = p.error;
	if (e.error)
		return e;
	if (p.segment.opcode == 0x7) {
		e.terminated = true;
		e.terminate = terminate(ulpdu);
		return e;
	}
	if (!p.segment.tagged) {
		e.error = sequence(state, p.segment, r);
		if (e.error)
			return e;
	}
	e.segment = p.segment;
	e.payload.assign(ulpdu.begin() + ptrdiff_t(p.segment.header), ulpdu.end());
	return e;
}

// What has to be found wrong in the first octets of a ULPDU, once the headers that show it are there. Only asked where
// nothing has to be verified first.
std::optional<Error> doomed(State state, Octets start, size_t length, const Receiver &r)
{
	if (length >= 14 && start.size() < 14)
		return std::nullopt;
	if (length >= 18 && !(start[0] & 0x80) && start.size() < 18)
		return std::nullopt;
	Bytes whole(start.begin(), start.end());
	whole.resize(length);
	// The octets that are made up belong to RDMAP's headers and payload, which aren't judged.
	const Parsed p = segment(whole, r.caps);
	if (p.error || start.size() < p.segment.header)
		return p.error;
	return deliver(state, whole, r).error;
}

} // namespace

// The octets of the ULPDU that lie before a place in the stream
static Octets before(const Fpdu &f, size_t place)
{
	size_t n = place < f.start ? 0 : place - f.start;

	for (const size_t where : f.markers_at)
		n -= where > f.start && where < place ? 4 : 0;
	return Octets(f.ulpdu).first(std::min(f.ulpdu.size(), n - std::min<size_t>(n, 2)));
}

Outcome receive(Octets stream, const Receiver &r)
{
	constexpr Error bad_crc{2, 0, 0x02}, bad_marker{2, 0, 0x03};
	State state{{}, r.receives, r.ird, r.atomics};
	Outcome o;
	auto fail = [&](const Error &e) {
		Event event;
		event.error = e;
		o.events.push_back(event);
	};

	for (;;) {
		const Fpdu f = take_fpdu(stream, o.consumed, r.base, r.markers);
		const std::vector<size_t> wrong = astray(f, stream);
		if (r.crc) {
			if (!f.complete)
				return o;
			if (!crc_good(f, stream, o.consumed)) {
				fail(bad_crc);
				return o;
			}
			if (!wrong.empty()) {
				fail(bad_marker);
				return o;
			}
		} else if (!f.complete || !wrong.empty()) {
			// What comes first in the stream is found first.
			const size_t reach = wrong.empty() ? stream.size() : wrong[0];
			std::optional<Error> e;
			if (f.has_length && f.start < reach)
				e = doomed(state, before(f, reach), size_t(get(&stream[f.start], 2)), r);
			if (!e && !wrong.empty())
				e = bad_marker;
			if (e)
				fail(*e);
			return o;
		}
		o.events.push_back(deliver(state, f.ulpdu, r));
		if (o.events.back().error)
			return o;
		o.consumed = f.end;
		if (o.events.back().terminated)
			return o;
	}
}

std::string describe(const Event &e)
{
	char text[200];

	if (e.error) {
		snprintf(text, sizeof(text), "error %x/%x/%02x", e.error->layer, e.error->type, e.error->code);
	} else if (e.terminated && e.terminate) {
		snprintf(text, sizeof(text), "Terminate %x/%x/%02x", e.terminate->raw.layer, e.terminate->raw.type,
			e.terminate->raw.code);
	} else if (e.terminated) {
		snprintf(text, sizeof(text), "bad Terminate");
	} else {
		const Segment &s = e.segment;
		snprintf(text, sizeof(text),
			"opcode %x%s stag %x offset %llx queue %x number %x message offset %x, %zu + %zu octets",
			s.opcode, s.last ? " last" : "", s.stag, static_cast<unsigned long long>(s.offset), s.queue,
			s.number, s.message_offset, s.header, s.payload);
	}
	return text;
}

} // namespace model
