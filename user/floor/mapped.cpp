// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mapped.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <sys/mman.h>

#include "sys.hpp"

namespace kiwu {

namespace {

// Since Linux 5.14
#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22, MADV_POPULATE_WRITE = 23;
#endif

} // namespace

std::size_t page_size()
{
	return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

bool is_mapped(const void *address, std::size_t length)
{
	constexpr std::size_t pages = 4096;
	static unsigned char ignored[pages];
	const std::uintptr_t page = page_size();
	std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address) / page * page;
	const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(address) + length;

	for (; at < end; at += pages * page)
		if (sys::call(SYS_mincore, at, std::min(end - at, pages * page), ignored) == -ENOMEM)
			return false;
	return true;
}

bool is_usable(const void *address, std::size_t length, bool written)
{
	const std::uintptr_t page = page_size();
	const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(address) / page * page;
	const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(address) + length;
	long error = 0;

	do
		error = sys::call(SYS_madvise, first, end - first, written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	while (error == -EINTR || error == -EAGAIN);
	// A kernel that doesn't know it, or memory of a device
	return error == -EINVAL ? is_mapped(address, length) : !error;
}

} // namespace kiwu
