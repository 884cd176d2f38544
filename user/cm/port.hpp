// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Numbers of queue pairs, and the TCP ports on which their peers find them. A process can't have the port that all
// hosts know, so the number tells the port: port << 8 | index. A port is that of a listener of the process, on all
// addresses; it is there from the first queue pair of its numbers until the last one goes.
#pragma once

#include <cstdint>

#include "endpoint.hpp"

namespace kiwu::port {

/// Numbers from here on tell their port; a number below is one of a module, and all hosts know its port.
inline constexpr std::uint32_t first_telling = 1024U << 8;

inline std::uint16_t of(std::uint32_t number)
{
	return static_cast<std::uint16_t>(number >> 8);
}

/// Takes a number that no queue pair of the process has. serve: takes the connections of peers. Returns 0 or an errno
/// value.
int take_number(std::uint32_t &number, Listener::Serve serve);
void give_back(std::uint32_t number);
/// In a child of fork(): the ports are its parent's.
void forget();

} // namespace kiwu::port
