// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Both ends of a Write-Record: the target, a sender by verbs, and segments that no kiwarp sends.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "datagram.hpp"
#include "kiwarpdv.h"
#include "udp.hpp"

namespace record {

using ud::End;
using ud::some_key;

/// Milliseconds until an incomplete message is reported, where a test doesn't wait for it
constexpr std::uint32_t patient = 20000;

struct TargetOptions {
	std::uint32_t timeout = patient;
	int completions = 512;
	std::uint32_t flags = KIWARPDV_QP_RECORD;
	std::uint32_t udp_port = 0;
};

/// The completion of a message
struct Arrival {
	ibv_wc_status status;
	ibv_wc_opcode opcode;
	kiwarpdv_record record;
};

/// The device kiw1 of the host right, with a queue pair that peers write through
class Target : public End {
public:
	explicit Target(const TargetOptions &options = {});

	/// The next completion, which must be that of a message.
	Arrival arrived() const;
	/// Nothing has arrived.
	bool quiet() const;
	std::uint64_t remote(std::size_t offset = 0) const { return memory().address(offset); }
	std::uint32_t rkey() const { return memory().rkey(); }
};

/// The device kiw0 of the host left
class Writer : public End {
public:
	explicit Writer(std::uint32_t seg_size = 0);

	/// Posts a Write of bytes of the memory; 0 or an errno value.
	int post(const ud::To &to, std::uint64_t remote, std::uint32_t rkey, std::size_t offset, std::size_t length,
		std::uint64_t id = 1) const;
	/// The same, and waits for its completion, which must be good.
	void write(const ud::To &to, std::uint64_t remote, std::uint32_t rkey, std::size_t offset,
		std::size_t length) const;
};

/// A message as a program with a plain socket may tell it
struct Forged {
	std::uint32_t rkey;
	std::uint64_t remote;
	std::uint32_t length;
	std::uint32_t seg_size;
	std::uint32_t id = 1;
	std::uint32_t key = some_key;
};

/// One of its segments, octet by octet as Documentation/datagram.md says
ud::Bytes segment(const Forged &message, std::uint32_t offset, std::uint8_t value);

/// Ranges as kiwarpdv tells them, relative to the message
using Ranges = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
Ranges holes(const kiwarpdv_record &record);
Ranges valid(const kiwarpdv_record &record);

} // namespace record
