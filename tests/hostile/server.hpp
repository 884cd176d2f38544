// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the peers that connect to a server have in common. The server is hostile_target.
#pragma once

#include "scenarios.hpp"

// What the target tells in its Reply about the region that we may use
struct Region {
	uint64_t address;
	uint32_t stag;
	uint32_t length;
	uint32_t read_only; // STags of the same memory with fewer rights
	uint32_t write_only;
};

inline Region start(Link &link, uint8_t flags = with_crc, bool asked = false)
{
	link.send(frame({.flags = flags}));
	Bytes reply = link.frame(reply_key);
	if (reply[16] & rejected || reply.size() != 20 + 24)
		throw Failure("the target didn't accept");
	if (asked != !!(reply[16] & with_markers))
		throw Failure(asked ? "the target doesn't ask for markers" : "the target asks for markers");
	return {get(&reply[20], 8), uint32_t(get(&reply[28], 4)), uint32_t(get(&reply[32], 4)),
		uint32_t(get(&reply[36], 4)), uint32_t(get(&reply[40], 4))};
}

// The target sends back what it gets.
inline void echo(Link &link, uint32_t number, const Bytes &message)
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

	const Bytes offender = make(region);
	link.send(fpdu(offender));
	link.must_terminate(layer, type, code, offender);
	link.finish();
	link.must_end();
}

inline const Bytes hello = {'h', 'e', 'l', 'l', 'o'};
inline const Bytes page(4096, 0x55);

constexpr const char *failed = "connects=1 stream_errors=1 terminates_sent=1";
