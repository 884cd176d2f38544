// SPDX-License-Identifier: GPL-2.0
// The source of a receive machine, kept in memory: what a program of the tests binds to kmod/proto/receive.h. A machine
// that asks for bytes which aren't there ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/receive.h"

class MemorySource : public kiw_source {
public:
	explicit MemorySource(std::uint32_t position);
	MemorySource(const MemorySource &) = delete;
	MemorySource &operator=(const MemorySource &) = delete;

	// What comes behind the bytes that are there
	void add(std::span<const std::uint8_t> piece);

	// The next bytes, stepped over
	std::span<const std::uint8_t> take(std::uint32_t n);

	kiw_source *fork();
	void close();

private:
	MemorySource(const kiw_source &where, std::span<const std::uint8_t> there);

	std::vector<std::uint8_t> bytes;
	std::span<const std::uint8_t> next; // those from "seq" to "end"
	MemorySource *ahead = nullptr;
};
