// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What the user has set, by the variable KIWARP_USER or while the program runs; named as the module's parameters. A
// start-up uses what is set when it begins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kiwu {

struct Options {
	enum Number : std::uint8_t { number_off, number_on, number_strict };

	std::atomic<bool> crc = false;
	std::atomic<bool> markers = false;
	std::atomic<std::uint8_t> mpa_rev = 2;
	std::atomic<bool> p2p = true;
	std::atomic<std::uint8_t> rtr = 6;
	std::atomic<bool> large = true;
	std::atomic<std::uint16_t> receive_wait = 10;	 // s
	std::atomic<std::uint16_t> connect_timeout = 20; // s
	std::atomic<std::uint16_t> mpa_timeout = 10;	 // s
	std::atomic<std::uint16_t> keepalive = 0;	 // s; 0: none
	std::atomic<std::uint8_t> number = number_on;	 // connections by queue pair number
	std::atomic<bool> check = false;		 // what isn't mapped any more ends its connection
	std::atomic<bool> prefer = false;		 // in front of the kernel's devices
	std::atomic<bool> roce = false;			 // shown as an InfiniBand device on Ethernet
	const char *stats = nullptr;			 // file for the counters when the process exits
};

inline constinit Options options;

/// Reads the variable, once. Returns false, after a line on stderr, if it says what there isn't.
bool read_options();

/// The value of an option as text; of one that is a file's name it can't be told. Returns 0, ENOENT or ENOSPC.
int get_option(std::string_view name, char *text, std::size_t size);
/// Returns 0, ENOENT, or EINVAL for a value that the option doesn't take. A file's name can't be changed.
int set_option(std::string_view name, std::string_view text);

} // namespace kiwu
