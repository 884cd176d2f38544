// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The process that made an object: this one, or the parent that it was forked from.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#include "lock.hpp"

namespace kiw {

/// The process that made an object.
///
/// A child of fork(2) inherits all objects, but no ring, and its descriptor is the parent's open file: its commands
/// would destroy the parent's objects in the kernel. One page of a process holds the process's number, and the kernel
/// clears it in a child, however made. The page stays until the process ends, since some destroy objects after closing
/// the device. A child of vfork(2) runs in its parent's memory and counts as the parent.
class Origin {
public:
	Origin() = default;
	Origin(const Origin &other) { *this = other; }
	// NOLINTNEXTLINE(cert-oop54-cpp): of itself it is a store of what is there
	Origin &operator=(const Origin &other)
	{
		number_.store(other.number_.load(std::memory_order_relaxed), std::memory_order_release);
		return *this;
	}
	~Origin() = default;

	/// Makes this process the origin. Threads that do not find the object inherited see all earlier stores. Returns
	/// 0 or an errno value. From any thread.
	int open()
	{
		if (const int error = need_page())
			return error;
		Number &own = process()->number;
		std::uint32_t number = own.load(std::memory_order_relaxed);

		// A parent's number is not reused: the counter isn't cleared.
		while (number == 0) {
			const std::uint32_t next = numbers_.fetch_add(1, std::memory_order_relaxed) + 1;

			if (own.compare_exchange_strong(number, next, std::memory_order_relaxed))
				number = next;
		}
		number_.store(number, std::memory_order_release);
		return 0;
	}

	bool inherited() const
	{
		return process()->number.load(std::memory_order_relaxed) != number_.load(std::memory_order_acquire);
	}

	/// Lock for threads of a child that take over inherited objects; another object must have been opened. Free in
	/// a new child, even if a thread of the parent held it.
	static Lock &heirs() { return process()->heirs; }

private:
	using Number = std::atomic<std::uint32_t>;
	static_assert(Number::is_always_lock_free);

	/// Zeros, in a new page and in a child
	struct Process {
		Number number = 0;
		Lock heirs;
	};

	static Process *process() { return page_.load(std::memory_order_relaxed); }

	static int need_page()
	{
		if (page_.load(std::memory_order_acquire))
			return 0;
		const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
		void *page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		Process *none = nullptr;

		if (page == MAP_FAILED)
			return errno;
		if (::madvise(page, size, MADV_WIPEONFORK)) {
			const int error = errno;

			::munmap(page, size);
			return error;
		}
		// Another thread may have been faster.
		if (!page_.compare_exchange_strong(none, ::new (page) Process, std::memory_order_acq_rel))
			::munmap(page, size);
		return 0;
	}

	static inline std::atomic<Process *> page_ = nullptr;
	static inline Number numbers_ = 0;

	Number number_ = 0;
};

} // namespace kiw
