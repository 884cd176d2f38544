// SPDX-License-Identifier: GPL-2.0
// The protocol library put together as the module does it, fed piece by piece, with results in the model's words.
#pragma once

#include "model.hpp"
#include "proto/ddp.h"
#include "proto/fpdu.h"
#include "proto/mpa.h"
#include "proto/term.h"

namespace library {

using model::Octets;

// Ends the process as a finding
[[noreturn]] void finding(const std::string &what);
void require(bool holds, const char *what);

model::Error error(kiw_err err);
model::Segment segment(const kiw_seg &seg);
// Nothing if the library says so. Reads from a buffer that ends where the octets do.
std::optional<model::Terminate> terminate(Octets ulpdu);
uint32_t caps(const model::Caps &caps);

class Receiver {
public:
	explicit Receiver(const model::Receiver &r);
	// The next piece of the stream
	void feed(Octets piece);
	const model::Outcome &outcome() const { return so_far; }

private:
	enum class Step { more, on, over };
	Step verified_fpdu();
	Step length();
	Step headers();
	Step payload();
	Step begin();
	Step end();
	Step fail(kiw_err err);
	kiw_err sequence();

	const model::Receiver config;
	Bytes waiting; // arrived and not consumed
	model::Outcome so_far;
	bool over = false;
	enum { at_length, at_headers, at_payload, at_trailer } stage = at_length;
	uint32_t offset; // of the FPDU under way, on the markers' grid
	uint32_t ulpdu_len = 0;
	Bytes ulpdu; // what there is of it
	kiw_seg seg = {};
	kiw_seq seq[KIW_QN_COUNT];
	unsigned receives, reads, atomics;
	bool placing = false;
};

// What the library makes of these ULPDUs as a sender
Bytes send(const std::vector<Bytes> &ulpdus, uint32_t base, bool markers, bool crc);

} // namespace library
