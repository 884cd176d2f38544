// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "allocation.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <link.h>

#ifdef SANITIZED
#define REAL(name) __interceptor_##name
#define REAL_ALIGNED __interceptor_aligned_alloc
#else
#define REAL(name) __libc_##name
#define REAL_ALIGNED __libc_memalign
#endif

extern "C" {
void *REAL(malloc)(std::size_t size);
void *REAL(calloc)(std::size_t n, std::size_t size);
void *REAL(realloc)(void *memory, std::size_t size);
void *REAL_ALIGNED(std::size_t alignment, std::size_t size);
}

namespace {

constinit std::atomic<int> until_failure = 0; // 0: none will fail
constinit std::atomic<bool> failed = false;
// Where the library's code lies
constinit std::uintptr_t code_begin = 0, code_end = 0;

int find_library(dl_phdr_info *info, std::size_t, void *)
{
	if (!std::strstr(info->dlpi_name, "libkiwarp-user"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) &part = info->dlpi_phdr[i];

		if (part.p_type == PT_LOAD && (part.p_flags & PF_X)) {
			code_begin = info->dlpi_addr + part.p_vaddr;
			code_end = code_begin + part.p_memsz;
		}
	}
	return 1;
}

bool fails(const void *caller)
{
	const auto address = reinterpret_cast<std::uintptr_t>(caller);

	if (!until_failure.load(std::memory_order_relaxed) || address < code_begin || address >= code_end)
		return false;
	int left = until_failure.load();
	while (left > 0)
		if (until_failure.compare_exchange_weak(left, left - 1)) {
			if (left > 1)
				return false;
			failed = true;
			errno = ENOMEM;
			return true;
		}
	return false;
}

} // namespace

extern "C" {

void *malloc(std::size_t size)
{
	return fails(__builtin_return_address(0)) ? nullptr : REAL(malloc)(size);
}

void *calloc(std::size_t n, std::size_t size)
{
	return fails(__builtin_return_address(0)) ? nullptr : REAL(calloc)(n, size);
}

void *realloc(void *memory, std::size_t size)
{
	return fails(__builtin_return_address(0)) ? nullptr : REAL(realloc)(memory, size);
}

void *aligned_alloc(std::size_t alignment, std::size_t size)
{
	return fails(__builtin_return_address(0)) ? nullptr : REAL_ALIGNED(alignment, size);
}
}

namespace user {

void fail_allocation(int n)
{
	if (!code_end)
		dl_iterate_phdr(find_library, nullptr);
	failed = false;
	until_failure = n;
}

bool allocation_failed()
{
	until_failure = 0;
	return failed;
}

} // namespace user
