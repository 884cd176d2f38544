// SPDX-License-Identifier: GPL-2.0
#include "script.hpp"

#include <algorithm>

static constexpr size_t header = 10, record_header = 6;
static constexpr size_t longest = size_t{72} * 1024; // no further ULPDU is sent then
enum Flag : uint8_t {
	with_crc_field = 0x01,
	with_marker_grid = 0x02,
	with_immediate = 0x04,
	with_atomics = 0x08,
	renumbered = 0x10,
	raw_octets = 0x20,
	repaired = 0x40,
};

Bytes Record::whole() const
{
	Bytes b = ulpdu;

	for (size_t i = 0; i < stuffing && b.size() < 0xffff; i++)
		b.push_back(uint8_t(i));
	return b;
}

Script Script::decode(model::Octets input)
{
	std::array<uint8_t, header> h = {};
	Script s;

	std::copy_n(input.begin(), std::min(input.size(), header), h.begin());
	s.crc = h[0] & with_crc_field;
	s.markers = h[0] & with_marker_grid;
	s.immediate = h[0] & with_immediate;
	s.atomics = h[0] & with_atomics;
	s.renumber = h[0] & renumbered;
	s.raw = h[0] & raw_octets;
	s.repair = h[0] & repaired;
	s.cuts = h[1];
	s.room = uint16_t(get(&h[2], 2));
	s.receives = h[4] >> 4;
	s.reads = h[4] & 0xf;
	s.base = uint32_t(get(&h[5], 4)) & ~3u;
	if (input.size() <= header)
		return s;
	input = input.subspan(header);
	if (s.raw) {
		s.octets.assign(input.begin(), input.end());
		return s;
	}
	while (input.size() >= record_header) {
		Record r;
		r.damage = Record::Damage(input[0] % Record::kinds);
		r.amount = input[1];
		r.stuffing = uint16_t(get(&input[2], 2));
		const size_t n = std::min<size_t>(get(&input[4], 2), input.size() - record_header);
		r.ulpdu.assign(input.begin() + record_header, input.begin() + record_header + ptrdiff_t(n));
		s.records.push_back(std::move(r));
		input = input.subspan(record_header + n);
	}
	return s;
}

Bytes Script::encode() const
{
	Bytes b = {uint8_t((crc ? with_crc_field : 0) | (markers ? with_marker_grid : 0) |
			   (immediate ? with_immediate : 0) | (atomics ? with_atomics : 0) |
			   (renumber ? renumbered : 0) | (raw ? raw_octets : 0) | (repair ? repaired : 0)),
		cuts};

	put(b, room, 2);
	put(b, uint8_t(receives << 4 | reads), 1);
	put(b, base, 4);
	put(b, 0, 1);
	if (raw)
		return b + octets;
	for (const Record &r : records) {
		put(b, r.damage, 1);
		put(b, r.amount, 1);
		put(b, r.stuffing, 2);
		put(b, r.ulpdu.size(), 2);
		b = b + r.ulpdu;
	}
	return b;
}

model::Receiver Script::receiver() const
{
	return {crc, markers, {immediate, atomics}, base, room, receives, reads, reads};
}

std::vector<Bytes> Script::ulpdus() const
{
	struct {
		uint32_t number = 1, offset = 0;
	} queues[4];
	std::vector<Bytes> all;

	size_t octets_so_far = 0;
	for (const Record &r : records) {
		if (octets_so_far > longest)
			break;
		Bytes u = r.whole();
		octets_so_far += u.size();
		if (renumber && r.damage != Record::number && u.size() >= 18 && !(u[0] & tagged)) {
			auto &q = queues[get(&u[6], 4) & 3];
			Bytes due;
			put(due, q.number, 4);
			put(due, q.offset, 4);
			std::copy(due.begin(), due.end(), u.begin() + 10);
			if (u[0] & last) {
				q.number++;
				q.offset = 0;
			} else {
				q.offset += uint32_t(u.size() - 18);
			}
		}
		all.push_back(std::move(u));
	}
	return all;
}

bool Script::damaged() const
{
	return std::any_of(records.begin(), records.end(),
		[](const Record &r) { return r.damage != Record::none && r.damage != Record::number; });
}

namespace {

// Writes a stream octet by octet; before each it looks whether a marker is due.
class Writer {
public:
	Writer(const Script &script) : s(script) {}

	void fpdu(const Bytes &ulpdu, const Record &r)
	{
		Bytes head;
		const size_t from = out.size();
		const size_t said = r.damage == Record::length ? ulpdu.size() + size_t(int8_t(r.amount)) : ulpdu.size();

		begun = false;
		put(head, said & 0xffff, 2);
		for (const uint8_t c : head)
			octet(c, r);
		for (const uint8_t c : ulpdu)
			octet(c, r);
		for (size_t n = 2 + ulpdu.size(); n % 4; n++)
			octet(r.damage == Record::pad ? r.amount : 0, r);
		marker(r);
		uint32_t crc = s.crc ? crc32c({out.begin() + ptrdiff_t(from), out.end()}) : 0;
		if (r.damage == Record::crc)
			crc ^= 1u << r.amount % 32;
		for (int i = 0; i < 4; i++)
			out.push_back(uint8_t(crc >> (8 * i)));
		if (r.damage == Record::short_of)
			out.resize(std::max(from, out.size() - std::min<size_t>(out.size(), r.amount)));
	}

	Bytes out;

private:
	void octet(uint8_t c, const Record &r)
	{
		marker(r);
		if (!begun)
			start = out.size();
		begun = true;
		out.push_back(c);
	}

	void marker(const Record &r)
	{
		if (!s.markers || (s.base + uint32_t(out.size())) % 512)
			return;
		size_t distance = begun ? out.size() - start : 0;
		if (r.damage == Record::pointer)
			distance += r.amount;
		put(out, r.damage == Record::marker_reserved ? r.amount * 0x101 : 0, 2);
		put(out, (distance | (r.damage == Record::marker_reserved ? r.amount & 3 : 0)) & 0xffff, 2);
	}

	const Script &s;
	size_t start = 0;
	bool begun = false;
};

// Overwrites markers and CRCs of what happens to be framed so
void make_right(Bytes &wire, const Script &s)
{
	for (size_t at = 0;;) {
		const model::Fpdu f = model::take_fpdu(wire, at, s.base, s.markers);
		if (!f.complete)
			return;
		for (const size_t where : f.markers_at) {
			Bytes m = {0, 0};
			put(m, where < f.start ? 0 : (where - f.start) & 0xffff, 2);
			std::copy(m.begin(), m.end(), wire.begin() + ptrdiff_t(where));
		}
		const uint32_t crc = crc32c({wire.begin() + ptrdiff_t(at), wire.begin() + ptrdiff_t(f.crc_at)});
		for (size_t i = 0; i < 4; i++)
			wire[f.crc_at + i] = uint8_t(crc >> (8 * i));
		at = f.end;
	}
}

} // namespace

Bytes Script::wire() const
{
	if (raw) {
		Bytes b = octets;
		if (repair)
			make_right(b, *this);
		return b;
	}
	Writer w(*this);
	const auto all = ulpdus();
	for (size_t i = 0; i < all.size(); i++)
		w.fpdu(all[i], records[i]);
	return w.out;
}

void Script::cut(model::Octets wire, uint8_t how, const std::function<void(model::Octets)> &piece)
{
	Random random(how);

	while (!wire.empty()) {
		size_t n = wire.size();
		if (how)
			n = std::min<size_t>(n, 1 + random() % how);
		piece(wire.first(n));
		wire = wire.subspan(n);
	}
}

// --- mutation ---

static void change_record(Record &r, Random &random, const std::function<void(Bytes &)> &octets)
{
	Bytes &u = r.ulpdu;

	switch (random() % 9) {
	case 0:
		octets(u);
		break;
	case 1:
		r.damage = Record::Damage(random() % Record::kinds);
		r.amount = uint8_t(random());
		break;
	case 2: // any length, near the ends of what there is as well
		r.stuffing = uint16_t(random() % 64 ? random() % 1500 : 0xffff - random() % 1000);
		break;
	case 3:
		r.stuffing = uint16_t(random() % 5);
		break;
	case 4: // L bit, T bit, versions
		if (!u.empty())
			u[0] ^= uint8_t(1u << random() % 8);
		break;
	case 5: // opcode, version
		if (u.size() > 1)
			u[1] = random() % 4 ? uint8_t(rdmap_1 | random() % 16) : uint8_t(random());
		break;
	case 6: // queue
		if (u.size() > 9)
			u[9] = uint8_t(random() % 5);
		break;
	case 7:
		u.resize(random() % 4 ? u.size() - std::min<size_t>(u.size(), random() % 4) : random() % 80);
		break;
	default: // a bit of a number, an offset, an STag
		if (!u.empty())
			u[random() % u.size()] ^= uint8_t(1u << random() % 8);
		break;
	}
}

void mutate(Script &s, Random &random, const std::function<void(Bytes &)> &octets)
{
	if (s.raw) {
		octets(s.octets);
		return;
	}
	auto &all = s.records;
	const size_t which = all.empty() ? 0 : random() % all.size();
	const auto at = all.begin() + ptrdiff_t(which);

	switch (random() % 12) {
	case 0:
		s.cuts = uint8_t(random());
		break;
	case 1:
		s.renumber = !s.renumber;
		break;
	case 2:
		s.room = uint16_t(random() % 3 ? random() % 2048 : random());
		if (!all.empty() && random() % 2) // just enough for one of them, or not
			s.room = uint16_t(all[which].whole().size() - 18 + random() % 3 - 1);
		s.receives = uint8_t(random() % 16);
		s.reads = uint8_t(random() % 16);
		break;
	case 3:
		if (random() % 2) // anywhere between two markers, or just before the wrap
			s.base = uint32_t(random() % 160) * 4u - 160u;
		else if (random() % 2)
			s.markers = !s.markers;
		else
			s.crc = !s.crc;
		break;
	case 4: // the same message once more
		if (!all.empty() && all.size() < 24)
			all.insert(at, Record(*at));
		break;
	case 5:
		if (!all.empty())
			all.erase(at);
		break;
	case 6:
		if (!all.empty())
			std::swap(all[which], all[random() % all.size()]);
		break;
	case 7: // two of the messages become one of two segments
		if (!all.empty() && all.size() < 24 && !at->ulpdu.empty()) {
			all.insert(at, Record(*at));
			all[which].ulpdu[0] &= uint8_t(~last);
		}
		break;
	default:
		if (!all.empty())
			change_record(all[which], random, octets);
		break;
	}
}
