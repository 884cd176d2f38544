// SPDX-License-Identifier: GPL-2.0
// The receive machine of the protocol library, fed piece by piece, with results in the model's words.
#pragma once

#include "../proto/memory_source.hpp"
#include "model.hpp"
#include "proto/ddp.h"
#include "proto/fpdu.h"
#include "proto/mpa.h"
#include "proto/receive.h"
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

class Receiver : public kiw_receive {
public:
	explicit Receiver(const model::Receiver &r);
	// The next piece of the stream
	void feed(Octets piece);
	const model::Outcome &outcome() const { return so_far; }

	// The sink of its own machine
	kiw_err sink_begin();
	void sink_place(MemorySource &from, uint32_t done, uint32_t n);
	void sink_end();

private:
	kiw_err sequence();

	const model::Receiver config;
	MemorySource source;
	model::Outcome so_far;
	Bytes payload;
	unsigned receives, reads, atomics;
	unsigned calls = 0; // of the sink
	bool placing = false;
};

// What the library makes of these ULPDUs as a sender
Bytes send(const std::vector<Bytes> &ulpdus, uint32_t base, bool markers, bool crc);

} // namespace library
