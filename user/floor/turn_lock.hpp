// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The lock of a stream. It isn't fair: a thread that retakes it in a loop must ask wanted() in between, and yield.
#pragma once

#include <atomic>
#include <cstdint>

#include "lock.hpp"

namespace kiwu {

class TurnLock {
public:
	bool try_lock()
	{
		std::uint32_t expected = free;

		return word_.compare_exchange_strong(
			expected, held, std::memory_order_acquire, std::memory_order_relaxed);
	}

	void lock()
	{
		if (try_lock()) [[likely]]
			return;
		waiting_.fetch_add(1, std::memory_order_relaxed);
		wait();
		waiting_.fetch_sub(1, std::memory_order_relaxed);
	}

	void unlock()
	{
		if (word_.exchange(free, std::memory_order_release) == contended) [[unlikely]]
			::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
	}

	/// Whether another thread waits for it.
	bool wanted() const { return waiting_.load(std::memory_order_relaxed); }

	/// For assertions: whether any thread has it.
	bool is_held() const { return word_.load(std::memory_order_relaxed) != free; }

private:
	enum : std::uint32_t {
		free,
		held,
		contended, // held, and another thread may be asleep
	};

	// A holder makes a system call or two: a thread spins for about as long before it sleeps.
	static constexpr int spins = 200;

	[[gnu::cold, gnu::noinline]] void wait()
	{
		for (int i = 0; i < spins; i++) {
			if (word_.load(std::memory_order_relaxed) == free && try_lock())
				return;
#if defined(__x86_64__) || defined(__i386__)
			__builtin_ia32_pause();
#elif defined(__aarch64__)
			asm volatile("yield");
#endif
		}
		while (word_.exchange(contended, std::memory_order_acquire) != free)
			::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, contended, nullptr, nullptr, 0);
	}

	std::atomic<std::uint32_t> word_ = free;
	std::atomic<std::uint32_t> waiting_ = 0;
};

/// Holds a TurnLock for a scope.
class [[nodiscard]] Turn {
public:
	explicit Turn(TurnLock &lock) : lock_(lock) { lock_.lock(); }
	~Turn() { lock_.unlock(); }
	Turn(const Turn &) = delete;
	Turn &operator=(const Turn &) = delete;

private:
	TurnLock &lock_;
};

} // namespace kiwu
