// SPDX-License-Identifier: GPL-2.0
// FPDU streams with and without CRC and markers, cut anywhere: framing, headers and sequences of segments. The library
// as sender has to make the same octets as the model.
#include <algorithm>

#include "fuzz.hpp"
#include "receiver.hpp"
#include "script.hpp"

using library::finding, library::require;

static std::string list(const model::Outcome &o)
{
	std::string s = std::to_string(o.consumed) + " octets consumed\n";

	for (const auto &e : o.events)
		s += "  " + model::describe(e) + "\n";
	return s;
}

// The library may see earlier than it has to that a ULPDU is wrong: then no octets that may still come can make it
// right.
static bool only_earlier(
	const model::Outcome &library, const model::Outcome &model, model::Octets wire, const model::Receiver &r)
{
	if (library.events.size() != model.events.size() + 1 || !library.events.back().error)
		return false;
	const model::Fpdu f = model::take_fpdu(wire, model.consumed, r.base, r.markers);
	if (f.complete || !f.has_length)
		return false;
	for (const uint8_t filler : {0x00, 0xff}) {
		Bytes longer(wire.begin(), wire.end());
		longer.resize(wire.size() + 0x10100, filler);
		auto whole = model::receive(longer, r);
		if (whole.events.size() < library.events.size())
			return false;
		whole.events.resize(library.events.size());
		if (whole.events != library.events)
			return false;
	}
	return true;
}

static void receive(const Script &s, model::Octets wire)
{
	const model::Receiver r = s.receiver();
	library::Receiver receiver(r);
	Script::cut(wire, s.cuts, [&](model::Octets piece) { receiver.feed(piece); });
	const model::Outcome expected = model::receive(wire, r);

	if (receiver.outcome() != expected && !only_earlier(receiver.outcome(), expected, wire, r))
		finding("the library says\n" + list(receiver.outcome()) + "and the model\n" + list(expected));
}

static void send(const Script &s, const Bytes &wire)
{
	if (s.raw || s.damaged())
		return;
	require(library::send(s.ulpdus(), s.base, s.markers, s.crc) == wire,
		"the library doesn't send what the model sends");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const Script s = Script::decode({data, size});
	const Bytes wire = s.wire();

	receive(s, wire);
	send(s, wire);
	return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	Random random(seed);

	if (random() % 8 == 0)
		return LLVMFuzzerMutate(data, size, max);
	Script s = Script::decode({data, size});
	for (unsigned n = 1 + random() % 3; n; n--)
		mutate(s, random, [](Bytes &b) {
			const size_t n = b.size();
			b.resize(n + 32);
			b.resize(LLVMFuzzerMutate(b.data(), n, b.size()));
		});
	const Bytes changed = s.encode();
	const size_t n = std::min(changed.size(), max);
	std::copy_n(changed.begin(), n, data);
	return n;
}
