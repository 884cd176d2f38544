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

namespace kiw {

/// A mark of the process that opened a device, copied into what is made on it.
///
/// A child of fork(2) inherits all objects, but no ring, and its descriptor is the parent's open file: a command from
/// the child would destroy the parent's objects in the kernel. The mark is in memory that the kernel clears for such a
/// child, whatever made it, so a glance tells. A child of vfork(2) runs in its parent's memory, and is the parent.
class Origin {
public:
	/// Returns 0 or an errno value.
	int open()
	{
		void *page = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			return errno;
		if (::madvise(page, size(), MADV_WIPEONFORK)) {
			const int error = errno;

			::munmap(page, size());
			return error;
		}
		mark_ = ::new (page) Mark(1);
		return 0;
	}
	void close() { ::munmap(mark_, size()); }

	bool inherited() const { return mark_->load(std::memory_order_relaxed) == 0; }

private:
	using Mark = std::atomic<std::uint32_t>;
	static_assert(Mark::is_always_lock_free);

	static std::size_t size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

	Mark *mark_ = nullptr;
};

} // namespace kiw
