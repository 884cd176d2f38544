// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the user has set, by the variable KIWARP_USER; named as the module's parameters.
#pragma once

#include <cstdint>

namespace kiwu {

struct Options {
	enum Number : std::uint8_t { number_off, number_on, number_strict };

	bool crc = false;
	bool markers = false;
	std::uint8_t mpa_rev = 2;
	bool p2p = true;
	std::uint8_t rtr = 6;
	bool large = true;
	std::uint16_t receive_wait = 10;    // s
	std::uint16_t connect_timeout = 20; // s
	std::uint16_t mpa_timeout = 10;	    // s
	std::uint16_t keepalive = 0;	    // s; 0: none
	std::uint8_t number = number_on;    // connections by queue pair number
	bool check = false;		    // what isn't mapped any more ends its connection
	const char *stats = nullptr;	    // file for the counters when the process exits
};

inline constinit Options options;

/// Reads the variable, once. Returns false, after a line on stderr, if it says what there isn't.
bool read_options();

} // namespace kiwu
