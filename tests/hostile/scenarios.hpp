// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the hostile peer does.
#pragma once

#include <span>

#include "../wire/link.hpp"

struct Scenario {
	const char *name;
	void (*run)(Link &link);
	// Counters that move, "NAME=BY..."; a last "*" allows for others
	const char *counters;
	const char *about;
};

extern const std::span<const Scenario> towards_server;
extern const std::span<const Scenario> towards_server_markers;
extern const std::span<const Scenario> towards_server_segments;
extern const std::span<const Scenario> towards_client;
