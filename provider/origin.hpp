// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Where an object comes from: this process, or the parent that it was forked from.
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

/// The process that an object was made by.
///
/// A child of fork(2) inherits all objects, but no ring, and its descriptor is the parent's open file: a command from
/// the child would destroy the parent's objects in the kernel. A process has one page that the kernel clears for such a
/// child, whatever made it, and that holds the process's number: a glance tells. The page stays for as long as the
/// process, since some destroy objects after they have closed the device. A child of vfork(2) runs in its parent's
/// memory, and is the parent.
class Origin {
public:
	Origin() = default;
	Origin(const Origin &other) { *this = other; }
	Origin &operator=(const Origin &other)
	{
		number_.store(other.number_.load(std::memory_order_relaxed), std::memory_order_release);
		return *this;
	}
	~Origin() = default;

	/// Makes this process the origin: what was done before is seen by threads that don't find the object inherited.
	/// Returns 0 or an errno value. From any thread.
	int open()
	{
		if (const int error = need_page())
			return error;
		Number &own = process()->number;
		std::uint32_t number = own.load(std::memory_order_relaxed);

		// A parent's number is never given again: the counter isn't cleared.
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

	/// For threads of a child that make what they inherited their own; another object must have been opened. A
	/// child finds it free, whichever thread of the parent held it.
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
