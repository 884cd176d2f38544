// SPDX-License-Identifier: GPL-2.0
#include <algorithm>

#include "model.hpp"

namespace model {

static constexpr uint16_t unset = 0x3fff; // "not for MPA to negotiate"

static uint8_t large_bit(bool reply)
{
	return reply ? 0x02 : 0x04;
}

static uint8_t extension_bit(bool reply)
{
	return reply ? 0x01 : 0x08;
}

Startup startup(Octets stream, bool reply)
{
	const auto key = reply ? reply_key : request_key;
	Startup s;

	for (size_t i = 0; i < key.size() && i < stream.size(); i++)
		if (stream[i] != uint8_t(key[i]))
			s.malformed = bad_key;
	if (s.malformed || stream.size() < 20)
		return s;

	const uint8_t flags = stream[16];
	const auto length = size_t(get(&stream[18], 2));
	StartFrame f;
	f.reply = reply;
	f.revision = stream[17];
	f.markers = flags & 0x80;
	f.crc = flags & 0x40;
	f.reject = reply && flags & 0x20;
	f.enhanced = f.revision == 2 && flags & 0x10; // reserved in revision 1
	f.large = flags & large_bit(reply);
	f.extensions = flags & extension_bit(reply);

	if (f.revision != 1 && f.revision != 2)
		s.malformed |= bad_revision;
	if (length > 512)
		s.malformed |= bad_length;
	if (f.enhanced && length < 4)
		s.malformed |= bad_word;
	if (s.malformed || stream.size() < 20 + length)
		return s;

	f.data.assign(stream.begin() + 20, stream.begin() + 20 + ptrdiff_t(length));
	if (f.enhanced) {
		const auto word = uint32_t(get(f.data.data(), 4));
		f.data.erase(f.data.begin(), f.data.begin() + 4);
		f.ird = word >> 16 & 0x3fff;
		f.ord = word & 0x3fff;
		f.peer_to_peer = word >> 31;
		if (f.peer_to_peer) // else the other three mean nothing
			f.rtr = (word & 0x40000000 ? by_send : 0) | (word & 0x8000 ? by_write : 0) |
				(word & 0x4000 ? by_read : 0);
	}
	s.frame = f;
	s.consumed = 20 + length;
	return s;
}

Bytes encode(const StartFrame &f)
{
	const auto key = f.reply ? reply_key : request_key;
	Bytes b(key.begin(), key.end());

	b.push_back((f.markers ? 0x80 : 0) | (f.crc ? 0x40 : 0) | (f.reject ? 0x20 : 0) | (f.enhanced ? 0x10 : 0) |
		    (f.large ? large_bit(f.reply) : 0) | (f.extensions ? extension_bit(f.reply) : 0));
	b.push_back(f.revision);
	put(b, f.data.size() + (f.enhanced ? 4 : 0), 2);
	if (f.enhanced) {
		uint32_t word = uint32_t(f.ird) << 16 | f.ord;
		if (f.peer_to_peer)
			word |= 0x80000000 | (f.rtr & by_send ? 0x40000000 : 0) | (f.rtr & by_write ? 0x8000 : 0) |
				(f.rtr & by_read ? 0x4000 : 0);
		put(b, word, 4);
	}
	return b + f.data;
}

StartFrame request(const Wishes &own)
{
	StartFrame f;

	f.revision = own.revision;
	f.crc = own.crc;
	f.markers = own.markers;
	f.large = own.large;
	f.extensions = own.extensions;
	f.enhanced = own.revision == 2;
	if (!f.enhanced)
		return f;
	f.peer_to_peer = own.peer_to_peer;
	f.rtr = own.peer_to_peer ? own.rtr : 0;
	f.ird = own.ird;
	f.ord = own.ord;
	if (f.rtr & by_read && f.ord == 0)
		f.ord = 1; // a Read that opens the stream is a Read
	return f;
}

// RFC 5044 section 7.1.1: the tables of C and M
static Terms common(const StartFrame &own, const StartFrame &peer)
{
	Terms t;

	t.revision = own.reply ? own.revision : peer.revision;
	t.crc = own.crc | peer.crc;
	t.markers_out = peer.markers;
	t.markers_in = own.markers;
	t.large = own.large & peer.large;
	t.extensions = own.extensions & peer.extensions;
	t.peer_ird = peer.enhanced ? peer.ird : unset;
	t.peer_ord = peer.enhanced ? peer.ord : unset;
	return t;
}

Settled answer(const Wishes &own, const StartFrame &request)
{
	Settled s;
	StartFrame &f = s.own;
	int ird = own.ird;
	int ird_max = std::max(own.ird, own.ird_max);
	int ord = own.ord;

	s.frame = request.revision > own.revision;
	f.reply = true;
	f.revision = request.revision;
	f.crc = own.crc || request.crc;
	f.markers = own.markers;
	f.large = own.large && request.large;
	f.extensions = own.extensions && request.extensions;
	f.enhanced = request.enhanced;
	f.peer_to_peer = request.peer_to_peer;
	if (f.peer_to_peer) {
		f.rtr = own.rtr & request.rtr;
		if (!f.rtr)
			f.rtr = own.rtr; // at least one, even where none matches
		if (f.rtr & by_read && ird < 1)
			ird = 1;
		if (ird_max < ird)
			ird_max = ird;
	}
	if (request.enhanced) {
		// Room for all that the peer may ask for, if there is so much
		if (request.ord != unset)
			while (ird < request.ord && ird < ird_max)
				ird++;
		s.ird = request.ord != unset && request.ord > ird;
		// Never more of ours than the peer can hold
		if (request.ird != unset)
			while (ord > request.ird)
				ord--;
		f.ird = request.ord == unset ? unset : uint16_t(ird);
		f.ord = request.ird == unset ? unset : uint16_t(ord);
	}
	s.terms = common(f, request);
	s.terms.enhanced = f.enhanced;
	s.terms.peer_to_peer = f.peer_to_peer;
	s.terms.rtr = f.rtr;
	s.terms.ird = uint16_t(ird);
	s.terms.ord = uint16_t(ord);
	return s;
}

Settled conclude(const Wishes &own, const StartFrame &request, const StartFrame &reply)
{
	Settled s;
	Terms &t = s.terms;

	s.own = request;
	t = common(request, reply);
	t.enhanced = request.enhanced;
	t.peer_to_peer = request.peer_to_peer;
	t.ird = request.enhanced ? request.ird : own.ird;
	t.ord = request.enhanced ? request.ord : own.ord;
	s.frame = request.enhanced != reply.enhanced || reply.revision > request.revision;
	if (s.frame || !request.enhanced)
		return s;

	if (reply.ird != unset)
		while (t.ord > reply.ird)
			t.ord--;
	s.ird = reply.ord != unset && reply.ord > t.ird;
	if (!request.peer_to_peer)
		return s;
	const uint8_t common_rtr = request.rtr & reply.rtr;
	if (common_rtr & by_write)
		t.rtr = by_write;
	else if (common_rtr & by_read && t.ord > 0)
		t.rtr = by_read;
	else if (common_rtr & by_send)
		t.rtr = by_send;
	s.rtr = t.rtr == 0;
	return s;
}

} // namespace model
