// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the two ends of a lane tell each other: a Send of 32 octets, and up to 448 of the stream behind them. Offsets
// count the octets of one direction of the connection, from 0, the hello left out.
//
//   octet  0  kind         1 octet
//          1  answer       1 octet: 1 once the peer's ENTER has come, 0 before
//          2  length       2 octets: of what is behind
//          4  slots        2 octets: receive requests posted again since the last notice
//          6  0            2 octets
//          8  written      8 octets: the peer has the octets before this offset, in its ring or behind this notice
//         16  consumed     8 octets: the program has taken the peer's octets before this offset out of the ring
//         24  argument     8 octets: an offset, by kind
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiws {

struct Notice {
	enum Kind : std::uint8_t {
		news,	   // written, consumed and slots, as every notice has them
		enter,	   // octets from the argument on come by the lane
		leave,	   // octets from the argument on come by TCP again, for good, once ENTER was answered
		ask_leave, // the other end would like the peer to leave
		fin,	   // the argument is the end of this direction
		kinds,
	};
	static constexpr std::size_t header = 32, most = 448;

	Kind kind;
	bool answer;
	std::uint16_t length;
	std::uint16_t slots;
	std::uint64_t written, consumed, argument;

	void write(std::uint8_t *octets) const;
	/// Reads what came in size octets. Returns false if it is no notice.
	bool read(const std::uint8_t *octets, std::size_t size);
};

} // namespace kiws
