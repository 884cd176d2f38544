// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Datagram queue pairs: peers write into regions, and the target gets a record of each message (Write-Record).
//
// Segments are placed in any order, as they arrive. A message completes once: when it is whole, or after a time without
// segments. Before its first byte is placed, a record and room for the completion are reserved, or it is dropped: no
// write is unrecorded. A message of one segment needs no record. No message completes twice, and none is written to
// after it completed.
//
// The lock of the queue pair protects it.
#pragma once

#include <array>
#include <cstdint>
#include <netinet/in.h>

#include "clock.hpp"
#include "proto/dgram.h"
#include "proto/record.h"
#include "session/session.h"

namespace kiwu {

/// Identity of a message
struct RecordKey {
	in6_addr from{}; // IPv4 as a mapped one
	std::uint32_t port = 0;
	std::uint32_t id = 0;

	bool is_from(const in6_addr &address, std::uint32_t of) const
	{
		return port == of && IN6_ARE_ADDR_EQUAL(&from, &address);
	}
};

class Records {
public:
	/// timeout: until an incomplete message completes, ms; 0: the default
	void open(kiw_core &core, std::uint32_t timeout);
	/// Places a segment, or drops it. Returns false: the completion queue is dead.
	bool take(const RecordKey &key, const kiw_dgram &d, const std::uint8_t *payload);
	/// Whether no message is incomplete
	bool none() const { return !incomplete_; }
	/// Incomplete messages complete when their time is over. Returns when to look again, or never.
	Time report_late(Time time);
	/// Incomplete messages complete as flushed.
	void flush();
	/// Incomplete messages are dropped without completions.
	void forget();

private:
	/// An incomplete message; free without a deadline
	struct Slot {
		RecordKey key;
		Time deadline = never;
		kiw_record record;
	};
	/// A sender of completed messages; never heard without a time
	struct Sender {
		in6_addr from;
		std::uint32_t port;
		Time last; // when the last of its messages completed
		kiw_past past;
	};

	Slot *find(const RecordKey &key);
	Slot *begin(const RecordKey &key, const kiw_dgram &d);
	bool is_past(const RecordKey &key) const;
	void remember(const RecordKey &key);
	void end(Slot &slot);
	bool may_write(const kiw_dgram_write &write) const;
	bool place(const kiw_dgram &d, const std::uint8_t *payload) const;
	bool report(const RecordKey &key, const kiw_record &record, ib_wc_status status);
	bool take_whole(const RecordKey &key, const kiw_dgram &d, const std::uint8_t *payload);
	bool take_segment(const RecordKey &key, const kiw_dgram &d, const std::uint8_t *payload);

	kiw_core *core_ = nullptr;
	Time timeout_ = 0;
	std::uint32_t incomplete_ = 0; // slots in use
	std::array<Slot, 64> slots_{};
	std::array<Sender, 256> senders_{};
};

} // namespace kiwu
