// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// A mutex of four bytes. Without contention it takes one atomic operation to lock and one to unlock.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kiw {

class Lock {
public:
	Lock() = default;
	Lock(const Lock &) = delete;
	Lock &operator=(const Lock &) = delete;

	void lock()
	{
		std::uint32_t expected = free;

		if (!word_.compare_exchange_strong(
			    expected, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
			lock_contended();
	}

	/// Waits until a time of CLOCK_MONOTONIC. Returns 0, or ETIMEDOUT or EINTR without the lock.
	int lock_until(const timespec &until)
	{
		std::uint32_t expected = free;

		if (word_.compare_exchange_strong(expected, held, std::memory_order_acquire, std::memory_order_relaxed))
			return 0;
		// A woken thread always retries: no other one was woken.
		while (word_.exchange(wanted, std::memory_order_acquire) != free)
			if (::syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET_PRIVATE, wanted, &until, nullptr,
				    FUTEX_BITSET_MATCH_ANY) &&
				errno != EAGAIN)
				return errno;
		return 0;
	}

	void unlock()
	{
		if (word_.exchange(free, std::memory_order_release) == wanted) [[unlikely]]
			wake();
	}

private:
	enum : std::uint32_t {
		free,
		held,
		wanted, // held, and another thread may be asleep
	};

	// Holders write a few slots: spin briefly before sleeping.
	static constexpr int spins = 100;

	[[gnu::cold, gnu::noinline]] void lock_contended()
	{
		for (int i = 0; i < spins; i++) {
			std::uint32_t expected = free;

			if (word_.compare_exchange_weak(
				    expected, held, std::memory_order_acquire, std::memory_order_relaxed))
				return;
			pause();
		}
		while (word_.exchange(wanted, std::memory_order_acquire) != free)
			::syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, wanted, nullptr, nullptr, 0);
	}

	[[gnu::cold, gnu::noinline]] void wake()
	{
		::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
	}

	static void pause()
	{
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		asm volatile("yield");
#endif
	}

	std::atomic<std::uint32_t> word_ = free;
};

static_assert(sizeof(Lock) == sizeof(std::uint32_t));

class [[nodiscard]] Guard {
public:
	explicit Guard(Lock &lock) : lock_(lock) { lock_.lock(); }
	~Guard() { lock_.unlock(); }
	Guard(const Guard &) = delete;
	Guard &operator=(const Guard &) = delete;

private:
	Lock &lock_;
};

} // namespace kiw
