// SPDX-License-Identifier: GPL-2.0
#include "memory_source.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "proto/crc.h"

[[noreturn]] static void misused(const char *what)
{
	std::fprintf(stderr, "FINDING: the receive machine %s\n", what);
	std::abort();
}

static MemorySource &memory(kiw_source *src)
{
	return *static_cast<MemorySource *>(src);
}

MemorySource::MemorySource(std::uint32_t position) : kiw_source{position, position} {}

MemorySource::MemorySource(const kiw_source &where, std::span<const std::uint8_t> there)
	: kiw_source(where),
	  next(there)
{
}

void MemorySource::add(std::span<const std::uint8_t> piece)
{
	const std::size_t left = next.size();

	// Moved rarely, so that streams of many small pieces take linear time.
	if (bytes.size() > 2 * left)
		bytes.erase(bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(left));
	bytes.insert(bytes.end(), piece.begin(), piece.end());
	next = std::span<const std::uint8_t>(bytes).last(left + piece.size());
	end += static_cast<std::uint32_t>(piece.size());
}

std::span<const std::uint8_t> MemorySource::take(std::uint32_t n)
{
	if (n > next.size())
		misused("takes bytes that aren't there");
	const auto taken = next.first(n);

	next = next.subspan(n);
	seq += n;
	return taken;
}

kiw_source *MemorySource::fork()
{
	if (ahead)
		misused("forks a source twice");
	ahead = new MemorySource(*this, next);
	ahead->ahead = this;
	return ahead;
}

void MemorySource::close()
{
	if (!ahead)
		misused("closes a source that it didn't fork");
	ahead->ahead = nullptr;
	delete this;
}

std::uint32_t kiw_source_copy(kiw_source *src, void *to, std::uint32_t n)
{
	const auto taken = memory(src).take(min_t(std::uint32_t, n, kiw_source_left(src)));

	if (!taken.empty())
		std::memcpy(to, taken.data(), taken.size());
	return static_cast<std::uint32_t>(taken.size());
}

void kiw_source_drop(kiw_source *src, std::uint32_t n)
{
	memory(src).take(n);
}

std::uint32_t kiw_source_crc(kiw_source *src, std::uint32_t crc, std::uint32_t n)
{
	const auto taken = memory(src).take(n);

	return kiw_crc_update(crc, taken.data(), taken.size());
}

kiw_source *kiw_source_fork(kiw_source *src)
{
	return memory(src).fork();
}

void kiw_source_close(kiw_source *src)
{
	memory(src).close();
}
