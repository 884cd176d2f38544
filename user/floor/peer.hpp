// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The peer of a queue pair that connects by number: the program's attributes. What the queue pair does with them, and
// how it detects the peer's loss, is in peer.cpp.
#pragma once

#include <cstdint>
#include <netinet/in.h>

#include "clock.hpp"
#include "proto/number.h"

namespace kiwu {

/// Other attributes of a peer, as the program set them
struct Path {
	std::uint32_t flow_label = 0;
	std::uint8_t traffic_class = 0;
	std::uint8_t hop_limit = 0;
	std::uint8_t mtu = 0;
	std::uint8_t timeout = 0;
	std::uint8_t retry_cnt = 0;
	std::uint8_t rnr_retry = 0;
	std::uint8_t min_rnr_timer = 0;
};

/// The only queue pair to which a queue pair connects by number. The lock of the queue pair protects it.
struct Peer {
	in6_addr local{}; ///< one of the host's; IPv4 as a mapped one
	in6_addr remote{};
	std::uint32_t interface = 0; ///< of a link-local address
	kiw_number ends{};
	std::uint8_t gid_index = 0;
	Path path;
	std::uint16_t ird = 0, ord = 0; ///< most outstanding Reads of the peer, and of this end
	bool over = false;		///< its connection has ended: there is no other before RESET
	bool limited = false;		///< the peer's statement, see struct kiw_number
	bool untold = false;		///< connected, and the peer expects a sq_psn that the program hasn't set yet
	bool begun = false;		///< IBV_EVENT_COMM_EST was raised
	std::uint32_t told_psn = 0;	///< that PSN
	Time patient_until = never;	///< requests wait for the connection
	Time look_at = never;		///< when its silence is looked at
	Time silent_since = 0;
	bool probed = false; ///< TCP probes for it
};

/// Has TCP look whether a silent peer is there. seconds: 0: never
void keep_alive(int fd, int seconds);

} // namespace kiwu
