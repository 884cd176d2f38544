// SPDX-License-Identifier: GPL-2.0
// A connection as it is to be spoiled, and how it is passed on: fuzz_sessions writes, fuzz_replay reads.
#pragma once

#include <istream>
#include <ostream>

#include "script.hpp"

struct Session {
	// Ways to do it
	enum : uint8_t {
		stubborn = 1,  // CRC and markers as the script says, whatever was agreed
		resets = 2,    // RST instead of FIN
		impatient = 4, // doesn't wait for the other side's frame
	};
	uint8_t ways = 0;
	Bytes frame = {}; // start-up
	Script script = {};
};

// Length of all that follows (4), ways (1), length of the frame (2), frame, script
inline void write(std::ostream &out, const Session &s)
{
	const Bytes script = s.script.encode();
	Bytes b;

	put(b, 3 + s.frame.size() + script.size(), 4);
	put(b, s.ways, 1);
	put(b, s.frame.size(), 2);
	b = b + s.frame + script;
	out.write(reinterpret_cast<const char *>(b.data()), std::streamsize(b.size()));
}

// Nothing at the end
inline std::optional<Session> read(std::istream &in)
{
	uint8_t length[4];
	Session s;

	if (!in.read(reinterpret_cast<char *>(length), sizeof(length)))
		return std::nullopt;
	Bytes b(get(length, 4));
	if (b.size() < 3 || !in.read(reinterpret_cast<char *>(b.data()), std::streamsize(b.size())))
		return std::nullopt;
	s.ways = b[0];
	const size_t n = std::min<size_t>(get(&b[1], 2), b.size() - 3);
	s.frame.assign(b.begin() + 3, b.begin() + 3 + ptrdiff_t(n));
	s.script = Script::decode(model::Octets(b).subspan(3 + n));
	return s;
}
